//! Which clusters get a bundle: objects without a replica count go to every member.
//! Which are chosen and get nothing, so that nothing else says so.
//!
//! Architecture invariant: a share of 0 gives no new bundle and takes none away; a cluster stops being a member only
//! when no rule may use it.

use super::{PlacingStep, Request, eligible::Selection, fleet::Fleet, labels::ClusterSet};
use roundhouse_api::decision::WorkloadDecision;

/// The members of a step. `placed` are the clusters that have replicas from it.
pub(super) fn members(
    request: &Request<'_>,
    selection: &Selection,
    fleet: &Fleet<'_>,
    placed: &ClusterSet,
) -> ClusterSet {
    let chosen = selection.rules.iter().flat_map(|rule| &rule.clusters);
    let mut members = ClusterSet::of(fleet.len(), chosen.copied());
    if !request.workloads.is_empty() {
        members.retain(&selection.holders);
        members.extend(placed);
    }
    members
}

/// The clusters that `maxClusters` chose and that nothing else of the decision speaks of: everything was divided once and
/// for all before they came. Without a note they would lose their place with their contact, and that would move what
/// others have.
pub(super) fn noted(
    step: &PlacingStep<'_>,
    selection: &Selection,
    fleet: &Fleet<'_>,
    workloads: &[WorkloadDecision],
    members: &ClusterSet,
) -> Vec<String> {
    if step.spec.max_clusters.is_none() {
        return Vec::new();
    }
    let chosen = selection.rules.iter().flat_map(|rule| &rule.clusters);
    let mut noted = ClusterSet::of(fleet.len(), chosen.copied());
    noted.retain(&members.clone().complement());
    let rows = workloads.iter().flat_map(|workload| &workload.clusters);
    let named = fleet.named(rows.map(|row| &row.name));
    noted.retain(&named.complement());
    noted
        .iter()
        .map(|cluster| fleet.name(cluster).to_owned())
        .collect()
}
