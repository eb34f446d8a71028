//! Whether a step starts, and what it does first.

use super::{
    Effect,
    run::Run,
    spec::{Action, At, Deploy, Step},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{Condition, ExportStep, StepPhase, StepReason, StepStatus, WaitStep};
use std::collections::BTreeMap;

/// What a step says that asks for approval (KubeVela's `auto: false`).
const ASKS: &str = "waiting for approval before it dispatches (auto: false)";

/// Whether a step starts.
pub(super) enum Start {
    /// It does.
    Now,
    /// What comes before it is not over.
    NotYet,
    /// It is passed over, and why.
    Never(String),
}

impl<'a> Run<'a> {
    /// Whether a pending step starts.
    pub(super) fn admission(&self, step: &Step, at: At) -> Start {
        match (self.asked_for(step, at), &step.action) {
            (Start::Now, Action::ClusterObject { object, .. }) => match self.never_applied(object) {
                Some(why) => Start::Never(why),
                None => Start::Now,
            },
            (start, _) => start,
        }
    }

    /// Whether it is a pending step's turn, and it is wanted.
    fn asked_for(&self, step: &Step, at: At) -> Start {
        let list = match at.inner {
            None => self.workflow.steps.as_slice(),
            Some(_) => self
                .workflow
                .steps
                .get(at.index)
                .map_or(&[][..], |group| group.sub_steps.as_slice()),
        };
        let after = || step.after.iter().filter_map(|index| list.get(*index));
        if !after().all(StepStatus::is_over) {
            return Start::NotYet;
        }
        match &step.condition {
            Some(Condition::Always) => return Start::Now,
            _ if self.ended_by().is_some() => {
                let by = self.ended_by().unwrap_or_default();
                return Start::Never(format!("the workflow was ended by step {by}"));
            }
            Some(Condition::When(expression)) => {
                return match self.holds(expression, step, Vec::new()) {
                    Ok(true) => Start::Now,
                    Ok(false) => Start::Never(format!("if: {expression} does not hold")),
                    Err(why) => Start::Never(format!("if: {expression}: {why}")),
                };
            }
            None => {}
        }
        let stops = |state: &&StepStatus| match step.strict {
            true => state.phase != StepPhase::Succeeded,
            false => state.phase == StepPhase::Failed,
        };
        match after().find(stops) {
            None => Start::Now,
            Some(state) if state.phase == StepPhase::Failed => {
                Start::Never(format!("step {} failed", state.name))
            }
            Some(state) => Start::Never(format!("step {} was skipped", state.name)),
        }
    }

    /// The step that has ended the workflow, if one has.
    pub(super) fn ended_by(&self) -> Option<&str> {
        let ended = |state: &&StepStatus| {
            state.phase == StepPhase::Succeeded && state.reason == Some(StepReason::Terminate)
        };
        self.workflow
            .all_steps()
            .find(ended)
            .map(|state| state.name.as_str())
    }

    pub(super) fn start(&mut self, step: &'a Step, at: At) {
        self.judged.insert(at);
        let now = self.now;
        let Some(state) = self.state(at) else { return };
        if step.action.asks() {
            // Nothing of it is executed, and its time does not run.
            (state.phase, state.reason) = (StepPhase::Suspending, Some(StepReason::Suspend));
            state.message = Some(ASKS.to_owned());
            return self.wake_at_end(at);
        }
        execute(state, now);
        match &step.action {
            Action::Deploy(deploy) => self.dispatch(step, at, deploy),
            Action::Suspend(suspend) => {
                state.last_execute_time = None;
                (state.phase, state.reason) = (StepPhase::Suspending, Some(StepReason::Suspend));
                state.message.clone_from(&suspend.message);
                self.wake_for(at, suspend.duration);
            }
            Action::Group(_) => {
                state.last_execute_time = None;
                state.reason = None;
                // Its steps are looked at in the same call.
                self.judged.remove(&at);
            }
            Action::Break { message } => {
                state.message = Some(
                    message
                        .clone()
                        .unwrap_or_else(|| "the workflow ends here".to_owned()),
                );
                self.finish(step, at, None);
                if let Some(state) = self.state(at).filter(|state| state.phase == StepPhase::Succeeded) {
                    state.reason = Some(StepReason::Terminate);
                    state.message = Some(
                        message
                            .clone()
                            .unwrap_or_else(|| "the workflow ends here".to_owned()),
                    );
                }
            }
            Action::Fail { message } => {
                let message = message
                    .clone()
                    .unwrap_or_else(|| "the step is there to fail".to_owned());
                self.fail(at, StepReason::Action, message);
            }
            Action::Export(export) => self.export(step, at, export),
            Action::Act(_) | Action::Wait(WaitStep::Object { .. }) => {
                state.attempt = Some(1);
                self.ask(step, at, 1);
            }
            Action::ClusterObject { object, .. } => {
                if let Err(why) = self.filled(step, &object.properties) {
                    return self.fail(at, StepReason::Input, why);
                }
                let clusters = self.to_clear(step, object);
                if let Some(state) = self.state(at) {
                    state.clusters = clusters;
                }
                let step = step.name.clone();
                self.effects.push(Effect::Dispatch { step });
            }
            // It is looked at before anything is written.
            Action::Rollback { .. } => state.attempt = Some(1),
            Action::Wait(WaitStep::Fleet { .. }) => {}
        }
        self.wake_at_end(at);
    }

    /// A placing step goes to work.
    fn dispatch(&mut self, step: &'a Step, at: At, deploy: &Deploy) {
        if deploy.patch.as_ref().is_some_and(|patch| patch.value.is_none()) {
            // What the patch puts in is settled now, and stays.
            let input = step.inputs.iter().find(|input| input.key.is_some());
            let value = match input {
                Some(input) => self.input(&input.source, step),
                None => Err("no input gives the value of the patch".to_owned()),
            };
            match value {
                Ok(value) => {
                    if !self.keep(at, BTreeMap::new(), Some(value)) {
                        return;
                    }
                }
                Err(why) => return self.fail(at, StepReason::Input, why),
            }
        }
        let step = step.name.clone();
        self.effects.push(Effect::Dispatch { step });
    }

    /// Whether a placing step waits for the approval that it asks for.
    pub(super) fn awaits_approval(&self, at: At) -> bool {
        let asks = |step: &Step| step.action.asks();
        let waits =
            |state: &StepStatus| state.phase == StepPhase::Suspending && state.first_execute_time.is_none();
        self.spec.at(at).is_some_and(asks) && self.seen(at).is_some_and(waits)
    }

    /// A placing step has the approval that it asked for.
    pub(super) fn approve(&mut self, at: At) {
        let now = self.now;
        let (Some(step), Some(state)) = (self.spec.at(at), self.state(at)) else {
            return;
        };
        let Action::Deploy(deploy) = &step.action else {
            return;
        };
        execute(state, now);
        state.message = None;
        self.judged.insert(at);
        self.dispatch(step, at, deploy);
        self.wake_at_end(at);
    }

    fn export(&mut self, step: &'a Step, at: At, export: &ExportStep) {
        let value = self
            .filled(step, &export.properties)
            .map(|filled| filled.get("value").cloned().unwrap_or_default());
        match value {
            Ok(value) if export.component.is_some() && !value.is_object() => {
                let message =
                    "the value of a patch is a map that is merged into the component's object".to_owned();
                self.fail(at, StepReason::Input, message);
            }
            Ok(value) => self.finish(step, at, Some(value)),
            Err(why) => self.fail(at, StepReason::Input, why),
        }
    }
}

/// The step is at work from now on.
fn execute(state: &mut StepStatus, now: Timestamp) {
    state.first_execute_time = Some(MicroTime(now));
    state.last_execute_time = Some(MicroTime(now));
    (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
}
