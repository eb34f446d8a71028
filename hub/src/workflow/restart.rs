//! Restart from a step: it and what depends on it run again, what was before stays.

use super::{
    patches::closure,
    run::Run,
    spec::{At, Step},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::application::{ApplicationPhase, StepPhase, StepStatus};

impl Run<'_> {
    /// Carries the command out; a name that no step has is said and changes nothing else.
    pub(super) fn restart(&mut self, name: &str) {
        self.workflow.restart_from = None;
        let spec = self.spec;
        let places = spec.places();
        let Some(at) = places
            .iter()
            .find(|at| spec.at(**at).is_some_and(|step| step.name == name))
        else {
            self.workflow.message = Some(format!("restartFrom: there is no step named {name:?}"));
            return;
        };
        let again = again(&spec.steps, *at);
        for (index, (step, state)) in spec.steps.iter().zip(&mut self.workflow.steps).enumerate() {
            if index != at.index && again.contains(&index) {
                reset(step, state);
            }
        }
        match (
            at.inner,
            spec.steps.get(at.index),
            self.workflow.steps.get_mut(at.index),
        ) {
            (None, Some(step), Some(state)) => reset(step, state),
            (Some(inner), Some(group), Some(state)) => {
                let again = self::again(
                    group.inner(),
                    At {
                        index: inner,
                        inner: None,
                    },
                );
                for (index, (step, state)) in group.inner().iter().zip(&mut state.sub_steps).enumerate() {
                    if again.contains(&index) {
                        reset(step, state);
                    }
                }
                state.phase = StepPhase::Running;
                state.reason = None;
                state.message = None;
                // Its time begins anew.
                state.first_execute_time = Some(Time(self.now));
            }
            _ => {}
        }
        // A run of its own for those who count executions.
        let start = self.workflow.start_time.as_ref().map_or(self.now, |time| time.0);
        self.workflow.start_time = Some(Time(after(start, self.now)));
        self.workflow.end_time = None;
        self.workflow.finished = false;
        self.workflow.terminated = false;
        self.workflow.suspend = false;
        self.workflow.paused = false;
        self.workflow.status = Some(StepPhase::Running);
        self.workflow.message = None;
        self.phase = Some(ApplicationPhase::RunningWorkflow);
        self.resume_paused();
    }
}

/// `now`, or if that is within the second in which the run started, the next one: times are stored in seconds.
fn after(start: Timestamp, now: Timestamp) -> Timestamp {
    match now.as_second() > start.as_second() {
        true => now,
        false => start
            .checked_add(jiff::SignedDuration::from_secs(1))
            .unwrap_or(now),
    }
}

/// A step and all steps of its list that come after it, at however many removes.
fn again(steps: &[Step], at: At) -> Vec<usize> {
    (0..steps.len())
        .filter(|index| *index == at.index || closure(steps, *index).contains(&at.index))
        .collect()
}

fn reset(step: &Step, state: &mut StepStatus) {
    *state = super::run::pending(step);
}
