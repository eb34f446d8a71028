//! Merging lists: of objects by their merge key, of scalars as sets.

use serde_json::{Map, Value};

use super::{
    Mode,
    directive::{self, Whole, carries_patch, is_delete, settle},
    object::merge_objects,
    order::{Placed, Positions, arrange, take_in_order},
};
use crate::{
    PatchError,
    path::{Path, type_name},
    schema::{Field, PLAIN},
};

/// What a merging list holds; all its elements are of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    Object,
    Text,
    Boolean,
    Integer,
    Float,
}

/// The one type of all elements of these lists; `None` when they are all empty.
pub(crate) fn element_type(lists: &[&[Value]], path: &Path<'_>) -> Result<Option<ElementType>, PatchError> {
    let mut common = None;
    for element in lists.iter().copied().flatten() {
        let this = match element {
            Value::Object(_) => ElementType::Object,
            Value::String(_) => ElementType::Text,
            Value::Bool(_) => ElementType::Boolean,
            Value::Number(number) if number.is_f64() => ElementType::Float,
            Value::Number(_) => ElementType::Integer,
            Value::Null | Value::Array(_) => {
                return Err(path.wrong_type("a list of objects or of scalars", element));
            }
        };
        if common.is_some_and(|common| common != this) {
            let expected = "elements of one type, of which the first is not one like this";
            return Err(PatchError::WrongType {
                path: path.to_string(),
                expected,
                found: type_name(element),
            });
        }
        common = Some(this);
    }
    Ok(common)
}

/// A list after its elements were merged, with what is needed to order them.
struct Merged {
    items: Vec<Value>,
    /// How many of `items`, from the first, count as the server's when the patch's own order is applied.
    server: usize,
    /// The same when a `$setElementOrder` is applied: elements appended by the patch take the places of deleted ones.
    server_before_deletes: usize,
    /// The patch's elements that were not directives, by key or value.
    order: Vec<Value>,
}

/// Merges a list whose strategy is `merge`, without `$setElementOrder`: the patch's own order is kept.
pub(crate) fn merge_lists(
    items: Vec<Value>,
    changes: Vec<Value>,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Value>, PatchError> {
    let merged = merge_elements(items, changes, field, mode, path)?;
    let key = field.merge_key;
    let placed = place(&merged.items, key, &merged.order, merged.server, path)?;
    Ok(take_in_order(merged.items, &arrange(&placed)))
}

/// Merges a list and orders it by `order`, the value of its `$setElementOrder`.
pub(crate) fn merge_lists_ordered(
    items: Option<Vec<Value>>,
    changes: Option<Vec<Value>>,
    order: &[Value],
    field: Option<&'static Field>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Value>, PatchError> {
    let key = field.and_then(|field| field.merge_key);
    if let Some(changes) = &changes {
        check_order(changes, order, key, path)?;
    }
    let merging = field.filter(|field| field.strategy.merges());
    let merged = match (items, changes, merging) {
        (Some(items), Some(changes), Some(field)) => merge_elements(items, changes, field, mode, path)?,
        (Some(items), None, _) => Merged {
            server: items.len(),
            server_before_deletes: items.len(),
            items,
            order: vec![],
        },
        (_, Some(changes), _) => {
            let mut changes = Value::Array(changes);
            if mode == Mode::Apply {
                settle(&mut changes);
            }
            let Value::Array(items) = changes else {
                return Ok(vec![]);
            };
            Merged {
                items,
                server: 0,
                server_before_deletes: 0,
                order: vec![],
            }
        }
        (None, None, _) => return Ok(vec![]),
    };
    let wanted = order
        .iter()
        .enumerate()
        .map(|(at, entry)| identity(entry, key, &path.index(at)).cloned());
    let wanted: Vec<Value> = wanted.collect::<Result<_, _>>()?;

    // The patch's order first, then the order asked for: the first only decides between elements of one key.
    let inner = arrange(&place(&merged.items, key, &merged.order, merged.server, path)?);
    let outer = place(&merged.items, key, &wanted, merged.server_before_deletes, path)?;
    let outer: Vec<Placed> = inner
        .iter()
        .filter_map(|placed| outer.get(placed.element).copied())
        .collect();
    Ok(take_in_order(merged.items, &arrange(&outer)))
}

/// Removes scalars from a list.
pub(crate) fn delete_scalars(
    items: &mut Vec<Value>,
    doomed: &[Value],
    path: &Path<'_>,
) -> Result<(), PatchError> {
    match element_type(&[items, doomed], path)? {
        None => Ok(()),
        Some(ElementType::Object) => {
            Err(path.bad_directive("only scalars can be deleted from a list this way"))
        }
        Some(_) => {
            let doomed = Positions::new(doomed.iter().collect());
            items.retain(|item| doomed.of(item).is_none());
            Ok(())
        }
    }
}

fn merge_elements(
    items: Vec<Value>,
    changes: Vec<Value>,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Merged, PatchError> {
    match (element_type(&[&items, &changes], path)?, field.merge_key) {
        (None, _) => Ok(Merged {
            items,
            server: 0,
            server_before_deletes: 0,
            order: vec![],
        }),
        (Some(ElementType::Object), Some(key)) => merge_by_key(items, changes, key, field, mode, path),
        (Some(ElementType::Object), None) => {
            Err(path
                .bad_directive("this list holds scalars, it cannot merge objects: they have no merge key"))
        }
        (Some(_), Some(key)) => Err(path.missing_key(key)),
        (Some(_), None) => Ok(merge_scalars(items, changes)),
    }
}

fn merge_scalars(items: Vec<Value>, changes: Vec<Value>) -> Merged {
    let server = items.len();
    let all = Positions::new(items.iter().chain(&changes).collect());
    let first: Vec<bool> = items
        .iter()
        .chain(&changes)
        .enumerate()
        .map(|(at, item)| all.of(item) == Some(at))
        .collect();
    let kept_of_server = first.iter().take(server).filter(|first| **first).count();
    let order = changes.clone();
    let union = items.into_iter().chain(changes).zip(first);
    let items = union.filter_map(|(item, first)| first.then_some(item)).collect();
    Merged {
        items,
        server: kept_of_server,
        server_before_deletes: kept_of_server,
        order,
    }
}

fn merge_by_key(
    mut items: Vec<Value>,
    changes: Vec<Value>,
    key: &'static str,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Merged, PatchError> {
    let server_before_deletes = items.len();
    let mut replace = false;
    let mut doomed = Vec::new();
    let mut plain = Vec::with_capacity(changes.len());
    for (at, change) in changes.into_iter().enumerate() {
        let Value::Object(change) = change else { continue };
        match directive::whole(&change, &path.index(at))? {
            None => plain.push(change),
            Some(Whole::Replace) => replace = true,
            Some(Whole::Delete) => match change.get(key) {
                Some(value) => doomed.push(value.clone()),
                None => return Err(path.index(at).missing_key(key)),
            },
        }
    }
    if replace {
        let mut items = Value::Array(plain.into_iter().map(Value::Object).collect());
        settle(&mut items);
        let Value::Array(items) = items else {
            return Err(path.wrong_type("a list", &items));
        };
        return Ok(Merged {
            server: items.len(),
            server_before_deletes: items.len(),
            items,
            order: vec![],
        });
    }
    if !doomed.is_empty() {
        let doomed = Positions::new(doomed.iter().collect());
        items.retain(|item| item.get(key).is_none_or(|value| doomed.of(value).is_none()));
    }
    let server = items.len();
    let order = merge_plain(&mut items, plain, key, field, mode, path)?;
    Ok(Merged {
        items,
        server,
        server_before_deletes,
        order,
    })
}

/// Merges each change into the first element with its key, or appends it; returns the keys in the changes' order.
fn merge_plain(
    items: &mut Vec<Value>,
    changes: Vec<Map<String, Value>>,
    key: &'static str,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut order = Vec::with_capacity(changes.len());
    for (at, change) in changes.iter().enumerate() {
        order.push(
            change
                .get(key)
                .ok_or_else(|| path.index(at).missing_key(key))?
                .clone(),
        );
    }
    let known: Vec<Value> = items
        .iter()
        .map(|item| item.get(key).cloned().unwrap_or_default())
        .collect();
    let has_key: Vec<bool> = items.iter().map(|item| item.get(key).is_some()).collect();
    let found = Positions::new(known.iter().chain(&order).collect());
    let mut appended = vec![None; order.len()];
    for (at, (change, value)) in changes.into_iter().zip(&order).enumerate() {
        let position = found
            .of(value)
            .and_then(|first| match first.checked_sub(known.len()) {
                None => has_key.get(first).copied().unwrap_or_default().then_some(first),
                Some(earlier) => appended.get(earlier).copied().flatten(),
            });
        if let Some(Value::Object(element)) = position.and_then(|position| items.get_mut(position)) {
            merge_objects(
                element,
                change,
                field.child.unwrap_or(&PLAIN),
                mode,
                &path.index(at),
            )?;
            continue;
        }
        if let Some(slot) = appended.get_mut(at) {
            *slot = Some(items.len());
        }
        let mut element = Value::Object(change);
        if mode == Mode::Apply {
            settle(&mut element);
        }
        items.push(element);
    }
    Ok(order)
}

/// Where each element belongs: by `wanted`, and by the first `server` elements of the list itself.
fn place(
    items: &[Value],
    key: Option<&'static str>,
    wanted: &[Value],
    server: usize,
    path: &Path<'_>,
) -> Result<Vec<Placed>, PatchError> {
    let identities = items
        .iter()
        .enumerate()
        .map(|(at, item)| identity(item, key, &path.index(at)));
    let identities: Vec<&Value> = identities.collect::<Result<_, _>>()?;
    let on_server = Positions::new(identities.iter().take(server).copied().collect());
    let wanted = Positions::new(wanted.iter().collect());
    let placed = identities
        .into_iter()
        .zip(items)
        .enumerate()
        .map(|(element, (identity, item))| Placed {
            element,
            wanted: wanted.of(identity),
            server: on_server.of(identity),
            delete: is_delete(item),
        });
    Ok(placed.collect())
}

/// What identifies an element in its list: its merge key, or itself.
fn identity<'a>(element: &'a Value, key: Option<&str>, path: &Path<'_>) -> Result<&'a Value, PatchError> {
    match (element, key) {
        (Value::Object(fields), Some(key)) => fields.get(key).ok_or_else(|| path.missing_key(key)),
        (other, Some(_)) => Err(path.wrong_type("an object", other)),
        (element, None) => Ok(element),
    }
}

/// Refuses a patch whose list is not a subsequence of its `$setElementOrder`.
fn check_order(
    changes: &[Value],
    order: &[Value],
    key: Option<&'static str>,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter().enumerate();
    for (at, change) in changes
        .iter()
        .enumerate()
        .filter(|(_, change)| !carries_patch(change))
    {
        let wanted = identity(change, key, &path.index(at))?;
        let mut listed = false;
        for (entry, value) in order.by_ref() {
            if identity(value, key, &path.index(entry))? == wanted {
                listed = true;
                break;
            }
        }
        if !listed {
            let reason =
                format!("{wanted} is missing from $setElementOrder, or stands there in another order");
            return Err(path.index(at).bad_directive(reason));
        }
    }
    Ok(())
}
