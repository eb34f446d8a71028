//! Last applied × desired × live, as `kubectl apply` computes it.

mod json;
mod list;
mod object;

use serde_json::{Map, Value};

use crate::{
    PatchError, json_merge,
    path::{Path, check_depth},
    schema::{self, Node},
    strategic::{self, Mode, merge_objects},
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
    last_applied.map_or(Ok(()), check_depth)?;
    check_depth(desired)?;
    check_depth(live)?;
    merge(last_applied, desired, live)
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
    let merged = merge(last_applied.as_ref(), &desired, &live)?;
    Ok(ThreeWayBytes {
        patch: merged.patch.to_string().into_bytes(),
        patch_type: merged.patch_type,
        result: merged.result.to_string().into_bytes(),
    })
}

fn parse(document: &'static str, bytes: &[u8]) -> Result<Value, PatchError> {
    serde_json::from_slice(bytes).map_err(|error| PatchError::NotJson {
        document,
        reason: error.to_string(),
    })
}

fn merge(last_applied: Option<&Value>, desired: &Value, live: &Value) -> Result<ThreeWay, PatchError> {
    let none = Map::new();
    let last_applied = last_applied
        .filter(|last| !last.is_null())
        .map_or(Ok(&none), object)?;
    let wanted = object(desired)?;
    let present = object(live)?;
    let text = |field| wanted.get(field).and_then(Value::as_str).unwrap_or_default();
    let schema = schema::lookup(text("apiVersion"), text("kind"));

    let mut patch = match schema {
        Some(schema) => strategic_patch(last_applied, wanted, present, schema)?,
        None => json::patch(last_applied, wanted, present),
    };
    keeps_identity(&patch, live)?;
    let mut result = live.clone();
    let patch_type = match schema {
        Some(schema) => {
            strategic::apply(&mut result, Value::Object(patch.clone()), schema)?;
            PatchType::Strategic
        }
        None => {
            let value = Value::Object(patch);
            json_merge(&mut result, &value);
            let Value::Object(back) = value else {
                return Err(Path::ROOT.wrong_type("an object", &value));
            };
            patch = back;
            PatchType::Merge
        }
    };
    // Kubernetes sends some patches that change nothing: a map that is replaced, an order that already holds.
    if !patch.is_empty() && result == *live {
        patch.clear();
    }
    Ok(ThreeWay {
        patch: Value::Object(patch),
        patch_type,
        result,
    })
}

/// What to add and change from live to desired, and what to delete from last applied to desired, as one patch.
fn strategic_patch(
    last_applied: &Map<String, Value>,
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
    schema: &'static Node,
) -> Result<Map<String, Value>, PatchError> {
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

fn object(document: &Value) -> Result<&Map<String, Value>, PatchError> {
    document
        .as_object()
        .ok_or_else(|| Path::ROOT.wrong_type("an object", document))
}

/// kubectl's precondition: a patch does not touch what identifies the live object.
fn keeps_identity(patch: &Map<String, Value>, live: &Value) -> Result<(), PatchError> {
    let metadata = patch.get("metadata");
    let touched = [
        ("apiVersion", patch.get("apiVersion"), live.get("apiVersion")),
        ("kind", patch.get("kind"), live.get("kind")),
        (
            "metadata.name",
            metadata.and_then(|metadata| metadata.get("name")),
            live.get("metadata").and_then(|metadata| metadata.get("name")),
        ),
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
