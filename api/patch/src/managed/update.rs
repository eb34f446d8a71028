//! Recording a write that is no server-side apply.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use super::{
    Entry, FieldSet, Operation, Step,
    compare::{Comparison, compare},
    topology::Topology,
};

/// Managers of updates that are kept apart; the oldest of more are folded into one.
const MAX_UPDATERS: usize = 10;

/// The manager that stands for updates too many to keep apart.
const ANCIENT: &str = "ancient-changes";

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Name of the field manager.
    pub manager: &'a str,
    /// The version of the object in which it writes.
    pub api_version: &'a str,
    /// The subresource it writes through; empty for the object itself.
    pub subresource: &'a str,
    /// Now, RFC 3339 with whole seconds.
    pub now: &'a str,
}

/// Which part of an object a write cannot change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// These fields, and all in them, are not the writer's.
    Without(FieldSet),
    /// Nothing but this field is.
    Only(Step),
}

impl Scope {
    /// The whole object.
    #[must_use]
    pub fn all() -> Self {
        Self::Without(FieldSet::default())
    }

    pub(super) fn of(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Without(ignored) => set.without(ignored),
            Self::Only(step) => set.only(step),
        }
    }
}

/// The managed fields after a write that is no server-side apply: what it changed and added is the writer's and nobody
/// else's, what it removed is nobody's. Times change only for a writer that changed something.
///
/// `before` is `None` for an object that is being created. An object that is not tracked (`entries` empty, but not
/// new) stays so until something is applied to it.
#[must_use]
pub fn update<T: Topology>(
    before: Option<&Value>,
    after: &Value,
    entries: Vec<Entry>,
    write: &Write<'_>,
    topology: T,
    scope: &Scope,
) -> Vec<Entry> {
    if before.is_some() && entries.is_empty() {
        return entries;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let comparison = compare(before.unwrap_or(&nothing), after, topology);
    if comparison.is_empty() {
        return entries;
    }
    let Comparison {
        added,
        modified,
        removed,
    } = Comparison {
        added: scope.of(comparison.added),
        modified: scope.of(comparison.modified),
        removed: scope.of(comparison.removed),
    };
    let set = added.union(modified);
    let mut entries = if entries.is_empty() {
        entries
    } else {
        without(entries, &set.clone().union(removed))
    };
    let written = set.difference(&UNTRACKED);
    if !written.is_empty() {
        record(&mut entries, written, write);
    }
    capped(entries)
}

/// What identifies an object or is the server's own is nobody's.
pub(super) static UNTRACKED: LazyLock<FieldSet> = LazyLock::new(|| {
    const OF_METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut set = FieldSet::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Step::field(name)]);
    }
    for name in OF_METADATA {
        set.insert(&[Step::field("metadata"), Step::field(name)]);
    }
    set
});

/// Takes these fields from every manager; one that is left with none goes.
pub(super) fn without(entries: Vec<Entry>, gone: &FieldSet) -> Vec<Entry> {
    let less = entries.into_iter().map(|entry| Entry {
        fields: entry.fields.difference(gone),
        ..entry
    });
    less.filter(|entry| !entry.fields.is_empty()).collect()
}

/// Adds to the writer's fields.
fn record(entries: &mut Vec<Entry>, fields: FieldSet, write: &Write<'_>) {
    let mut entry = Entry {
        manager: write.manager.to_owned(),
        operation: Operation::Update,
        api_version: write.api_version.to_owned(),
        subresource: write.subresource.to_owned(),
        time: write.now.to_owned(),
        fields,
    };
    if let Some(at) = entries.iter().position(|have| have.same_manager(&entry)) {
        entry.fields = entry.fields.union(entries.swap_remove(at).fields);
    }
    entries.push(entry);
}

/// Folds the oldest updaters of a version into one while there are too many.
pub(super) fn capped(mut entries: Vec<Entry>) -> Vec<Entry> {
    let updaters = entries
        .iter()
        .filter(|e| e.operation == Operation::Update)
        .count();
    let mut excess = updaters.saturating_sub(MAX_UPDATERS);
    if excess == 0 {
        return entries;
    }
    // Appliers sort first and are skipped.
    entries.sort_by(|a, b| (a.operation, &a.time, &a.manager).cmp(&(b.operation, &b.time, &b.manager)));
    let mut kept: Vec<Entry> = vec![];
    let mut oldest: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        let first = oldest.get(&entry.api_version).and_then(|at| kept.get_mut(*at));
        match first {
            _ if entry.operation == Operation::Apply => kept.push(entry),
            Some(bucket) if excess > 0 => {
                ANCIENT.clone_into(&mut bucket.manager);
                bucket.subresource = String::new();
                bucket.time = entry.time;
                bucket.fields = std::mem::take(&mut bucket.fields).union(entry.fields);
                excess -= 1;
            }
            _ => {
                oldest.entry(entry.api_version.clone()).or_insert(kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}
