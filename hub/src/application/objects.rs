//! What the steps want that have an object in clusters, and what the clusters show of it; pure.

use super::{
    feedback,
    status::{evidence_by_cluster, shown_by, unsatisfied},
    view::{Delivery, Known},
};
use crate::{
    dispatch::{ObjectRequest, Observed, Plan, object_plan},
    placement::{self, PlacingStep, Previous},
    render::{self, Stamps},
    workflow::{self, Evidence, Reach, StepEvidence, StepObject},
};
use roundhouse_api::{
    application::{ClusterVerb, WorkflowStatus},
    bundle::{BundleSpec, UpdateStrategy, UpdateStrategyType},
    decision::DecisionSpec,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The Bundles of steps' objects: those that are there, those that are wanted, and those that are not.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Step -> cluster -> its Bundle.
    pub(super) observed: BTreeMap<String, BTreeMap<String, Vec<Observed>>>,
    /// What is wanted, of each step that follows the fleet.
    pub(super) plans: BTreeMap<String, Plan>,
    /// Namespace and name of Bundles that nothing wants any more.
    pub(super) surplus: Vec<(String, String)>,
}

impl Objects {
    /// All of them that are there.
    pub(super) fn bundles(&self) -> impl Iterator<Item = &Observed> {
        self.observed.values().flat_map(BTreeMap::values).flatten()
    }
}

/// Looks at the objects of all steps, and adds what their clusters show to the evidence. `succeeded`: the run of this spec
/// has, so that what no step wants may go.
pub(super) fn look(known: &Known<'_>, succeeded: bool, evidence: &mut Evidence) -> Objects {
    let delivery = known.delivery;
    let mut all = Objects {
        observed: known.cache.step_bundles(delivery.key),
        ..Objects::default()
    };
    let wanted = workflow::objects(&delivery.spec, known.workflow);
    let none = BTreeMap::new();
    for step in &wanted {
        let name = &step.step.name;
        let held = all.observed.get(name).unwrap_or(&none);
        match (step.reach, &step.manifest) {
            (Some(Reach::Live), Some(Ok(manifest))) => {
                let (plan, shown) = follow(known, step, manifest, held, evidence);
                evidence.objects.insert(name.clone(), shown);
                if succeeded {
                    all.surplus.extend(plan.surplus.iter().cloned());
                }
                all.plans.insert(name.clone(), plan);
            }
            (Some(_), Some(Err(message))) => {
                let message = message.clone();
                evidence
                    .objects
                    .insert(name.clone(), StepEvidence::Refused { message });
            }
            // It stays as it is.
            (Some(_), _) => {}
            (None, _) => all.surplus.extend(held.values().flatten().map(key_of)),
        }
    }
    if succeeded {
        let gone = all
            .observed
            .iter()
            .filter(|(name, _)| !wanted.iter().any(|step| step.step.name == **name));
        let gone = gone.flat_map(|(_, held)| held.values().flatten());
        all.surplus.extend(gone.map(key_of));
    }
    all
}

fn key_of(bundle: &Observed) -> (String, String) {
    (bundle.namespace.clone(), bundle.name.clone())
}

/// A step that follows the fleet: its clusters are chosen as placement chooses them, by one rule without replicas.
fn follow(
    known: &Known<'_>,
    step: &StepObject<'_>,
    manifest: &Value,
    held: &BTreeMap<String, Vec<Observed>>,
    evidence: &mut Evidence,
) -> (Plan, StepEvidence) {
    let (delivery, name) = (known.delivery, &step.step.name);
    let fleet = known.cache.fleet();
    let before = DecisionSpec {
        step: name.clone(),
        clusters: held.keys().cloned().collect(),
        ..DecisionSpec::default()
    };
    let chosen = placement::place(&placement::Request {
        application: &format!("{}/{}", delivery.key.0, delivery.key.1),
        steps: &[PlacingStep {
            name,
            spec: &step.object.placement,
        }],
        workloads: &[],
        inventory: &fleet.inventory,
        previous: &Previous::from_decisions([&before]),
        now: known.now,
    });
    let chosen = chosen.into_iter().next().unwrap_or_default();
    let mut config = feedback::step_config(&step.step.outputs);
    let manifest = match step.object.verb {
        ClusterVerb::Apply => applied(delivery, name, manifest),
        ClusterVerb::Read => {
            config.update_strategy = Some(UpdateStrategy {
                type_: UpdateStrategyType::ReadOnly,
                ..UpdateStrategy::default()
            });
            render::read_object(&delivery.key.0, &run_of(known.workflow), manifest.clone())
        }
    };
    let plan = object_plan(&ObjectRequest {
        application: &delivery.application,
        step: name,
        manifest: &manifest,
        config: &config,
        spec: &BundleSpec {
            revision: Some(delivery.spec.revision.clone()),
            epoch: Some(known.epoch),
            apply_once: delivery.valid.apply_once,
            apply_once_rules: delivery.valid.apply_once_rules.clone(),
            ..BundleSpec::default()
        },
        clusters: &chosen.clusters,
        observed: held,
    });
    let clusters = evidence_by_cluster(&plan, held, &fleet);
    let shown = match shown_by(&chosen.clusters, &clusters) {
        Ok(clusters) => StepEvidence::Placed {
            unsatisfied: unsatisfied(chosen.satisfied, &chosen.reasons),
            clusters,
        },
        Err(message) => StepEvidence::Refused { message },
    };
    let passed = shown.clusters().iter().filter(|c| c.state.passes(step.wait));
    let passed: Vec<&String> = passed.map(|c| &c.cluster).collect();
    evidence
        .outputs
        .extend(feedback::step_outputs(&step.step.outputs, &passed, held));
    (plan, shown)
}

/// The object as the clusters get it, stamped like those of components: its revision is the application's.
fn applied(delivery: &Delivery<'_>, step: &str, manifest: &Value) -> Value {
    let (namespace, application) = delivery.key;
    let mut object = render::step_object(namespace, application, step, manifest.clone());
    let revision = &delivery.spec.revision;
    render::stamp(
        &mut object,
        &Stamps {
            app_revision: revision.clone(),
            component_revision: revision.clone(),
            generation: delivery.content.generation,
        },
    );
    object
}

/// The number of the run.
fn run_of(workflow: Option<&WorkflowStatus>) -> String {
    workflow
        .and_then(|workflow| workflow.run)
        .map(|run| run.to_string())
        .unwrap_or_default()
}
