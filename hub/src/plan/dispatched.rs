//! What was dispatched last: the manifests of Bundles, one copy for all clusters that have the same.

use roundhouse_api::{bundle::Bundle, hash};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// Manifests by Bundle. Memory grows with what differs, not with the number of clusters.
#[derive(Debug, Default)]
pub struct Dispatched {
    by_hash: HashMap<String, Arc<[Value]>>,
    of: HashMap<(String, String), String>,
}

impl Dispatched {
    /// Takes in what a Bundle holds.
    pub fn put(&mut self, bundle: &Bundle) {
        let manifests = &bundle.spec.workload.manifests;
        // Not what the Bundle says its hash is: somebody may have changed the manifests by hand.
        let hash = hash::of_manifests(manifests);
        let (namespace, name) = (&bundle.metadata.namespace, &bundle.metadata.name);
        let (Some(namespace), Some(name)) = (namespace.clone(), name.clone()) else {
            return;
        };
        let shared = self.by_hash.entry(hash.clone());
        shared.or_insert_with(|| manifests.iter().map(hash::without_stamps).collect());
        self.of.insert((namespace, name), hash);
    }

    /// The hash of what a Bundle holds.
    pub(super) fn hash_of(&self, namespace: &str, name: &str) -> Option<&str> {
        let key = (namespace.to_owned(), name.to_owned());
        self.of.get(&key).map(String::as_str)
    }

    /// The manifests of a hash, without stamps.
    pub(super) fn manifests(&self, hash: &str) -> &[Value] {
        self.by_hash.get(hash).map_or(&[], |manifests| manifests)
    }

    /// How many different contents are held.
    pub fn contents(&self) -> usize {
        self.by_hash.len()
    }
}
