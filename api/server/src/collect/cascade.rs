//! Dependents of deleted owners: background, foreground and orphaning, as Kubernetes' garbage collector does it.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    kinds::Resource,
    object::{self, Head, Owner},
    request::Propagation,
    server::Core,
    store::{Key, Record},
    verbs::{self, DeleteOptions, FOREGROUND, Intent, ORPHAN, Part},
};

impl Core {
    /// The kind of a table in a version that it is stored in.
    pub(crate) fn resource_of(&self, table: &str) -> Option<Arc<Resource>> {
        let stored = |r: &Arc<Resource>| &*r.table == table && r.conversion.is_none();
        self.registry.all().into_iter().find(stored)
    }

    fn value_at(&self, key: &Key) -> Option<Value> {
        let resource = self.resource_of(&key.table)?;
        let record = self.store.get(key)?;
        Some(verbs::decode_stored(&resource, &record.bytes))
    }

    /// Takes the owners that the object at a place names now over into the index, and tells what it says.
    pub(super) fn follow_owners(&self, key: &Key) -> Head {
        self.owners.follow(key, || {
            let record = self.store.get(key);
            record.map(|record| Head::read(&record.bytes)).unwrap_or_default()
        })
    }

    /// Whether the owner a reference names is there, with that uid. An owner of a kind this server does not know
    /// counts as there: absence is no evidence.
    fn owner_lives(&self, namespace: &str, owner: &Owner) -> bool {
        let Some(resource) = self.registry.by_kind(&owner.api_version, &owner.kind) else {
            return true;
        };
        let key = Key::new(
            &resource.table,
            if resource.namespaced { namespace } else { "" },
            &owner.name,
        );
        self.store
            .get(&key)
            .is_some_and(|r| Head::read(&r.bytes).uid == owner.uid)
    }

    /// Deletes what only the removed object owned.
    pub(super) fn collect_dependents(&self, uid: &str) {
        if uid.is_empty() {
            return;
        }
        for key in self.owners.dependents(uid) {
            self.collect_if_ownerless(&key);
        }
    }

    /// Deletes an object if none of the owners it names is there; drops references to owners that are gone.
    pub(super) fn collect_if_ownerless(&self, key: &Key) {
        while let Some(record) = self.store.get(key) {
            let owners = Head::read(&record.bytes).owners;
            let gone: Vec<&Owner> = owners
                .iter()
                .filter(|o| !self.owner_lives(&key.namespace, o))
                .collect();
            if gone.is_empty() {
                return;
            }
            if gone.len() < owners.len() {
                for owner in gone {
                    self.drop_owner(key, &owner.uid);
                }
                return;
            }
            if self.delete_as_read(key, &record, said_by_finalizers) {
                return;
            }
        }
    }

    /// Deletes an object in the foreground if it names this uid as an owner.
    fn delete_dependent(&self, key: &Key, uid: &str) {
        while let Some(record) = self.store.get(key) {
            let owned = Head::read(&record.bytes).owners.iter().any(|o| o.uid == uid);
            if !owned || self.delete_as_read(key, &record, |_| Propagation::Foreground) {
                return;
            }
        }
    }

    /// Deletes an object that was judged by this record of it. `false` if another write came between: then it is to be
    /// judged again.
    fn delete_as_read(&self, key: &Key, record: &Record, propagation: fn(&Value) -> Propagation) -> bool {
        let Some(resource) = self.resource_of(&key.table) else {
            return true;
        };
        let value = verbs::decode_stored(&resource, &record.bytes);
        if object::is_deleting(&value) {
            return true;
        }
        let options = DeleteOptions {
            revision: Some(object::meta(&value, "resourceVersion").to_owned()),
            propagation: Some(propagation(&value)),
            ..DeleteOptions::default()
        };
        let Err(error) = verbs::remove(self, &resource, key, &options) else {
            return true;
        };
        if error.code == 409 {
            return false;
        }
        self.note_refused(&error);
        tracing::debug!(%error, name = %key.name, "dependent was not deleted");
        true
    }

    /// Takes one owner reference from an object.
    fn drop_owner(&self, key: &Key, uid: &str) {
        self.amend(key, |value| {
            let kept: Vec<Value> = object::at(value, &["metadata", "ownerReferences"])
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|o| o.get("uid").and_then(Value::as_str) != Some(uid))
                .cloned()
                .collect();
            object::set_meta(value, "ownerReferences", (!kept.is_empty()).then(|| kept.into()));
        });
    }

    /// Takes a finalizer from an object.
    pub(super) fn drop_finalizer(&self, key: &Key, finalizer: &str) {
        self.amend(key, |value| {
            let kept: Vec<Value> = object::finalizers(value)
                .into_iter()
                .filter(|f| *f != finalizer)
                .map(Value::from)
                .collect();
            object::set_meta(value, "finalizers", (!kept.is_empty()).then(|| kept.into()));
        });
    }

    /// Changes an object whatever comes between.
    fn amend(&self, key: &Key, change: impl Fn(&mut Value)) {
        self.amend_part(key, Part::Main, change);
    }

    /// Changes one part of an object whatever comes between.
    pub(super) fn amend_part(&self, key: &Key, part: Part, change: impl Fn(&mut Value)) {
        let Some(resource) = self.resource_of(&key.table) else {
            return;
        };
        loop {
            let Some(record) = self.store.get(key) else { return };
            let old = verbs::decode_stored(&resource, &record.bytes);
            let (mut new, intent) = (old.clone(), Intent::of_controller(part));
            change(&mut new);
            match verbs::store_update(self, &resource, key, &record, old, new, &intent) {
                Err(verbs::Refusal::Raced) => {}
                Err(verbs::Refusal::Error(error)) => {
                    self.note_refused(&error);
                    tracing::warn!(%error, name = %key.name, "object could not be amended");
                    return;
                }
                Ok(_) => return,
            }
        }
    }

    /// An object that is being deleted and held: does what its deletion finalizers wait for.
    pub(super) fn follow_deletion(&self, key: &Key) {
        let Some(value) = self.value_at(key).filter(object::is_deleting) else {
            return;
        };
        let uid = object::meta(&value, "uid");
        let finalizers = object::finalizers(&value);
        if finalizers.contains(&ORPHAN) {
            for dependent in self.owners.dependents(uid) {
                self.drop_owner(&dependent, uid);
            }
            self.drop_finalizer(key, ORPHAN);
        } else if finalizers.contains(&FOREGROUND) {
            for dependent in self.owners.dependents(uid) {
                self.delete_dependent(&dependent, uid);
            }
            self.release_foreground(key, uid);
        }
    }

    /// After a dependent is gone: lets owners that waited for it go.
    pub(super) fn release_owners(&self, namespace: &str, owners: &[Owner]) {
        for owner in owners {
            if let Some(resource) = self.registry.by_kind(&owner.api_version, &owner.kind) {
                let namespace = if resource.namespaced { namespace } else { "" };
                self.release_foreground(&Key::new(&resource.table, namespace, &owner.name), &owner.uid);
            }
        }
    }

    /// Ends a foreground deletion if no dependent that blocks it is left.
    fn release_foreground(&self, key: &Key, uid: &str) {
        let Some(value) = self.value_at(key) else {
            return;
        };
        if object::meta(&value, "uid") != uid || !object::finalizers(&value).contains(&FOREGROUND) {
            return;
        }
        let blocks = |k: &Key| {
            self.value_at(k)
                .is_some_and(|v| object::owners(&v).iter().any(|o| o.uid == uid && o.blocks))
        };
        if !self.owners.dependents(uid).iter().any(blocks) {
            self.drop_finalizer(key, FOREGROUND);
        }
    }
}

/// How the finalizers of an object say that it is to be deleted.
fn said_by_finalizers(value: &Value) -> Propagation {
    let finalizers = object::finalizers(value);
    if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else if finalizers.contains(&FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}
