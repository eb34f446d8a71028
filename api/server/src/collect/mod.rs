//! What follows from a write: custom kinds, dependents of deleted owners, contents of deleted namespaces, Events that are
//! over their time.
//!
//! Every write leaves notes of what may follow; the request that wrote works them off before it answers. No task of its
//! own, so that a thousand servers in one process cost no task each, and whoever saw the answer sees the consequences.
//! A queue rather than recursion, so that the length of a chain of owners does not matter.

mod cascade;
mod definitions;
mod expiry;
mod namespaces;
mod owners;
mod requests;
mod roles;
#[cfg(test)]
mod tests;

pub(crate) use owners::Owners;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    auth::{RBAC_GROUP, is_revoked_list},
    crd, csr,
    error::ApiError,
    kinds::Resource,
    object::{self, Head, Owner},
    server::Core,
    store::Key,
};

/// Something to look at after a write.
#[derive(Debug)]
enum Note {
    /// The object with this uid is gone; it was in this namespace, or in none.
    OwnerGone(String, String),
    /// The owners of this object changed.
    OwnersChanged(Key),
    /// An object of this namespace that named these owners is gone, or names others.
    DependentGone(String, Vec<Owner>),
    /// This object is being deleted and held.
    Held(Key),
    /// This namespace is being deleted, or gone with something left in it.
    NamespaceHeld(String),
    /// Something is gone from this namespace.
    NamespaceLost(String),
    /// This definition is being deleted.
    DefinitionHeld(Key),
    /// A custom object is gone from this table.
    DefinitionLost(String),
    /// What this definition says of its names may not be so: that they are accepted, or that another one has them.
    NamesInDoubt(Key),
    /// An Event was written.
    EventWritten,
    /// A CertificateSigningRequest was written.
    RequestWritten,
    /// A ClusterRole that is aggregated, or is part of one, was written or removed.
    RoleWritten,
}

impl Note {
    /// What follows from an object that is being deleted and held.
    fn of_deleting(key: &Key) -> impl Iterator<Item = Self> {
        let also = match &*key.table {
            "namespaces" => Some(Self::NamespaceHeld(key.name.to_string())),
            crd::TABLE => Some(Self::DefinitionHeld(key.clone())),
            _ => None,
        };
        [Self::Held(key.clone())].into_iter().chain(also)
    }
}

/// What is left to follow up.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    queue: Mutex<VecDeque<Note>>,
    /// Held while notes are worked off: who gets it finds its own notes done or still in the queue.
    working: Mutex<()>,
    sweep: expiry::Sweep,
    requests: expiry::Sweep,
    /// Whether the store refused a write that was to follow from another.
    unfinished: AtomicBool,
}

impl Notes {
    /// Takes back one note that a ClusterRole was written.
    fn forget_role(&self) {
        let mut queue = self.queue.lock();
        if let Some(at) = queue.iter().rposition(|note| matches!(note, Note::RoleWritten)) {
            queue.remove(at);
        }
    }
}

impl Core {
    /// Notes what follows from a stored write. `new` is `None` if the object was removed.
    pub(crate) fn after_write(
        &self,
        resource: &Resource,
        key: &Key,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let refs = new.map(object::owners).unwrap_or_default();
        let had = old.map(object::owners).unwrap_or_default();
        if !refs.is_empty() || !had.is_empty() {
            self.follow_owners(key);
        }
        if &*key.table == crd::TABLE {
            self.follow_definition(key);
        }
        let mut notes = vec![];
        if is_revoked_list(key) {
            self.follow_revoked();
            self.rights.revoked();
        }
        if new.is_some() && &*key.table == csr::TABLE {
            notes.push(Note::RequestWritten);
        }
        if resource.group == RBAC_GROUP {
            self.follow_role(key);
            self.rights.changed();
            if &*key.table == roles::CLUSTER_ROLES && self.is_aggregation(old, new) {
                notes.push(Note::RoleWritten);
            }
        }
        // Tokens go with what they are bound to.
        if matches!(&*key.table, "serviceaccounts" | "secrets" | "pods") && new.is_none() {
            self.rights.changed();
        }
        if new.is_some() && expiry::holds_events(&key.table) {
            notes.push(Note::EventWritten);
        }
        // Who creates looks at the namespace before. It may have gone since, and who emptied it has not seen this.
        if old.is_none() && resource.namespaced && !self.namespace_lives(&key.namespace) {
            notes.push(Note::NamespaceHeld(key.namespace.to_string()));
        }
        match new {
            None => {
                notes.push(Note::OwnerGone(
                    old.map(|o| object::meta(o, "uid")).unwrap_or_default().to_owned(),
                    key.namespace.to_string(),
                ));
                if resource.custom.is_some() {
                    notes.push(Note::DefinitionLost(key.table.to_string()));
                }
                if resource.namespaced {
                    notes.push(Note::NamespaceLost(key.namespace.to_string()));
                }
            }
            Some(new) if object::is_deleting(new) => {
                notes.extend(Note::of_deleting(key));
            }
            Some(_) if !refs.is_empty() && refs != had => notes.push(Note::OwnersChanged(key.clone())),
            Some(_) => {}
        }
        if !had.is_empty() && refs != had {
            notes.push(Note::DependentGone(key.namespace.to_string(), had));
        }
        if !notes.is_empty() {
            self.notes.queue.lock().extend(notes);
        }
        if let (None, Some(new)) = (old, new) {
            self.remove_if_too_late(resource, key, new);
        }
    }

    /// Notes what may be left to follow from the objects as they are: after a start, since an end of the process may have
    /// come between a write and what follows from it, and after the store refused a write.
    pub(crate) fn note_everything(&self) {
        // Of two that have the same names the older one keeps them.
        for (key, _) in self.definitions(|_| true) {
            self.follow_definition(&key);
        }
        let spaces = self.records("namespaces", None);
        let spaces: BTreeSet<_> = spaces.map(|(key, _)| key.name).collect();
        let mut tables = BTreeSet::new();
        let mut gone = BTreeSet::new();
        let mut notes = vec![];
        for resource in self.registry.all() {
            if !tables.insert(resource.table.clone()) {
                continue;
            }
            for (key, record) in self.records(&resource.table, None) {
                if resource.namespaced && !spaces.contains(&key.namespace) {
                    gone.insert(key.namespace.clone());
                }
                if !Head::may_say(&record.bytes) {
                    continue;
                }
                let head = self.follow_owners(&key);
                if !head.owners.is_empty() {
                    notes.push(Note::OwnersChanged(key.clone()));
                }
                if head.is_deleting() {
                    notes.extend(Note::of_deleting(&key));
                }
            }
        }
        notes.extend(gone.iter().map(|name| Note::NamespaceHeld(name.to_string())));
        notes.push(Note::RoleWritten);
        self.notes.queue.lock().extend(notes);
    }

    /// Notes that the store refused what was to follow from a write.
    fn note_refused(&self, error: &ApiError) {
        if error.code == 503 {
            self.notes.unfinished.store(true, Ordering::Release);
        }
    }

    /// Takes up again what the store had refused, now that it takes writes.
    pub(crate) fn take_up_again(&self) {
        if self.store.takes_writes() && self.notes.unfinished.swap(false, Ordering::AcqRel) {
            self.note_everything();
            self.follow_up();
        }
    }

    /// Works off every note, those that come up on the way included.
    pub(crate) fn follow_up(&self) {
        let _working = self.notes.working.lock();
        loop {
            let Some(note) = self.notes.queue.lock().pop_front() else {
                return;
            };
            match note {
                Note::OwnerGone(uid, namespace) => self.collect_dependents(&uid, &namespace),
                Note::OwnersChanged(key) => self.collect(&key, None),
                Note::DependentGone(namespace, owners) => self.release_owners(&namespace, &owners),
                Note::Held(key) => self.follow_deletion(&key),
                Note::NamespaceHeld(name) => self.empty_namespace(&name),
                Note::NamespaceLost(name) => self.finish_namespace(&name),
                Note::DefinitionHeld(key) => self.empty_definition(&key),
                Note::DefinitionLost(table) => self.finish_definition(&table),
                Note::NamesInDoubt(key) => self.decide_names(&key),
                Note::EventWritten => self.expire_events(),
                Note::RequestWritten => self.expire_requests(),
                Note::RoleWritten => self.aggregate_roles(),
            }
        }
    }
}
