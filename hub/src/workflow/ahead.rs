//! The objects that steps will have in clusters, as far as that is known before a run.

use super::{Evidence, Reach, Spec, Status, StepObject, objects::of_clusters, run::Run, spec::Step};
use jiff::Timestamp;
use roundhouse_api::application::{
    ClusterObjectStep, ClusterVerb, Condition, InputSource, StepInput, WorkflowStatus,
};
use std::collections::BTreeSet;

/// An object as a run will have it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectAhead<'s> {
    /// The object, every step being reached. Where an input is not known, its manifest says when it will be; where that is the
    /// name of the object, there is no manifest.
    pub object: StepObject<'s>,
    /// What is not known, a line each: `data.zone: known when step look is over`.
    pub unknown: Vec<String>,
}

/// The objects of a workflow's steps, in order, once all steps have run that run whatever happens. `workflow` is the run that
/// is under way or has been: of the same spec it knows the inputs.
pub fn objects_ahead<'s>(spec: &'s Spec, workflow: Option<&WorkflowStatus>) -> Vec<ObjectAhead<'s>> {
    let own = workflow.filter(|workflow| spec.is_of(workflow));
    let evidence = Evidence::default();
    let status = Status {
        phase: None,
        workflow: own.cloned(),
    };
    let run = Run::of(spec, &status, &evidence, Timestamp::UNIX_EPOCH);
    let steps = of_clusters(spec);
    let takes = |(step, object): (&Step, &ClusterObjectStep), name: &String| {
        is_certain(step) && object.takes_of.contains(name)
    };
    let ahead = steps.iter().map(|(step, object, wait)| {
        let (manifest, unknown) = manifest(&run, step, object);
        let taking = steps
            .iter()
            .filter(|(taking, by, _)| takes((*taking, *by), &step.name));
        ObjectAhead {
            object: StepObject {
                step,
                object,
                wait: *wait,
                reach: Some(Reach::Live),
                manifest: Some(manifest),
                taken_by: taking.map(|(_, object, _)| *object).collect(),
            },
            unknown,
        }
    });
    ahead.collect()
}

/// Whether a step runs as far as anybody can say before.
fn is_certain(step: &Step) -> bool {
    !matches!(step.condition, Some(Condition::When(_)))
}

/// The manifest of a step, and what of it is not known.
fn manifest(
    run: &Run<'_>,
    step: &Step,
    object: &ClusterObjectStep,
) -> (Result<serde_json::Value, String>, Vec<String>) {
    let started = run.workflow.step(&step.name);
    let started = started.is_some_and(|state| state.first_execute_time.is_some());
    let mut filled = object.properties.clone();
    let mut unknown = Vec::new();
    for input in &step.inputs {
        let Some(key) = &input.key else { continue };
        let value = run.input(&input.source, step).ok();
        let value = value
            .filter(|_| started || is_plain(&input.source))
            .unwrap_or_else(|| {
                let when = when(run.spec, input);
                let path = match object.verb {
                    ClusterVerb::Apply => key.as_str().strip_prefix("value.").unwrap_or(key.as_str()),
                    ClusterVerb::Read | ClusterVerb::Delete => key.as_str(),
                };
                unknown.push(format!("{path}: {when}"));
                format!("({when})").into()
            });
        if let Err(why) = key.set(&mut filled, value) {
            return (Err(why.to_string()), unknown);
        }
    }
    let manifest = object.manifest(&filled).map_err(|violations| {
        let first = violations.first().map(ToString::to_string);
        first.unwrap_or_default()
    });
    (manifest, unknown)
}

/// Whether what an input comes to depends on no step.
fn is_plain(source: &InputSource) -> bool {
    match source {
        InputSource::Output(_) => false,
        InputSource::Expression(expression) => {
            expression.references().is_empty() && !expression.to_string().contains("status")
        }
    }
}

/// `known when step look is over`
fn when(spec: &Spec, input: &StepInput) -> String {
    let of: BTreeSet<String> = match &input.source {
        InputSource::Output(name) => {
            let places = spec.places();
            let gives = |step: &&Step| step.outputs.iter().any(|output| output.name == *name);
            let steps = places.iter().filter_map(|at| spec.at(*at)).filter(gives);
            steps.map(|step| step.name.clone()).collect()
        }
        InputSource::Expression(expression) => {
            let references = expression.references();
            references
                .iter()
                .map(|reference| reference.step.clone())
                .collect()
        }
    };
    let of: Vec<String> = of.into_iter().collect();
    match of.as_slice() {
        [] => "known during the run".to_owned(),
        [one] => format!("known when step {one} is over"),
        many => format!("known when steps {} are over", many.join(" and ")),
    }
}
