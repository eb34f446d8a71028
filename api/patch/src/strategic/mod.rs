//! Strategic merge: applying a patch by the metadata of its kind.

pub(crate) mod directive;
mod list;
mod object;
pub(crate) mod order;

use serde_json::Value;

use crate::{
    PatchError,
    path::{Path, check_depth},
    schema::Node,
};

pub(crate) use list::{ElementType, element_type};
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
/// let mut live = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "a"}, {"name": "log"}]}}}});
/// let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "b"}]}}}});
/// roundhouse_patch::strategic_merge(&mut live, &patch, deployment)?;
/// assert_eq!(live["spec"]["template"]["spec"]["containers"], json!([{"name": "web", "image": "b"}, {"name": "log"}]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PatchError`] names the path of a directive that does not make sense or an element without its merge key;
/// `target` is then as it was.
pub fn strategic_merge(target: &mut Value, patch: &Value, schema: &'static Node) -> Result<(), PatchError> {
    check_depth(target)?;
    check_depth(patch)?;
    let mut merged = target.clone();
    apply(&mut merged, patch.clone(), schema)?;
    *target = merged;
    Ok(())
}

/// Applies an owned patch in place; on error `target` is in between. Both are known not to nest too deep.
pub(crate) fn apply(target: &mut Value, patch: Value, schema: &'static Node) -> Result<(), PatchError> {
    let Value::Object(fields) = target else {
        return Err(Path::ROOT.wrong_type("an object", target));
    };
    match patch {
        Value::Object(patch) => merge_objects(fields, patch, schema, Mode::Apply, &Path::ROOT),
        other => Err(Path::ROOT.wrong_type("an object as patch", &other)),
    }
}
