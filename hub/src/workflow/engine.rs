//! The engine: one pure function from (spec, status, evidence, time) to (status, effects).

use super::{
    Command, Effect, Evidence, Spec, Status, backoff,
    run::{PAUSED, Run, pending},
    spec::Action,
    times::{later, whole},
};
use crate::words;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{
    ApplicationPhase, NextTry, StepPhase, StepReason, StepStatus, TERMINATED, WorkflowStatus,
};
use std::collections::BTreeSet;

/// Longest message of a step or of the run, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Advances a run by what is known now.
///
/// A step that is started in a call is not judged in it: evidence in hand was gathered before. Calling again with the same
/// arguments and the returned status changes nothing more until the evidence, the time or the status changes.
pub fn advance(spec: &Spec, status: &Status, evidence: &Evidence, now: Timestamp) -> (Status, Vec<Effect>) {
    let mut run = Run::of(spec, status, evidence, now);
    run.unsay_unknown();
    run.begin_by_now();
    match Command::read(spec, status) {
        Command::Start => run.begin(),
        Command::RestartFrom(step) => {
            run.restart(&step);
            run.proceed();
        }
        Command::Terminate => run.terminate(),
        Command::Pause => run.pause(),
        Command::Resume => run.resume(),
        // Paused by a hub that did not mark it.
        Command::Continue if run.is_paused() => run.pause(),
        Command::Continue => run.proceed(),
        Command::Rest => run.rest(),
    }
    run.note_runs();
    run.say_unknown();
    if let Some(after) = run.wake {
        run.effects.push(Effect::Wake { after });
    }
    run.workflow.step_index = u32::try_from(run.workflow.present_step()).unwrap_or(u32::MAX);
    run.workflow.current = current(&run.workflow);
    run.describe_tries();
    bound_messages(&mut run.workflow);
    let status = Status {
        phase: run.phase,
        workflow: Some(run.workflow),
    };
    (status, run.effects)
}

impl<'a> Run<'a> {
    pub(super) fn of(spec: &'a Spec, status: &Status, evidence: &'a Evidence, now: Timestamp) -> Run<'a> {
        Run {
            spec,
            evidence,
            now,
            phase: status.phase,
            workflow: status.workflow.clone().unwrap_or_default(),
            effects: Vec::new(),
            judged: BTreeSet::new(),
            wake: None,
        }
    }
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
            run: Some(self.next_run()),
            start_time: Some(whole(self.now)),
            steps: self.spec.steps.iter().map(pending).collect(),
            ..WorkflowStatus::default()
        };
        self.proceed();
    }

    /// What tells a run that begins now from all before.
    pub(super) fn next_run(&self) -> i64 {
        let now = self.now.as_millisecond();
        self.workflow
            .run
            .map_or(now, |last| now.max(last.saturating_add(1)))
    }

    /// Executions of a step that acts are those of the run that started it.
    fn note_runs(&mut self) {
        let run = self.workflow.run;
        each(&mut self.workflow, |step| {
            if step.attempt.is_some() && step.run.is_none() {
                step.run = run;
            }
        });
    }

    fn settle_groups(&mut self) {
        for at in self.spec.places() {
            if self.spec.at(at).is_some_and(|step| !step.inner().is_empty()) {
                self.settle_group(at);
            }
        }
    }

    /// Whether a person has paused the run, whatever its steps do.
    fn is_paused(&self) -> bool {
        self.workflow.paused || (self.workflow.suspend && self.paused_steps().next().is_some())
    }

    /// A user's pause, and every look at a run that is paused: nothing goes on but the time, what was dispatched is kept as
    /// it is.
    fn pause(&mut self) {
        if self.is_paused() {
            for at in self.spec.places() {
                self.time_out(at);
            }
            self.settle_groups();
            if self.workflow.steps.iter().all(StepStatus::is_over) {
                return self.conclude();
            }
        }
        let leaves: Vec<_> = self.leaves().collect();
        let at_work = |run: &Run<'_>, at| {
            run.seen(at).is_some_and(|state| {
                matches!(state.phase, StepPhase::Running | StepPhase::Failed) && !state.is_over()
            })
        };
        let mut paused: Vec<_> = leaves.iter().copied().filter(|at| at_work(self, *at)).collect();
        let suspended = |at: &_| {
            self.seen(*at)
                .is_some_and(|state| state.phase == StepPhase::Suspending)
        };
        // Between two steps the one that comes next shows the pause.
        if paused.is_empty() && !leaves.iter().any(suspended) {
            let asks = |at: &_| self.spec.at(*at).is_some_and(|step| step.action.asks());
            // One that asks for approval would show that.
            let open = |at: &&_| self.seen(**at).is_some_and(|state| !state.is_over()) && !asks(*at);
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
        self.workflow.paused = true;
        self.workflow.status = Some(StepPhase::Suspending);
        self.workflow.message = Some(PAUSED.to_owned());
        self.phase = Some(ApplicationPhase::WorkflowSuspending);
        self.effects.push(Effect::Keep);
        for at in self.spec.places() {
            self.wake_at_end(at);
        }
    }

    /// A user's `suspend: false`. Who ends a pause has approved nothing: a step that suspends goes on suspending.
    fn resume(&mut self) {
        if self.workflow.paused || self.paused_steps().next().is_some() {
            self.workflow.paused = false;
            self.resume_paused();
            return self.proceed();
        }
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
            } else if self.awaits_approval(at) {
                self.approve(at);
            }
        }
        self.proceed();
    }

    /// Says of each step that is tried again when that is, for people.
    fn describe_tries(&mut self) {
        let limits = self.spec.limits;
        let describe = |state: &mut StepStatus| {
            let retries = state.retries.filter(|_| state.is_retried());
            let next = retries
                .zip(state.last_execute_time.as_ref())
                .map(|(retries, last)| NextTry {
                    at: whole(later(last.0, backoff::wait(retries, limits.max_wait))),
                    number: retries.saturating_add(1),
                    of: limits.max_retries.saturating_add(1),
                });
            state.next_try = next;
        };
        each(&mut self.workflow, describe);
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
                state.last_execute_time = Some(MicroTime(now));
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
        self.settle_groups();
        self.workflow.terminated = true;
        let (namespace, name) = &self.spec.application;
        let restart = words::command("restart", namespace, name);
        self.workflow.message = Some(format!("{TERMINATED}{restart} starts it again"));
        self.end(StepPhase::Failed, ApplicationPhase::WorkflowTerminated);
    }
}

/// Visits every step, also those in groups.
pub(super) fn each(workflow: &mut WorkflowStatus, visit: impl Fn(&mut StepStatus)) {
    for step in &mut workflow.steps {
        visit(step);
        step.sub_steps.iter_mut().for_each(&visit);
    }
}

/// Cuts what steps and the run say, which others may have written, at [`MAX_MESSAGE`] bytes.
fn bound_messages(workflow: &mut WorkflowStatus) {
    let bound = |message: &mut Option<String>| {
        if let Some(message) = message.as_mut().filter(|message| message.len() > MAX_MESSAGE) {
            let end = message.floor_char_boundary(MAX_MESSAGE - '…'.len_utf8());
            message.truncate(end);
            message.push('…');
        }
    };
    bound(&mut workflow.message);
    each(workflow, |step| bound(&mut step.message));
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
