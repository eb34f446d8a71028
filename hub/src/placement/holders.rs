//! Which clusters hold something of the application already.

use super::{Previous, fleet::Fleet, labels::ClusterSet};
use std::collections::BTreeMap;

/// The clusters that have a bundle, or replicas, by the step that gave them.
#[derive(Debug)]
pub(super) struct Holders<'a> {
    by_step: BTreeMap<&'a str, ClusterSet>,
}

impl<'a> Holders<'a> {
    /// Reads the history.
    pub(super) fn new(previous: &'a Previous, fleet: &Fleet<'_>) -> Self {
        let mut by_step: BTreeMap<&str, ClusterSet> = BTreeMap::new();
        let mut add = |step: &'a str, clusters: &mut dyn Iterator<Item = usize>| {
            let set = by_step
                .entry(step)
                .or_insert_with(|| ClusterSet::none(fleet.len()));
            clusters.for_each(|cluster| set.insert(cluster));
        };
        for (step, names) in &previous.members {
            add(step, &mut fleet.find_all(names));
        }
        for ((step, ..), counts) in &previous.assignments {
            let names = counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(name, _)| name);
            add(step, &mut fleet.find_all(names));
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
