//! Which clusters hold something of the application already.

use super::{Previous, fleet::Fleet, labels::ClusterSet};
use std::collections::BTreeMap;

/// The clusters that have a bundle, or replicas, by the step that gave them.
#[derive(Debug)]
pub(super) struct Holders<'a> {
    by_step: BTreeMap<&'a str, ClusterSet>,
    /// Those of any step.
    pub(super) any: ClusterSet,
}

impl<'a> Holders<'a> {
    /// Reads the history.
    pub(super) fn new(previous: &'a Previous, fleet: &Fleet<'_>) -> Self {
        let mut holders = Holders {
            by_step: BTreeMap::new(),
            any: ClusterSet::none(fleet.len()),
        };
        for (step, names) in &previous.members {
            holders.add(step, fleet.find_all(names), fleet);
        }
        for ((step, ..), counts) in &previous.assignments {
            let names = counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(name, _)| name);
            holders.add(step, fleet.find_all(names), fleet);
        }
        holders
    }

    fn add(&mut self, step: &'a str, clusters: impl Iterator<Item = usize>, fleet: &Fleet<'_>) {
        let none = || ClusterSet::none(fleet.len());
        let set = self.by_step.entry(step).or_insert_with(none);
        clusters.for_each(|cluster| set.insert(cluster));
        self.any.extend(set);
    }

    /// Those that hold something which belongs to this step: what it gave itself, and what was given by a step that
    /// is gone or no longer chooses the cluster. `chosen` tells what a step chooses now.
    pub(super) fn of<'c>(&self, step: &str, chosen: impl Fn(&str) -> Option<&'c ClusterSet>) -> ClusterSet {
        let mut held = ClusterSet::none(self.any.size());
        for (holder, set) in &self.by_step {
            let mut set = set.clone();
            if *holder != step
                && let Some(chosen) = chosen(holder)
            {
                set.retain(&chosen.clone().complement());
            }
            held.extend(&set);
        }
        held
    }
}
