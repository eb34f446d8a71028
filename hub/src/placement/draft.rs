//! The decision of one step while it is being made: what stands is kept, what is divided is entered.

use super::{
    PlacingStep, Workload,
    decide::Placing,
    eligible::{RuleClusters, Selection},
    fleet::Fleet,
    labels::ClusterSet,
    previous::DIVIDED_ONCE,
    reasons::{self, Reasons},
    rule::{Limit, RuleDivision},
    ties::Tie,
    totals::Total,
};
use roundhouse_api::{
    decision::{Assignment, RuleTotal, Unplaced, WorkloadDecision},
    shared::SharedStr,
};
use std::{borrow::Cow, collections::BTreeMap};

/// A decision that is being made.
pub(super) struct Draft {
    /// One entry per workload that was entered.
    pub(super) workloads: Vec<WorkloadDecision>,
    /// The clusters that have replicas from it.
    pub(super) placed: ClusterSet,
    /// As [`StepDecision::satisfied`](super::StepDecision::satisfied), so far.
    pub(super) satisfied: bool,
    /// What there is to say so far.
    pub(super) reasons: Reasons,
}

impl Draft {
    /// Without a workload.
    pub(super) fn new(step: &PlacingStep<'_>, fleet: &Fleet<'_>) -> Self {
        let mut reasons = Reasons::default();
        if step.spec.placement.is_empty() {
            reasons.no_rules(step.name);
        }
        Draft {
            workloads: Vec::new(),
            placed: ClusterSet::none(fleet.len()),
            satisfied: !step.spec.placement.is_empty(),
            reasons,
        }
    }

    /// Enters what was divided before and stands, for a Job (`once`) or while a run lasts. What a cluster had that the
    /// rules may no longer use is unplaced.
    pub(super) fn keep(
        &mut self,
        before: &WorkloadDecision,
        once: bool,
        selection: &Selection,
        fleet: &Fleet<'_>,
    ) {
        let mut decision = before.clone();
        // What it lost before counts on.
        let mut lost: BTreeMap<SharedStr, u32> = BTreeMap::new();
        decision.unplaced.retain(
            |unplaced| match (&unplaced.rule, unplaced.reason == DIVIDED_ONCE) {
                (Some(rule), true) => {
                    let sum = lost.entry(rule.as_str().into()).or_default();
                    *sum = sum.saturating_add(unplaced.count);
                    false
                }
                _ => true,
            },
        );
        let mut gone = 0u32;
        decision.clusters.retain_mut(|row| {
            row.previous = Some(row.replicas);
            row.tie = None;
            let Some(cluster) = usable(&row.name, selection, fleet) else {
                if !row.duplicate && row.replicas > 0 {
                    let sum = lost.entry(row.rule.clone()).or_default();
                    *sum = sum.saturating_add(row.replicas);
                    gone = gone.saturating_add(row.replicas);
                }
                return false;
            };
            if row.replicas > 0 {
                self.placed.insert(cluster);
            }
            true
        });
        // Stable: rules of one name, which validation refuses, stay in their order.
        decision
            .clusters
            .sort_by(|a, b| (&a.name, &a.rule).cmp(&(&b.name, &b.rule)));
        decision.placed = decision.placed.saturating_sub(gone);
        self.satisfied &= reasons::of_kept_full(&mut self.reasons, &decision);
        let of_rule = |total: &&RuleTotal| total.rule.is_some() && total.total < total.seats;
        for total in decision.rules.iter().filter(of_rule) {
            reasons::of_taken(&mut self.reasons, &decision, total, once);
        }
        for unplaced in decision
            .unplaced
            .iter()
            .filter(|unplaced| unplaced.rule.is_some())
        {
            reasons::of_kept(&mut self.reasons, &decision, unplaced, once);
        }
        for (rule, count) in lost {
            reasons::of_lost(&mut self.reasons, &decision, &rule, count, once);
            decision.unplaced.push(Unplaced {
                rule: Some(rule.to_string()),
                count,
                reason: DIVIDED_ONCE.to_owned(),
            });
        }
        self.satisfied &= decision.unplaced.iter().all(|unplaced| unplaced.rule.is_none());
        self.workloads.push(decision);
    }

    /// Enters what a rule's clusters get.
    pub(super) fn add(
        &mut self,
        workload: &Workload,
        placing: &Placing<'_>,
        total: &Total,
        division: &RuleDivision,
        clusters: &RuleClusters,
        fleet: &Fleet<'_>,
    ) {
        let duplicate = placing.rule.replicas.is_none();
        reasons::of_division(&mut self.reasons, workload, placing, total, division, fleet);
        let lacks_capacity = division.rows.iter().any(|row| row.bound == Some(Limit::Capacity));
        let Some(decision) = self.workloads.last_mut() else {
            return;
        };
        let shown = if duplicate {
            Total {
                total: workload.replicas,
                ..Total::default()
            }
        } else {
            *total
        };
        decision.rules.push(rule_total(
            Some(&placing.name),
            placing.rule.replicas.map(|s| s.to_string()),
            &shown,
        ));
        if duplicate {
            self.satisfied &= !lacks_capacity;
        } else {
            let placed: u64 = division.rows.iter().map(|row| u64::from(row.replicas)).sum();
            decision.placed = decision
                .placed
                .saturating_add(u32::try_from(placed).unwrap_or(u32::MAX));
            if division.unplaced > 0 {
                self.satisfied = false;
                decision.unplaced.push(Unplaced {
                    rule: Some(placing.name.clone()),
                    count: u32::try_from(division.unplaced).unwrap_or(u32::MAX),
                    reason: reasons::unplaced_code(division, clusters).to_owned(),
                });
            }
        }
        let placed = division.rows.iter().filter(|row| row.replicas > 0);
        placed.for_each(|row| self.placed.insert(row.cluster));
    }

    /// Enters the rows of all rules, which ascend by cluster each, sorted by cluster and rule name.
    pub(super) fn enter(&mut self, names: &[&str], divisions: Vec<RuleDivision>, fleet: &Fleet<'_>) {
        let Some(decision) = self.workloads.last_mut() else {
            return;
        };
        let names = names.iter().map(|name| SharedStr::from(*name));
        let mut rules: Vec<(SharedStr, RuleDivision)> = names.zip(divisions).collect();
        // Stable: rules of one name, which validation refuses, stay in their order.
        rules.sort_by(|(a, _), (b, _)| a.cmp(b));
        let order = by_cluster(&rules, fleet.len());
        let mut rules: Vec<_> = rules
            .into_iter()
            .map(|(name, division)| (name, division.duplicate, division.rows.into_iter()))
            .collect();
        let row = |rank: usize| {
            let (rule, duplicate, rows) = rules.get_mut(rank)?;
            let row = rows.next()?;
            Some(Assignment {
                name: fleet.shared_name(row.cluster),
                rule: rule.clone(),
                replicas: row.replicas,
                quota: row.quota,
                bound: row.bound.map(|limit| Cow::Borrowed(limit.as_str())),
                previous: row.previous,
                tie: row.tie.map(|tie| Cow::Borrowed(tie.as_str())),
                duplicate: *duplicate,
                before: None,
            })
        };
        decision.clusters.reserve_exact(order.len());
        decision.clusters.extend(order.into_iter().filter_map(row));
    }
}

/// For each row of these rules, by cluster and then in their order, the place of its rule: a counting sort, since the rows
/// of each rule ascend.
fn by_cluster(rules: &[(SharedStr, RuleDivision)], clusters: usize) -> Vec<usize> {
    let rows = || {
        let rules = rules.iter().enumerate();
        rules.flat_map(|(rank, (_, division))| division.rows.iter().map(move |row| (rank, row.cluster)))
    };
    // Where the rows of each cluster begin.
    let mut places = vec![0usize; clusters + 1];
    for (_, cluster) in rows() {
        if let Some(next) = places.get_mut(cluster + 1) {
            *next += 1;
        }
    }
    let mut sum = 0;
    for place in &mut places {
        sum += *place;
        *place = sum;
    }
    let mut order = vec![0; sum];
    for (rank, cluster) in rows() {
        let Some(place) = places.get_mut(cluster) else {
            continue;
        };
        if let Some(slot) = order.get_mut(*place) {
            *slot = rank;
        }
        *place += 1;
    }
    order
}

/// The cluster of this name, if a rule may use it.
pub(super) fn usable(name: &str, selection: &Selection, fleet: &Fleet<'_>) -> Option<usize> {
    let cluster = fleet.find(name)?;
    let mut rules = selection.rules.iter();
    rules
        .any(|rule| rule.clusters.binary_search(&cluster).is_ok())
        .then_some(cluster)
}

/// What a rule, or the remainder, gets, as the decision says it.
pub(super) fn rule_total(rule: Option<&str>, share: Option<String>, total: &Total) -> RuleTotal {
    RuleTotal {
        rule: rule.map(str::to_owned),
        share,
        quota: total.quota.map(|quota| quota.to_string()),
        seats: total.seats,
        total: total.total,
        tie: total.tie.map(Tie::as_str).map(str::to_owned),
    }
}
