//! Steps that act outside of the fleet, and the step that goes back: what is asked for, and what came of it.

use super::{
    Effect, backoff,
    run::Run,
    spec::{Action, At, Step},
    times::later,
    values::referenced,
};
use crate::action::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{ActStep, ActionProperties, StepPhase, StepReason, StepStatus, WaitStep};
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
            false => state.retries.unwrap_or(attempt.saturating_sub(1)),
        };
        let due = match attempt {
            0 | 1 => self.now,
            // The clock has jumped back: when it was is not known.
            _ if since > self.now => self.now,
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
                    state.last_execute_time = Some(MicroTime(now));
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
            Action::Rollback { to } => {
                if let Ok(revision) = self.way_back(to.as_deref()) {
                    self.effects.push(Effect::RollBack {
                        step: step.name.clone(),
                        attempt,
                        revision,
                    });
                }
                return;
            }
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

    /// A step that goes back is over when the run is: the earlier content is delivered by a run of its own.
    pub(super) fn judge_rollback(&mut self, step: &'a Step, at: At, to: Option<&str>) {
        let revision = match self.way_back(to) {
            Ok(revision) => revision,
            Err(why) => return self.fail(at, StepReason::Action, why),
        };
        match self.came(step, at) {
            Some((attempt, Outcome::Failed { message, .. } | Outcome::Waiting { message })) => {
                self.next_attempt(at, attempt);
                self.retry(at, message.clone());
            }
            // The new spec is on its way.
            Some((_, Outcome::Done { .. })) | None => {
                let again = self.seen(at).is_some_and(StepStatus::is_retried);
                if !again {
                    self.wait(at, format!("going back to revision {revision}"), None);
                }
            }
        }
    }

    /// The revision that the application goes back to.
    fn way_back(&self, to: Option<&str>) -> Result<String, String> {
        let Some(revision) = to.or(self.evidence.delivered.as_deref()) else {
            return Err("no revision was delivered whole yet: there is nothing to go back to".to_owned());
        };
        if revision == self.spec.revision {
            return Err(format!(
                "revision {revision} is the one that is being delivered: there is nothing to go back to"
            ));
        }
        if !self.evidence.revisions.contains(revision) {
            return Err(format!(
                "there is no revision {revision} of this application (any more)"
            ));
        }
        Ok(revision.to_owned())
    }
}
