//! An index of labels, so that a rule is matched by lists of clusters and not by a scan. It is kept up to date change by
//! change and outlives the decisions that are made with it.
//!
//! Clusters are numbers here: their place in the fleet, which is sorted by name.

use roundhouse_api::placement::{ClusterSelector, Operator};
use std::collections::BTreeMap;

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
}

/// Label key -> value -> the clusters that have it, ascending.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LabelIndex {
    size: usize,
    keys: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
}

impl LabelIndex {
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
        self.keys.values_mut().flat_map(BTreeMap::values_mut)
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
            match values.get_mut(value) {
                None => {
                    values.insert(value.clone(), vec![cluster]);
                }
                Some(list) => {
                    if let Err(at) = list.binary_search(&cluster) {
                        list.insert(at, cluster);
                    }
                }
            }
        }
    }

    /// Takes the labels of a cluster out.
    pub(super) fn take(&mut self, cluster: usize, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let Some(values) = self.keys.get_mut(key) else {
                continue;
            };
            if let Some(list) = values.get_mut(value) {
                list.retain(|held| *held != cluster);
                if list.is_empty() {
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
            let clusters = self.keys.get(key).and_then(|values| values.get(value));
            clusters.map(Vec::as_slice).unwrap_or_default()
        };
        let lists = selector.match_labels.iter().map(having);
        lists.min_by_key(|clusters| clusters.len())
    }

    /// The values of a label and the clusters that have each, in the order of the values.
    pub(super) fn values(&self, key: &str) -> impl Iterator<Item = (&str, &[usize])> + '_ {
        let values = self.keys.get(key).into_iter().flatten();
        values.map(|(value, clusters)| (value.as_str(), clusters.as_slice()))
    }

    fn having(&self, key: &str, values: &[String]) -> ClusterSet {
        let index = self.keys.get(key);
        let lists = values
            .iter()
            .filter_map(|value| index.and_then(|i| i.get(value.as_str())));
        ClusterSet::of(self.size, lists.flatten().copied())
    }

    fn having_any(&self, key: &str) -> ClusterSet {
        let lists = self.keys.get(key).into_iter().flat_map(BTreeMap::values);
        ClusterSet::of(self.size, lists.flatten().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    }
}
