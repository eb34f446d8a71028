//! How a run stands as a whole, and how it ends.

use super::{
    Effect,
    run::Run,
    spec::{Action, Step, state_at},
    times::{later, whole},
};
use roundhouse_api::application::{
    ApplicationPhase, ClusterVerb, StepPhase, StepReason, StepStatus, WaitFor,
};

/// What a run says that ended because a step failed too often (the seed's words).
pub const TERMINATED_BY_FAILURE: &str =
    "The workflow terminates automatically because the failed times of steps have reached the limit";

/// What a suspended run says where its step says nothing.
fn awaiting(step: Option<&Step>, state: &StepStatus) -> String {
    let until = match step.map(|step| &step.action) {
        Some(Action::Suspend(suspend)) => suspend.duration.zip(state.first_execute_time.as_ref()),
        _ => None,
    };
    let whom = match until {
        Some((duration, began)) => format!("until {} or for a person", whole(later(began.0, duration)).0),
        None => "for a person".to_owned(),
    };
    format!("waiting {whom}: set status.workflow.suspend to false to go on")
}

impl Run<'_> {
    /// Says how the run stands after its steps were looked at.
    pub(super) fn conclude(&mut self) {
        if self.workflow.steps.iter().all(StepStatus::is_over) {
            return self.complete();
        }
        let message = self.spec.places().into_iter().find_map(|at| {
            let state = state_at(&self.workflow, at).filter(|state| state.phase == StepPhase::Suspending)?;
            let message = state.message.clone();
            Some(message.unwrap_or_else(|| awaiting(self.spec.at(at), state)))
        });
        if let Some(message) = message {
            self.workflow.suspend = true;
            self.workflow.status = Some(StepPhase::Suspending);
            self.workflow.message = Some(message);
            self.phase = Some(ApplicationPhase::WorkflowSuspending);
            if !self
                .effects
                .iter()
                .any(|effect| matches!(effect, Effect::Dispatch { .. }))
            {
                self.effects.insert(0, Effect::Keep);
            }
            return;
        }
        self.workflow.suspend = false;
        self.workflow.status = Some(StepPhase::Running);
        self.phase = Some(ApplicationPhase::RunningWorkflow);
        let at_work = |state: &&StepStatus| {
            state.sub_steps.is_empty() && !state.is_over() && state.phase != StepPhase::Pending
        };
        let message = self
            .workflow
            .all_steps()
            .filter(at_work)
            .find_map(|state| state.message.clone());
        self.workflow.message = message;
    }

    /// Whether a run that did not succeed was ended, by a person or a step, or has failed: the rule of [`Self::complete`], for one
    /// that is over.
    fn failed_as(&self) -> ApplicationPhase {
        match self.ended_by().is_some() || self.workflow.was_terminated_by_a_person() {
            true => ApplicationPhase::WorkflowTerminated,
            false => ApplicationPhase::WorkflowFailed,
        }
    }

    /// Every step is over.
    fn complete(&mut self) {
        if let Some(by) = self.ended_by() {
            let why = self.workflow.step(by).and_then(|state| state.message.clone());
            let message = format!("ended by step {by}: {}", why.unwrap_or_default());
            self.workflow.terminated = true;
            self.workflow.message = Some(message);
            return self.end(StepPhase::Failed, ApplicationPhase::WorkflowTerminated);
        }
        if let Some(message) = self.failure() {
            self.workflow.terminated = true;
            self.workflow.message = Some(message);
            return self.end(StepPhase::Failed, ApplicationPhase::WorkflowFailed);
        }
        self.workflow.message = None;
        self.end(StepPhase::Succeeded, ApplicationPhase::RunningWorkflow);
        self.rest();
    }

    /// What a run says in which a step has failed.
    fn failure(&self) -> Option<String> {
        let failed = || {
            let all = self.workflow.all_steps();
            all.filter(|state| state.phase == StepPhase::Failed)
        };
        let too_often = |state: &StepStatus| state.reason == Some(StepReason::FailedAfterRetries);
        if failed().any(too_often) {
            return Some(TERMINATED_BY_FAILURE.to_owned());
        }
        // A group whose time was up may have no step that failed.
        let first = failed()
            .find(|state| state.sub_steps.is_empty())
            .or(failed().next())?;
        let message = first.message.as_deref().unwrap_or_default();
        Some(format!("step {} failed: {message}", first.name))
    }

    pub(super) fn end(&mut self, outcome: StepPhase, phase: ApplicationPhase) {
        self.workflow.status = Some(outcome);
        self.workflow.suspend = false;
        self.workflow.paused = false;
        self.workflow.finished = true;
        self.workflow.end_time = Some(whole(self.now));
        self.phase = Some(phase);
        self.wake = None;
    }

    /// A finished run: only the phase of a delivered application follows its health. What was refused meanwhile and is accepted
    /// again stands where its run has ended.
    pub(super) fn rest(&mut self) {
        if self.workflow.status != Some(StepPhase::Succeeded) {
            let ended = [
                ApplicationPhase::WorkflowFailed,
                ApplicationPhase::WorkflowTerminated,
            ];
            if self.phase.is_none_or(|phase| !ended.contains(&phase)) {
                self.phase = Some(self.failed_as());
            }
            return self.effects.push(Effect::Keep);
        }
        // A run whose steps did not wait for readiness is judged by readiness all the same.
        let mut placing = self.leaves().filter_map(|at| self.spec.at(at).zip(self.seen(at)));
        let healthy = placing.all(|(step, state)| {
            let evidence = match &step.action {
                Action::Deploy(_) => self.evidence.steps.get(&step.name),
                // What a run has read is no longer looked at.
                Action::ClusterObject { object, .. } if object.verb == ClusterVerb::Apply => {
                    self.evidence.objects.get(&step.name)
                }
                _ => return true,
            };
            state.phase != StepPhase::Succeeded
                || evidence.is_some_and(|evidence| evidence.passes(WaitFor::Ready))
        });
        self.phase = Some(match healthy {
            true => ApplicationPhase::Running,
            false => ApplicationPhase::Unhealthy,
        });
        self.effects.push(Effect::Refresh);
        self.effects.push(Effect::CollectGarbage);
    }
}
