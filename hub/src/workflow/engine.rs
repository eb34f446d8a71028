//! The engine: one pure function from (spec, status, evidence, time) to (status, effects).

use super::{
    Command, Effect, Evidence, Spec, Status,
    run::{PAUSED, Run, pending},
    spec::Action,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::application::{ApplicationPhase, StepPhase, StepReason, WorkflowStatus};
use std::collections::BTreeSet;

/// Advances a run by what is known now.
///
/// A step that is started in a call is not judged in it: evidence in hand was gathered before. Calling again with the same
/// arguments and the returned status changes nothing more until the evidence, the time or the status changes.
pub fn advance(spec: &Spec, status: &Status, evidence: &Evidence, now: Timestamp) -> (Status, Vec<Effect>) {
    let mut run = Run {
        spec,
        evidence,
        now,
        phase: status.phase,
        workflow: status.workflow.clone().unwrap_or_default(),
        effects: Vec::new(),
        judged: BTreeSet::new(),
        wake: None,
    };
    match Command::read(spec, status) {
        Command::Start => run.begin(),
        Command::RestartFrom(step) => {
            run.restart(&step);
            match run.workflow.finished {
                true => run.rest(),
                false => run.proceed(),
            }
        }
        Command::Terminate => run.terminate(),
        Command::Pause => run.pause(),
        Command::Resume => run.resume(),
        Command::Continue if run.is_paused() => run.hold(),
        Command::Continue => run.proceed(),
        Command::Rest => run.rest(),
    }
    if let Some(after) = run.wake {
        run.effects.push(Effect::Wake { after });
    }
    run.workflow.step_index = u32::try_from(run.workflow.present_step()).unwrap_or(u32::MAX);
    run.workflow.current = current(&run.workflow);
    let status = Status {
        phase: run.phase,
        workflow: Some(run.workflow),
    };
    (status, run.effects)
}

impl Run<'_> {
    fn begin(&mut self) {
        self.phase = Some(ApplicationPhase::RunningWorkflow);
        self.workflow = WorkflowStatus {
            app_revision: Some(self.spec.revision.clone()),
            generation: Some(self.spec.generation),
            status: Some(StepPhase::Running),
            // The fencing epoch may never decrease, whatever else is new.
            epoch: self.workflow.epoch,
            start_time: Some(Time(self.now)),
            steps: self.spec.steps.iter().map(pending).collect(),
            ..WorkflowStatus::default()
        };
        self.proceed();
    }

    /// Whether a person has paused the run, and not a step.
    fn is_paused(&self) -> bool {
        self.workflow.suspend && self.paused_steps().next().is_some()
    }

    /// Nothing goes on while paused but the time; what was dispatched is kept as it is.
    fn hold(&mut self) {
        self.phase = Some(ApplicationPhase::WorkflowSuspending);
        for at in self.spec.places() {
            self.time_out(at);
        }
        if self.paused_steps().next().is_none() {
            return self.proceed();
        }
        self.effects.push(Effect::Keep);
    }

    /// A user's `suspend: true`.
    fn pause(&mut self) {
        let leaves: Vec<_> = self.leaves().collect();
        let at_work = |run: &Run<'_>, at| {
            run.seen(at).is_some_and(|state| {
                matches!(state.phase, StepPhase::Running | StepPhase::Failed) && !state.is_over()
            })
        };
        let mut paused: Vec<_> = leaves.iter().copied().filter(|at| at_work(self, *at)).collect();
        if paused.is_empty() {
            let open = |at: &&_| self.seen(**at).is_some_and(|state| !state.is_over());
            paused.extend(leaves.iter().find(open).copied());
        }
        for at in paused {
            if let Some(state) = self.state(at) {
                state.phase = StepPhase::Suspending;
                state.reason = Some(StepReason::Suspend);
                state.message = Some(PAUSED.to_owned());
            }
        }
        self.workflow.suspend = true;
        self.workflow.status = Some(StepPhase::Suspending);
        self.workflow.message = Some(PAUSED.to_owned());
        self.phase = Some(ApplicationPhase::WorkflowSuspending);
        self.effects.push(Effect::Keep);
    }

    fn resume(&mut self) {
        for at in self.leaves().collect::<Vec<_>>() {
            let suspends = self
                .spec
                .at(at)
                .is_some_and(|step| matches!(step.action, Action::Suspend(_)));
            let suspended = self
                .seen(at)
                .is_some_and(|state| state.phase == StepPhase::Suspending);
            if suspends && suspended {
                self.succeed(at);
            }
        }
        self.resume_paused();
        self.proceed();
    }

    /// Steps that a person paused go on.
    pub(super) fn resume_paused(&mut self) {
        let now = self.now;
        for at in self.paused_steps().collect::<Vec<_>>() {
            if let Some(state) = self.state(at) {
                state.message = None;
                if state.first_execute_time.is_none() {
                    (state.phase, state.reason) = (StepPhase::Pending, None);
                    continue;
                }
                (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
                state.last_execute_time = Some(Time(now));
            }
            let step = self.spec.at(at);
            if let Some(step) = step.filter(|step| step.action.dispatches()) {
                // What was gathered while it was paused is of the fleet of that time.
                self.judged.insert(at);
                self.effects.push(Effect::Dispatch {
                    step: step.name.clone(),
                });
            }
        }
    }

    fn terminate(&mut self) {
        let leaves: Vec<_> = self.leaves().collect();
        let mut terminated = false;
        let mut open = Vec::new();
        for at in leaves {
            let Some(state) = self.state(at) else { continue };
            if state.is_over() {
                continue;
            }
            if state.phase == StepPhase::Pending {
                open.push(at);
                continue;
            }
            terminated = true;
            (state.phase, state.reason) = (StepPhase::Failed, Some(StepReason::Terminate));
        }
        for at in open {
            let Some(state) = self.state(at) else { continue };
            // Between two steps the one that comes next is the one that is stopped.
            (state.phase, state.reason) = match std::mem::replace(&mut terminated, true) {
                true => (StepPhase::Skipped, Some(StepReason::Skip)),
                false => (StepPhase::Failed, Some(StepReason::Terminate)),
            };
        }
        for at in self.spec.places() {
            if self.spec.at(at).is_some_and(|step| !step.inner().is_empty()) {
                self.settle_group(at);
            }
        }
        self.workflow.terminated = true;
        self.workflow.message = Some("terminated: set status.workflow to {} to start again".to_owned());
        self.end(StepPhase::Failed, ApplicationPhase::WorkflowTerminated);
    }
}

/// `<name> (<done>/<all>)`, for people.
fn current(workflow: &WorkflowStatus) -> Option<String> {
    let all = workflow.steps.len();
    let index = workflow.present_step().min(all);
    match workflow.steps.get(index) {
        Some(step) => Some(format!("{} ({index}/{all})", step.name)),
        None => workflow
            .steps
            .last()
            .map(|step| format!("{} ({all}/{all})", step.name)),
    }
}
