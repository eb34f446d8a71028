//! The two schema-less patches: JSON merge (RFC 7386) and JSON patch (RFC 6902).

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use crate::PatchError;

/// Merges `patch` into `target` by RFC 7386: objects merge, null removes, everything else replaces.
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

/// Applies a JSON patch (RFC 6902) to `target`, all of it or, on error, none of it.
///
/// One exception as the API server makes it: `test` of a field that is absent from an existing object
/// against null succeeds.
///
/// # Errors
/// [`PatchError::JsonPatch`] names the operation and its path.
pub fn json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Patch(operations) = serde_json::from_value(patch.clone()).map_err(|error| PatchError::JsonPatch {
        path: "$".to_owned(),
        reason: format!("not a JSON patch, a list of operations {{op, path, value or from}}: {error}"),
    })?;
    let mut patched = target.clone();
    for (ordinal, operation) in operations.iter().enumerate() {
        if tests_absent_field_for_null(&patched, operation) {
            continue;
        }
        json_patch::patch(&mut patched, std::slice::from_ref(operation)).map_err(|error| {
            PatchError::JsonPatch {
                path: operation.path().to_string(),
                reason: format!("operation {ordinal} does not apply: {}", error.kind),
            }
        })?;
    }
    *target = patched;
    Ok(())
}

fn tests_absent_field_for_null(document: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else {
        return false;
    };
    let Some((parent, field)) = test.path.split_back() else {
        return false;
    };
    test.value.is_null()
        && document
            .pointer(parent.as_str())
            .and_then(Value::as_object)
            .is_some_and(|object| !object.contains_key(field.decoded().as_ref()))
}
