//! What was decided before, read from earlier decisions.

use super::{StepDecision, Workload};
use roundhouse_api::{
    decision::{DecisionSpec, FrozenWeights, WorkloadDecision, WorkloadRef},
    shared::SharedStr,
};
use std::collections::BTreeMap;

/// The kind that is divided once per revision, as far as a decision tells: it names no group.
const JOB: &str = "Job";

/// Why what a cluster lost of a workload that is divided once has no other place.
pub(super) const DIVIDED_ONCE: &str = "DividedOnce";

/// Names a rule's division of a workload: step, workload, rule.
pub(super) type Divided = (String, WorkloadRef, String);

/// Assignments of earlier decisions.
///
/// Every cluster is named once; what was assigned refers to it by number, so that a decision looks its name up once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Previous {
    /// The clusters that assignments, members and choices speak of, ascending, each once.
    pub(super) clusters: Vec<String>,
    /// What each rule gave: (place in `clusters`, replicas), ascending, each once.
    pub(super) assignments: BTreeMap<Divided, Vec<(usize, u32)>>,
    /// Step -> clusters that hold a bundle from it, as places in `clusters`, ascending, each once.
    pub(super) members: BTreeMap<String, Vec<usize>>,
    /// Step -> clusters that it chose and gave nothing, in the same way.
    pub(super) chosen: BTreeMap<String, Vec<usize>>,
    /// Workload -> (step, rule), or `None` for the remainder -> seats before shrinking; they settle ties between rules.
    /// A rule without an entry counts with the sum of its assignments.
    pub(super) totals: BTreeMap<WorkloadRef, BTreeMap<Option<(String, String)>, u32>>,
    /// (step, rule) -> weights that were frozen.
    pub(super) frozen: BTreeMap<(String, String), FrozenWeights>,
    /// (step, workload) -> its division, where that stands: what may be a Job, which is divided once per revision, and what
    /// a run has passed.
    pub(crate) fixed: BTreeMap<(String, WorkloadRef), Fixed>,
}

/// A division that stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fixed {
    /// What was divided.
    pub(super) division: WorkloadDecision,
    /// The run has passed the step, so it stands whatever the workload is. Otherwise it does if the workload is divided
    /// once.
    pub(super) passed: bool,
}

impl Previous {
    /// How a step divided this workload, if that stands.
    pub(super) fn standing(&self, step: &str, workload: &Workload) -> Option<&WorkloadDecision> {
        let fixed = self.fixed.get(&(step.to_owned(), workload.key.clone()))?;
        let stands = fixed.passed || workload.once;
        // Other replicas are another division.
        (stands && fixed.division.replicas == workload.replicas).then_some(&fixed.division)
    }

    /// Reads the decisions of an application's placing steps: assignments settle ties and say what a cluster out of
    /// reach keeps; members keep their bundles.
    pub fn from_decisions<'a>(decisions: impl IntoIterator<Item = &'a DecisionSpec>) -> Self {
        Previous::read(decisions.into_iter().map(Past::from).collect())
    }

    /// The same, with the Jobs fixed that were divided for this revision: a Job is divided once per revision and never
    /// again, since what runs of it cannot be moved. What no cluster got is not divided yet.
    pub fn from_decisions_at<'a>(
        revision: &str,
        decisions: impl IntoIterator<Item = &'a DecisionSpec>,
    ) -> Self {
        let decisions: Vec<&DecisionSpec> = decisions.into_iter().collect();
        let mut previous = Previous::from_decisions(decisions.iter().copied());
        for decision in decisions.into_iter().filter(|d| d.revision == revision) {
            let lost = |w: &WorkloadDecision| w.unplaced.iter().any(|none| none.reason == DIVIDED_ONCE);
            let divided = |w: &&WorkloadDecision| w.clusters.iter().any(|row| row.replicas > 0) || lost(w);
            let jobs = decision.workloads.iter().filter(|w| w.workload.kind == JOB);
            for workload in jobs.filter(divided) {
                let key = (decision.step.clone(), workload.workload.clone());
                let division = workload.clone();
                previous.fixed.insert(
                    key,
                    Fixed {
                        division,
                        passed: false,
                    },
                );
            }
        }
        previous
    }

    /// The same, where these decisions stand until the run has ended, as those of the steps that it has passed do: what
    /// they hold is taken off before the other steps divide.
    pub fn passing<'a>(mut self, decisions: impl IntoIterator<Item = &'a DecisionSpec>) -> Self {
        for decision in decisions {
            for workload in &decision.workloads {
                let key = (decision.step.clone(), workload.workload.clone());
                let fixed = self.fixed.entry(key).or_insert_with(|| Fixed {
                    division: workload.clone(),
                    passed: true,
                });
                fixed.passed = true;
            }
        }
        self
    }

    /// The same from the answer of [`place`](super::place).
    pub fn from_steps<'a>(decisions: impl IntoIterator<Item = &'a StepDecision>) -> Self {
        Previous::read(decisions.into_iter().map(Past::from).collect())
    }

    fn read(decisions: Vec<Past<'_>>) -> Self {
        let names = names(&decisions);
        let mut previous = Previous::default();
        for decision in decisions {
            previous.add(&decision, &names);
        }
        previous.clusters = names.into_iter().map(str::to_owned).collect();
        previous
    }

    fn add(&mut self, decision: &Past<'_>, names: &[&str]) {
        let step = decision.step;
        let members = numbered(names, decision.clusters.iter().copied());
        self.members
            .insert(step.to_owned(), ascending(members, |a, b| a == b));
        if !decision.chosen.is_empty() {
            let chosen = numbered(names, decision.chosen.iter().map(String::as_str));
            self.chosen
                .insert(step.to_owned(), ascending(chosen, |a, b| a == b));
        }
        for workload in decision.workloads {
            let mut by_rule: BTreeMap<&str, Vec<(usize, u32)>> = BTreeMap::new();
            let rows = numbered(names, workload.clusters.iter().map(|row| row.name.as_str()));
            for (row, place) in workload.clusters.iter().zip(rows) {
                by_rule.entry(&row.rule).or_default().push((place, row.replicas));
            }
            for (rule, counts) in by_rule {
                let key = (step.to_owned(), workload.workload.clone(), rule.to_owned());
                let entry = self.assignments.entry(key).or_default();
                entry.extend(counts);
                *entry = ascending(std::mem::take(entry), |a, b| a.0 == b.0);
            }
            let totals = self.totals.entry(workload.workload.clone()).or_default();
            for total in &workload.rules {
                let key = total.rule.as_ref().map(|rule| (step.to_owned(), rule.clone()));
                totals.insert(key, total.seats);
            }
        }
        for weights in decision.frozen {
            self.frozen
                .insert((step.to_owned(), weights.rule.clone()), weights.clone());
        }
    }

    /// The seats that a rule of a step had of a workload, or with `None` those that the remainder had.
    pub(super) fn seats(&self, workload: &WorkloadRef, rule: Option<(&str, &str)>) -> u32 {
        let key = rule.map(|(step, rule)| (step.to_owned(), rule.to_owned()));
        if let Some(seats) = self.totals.get(workload).and_then(|totals| totals.get(&key)) {
            return *seats;
        }
        let Some((step, rule)) = key else { return 0 };
        let counts = self.assignments.get(&(step, workload.clone(), rule));
        let sum: u64 = counts
            .into_iter()
            .flatten()
            .map(|(_, count)| u64::from(*count))
            .sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }
}

/// What of an earlier decision counts.
struct Past<'a> {
    step: &'a str,
    workloads: &'a [WorkloadDecision],
    clusters: Vec<&'a str>,
    chosen: &'a [String],
    frozen: &'a [FrozenWeights],
}

impl<'a> From<&'a DecisionSpec> for Past<'a> {
    fn from(decision: &'a DecisionSpec) -> Self {
        Past {
            step: &decision.step,
            workloads: &decision.workloads,
            clusters: decision.clusters.iter().map(String::as_str).collect(),
            chosen: &decision.chosen,
            frozen: &decision.frozen_weights,
        }
    }
}

impl<'a> From<&'a StepDecision> for Past<'a> {
    fn from(decision: &'a StepDecision) -> Self {
        Past {
            step: &decision.step,
            workloads: &decision.workloads,
            clusters: decision.clusters.iter().map(SharedStr::as_str).collect(),
            chosen: &decision.chosen,
            frozen: &decision.frozen_weights,
        }
    }
}

/// The clusters of members, of a choice and of rows, ascending, each once.
fn names<'a>(decisions: &[Past<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let mut add = |name: &'a str| {
        // Rows of one cluster are neighbours.
        if names.last() != Some(&name) {
            names.push(name);
        }
    };
    for decision in decisions {
        decision.clusters.iter().for_each(|name| add(name));
        decision.chosen.iter().for_each(|name| add(name));
        let rows = decision.workloads.iter().flat_map(|workload| &workload.clusters);
        rows.for_each(|row| add(&row.name));
    }
    // Stable: a merge of what is sorted already.
    names.sort();
    names.dedup();
    names
}

/// The places of these names in `all`, which has them all; quickest if they ascend.
fn numbered<'n>(all: &[&str], names: impl Iterator<Item = &'n str>) -> Vec<usize> {
    let mut at = 0;
    let place = |name: &str| {
        if all.get(at) != Some(&name) {
            at = match all.get(at + 1) == Some(&name) {
                true => at + 1,
                false => all.partition_point(|held| *held < name),
            };
        }
        at
    };
    names.map(place).collect()
}

/// Sorts what is not sorted; of equal entries the last counts.
fn ascending<T: Ord + Copy>(mut list: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    if !list.is_sorted_by(|a, b| a < b && !same(a, b)) {
        list.reverse();
        list.sort_by(|a, b| {
            if same(a, b) {
                std::cmp::Ordering::Equal
            } else {
                a.cmp(b)
            }
        });
        list.dedup_by(|a, b| same(a, b));
    }
    list
}
