//! What a step takes away again from clusters.

use super::{choose, named};
use crate::{
    application::{status::unsatisfied, view::Known},
    dispatch::{Observed, Taken, Taking, take_away},
    workflow::{Reach, StepEvidence, StepObject},
};
use roundhouse_api::placement::PlacementSpec;
use std::collections::{BTreeMap, BTreeSet};

/// A step whose object is taken away.
pub(super) struct From<'s> {
    pub(super) step: &'s str,
    /// Where it applies the object.
    pub(super) placement: &'s PlacementSpec,
    /// Whether it has done so in this run.
    pub(super) applied: bool,
}

/// Cluster -> the steps whose object goes there, of the clusters that are `named`: where they have a Bundle, and where those
/// that have applied something would have one now. Of the latter nobody has said that the object is not there.
pub(super) fn targets<'s>(
    known: &Known<'_>,
    named: &[String],
    of: &[From<'s>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Observed>>>,
) -> BTreeMap<String, BTreeSet<&'s str>> {
    let none = BTreeMap::new();
    let mut targets: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for from in of {
        let held = observed.get(from.step).unwrap_or(&none);
        let applied = match from.applied {
            true => choose(known, (from.step, from.placement), held.keys()).clusters,
            false => Vec::new(),
        };
        for cluster in applied.iter().chain(held.keys()) {
            if named.contains(cluster) {
                targets.entry(cluster.clone()).or_default().insert(from.step);
            }
        }
    }
    targets
}

/// A step that takes away what others have applied, on the clusters that it names.
pub(super) fn take(
    known: &Known<'_>,
    step: &StepObject<'_>,
    steps: &[StepObject<'_>],
    observed: &BTreeMap<String, BTreeMap<String, Vec<Observed>>>,
) -> (Taken, StepEvidence) {
    let (delivery, name) = (known.delivery, &step.step.name);
    let named = named(known, name, &step.object.placement);
    let of: Vec<From<'_>> = steps
        .iter()
        .filter(|from| step.object.takes_of.contains(&from.step.name))
        .map(|from| From {
            step: &from.step.name,
            placement: &from.object.placement,
            applied: matches!(from.reach, Some(Reach::Placed | Reach::Live)),
        })
        .collect();
    let targets = targets(known, &named.clusters, &of, observed);
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
