//! Counting what happens at a server, for tests that prove that nothing happens.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::store::Key;

/// Stored writes by (table, namespace, name).
type ByObject = BTreeMap<(String, String, String), u64>;

/// Requests by verb and stored writes by object.
///
/// A write that leaves an object as it was is a request, but not a stored write.
#[derive(Debug, Default)]
pub struct WriteCounter {
    stored: AtomicU64,
    requests: Mutex<BTreeMap<(&'static str, String), u64>>,
    by_object: Option<Mutex<ByObject>>,
}

impl WriteCounter {
    /// A counter; with `per_object` it also remembers every object written, which costs memory.
    pub(crate) fn new(per_object: bool) -> Self {
        Self {
            by_object: per_object.then(Mutex::default),
            ..Self::default()
        }
    }

    pub(crate) fn request(&self, verb: &'static str, table: &str) {
        let mut requests = self.requests.lock();
        match requests.get_mut(&(verb, table.to_owned())) {
            Some(n) => *n += 1,
            None => {
                requests.insert((verb, table.to_owned()), 1);
            }
        }
    }

    pub(crate) fn stored(&self, key: &Key) {
        self.stored.fetch_add(1, Ordering::Relaxed);
        if let Some(by_object) = &self.by_object {
            let id = (
                key.table.to_string(),
                key.namespace.to_string(),
                key.name.to_string(),
            );
            *by_object.lock().entry(id).or_insert(0) += 1;
        }
    }

    /// Objects created, changed or removed since the server started, its own bootstrap included.
    pub fn total_stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Stored writes of one object: table (`plural.group`, `plural` for core), namespace (empty if cluster-scoped) and
    /// name. Always 0 unless the server was built with [`crate::ServerBuilder::count_per_object`].
    pub fn stored_of(&self, table: &str, namespace: &str, name: &str) -> u64 {
        let id = (table.to_owned(), namespace.to_owned(), name.to_owned());
        self.by_object
            .as_ref()
            .and_then(|m| m.lock().get(&id).copied())
            .unwrap_or(0)
    }

    /// Stored writes by (table, namespace, name). Empty unless counted per object.
    pub fn by_object(&self) -> BTreeMap<(String, String, String), u64> {
        self.by_object
            .as_ref()
            .map(|m| m.lock().clone())
            .unwrap_or_default()
    }

    /// Requests on resources by (verb, table), answered or refused; a subresource counts as its resource.
    pub fn requests(&self) -> BTreeMap<(&'static str, String), u64> {
        self.requests.lock().clone()
    }

    /// Requests with one of the writing verbs. Reviews, by which somebody asks what is allowed, are created and write nothing.
    pub fn write_requests(&self) -> u64 {
        let writes = |verb: &str| {
            matches!(
                verb,
                "create" | "update" | "patch" | "delete" | "deletecollection"
            )
        };
        self.requests
            .lock()
            .iter()
            .filter(|((verb, table), _)| writes(verb) && !is_review(table))
            .map(|(_, n)| n)
            .sum()
    }
}

fn is_review(table: &str) -> bool {
    [".authorization.k8s.io", ".authentication.k8s.io"]
        .iter()
        .any(|group| table.ends_with(group))
}
