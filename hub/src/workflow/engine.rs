//! The engine: one pure function from (spec, status, evidence, time) to (status, effects).

use super::{Action, Command, Effect, Evidence, Spec, Status, Step, StepEvidence, backoff, waiting};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::application::{
    ApplicationPhase, StepPhase, StepReason, StepStatus, WaitFor, WorkflowStatus,
};

/// What a run says that ended because a step failed too often (the seed's words).
pub const TERMINATED_BY_FAILURE: &str =
    "The workflow terminates automatically because the failed times of steps have reached the limit";
const PAUSED: &str = "paused: set status.workflow.suspend to false to go on";
const AWAITING: &str = "waiting for a person: set status.workflow.suspend to false to go on";

/// Advances a run by what is known now.
///
/// At most one step is started in a call, and a step that was started in this call is not judged in it: evidence in
/// hand was gathered before. Calling again with the same arguments and the returned status changes nothing more until
/// the evidence, the time or the status changes.
pub fn advance(spec: &Spec, status: &Status, evidence: &Evidence, now: Timestamp) -> (Status, Vec<Effect>) {
    let mut run = Run {
        spec,
        evidence,
        now,
        phase: status.phase,
        workflow: status.workflow.clone().unwrap_or_default(),
        effects: Vec::new(),
    };
    match Command::read(spec, status) {
        Command::Start => run.start(),
        Command::Terminate => run.terminate(),
        Command::Pause => run.pause(),
        Command::Resume => run.resume(),
        Command::Continue if run.workflow.suspend => run.hold(),
        Command::Continue => run.step(),
        Command::Rest => run.rest(),
    }
    run.workflow.step_index = u32::try_from(run.workflow.present_step()).unwrap_or(u32::MAX);
    run.workflow.current = current(&run.workflow);
    let status = Status {
        phase: run.phase,
        workflow: Some(run.workflow),
    };
    (status, run.effects)
}

struct Run<'a> {
    spec: &'a Spec,
    evidence: &'a Evidence,
    now: Timestamp,
    phase: Option<ApplicationPhase>,
    workflow: WorkflowStatus,
    effects: Vec<Effect>,
}

impl Run<'_> {
    fn start(&mut self) {
        self.phase = Some(ApplicationPhase::RunningWorkflow);
        self.workflow = WorkflowStatus {
            app_revision: Some(self.spec.revision.clone()),
            generation: Some(self.spec.generation),
            status: Some(StepPhase::Running),
            // The fencing epoch may never decrease, whatever else is new.
            epoch: self.workflow.epoch,
            start_time: Some(Time(self.now)),
            steps: self
                .spec
                .steps
                .iter()
                .map(|step| StepStatus {
                    name: step.name.clone(),
                    type_: step.type_.clone(),
                    ..StepStatus::default()
                })
                .collect(),
            ..WorkflowStatus::default()
        };
        self.begin(0);
    }

    /// Starts the step at `index`, or ends the run behind the last one.
    fn begin(&mut self, index: usize) {
        self.workflow.message = None;
        let Some((step, state)) = self.spec.steps.get(index).zip(self.workflow.steps.get_mut(index)) else {
            return self.succeed();
        };
        state.first_execute_time = Some(Time(self.now));
        match &step.action {
            Action::Deploy { .. } => {
                state.phase = StepPhase::Running;
                state.reason = Some(StepReason::Wait);
                state.last_execute_time = Some(Time(self.now));
                self.effects.push(Effect::Dispatch {
                    step: step.name.clone(),
                });
            }
            Action::Suspend { message } => {
                state.phase = StepPhase::Suspending;
                state.reason = Some(StepReason::Suspend);
                state.message = message.clone();
                let text = message.clone().unwrap_or_else(|| AWAITING.to_owned());
                self.suspend(text);
            }
        }
    }

    fn suspend(&mut self, message: String) {
        self.workflow.suspend = true;
        self.workflow.status = Some(StepPhase::Suspending);
        self.workflow.message = Some(message);
        self.phase = Some(ApplicationPhase::WorkflowSuspending);
    }

    /// Nothing goes on while suspended; what was dispatched is kept as it is.
    fn hold(&mut self) {
        self.phase = Some(ApplicationPhase::WorkflowSuspending);
        self.effects.push(Effect::Keep);
    }

    /// A user's `suspend: true`.
    fn pause(&mut self) {
        if let Some((_, state)) = self.present() {
            state.phase = StepPhase::Suspending;
            state.reason = Some(StepReason::Suspend);
            state.message = Some(PAUSED.to_owned());
        }
        self.suspend(PAUSED.to_owned());
    }

    fn resume(&mut self) {
        let now = self.now;
        self.workflow.status = Some(StepPhase::Running);
        self.workflow.message = None;
        self.phase = Some(ApplicationPhase::RunningWorkflow);
        let index = self.index();
        let Some((step, state)) = self.present() else {
            return self.succeed();
        };
        match step.action {
            Action::Suspend { .. } => {
                state.phase = StepPhase::Succeeded;
                state.reason = None;
                self.begin(index + 1);
            }
            Action::Deploy { .. } => {
                state.phase = StepPhase::Running;
                state.reason = Some(StepReason::Wait);
                state.message = None;
                state.last_execute_time = Some(Time(now));
                let step = step.name.clone();
                self.effects.push(Effect::Dispatch { step });
            }
        }
    }

    fn terminate(&mut self) {
        let index = self.index();
        for (n, state) in self.workflow.steps.iter_mut().enumerate().skip(index) {
            (state.phase, state.reason) = match n == index {
                true => (StepPhase::Failed, Some(StepReason::Terminate)),
                false => (StepPhase::Skipped, Some(StepReason::Skip)),
            };
        }
        self.workflow.message = Some("terminated: set status.workflow to {} to start again".to_owned());
        self.end(StepPhase::Failed, ApplicationPhase::WorkflowTerminated);
    }

    fn succeed(&mut self) {
        self.workflow.message = None;
        self.end(StepPhase::Succeeded, ApplicationPhase::RunningWorkflow);
        self.rest();
    }

    fn fail(&mut self) {
        let index = self.index();
        for state in self.workflow.steps.iter_mut().skip(index + 1) {
            state.phase = StepPhase::Skipped;
            state.reason = Some(StepReason::Skip);
        }
        self.workflow.terminated = true;
        self.workflow.message = Some(TERMINATED_BY_FAILURE.to_owned());
        self.end(StepPhase::Failed, ApplicationPhase::WorkflowFailed);
    }

    fn end(&mut self, outcome: StepPhase, phase: ApplicationPhase) {
        self.workflow.status = Some(outcome);
        self.workflow.suspend = false;
        self.workflow.finished = true;
        self.workflow.end_time = Some(Time(self.now));
        self.phase = Some(phase);
    }

    /// A finished run: only the phase of a delivered application follows its health.
    fn rest(&mut self) {
        if self.workflow.status != Some(StepPhase::Succeeded) {
            return self.effects.push(Effect::Keep);
        }
        // A run whose steps did not wait for readiness is judged by readiness all the same.
        let healthy = self.deploy_steps().all(|(step, _)| {
            let evidence = self.evidence.steps.get(&step.name);
            evidence.is_some_and(|evidence| evidence.passes(WaitFor::Ready))
        });
        self.phase = Some(match healthy {
            true => ApplicationPhase::Running,
            false => ApplicationPhase::Unhealthy,
        });
        self.effects.push(Effect::Refresh);
        self.effects.push(Effect::CollectGarbage);
    }

    /// The step that runs.
    fn step(&mut self) {
        let (index, now, limits) = (self.index(), self.now, self.spec.limits);
        let evidence = self.evidence;
        let Some((step, state)) = self.present() else {
            return self.succeed();
        };
        let wait = match (&step.action, state.phase) {
            (Action::Deploy { wait }, StepPhase::Running | StepPhase::Failed) => *wait,
            (_, StepPhase::Succeeded | StepPhase::Skipped) => return self.begin(index + 1),
            // Pending, or a phase that this step cannot be in: it was never started.
            _ => return self.begin(index),
        };
        let name = step.name.clone();
        self.effects.push(Effect::Dispatch { step: name.clone() });
        let Some(evidence) = evidence.steps.get(&name) else {
            return self.wake(now);
        };
        if let StepEvidence::Refused { message } = evidence {
            return self.refused(message.clone());
        }
        let Some((_, state)) = self.present() else {
            return;
        };
        if evidence.passes(wait) {
            state.phase = StepPhase::Succeeded;
            state.reason = None;
            state.message = None;
            state.progress = None;
            state.retries = None;
            return self.begin(index + 1);
        }
        state.phase = StepPhase::Running;
        state.reason = Some(StepReason::Wait);
        state.retries = None;
        let digest = Some(evidence.digest());
        if state.progress != digest {
            state.progress = digest;
            state.last_execute_time = Some(Time(now));
        }
        let since = state.last_execute_time.as_ref().map_or(now, |time| time.0);
        let message = Some(waiting(evidence, wait));
        state.message.clone_from(&message);
        self.workflow.message = message;
        let after = backoff::until_next_look(since, now, limits.max_wait);
        self.effects.push(Effect::Wake { after });
    }

    /// The step cannot be carried out: counted and tried again, up to the limit.
    fn refused(&mut self, message: String) {
        let (now, limits) = (self.now, self.spec.limits);
        let Some((_, state)) = self.present() else {
            return;
        };
        let tries = state.retries.unwrap_or(0);
        let last = state.last_execute_time.as_ref().map_or(now, |time| time.0);
        let due = last
            .checked_add(backoff::wait(tries.max(1), limits.max_wait))
            .unwrap_or(Timestamp::MAX);
        if tries > 0 && now < due {
            let after = std::time::Duration::try_from(due.duration_since(now)).unwrap_or_default();
            return self.effects.push(Effect::Wake { after });
        }
        state.message = Some(message.clone());
        state.phase = StepPhase::Failed;
        state.progress = None;
        if tries >= limits.max_retries {
            state.reason = Some(StepReason::FailedAfterRetries);
            return self.fail();
        }
        state.reason = Some(StepReason::Execute);
        state.retries = Some(tries + 1);
        state.last_execute_time = Some(Time(now));
        self.workflow.message = Some(message);
        let after = backoff::wait(tries + 1, limits.max_wait);
        self.effects.push(Effect::Wake { after });
    }

    fn wake(&mut self, now: Timestamp) {
        let since = self
            .present()
            .and_then(|(_, state)| state.last_execute_time.clone());
        let after = backoff::until_next_look(since.map_or(now, |t| t.0), now, self.spec.limits.max_wait);
        self.effects.push(Effect::Wake { after });
    }

    fn deploy_steps(&self) -> impl Iterator<Item = (&Step, &StepStatus)> {
        let steps = self.spec.steps.iter().zip(&self.workflow.steps);
        steps.filter(|(step, _)| matches!(step.action, Action::Deploy { .. }))
    }

    fn index(&self) -> usize {
        self.workflow.present_step()
    }

    fn present(&mut self) -> Option<(&Step, &mut StepStatus)> {
        let index = self.index();
        self.spec.steps.get(index).zip(self.workflow.steps.get_mut(index))
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
