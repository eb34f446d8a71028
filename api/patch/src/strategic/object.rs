//! Merging one object of a patch into one object.

use serde_json::{Map, Value};

use super::{
    Mode,
    directive::{
        self, DELETE_FROM_PRIMITIVE_LIST, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER, Whole, list_of, parallel,
        settle,
    },
    list::{delete_scalars, merge_lists, merge_lists_ordered},
};
use crate::{
    PatchError,
    path::Path,
    schema::{Node, PLAIN, Strategy},
};

/// Merges `patch` into `target`.
pub(crate) fn merge_objects(
    target: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    node: &'static Node,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    match directive::whole(&patch, path)? {
        Some(Whole::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(Whole::Replace) => {
            patch.remove(PATCH);
            let mut whole = Value::Object(patch);
            if mode == Mode::Apply {
                settle(&mut whole);
            }
            if let Value::Object(whole) = whole {
                *target = whole;
            }
            return Ok(());
        }
        None => {}
    }
    // Directives are rare; most objects skip the three passes for them.
    if patch.keys().any(|key| key.starts_with('$')) {
        retain_keys(target, &mut patch, mode, path)?;
        set_element_orders(target, &mut patch, node, mode, path)?;
        delete_from_lists(target, &mut patch, mode, path)?;
    }
    for (name, change) in patch {
        merge_field(target, name, change, node, mode, path)?;
    }
    Ok(())
}

fn merge_field(
    target: &mut Map<String, Value>,
    name: String,
    mut change: Value,
    node: &'static Node,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    if mode == Mode::Apply && change.is_null() {
        target.remove(&name);
        return Ok(());
    }
    match (target.get_mut(&name), &mut change) {
        (Some(Value::Object(field)), Value::Object(changes)) => {
            let (strategy, child) = metadata(node, &name);
            if strategy != Strategy::Replace {
                return merge_objects(field, std::mem::take(changes), child, mode, &path.field(&name));
            }
        }
        (Some(Value::Array(field)), Value::Array(changes)) => {
            let meta = node.field(&name);
            if let Some(meta) = meta.filter(|meta| meta.strategy.merges()) {
                let (items, changes) = (std::mem::take(field), std::mem::take(changes));
                *field = merge_lists(items, changes, meta, mode, &path.field(&name))?;
                return Ok(());
            }
        }
        (_, Value::Object(changes)) if mode == Mode::Apply && changes.contains_key(PATCH) => {
            target.remove(&name);
            return Ok(());
        }
        _ => {}
    }
    if mode == Mode::Apply {
        settle(&mut change);
    }
    target.insert(name, change);
    Ok(())
}

/// Strategy and type of an object field; of a map's value too.
pub(crate) fn metadata(node: &'static Node, name: &str) -> (Strategy, &'static Node) {
    match node.field(name) {
        Some(field) => (field.strategy, field.child.unwrap_or(&PLAIN)),
        None => (Strategy::Default, node.values.unwrap_or(&PLAIN)),
    }
}

/// Obeys `$retainKeys`: fields that it does not list are dropped from the target.
fn retain_keys(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    if mode == Mode::Combine {
        target.insert(RETAIN_KEYS.to_owned(), retained);
        return Ok(());
    }
    let Value::Array(retained) = &retained else {
        return Err(path
            .field(RETAIN_KEYS)
            .wrong_type("a list of field names", &retained));
    };
    let listed = |name: &str| retained.iter().any(|entry| entry.as_str() == Some(name));
    for (name, change) in patch.iter() {
        let parallel = name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if !change.is_null() && !parallel && !listed(name) {
            let reason = format!("{name} is set by the patch and must be listed too");
            return Err(path.field(RETAIN_KEYS).bad_directive(reason));
        }
    }
    target.retain(|name, _| listed(name));
    Ok(())
}

/// Obeys every `$setElementOrder/<list>` together with the change to that list.
fn set_element_orders(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: &'static Node,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for key in orders {
        let at = path.field(&key);
        let Some(name) = list_of(&key, SET_ELEMENT_ORDER, &at)? else {
            continue;
        };
        let order = match patch.remove(&key) {
            Some(Value::Array(order)) => order,
            other => return Err(at.wrong_type("a list", &other.unwrap_or_default())),
        };
        let at = path.field(name);
        let items = match target.get_mut(name) {
            None => None,
            Some(Value::Array(items)) => Some(std::mem::take(items)),
            Some(other) => return Err(at.wrong_type("a list", other)),
        };
        let changes = match patch.remove(name) {
            None => None,
            Some(Value::Array(changes)) => Some(changes),
            Some(other) => return Err(at.wrong_type("a list", &other)),
        };
        if items.is_some() || changes.is_some() {
            let merged = merge_lists_ordered(items, changes, &order, node.field(name), mode, &at)?;
            target.insert(name.to_owned(), Value::Array(merged));
        }
        if mode == Mode::Combine {
            target.insert(parallel(SET_ELEMENT_ORDER, name), Value::Array(order));
        }
    }
    Ok(())
}

/// Obeys every `$deleteFromPrimitiveList/<list>`.
fn delete_from_lists(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let deletions: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(DELETE_FROM_PRIMITIVE_LIST))
        .cloned()
        .collect();
    for key in deletions {
        let at = path.field(&key);
        let Some(name) = list_of(&key, DELETE_FROM_PRIMITIVE_LIST, &at)? else {
            continue;
        };
        let Some(doomed) = patch.remove(&key) else {
            continue;
        };
        if mode == Mode::Combine {
            target.insert(key, doomed);
            continue;
        }
        match (target.get_mut(name), doomed) {
            (Some(Value::Array(items)), Value::Array(doomed)) => delete_scalars(items, &doomed, &at)?,
            // The API server reads null here as it reads it for the list itself.
            (Some(_), Value::Null) => {
                target.remove(name);
            }
            _ => {}
        }
    }
    Ok(())
}
