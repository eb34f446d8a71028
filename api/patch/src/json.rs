//! The two schema-less patches: JSON merge (RFC 7386) and JSON patch (RFC 6902).

use json_patch::{Patch, PatchOperation, jsonptr::Pointer};
use serde_json::{Map, Value};

use crate::{
    MAX_DEPTH, PatchError,
    path::{check_depth, depth},
};

/// The API server's bound on the operations of one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// The API server's bound on what the `copy` operations of one JSON patch may add, in bytes.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Merges `patch` into `target` by RFC 7386: objects merge, null removes, everything else replaces.
///
/// Recurses as deep as `patch` nests, as dropping or cloning a [`Value`] does; what serde_json parsed nests at most
/// [`MAX_DEPTH`] levels.
///
/// ```
/// use serde_json::json;
/// let mut target = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
/// roundhouse_patch::json_merge(&mut target, &json!({"a": {"b": null}, "list": [3]}));
/// assert_eq!(target, json!({"a": {"c": 2}, "list": [3]}));
/// ```
pub fn json_merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else if let Some(field) = fields.get_mut(name) {
            json_merge(field, change);
        } else {
            let mut field = Value::Null;
            json_merge(&mut field, change);
            fields.insert(name.clone(), field);
        }
    }
}

/// The merge patch (RFC 7386) that makes `after` of `before`; `None` if they are the same. Nulls within `after` are taken for
/// absent, which is all that such a patch can say. Recurses as deep as both nest.
///
/// ```
/// use serde_json::json;
/// let (before, after) = (json!({"a": {"b": 1, "c": 2}, "d": 3}), json!({"a": {"b": 1, "c": 4}}));
/// let patch = roundhouse_patch::json_diff(&before, &after);
/// assert_eq!(patch, Some(json!({"a": {"c": 4}, "d": null})));
/// ```
pub fn json_diff(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let gone = old
        .iter()
        .filter(|(name, value)| !value.is_null() && new.get(*name).is_none_or(Value::is_null))
        .map(|(name, _)| (name.clone(), Value::Null));
    let changed = new.iter().filter(|(_, value)| !value.is_null());
    let changed = changed.filter_map(|(name, value)| {
        let change = match old.get(name) {
            Some(old) => json_diff(old, value),
            None => Some(value.clone()),
        };
        Some((name.clone(), change?))
    });
    let patch: Map<String, Value> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Applies a JSON patch (RFC 6902) to `target`, all of it or, on error, none of it.
///
/// As the API server does: on a field that is absent from an existing object, `test` against null succeeds and `replace`
/// adds; a patch has at most 10,000 operations, and its copies add at most 3 MiB. The API server's negative list indexes
/// and copies from an absent field, which the RFC does not know either, are refused.
///
/// ```
/// use serde_json::json;
/// let mut target = json!({"data": {"a": "1", "b/c": "2"}});
/// let patch = json!([
///     {"op": "test", "path": "/data/a", "value": "1"},
///     {"op": "remove", "path": "/data/b~1c"},
///     {"op": "test", "path": "/data/gone", "value": null},
/// ]);
/// roundhouse_patch::json_patch(&mut target, &patch)?;
/// assert_eq!(target, json!({"data": {"a": "1"}}));
/// # Ok::<(), roundhouse_patch::PatchError>(())
/// ```
///
/// # Errors
/// [`PatchError::JsonPatch`] names the operation and its path, [`PatchError::TooDeep`] a path nested beyond
/// [`MAX_DEPTH`].
pub fn json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    check_depth(target)?;
    check_depth(patch)?;
    let malformed = |reason: String| PatchError::JsonPatch {
        path: "$".to_owned(),
        reason,
    };
    if patch
        .as_array()
        .is_some_and(|operations| operations.len() > MAX_OPERATIONS)
    {
        return Err(malformed(format!(
            "the patch has more than {MAX_OPERATIONS} operations"
        )));
    }
    let Patch(operations) = serde_json::from_value(patch.clone()).map_err(|error| {
        malformed(format!(
            "not a JSON patch, a list of operations {{op, path, value or from}}: {error}"
        ))
    })?;
    let mut patched = target.clone();
    let mut copied = 0;
    for (ordinal, operation) in operations.iter().enumerate() {
        let refused = |reason: String| PatchError::JsonPatch {
            path: operation.path().to_string(),
            reason: format!("operation {ordinal} does not apply: {reason}"),
        };
        if let PatchOperation::Copy(copy) = operation {
            copied += patched
                .pointer(copy.from.as_str())
                .map_or(0, |value| value.to_string().len());
            if copied > MAX_COPIED {
                return Err(refused(format!("the patch copies more than {MAX_COPIED} bytes")));
            }
        }
        if !apply_to_absent_field(&mut patched, operation) {
            json_patch::patch(&mut patched, std::slice::from_ref(operation))
                .map_err(|error| refused(error.kind.to_string()))?;
        }
        stays_shallow(&patched, operation.path())?;
    }
    *target = patched;
    Ok(())
}

/// Operations may nest what they add into one another; each is checked where it wrote.
fn stays_shallow(document: &Value, path: &Pointer) -> Result<(), PatchError> {
    // `-` is the place behind a list's last element: look at the list.
    let written = path
        .split_back()
        .filter(|(_, last)| last.encoded() == "-")
        .map_or(path, |(list, _)| list);
    let below = document.pointer(written.as_str()).map_or(0, depth);
    if written.tokens().count() + below > MAX_DEPTH {
        return Err(PatchError::TooDeep {
            path: path.to_string(),
        });
    }
    Ok(())
}

/// What the API server accepts beyond the RFC, about a field that an existing object lacks: `test` against null holds,
/// and `replace` adds. False when the operation is none of these.
fn apply_to_absent_field(document: &mut Value, operation: &PatchOperation) -> bool {
    let (path, value) = match operation {
        PatchOperation::Test(test) if test.value.is_null() => (&test.path, None),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        _ => return false,
    };
    let Some((parent, field)) = path.split_back() else {
        return false;
    };
    let field = field.decoded();
    let Some(Value::Object(parent)) = document.pointer_mut(parent.as_str()) else {
        return false;
    };
    if parent.contains_key(field.as_ref()) {
        return false;
    }
    if let Some(value) = value {
        parent.insert(field.into_owned(), value.clone());
    }
    true
}

#[cfg(test)]
mod tests;
