//! What was decided before, in the numbers of the present fleet, and which clusters hold something of it already.

use super::{Previous, fleet::Fleet, labels::ClusterSet, previous::Divided};
use std::collections::BTreeMap;

/// Earlier assignments of the clusters that are still there. Names are looked up once.
#[derive(Debug)]
pub(super) struct History<'a> {
    previous: &'a Previous,
    /// Place in `Previous::clusters` -> cluster.
    present: Vec<Option<usize>>,
}

impl<'a> History<'a> {
    /// Finds the clusters.
    pub(super) fn new(previous: &'a Previous, fleet: &Fleet<'_>) -> Self {
        let mut present = vec![None; previous.clusters.len()];
        for (cluster, place) in fleet.find_all(previous.clusters.iter().zip(0..)) {
            if let Some(slot) = present.get_mut::<usize>(place) {
                *slot = Some(cluster);
            }
        }
        History { previous, present }
    }

    /// Whether nothing was assigned.
    pub(super) fn is_empty(&self) -> bool {
        self.previous.assignments.is_empty()
    }

    /// What the rules gave: cluster and replicas, ascending.
    pub(super) fn assignments(
        &self,
    ) -> impl Iterator<Item = (&'a Divided, impl Iterator<Item = (usize, u32)>)> {
        let assignments = self.previous.assignments.iter();
        assignments.map(|(key, counts)| (key, self.here(counts)))
    }

    /// What one rule gave of one workload.
    pub(super) fn of_rule(&self, key: &Divided) -> Vec<(usize, u32)> {
        let counts = self.previous.assignments.get(key);
        counts
            .map(|counts| self.here(counts).collect())
            .unwrap_or_default()
    }

    /// The clusters that had a bundle from a step, ascending.
    pub(super) fn members(&self, step: &str) -> impl Iterator<Item = usize> {
        self.of_step(&self.previous.members, step)
    }

    /// The clusters that a step chose and gave nothing, ascending.
    fn noted(&self, step: &str) -> impl Iterator<Item = usize> {
        self.of_step(&self.previous.chosen, step)
    }

    fn of_step(&self, places: &'a BTreeMap<String, Vec<usize>>, step: &str) -> impl Iterator<Item = usize> {
        let places = places.get(step).into_iter().flatten();
        places.filter_map(|place| self.present.get(*place).copied().flatten())
    }

    /// What each cluster had from a step in all; `None` where the step had not chosen it: a chosen one has a row, if only
    /// of 0, or a bundle, or it is noted as such.
    pub(super) fn chosen(&self, step: &str, fleet: &Fleet<'_>) -> Vec<Option<u64>> {
        let mut before = vec![None; fleet.len()];
        let mut add = |cluster: usize, count: u32| {
            if let Some(sum) = before.get_mut(cluster) {
                *sum = Some(sum.unwrap_or(0) + u64::from(count));
            }
        };
        self.members(step).for_each(|cluster| add(cluster, 0));
        self.noted(step).for_each(|cluster| add(cluster, 0));
        let of_step = self.assignments().filter(|(key, _)| key.0 == step);
        of_step
            .flat_map(|(_, counts)| counts)
            .for_each(|(cluster, count)| add(cluster, count));
        before
    }

    fn here(&self, counts: &'a [(usize, u32)]) -> impl Iterator<Item = (usize, u32)> {
        let here =
            |(place, count): &(usize, u32)| Some((self.present.get(*place).copied().flatten()?, *count));
        counts.iter().filter_map(here)
    }
}

/// The clusters that have a bundle, or replicas, by the step that gave them.
#[derive(Debug)]
pub(super) struct Holders<'a> {
    by_step: BTreeMap<&'a str, ClusterSet>,
}

impl<'a> Holders<'a> {
    /// Reads the history.
    pub(super) fn new(history: &History<'a>, fleet: &Fleet<'_>) -> Self {
        let mut by_step: BTreeMap<&str, ClusterSet> = BTreeMap::new();
        let mut add = |step: &'a str, clusters: &mut dyn Iterator<Item = usize>| {
            let set = by_step
                .entry(step)
                .or_insert_with(|| ClusterSet::none(fleet.len()));
            clusters.for_each(|cluster| set.insert(cluster));
        };
        for step in history.previous.members.keys() {
            add(step, &mut history.members(step));
        }
        for ((step, ..), counts) in history.assignments() {
            let with = counts.filter(|(_, count)| *count > 0);
            add(step, &mut with.map(|(cluster, _)| cluster));
        }
        Holders { by_step }
    }

    /// Those that hold something which belongs to this step: what it gave itself, and what was given by a step that
    /// is gone or no longer matches the cluster. `matched` tells what a step matches now.
    pub(super) fn of<'m>(
        &self,
        step: &str,
        fleet: &Fleet<'_>,
        matched: impl Fn(&str) -> Option<&'m ClusterSet>,
    ) -> ClusterSet {
        let mut held = ClusterSet::none(fleet.len());
        for (holder, set) in &self.by_step {
            let mut set = set.clone();
            if *holder != step
                && let Some(matched) = matched(holder)
            {
                set.retain(&matched.clone().complement());
            }
            held.extend(&set);
        }
        held
    }
}
