//! Restart from a step: it and what depends on it run again, what was before stays.

use super::{
    patches::closure,
    run::Run,
    spec::{At, Step},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{ApplicationPhase, StepPhase, StepStatus};

impl Run<'_> {
    /// Carries the command out.
    pub(super) fn restart(&mut self, name: &str) {
        self.workflow.restart_from = None;
        let spec = self.spec;
        let places = spec.places();
        let is_it = |at: &&At| spec.at(**at).is_some_and(|step| step.name == name);
        let Some(at) = places.iter().find(is_it) else {
            return;
        };
        let again = again(&spec.steps, *at);
        for (index, (step, state)) in spec.steps.iter().zip(&mut self.workflow.steps).enumerate() {
            if index != at.index && again.contains(&index) {
                reset(step, state);
            }
        }
        // A group that has not begun is begun when its turn comes, whatever is asked of a step in it.
        let over = |index: &usize| self.workflow.steps.get(*index).is_some_and(StepStatus::is_over);
        let its_turn = |group: &Step| group.after.iter().all(over);
        let turn_has_come = spec.steps.get(at.index).is_some_and(its_turn);
        let has_begun = |group: &StepStatus| !matches!(group.phase, StepPhase::Pending | StepPhase::Skipped);
        match (
            at.inner,
            spec.steps.get(at.index),
            self.workflow.steps.get_mut(at.index),
        ) {
            (Some(inner), Some(group), Some(state)) if turn_has_come && has_begun(state) => {
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
                state.first_execute_time = Some(MicroTime(self.now));
            }
            (_, Some(step), Some(state)) => reset(step, state),
            _ => {}
        }
        self.workflow.run = Some(self.next_run());
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

    /// Says that `restartFrom` names no step; it changes nothing else.
    pub(super) fn say_unknown(&mut self) {
        let Some(note) = self.workflow.unknown_restart() else {
            return;
        };
        self.workflow.message = Some(match self.workflow.message.take() {
            Some(said) => format!("{note}; {said}"),
            None => note,
        });
    }

    /// Takes back what [`Self::say_unknown`] has said before.
    pub(super) fn unsay_unknown(&mut self) {
        self.workflow.message = self.workflow.said().map(str::to_owned);
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
