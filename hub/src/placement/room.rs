//! The room of the clusters: capacity, less what steps and workloads use of it, in order.
//!
//! Of one workload a later step replaces what an earlier one gave a cluster, and one that gives it nothing leaves what is
//! there (`dispatch::shares`); different workloads add up. So what a cluster holds is told for each step that a run comes
//! to, and a step gets what is left then and afterwards.

use super::fleet::Fleet;
use roundhouse_api::decision::WorkloadRef;
use std::collections::BTreeMap;

/// What is left of the clusters' room.
#[derive(Debug)]
pub(super) struct Room {
    /// What each cluster can hold, where it reports that; empty where none does.
    capacity: Vec<Option<u32>>,
    /// Step -> cluster -> what workloads besides the one at hand hold once a run has come to the step.
    used: Vec<Vec<u64>>,
    /// Workload -> step -> what it gives: cluster and replicas.
    given: BTreeMap<WorkloadRef, BTreeMap<usize, Vec<(usize, u32)>>>,
    /// What is left to the step at hand.
    left: Vec<Option<u32>>,
    /// What the step at hand gives each cluster of the workload: divided, and by duplicate rules. The larger runs.
    at_hand: Vec<(u32, u32)>,
    /// For clusters that get nothing more: replicas of this workload that they hold from rules that are gone. All of
    /// them go to the first rule that may use the cluster: shared, one rule's growth would shrink another.
    pub(super) orphans: BTreeMap<usize, u32>,
}

impl Room {
    /// All that the clusters report, for so many steps.
    pub(super) fn new(fleet: &Fleet<'_>, steps: usize) -> Self {
        let reported = fleet.clusters.iter().any(|facts| facts.capacity.is_some());
        let (capacity, used) = match reported {
            true => (
                fleet.clusters.iter().map(|facts| facts.capacity).collect(),
                vec![vec![0; fleet.len()]; steps],
            ),
            false => (Vec::new(), Vec::new()),
        };
        Room {
            capacity,
            used,
            given: BTreeMap::new(),
            left: Vec::new(),
            at_hand: vec![(0, 0); fleet.len()],
            orphans: BTreeMap::new(),
        }
    }

    /// Notes what a step gives of a workload, once and for all. Before anything is divided: [`settle`](Self::settle).
    pub(super) fn stand(
        &mut self,
        workload: &WorkloadRef,
        step: usize,
        given: impl Iterator<Item = (usize, u32)>,
    ) {
        let known = &self.capacity;
        let given = given.filter(|(cluster, _)| known.get(*cluster).is_some_and(Option::is_some));
        let given: Vec<(usize, u32)> = given.filter(|(_, replicas)| *replicas > 0).collect();
        if !given.is_empty() {
            let steps = self.given.entry(workload.clone()).or_default();
            steps.insert(step, given);
        }
    }

    /// Takes the room of all that stands: what is divided first must not be given it.
    pub(super) fn settle(&mut self) {
        let workloads: Vec<WorkloadRef> = self.given.keys().cloned().collect();
        for workload in &workloads {
            self.charge(workload, u64::saturating_add);
        }
    }

    /// Begins with a workload: what its steps give it, it can have.
    pub(super) fn open(&mut self, workload: &WorkloadRef) {
        self.charge(workload, u64::saturating_sub);
    }

    /// Begins with a step of the workload.
    pub(super) fn begin(&mut self, step: usize) {
        let later = self.used.get(step..).unwrap_or_default();
        let most = |cluster: usize| later.iter().filter_map(|used| used.get(cluster)).max();
        let clusters = self.capacity.iter().enumerate();
        let left = clusters.map(|(cluster, capacity)| {
            let most = most(cluster).copied().unwrap_or(0);
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            capacity.map(|capacity| capacity.saturating_sub(most))
        });
        self.left = left.collect();
    }

    /// What a cluster can still hold of a rule: a full count contains what is divided.
    pub(super) fn left(&self, cluster: usize, duplicate: bool) -> Option<u32> {
        let left = self.left.get(cluster).copied().flatten()?;
        let (divided, _) = self.at_hand.get(cluster).copied().unwrap_or_default();
        Some(left.saturating_sub(if duplicate { 0 } else { divided }))
    }

    /// Notes what a rule of the step gives.
    pub(super) fn give(&mut self, cluster: usize, replicas: u32, duplicate: bool) {
        if let Some((divided, full)) = self.at_hand.get_mut(cluster) {
            match duplicate {
                true => *full = replicas.max(*full),
                false => *divided = divided.saturating_add(replicas),
            }
        }
    }

    /// Ends with a step: of what it gave, the larger count of each cluster runs. Returns the clusters that have both kinds,
    /// with both counts.
    pub(super) fn close(&mut self, workload: &WorkloadRef, step: usize) -> Vec<(usize, u32, u32)> {
        let mut given = std::mem::take(&mut self.at_hand);
        let runs = given.iter().map(|(divided, full)| *divided.max(full));
        self.stand(workload, step, runs.enumerate());
        let clusters = given.iter().enumerate();
        let both = clusters.filter(|(_, (divided, full))| *divided > 0 && *full > 0);
        let both = both.map(|(cluster, (divided, full))| (cluster, *divided, *full));
        let both = both.collect();
        given.fill((0, 0));
        self.at_hand = given;
        both
    }

    /// Ends with a workload: what its steps gave is used.
    pub(super) fn shut(&mut self, workload: &WorkloadRef) {
        self.charge(workload, u64::saturating_add);
    }

    /// What a workload holds once a run has come to each step, added to what is used or taken off it.
    fn charge(&mut self, workload: &WorkloadRef, change: fn(u64, u64) -> u64) {
        let Some(steps) = self.given.get(workload) else {
            return;
        };
        let mut holds = vec![0u32; self.capacity.len()];
        for (step, used) in self.used.iter_mut().enumerate() {
            for (cluster, replicas) in steps.get(&step).into_iter().flatten() {
                if let Some(holds) = holds.get_mut(*cluster) {
                    *holds = *replicas;
                }
            }
            for (used, holds) in used.iter_mut().zip(&holds) {
                *used = change(*used, u64::from(*holds));
            }
        }
    }
}
