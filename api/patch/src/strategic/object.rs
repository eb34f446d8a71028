//! Merging one object of a patch into one object.

use std::{borrow::Cow, mem::take};

use super::{
    Mode,
    directive::{
        self, DELETE_FROM_PRIMITIVE_LIST, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER, Whole, list_of, parallel,
        settle,
    },
    elements::delete_scalars,
    list::{merge_lists, merge_lists_ordered},
};
use crate::{
    PatchError,
    document::{Document, Object},
    path::Path,
    schema::{Node, PLAIN, Strategy},
};

/// Merges `patch` into `target`.
pub(crate) fn merge_objects<'a>(
    target: &mut Object<'a>,
    mut patch: Object<'a>,
    node: &'static Node,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    // Directives are rare; most objects skip the passes for them.
    if patch.names().any(|name| name.starts_with('$')) {
        if let Some(whole) = directive::whole(&patch, path)? {
            patch.remove(PATCH);
            *target = match whole {
                Whole::Delete => Object::new(),
                Whole::Replace => settled(patch, mode),
            };
            return Ok(());
        }
        retain_keys(target, &mut patch, mode, path)?;
        set_element_orders(target, &mut patch, node, mode, path)?;
        delete_from_lists(target, &mut patch, mode, path)?;
    }
    for (name, change) in patch {
        let (meta, at) = (node.field(&name), path.field(&name));
        match (target.get_mut(&name), change) {
            (Some(Document::Object(field)), Document::Object(changes)) => {
                let (strategy, child) = metadata(node, &name);
                match strategy {
                    Strategy::Replace => *field = settled(changes, mode),
                    _ => merge_objects(field, changes, child, mode, &at)?,
                }
            }
            (Some(Document::List(items)), Document::List(changes)) => {
                let merging = meta.filter(|meta| meta.strategy.merges());
                *items = match merging {
                    Some(meta) => merge_lists(take(items), changes, meta, mode, &at)?,
                    None => settled_list(changes, mode),
                };
            }
            (_, change) => set(target, name.clone(), change, mode),
        }
    }
    Ok(())
}

/// Sets a field that does not merge: absent in the target, or of another type there.
fn set<'a>(target: &mut Object<'a>, name: Cow<'a, str>, mut change: Document<'a>, mode: Mode) {
    if mode == Mode::Apply {
        if change.is_null() || directive::carries_patch(&change) {
            target.remove(&name);
            return;
        }
        settle(&mut change);
    }
    target.insert(name, change);
}

fn settled<'a>(mut object: Object<'a>, mode: Mode) -> Object<'a> {
    if mode == Mode::Apply {
        directive::settle_object(&mut object);
    }
    object
}

/// A list as it is added whole.
pub(super) fn settled_list<'a>(mut items: Vec<Document<'a>>, mode: Mode) -> Vec<Document<'a>> {
    if mode == Mode::Apply {
        directive::settle_list(&mut items);
    }
    items
}

/// Strategy and type of an object field; of a map's value too.
pub(crate) fn metadata(node: &'static Node, name: &str) -> (Strategy, &'static Node) {
    match node.field(name) {
        Some(field) => (field.strategy, field.child.unwrap_or(&PLAIN)),
        None => (Strategy::Default, node.values.unwrap_or(&PLAIN)),
    }
}

/// Obeys `$retainKeys`: fields that it does not list are dropped from the target.
fn retain_keys<'a>(
    target: &mut Object<'a>,
    patch: &mut Object<'a>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    if mode == Mode::Combine {
        target.insert(RETAIN_KEYS, retained);
        return Ok(());
    }
    let Document::List(retained) = &retained else {
        let reason = format!("expected a list of field names, found {}", retained.type_name());
        return Err(path.field(RETAIN_KEYS).bad_directive(reason));
    };
    let listed = |name: &str| retained.iter().any(|entry| entry.as_text() == Some(name));
    for (name, change) in patch.iter() {
        let parallel = name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if !change.is_null() && !parallel && !listed(name) {
            return Err(PatchError::NotRetained {
                path: path.field(RETAIN_KEYS).to_string(),
                name: name.to_string(),
            });
        }
    }
    target.retain(|name, _| listed(name));
    Ok(())
}

/// Obeys every `$setElementOrder/<list>` together with the change to that list.
fn set_element_orders<'a>(
    target: &mut Object<'a>,
    patch: &mut Object<'a>,
    node: &'static Node,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    for key in directives(patch, SET_ELEMENT_ORDER) {
        let at = path.field(&key);
        let name = list_of(&key, SET_ELEMENT_ORDER, &at)?;
        let order = match patch.remove(&key) {
            Some(Document::List(order)) => order,
            other => return Err(at.wrong_type("a list", &other.unwrap_or_default())),
        };
        let at = path.field(name);
        let items = match target.get_mut(name) {
            None => None,
            Some(Document::List(items)) => Some(take(items)),
            Some(other) => return Err(at.wrong_type("a list", other)),
        };
        let changes = match patch.remove(name) {
            None => None,
            Some(Document::List(changes)) => Some(changes),
            Some(other) => return Err(at.wrong_type("a list", &other)),
        };
        if items.is_some() || changes.is_some() {
            let merged = merge_lists_ordered(items, changes, &order, node.field(name), mode, &at)?;
            target.insert(name.to_owned(), Document::List(merged));
        }
        if mode == Mode::Combine {
            target.insert(parallel(SET_ELEMENT_ORDER, name), Document::List(order));
        }
    }
    Ok(())
}

/// Obeys every `$deleteFromPrimitiveList/<list>`.
fn delete_from_lists<'a>(
    target: &mut Object<'a>,
    patch: &mut Object<'a>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    for key in directives(patch, DELETE_FROM_PRIMITIVE_LIST) {
        let at = path.field(&key);
        let name = list_of(&key, DELETE_FROM_PRIMITIVE_LIST, &at)?;
        let Some(doomed) = patch.remove(&key) else {
            continue;
        };
        if mode == Mode::Combine {
            target.insert(key.clone(), doomed);
            continue;
        }
        match (target.get_mut(name), doomed) {
            (Some(Document::List(items)), Document::List(doomed)) => delete_scalars(items, &doomed, &at)?,
            // The API server reads null here as it reads it for the list itself.
            (Some(_), Document::Null) => {
                target.remove(name);
            }
            _ => {}
        }
    }
    Ok(())
}

fn directives<'a>(patch: &Object<'a>, prefix: &str) -> Vec<Cow<'a, str>> {
    patch
        .names()
        .filter(|name| name.starts_with(prefix))
        .cloned()
        .collect()
}
