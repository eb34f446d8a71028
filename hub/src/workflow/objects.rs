//! The objects that steps have in clusters, with what other steps gave put in; pure.

use super::{
    Evidence, Reach, Spec, Status,
    reach::of_step,
    run::Run,
    spec::{Action, Step},
};
use jiff::Timestamp;
use roundhouse_api::application::{ClusterObjectStep, ClusterVerb, StepPhase, WaitFor, WorkflowStatus};
use serde_json::Value;

/// An object that a step has in clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct StepObject<'s> {
    /// The step.
    pub step: &'s Step,
    /// Where the object goes.
    pub object: &'s ClusterObjectStep,
    /// What the step waits for, of each cluster.
    pub wait: WaitFor,
    /// `None`: nothing of it is wanted any more.
    pub reach: Option<Reach>,
    /// The object, where the step follows the fleet; or why it cannot be told. Of one that takes an object away only what names
    /// that.
    pub manifest: Option<Result<Value, String>>,
    /// The steps of this run that take it away again, or have done so.
    pub taken_by: Vec<&'s ClusterObjectStep>,
}

/// The objects of a workflow's steps. One that was applied follows the fleet once the run has succeeded, as placing steps
/// do, but to clusters from which it was taken away again; one that was only read is given up then.
pub fn objects<'s>(spec: &'s Spec, workflow: Option<&WorkflowStatus>) -> Vec<StepObject<'s>> {
    let steps = of_clusters(spec);
    if steps.is_empty() {
        return Vec::new();
    }
    let own = workflow.filter(|workflow| spec.is_of(workflow));
    let ended = own.is_some_and(|workflow| workflow.finished);
    let evidence = Evidence::default();
    let status = Status {
        phase: None,
        workflow: own.cloned(),
    };
    let run = Run::of(spec, &status, &evidence, Timestamp::UNIX_EPOCH);
    let takes = |(taking, object): (&Step, &ClusterObjectStep), name: &String| {
        let state = own.and_then(|workflow| workflow.step(&taking.name));
        let passed_over = state.is_none_or(|state| state.phase == StepPhase::Skipped);
        let reach = of_step(own, &taking.name);
        object.takes_of.contains(name) && !passed_over && matches!(reach, Some(Reach::Live | Reach::Placed))
    };
    let taken_by = |name: &String| {
        let taking = steps
            .iter()
            .filter(|(step, object, _)| takes((*step, *object), name));
        taking.map(|(_, object, _)| *object).collect()
    };
    let of = |(step, object, wait): (&'s Step, &'s ClusterObjectStep, WaitFor)| {
        let reach = of_step(own, &step.name);
        let stays = object.verb == ClusterVerb::Apply;
        let given_up = ended && !stays && reach == Some(Reach::Live);
        let reach = reach.filter(|_| !given_up);
        let manifest = (reach == Some(Reach::Live)).then(|| {
            let filled = run.filled(step, &object.properties)?;
            object.manifest(&filled).map_err(|violations| {
                let first = violations.first().map(ToString::to_string);
                format!(
                    "with its inputs the step is refused: {}",
                    first.unwrap_or_default()
                )
            })
        });
        StepObject {
            step,
            object,
            wait,
            reach,
            manifest,
            taken_by: taken_by(&step.name),
        }
    };
    steps.iter().copied().map(of).collect()
}

/// The steps that have an object in clusters, with what they wait for, in order.
pub(super) fn of_clusters(spec: &Spec) -> Vec<(&Step, &ClusterObjectStep, WaitFor)> {
    let places = spec.places().into_iter();
    let steps = places.filter_map(|at| {
        let step = spec.at(at)?;
        match &step.action {
            Action::ClusterObject { object, deploy } => Some((step, object.as_ref(), deploy.wait)),
            _ => None,
        }
    });
    steps.collect()
}
