//! What clusters run of decisions: as dispatch adds them up.

use crate::{
    dispatch::{Layer, shares},
    placement::StepDecision,
};
use std::collections::BTreeMap;

/// Cluster -> replicas of all workloads, once every step is carried out: of one step what rules divide or the full count
/// of a duplicate rule, whichever is more; of several steps the last.
pub(super) fn running(decisions: &[StepDecision]) -> BTreeMap<String, u64> {
    let nothing = BTreeMap::new();
    let names = |decision: &StepDecision| decision.clusters.iter().map(ToString::to_string).collect();
    let members: Vec<Vec<String>> = decisions.iter().map(names).collect();
    let layers = decisions.iter().zip(&members).map(|(decision, members)| Layer {
        step: &decision.step,
        reached: true,
        revision: "",
        components: &[],
        workloads: &decision.workloads,
        clusters: members,
        overrides: &[],
        cluster_labels: &nothing,
        waiting: &[],
        lost: &[],
    });
    let shares = shares(&layers.collect::<Vec<_>>());
    let sums = shares
        .into_iter()
        .map(|(cluster, share)| (cluster, share.total()));
    sums.collect()
}
