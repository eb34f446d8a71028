//! Recording a write that is no server-side apply.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

use super::{
    Entry, FieldSet, Operation, Step,
    compare::{Comparison, compare},
    entry::{order, sort_stored},
    topology::Topology,
    wire::is_member,
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
    let is_new = before.is_none();
    Change::between(before, after, topology, scope).record(is_new, entries, write)
}

/// The fields that a write changed, of those that can be the writer's.
#[derive(Debug)]
pub struct Change {
    /// Whether anything at all differs.
    is_one: bool,
    set: FieldSet,
    removed: FieldSet,
}

impl Change {
    /// What differs between two states of an object; `before` is `None` for one that is being created.
    #[must_use]
    pub fn between<T: Topology>(before: Option<&Value>, after: &Value, topology: T, scope: &Scope) -> Self {
        let nothing = Value::Object(serde_json::Map::new());
        let comparison = compare(before.unwrap_or(&nothing), after, topology);
        let is_one = !comparison.is_empty();
        let Comparison {
            added,
            modified,
            removed,
        } = comparison;
        Self {
            is_one,
            set: scope.of(added).union(scope.of(modified)),
            removed: scope.of(removed),
        }
    }

    /// Records it as [`update`] says.
    #[must_use]
    pub fn record(self, is_new: bool, entries: Vec<Entry>, write: &Write<'_>) -> Vec<Entry> {
        if !self.is_one || (entries.is_empty() && !is_new) {
            return entries;
        }
        let mut entries = if entries.is_empty() {
            entries
        } else {
            without(entries, &self.set.clone().union(self.removed))
        };
        let written = self.set.difference(&UNTRACKED);
        if !written.is_empty() {
            record(&mut entries, written, write);
        }
        capped(entries)
    }

    /// Records it in `managedFields` as they are stored, if it only gives other values to fields that are the writer's already
    /// and nobody else's: then nothing changes but a time. This is what heartbeats do. Otherwise nothing is done, and the
    /// answer is `false`.
    pub fn renews(&self, managed: &mut Value, write: &Write<'_>) -> bool {
        let Some(list) = managed.as_array_mut().filter(|list| list.len() <= MAX_UPDATERS) else {
            return false;
        };
        let paths = self.set.clone().difference(&UNTRACKED).paths();
        // Elements of lists may be written in more ways than one.
        let is_plain = |path: &Vec<Step>| path.iter().all(|step| matches!(step, Step::Field(_)));
        if paths.is_empty() || !self.removed.is_empty() || !paths.iter().all(is_plain) {
            return false;
        }
        let mut own = None;
        for (at, entry) in list.iter().enumerate() {
            let mut owns = paths.iter().map(|path| owns(entry, path));
            let fits = match is_of(entry, write) {
                true => owns.all(|owns| owns) && own.replace(at).is_none(),
                false => !owns.any(|owns| owns),
            };
            if !fits {
                return false;
            }
        }
        let Some(time) = own.and_then(|at| list.get_mut(at)?.get_mut("time")) else {
            return false;
        };
        *time = Value::from(write.now);
        sort_stored(list);
        true
    }
}

/// Whether a stored entry is the writer's.
fn is_of(entry: &Value, write: &Write<'_>) -> bool {
    let [operation, _, manager, api_version, subresource] = order(entry);
    operation == Operation::Update.name()
        && (manager, api_version, subresource) == (write.manager, write.api_version, write.subresource)
}

/// Whether a stored entry has a field.
fn owns(entry: &Value, path: &[Step]) -> bool {
    let fields = entry.get("fieldsV1");
    let field = path
        .iter()
        .try_fold(fields, |above, step| Some(above?.get(step.to_wire())));
    let below = field.flatten().and_then(Value::as_object);
    below.is_some_and(is_member)
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
