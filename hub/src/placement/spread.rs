//! `maxClusters` and `spread`: which of the usable clusters are chosen.
//!
//! Architecture invariant: a choice that is fed back as the previous one is made again.

use super::fleet::Fleet;
use roundhouse_api::placement::{Spread, WhenUnsatisfiable};
use std::collections::{BTreeMap, BTreeSet};

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
/// `maxSkew` more than the value with the fewest. The values are those of the clusters that `counts`, which have nothing
/// worse than a cordon or lost contact (as `nodeTaintsPolicy: Ignore` there): else losing contact with a cluster that is
/// not chosen would let others in. When none is left,
/// `DoNotSchedule` ends; `ScheduleAnyway` goes on with the value that has the fewest, and takes clusters without the label
/// last, which `DoNotSchedule` never takes (Kubernetes' pod topology spread does both with nodes).
pub(super) fn choose(
    candidates: &[Candidate],
    limit: usize,
    spread: Option<&Spread>,
    fleet: &Fleet<'_>,
    counts: impl Fn(usize) -> bool,
) -> Choice {
    let mut choice = Choice::default();
    let Some(spread) = spread else {
        choice.beyond_limit = candidates.iter().skip(limit).map(|c| c.cluster).collect();
        return choice;
    };
    // Cluster -> place of its value, in the order of the values.
    let mut place_of: Vec<Option<usize>> = vec![None; fleet.len()];
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (value, clusters) in fleet.index.values(&spread.topology_key) {
        for slot in clusters {
            if let Some(slot) = place_of.get_mut(*slot) {
                *slot = Some(groups.len());
            }
        }
        groups.push(Group::of(value, clusters.iter().copied().any(&counts)));
    }
    let mut unlabelled = Vec::new();
    let mut chosen = vec![false; candidates.len()];
    for (rank, candidate) in candidates.iter().enumerate() {
        // What is kept whatever the skew comes first, in every group too.
        let kept = candidate.kept && rank < limit;
        if let (true, Some(slot)) = (kept, chosen.get_mut(rank)) {
            *slot = true;
        }
        let place = place_of.get(candidate.cluster).copied().flatten();
        match place.and_then(|place| groups.get_mut(place)) {
            None => unlabelled.push(rank),
            Some(group) => {
                group.ranks.push(rank);
                group.chosen += u32::from(kept);
            }
        }
    }
    groups.retain(|group| group.counts);
    let mut left = limit - chosen.iter().filter(|chosen| **chosen).count();
    let mut queue = Queue::new(spread.max_skew, &groups);
    while left > 0 {
        let anyway = spread.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        let Some((rank, place)) = queue.next(anyway) else {
            break;
        };
        if let (Some(slot), Some(group)) = (chosen.get_mut(rank), groups.get_mut(place)) {
            *slot = true;
            queue.took(place, group);
        }
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
        .map(|group| {
            let all = u32::try_from(group.ranks.len()).unwrap_or(u32::MAX);
            (group.value.to_owned(), (group.chosen, all))
        })
        .collect();
    choice
}

/// The clusters of one topology value.
#[derive(Debug)]
struct Group<'a> {
    /// The value.
    value: &'a str,
    /// Whether it is a value of clusters that count.
    counts: bool,
    /// Their ranks, ascending: only the first that is not chosen can be the next.
    ranks: Vec<usize>,
    /// How many of them, from the front, are chosen.
    chosen: u32,
}

impl<'a> Group<'a> {
    fn of(value: &'a str, counts: bool) -> Self {
        Group {
            value,
            counts,
            ranks: Vec::new(),
            chosen: 0,
        }
    }

    fn next(&self) -> Option<usize> {
        self.ranks.get(usize::try_from(self.chosen).ok()?).copied()
    }
}

/// The groups that have clusters left, so that every choice costs the logarithm of their number.
#[derive(Debug)]
struct Queue {
    skew: u32,
    /// Clusters chosen -> how many groups have so many.
    counts: BTreeMap<u32, usize>,
    /// (rank, group) of those within the skew.
    open: BTreeSet<(usize, usize)>,
    /// (chosen, rank, group) of the others.
    blocked: BTreeSet<(u32, usize, usize)>,
}

impl Queue {
    fn new(skew: u32, groups: &[Group<'_>]) -> Self {
        let mut queue = Queue {
            skew,
            counts: BTreeMap::new(),
            open: BTreeSet::new(),
            blocked: BTreeSet::new(),
        };
        for group in groups {
            *queue.counts.entry(group.chosen).or_insert(0) += 1;
        }
        for (place, group) in groups.iter().enumerate() {
            queue.put(place, group);
        }
        queue
    }

    /// A value may have less than this.
    fn bound(&self) -> u32 {
        let fewest = self.counts.first_key_value().map_or(0, |(count, _)| *count);
        fewest.saturating_add(self.skew)
    }

    fn put(&mut self, place: usize, group: &Group<'_>) {
        let Some(rank) = group.next() else { return };
        if group.chosen < self.bound() {
            self.open.insert((rank, place));
        } else {
            self.blocked.insert((group.chosen, rank, place));
        }
    }

    /// The most preferred cluster within the skew, or `anyway` that of the group with the fewest.
    fn next(&mut self, anyway: bool) -> Option<(usize, usize)> {
        self.open.pop_first().or_else(|| {
            let (_, rank, place) = anyway.then(|| self.blocked.pop_first())??;
            Some((rank, place))
        })
    }

    /// Counts the cluster that was given out last, of this group.
    fn took(&mut self, place: usize, group: &mut Group<'_>) {
        if let Some(count) = self.counts.get_mut(&group.chosen) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&group.chosen);
            }
        }
        group.chosen += 1;
        *self.counts.entry(group.chosen).or_insert(0) += 1;
        self.put(place, group);
        while let Some(first) = self
            .blocked
            .first()
            .copied()
            .filter(|(count, ..)| *count < self.bound())
        {
            self.blocked.remove(&first);
            self.open.insert((first.1, first.2));
        }
    }
}
