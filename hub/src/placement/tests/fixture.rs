//! Small fleets and requests for the tests.

use crate::placement::{
    ClusterFacts, Inventory, PlacingStep, Previous, Request, StepDecision, Workload, place,
};
use jiff::Timestamp;
use roundhouse_api::{decision::WorkloadRef, placement::PlacementSpec};
use serde_json::Value;

/// A cluster that is open to placements, with labels such as `region=east`.
pub(crate) fn cluster(name: &str, labels: &str) -> ClusterFacts {
    let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
    ClusterFacts {
        name: name.to_owned(),
        labels: pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        joined: true,
        accepted: true,
        reachable: true,
        ..ClusterFacts::default()
    }
}

/// A Deployment in `default`.
pub(super) fn workload(name: &str, replicas: u32) -> Workload {
    Workload {
        key: WorkloadRef {
            kind: "Deployment".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        },
        replicas,
        once: false,
    }
}

/// Owns what a request borrows.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    pub(super) steps: Vec<(String, PlacementSpec)>,
    pub(super) workloads: Vec<Workload>,
    /// In any order.
    pub(super) clusters: Vec<ClusterFacts>,
    pub(super) previous: Previous,
    pub(super) now: Timestamp,
}

impl Case {
    /// One step `deploy` with this placement, one Deployment `web`.
    pub(super) fn new(spec: Value, replicas: u32, clusters: impl IntoIterator<Item = ClusterFacts>) -> Self {
        Case::default()
            .step("deploy", spec)
            .clusters(clusters)
            .web(replicas)
    }

    pub(super) fn step(mut self, name: &str, spec: Value) -> Self {
        self.steps
            .push((name.to_owned(), serde_json::from_value(spec).unwrap()));
        self
    }

    pub(super) fn clusters(mut self, clusters: impl IntoIterator<Item = ClusterFacts>) -> Self {
        self.clusters = clusters.into_iter().collect();
        self
    }

    pub(super) fn web(mut self, replicas: u32) -> Self {
        self.workloads = vec![workload("web", replicas)];
        self
    }

    /// What an earlier decision gave, from the only rule of the first step.
    pub(super) fn after(mut self, counts: &[(&str, u32)]) -> Self {
        let key = (self.steps[0].0.as_str(), &self.workloads[0].key, "rule-0");
        let previous = std::mem::take(&mut self.previous);
        self.previous = previous.assigning(key, counts.iter().copied());
        self
    }

    /// The same after this decision.
    pub(super) fn following(mut self, decisions: &[StepDecision]) -> Self {
        self.previous = Previous::from_steps(decisions);
        self
    }

    /// The place of a rule in its step.
    pub(super) fn rule_index(&self, step: usize, name: &str) -> usize {
        let mut rules = self.steps[step].1.placement.iter().enumerate();
        rules
            .position(|(index, rule)| rule.name_or_index(index) == name)
            .unwrap()
    }

    pub(super) fn place(&self) -> Vec<StepDecision> {
        let steps: Vec<PlacingStep<'_>> = self
            .steps
            .iter()
            .map(|(name, spec)| PlacingStep { name, spec })
            .collect();
        place(&Request {
            application: "default/shop",
            steps: &steps,
            workloads: &self.workloads,
            inventory: &self.clusters.iter().cloned().collect::<Inventory>(),
            previous: &self.previous,
            now: self.now,
        })
    }
}

/// Replicas of the first workload per (cluster, rule), in the order of the decision, over all steps.
pub(super) fn counts(decisions: &[StepDecision]) -> Vec<(String, u32)> {
    let rows = decisions.iter().flat_map(|step| &step.workloads[0].clusters);
    rows.map(|row| (row.name.to_string(), row.replicas)).collect()
}

/// Only the numbers of [`counts`].
pub(super) fn numbers(decisions: &[StepDecision]) -> Vec<u32> {
    counts(decisions).into_iter().map(|(_, count)| count).collect()
}

/// Replicas that were not placed, by rule and reason.
pub(super) fn unplaced(decisions: &[StepDecision]) -> Vec<(Option<&str>, u32, &str)> {
    let lists = decisions.iter().flat_map(|step| &step.workloads[0].unplaced);
    lists
        .map(|u| (u.rule.as_deref(), u.count, u.reason.as_str()))
        .collect()
}
