//! One half of the three-way diff, over lists that merge.

use std::{borrow::Cow, cmp::Ordering};

use super::{Pass, object::diff_objects};
use crate::{
    PatchError,
    document::{Document, Object},
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
pub(super) fn diff_lists<'a>(
    original: &[Document<'a>],
    modified: &[Document<'a>],
    field: &'static Field,
    pass: Pass,
    patch: &mut Object<'a>,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    let name = field.name;
    if original.is_empty() {
        if pass == Pass::Changes && !modified.is_empty() {
            patch.insert(name, Document::List(modified.to_vec()));
        }
        return Ok(());
    }
    let (changes, order) = match (element_type(&[original, modified], path)?, field.merge_key) {
        (Some(ElementType::Object), Some(key)) => diff_by_key(original, modified, key, field, pass, path)?,
        (Some(ElementType::Object), None) => {
            let reason = "this list holds scalars, it cannot merge objects: they have no merge key";
            return Err(path.impossible(reason));
        }
        _ => {
            let (added, removed) = diff_scalars(original, modified, pass);
            let reordered = match pass {
                Pass::Changes => !equals_sorted(original, modified),
                Pass::Deletions => !removed.is_empty(),
            };
            if !removed.is_empty() {
                patch.insert(
                    parallel(DELETE_FROM_PRIMITIVE_LIST, name),
                    Document::List(removed),
                );
            }
            (added, if reordered { modified.to_vec() } else { Vec::new() })
        }
    };
    if !changes.is_empty() {
        patch.insert(name, Document::List(changes));
    }
    if !order.is_empty() {
        patch.insert(parallel(SET_ELEMENT_ORDER, name), Document::List(order));
    }
    Ok(())
}

/// An element with its merge key, and the key's text, by which Kubernetes sorts and pairs elements.
struct Keyed<'d, 'a> {
    text: Cow<'d, str>,
    key: &'d Document<'a>,
    element: &'d Object<'a>,
    index: usize,
}

/// The changes of a list of objects, and the order to set.
fn diff_by_key<'a>(
    original: &[Document<'a>],
    modified: &[Document<'a>],
    key: &'static str,
    field: &'static Field,
    pass: Pass,
    path: &Path<'_>,
) -> Result<(Vec<Document<'a>>, Vec<Document<'a>>), PatchError> {
    let before = keyed(original, key, path)?;
    let after = keyed(modified, key, path)?;
    let mut changes: Vec<(bool, Option<usize>, Document<'a>)> = Vec::new();
    let mut deletions = Vec::new();
    let positions = Positions::new(after.iter().map(|new| new.key).collect());
    let mut change_to = |new: &Keyed<'_, 'a>, change: Object<'a>| {
        let change = Document::Object(change);
        changes.push((is_delete(&change), positions.of(new.key), change));
    };
    for (old, new) in pair(&before, &after) {
        match (old, new) {
            (Some(old), Some(new)) => {
                let (child, retain) = (field.child.unwrap_or(&PLAIN), field.strategy.retains_keys());
                let mut change = diff_objects(
                    old.element,
                    new.element,
                    child,
                    pass,
                    retain,
                    &path.index(new.index),
                )?;
                if !change.is_empty() {
                    change.insert(key, new.key.clone());
                    change_to(new, change);
                }
            }
            (None, Some(new)) if pass == Pass::Changes => change_to(new, new.element.clone()),
            (Some(old), None) if pass == Pass::Deletions => {
                let delete = (PATCH.into(), Document::Text("delete".into()));
                deletions.push(Document::Object(
                    [delete, (key.into(), old.key.clone())].into_iter().collect(),
                ));
            }
            _ => {}
        }
    }
    changes.sort_by_key(|(delete, position, _)| (*delete, *position));
    let changes: Vec<Document<'a>> = changes
        .into_iter()
        .map(|(_, _, change)| change)
        .chain(deletions)
        .collect();

    let reordered = pass == Pass::Changes
        && before
            .iter()
            .map(|old| old.key)
            .ne(after.iter().map(|new| new.key));
    if changes.is_empty() && !reordered {
        return Ok((changes, Vec::new()));
    }
    let entry = |new: &Keyed<'_, 'a>| Document::Object([(key.into(), new.key.clone())].into_iter().collect());
    Ok((changes, after.iter().map(entry).collect()))
}

fn keyed<'d, 'a>(
    list: &'d [Document<'a>],
    key: &str,
    path: &Path<'_>,
) -> Result<Vec<Keyed<'d, 'a>>, PatchError> {
    let keyed = list.iter().enumerate().map(|(index, item)| {
        let Document::Object(element) = item else {
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

/// An element on both sides, or on one.
type Pair<'k, 'd, 'a> = (Option<&'k Keyed<'d, 'a>>, Option<&'k Keyed<'d, 'a>>);

/// Pairs the elements of both lists by their keys, in the order of the keys' text.
///
/// Elements that share a key pair up from the last to the first, as Kubernetes' sort leaves them.
fn pair<'k, 'd, 'a>(before: &'k [Keyed<'d, 'a>], after: &'k [Keyed<'d, 'a>]) -> Vec<Pair<'k, 'd, 'a>> {
    let sorted = |list: &'k [Keyed<'d, 'a>]| {
        let mut sorted: Vec<&Keyed<'d, 'a>> = list.iter().rev().collect();
        sorted.sort_by(|left, right| left.text.cmp(&right.text));
        sorted
    };
    let (before, after) = (sorted(before), sorted(after));
    let mut pairs = Vec::with_capacity(before.len().max(after.len()));
    join(
        before,
        after,
        |keyed| keyed.text.as_ref(),
        |old, new| pairs.push((old, new)),
    );
    pairs
}

/// Walks two sorted lists together; what is equal comes as a pair.
fn join<T>(
    before: Vec<T>,
    after: Vec<T>,
    text: impl Fn(&T) -> &str,
    mut each: impl FnMut(Option<T>, Option<T>),
) {
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => text(old).cmp(text(new)),
        };
        match order {
            Ordering::Less => each(before.next(), None),
            Ordering::Equal => each(before.next(), after.next()),
            Ordering::Greater => each(None, after.next()),
        }
    }
}

/// What to add, in the order of `modified`, and what to delete, sorted and without repetition.
fn diff_scalars<'a>(
    original: &[Document<'a>],
    modified: &[Document<'a>],
    pass: Pass,
) -> (Vec<Document<'a>>, Vec<Document<'a>>) {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    join(
        sorted(original),
        sorted(modified),
        |(text, _)| text,
        |old, new| match (old, new, pass) {
            (Some((_, old)), None, Pass::Deletions) => removed.push(old.clone()),
            (None, Some((_, new)), Pass::Changes) => added.push(new.clone()),
            _ => {}
        },
    );
    removed.dedup();
    let positions = Positions::new(modified.iter().collect());
    added.sort_by_key(|value| positions.of(value));
    (added, removed)
}

/// Compares as Kubernetes does: its diff has sorted the original list by then, so a list that is not sorted always
/// gets its order set.
fn equals_sorted(original: &[Document<'_>], modified: &[Document<'_>]) -> bool {
    original.len() == modified.len() && sorted(original).into_iter().map(|(_, value)| value).eq(modified)
}

/// Scalars with their texts, sorted by them.
fn sorted<'d, 'a>(list: &'d [Document<'a>]) -> Vec<(Cow<'d, str>, &'d Document<'a>)> {
    let mut sorted: Vec<_> = list.iter().map(|value| (text(value), value)).collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    sorted
}

/// The text Kubernetes compares merge keys and scalars by.
fn text<'d>(value: &'d Document<'_>) -> Cow<'d, str> {
    match value {
        Document::Text(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
