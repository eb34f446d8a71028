//! Which placing steps a run has reached, and which of them follow the fleet.

use super::{Action, Spec};
use roundhouse_api::application::{StepPhase, WorkflowStatus};

/// How a placing step is treated now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The run has not come to it: what the last finished run placed stays.
    Unreached,
    /// It was placed in this run: its decision stays as it is until the run has ended.
    Placed,
    /// It is placed anew whenever its inputs change.
    Live,
}

/// The reach of every step of `spec`, in order; steps that place nothing are `None`.
pub fn reach(spec: &Spec, workflow: Option<&WorkflowStatus>) -> Vec<Option<Reach>> {
    let workflow = workflow.filter(|workflow| spec.is_of(workflow));
    let of = |(index, step): (usize, &super::Step)| {
        let Action::Deploy { .. } = step.action else {
            return None;
        };
        let Some((workflow, state)) = workflow.and_then(|w| Some((w, w.steps.get(index)?))) else {
            return Some(Reach::Unreached);
        };
        let at_work = matches!(state.phase, StepPhase::Running | StepPhase::Failed);
        Some(if workflow.finished {
            match (workflow.status, state.first_execute_time.is_some()) {
                (Some(StepPhase::Succeeded), _) => Reach::Live,
                (_, true) => Reach::Placed,
                (_, false) => Reach::Unreached,
            }
        } else if state.first_execute_time.is_none() {
            Reach::Unreached
        } else if index == workflow.present_step() && at_work && !workflow.suspend && !workflow.terminated {
            Reach::Live
        } else {
            Reach::Placed
        })
    };
    spec.steps.iter().enumerate().map(of).collect()
}
