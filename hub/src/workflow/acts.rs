//! Steps that act outside of the fleet, and the step that goes back: what is asked for, and what came of it.

use super::{
    Effect, backoff,
    run::Run,
    spec::{Action, At, Step},
    times::later,
    values::referenced,
};
use crate::action::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::application::{ActStep, ActionProperties, StepPhase, StepReason, WaitStep};
use std::collections::BTreeMap;

impl<'a> Run<'a> {
    /// What came of the present execution of a step. Where nothing has yet, it is asked for once it is due.
    pub(super) fn came(&mut self, step: &'a Step, at: At) -> Option<(u32, &'a Outcome)> {
        let state = self.seen(at)?;
        let attempt = state.attempt.unwrap_or(1);
        let came = self.evidence.actions.get(&step.name);
        if let Some(came) = came.filter(|came| came.attempt == attempt) {
            return Some((attempt, &came.outcome));
        }
        let since = state.last_execute_time.as_ref().map_or(self.now, |time| time.0);
        let waits = match self.evidence.changed.contains(&step.name) {
            // It is looked at soon, and not more often than it would be at first.
            true => 1,
            false => state.looks.or(state.retries).unwrap_or(attempt.saturating_sub(1)),
        };
        let due = match attempt {
            0 | 1 => self.now,
            _ => later(since, backoff::wait(waits, self.spec.limits.max_wait)),
        };
        match self.now < due {
            true => self.wake_at(due),
            false => self.ask(step, at, attempt),
        }
        None
    }

    pub(super) fn judge_act(&mut self, step: &'a Step, at: At) {
        let Some((attempt, outcome)) = self.came(step, at) else {
            return;
        };
        match outcome {
            Outcome::Done { output } => self.finish(step, at, Some(output.clone())),
            Outcome::Waiting { message } => {
                self.next_attempt(at, attempt);
                let now = self.now;
                if let Some(state) = self.state(at) {
                    (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
                    state.message = Some(message.clone());
                    state.retries = None;
                    state.last_execute_time = Some(Time(now));
                }
                self.wake_in(backoff::wait(attempt, self.spec.limits.max_wait));
            }
            Outcome::Failed { message, output } => {
                self.next_attempt(at, attempt);
                let kept = output
                    .as_ref()
                    .and_then(|output| referenced(output, &step.referenced));
                if self.keep(at, BTreeMap::new(), kept) {
                    self.retry(at, message.clone());
                }
            }
        }
    }

    pub(super) fn next_attempt(&mut self, at: At, attempt: u32) {
        if let Some(state) = self.state(at) {
            state.attempt = Some(attempt.saturating_add(1));
        }
    }

    /// Asks for an execution, its inputs put in.
    pub(super) fn ask(&mut self, step: &'a Step, at: At, attempt: u32) {
        let read = match &step.action {
            Action::Wait(WaitStep::Object { object, .. }) => Ok(ActionProperties::LookAt(object.clone())),
            Action::Act(ActStep {
                action: Some(action), ..
            }) => Ok(action.clone()),
            Action::Act(act) => self.filled(step, &act.properties).and_then(|filled| {
                ActionProperties::read(&step.type_, &filled).map_err(|violations| {
                    let first = violations.first().map(ToString::to_string);
                    format!(
                        "with its inputs the step is refused: {}",
                        first.unwrap_or_default()
                    )
                })
            }),
            _ => return,
        };
        match read {
            Ok(action) => self.effects.push(Effect::Act {
                step: step.name.clone(),
                attempt,
                action,
            }),
            Err(why) => self.fail(at, StepReason::Input, why),
        }
    }

    pub(super) fn judge_rollback(&mut self, at: At, to: Option<&str>) {
        let Some(revision) = to.or(self.evidence.delivered.as_deref()) else {
            let message = "no revision was delivered whole yet: there is nothing to go back to".to_owned();
            return self.fail(at, StepReason::Action, message);
        };
        if revision == self.spec.revision {
            let message = format!(
                "revision {revision} is the one that is being delivered: there is nothing to go back to"
            );
            return self.fail(at, StepReason::Action, message);
        }
        if !self.evidence.revisions.contains(revision) {
            let message = format!("there is no revision {revision} of this application (any more)");
            return self.fail(at, StepReason::Action, message);
        }
        let revision = revision.to_owned();
        self.wait(at, format!("going back to revision {revision}"), None);
        self.effects.push(Effect::RollBack { revision });
    }
}
