//! What the steps want that have an object in clusters, and what the clusters show of it; pure.

mod ahead;
mod follow;
mod take;

pub use ahead::ForeseenObject;
pub(super) use ahead::ahead;

use super::view::Known;
use crate::{
    dispatch::{
        Observed, Plan,
        evidence::held_evidence,
        removal::{self, Removal},
        rollup::roll_up_object,
    },
    placement::{self, PlacingStep, Previous},
    workflow::{self, ClusterEvidence, Evidence, Reach, StepEvidence, StepObject},
};
use follow::follow;
use roundhouse_api::{
    application::{ClusterVerb, ObjectDelivery, StepStatus, WorkflowStatus},
    bundle::Deletion,
    decision::DecisionSpec,
    placement::{PlacementSpec, Toleration, TolerationOperator},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use take::{held, take};

/// The Bundles of steps' objects: those that are there, those that are wanted, and those that are not.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Step -> cluster -> its Bundle.
    pub(super) observed: BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
    /// What is wanted, of each step that follows the fleet.
    pub(super) plans: BTreeMap<String, Plan>,
    /// The steps of which nothing is written and nothing taken away now: what is there stays, and what is not there may be wanted.
    pub(super) untouched: BTreeSet<String>,
    /// Namespace and name of Bundles that nothing wants any more.
    pub(super) surplus: Vec<(String, String)>,
    /// The Bundles that steps take away now, with the evidence that is written first.
    pub(super) due: Vec<(Arc<Observed>, Deletion)>,
    /// What the clusters of each step show that has an object there or is at work, in the order of the workflow.
    pub(super) shown: Vec<ObjectDelivery>,
}

impl Objects {
    /// All of them that are there.
    pub(super) fn bundles(&self) -> impl Iterator<Item = &Arc<Observed>> {
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
    let taking = wanted
        .iter()
        .filter(|step| step.object.verb == ClusterVerb::Delete);
    evidence.held = taking
        .map(|step| (step.step.name.clone(), held(known, step, &all.observed)))
        .collect();
    for step in &wanted {
        let name = &step.step.name;
        let held = all.observed.get(name).unwrap_or(&none);
        let kept = step.reach == Some(Reach::Placed) && step.object.verb != ClusterVerb::Delete;
        if kept {
            all.shown.extend(sum(known, step, &stand(known, held)));
        }
        match (step.reach, &step.manifest) {
            (Some(Reach::Live), Some(Ok(_))) if step.object.verb == ClusterVerb::Delete => {
                let (taken, shown) = take(known, step, &wanted, &all.observed);
                all.shown.extend(sum(known, step, shown.clusters()));
                evidence.objects.insert(name.clone(), shown);
                all.plans.insert(name.clone(), taken.asked);
                all.due.extend(taken.due);
            }
            (Some(Reach::Live), Some(Ok(manifest))) => {
                let (plan, shown) = follow(known, step, manifest, held, evidence);
                all.shown.extend(sum(known, step, shown.clusters()));
                evidence.objects.insert(name.clone(), shown);
                if succeeded {
                    all.surplus.extend(plan.surplus.iter().cloned());
                }
                all.plans.insert(name.clone(), plan);
            }
            (Some(_), Some(Err(message))) => {
                let message = message.clone();
                all.untouched.insert(name.clone());
                evidence.objects.insert(
                    name.clone(),
                    StepEvidence::Refused {
                        message,
                        clusters: Vec::new(),
                    },
                );
            }
            (Some(_), _) => drop(all.untouched.insert(name.clone())),
            (None, _) => all
                .surplus
                .extend(held.values().flatten().map(|bundle| bundle.key())),
        }
    }
    let over = all.bundles().filter_map(|bundle| {
        let deletion = bundle
            .spec
            .deletion
            .as_ref()
            .filter(|deletion| deletion.step().is_some())?;
        let released = removal::next(bundle, Some(deletion)) == Removal::Release;
        (released && !is_awaited(bundle, known.workflow)).then(|| (bundle.clone(), deletion.clone()))
    });
    let over: Vec<_> = over.collect();
    all.due.extend(over);
    if succeeded {
        let gone = all
            .observed
            .iter()
            .filter(|(name, _)| !wanted.iter().any(|step| step.step.name == **name));
        let gone = gone.flat_map(|(_, held)| held.values().flatten());
        all.surplus.extend(gone.map(|bundle| bundle.key()));
    }
    all
}

/// What clusters show of Bundles that stay as they are.
fn stand(known: &Known<'_>, held: &BTreeMap<String, Vec<Arc<Observed>>>) -> Vec<ClusterEvidence> {
    let fleet = known.cache.fleet();
    let each = held.iter().map(|(cluster, held)| {
        let unreachable = fleet.unreachable(cluster);
        let left = held.iter().all(|bundle| bundle.deleting);
        (!left).then(|| held_evidence(cluster, held, unreachable))
    });
    each.flatten().collect()
}

/// Sums up what the clusters of a step show; nothing where it has none.
fn sum(known: &Known<'_>, step: &StepObject<'_>, clusters: &[ClusterEvidence]) -> Option<ObjectDelivery> {
    let fleet = known.cache.fleet();
    let with_region = clusters.iter().map(|evidence| {
        let member = fleet.members.get(&evidence.cluster);
        let region = member.map(|member| member.region.clone());
        (region.unwrap_or_default(), evidence.clone())
    });
    let with_region: Vec<_> = with_region.collect();
    let of = (step.step.name.as_str(), step.step.type_.as_str(), step.wait);
    (!clusters.is_empty()).then(|| roll_up_object(of, &with_region))
}

/// Whether a step at work still needs what the agent reported on a Bundle: that the object is gone. Without it nobody would
/// know, were the hub to end before the step does. Another step that noted the cluster when it started may need it too.
pub(super) fn is_awaited(bundle: &Observed, workflow: Option<&WorkflowStatus>) -> bool {
    let step = bundle.taken_by();
    let run = workflow.filter(|workflow| !workflow.finished);
    run.zip(step).is_some_and(|(run, step)| {
        let awaits = |state: &StepStatus| state.name == step || state.clusters.contains(&bundle.cluster);
        run.all_steps()
            .any(|state| state.first_execute_time.is_some() && !state.is_over() && awaits(state))
    })
}

/// The clusters that placement chooses for an object.
struct Chosen {
    /// Sorted.
    clusters: Vec<String>,
    /// Whether every rule matched a cluster.
    satisfied: bool,
    /// Why not, and what else is worth knowing.
    reasons: Vec<String>,
}

/// The clusters of a rule, as placement chooses them: `held` have the object.
fn choose<'c>(
    known: &Known<'_>,
    (name, spec): (&str, &PlacementSpec),
    held: impl Iterator<Item = &'c String>,
) -> Chosen {
    let delivery = known.delivery;
    let before = DecisionSpec {
        step: name.to_owned(),
        clusters: held.cloned().collect(),
        ..DecisionSpec::default()
    };
    let chosen = placement::place(&placement::Request {
        application: &format!("{}/{}", delivery.key.0, delivery.key.1),
        steps: &[PlacingStep { name, spec }],
        workloads: &[],
        inventory: &known.cache.fleet().inventory,
        previous: &Previous::from_decisions([&before]),
        now: known.now,
    });
    let chosen = chosen.into_iter().next().unwrap_or_default();
    Chosen {
        clusters: chosen.clusters.iter().map(ToString::to_string).collect(),
        satisfied: chosen.satisfied,
        reasons: chosen.reasons,
    }
}

/// The clusters that a rule names, whatever their taints keep away, and those out of reach too.
fn named(known: &Known<'_>, step: &str, placement: &PlacementSpec) -> Chosen {
    let everything = Toleration {
        operator: Some(TolerationOperator::Exists),
        ..Toleration::default()
    };
    let spec = PlacementSpec {
        tolerations: vec![everything],
        ..placement.clone()
    };
    let fleet = known.cache.fleet();
    choose(known, (step, &spec), fleet.members.keys())
}
