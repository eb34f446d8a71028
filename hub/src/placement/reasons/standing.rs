//! Of a division that stands: what it lacks, and when it is made anew.

use super::{Reasons, listed, replicas, until};
use roundhouse_api::decision::{RuleTotal, Unplaced, WorkloadDecision};
use std::collections::BTreeMap;

/// Replicas of a division that stands, on clusters that the rule may no longer use. `once` here and below: it is a Job.
pub(in crate::placement) fn of_lost(
    reasons: &mut Reasons,
    workload: &WorkloadDecision,
    rule: &str,
    count: u32,
    once: bool,
) {
    let key = &workload.workload;
    reasons.push(format!(
        "{} of {} {}/{} lost the clusters that rule {rule} gave them to, and {}",
        replicas(u64::from(count)),
        key.kind,
        key.namespace,
        key.name,
        until(once)
    ));
}

/// Clusters that a rule without a share did not give a Job in full when it was divided. Returns whether capacity bounded
/// none of them.
pub(in crate::placement) fn of_kept_full(reasons: &mut Reasons, workload: &WorkloadDecision) -> bool {
    let mut short: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut room = true;
    let rows = workload.clusters.iter().filter(|row| row.duplicate);
    for row in rows.filter(|row| row.replicas < workload.replicas) {
        let bound = row.bound.as_deref().unwrap_or("bounded");
        room &= bound != "Capacity";
        let list = short.entry(&row.rule).or_default();
        list.push(format!("{}: {bound} {}", row.name, row.replicas));
    }
    let key = &workload.workload;
    for (rule, list) in short {
        reasons.push(format!(
            "rule {rule} does not give every cluster all {} replicas of {} {}/{} ({})",
            workload.replicas,
            key.kind,
            key.namespace,
            key.name,
            listed(list.into_iter())
        ));
    }
    room
}

/// What a rule did not get when it was divided.
pub(in crate::placement) fn of_taken(
    reasons: &mut Reasons,
    workload: &WorkloadDecision,
    rule: &RuleTotal,
    once: bool,
) {
    let key = &workload.workload;
    reasons.push(format!(
        "rule {} got {} of its {} replicas of {} {}/{}: the others were taken when it was divided, and {}",
        rule.rule.as_deref().unwrap_or(""),
        rule.total,
        rule.seats,
        key.kind,
        key.namespace,
        key.name,
        until(once)
    ));
}

/// What a rule could not place when it was divided.
pub(in crate::placement) fn of_kept(
    reasons: &mut Reasons,
    workload: &WorkloadDecision,
    unplaced: &Unplaced,
    once: bool,
) {
    let key = &workload.workload;
    reasons.push(format!(
        "{} of {} {}/{} could not be placed when rule {} was divided ({}), and {}",
        replicas(u64::from(unplaced.count)),
        key.kind,
        key.namespace,
        key.name,
        unplaced.rule.as_deref().unwrap_or(""),
        unplaced.reason,
        until(once)
    ));
}
