//! What the steps want that have an object in clusters, and what the clusters show of it; pure.

use super::{
    feedback,
    status::{evidence_by_cluster, shown_by, unsatisfied},
    view::{Delivery, Known},
};
use crate::{
    dispatch::{
        ObjectRequest, Observed, Plan, Taken, Taking, Wave,
        evidence::held_evidence,
        hold_back, object_plan,
        removal::{self, Removal},
        rollup::roll_up_object,
        take_away,
    },
    placement::{self, PlacingStep, Previous, StepDecision},
    render::{self, Stamps},
    workflow::{self, ClusterEvidence, Evidence, Reach, StepEvidence, StepObject},
};
use roundhouse_api::{
    application::{ClusterVerb, ObjectDelivery, WorkflowStatus},
    bundle::{BundleSpec, Deletion, UpdateStrategy, UpdateStrategyType},
    decision::DecisionSpec,
    placement::{PlacementSpec, Toleration, TolerationOperator},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The Bundles of steps' objects: those that are there, those that are wanted, and those that are not.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Step -> cluster -> its Bundle.
    pub(super) observed: BTreeMap<String, BTreeMap<String, Vec<Observed>>>,
    /// What is wanted, of each step that follows the fleet.
    pub(super) plans: BTreeMap<String, Plan>,
    /// Namespace and name of Bundles that nothing wants any more.
    pub(super) surplus: Vec<(String, String)>,
    /// The Bundles that steps take away now, with the evidence that is written first.
    pub(super) due: Vec<(Observed, Deletion)>,
    /// What the clusters of each step show that has an object there or is at work, in the order of the workflow.
    pub(super) shown: Vec<ObjectDelivery>,
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
    let count = |held: &BTreeMap<String, Vec<Observed>>| held.values().map(Vec::len).sum::<usize>();
    let held = all.observed.iter().map(|(step, held)| {
        let count = u32::try_from(count(held)).unwrap_or(u32::MAX);
        (step.clone(), count)
    });
    evidence.held = held.collect();
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
                evidence
                    .objects
                    .insert(name.clone(), StepEvidence::Refused { message });
            }
            // It stays as it is.
            (Some(_), _) => {}
            (None, _) => all.surplus.extend(held.values().flatten().map(key_of)),
        }
    }
    let over = all.observed.values().flat_map(BTreeMap::values).flatten();
    let over = over.filter_map(|bundle| {
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
        all.surplus.extend(gone.map(key_of));
    }
    all
}

fn key_of(bundle: &Observed) -> (String, String) {
    (bundle.namespace.clone(), bundle.name.clone())
}

/// What clusters show of Bundles that stay as they are.
fn stand(known: &Known<'_>, held: &BTreeMap<String, Vec<Observed>>) -> Vec<ClusterEvidence> {
    let fleet = known.cache.fleet();
    let each = held.iter().map(|(cluster, held)| {
        let unreachable = match fleet.members.get(cluster) {
            Some(member) => member.unreachable.as_deref(),
            None => Some("the cluster is not registered"),
        };
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
/// know, were the hub to end before the step does.
pub(super) fn is_awaited(bundle: &Observed, workflow: Option<&WorkflowStatus>) -> bool {
    let step = bundle.spec.deletion.as_ref().and_then(Deletion::step);
    let run = workflow.filter(|workflow| !workflow.finished);
    let state = run.zip(step).and_then(|(run, step)| run.step(step));
    state.is_some_and(|state| state.first_execute_time.is_some() && !state.is_over())
}

/// The clusters of a rule, as placement chooses them: `held` have the object.
fn choose<'c>(
    known: &Known<'_>,
    (name, spec): (&str, &PlacementSpec),
    held: impl Iterator<Item = &'c String>,
) -> StepDecision {
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
    chosen.into_iter().next().unwrap_or_default()
}

/// The clusters that a rule names, whatever their taints keep away, and those out of reach too.
fn named(known: &Known<'_>, step: &str, placement: &PlacementSpec) -> StepDecision {
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

/// A step that takes away what others have applied, on the clusters that it names: where they have a Bundle, and where they
/// would have one now. Of the latter nobody has said that the object is not there.
fn take(
    known: &Known<'_>,
    step: &StepObject<'_>,
    steps: &[StepObject<'_>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Observed>>>,
) -> (Taken, StepEvidence) {
    let (delivery, name, none) = (known.delivery, &step.step.name, BTreeMap::new());
    let named = named(known, name, &step.object.placement);
    let mut targets: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for from in steps
        .iter()
        .filter(|from| step.object.takes_of.contains(&from.step.name))
    {
        let of = from.step.name.as_str();
        let held = observed.get(of).unwrap_or(&none);
        let applied = match from.reach {
            Some(Reach::Placed | Reach::Live) => {
                choose(known, (of, &from.object.placement), held.keys()).clusters
            }
            Some(Reach::Unreached) | None => Vec::new(),
        };
        for cluster in applied.iter().chain(held.keys()) {
            if named.clusters.contains(cluster) {
                targets.entry(cluster.clone()).or_default().insert(of);
            }
        }
    }
    let fleet = known.cache.fleet();
    let taken = take_away(
        &Taking {
            application: &delivery.application,
            step: name,
            revision: &delivery.spec.revision,
            epoch: known.epoch,
            targets: &targets,
            observed,
            most: step.object.max_parallel,
        },
        |cluster| match fleet.members.get(cluster) {
            Some(member) => member.unreachable.clone(),
            None => Some("the cluster is not registered".to_owned()),
        },
    );
    let unsatisfied = match (named.clusters.is_empty(), targets.is_empty()) {
        (false, true) => vec![format!(
            "step {} has applied the object on none of the clusters that this step names",
            step.object.takes_of.join(" and ")
        )],
        _ => unsatisfied(named.satisfied, &named.reasons),
    };
    let shown = StepEvidence::Placed {
        unsatisfied,
        clusters: taken.clusters.clone(),
    };
    (taken, shown)
}

/// A step that follows the fleet: its clusters are chosen as placement chooses them, by one rule without replicas; but for
/// those from which the run has taken the object away again.
fn follow(
    known: &Known<'_>,
    step: &StepObject<'_>,
    manifest: &Value,
    held: &BTreeMap<String, Vec<Observed>>,
    evidence: &mut Evidence,
) -> (Plan, StepEvidence) {
    let (delivery, name) = (known.delivery, &step.step.name);
    let fleet = known.cache.fleet();
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
    let mut plan = object_plan(&ObjectRequest {
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
    let mut clusters = evidence_by_cluster(&plan, held, &fleet);
    if let Some(most) = step.object.max_parallel {
        let wave = Wave {
            clusters: &chosen.clusters,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            wait: step.wait,
        };
        let unreachable = |cluster: &str| {
            let member = fleet.members.get(cluster);
            member.is_none_or(|member| member.unreachable.is_some())
        };
        hold_back(&mut plan, &[wave], held, &clusters, unreachable);
        clusters = evidence_by_cluster(&plan, held, &fleet);
    }
    if had_any && chosen.clusters.is_empty() {
        // There is nothing left of it to be ready.
        return (plan, StepEvidence::AllowedEmpty);
    }
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
