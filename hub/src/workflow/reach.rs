//! Which steps that dispatch a run has reached, and which of them follow the fleet.

use super::Spec;
use roundhouse_api::application::{StepPhase, StepReason, WorkflowStatus};
use std::collections::BTreeSet;

/// How a step that dispatches is treated now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The run has not come to it: what the last finished run placed stays.
    Unreached,
    /// It was placed in this run: its decision stays as it is until the run has ended.
    Placed,
    /// It is placed anew whenever its inputs change.
    Live,
}

/// The reach of every placing step, in the order of [`Spec::placing`]; `None` for a step that a run passed over and then
/// succeeded: it places nothing any more.
pub fn reach(spec: &Spec, workflow: Option<&WorkflowStatus>) -> Vec<Option<Reach>> {
    let workflow = workflow.filter(|workflow| spec.is_of(workflow));
    spec.placing()
        .map(|(step, _)| of_step(workflow, &step.name))
        .collect()
}

/// The steps of a run of the spec that have succeeded: what placed anything was decided, whatever is left of that.
pub fn succeeded(spec: &Spec, workflow: Option<&WorkflowStatus>) -> BTreeSet<String> {
    let workflow = workflow.filter(|workflow| spec.is_of(workflow));
    let steps = workflow.into_iter().flat_map(WorkflowStatus::all_steps);
    let succeeded = steps.filter(|state| state.phase == StepPhase::Succeeded);
    succeeded.map(|state| state.name.clone()).collect()
}

/// The reach of one step in a run of the spec.
pub(super) fn of_step(workflow: Option<&WorkflowStatus>, name: &str) -> Option<Reach> {
    let Some((workflow, state)) = workflow.and_then(|w| Some((w, w.step(name)?))) else {
        return Some(Reach::Unreached);
    };
    // Without its input a step dispatches nothing.
    let lacking = state.phase == StepPhase::Failed && state.reason == Some(StepReason::Input);
    let started = state.first_execute_time.is_some() && !lacking;
    if workflow.finished {
        return match (workflow.status, state.phase) {
            (Some(StepPhase::Succeeded), StepPhase::Succeeded) => Some(Reach::Live),
            (Some(StepPhase::Succeeded), _) => None,
            _ if started => Some(Reach::Placed),
            _ => Some(Reach::Unreached),
        };
    }
    // Also before a pause was taken in.
    let paused = workflow.paused || (workflow.suspend && workflow.status != Some(StepPhase::Suspending));
    let at_work = matches!(state.phase, StepPhase::Running | StepPhase::Failed) && !state.is_over();
    Some(match (started, at_work && !paused && !workflow.terminated) {
        (false, _) => Reach::Unreached,
        (true, true) => Reach::Live,
        (true, false) => Reach::Placed,
    })
}
