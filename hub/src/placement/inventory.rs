//! The fleet as placement knows it: sorted by name, with an index of its labels that is kept up to date change by change.

use super::{ClusterFacts, labels::LabelIndex};
use roundhouse_api::{placement::ClusterSelector, shared::SharedStr};
use std::sync::Arc;

/// The fleet, each name once. Built once and brought up to date with [`put`](Inventory::put) and
/// [`remove`](Inventory::remove), it serves any number of decisions; a copy shares the clusters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    clusters: Vec<Arc<ClusterFacts>>,
    /// Their names, which decisions share.
    names: Vec<SharedStr>,
    pub(super) index: LabelIndex,
}

impl Inventory {
    /// Takes a cluster in; returns what was known of it before. A new label costs the clusters of its old and new value,
    /// a new name a pass over the index.
    pub fn put(&mut self, facts: impl Into<Arc<ClusterFacts>>) -> Option<Arc<ClusterFacts>> {
        let facts = facts.into();
        match self.place(&facts.name) {
            Ok(place) => {
                let held = self.clusters.get_mut(place)?;
                let before = std::mem::replace(held, facts);
                if before.labels != held.labels {
                    self.index.take(place, &before.labels);
                    self.index.add(place, &held.labels);
                }
                Some(before)
            }
            Err(place) => {
                self.index.open(place);
                self.index.add(place, &facts.labels);
                self.names.insert(place, facts.name.as_str().into());
                self.clusters.insert(place, facts);
                None
            }
        }
    }

    /// Takes a cluster out; returns what was known of it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<ClusterFacts>> {
        let place = self.place(name).ok()?;
        let before = self.clusters.remove(place);
        self.names.remove(place);
        self.index.take(place, &before.labels);
        self.index.close(place);
        Some(before)
    }

    /// The cluster of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<ClusterFacts>> {
        self.clusters.get(self.place(name).ok()?)
    }

    /// The clusters, sorted by name.
    pub fn clusters(&self) -> &[Arc<ClusterFacts>] {
        &self.clusters
    }

    /// Their names, sorted.
    pub(super) fn names(&self) -> &[SharedStr] {
        &self.names
    }

    /// How many clusters there are.
    pub fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Clusters among which are all that a selector selects, without a pass over the fleet where it names a label's value.
    pub(super) fn candidates(
        &self,
        selector: Option<&ClusterSelector>,
    ) -> impl Iterator<Item = &ClusterFacts> {
        let narrowed = selector.and_then(|selector| self.index.narrowest(selector));
        let all = if narrowed.is_none() {
            self.clusters.as_slice()
        } else {
            &[]
        };
        let places = narrowed.into_iter().flatten();
        let narrowed = places.filter_map(|place| self.clusters.get(*place));
        narrowed.chain(all).map(AsRef::as_ref)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|held| held.as_str().cmp(name))
    }
}

impl FromIterator<Arc<ClusterFacts>> for Inventory {
    /// Of clusters of one name the last counts.
    fn from_iter<T: IntoIterator<Item = Arc<ClusterFacts>>>(clusters: T) -> Self {
        let mut clusters: Vec<Arc<ClusterFacts>> = clusters.into_iter().collect();
        clusters.reverse();
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        clusters.dedup_by(|a, b| a.name == b.name);
        let index = LabelIndex::of(clusters.iter().map(|facts| &facts.labels));
        let names = clusters.iter().map(|facts| facts.name.as_str().into());
        Inventory {
            names: names.collect(),
            clusters,
            index,
        }
    }
}

impl FromIterator<ClusterFacts> for Inventory {
    fn from_iter<T: IntoIterator<Item = ClusterFacts>>(clusters: T) -> Self {
        clusters.into_iter().map(Arc::new).collect()
    }
}
