//! What a step takes away again from clusters.

use super::{choose, named};
use crate::{
    application::view::Known,
    dispatch::{
        Observed, Taken, Taking,
        removal::{self, Removal},
        take_away,
    },
    workflow::{HeldObject, Reach, StepEvidence, StepObject},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Where a step takes an object away.
struct Takes<'s> {
    step: &'s str,
    /// The clusters of the fleet that it names.
    named: BTreeSet<String>,
    /// Those that it names one by one, in the fleet or not.
    listed: BTreeSet<&'s str>,
}

impl<'s> Takes<'s> {
    fn of(known: &Known<'_>, step: &'s StepObject<'_>) -> Takes<'s> {
        let placement = &step.object.placement;
        let rules = placement.placement.iter();
        let listed = rules.filter_map(|rule| rule.clusters.as_ref()).flatten();
        Takes {
            step: &step.step.name,
            named: named(known, &step.step.name, placement)
                .clusters
                .into_iter()
                .collect(),
            listed: listed.map(String::as_str).collect(),
        }
    }

    /// Whether it takes from a cluster what these Bundles carry. Where it has begun it goes on, whatever becomes of the
    /// cluster's labels.
    fn takes(&self, cluster: &str, bundles: &[Arc<Observed>]) -> bool {
        let begun = |bundle: &Arc<Observed>| bundle.taken_by() == Some(self.step);
        self.named.contains(cluster) || self.listed.contains(cluster) || bundles.iter().any(begun)
    }
}

/// Cluster -> the steps whose object goes there, of the clusters that the step takes it from: where they have a Bundle, and
/// where they would have one now. Of the latter nobody has said that the object is not there. All of these steps have applied
/// something.
pub(super) fn targets<'s>(
    known: &Known<'_>,
    step: &StepObject<'_>,
    of: &[&StepObject<'s>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
) -> BTreeMap<String, BTreeSet<&'s str>> {
    let none = BTreeMap::new();
    let takes = Takes::of(known, step);
    let mut targets: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for from in of {
        let name = from.step.name.as_str();
        let held = observed.get(name).unwrap_or(&none);
        let applied = choose(known, (name, &from.object.placement), held.keys()).clusters;
        for cluster in applied.iter().chain(held.keys()) {
            if takes.takes(cluster, held.get(cluster).map_or(&[], Vec::as_slice)) {
                targets.entry(cluster.clone()).or_default().insert(name);
            }
        }
    }
    targets
}

/// The Bundles that carry what a step takes away, of whatever run.
pub(super) fn held(
    known: &Known<'_>,
    step: &StepObject<'_>,
    observed: &BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
) -> Vec<HeldObject> {
    let of = step.object.takes_of.iter();
    let of: Vec<_> = of.filter_map(|from| Some((from, observed.get(from)?))).collect();
    if of.iter().all(|(_, held)| held.is_empty()) {
        return Vec::new();
    }
    let takes = Takes::of(known, step);
    let gone = |bundle: &Arc<Observed>| {
        bundle.taken_by().is_some_and(|other| other != takes.step)
            && removal::next(bundle, bundle.spec.deletion.as_ref()) == Removal::Release
    };
    let each = of.iter().flat_map(|(from, held)| {
        held.iter().map(|(cluster, bundles)| HeldObject {
            step: (*from).clone(),
            cluster: cluster.clone(),
            named: takes.takes(cluster, bundles),
            gone: bundles.iter().all(gone),
        })
    });
    each.collect()
}

/// A step that takes away what others have applied in this run, on the clusters that it names.
pub(super) fn take(
    known: &Known<'_>,
    step: &StepObject<'_>,
    steps: &[StepObject<'_>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
) -> (Taken, StepEvidence) {
    let (delivery, name) = (known.delivery, &step.step.name);
    // What an earlier run has applied is not this step's.
    let applied = |from: &&StepObject<'_>| matches!(from.reach, Some(Reach::Placed | Reach::Live));
    let of = steps
        .iter()
        .filter(|from| step.object.takes_of.contains(&from.step.name));
    let of: Vec<&StepObject<'_>> = of.filter(applied).collect();
    let targets = targets(known, step, &of, observed);
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
        |cluster| fleet.unreachable(cluster).map(str::to_owned),
    );
    // Where nothing is there is nothing to take away; what was there at its start the step remembers.
    let shown = match targets.is_empty() {
        true => StepEvidence::AllowedEmpty,
        false => StepEvidence::Placed {
            unsatisfied: Vec::new(),
            clusters: taken.clusters.clone(),
        },
    };
    (taken, shown)
}
