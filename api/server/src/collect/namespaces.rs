//! Deleting a namespace deletes what is in it; the namespace goes last. What came into it too late goes after it.

use serde_json::Value;

use crate::{
    object::{self, Head},
    server::Core,
    store::{Kept, Key, Range},
    verbs::{self, DeleteOptions, Part},
};

impl Core {
    /// Whether a namespace is there and not being deleted.
    pub(super) fn namespace_lives(&self, name: &str) -> bool {
        self.namespace(name)
            .is_some_and(|record| !Head::says_deleting(&record.bytes))
    }

    fn contents(&self, namespace: &str, limit: usize) -> Vec<(Key, Kept)> {
        let mut tables = std::collections::BTreeSet::new();
        let mut out = vec![];
        for resource in self.registry.all().into_iter().filter(|r| r.namespaced) {
            if !tables.insert(resource.table.clone()) {
                continue;
            }
            let range = Range {
                limit,
                ..Range::all(&resource.table, Some(namespace))
            };
            out.extend(self.store.list(&range).into_iter().flat_map(|l| l.records));
        }
        out
    }

    /// Deletes everything in a namespace that is terminating or gone, and the namespace if that leaves nothing.
    pub(super) fn empty_namespace(&self, namespace: &str) {
        // Listed before the look at the namespace: what comes into one that is made again after it is not among this.
        let contents = self.contents(namespace, usize::MAX);
        if self.namespace_lives(namespace) {
            return;
        }
        for (key, kept) in contents {
            let Some(resource) = self.resource_of(&key.table) else {
                continue;
            };
            let head = Head::read(&kept.record().bytes);
            if head.is_deleting() {
                continue;
            }
            // Pods do not linger here: nothing would end their grace period but a kubelet.
            let options = DeleteOptions {
                uid: Some(head.uid),
                grace_seconds: Some(0),
                ..DeleteOptions::default()
            };
            if let Err(error) = verbs::remove(self, &resource, &key, &options) {
                self.note_refused(&error);
                tracing::debug!(%error, name = %key.name, "content of a namespace that goes was not deleted");
            }
        }
        self.finish_namespace(namespace);
    }

    /// Removes a terminating namespace in which nothing is left.
    pub(super) fn finish_namespace(&self, namespace: &str) {
        let key = Key::new(&"namespaces".into(), "", namespace);
        let drop = |value: &mut Value| {
            if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
                && let Some(list) = spec.get_mut("finalizers").and_then(Value::as_array_mut)
            {
                list.retain(|f| f != "kubernetes");
            }
        };
        while let Some(record) = self.store.get(&key) {
            let found = object::decode(&record.bytes);
            let held = object::at(&found, &["spec", "finalizers"]).and_then(Value::as_array);
            let ours = held.is_some_and(|l| l.iter().any(|f| f == "kubernetes"));
            let ends = object::is_deleting(&found) && ours && self.contents(namespace, 1).is_empty();
            if !ends || self.amend_as_read(&key, &record, Part::Finalize, drop) {
                return;
            }
        }
    }
}
