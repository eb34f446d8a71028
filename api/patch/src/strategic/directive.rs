//! The directives a strategic merge patch may carry, and what is left of a value without them.

use crate::{
    PatchError,
    document::{Document, Object},
    path::Path,
};

pub(crate) const PATCH: &str = "$patch";
pub(crate) const RETAIN_KEYS: &str = "$retainKeys";
pub(crate) const SET_ELEMENT_ORDER: &str = "$setElementOrder";
pub(crate) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// `$prefix/field` for a directive about the list `field`.
pub(crate) fn parallel(prefix: &str, field: &str) -> String {
    format!("{prefix}/{field}")
}

/// The list a parallel directive is about.
pub(crate) fn list_of<'k>(key: &'k str, prefix: &str, path: &Path<'_>) -> Result<&'k str, PatchError> {
    let list = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
    list.ok_or_else(|| path.bad_directive(format!("{key} must be written {prefix}/<list>")))
}

/// What `$patch` says about the object or list element that carries it.
pub(crate) enum Whole {
    Delete,
    Replace,
}

/// Reads the `$patch` directive of an object.
///
/// `merge` is what happens without a directive and is refused, as the API server refuses it.
pub(crate) fn whole(object: &Object<'_>, path: &Path<'_>) -> Result<Option<Whole>, PatchError> {
    match object.get(PATCH) {
        None => Ok(None),
        Some(Document::Text(word)) if word == "delete" => Ok(Some(Whole::Delete)),
        Some(Document::Text(word)) if word == "replace" => Ok(Some(Whole::Replace)),
        Some(Document::Text(word)) if word == "merge" => {
            Err(path.impossible("$patch: merge is not accepted; merging is the default, leave $patch out"))
        }
        Some(other) => {
            Err(path.impossible(format!("$patch is {other}; it must be \"delete\" or \"replace\"")))
        }
    }
}

/// True for a list element that the patch deletes.
pub(crate) fn is_delete(element: &Document<'_>) -> bool {
    element.get(PATCH).and_then(Document::as_text) == Some("delete")
}

/// Turns a piece of a patch that is added whole into a plain value: fields that are null, parallel directives, and
/// objects that carry `$patch` are dropped.
///
/// Kubernetes leaves some of these where it adds a list element whole; its typed decoder drops them afterwards.
pub(crate) fn settle(value: &mut Document<'_>) {
    match value {
        Document::Object(object) => settle_object(object),
        Document::List(items) => settle_list(items),
        _ => {}
    }
}

/// [`settle`] for an object.
pub(crate) fn settle_object(object: &mut Object<'_>) {
    object.retain(|name, value| {
        let keep = !value.is_null() && !is_directive(name) && !carries_patch(value);
        if keep {
            settle(value);
        }
        keep
    });
}

/// [`settle`] for a list.
pub(crate) fn settle_list(items: &mut Vec<Document<'_>>) {
    items.retain_mut(|item| {
        let keep = !carries_patch(item);
        if keep {
            settle(item);
        }
        keep
    });
}

/// True for an object with a `$patch` directive.
pub(crate) fn carries_patch(value: &Document<'_>) -> bool {
    value.get(PATCH).is_some()
}

fn is_directive(name: &str) -> bool {
    name.starts_with('$')
        && (name == PATCH
            || name == RETAIN_KEYS
            || name.starts_with(SET_ELEMENT_ORDER)
            || name.starts_with(DELETE_FROM_PRIMITIVE_LIST))
}
