//! The three-way JSON merge patch, for kinds without patch metadata.

use serde_json::Number;

use crate::document::{Document, Object};

/// Additions and changes from live to desired, deletions from last applied to desired, as one RFC 7386 patch.
///
/// A null in the desired object deletes the field. Nulls inside lists that are set are dropped, so that what the
/// server stores does not differ from what was asked for at the next pass.
pub(super) fn patch<'a>(last_applied: &Object<'a>, desired: &Object<'a>, live: &Object<'a>) -> Object<'a> {
    let mut patch = deletions(last_applied, desired);
    lay_over(&mut patch, changes(live, desired));
    patch
}

/// Applies an RFC 7386 patch; `crate::json_merge` is the same on values.
pub(super) fn apply<'a>(target: &mut Object<'a>, patch: Object<'a>) {
    for (name, change) in patch {
        match (target.get_mut(&name), change) {
            (_, Document::Null) => {
                target.remove(&name);
            }
            (Some(Document::Object(field)), Document::Object(change)) => apply(field, change),
            (_, Document::Object(change)) => {
                let mut field = Object::new();
                apply(&mut field, change);
                target.insert(name, Document::Object(field));
            }
            (_, change) => target.insert(name, change),
        }
    }
}

fn changes<'a>(live: &Object<'a>, desired: &Object<'a>) -> Object<'a> {
    let mut patch = Object::new();
    for (name, wanted) in desired.iter() {
        let change = match (live.get(name), wanted) {
            (_, Document::Null) => None,
            (Some(Document::Object(present)), Document::Object(wanted)) => nonempty(changes(present, wanted)),
            (Some(present), wanted) if same(present, wanted) => None,
            (_, wanted) => without_nulls(wanted),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    patch
}

/// A value to set; `None` for an object of which nothing but nulls would be set.
fn without_nulls<'a>(value: &Document<'a>) -> Option<Document<'a>> {
    match value {
        Document::Null => None,
        Document::Object(fields) if fields.is_empty() => Some(value.clone()),
        Document::Object(fields) => {
            let kept = fields
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), without_nulls(value)?)));
            nonempty(kept.collect())
        }
        Document::List(_) => {
            let mut list = value.clone();
            prune(&mut list);
            Some(list)
        }
        scalar => Some(scalar.clone()),
    }
}

/// Drops null fields of the objects inside a list.
fn prune(value: &mut Document<'_>) {
    match value {
        Document::List(items) => items.iter_mut().for_each(prune),
        Document::Object(fields) => fields.retain(|_, value| {
            prune(value);
            !value.is_null()
        }),
        _ => {}
    }
}

fn deletions<'a>(last_applied: &Object<'a>, desired: &Object<'a>) -> Object<'a> {
    let mut patch = Object::new();
    for (name, wanted) in desired.iter() {
        let deleted = match (last_applied.get(name), wanted) {
            (Some(Document::Null), Document::Null) => None,
            (_, Document::Null) => Some(Document::Null),
            (Some(Document::Object(before)), Document::Object(wanted)) => nonempty(deletions(before, wanted)),
            (_, Document::Object(wanted)) => nonempty(only_nulls(wanted)),
            _ => None,
        };
        if let Some(deleted) = deleted {
            patch.insert(name.clone(), deleted);
        }
    }
    for name in last_applied.names().filter(|name| !desired.contains(name)) {
        patch.insert(name.clone(), Document::Null);
    }
    patch
}

fn only_nulls<'a>(fields: &Object<'a>) -> Object<'a> {
    let nulls = fields.iter().filter_map(|(name, value)| match value {
        Document::Null => Some((name.clone(), Document::Null)),
        Document::Object(fields) => nonempty(only_nulls(fields)).map(|nulls| (name.clone(), nulls)),
        _ => None,
    });
    nulls.collect()
}

fn nonempty(fields: Object<'_>) -> Option<Document<'_>> {
    (!fields.is_empty()).then_some(Document::Object(fields))
}

/// Lays changes over deletions; both are patches, so objects merge and everything else replaces.
fn lay_over<'a>(patch: &mut Object<'a>, changes: Object<'a>) {
    for (name, change) in changes {
        match (patch.get_mut(&name), change) {
            (Some(Document::Object(below)), Document::Object(change)) => lay_over(below, change),
            (_, change) => patch.insert(name, change),
        }
    }
}

/// Equality as JSON merge sees it: numbers by value (3 is 3.0), an absent field of an object inside a list is null.
fn same(left: &Document<'_>, right: &Document<'_>) -> bool {
    match (left, right) {
        (Document::Number(left), Document::Number(right)) => same_number(left, right),
        (Document::List(left), Document::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Document::Object(left), Document::Object(right)) => {
            let absent = |value: &Document<'_>| value.is_null();
            left.iter()
                .all(|(name, value)| right.get(name).map_or(absent(value), |other| same(value, other)))
                && right
                    .iter()
                    .all(|(name, value)| left.contains(name) || absent(value))
        }
        (left, right) => left == right,
    }
}

/// Integers compare exactly; an integer and a float as floats.
fn same_number(left: &Number, right: &Number) -> bool {
    left == right || ((left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64())
}
