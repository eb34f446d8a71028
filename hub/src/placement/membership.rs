//! Which clusters get a bundle: objects without a replica count go to every member.
//!
//! Architecture invariant: a share of 0 gives no new bundle and takes none away; a cluster stops being a member only
//! when no rule may use it.

use super::{Request, eligible::Selection, fleet::Fleet, labels::ClusterSet};

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
