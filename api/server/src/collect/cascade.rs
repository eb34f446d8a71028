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

/// How an owner stands to what it owns; in Kubernetes solid, waitingForDependentsDeletion and dangling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is there, and keeps what it owns.
    Stays,
    /// It is being deleted in the foreground, and waits for what it owns to go.
    Waits,
    /// It is not there.
    Gone,
}

impl Core {
    /// The kind of a table in a version that it is stored in. Of a definition that serves none, too: it may have objects.
    pub(crate) fn resource_of(&self, table: &str) -> Option<Arc<Resource>> {
        let stored = |r: &Arc<Resource>| &*r.table == table && r.conversion.is_none();
        let served = self.registry.all().into_iter().find(stored);
        served.or_else(|| self.unserved_resource(table))
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

    /// How the owner that a reference names, with that uid, stands to what it owns. One of a kind this server does not know
    /// stays: absence is no evidence.
    fn standing(&self, namespace: &str, owner: &Owner) -> Standing {
        let Some(resource) = self.registry.by_kind(&owner.api_version, &owner.kind) else {
            return Standing::Stays;
        };
        // Of an object that is in no namespace, nobody can say in which one such an owner would be: that is a mistake, and no
        // reason to delete it.
        if resource.namespaced && namespace.is_empty() {
            return Standing::Stays;
        }
        let key = Key::new(
            &resource.table,
            if resource.namespaced { namespace } else { "" },
            &owner.name,
        );
        let Some(record) = self.store.get(&key) else {
            return Standing::Gone;
        };
        let head = Head::read(&record.bytes);
        if head.uid != owner.uid {
            Standing::Gone
        } else if waits(&record) {
            Standing::Waits
        } else {
            Standing::Stays
        }
    }

    /// Deletes what only the removed object owned, which was in this namespace, or in none.
    pub(super) fn collect_dependents(&self, uid: &str, namespace: &str) {
        if uid.is_empty() {
            return;
        }
        for key in self.owners.dependents(uid) {
            // What is in no namespace cannot name one that was in one: see `standing`.
            if namespace.is_empty() || !key.namespace.is_empty() {
                self.collect(&key, Some(uid));
            }
        }
    }

    /// Deletes an object if none of the owners it names stays; if one does, drops the references to those that do not.
    /// What is being deleted already is left to that. The owner with the uid `gone` is gone even if its kind is not known any
    /// longer: that may have gone with it.
    pub(super) fn collect(&self, key: &Key, gone: Option<&str>) {
        let mut unblocked = false;
        while let Some(record) = self.store.get(key) {
            let head = Head::read(&record.bytes);
            let standing = |owner: &Owner| {
                if gone == Some(&*owner.uid) {
                    Standing::Gone
                } else {
                    self.standing(&key.namespace, owner)
                }
            };
            let standings = head.owners.iter().map(|o| (o, standing(o)));
            let (stay, go): (Vec<_>, Vec<_>) = standings.partition(|(_, s)| *s == Standing::Stays);
            if go.is_empty() || head.is_deleting() {
                return;
            }
            let done = if stay.is_empty() {
                // One that somebody waits for takes its own dependents along, and goes last.
                let dependents = self.owners.dependents(&head.uid);
                let waited_for = go.iter().any(|(_, s)| *s == Standing::Waits) && !dependents.is_empty();
                // Two that own each other would wait for each other: this one holds up its owners no longer.
                let is_waiting = |k: &Key| self.store.get(k).is_some_and(|record| waits(&record));
                if waited_for
                    && !unblocked
                    && head.owners.iter().any(|o| o.blocks)
                    && dependents.iter().any(is_waiting)
                {
                    unblocked = self.amend_as_read(key, &record, Part::Main, object::unblock_owners);
                    continue;
                }
                self.delete_as_read(key, &record, waited_for.then_some(Propagation::Foreground))
            } else {
                let uids: Vec<&str> = go.iter().map(|(owner, _)| &*owner.uid).collect();
                self.amend_as_read(key, &record, Part::Main, |value| {
                    object::drop_owners(value, &uids);
                })
            };
            if done {
                return;
            }
        }
    }

    /// Deletes an object that was judged by this record of it, as its finalizers say unless told otherwise. `false` if another
    /// write came between: then it is to be judged again.
    fn delete_as_read(&self, key: &Key, record: &Record, propagation: Option<Propagation>) -> bool {
        let Some(resource) = self.resource_of(&key.table) else {
            return true;
        };
        let value = verbs::decode_stored(&resource, &record.bytes);
        let options = DeleteOptions {
            revision: Some(object::meta(&value, "resourceVersion").to_owned()),
            propagation: Some(propagation.unwrap_or_else(|| said_by_finalizers(&value))),
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

    /// Takes a finalizer from an object, whatever comes between.
    pub(super) fn drop_finalizer(&self, key: &Key, finalizer: &str) {
        self.amend_part(key, Part::Main, |value| object::drop_finalizer(value, finalizer));
    }

    /// Changes one part of an object whatever comes between.
    pub(super) fn amend_part(&self, key: &Key, part: Part, change: impl Fn(&mut Value)) {
        while let Some(record) = self.store.get(key) {
            if self.amend_as_read(key, &record, part, &change) {
                return;
            }
        }
    }

    /// Changes one part of an object that was judged by this record of it. `false` if another write came between: then it is
    /// to be judged again.
    pub(super) fn amend_as_read(
        &self,
        key: &Key,
        record: &Record,
        part: Part,
        change: impl Fn(&mut Value),
    ) -> bool {
        let Some(resource) = self.resource_of(&key.table) else {
            return true;
        };
        let old = verbs::decode_stored(&resource, &record.bytes);
        let (mut new, intent) = (old.clone(), Intent::of_controller(part));
        change(&mut new);
        match verbs::store_update(self, &resource, key, record, old, new, &intent) {
            Err(verbs::Refusal::Raced) => return false,
            Err(verbs::Refusal::Error(error)) => {
                self.note_refused(&error);
                tracing::warn!(%error, name = %key.name, "object could not be amended");
            }
            Ok(_) => {}
        }
        true
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
                self.amend_part(&dependent, Part::Main, |value| {
                    object::drop_owners(value, &[uid]);
                });
            }
            self.drop_finalizer(key, ORPHAN);
        } else if finalizers.contains(&FOREGROUND) {
            for dependent in self.owners.dependents(uid) {
                self.collect(&dependent, None);
            }
            self.release_foreground(key, uid);
        }
    }

    /// After a dependent is gone, or not theirs any longer: lets owners that waited for it go.
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

/// Whether an object is being deleted in the foreground, and waits for what it owns to go.
fn waits(record: &Record) -> bool {
    Head::says_deleting(&record.bytes)
        && object::finalizers(&object::decode(&record.bytes)).contains(&FOREGROUND)
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
