//! One half of the three-way diff, over lists that merge.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Map, Value};

use super::{Pass, object::diff_objects};
use crate::{
    PatchError,
    path::Path,
    schema::{Field, PLAIN},
    strategic::{
        ElementType,
        directive::{DELETE_FROM_PRIMITIVE_LIST, PATCH, SET_ELEMENT_ORDER, is_delete, parallel},
        element_type,
        order::Positions,
    },
};

/// Writes what leads from `original` to `modified` into `patch`: the list's changes and its parallel directives.
pub(super) fn diff_lists(
    original: &[Value],
    modified: &[Value],
    field: &'static Field,
    pass: Pass,
    patch: &mut Map<String, Value>,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let name = field.name;
    if original.is_empty() {
        if pass == Pass::Changes && !modified.is_empty() {
            patch.insert(name.to_owned(), Value::Array(modified.to_vec()));
        }
        return Ok(());
    }
    let (changes, order) = match (element_type(&[original, modified], path)?, field.merge_key) {
        (Some(ElementType::Object), Some(key)) => diff_by_key(original, modified, key, field, pass, path)?,
        (Some(ElementType::Object), None) => {
            let reason = "this list holds scalars, it cannot merge objects: they have no merge key";
            return Err(path.bad_directive(reason));
        }
        _ => {
            let (added, removed) = diff_scalars(original, modified, pass);
            let reordered = match pass {
                Pass::Changes => !equals_sorted(original, modified),
                Pass::Deletions => !removed.is_empty(),
            };
            if !removed.is_empty() {
                patch.insert(parallel(DELETE_FROM_PRIMITIVE_LIST, name), Value::Array(removed));
            }
            (added, if reordered { modified.to_vec() } else { Vec::new() })
        }
    };
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
    if !order.is_empty() {
        patch.insert(parallel(SET_ELEMENT_ORDER, name), Value::Array(order));
    }
    Ok(())
}

/// An element with its merge key, and the key's text, by which Kubernetes sorts and pairs elements.
struct Keyed<'a> {
    text: Cow<'a, str>,
    key: &'a Value,
    element: &'a Map<String, Value>,
    index: usize,
}

/// The changes of a list of objects, and the order to set.
fn diff_by_key(
    original: &[Value],
    modified: &[Value],
    key: &'static str,
    field: &'static Field,
    pass: Pass,
    path: &Path<'_>,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let before = keyed(original, key, path)?;
    let after = keyed(modified, key, path)?;
    let same_order =
        before.len() == after.len() && before.iter().zip(&after).all(|(old, new)| old.key == new.key);
    let positions = Positions::new(after.iter().map(|new| new.key).collect());
    let order_entries = |after: &[Keyed<'_>]| -> Vec<Value> {
        after
            .iter()
            .map(|new| Value::Object(Map::from_iter([(key.to_owned(), new.key.clone())])))
            .collect()
    };

    let mut changes: Vec<(bool, Option<usize>, Value)> = Vec::new();
    let mut deletions = Vec::new();
    for (old, new) in pair(&before, &after) {
        match (old, new) {
            (Some(old), Some(new)) => {
                let child = field.child.unwrap_or(&PLAIN);
                let retain = field.strategy.retains_keys();
                let at = path.index(new.index);
                let mut change = diff_objects(old.element, new.element, child, pass, retain, &at)?;
                if !change.is_empty() {
                    change.insert(key.to_owned(), new.key.clone());
                    let change = Value::Object(change);
                    changes.push((is_delete(&change), positions.of(new.key), change));
                }
            }
            (None, Some(new)) if pass == Pass::Changes => {
                let whole = Value::Object(new.element.clone());
                changes.push((is_delete(&whole), positions.of(new.key), whole));
            }
            (Some(old), None) if pass == Pass::Deletions => {
                let doomed = [
                    (PATCH.to_owned(), Value::from("delete")),
                    (key.to_owned(), old.key.clone()),
                ];
                deletions.push(Value::Object(Map::from_iter(doomed)));
            }
            _ => {}
        }
    }
    changes.sort_by_key(|(delete, position, _)| (*delete, *position));
    let changes: Vec<Value> = changes
        .into_iter()
        .map(|(_, _, change)| change)
        .chain(deletions)
        .collect();
    let reordered = !changes.is_empty() || (pass == Pass::Changes && !same_order);
    let order = if reordered {
        order_entries(&after)
    } else {
        Vec::new()
    };
    Ok((changes, order))
}

fn keyed<'a>(list: &'a [Value], key: &str, path: &Path<'_>) -> Result<Vec<Keyed<'a>>, PatchError> {
    let keyed = list.iter().enumerate().map(|(index, item)| {
        let Value::Object(element) = item else {
            return Err(path.index(index).wrong_type("an object", item));
        };
        let key = element
            .get(key)
            .ok_or_else(|| path.index(index).missing_key(key))?;
        Ok(Keyed {
            text: text(key),
            key,
            element,
            index,
        })
    });
    keyed.collect()
}

/// Pairs the elements of both lists by their keys, in the order of the keys' text.
///
/// Elements that share a key pair up from the last to the first, as Kubernetes' sort leaves them.
fn pair<'a, 'b>(
    before: &'b [Keyed<'a>],
    after: &'b [Keyed<'a>],
) -> Vec<(Option<&'b Keyed<'a>>, Option<&'b Keyed<'a>>)> {
    let sorted = |list: &'b [Keyed<'a>]| {
        let mut sorted: Vec<&Keyed<'a>> = list.iter().rev().collect();
        sorted.sort_by(|left, right| left.text.cmp(&right.text));
        sorted.into_iter().peekable()
    };
    let (mut before, mut after) = (sorted(before), sorted(after));
    let mut pairs = Vec::new();
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.text.cmp(&new.text),
        };
        pairs.push(match order {
            Ordering::Less => (before.next(), None),
            Ordering::Equal => (before.next(), after.next()),
            Ordering::Greater => (None, after.next()),
        });
    }
}

/// What to add, in the order of `modified`, and what to delete, sorted and without repetition.
fn diff_scalars(original: &[Value], modified: &[Value], pass: Pass) -> (Vec<Value>, Vec<Value>) {
    let sorted = |list: &[Value]| {
        let mut sorted: Vec<(String, Value)> = list
            .iter()
            .map(|value| (text(value).into_owned(), value.clone()))
            .collect();
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        sorted.into_iter().peekable()
    };
    let (mut before, mut after) = (sorted(original), sorted(modified));
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.0.cmp(&new.0),
        };
        if order != Ordering::Greater {
            let old = before
                .next()
                .filter(|_| order == Ordering::Less && pass == Pass::Deletions);
            removed.extend(old.map(|(_, value)| value));
        }
        if order != Ordering::Less {
            let new = after
                .next()
                .filter(|_| order == Ordering::Greater && pass == Pass::Changes);
            added.extend(new.map(|(_, value)| value));
        }
    }
    removed.dedup();
    let positions = Positions::new(modified.iter().collect());
    added.sort_by_key(|value| positions.of(value));
    (added, removed)
}

/// Compares as Kubernetes does: its diff has sorted the original list by then, so a list that is not sorted always
/// gets its order set.
fn equals_sorted(original: &[Value], modified: &[Value]) -> bool {
    let mut sorted: Vec<&Value> = original.iter().collect();
    sorted.sort_by_cached_key(|value| text(value).into_owned());
    sorted.len() == modified.len() && sorted.into_iter().eq(modified)
}

/// The text Kubernetes compares merge keys and scalars by.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
