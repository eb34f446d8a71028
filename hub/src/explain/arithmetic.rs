//! How the replicas of a workload come to their clusters: shares, totals, quotas, bounds, ties. Read off a decision.

use super::Setting;
use crate::{placement::StepDecision, words};
use roundhouse_api::{
    decision::{Exclusion, Unplaced, WorkloadDecision, WorkloadRef},
    placement::{Rule, WeightBy},
};

/// The division of one workload in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Arithmetic {
    /// Step name.
    pub step: String,
    /// The workload.
    pub workload: WorkloadRef,
    /// Replicas that it asks for.
    pub replicas: u32,
    /// Of those, placed by this step.
    pub placed: u32,
    /// What found no place, by rule and reason.
    pub unplaced: Vec<Unplaced>,
    /// The rules, in order.
    pub rules: Vec<RuleArithmetic>,
    /// What the remainder holds, with the last placing step.
    pub held: Option<u32>,
    /// Whether all rules together claim more than there is, so that some of these get less than their seats.
    pub overcommitted: bool,
}

/// What one rule makes of its share.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleArithmetic {
    /// Rule name.
    pub rule: String,
    /// What it says: `70%`, `3`; absent for a rule that gives every cluster the full count.
    pub share: Option<String>,
    /// Its exact share as a reduced fraction.
    pub quota: Option<String>,
    /// Replicas before rules were shrunk because they claim too much together.
    pub seats: u32,
    /// Replicas that it divides (a duplicate rule: gives to each).
    pub total: u32,
    /// What settled a tie between rules.
    pub tie: Option<String>,
    /// Whether its seats differ from its quota by more than rounding.
    pub off: bool,
    /// Its clusters, sorted by name.
    pub rows: Vec<RowArithmetic>,
}

/// What one cluster gets of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RowArithmetic {
    /// Cluster name.
    pub cluster: String,
    /// Its weight; absent for a rule that gives every cluster the full count.
    pub weight: Option<u64>,
    /// Its exact share as a reduced fraction; absent for duplicates.
    pub quota: Option<String>,
    /// Replicas.
    pub replicas: u32,
    /// The bound that held, with its value where it has one: `max 5`.
    pub bound: Option<String>,
    /// Replicas before.
    pub previous: Option<u32>,
    /// What settled a tie.
    pub tie: Option<String>,
}

impl RowArithmetic {
    /// Change against the decision before.
    pub fn delta(&self) -> i64 {
        i64::from(self.replicas) - i64::from(self.previous.unwrap_or(0))
    }
}

/// The arithmetic of one step, one entry per workload. `decision` is the step's.
pub fn arithmetic(setting: &Setting, decision: &StepDecision) -> Vec<Arithmetic> {
    let step = setting.steps.iter().find(|step| step.name == decision.step);
    let rules: Vec<(String, &Rule)> = step
        .into_iter()
        .flat_map(|step| step.spec.placement.iter().enumerate())
        .map(|(index, rule)| (rule.name_or_index(index), rule))
        .collect();
    let of_workload = |workload: &WorkloadDecision| Arithmetic {
        step: decision.step.clone(),
        workload: workload.workload.clone(),
        replicas: workload.replicas,
        placed: workload.placed,
        unplaced: workload.unplaced.clone(),
        rules: rules
            .iter()
            .map(|(name, rule)| of_rule(setting, decision, (name, rule), workload))
            .collect(),
        held: workload
            .rules
            .iter()
            .find(|total| total.rule.is_none())
            .map(|total| total.total),
        overcommitted: workload.overcommitted,
    };
    decision.workloads.iter().map(of_workload).collect()
}

fn of_rule(
    setting: &Setting,
    decision: &StepDecision,
    (name, rule): (&str, &Rule),
    workload: &WorkloadDecision,
) -> RuleArithmetic {
    let total = workload
        .rules
        .iter()
        .find(|total| total.rule.as_deref() == Some(name));
    let total = total.cloned().unwrap_or_default();
    let rows = workload.clusters.iter().filter(|row| row.rule == name);
    let rows = rows.map(|row| RowArithmetic {
        cluster: row.name.to_string(),
        weight: weight(setting, decision, (name, rule), &row.name),
        quota: row.quota.as_ref().map(ToString::to_string),
        replicas: row.replicas,
        bound: row
            .bound
            .as_deref()
            .map(|bound| bound_in_words(bound, rule, row.replicas)),
        previous: row.previous,
        tie: row.tie.as_deref().map(str::to_owned),
    });
    RuleArithmetic {
        rule: name.to_owned(),
        share: total.share.clone(),
        off: total
            .quota
            .as_deref()
            .is_some_and(|quota| is_off(quota, total.seats)),
        quota: total.quota,
        seats: total.seats,
        total: total.total,
        tie: total.tie,
        rows: rows.collect(),
    }
}

/// The weight of a cluster in a rule.
fn weight(
    setting: &Setting,
    decision: &StepDecision,
    (name, rule): (&str, &Rule),
    cluster: &str,
) -> Option<u64> {
    rule.replicas?;
    match &rule.weight_by {
        None => Some(rule.weights.get(cluster).copied().unwrap_or(1).into()),
        Some(WeightBy::Label(key)) => setting.cluster(cluster)?.labels.get(key)?.parse().ok(),
        Some(WeightBy::Allocatable(_)) => {
            let frozen = decision.frozen_weights.iter().find(|frozen| frozen.rule == name);
            frozen?.weights.get(cluster).copied()
        }
    }
}

/// Whether seats differ from a quota by 1 or more.
fn is_off(quota: &str, seats: u32) -> bool {
    words::parts(quota).is_some_and(|(over, under)| (u128::from(seats) * under).abs_diff(over) >= under)
}

fn bound_in_words(bound: &str, rule: &Rule, replicas: u32) -> String {
    let bounds = rule.per_cluster.unwrap_or_default();
    match (bound, bounds.min, bounds.max) {
        ("Min", Some(min), _) => format!("min {min}"),
        ("Max", _, Some(max)) => format!("max {max}"),
        ("Capacity", ..) => format!("capacity {replicas}"),
        ("ZeroWeight", ..) => "weight 0".to_owned(),
        ("NoAdditional", ..) => "no additional".to_owned(),
        (other, ..) => other.to_owned(),
    }
}

/// Clusters not chosen, the most frequent reason first.
pub fn by_frequency(excluded: &[Exclusion]) -> Vec<Exclusion> {
    let mut sorted = excluded.to_vec();
    sorted.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
    sorted
}
