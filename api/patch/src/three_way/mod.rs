//! Last applied × desired × live, as `kubectl apply` computes it.

mod json;
mod list;
mod object;

use serde_json::{Map, Value};

use crate::{
    PatchError,
    document::{Document, Object, parse, print},
    path::Path,
    schema::{self, Node},
    strategic::{Mode, merge_objects},
};
use object::diff_objects;

/// The two patches that apply knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// `application/strategic-merge-patch+json`, for built-in kinds.
    Strategic,
    /// `application/merge-patch+json`, for all other kinds.
    Merge,
}

impl PatchType {
    /// The media type a server expects with such a patch.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => "application/merge-patch+json",
        }
    }
}

/// Outcome of a three-way merge.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreeWay {
    /// What to send to the server; `{}` exactly when `result` equals the live object.
    pub patch: Value,
    /// How the server must read it.
    pub patch_type: PatchType,
    /// The live object with the patch applied.
    pub result: Value,
}

impl ThreeWay {
    /// True when the live object is already as desired: there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patch.as_object().is_some_and(Map::is_empty)
    }
}

/// Outcome of a three-way merge, as compact JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeWayBytes {
    /// What to send to the server; `{}` exactly when `result` equals the live object.
    pub patch: Vec<u8>,
    /// How the server must read it.
    pub patch_type: PatchType,
    /// The live object with the patch applied.
    pub result: Vec<u8>,
}

/// Merges `desired` into `live`, removing what `last_applied` had and `desired` no longer has.
///
/// Built-in kinds (by apiVersion and kind of `desired`) merge strategically, all others by JSON merge, both as
/// `kubectl apply` computes them. On a conflict the desired value wins. `last_applied` is `None` for an object that we
/// did not apply before: nothing is removed then.
///
/// ```
/// use serde_json::json;
/// let object = |spec| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
/// let last = object(json!({"minReadySeconds": 60, "replicas": 3}));
/// let desired = object(json!({"replicas": 3}));
/// let live = object(json!({"minReadySeconds": 60, "replicas": 5, "paused": true}));
/// let merged = roundhouse_patch::three_way_merge(Some(&last), &desired, &live)?;
/// assert_eq!(merged.patch, json!({"spec": {"minReadySeconds": null, "replicas": 3}}));
/// assert_eq!(merged.result["spec"], json!({"replicas": 3, "paused": true}));
/// # Ok::<(), roundhouse_patch::PatchError>(())
/// ```
///
/// # Errors
/// [`PatchError`] names the path: a list element without its merge key, a document that is no object or nests too
/// deep, or an identity (apiVersion, kind, metadata.name) that would change.
pub fn three_way_merge(
    last_applied: Option<&Value>,
    desired: &Value,
    live: &Value,
) -> Result<ThreeWay, PatchError> {
    let last_applied = last_applied.map(Document::borrow).transpose()?;
    let (desired, live) = (Document::borrow(desired)?, Document::borrow(live)?);
    let merged = merge(last_applied.as_ref(), &desired, live)?;
    Ok(ThreeWay {
        patch: merged.patch.into_value(),
        patch_type: merged.patch_type,
        result: merged.result.into_value(),
    })
}

/// [`three_way_merge`] on JSON text.
///
/// # Errors
/// As [`three_way_merge`], and [`PatchError::NotJson`].
pub fn three_way_merge_bytes(
    last_applied: Option<&[u8]>,
    desired: &[u8],
    live: &[u8],
) -> Result<ThreeWayBytes, PatchError> {
    let last_applied = last_applied
        .map(|bytes| parse("last applied", bytes))
        .transpose()?;
    let (desired, live) = (parse("desired", desired)?, parse("live", live)?);
    let merged = merge(last_applied.as_ref(), &desired, live)?;
    Ok(ThreeWayBytes {
        patch: print(&merged.patch)?,
        patch_type: merged.patch_type,
        result: print(&merged.result)?,
    })
}

struct Merged<'a> {
    patch: Document<'a>,
    patch_type: PatchType,
    result: Document<'a>,
}

fn merge<'a>(
    last_applied: Option<&Document<'a>>,
    desired: &Document<'a>,
    live: Document<'a>,
) -> Result<Merged<'a>, PatchError> {
    let none = Object::new();
    let last_applied = last_applied
        .filter(|last| !last.is_null())
        .map_or(Ok(&none), object)?;
    let wanted = object(desired)?;
    let present = object(&live)?;
    let text = |field| wanted.get(field).and_then(Document::as_text).unwrap_or_default();

    let (patch_type, patch, result) = match schema::lookup(text("apiVersion"), text("kind")) {
        Some(schema) => {
            let patch = strategic_patch(last_applied, wanted, present, schema)?;
            keeps_identity(&patch, present)?;
            let mut result = present.clone();
            merge_objects(&mut result, patch.clone(), schema, Mode::Apply, &Path::ROOT)?;
            (PatchType::Strategic, patch, result)
        }
        None => {
            let patch = json::patch(last_applied, wanted, present);
            keeps_identity(&patch, present)?;
            let mut result = present.clone();
            json::apply(&mut result, patch.clone());
            (PatchType::Merge, patch, result)
        }
    };
    // Kubernetes sends some patches that change nothing: a map that is replaced, an order that already holds.
    if patch.is_empty() || result == *present {
        return Ok(Merged {
            patch: Document::Object(none),
            patch_type,
            result: live,
        });
    }
    Ok(Merged {
        patch: Document::Object(patch),
        patch_type,
        result: Document::Object(result),
    })
}

/// What to add and change from live to desired, and what to delete from last applied to desired, as one patch.
fn strategic_patch<'a>(
    last_applied: &Object<'a>,
    desired: &Object<'a>,
    live: &Object<'a>,
    schema: &'static Node,
) -> Result<Object<'a>, PatchError> {
    let changes = diff_objects(live, desired, schema, Pass::Changes, false, &Path::ROOT)?;
    let mut patch = diff_objects(last_applied, desired, schema, Pass::Deletions, false, &Path::ROOT)?;
    if patch.is_empty() {
        return Ok(changes);
    }
    merge_objects(&mut patch, changes, schema, Mode::Combine, &Path::ROOT)?;
    Ok(patch)
}

/// Which half of a three-way diff is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Additions and changes, from live to desired.
    Changes,
    /// Deletions, from last applied to desired.
    Deletions,
}

fn object<'d, 'a>(document: &'d Document<'a>) -> Result<&'d Object<'a>, PatchError> {
    document
        .as_object()
        .ok_or_else(|| Path::ROOT.wrong_type("an object", document))
}

/// kubectl's precondition: a patch does not touch what identifies the live object.
fn keeps_identity(patch: &Object<'_>, live: &Object<'_>) -> Result<(), PatchError> {
    fn name<'d, 'a>(object: &'d Object<'a>) -> Option<&'d Document<'a>> {
        object.get("metadata").and_then(|metadata| metadata.get("name"))
    }
    let touched = [
        ("apiVersion", patch.get("apiVersion"), live.get("apiVersion")),
        ("kind", patch.get("kind"), live.get("kind")),
        ("metadata.name", name(patch), name(live)),
    ];
    for (path, to, from) in touched {
        if let (Some(to), Some(from)) = (to, from) {
            return Err(PatchError::IdentityChanged {
                path,
                from: from.to_string(),
                to: to.to_string(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
