//! Who is owned by whom.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::{object::Owner, store::Key};

#[derive(Debug, Default)]
struct Index {
    dependents: HashMap<String, BTreeSet<Key>>,
    owners: HashMap<Key, Vec<String>>,
}

/// Dependents by the uid of their owner. Objects without owners cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<Index>);

impl Owners {
    /// Remembers the owners an object has now.
    pub(crate) fn note(&self, key: &Key, owners: &[Owner]) {
        let mut index = self.0.lock();
        for uid in index.owners.remove(key).unwrap_or_default() {
            if let Some(set) = index.dependents.get_mut(&uid) {
                set.remove(key);
                if set.is_empty() {
                    index.dependents.remove(&uid);
                }
            }
        }
        if owners.is_empty() {
            return;
        }
        for owner in owners {
            index
                .dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(key.clone());
        }
        index
            .owners
            .insert(key.clone(), owners.iter().map(|o| o.uid.clone()).collect());
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
