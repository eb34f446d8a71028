//! Strategic merge: applying a patch by the metadata of its kind.

pub(crate) mod directive;
mod elements;
mod list;
mod object;
pub(crate) mod order;

use serde_json::Value;

use crate::{PatchError, document::Document, path::Path, schema::Node};

pub(crate) use elements::{ElementType, element_type};
pub(crate) use object::{merge_objects, metadata};

/// What the patch is merged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An object: directives are obeyed and disappear.
    Apply,
    /// Another patch, as the three-way diff does with its deletions: directives and nulls are kept.
    Combine,
}

/// Applies a strategic merge patch to `target`.
///
/// Directives: `$patch: replace|delete` in an object or list element, `$setElementOrder/<list>`,
/// `$deleteFromPrimitiveList/<list>`, `$retainKeys`; null deletes a field. `schema` is the metadata of the object's
/// kind, see [`lookup`](crate::schema::lookup).
///
/// ```
/// use serde_json::json;
/// let deployment = roundhouse_patch::schema::lookup("apps/v1", "Deployment").ok_or("no such kind")?;
/// let pod = |containers| json!({"spec": {"template": {"spec": {"containers": containers}}}});
/// let mut live = pod(json!([{"name": "web", "image": "a"}, {"name": "log"}]));
/// let patch = pod(json!([{"name": "web", "image": "b"}]));
/// roundhouse_patch::strategic_merge(&mut live, &patch, deployment)?;
/// assert_eq!(live, pod(json!([{"name": "web", "image": "b"}, {"name": "log"}])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PatchError`] names the path of a directive that does not make sense or an element without its merge key;
/// `target` is then as it was.
pub fn strategic_merge(target: &mut Value, patch: &Value, schema: &'static Node) -> Result<(), PatchError> {
    let object = |document, expected| match document {
        Document::Object(object) => Ok(object),
        other => Err(Path::ROOT.wrong_type(expected, &other)),
    };
    let mut merged = object(Document::borrow(target)?, "an object")?;
    let patch = object(Document::borrow(patch)?, "an object as patch")?;
    merge_objects(&mut merged, patch, schema, Mode::Apply, &Path::ROOT)?;
    *target = Document::Object(merged).into_value();
    Ok(())
}

#[cfg(test)]
mod tests;
