//! What each rule gets, now and then: the lines of a placement table.

use super::ApplicationPlan;
use crate::words;
use roundhouse_api::{
    decision::{Assignment, DecisionSpec, Unplaced, WorkloadDecision, WorkloadRef},
    placement::{Operator, PlacementSpec, Rule},
};
use std::collections::BTreeMap;

/// Names that a selector shows at most.
const MAX_NAMES: usize = 5;

/// One rule, for one workload in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Step name.
    pub step: String,
    /// The workload.
    pub workload: WorkloadRef,
    /// The workload's replicas.
    pub replicas: u32,
    /// The rule; `None` for what no rule claims.
    pub rule: Option<String>,
    /// Which clusters it selects.
    pub selector: String,
    /// What it says: `70%`, `3`, `each` where every cluster gets the full count.
    pub share: String,
    /// Its exact share of the replicas, where it is divided.
    pub quota: Option<String>,
    /// Replicas in the stored decision; `None` if there is none.
    pub now: Option<u64>,
    /// Replicas then.
    pub new: u64,
    /// Whether they are no part of the workload's replicas: every cluster gets the full count.
    pub duplicate: bool,
    /// What found no place, with the reason.
    pub unplaced: Vec<Unplaced>,
    /// One per cluster, sorted by name.
    pub clusters: Vec<Assignment>,
}

impl Row {
    /// Clusters that get replicas.
    pub fn holding(&self) -> usize {
        self.clusters
            .iter()
            .filter(|cluster| cluster.replicas > 0)
            .count()
    }
}

/// The rows of an application: step by step, workload by workload, rule by rule, what no rule claims last. Rules that are
/// gone are shown with what they had.
pub fn rows(plan: &ApplicationPlan) -> Vec<Row> {
    let mut rows = Vec::new();
    for decision in &plan.decisions {
        let placement = placement_of(plan, &decision.spec.step);
        for workload in &decision.spec.workloads {
            let stored = decision.stored.as_ref().map(|stored| &stored.spec);
            of_workload(&decision.spec, workload, stored, placement, &mut rows);
        }
    }
    rows
}

fn placement_of<'p>(plan: &'p ApplicationPlan, step: &str) -> Option<&'p PlacementSpec> {
    let (_, deploy) = plan
        .valid
        .placing()
        .find(|(candidate, _)| candidate.name == step)?;
    Some(&deploy.placement)
}

fn of_workload(
    decision: &DecisionSpec,
    workload: &WorkloadDecision,
    stored: Option<&DecisionSpec>,
    placement: Option<&PlacementSpec>,
    rows: &mut Vec<Row>,
) {
    let former = stored.map(|stored| stored.workloads.iter().find(|w| w.workload == workload.workload));
    let mut had = former.flatten().map(sums).unwrap_or_default();
    let mut by_rule: BTreeMap<&str, Vec<Assignment>> = BTreeMap::new();
    for assignment in &workload.clusters {
        by_rule
            .entry(&assignment.rule)
            .or_default()
            .push(assignment.clone());
    }
    let row = |rule: Option<String>| Row {
        step: decision.step.clone(),
        workload: workload.workload.clone(),
        replicas: workload.replicas,
        rule,
        selector: String::new(),
        share: String::new(),
        quota: None,
        now: None,
        new: 0,
        duplicate: false,
        unplaced: Vec::new(),
        clusters: Vec::new(),
    };
    let rules = placement.map_or(&[][..], |placement| &placement.placement);
    for (index, rule) in rules.iter().enumerate() {
        let name = rule.name_or_index(index);
        let total = workload
            .rules
            .iter()
            .find(|total| total.rule.as_deref() == Some(&name));
        let clusters = by_rule.remove(name.as_str()).unwrap_or_default();
        let now = had.remove(name.as_str());
        let unplaced = workload
            .unplaced
            .iter()
            .filter(|unplaced| unplaced.rule.as_deref() == Some(&name));
        rows.push(Row {
            selector: selector_of(rule),
            share: rule
                .replicas
                .map_or_else(|| "each".to_owned(), |share| share.to_string()),
            quota: total.and_then(|total| total.quota.clone()),
            now: former.map(|_| now.unwrap_or(0)),
            new: sum(&clusters),
            duplicate: rule.replicas.is_none(),
            unplaced: unplaced.cloned().collect(),
            clusters,
            ..row(Some(name))
        });
    }
    // What clusters out of reach keep of rules that are gone, and rules that had something.
    let gone = by_rule
        .into_iter()
        .map(|(name, clusters)| (name.to_owned(), clusters));
    let gone: Vec<_> = gone.collect();
    for (name, clusters) in gone {
        let now = had.remove(name.as_str());
        rows.push(Row {
            share: "gone".to_owned(),
            now: former.map(|_| now.unwrap_or(0)),
            new: sum(&clusters),
            clusters,
            ..row(Some(name))
        });
    }
    for (name, now) in had {
        rows.push(Row {
            share: "gone".to_owned(),
            now: Some(now),
            ..row(Some(name.to_owned()))
        });
    }
    let unclaimed = |workload: &WorkloadDecision| {
        let unclaimed = workload
            .unplaced
            .iter()
            .filter(|unplaced| unplaced.rule.is_none());
        unclaimed.map(|unplaced| u64::from(unplaced.count)).sum::<u64>()
    };
    let (new, now) = (unclaimed(workload), former.flatten().map(unclaimed));
    if new > 0 || now.is_some_and(|now| now > 0) {
        rows.push(Row {
            now: former.map(|_| now.unwrap_or(0)),
            new,
            ..row(None)
        });
    }
}

fn sum(clusters: &[Assignment]) -> u64 {
    clusters.iter().map(|cluster| u64::from(cluster.replicas)).sum()
}

fn sums(workload: &WorkloadDecision) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for assignment in &workload.clusters {
        *sums.entry(assignment.rule.as_str()).or_default() += u64::from(assignment.replicas);
    }
    sums
}

/// Which clusters a rule selects, such as `region=east`; `every cluster` where it does not say.
pub fn selector_of(rule: &Rule) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(selector) = &rule.cluster_selector {
        let labels = selector.match_labels.iter();
        parts.extend(labels.map(|(key, value)| format!("{key}={value}")));
        parts.extend(selector.match_expressions.iter().map(|requirement| {
            let key = &requirement.key;
            match &requirement.operator {
                Operator::In(values) => format!("{key} in ({})", words::listed(values, MAX_NAMES)),
                Operator::NotIn(values) => format!("{key} not in ({})", words::listed(values, MAX_NAMES)),
                Operator::Exists => key.clone(),
                Operator::DoesNotExist => format!("!{key}"),
            }
        }));
    }
    let named = rule.clusters.iter();
    parts.extend(named.map(|names| format!("clusters {}", words::listed(names, MAX_NAMES))));
    if parts.is_empty() {
        return "every cluster".to_owned();
    }
    parts.join(", ")
}
