//! The fleet as placement works on it: sorted by name, with a hash per cluster and an index of labels.

use super::{
    ClusterFacts, Request,
    labels::{ClusterSet, LabelIndex},
    ties::Seed,
};
use roundhouse_api::{placement::Rule, shared::SharedStr};
use std::{cmp::Ordering, sync::Arc};

/// The clusters of one request. A cluster is its place in the order of names.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    /// The clusters, sorted by name, each name once.
    pub(super) clusters: &'a [Arc<ClusterFacts>],
    names: &'a [SharedStr],
    seed: Seed,
    /// Their labels.
    pub(super) index: &'a LabelIndex,
}

impl<'a> Fleet<'a> {
    /// The fleet of a request.
    pub(super) fn new(request: &Request<'a>) -> Self {
        Fleet {
            clusters: request.inventory.clusters(),
            names: request.inventory.names(),
            seed: Seed::of(request.application),
            index: &request.inventory.index,
        }
    }

    /// How many clusters there are.
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// The name of a cluster.
    pub(super) fn name(&self, cluster: usize) -> &'a str {
        self.names.get(cluster).map_or("", SharedStr::as_str)
    }

    /// The name of a cluster, to be kept.
    pub(super) fn shared_name(&self, cluster: usize) -> SharedStr {
        self.names.get(cluster).cloned().unwrap_or_default()
    }

    /// The stable hash of a cluster for this application.
    pub(super) fn hash(&self, cluster: usize) -> u64 {
        self.seed.hash(self.name(cluster))
    }

    /// The cluster of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|held| held.as_str().cmp(name)).ok()
    }

    /// The clusters of names, with what is said of each; quickest if the names ascend: each is sought from the one before
    /// on, in growing leaps.
    pub(super) fn find_all<'n, N: AsRef<str> + 'n, V>(
        &self,
        entries: impl IntoIterator<Item = (&'n N, V)>,
    ) -> impl Iterator<Item = (usize, V)> {
        let mut from = 0;
        let mut last: Option<&'n str> = None;
        entries.into_iter().filter_map(move |(name, value)| {
            let name = name.as_ref();
            if last.is_some_and(|last| last >= name) {
                from = 0;
            }
            last = Some(name);
            let found = self.seek(from, name);
            from = match found {
                Ok(cluster) => cluster + 1,
                Err(place) => place,
            };
            found.ok().map(|cluster| (cluster, value))
        })
    }

    /// The cluster of a name from this one on, or where it would be.
    fn seek(&self, mut from: usize, name: &str) -> Result<usize, usize> {
        let mut leap = 1;
        // All before `from` are smaller.
        while let Some(held) = self.names.get(from + leap - 1) {
            match held.as_str().cmp(name) {
                Ordering::Less => from += leap,
                Ordering::Equal => return Ok(from + leap - 1),
                Ordering::Greater => break,
            }
            leap *= 2;
        }
        let end = (from + leap - 1).min(self.len());
        let rest = self.names.get(from..end).unwrap_or_default();
        match rest.binary_search_by(|held| held.as_str().cmp(name)) {
            Ok(at) => Ok(from + at),
            Err(at) => Err(from + at),
        }
    }

    /// The clusters of a list of names.
    pub(super) fn named<'n, N: AsRef<str> + 'n>(&self, names: impl IntoIterator<Item = &'n N>) -> ClusterSet {
        let names = names.into_iter().map(|name| (name, ()));
        ClusterSet::of(self.len(), self.find_all(names).map(|(cluster, ())| cluster))
    }

    /// The clusters that a rule matches by selector and names.
    pub(super) fn matched(&self, rule: &Rule) -> ClusterSet {
        let mut matched = match &rule.cluster_selector {
            Some(selector) => self.index.select(selector),
            None => ClusterSet::all(self.len()),
        };
        if let Some(names) = &rule.clusters {
            matched.retain(&self.named(names));
        }
        matched
    }
}

/// What a list, ascending by cluster, says of each of these clusters, which ascend too.
pub(super) fn look_up<V: Copy>(clusters: &[usize], list: &[(usize, V)]) -> impl Iterator<Item = Option<V>> {
    let mut rest = list.iter().peekable();
    clusters.iter().map(move |cluster| {
        while rest.next_if(|(place, _)| place < cluster).is_some() {}
        rest.next_if(|(place, _)| place == cluster)
            .map(|(_, value)| *value)
    })
}
