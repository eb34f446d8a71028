//! The directives a strategic merge patch may carry, and what is left of a value without them.

use serde_json::{Map, Value};

use crate::{PatchError, path::Path};

pub(crate) const PATCH: &str = "$patch";
pub(crate) const RETAIN_KEYS: &str = "$retainKeys";
pub(crate) const SET_ELEMENT_ORDER: &str = "$setElementOrder";
pub(crate) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// `$prefix/field` for a directive about the list `field`.
pub(crate) fn parallel(prefix: &str, field: &str) -> String {
    format!("{prefix}/{field}")
}

/// The list a parallel directive is about; `None` when `key` is no such directive.
pub(crate) fn list_of<'a>(
    key: &'a str,
    prefix: &str,
    path: &Path<'_>,
) -> Result<Option<&'a str>, PatchError> {
    match key.strip_prefix(prefix) {
        None => Ok(None),
        Some(rest) => match rest.strip_prefix('/') {
            Some(field) => Ok(Some(field)),
            None => Err(path.bad_directive(format!("{key} must be written {prefix}/<list>"))),
        },
    }
}

/// What `$patch` says about the object or list element that carries it.
pub(crate) enum Whole {
    Delete,
    Replace,
}

/// Reads the `$patch` directive of an object.
///
/// `merge` is what happens without a directive and is refused, as the API server refuses it.
pub(crate) fn whole(object: &Map<String, Value>, path: &Path<'_>) -> Result<Option<Whole>, PatchError> {
    match object.get(PATCH) {
        None => Ok(None),
        Some(Value::String(word)) if word == "delete" => Ok(Some(Whole::Delete)),
        Some(Value::String(word)) if word == "replace" => Ok(Some(Whole::Replace)),
        Some(Value::String(word)) if word == "merge" => {
            Err(path.bad_directive("$patch: merge is not accepted; merging is the default, leave $patch out"))
        }
        Some(other) => {
            Err(path.bad_directive(format!("$patch is {other}; it must be \"delete\" or \"replace\"")))
        }
    }
}

/// True for a list element that the patch deletes.
pub(crate) fn is_delete(element: &Value) -> bool {
    element.get(PATCH).and_then(Value::as_str) == Some("delete")
}

/// Turns a piece of a patch that is added whole into a plain value: fields that are null, parallel directives, and
/// objects that carry `$patch` are dropped.
///
/// Kubernetes leaves some of these where it adds a list element whole; its typed decoder drops them afterwards.
pub(crate) fn settle(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let keep = !value.is_null() && !is_directive(name) && !carries_patch(value);
            if keep {
                settle(value);
            }
            keep
        }),
        Value::Array(items) => items.retain_mut(|item| {
            let keep = !carries_patch(item);
            if keep {
                settle(item);
            }
            keep
        }),
        _ => {}
    }
}

/// True for an object with a `$patch` directive.
pub(crate) fn carries_patch(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.contains_key(PATCH))
}

fn is_directive(name: &str) -> bool {
    name.starts_with('$')
        && (name == PATCH
            || name == RETAIN_KEYS
            || name.starts_with(SET_ELEMENT_ORDER)
            || name.starts_with(DELETE_FROM_PRIMITIVE_LIST))
}
