//! `maxClusters` and `spread`: which of the usable clusters are chosen.
//!
//! Architecture invariant: a choice that is fed back as the previous one is made again.

use super::fleet::Fleet;
use roundhouse_api::placement::{Spread, WhenUnsatisfiable};
use std::collections::BTreeMap;

/// A usable cluster, in the order of preference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The cluster.
    pub(super) cluster: usize,
    /// It was chosen before and stays whatever the skew (`rebalance: Never`).
    pub(super) kept: bool,
}

/// Which clusters are not chosen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// There are enough before them.
    pub(super) beyond_limit: Vec<usize>,
    /// There is room for more, but choosing them would exceed the skew.
    pub(super) skewed: Vec<usize>,
    /// They lack the topology label.
    pub(super) unlabelled: Vec<usize>,
    /// Topology value -> clusters chosen, clusters that could be, if there is a spread.
    pub(super) groups: BTreeMap<String, (u32, u32)>,
}

impl Choice {
    /// How many more one value has than another.
    pub(super) fn skew(&self) -> u32 {
        let counts = || self.groups.values().map(|(chosen, _)| *chosen);
        counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
    }
}

/// Chooses at most `limit` clusters, the preferred ones first.
///
/// With a spread, the next to be chosen is always the most preferred cluster whose value would then have at most
/// `maxSkew` more than the value with the fewest. The values are those of the usable clusters. When none is left,
/// `DoNotSchedule` ends; `ScheduleAnyway` goes on with the value that has the fewest, and takes clusters without the label
/// last, which `DoNotSchedule` never takes (Kubernetes' pod topology spread does both with nodes).
pub(super) fn choose(
    candidates: &[Candidate],
    limit: usize,
    spread: Option<&Spread>,
    fleet: &Fleet<'_>,
) -> Choice {
    let mut choice = Choice::default();
    let Some(spread) = spread else {
        choice.beyond_limit = candidates.iter().skip(limit).map(|c| c.cluster).collect();
        return choice;
    };
    // Per value, its clusters in the order of preference: only the first of each can be the next.
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    let mut unlabelled = Vec::new();
    for (rank, candidate) in candidates.iter().enumerate() {
        let labels = fleet.clusters.get(candidate.cluster).map(|facts| &facts.labels);
        match labels.and_then(|labels| labels.get(&spread.topology_key)) {
            Some(value) => groups.entry(value).or_default().ranks.push(rank),
            None => unlabelled.push(rank),
        }
    }
    let mut chosen = vec![false; candidates.len()];
    let mut left = limit;
    // What is kept whatever the skew comes first, in every group too.
    for (rank, candidate) in candidates.iter().enumerate().take(limit) {
        if !candidate.kept {
            break;
        }
        if let Some(group) = groups.values_mut().find(|group| group.next() == Some(rank)) {
            group.take(&mut chosen);
        } else if let Some(slot) = chosen.get_mut(rank) {
            *slot = true;
        }
        left -= 1;
    }
    while left > 0 {
        let fewest = groups.values().map(|group| group.chosen).min().unwrap_or(0);
        let open = groups.values_mut().filter(|group| group.next().is_some());
        let within = |group: &Group| group.chosen < fewest.saturating_add(spread.max_skew);
        let next = match spread.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => open
                .filter(|group| within(group))
                .min_by_key(|group| group.next()),
            WhenUnsatisfiable::ScheduleAnyway => {
                open.min_by_key(|group| (if within(group) { 0 } else { group.chosen }, group.next()))
            }
        };
        let Some(group) = next else { break };
        group.take(&mut chosen);
        left -= 1;
    }
    if spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway {
        for rank in &unlabelled {
            if let Some(slot) = chosen.get_mut(*rank)
                && left > 0
                && !*slot
            {
                *slot = true;
                left -= 1;
            }
        }
    }
    for (rank, candidate) in candidates.iter().enumerate() {
        if chosen.get(rank).copied().unwrap_or(false) {
            continue;
        }
        let list = match unlabelled.binary_search(&rank) {
            Ok(_) if spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule => &mut choice.unlabelled,
            // By the number that is chosen, not by rank: ranks depend on history.
            _ if left == 0 => &mut choice.beyond_limit,
            _ => &mut choice.skewed,
        };
        list.push(candidate.cluster);
    }
    choice.groups = groups
        .into_iter()
        .map(|(value, group)| {
            let all = u32::try_from(group.ranks.len()).unwrap_or(u32::MAX);
            (value.to_owned(), (group.chosen, all))
        })
        .collect();
    choice
}

/// The clusters of one topology value.
#[derive(Debug, Default)]
struct Group {
    /// Their ranks, ascending.
    ranks: Vec<usize>,
    /// How many of them, from the front, are chosen.
    chosen: u32,
}

impl Group {
    fn next(&self) -> Option<usize> {
        self.ranks.get(usize::try_from(self.chosen).ok()?).copied()
    }

    fn take(&mut self, chosen: &mut [bool]) {
        if let Some(slot) = self.next().and_then(|rank| chosen.get_mut(rank)) {
            *slot = true;
            self.chosen += 1;
        }
    }
}
