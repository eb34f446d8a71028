//! The three-way JSON merge patch, for kinds without patch metadata.

use serde_json::{Map, Value};

/// Additions and changes from live to desired, deletions from last applied to desired, as one RFC 7386 patch.
///
/// A null in the desired object deletes the field. Nulls inside lists that are set are dropped, so that what the
/// server stores does not differ from what was asked for at the next pass.
pub(super) fn patch(
    last_applied: &Map<String, Value>,
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
) -> Map<String, Value> {
    let mut patch = deletions(last_applied, desired);
    merge_changes(&mut patch, changes(live, desired));
    patch
}

fn changes(live: &Map<String, Value>, desired: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, wanted) in desired {
        let change = match (live.get(name), wanted) {
            (_, Value::Null) => None,
            (Some(Value::Object(present)), Value::Object(wanted)) => Some(changes(present, wanted))
                .filter(|change| !change.is_empty())
                .map(Value::Object),
            (Some(present), wanted) if same(present, wanted) => None,
            (_, wanted) => without_nulls(wanted),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    patch
}

/// A value to set; `None` for an object of which nothing but nulls would be set.
fn without_nulls(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) if fields.is_empty() => Some(value.clone()),
        Value::Object(fields) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| without_nulls(value).map(|value| (name.clone(), value)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(_) => {
            let mut list = value.clone();
            prune(&mut list);
            Some(list)
        }
        scalar => Some(scalar.clone()),
    }
}

/// Drops null fields of the objects inside a list.
fn prune(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Object(fields) => fields.retain(|_, value| {
            prune(value);
            !value.is_null()
        }),
        _ => {}
    }
}

fn deletions(last_applied: &Map<String, Value>, desired: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, wanted) in desired {
        let deleted = match (last_applied.get(name), wanted) {
            (Some(Value::Null), Value::Null) => None,
            (_, Value::Null) => Some(Value::Null),
            (Some(Value::Object(before)), Value::Object(wanted)) => nonempty(deletions(before, wanted)),
            (_, Value::Object(wanted)) => nonempty(only_nulls(wanted)),
            _ => None,
        };
        patch.extend(deleted.map(|deleted| (name.clone(), deleted)));
    }
    let gone = last_applied.keys().filter(|name| !desired.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    patch
}

fn only_nulls(fields: &Map<String, Value>) -> Map<String, Value> {
    let nulls = fields.iter().filter_map(|(name, value)| match value {
        Value::Null => Some((name.clone(), Value::Null)),
        Value::Object(fields) => nonempty(only_nulls(fields)).map(|nulls| (name.clone(), nulls)),
        _ => None,
    });
    nulls.collect()
}

fn nonempty(fields: Map<String, Value>) -> Option<Value> {
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// Lays changes over deletions; both are patches, so objects merge and everything else replaces.
fn merge_changes(patch: &mut Map<String, Value>, changes: Map<String, Value>) {
    for (name, change) in changes {
        match (patch.get_mut(&name), change) {
            (Some(Value::Object(below)), Value::Object(change)) => merge_changes(below, change),
            (_, change) => {
                patch.insert(name, change);
            }
        }
    }
}

/// Equality as JSON merge sees it: numbers by value (3 is 3.0), an absent field of an object inside a list is null.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left_number), Value::Number(right_number)) => {
            left_number == right_number
                || ((left_number.is_f64() || right_number.is_f64()) && left.as_f64() == right.as_f64())
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let absent = |other: &Map<String, Value>, name: &String| !other.contains_key(name);
            left.iter().all(|(name, value)| {
                right
                    .get(name)
                    .map_or(value.is_null(), |other| same(value, other))
            }) && right
                .iter()
                .all(|(name, value)| !absent(left, name) || value.is_null())
        }
        (left, right) => left == right,
    }
}
