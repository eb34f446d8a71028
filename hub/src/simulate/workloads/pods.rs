//! The pods that the workloads of one cluster have, for the kinds that count them.

use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::watch;

use super::Model;

/// Namespace and name.
pub(super) type Key = (String, String);

/// What an object is looked at with.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Delays and failures.
    pub model: &'a Model,
    /// The pods of the cluster.
    pub pods: &'a Pods,
    /// The time.
    pub now: Timestamp,
}

/// The pods of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// How many there are to be.
    pub wanted: Wanted,
    /// How many there are.
    pub total: i32,
    /// How many are ready.
    pub ready: i32,
}

/// How many pods there are to be, as somebody finds out who has the pods alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What the scale of their controller says.
    Scale(i32),
    /// No controller has them.
    Alone,
    /// Their controller, `daemonsets.apps`, has no scale.
    NoScale(&'static str),
}

/// The pods of the workloads of one cluster.
#[derive(Debug)]
pub struct Pods {
    known: Mutex<Known>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// By kind, then by namespace and name.
    groups: BTreeMap<String, BTreeMap<Key, Group>>,
    /// Kinds whose objects were all seen once.
    listed: BTreeSet<String>,
    /// Somebody counts them.
    counted: bool,
}

impl Default for Pods {
    fn default() -> Self {
        Pods {
            known: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }
}

impl Pods {
    /// The pods of a namespace whose labels are such.
    pub(super) fn of(
        &self,
        namespace: &str,
        is_such: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Vec<Group> {
        let known = self.known.lock();
        let all = known.groups.values().flatten();
        let such = all.filter(|((own, _), group)| own == namespace && is_such(&group.labels));
        such.map(|(_, group)| group.clone()).collect()
    }

    /// Whether all of so many kinds were listed once: before that, counts would be of some pods only.
    pub(super) fn knows(&self, kinds: usize) -> bool {
        self.known.lock().listed.len() >= kinds
    }

    /// Tells of changes from now on. Where nobody counts pods nobody is woken.
    pub(super) fn count(&self) {
        self.known.lock().counted = true;
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn put(&self, kind: &str, key: &Key, group: Group) {
        self.change(|known| {
            let groups = known.groups.entry(kind.to_owned()).or_default();
            if groups.get(key) == Some(&group) {
                return false;
            }
            groups.insert(key.clone(), group);
            true
        });
    }

    /// Forgets the objects of a kind that are gone.
    pub(super) fn keep(&self, kind: &str, is_there: impl Fn(&Key) -> bool) {
        self.change(|known| {
            let Some(groups) = known.groups.get_mut(kind) else {
                return false;
            };
            let before = groups.len();
            groups.retain(|key, _| is_there(key));
            groups.len() != before
        });
    }

    /// Every object of a kind was seen.
    pub(super) fn listed(&self, kind: &str) {
        self.change(|known| known.listed.insert(kind.to_owned()));
    }

    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut known = self.known.lock();
        if change(&mut known) && known.counted {
            drop(known);
            self.changes.send_replace(());
        }
    }
}
