//! A step whose object follows the fleet.

use super::{Chosen, choose, named};
use crate::{
    application::{
        bundles, feedback,
        status::{evidence_by_cluster, shown_by, unsatisfied},
        view::{Delivery, Known},
    },
    dispatch::{ObjectRequest, Observed, Plan, Wave, hold_back, object_plan},
    render::{self, Stamps},
    workflow::{Evidence, StepEvidence, StepObject},
};
use roundhouse_api::{
    application::{ClusterVerb, WorkflowStatus},
    bundle::{BundleSpec, UpdateStrategy, UpdateStrategyType},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// A step that follows the fleet: its clusters are chosen as placement chooses them, by one rule without replicas; but for
/// those from which the run has taken the object away again.
pub(super) fn follow(
    known: &Known<'_>,
    step: &StepObject<'_>,
    manifest: &Value,
    held: &BTreeMap<String, Vec<Arc<Observed>>>,
    evidence: &mut Evidence,
) -> (Plan, StepEvidence) {
    let fleet = known.cache.fleet();
    let (mut plan, chosen, emptied) = wanted(known, step, manifest, held);
    let mut clusters = evidence_by_cluster(&plan, held, &fleet);
    if let Some(most) = step.object.max_parallel {
        let wave = Wave {
            clusters: &chosen.clusters,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            wait: step.wait,
        };
        let unreachable = |cluster: &str| fleet.unreachable(cluster).is_some();
        hold_back(&mut plan, &[wave], held, &clusters, unreachable);
        clusters = evidence_by_cluster(&plan, held, &fleet);
    }
    if emptied {
        // There is nothing left of it to be ready.
        return (plan, StepEvidence::AllowedEmpty);
    }
    let shown = match shown_by(&chosen.clusters, &clusters) {
        Ok(clusters) => StepEvidence::Placed {
            unsatisfied: unsatisfied(chosen.satisfied, &chosen.reasons),
            clusters,
        },
        Err(message) => StepEvidence::Refused {
            message,
            clusters: Vec::new(),
        },
    };
    let passed = shown.clusters().iter().filter(|c| c.state.passes(step.wait));
    let passed: Vec<&String> = passed.map(|c| &c.cluster).collect();
    evidence
        .outputs
        .extend(feedback::step_outputs(&step.step.outputs, &passed, held));
    (plan, shown)
}

/// Which Bundles differ from what is wanted, where that is, and whether the run has taken the object away from all of it.
pub(super) fn wanted(
    known: &Known<'_>,
    step: &StepObject<'_>,
    manifest: &Value,
    held: &BTreeMap<String, Vec<Arc<Observed>>>,
) -> (Plan, Chosen, bool) {
    let (delivery, name) = (known.delivery, &step.step.name);
    let mut chosen = choose(known, (name, &step.object.placement), held.keys());
    let taken = step.taken_by.iter();
    let taken: Vec<String> = taken
        .flat_map(|taking| named(known, name, &taking.placement).clusters)
        .collect();
    let had_any = !chosen.clusters.is_empty();
    chosen.clusters.retain(|cluster| !taken.contains(cluster));
    let mut config = feedback::step_config(&step.step.outputs);
    let manifest = match step.object.verb {
        ClusterVerb::Apply => applied(delivery, name, manifest),
        ClusterVerb::Read | ClusterVerb::Delete => {
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
            ..bundles::terms(&delivery.valid, &delivery.application.namespace)
        },
        clusters: &chosen.clusters,
        observed: held,
    });
    let emptied = had_any && chosen.clusters.is_empty();
    (plan, chosen, emptied)
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
