//! The fleet as placement works on it: sorted by name, with a hash per cluster and an index of labels.

use super::{
    ClusterFacts, Request,
    labels::{ClusterSet, LabelIndex},
    ties::stable_hash,
};
use roundhouse_api::placement::Rule;
use std::{collections::BTreeMap, sync::Arc};

/// The clusters of one request. A cluster is its place in the order of names.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    /// The clusters, sorted by name, each name once.
    pub(super) clusters: &'a [Arc<ClusterFacts>],
    application: &'a str,
    /// Their labels.
    pub(super) index: &'a LabelIndex,
}

impl<'a> Fleet<'a> {
    /// The fleet of a request.
    pub(super) fn new(request: &Request<'a>) -> Self {
        Fleet {
            clusters: request.inventory.clusters(),
            application: request.application,
            index: &request.inventory.index,
        }
    }

    /// How many clusters there are.
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// The name of a cluster.
    pub(super) fn name(&self, cluster: usize) -> &'a str {
        self.clusters.get(cluster).map_or("", |facts| &facts.name)
    }

    /// The stable hash of a cluster for this application.
    pub(super) fn hash(&self, cluster: usize) -> u64 {
        stable_hash(self.application, self.name(cluster))
    }

    /// The cluster of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.clusters
            .binary_search_by(|facts| facts.name.as_str().cmp(name))
            .ok()
    }

    /// The clusters of names, quickest if the names ascend: each is sought from the one before on, in growing leaps.
    pub(super) fn find_all<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
    ) -> impl Iterator<Item = usize> {
        let mut from = 0;
        names.into_iter().filter_map(move |name| {
            let is_before = |facts: &Arc<ClusterFacts>| facts.name < *name;
            if from > 0 && !self.clusters.get(from - 1).is_some_and(is_before) {
                from = 0;
            }
            let rest = self.clusters.get(from..).unwrap_or_default();
            let mut leap = 1;
            while rest.get(leap - 1).is_some_and(is_before) {
                leap *= 2;
            }
            let (start, end) = (leap / 2, leap.min(rest.len()));
            from += start
                + rest
                    .get(start..end)
                    .unwrap_or_default()
                    .partition_point(is_before);
            self.clusters
                .get(from)
                .filter(|facts| facts.name == *name)
                .map(|_| from)
        })
    }

    /// The clusters that a rule matches by selector and names.
    pub(super) fn matched(&self, rule: &Rule) -> ClusterSet {
        let mut matched = match &rule.cluster_selector {
            Some(selector) => self.index.select(selector),
            None => ClusterSet::all(self.len()),
        };
        if let Some(names) = &rule.clusters {
            let named = self.find_all(names);
            matched.retain(&ClusterSet::of(self.len(), named));
        }
        matched
    }

    /// What a map by cluster name says of each of these clusters, which are ascending.
    pub(super) fn look_up<'m, V>(
        &self,
        clusters: &[usize],
        map: Option<&'m BTreeMap<String, V>>,
    ) -> Vec<Option<&'m V>> {
        // Both are sorted by name: one pass over the two.
        let mut entries = map.into_iter().flatten().peekable();
        clusters
            .iter()
            .map(|cluster| {
                let name = self.name(*cluster);
                while entries.next_if(|(key, _)| key.as_str() < name).is_some() {}
                entries
                    .peek()
                    .filter(|(key, _)| key.as_str() == name)
                    .map(|(_, value)| *value)
            })
            .collect()
    }
}
