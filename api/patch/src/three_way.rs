//! Last applied × desired × live, as `kubectl apply` computes it.

use serde_json::{Map, Value};

use crate::{PatchError, json_merge, schema};

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
    /// What to send to the server; `{}` when there is nothing to change.
    pub patch: Value,
    /// How the server must read it.
    pub patch_type: PatchType,
    /// The live object with the patch applied.
    pub result: Value,
}

impl ThreeWay {
    /// True when the live object is already as desired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patch.as_object().is_some_and(Map::is_empty)
    }
}

/// Outcome of a three-way merge, as compact JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeWayBytes {
    /// What to send to the server; `{}` when there is nothing to change.
    pub patch: Vec<u8>,
    /// How the server must read it.
    pub patch_type: PatchType,
    /// The live object with the patch applied.
    pub result: Vec<u8>,
}

/// Merges `desired` into `live`, removing what `last_applied` had and `desired` no longer has.
///
/// Built-in kinds (by apiVersion and kind of `desired`) merge strategically, all others by JSON merge. On a conflict
/// the desired value wins. `last_applied` is `None` for an object that we did not apply before.
///
/// # Errors
/// [`PatchError`] names the path: an element without its merge key, or an identity (apiVersion, kind, metadata.name)
/// that would change.
pub fn three_way_merge(
    last_applied: Option<&Value>,
    desired: &Value,
    live: &Value,
) -> Result<ThreeWay, PatchError> {
    let text = |field| desired.get(field).and_then(Value::as_str).unwrap_or_default();
    let patch_type = match schema::lookup(text("apiVersion"), text("kind")) {
        Some(_) => PatchType::Strategic,
        None => PatchType::Merge,
    };
    let patch = diff(last_applied, desired, live).unwrap_or_else(|| Value::Object(Map::new()));
    let mut result = live.clone();
    json_merge(&mut result, &patch);
    Ok(ThreeWay {
        patch,
        patch_type,
        result,
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
    let merged = three_way_merge(last_applied.as_ref(), &desired, &live)?;
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

fn diff(last_applied: Option<&Value>, desired: &Value, live: &Value) -> Option<Value> {
    if desired == live {
        return None;
    }
    let (Value::Object(wanted), Value::Object(present)) = (desired, live) else {
        return Some(desired.clone());
    };
    let mut patch = Map::new();
    for (name, value) in wanted {
        let last = last_applied.and_then(|last| last.get(name));
        let change = match present.get(name) {
            Some(now) => diff(last, value, now),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    for name in last_applied
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
    {
        if !wanted.contains_key(name) && present.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
