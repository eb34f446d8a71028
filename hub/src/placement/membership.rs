//! Which clusters get a bundle: objects without a replica count go to every member.
//!
//! Architecture invariant: a share of 0 gives no new bundle and takes none away; a cluster stops being a member only
//! when no rule may use it.

use super::{Request, fleet::Fleet, holders::Holders, labels::ClusterSet};

/// The members of every step, sorted by name. `chosen` are the clusters that the rules of each step may use, `placed`
/// those that have replicas from it.
pub(super) fn members<'p>(
    request: &Request<'_>,
    fleet: &Fleet<'_>,
    holders: &Holders<'_>,
    chosen: &[ClusterSet],
    placed: impl Iterator<Item = &'p ClusterSet>,
) -> Vec<Vec<String>> {
    let chosen_by = |name: &str| {
        let mut steps = request.steps.iter().zip(chosen);
        steps
            .find(|(step, _)| step.name == name)
            .map(|(_, chosen)| chosen)
    };
    let steps = request.steps.iter().zip(chosen).zip(placed);
    steps
        .map(|((step, chosen), placed)| {
            let members = if request.workloads.is_empty() {
                chosen.clone()
            } else {
                let mut members = holders.of(step.name, chosen_by);
                members.retain(chosen);
                members.extend(placed);
                members
            };
            members
                .iter()
                .map(|cluster| fleet.name(cluster).to_owned())
                .collect()
        })
        .collect()
}
