//! What a finished run makes of the objects of steps, as far as that is known before.

use super::{Objects, choose, follow::wanted, take::targets};
use crate::{
    application::view::Known,
    dispatch::{Observed, Plan},
    workflow::{self, ObjectAhead},
};
use roundhouse_api::application::{ClusterVerb, Condition};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The object of a step, as a run will have it.
#[derive(Debug, Clone)]
pub struct ForeseenObject {
    /// The step.
    pub step: String,
    /// The clusters that it concerns, sorted: where it is applied and stays, is read, or is taken away from.
    pub clusters: Vec<String>,
    /// Of an object that is applied, the clusters that have it only until a later step takes it away, sorted.
    pub for_a_time: Vec<String>,
    /// What is not known before the run, a line each.
    pub unknown: Vec<String>,
    /// The Bundles of an object that is applied; none where its name is not known.
    pub plan: Plan,
    /// Its Bundles that are there, by cluster.
    pub observed: BTreeMap<String, Vec<Arc<Observed>>>,
    /// The Bundles of other steps that this one takes away.
    pub taken: Vec<Arc<Observed>>,
}

/// The objects of all steps once a run has succeeded in which every step was reached, and those Bundles that nothing wants then;
/// a step that takes away something if an expression holds is taken not to.
pub(in crate::application) fn ahead(known: &Known<'_>) -> (Vec<ForeseenObject>, Objects) {
    let delivery = known.delivery;
    let mut all = Objects {
        observed: known.cache.step_bundles(delivery.key),
        ..Objects::default()
    };
    let steps = workflow::objects_ahead(&delivery.spec, known.workflow);
    let foreseen: Vec<ForeseenObject> = steps
        .iter()
        .map(|ahead| foresee(known, ahead, &steps, &all.observed))
        .collect();
    for (object, ahead) in foreseen.iter().zip(&steps) {
        let known = matches!(&ahead.object.manifest, Some(Ok(_)));
        match ahead.object.object.verb {
            ClusterVerb::Apply if known => drop(all.plans.insert(object.step.clone(), object.plan.clone())),
            ClusterVerb::Apply => drop(all.untouched.insert(object.step.clone())),
            ClusterVerb::Read | ClusterVerb::Delete => {}
        }
    }
    let taken = foreseen.iter().flat_map(|object| &object.taken);
    let taken: BTreeSet<(String, String)> = taken.map(|bundle| bundle.key()).collect();
    let applies = |step: &str| {
        let applies = |ahead: &ObjectAhead<'_>| {
            ahead.object.step.name == step && ahead.object.object.verb == ClusterVerb::Apply
        };
        steps.iter().any(applies)
    };
    let left = all.observed.iter().filter(|(step, _)| !applies(step));
    let left = left
        .flat_map(|(_, held)| held.values().flatten())
        .map(|bundle| bundle.key());
    let elsewhere = foreseen
        .iter()
        .flat_map(|object| object.plan.surplus.iter().cloned());
    let surplus: BTreeSet<(String, String)> = left.chain(elsewhere).collect();
    // What a step takes away is confirmed by it.
    all.surplus = surplus.difference(&taken).cloned().collect();
    (foreseen, all)
}

fn foresee(
    known: &Known<'_>,
    ahead: &ObjectAhead<'_>,
    steps: &[ObjectAhead<'_>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
) -> ForeseenObject {
    let step = &ahead.object;
    let name = step.step.name.as_str();
    let held = observed.get(name).cloned().unwrap_or_default();
    let mut foreseen = ForeseenObject {
        step: name.to_owned(),
        clusters: Vec::new(),
        for_a_time: Vec::new(),
        unknown: ahead.unknown.clone(),
        plan: Plan::default(),
        observed: BTreeMap::new(),
        taken: Vec::new(),
    };
    let placement = &step.object.placement;
    match (step.object.verb, &step.manifest) {
        (ClusterVerb::Apply, Some(Ok(manifest))) => {
            let (plan, chosen, _) = wanted(known, step, manifest, &held);
            foreseen.for_a_time = choose(known, (name, placement), held.keys()).clusters;
            foreseen
                .for_a_time
                .retain(|cluster| !chosen.clusters.contains(cluster));
            foreseen.for_a_time.sort();
            foreseen.clusters = chosen.clusters;
            foreseen.plan = plan;
            foreseen.observed = held;
        }
        (ClusterVerb::Apply | ClusterVerb::Read, _) => {
            foreseen.clusters = choose(known, (name, placement), held.keys()).clusters;
        }
        (ClusterVerb::Delete, _) => {
            let of = steps.iter().map(|ahead| &ahead.object);
            let of = of.filter(|from| step.object.takes_of.contains(&from.step.name));
            let of: Vec<_> = of.collect();
            let targets = targets(known, step, &of, observed);
            if !matches!(step.step.condition, Some(Condition::When(_))) {
                let of_cluster = |(cluster, steps): (&String, &BTreeSet<&str>)| {
                    let held = steps.iter().filter_map(|step| observed.get(*step)?.get(cluster));
                    held.flatten().cloned().collect::<Vec<_>>()
                };
                foreseen.taken = targets.iter().flat_map(of_cluster).collect();
            }
            foreseen.clusters = targets.into_keys().collect();
        }
    }
    foreseen.clusters.sort();
    foreseen
}
