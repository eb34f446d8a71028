//! Which clusters get a bundle: objects without a replica count go to every member.
//!
//! Architecture invariant: a share of 0 gives no new bundle and takes none away; a cluster stops being a member only
//! when no rule may use it.

use super::{Request, eligible::Selection, fleet::Fleet, labels::ClusterSet};

/// The members of one step, sorted by name. `placed` are the clusters with replicas from it.
pub(super) fn members(
    request: &Request<'_>,
    step: &str,
    selection: &Selection,
    fleet: &Fleet<'_>,
    placed: &ClusterSet,
) -> Vec<String> {
    let chosen = selection.chosen(fleet.len());
    let members = if request.workloads.is_empty() {
        chosen
    } else {
        let before = request.previous.members.get(step).into_iter().flatten();
        let mut members = ClusterSet::of(fleet.len(), before.filter_map(|name| fleet.find(name)));
        members.retain(&chosen);
        members.extend(placed);
        members
    };
    members
        .iter()
        .map(|cluster| fleet.name(cluster).to_owned())
        .collect()
}
