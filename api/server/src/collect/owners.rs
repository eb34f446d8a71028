//! Who is owned by whom.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::{
    object::{Head, Owner},
    store::Key,
};

#[derive(Debug, Default)]
struct Index {
    dependents: HashMap<String, BTreeSet<Key>>,
    owners: HashMap<Key, Vec<String>>,
}

/// Dependents by the uid of their owner. Objects without owners cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<Index>);

impl Owners {
    /// Remembers the owners of the object at a place. `read` gives what it says now: it is called while nobody else
    /// remembers any, so that of two writes at once the later one is what stays.
    pub(crate) fn follow(&self, key: &Key, read: impl FnOnce() -> Head) -> Head {
        let mut index = self.0.lock();
        let head = read();
        index.set(key, &head.owners);
        head
    }

    /// The objects that name this uid as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.0
            .lock()
            .dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

impl Index {
    fn set(&mut self, key: &Key, owners: &[Owner]) {
        for uid in self.owners.remove(key).unwrap_or_default() {
            if let Some(set) = self.dependents.get_mut(&uid) {
                set.remove(key);
                if set.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
        if owners.is_empty() {
            return;
        }
        for owner in owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(key.clone());
        }
        self.owners
            .insert(key.clone(), owners.iter().map(|o| o.uid.clone()).collect());
    }
}
