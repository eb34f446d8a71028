//! An index of labels, so that a rule is matched by lists of clusters and not by a scan. It is kept up to date change by
//! change and outlives the decisions that are made with it.
//!
//! Clusters are numbers here: their place in the fleet, which is sorted by name.

use roundhouse_api::placement::{ClusterSelector, Operator};
use std::{collections::BTreeMap, sync::OnceLock};

/// A set of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterSet {
    words: Vec<u64>,
    size: usize,
}

impl ClusterSet {
    /// No cluster of a fleet of `size`.
    pub(super) fn none(size: usize) -> Self {
        ClusterSet {
            words: vec![0; size.div_ceil(64)],
            size,
        }
    }

    /// Every cluster of a fleet of `size`.
    pub(super) fn all(size: usize) -> Self {
        ClusterSet::none(size).complement()
    }

    /// Those of the fleet that are in the list.
    pub(super) fn of(size: usize, clusters: impl IntoIterator<Item = usize>) -> Self {
        let mut set = ClusterSet::none(size);
        clusters.into_iter().for_each(|cluster| set.insert(cluster));
        set
    }

    /// Adds a cluster.
    pub(super) fn insert(&mut self, cluster: usize) {
        if let Some(word) = self.words.get_mut(cluster / 64) {
            *word |= 1 << (cluster % 64);
        }
    }

    /// Whether the cluster is in.
    pub(super) fn contains(&self, cluster: usize) -> bool {
        self.words
            .get(cluster / 64)
            .is_some_and(|word| word >> (cluster % 64) & 1 == 1)
    }

    /// Keeps what is in both.
    pub(super) fn retain(&mut self, other: &ClusterSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Adds what is in the other.
    pub(super) fn extend(&mut self, other: &ClusterSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// What is not in.
    pub(super) fn complement(mut self) -> Self {
        let size = self.size;
        for (index, word) in self.words.iter_mut().enumerate() {
            let bits = (size - index * 64).min(64);
            *word = !*word & (u64::MAX >> (64 - bits));
        }
        self
    }

    /// How many are in.
    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The clusters, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// The same as a list.
    pub(super) fn list(&self) -> Vec<usize> {
        let mut list = Vec::with_capacity(self.len());
        for (index, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                list.push(index * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
        list
    }
}

/// The clusters that have one value of a label.
#[derive(Debug, Clone, Default)]
struct Posting {
    /// Ascending.
    clusters: Vec<usize>,
    /// The same as a set, from the first selector that asks for it to the next change.
    set: OnceLock<ClusterSet>,
}

impl Posting {
    /// The list, to be changed.
    fn change(&mut self) -> &mut Vec<usize> {
        self.set.take();
        &mut self.clusters
    }

    /// Adds the clusters to a set of a fleet of `size`.
    fn add_to(&self, set: &mut ClusterSet, size: usize) {
        // A set costs its words, however few clusters are in.
        if self.clusters.len() < size.div_ceil(64) {
            self.clusters.iter().for_each(|cluster| set.insert(*cluster));
        } else {
            let clusters = || ClusterSet::of(size, self.clusters.iter().copied());
            set.extend(self.set.get_or_init(clusters));
        }
    }
}

impl PartialEq for Posting {
    fn eq(&self, other: &Self) -> bool {
        self.clusters == other.clusters
    }
}

/// Label key -> value -> the clusters that have it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LabelIndex {
    size: usize,
    keys: BTreeMap<String, BTreeMap<String, Posting>>,
}

impl LabelIndex {
    /// Of a fleet with these labels.
    pub(super) fn of<'l>(fleet: impl ExactSizeIterator<Item = &'l BTreeMap<String, String>>) -> Self {
        let mut index = LabelIndex {
            size: fleet.len(),
            keys: BTreeMap::new(),
        };
        for (cluster, labels) in fleet.enumerate() {
            index.add(cluster, labels);
        }
        index
    }

    /// Makes room for a cluster that comes in at this place: those from there on move up by one.
    pub(super) fn open(&mut self, place: usize) {
        self.size += 1;
        for cluster in self.postings().flatten().filter(|cluster| **cluster >= place) {
            *cluster += 1;
        }
    }

    /// Closes the place of a cluster that is gone and whose labels were taken out: those behind it move down by one.
    pub(super) fn close(&mut self, place: usize) {
        self.size = self.size.saturating_sub(1);
        for cluster in self.postings().flatten().filter(|cluster| **cluster > place) {
            *cluster -= 1;
        }
    }

    fn postings(&mut self) -> impl Iterator<Item = &mut Vec<usize>> {
        let postings = self.keys.values_mut().flat_map(BTreeMap::values_mut);
        postings.map(Posting::change)
    }

    /// Enters the labels of a cluster.
    pub(super) fn add(&mut self, cluster: usize, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            if !self.keys.contains_key(key) {
                self.keys.insert(key.clone(), BTreeMap::new());
            }
            let Some(values) = self.keys.get_mut(key) else {
                continue;
            };
            if !values.contains_key(value) {
                values.insert(value.clone(), Posting::default());
            }
            if let Some(posting) = values.get_mut(value)
                && let Err(at) = posting.clusters.binary_search(&cluster)
            {
                posting.change().insert(at, cluster);
            }
        }
    }

    /// Takes the labels of a cluster out.
    pub(super) fn take(&mut self, cluster: usize, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let Some(values) = self.keys.get_mut(key) else {
                continue;
            };
            if let Some(posting) = values.get_mut(value) {
                posting.change().retain(|held| *held != cluster);
                if posting.clusters.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    /// The clusters that a selector selects.
    pub(super) fn select(&self, selector: &ClusterSelector) -> ClusterSet {
        let mut selected = ClusterSet::all(self.size);
        for (key, value) in &selector.match_labels {
            selected.retain(&self.having(key, std::slice::from_ref(value)));
        }
        for requirement in &selector.match_expressions {
            let key = &requirement.key;
            selected.retain(&match &requirement.operator {
                Operator::In(values) => self.having(key, values),
                Operator::NotIn(values) => self.having(key, values).complement(),
                Operator::Exists => self.having_any(key),
                Operator::DoesNotExist => self.having_any(key).complement(),
            });
        }
        selected
    }

    /// The shortest list of clusters that have a label's value which the selector demands; `None` if it demands none.
    pub(super) fn narrowest(&self, selector: &ClusterSelector) -> Option<&[usize]> {
        let having = |(key, value): (&String, &String)| {
            let posting = self.keys.get(key).and_then(|values| values.get(value));
            posting.map_or(&[][..], |posting| &posting.clusters)
        };
        let lists = selector.match_labels.iter().map(having);
        lists.min_by_key(|clusters| clusters.len())
    }

    /// The values of a label and the clusters that have each, in the order of the values.
    pub(super) fn values(&self, key: &str) -> impl Iterator<Item = (&str, &[usize])> + '_ {
        let values = self.keys.get(key).into_iter().flatten();
        values.map(|(value, posting)| (value.as_str(), posting.clusters.as_slice()))
    }

    fn having(&self, key: &str, values: &[String]) -> ClusterSet {
        let index = self.keys.get(key);
        self.any_of(values.iter().filter_map(|value| index?.get(value.as_str())))
    }

    fn having_any(&self, key: &str) -> ClusterSet {
        self.any_of(self.keys.get(key).into_iter().flat_map(BTreeMap::values))
    }

    fn any_of<'p>(&self, postings: impl Iterator<Item = &'p Posting>) -> ClusterSet {
        let mut set = ClusterSet::none(self.size);
        postings.for_each(|posting| posting.add_to(&mut set, self.size));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{ClusterFacts, Inventory};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn selector() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        let value = prop::sample::select(vec!["x", "y", "z"]);
        let values = prop::collection::vec(value.clone(), 1..3);
        let requirement = (key.clone(), 0..4, values).prop_map(|(key, operator, values)| match operator {
            0 => json!({"key": key, "operator": "In", "values": values}),
            1 => json!({"key": key, "operator": "NotIn", "values": values}),
            2 => json!({"key": key, "operator": "Exists"}),
            _ => json!({"key": key, "operator": "DoesNotExist"}),
        });
        let labels = prop::collection::btree_map(key, value, 0..3);
        (labels, prop::collection::vec(requirement, 0..3))
            .prop_map(|(labels, list)| json!({"matchLabels": labels, "matchExpressions": list}))
    }

    fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("[abcd]", "[xyz]", 0..4)
    }

    proptest! {
        #![proptest_config(super::super::tests::runs())]

        #[test]
        fn the_index_selects_what_a_scan_selects(
            selector in selector(),
            fleet in prop::collection::vec(labels(), 0..140),
        ) {
            let selector = ClusterSelector::from_value(&selector).unwrap();
            let mut index = LabelIndex::default();
            for (cluster, labels) in fleet.iter().enumerate() {
                index.open(cluster);
                index.add(cluster, labels);
            }
            let selected = index.select(&selector);
            let scanned: Vec<usize> = (0..fleet.len()).filter(|i| selector.matches(&fleet[*i])).collect();
            prop_assert_eq!(selected.len(), scanned.len());
            prop_assert_eq!(selected.iter().collect::<Vec<_>>(), scanned);
        }

        /// Also after changes to a fleet that has been asked before each of them, so that sets are there that it must not use.
        #[test]
        fn a_changed_index_selects_what_a_scan_selects(
            selector in selector(),
            fleet in prop::collection::vec(labels(), 60..140),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(labels())), 1..12),
        ) {
            let selector = ClusterSelector::from_value(&selector).unwrap();
            let facts = |n: usize, labels: &BTreeMap<String, String>| ClusterFacts {
                name: format!("c{n:03}"),
                labels: labels.clone(),
                ..ClusterFacts::default()
            };
            // Names are left between them, before the first and after the last.
            let mut kept: Inventory = fleet.iter().enumerate().map(|(n, labels)| facts(2 * n + 1, labels)).collect();
            for (at, labels) in changes {
                kept.index.select(&selector);
                let n = at.index(2 * fleet.len() + 1);
                match labels {
                    Some(labels) => drop(kept.put(facts(n, &labels))),
                    None => drop(kept.remove(&facts(n, &BTreeMap::new()).name)),
                }
                let matching = kept.clusters().iter().enumerate().filter(|(_, facts)| selector.matches(&facts.labels));
                let scanned: Vec<usize> = matching.map(|(place, _)| place).collect();
                prop_assert_eq!(kept.index.select(&selector).list(), scanned);
            }
        }
    }
}
