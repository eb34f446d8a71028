//! Server-side apply.

use serde_json::{Map, Value};

use super::{
    ApplyError, Conflict, Conflicts, Entry, FieldSet, Operation, Relation, Scope, Step, Write,
    compare::compare,
    fields::{fields_of, fields_of_live},
    merge::merge,
    remove::remove,
    topology::{Topology, element_step},
    update::{UNTRACKED, capped, update, without},
};

/// The manager that is said to own what an object had before anything was applied to it.
const BEFORE_FIRST: &str = "before-first-apply";

/// The manager whose applies take over from client-side apply.
const KUBECTL: &str = "kubectl";

/// Where client-side apply keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An apply.
#[derive(Debug, Clone, Copy)]
pub struct Apply<'a> {
    /// Who applies.
    pub write: Write<'a>,
    /// Whether fields of others are taken over.
    pub force: bool,
}

/// What an apply makes of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object.
    pub object: Value,
    /// Its managed fields.
    pub entries: Vec<Entry>,
}

/// Applies a configuration to the live object (`None`: there is none yet): what the configuration sets is set, what
/// this manager applied before and now leaves out is removed unless somebody else owns it.
///
/// Neither `live` nor `config` is looked at for managed fields; `entries` are those of the live object.
///
/// # Errors
/// [`ApplyError::Conflicts`] if others own fields that would get another value and `force` is not set;
/// [`ApplyError::Misfit`] for a list of the configuration with elements that cannot be told apart.
pub fn apply<T: Topology>(
    live: Option<&Value>,
    config: &Value,
    entries: Vec<Entry>,
    apply: &Apply<'_>,
    topology: T,
    scope: &Scope,
) -> Result<Applied, ApplyError> {
    let nothing = Value::Object(Map::new());
    let base = live.unwrap_or(&nothing);
    let entries = match live {
        Some(live) if entries.is_empty() => {
            let write = Write {
                manager: BEFORE_FIRST,
                subresource: "",
                ..apply.write
            };
            update(None, live, entries, &write, topology, scope)
        }
        _ => entries,
    };
    let mut applied = match attempt(base, config, entries.clone(), apply, topology, scope) {
        Err(ApplyError::Conflicts(conflicts)) if apply.write.manager == KUBECTL => {
            let left = beyond_last_applied(base, conflicts, topology, &apply.write)?;
            if let Some(left) = left {
                return Err(ApplyError::Conflicts(left));
            }
            let forced = Apply {
                force: true,
                ..*apply
            };
            attempt(base, config, entries, &forced, topology, scope)?
        }
        other => other?,
    };
    if apply.write.manager == KUBECTL {
        renew_last_applied(&mut applied.object, config);
    }
    applied.entries = capped(applied.entries);
    Ok(applied)
}

fn attempt<T: Topology>(
    live: &Value,
    config: &Value,
    mut entries: Vec<Entry>,
    apply: &Apply<'_>,
    topology: T,
    scope: &Scope,
) -> Result<Applied, ApplyError> {
    for entry in &mut entries {
        entry.fields = reconciled(std::mem::take(&mut entry.fields), live, topology);
    }
    let merged = merge(live, config, topology)?;
    let mut mine = Entry {
        manager: apply.write.manager.to_owned(),
        operation: Operation::Apply,
        api_version: apply.write.api_version.to_owned(),
        subresource: apply.write.subresource.to_owned(),
        time: apply.write.now.to_owned(),
        fields: scope.of(fields_of(config, topology)?),
    };
    let before = entries.iter().position(|have| have.same_manager(&mine));
    let last = before
        .map(|at| entries.swap_remove(at).fields)
        .unwrap_or_default();
    let owned = entries
        .iter()
        .fold(mine.fields.clone(), |all, entry| all.union(entry.fields.clone()));
    let object = prune(merged, &last, &owned, topology);

    let comparison = compare(live, &object, topology);
    let changed = scope.of(comparison.modified.union(comparison.added));
    let removed = scope.of(comparison.removed);
    if !apply.force {
        let conflicts = entries.iter().flat_map(|entry| {
            let paths = entry.fields.intersection(&changed).paths();
            paths.into_iter().map(|path| Conflict::new(entry, path))
        });
        let conflicts: Vec<Conflict> = conflicts.collect();
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts(conflicts)));
        }
    }
    let mut entries = without(entries, &changed.union(removed));
    mine.fields = mine.fields.difference(&UNTRACKED);
    if !mine.fields.is_empty() {
        entries.push(mine);
    }
    Ok(Applied { object, entries })
}

/// Takes out what the manager applied before (`last`), but for what is owned now.
fn prune<T: Topology>(merged: Value, last: &FieldSet, owned: &FieldSet, topology: T) -> Value {
    if last.is_empty() {
        return merged;
    }
    let last = last.with_named(topology);
    let nothing = || Value::Object(Map::new());
    let pruned = remove(&merged, &last, topology).unwrap_or_else(nothing);
    let have = fields_of_live(&merged, topology).with_named(topology);
    let left = |value: &Value| fields_of_live(value, topology).with_named(topology);
    // What somebody owns comes back …
    let kept = left(&pruned).union(owned.with_named(topology));
    let pruned = remove(&merged, &have.clone().difference(&kept), topology).unwrap_or_else(nothing);
    // … and so does what went with its parent although this manager never applied it.
    let gone = have.difference(&left(&pruned)).intersection(&last);
    remove(&merged, &gone, topology).unwrap_or_else(nothing)
}

/// A set made when the schema had a list or object granular that is atomic now: who owned a part owns it whole.
fn reconciled<T: Topology>(mut fields: FieldSet, live: &Value, topology: T) -> FieldSet {
    let relation = topology.relation(live);
    let items = live.as_array().into_iter().flatten().enumerate();
    let items: Vec<(Step, &Value)> = items
        .filter_map(|(at, item)| Some((element_step(topology, relation, item, at).ok()?, item)))
        .collect();
    for (step, node) in &mut fields.entries {
        let (value, child) = match step {
            Step::Field(name) => (live.get(&**name), topology.child(name).node),
            _ => {
                let item = items.iter().find(|(have, _)| have == step);
                (item.map(|(_, item)| *item), topology.element())
            }
        };
        let Some(value) = value.filter(|_| !node.below.is_empty()) else {
            continue;
        };
        if !value.is_null() && child.relation(value) == Relation::Atomic {
            node.member = true;
            node.below = FieldSet::default();
        } else {
            node.below = reconciled(std::mem::take(&mut node.below), value, child);
        }
    }
    fields
}

/// The conflicts that are about anything but what client-side apply set and nobody has changed since; `None` if there
/// are none.
///
/// # Errors
/// All the conflicts, if client-side apply left no usable trace.
fn beyond_last_applied<T: Topology>(
    live: &Value,
    conflicts: Conflicts,
    topology: T,
    write: &Write<'_>,
) -> Result<Option<Conflicts>, ApplyError> {
    let text = live
        .pointer("/metadata/annotations")
        .and_then(|a| a.get(LAST_APPLIED)?.as_str());
    let last: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last.filter(|last| last.get("apiVersion").is_some_and(|v| v == write.api_version))
    else {
        return Err(ApplyError::Conflicts(conflicts));
    };
    let comparison = compare(&last, live, topology);
    let Ok(fields) = fields_of(&last, topology) else {
        return Err(ApplyError::Conflicts(conflicts));
    };
    let unchanged = fields
        .difference(&comparison.modified)
        .difference(&comparison.added)
        .difference(&comparison.removed);
    let left: Vec<Conflict> = conflicts
        .0
        .into_iter()
        .filter(|conflict| !unchanged.has(&conflict.path))
        .collect();
    Ok((!left.is_empty()).then_some(Conflicts(left)))
}

/// Keeps the trace of client-side apply, where there is one, up to date for those who go back to it.
fn renew_last_applied(object: &mut Value, config: &Value) {
    let annotations = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    let Some(last) = annotations
        .and_then(|a| a.get_mut(LAST_APPLIED))
        .filter(|v| **v != "")
    else {
        return;
    };
    let mut config = config.clone();
    if let Some(own) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        own.remove(LAST_APPLIED);
    }
    *last = format!("{config}\n").into();
}
