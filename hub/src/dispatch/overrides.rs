//! Overrides applied to the manifests of one cluster, after division and before stamps.
//!
//! Architecture invariant: an override changes what an object asks for, never which object it is nor what placement
//! divides; one that cannot be applied as a whole leaves nothing half changed, because its cluster is refused.

use crate::render::{self, ReplicaPaths};
use roundhouse_api::{
    decision::{DecidedOverride, OverrideError},
    hash,
    names::is_bookkeeping,
    placement::{Change, Override, OverrideTarget, Piece, pieces},
};
use roundhouse_patch::{json_merge, json_patch};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// An override as it is for one cluster: its variables are filled in. Clusters for which it is the same share one.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Its place in the placement's list, from 0.
    pub index: u32,
    /// The object.
    pub target: OverrideTarget,
    /// What changes in it.
    pub change: Change,
    /// Hash of target and change.
    pub hash: String,
}

/// Why an override cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("overrides[{index}] of {object}{}: {message}", path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default())]
pub struct Fault {
    /// Place of the override in the placement's list, from 0.
    pub index: u32,
    /// Kind, namespace and name of the object.
    pub object: String,
    /// Path in the object.
    pub path: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

/// Step and index of an override, and the values of its variables in their order.
type Filled<'a> = (&'a str, u32, Vec<(&'a str, &'a str)>);

/// Fills in variables; clusters with equal values share the outcome.
#[derive(Debug, Default)]
pub struct Filler<'a> {
    done: HashMap<Filled<'a>, Arc<Applied>>,
}

impl<'a> Filler<'a> {
    /// The override of a step's decision for one cluster. A label that the cluster does not have, which the decision has
    /// reported as an error, leaves the variable as it is written.
    pub fn fill(
        &mut self,
        step: &'a str,
        decided: &'a DecidedOverride,
        cluster: &'a str,
        labels: Option<&'a BTreeMap<String, String>>,
    ) -> Arc<Applied> {
        let mut values: Vec<(&'a str, &'a str)> = Vec::new();
        for (_, text) in decided.change.strings() {
            for piece in pieces(text).unwrap_or_default() {
                match piece {
                    Piece::ClusterName => values.push(("", cluster)),
                    Piece::ClusterLabel(key) => {
                        if let Some((key, value)) = labels.and_then(|labels| labels.get_key_value(key)) {
                            values.push((key, value));
                        }
                    }
                    Piece::Text(_) => {}
                }
            }
        }
        let key = (step, decided.index, values);
        if let Some(done) = self.done.get(&key) {
            return done.clone();
        }
        let fill = |text: &str| -> Result<String, std::convert::Infallible> {
            let Ok(pieces) = pieces(text) else {
                return Ok(text.to_owned());
            };
            let mut filled = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => filled.push_str(text),
                    Piece::ClusterName => filled.push_str(cluster),
                    Piece::ClusterLabel(key) => match labels.and_then(|labels| labels.get(key)) {
                        Some(value) => filled.push_str(value),
                        None => filled.push_str(&format!("${{cluster.labels.{key}}}")),
                    },
                }
            }
            Ok(filled)
        };
        let change = match decided.change.filled(fill) {
            Ok(change) => change,
            Err(never) => match never {},
        };
        let applied = Arc::new(Applied {
            hash: hash::of_value(&json!({"target": decided.target, "change": change})),
            index: decided.index,
            target: decided.target.clone(),
            change,
        });
        self.done.insert(key, applied.clone());
        applied
    }
}

/// Overrides whose target is no object of the application.
pub fn without_target<'v>(
    overrides: &[Override],
    manifests: impl Iterator<Item = &'v Value>,
) -> Vec<OverrideError> {
    if overrides.is_empty() {
        return Vec::new();
    }
    let manifests: Vec<&Value> = manifests.collect();
    let is_lost = |(_, change): &(usize, &Override)| !manifests.iter().any(|m| names(&change.target, m));
    overrides
        .iter()
        .enumerate()
        .filter(is_lost)
        .map(|(index, change)| OverrideError {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            object: format!("{} {}", change.target.kind, change.target.name),
            message: "the application has no such object: correct target.kind and target.name, or remove the override"
                .to_owned(),
            ..OverrideError::default()
        })
        .collect()
}

fn names(target: &OverrideTarget, manifest: &Value) -> bool {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let is_any_or = |wanted: &Option<String>, pointer| {
        wanted
            .as_deref()
            .is_none_or(|wanted| text(pointer) == Some(wanted))
    };
    text("/kind") == Some(&target.kind)
        && text("/metadata/name") == Some(&target.name)
        && is_any_or(&target.api_version, "/apiVersion")
        && is_any_or(&target.namespace, "/metadata/namespace")
}

/// Applies overrides to a manifest of one cluster, in their order; `paths` tell where its count lives. One that names
/// another object does nothing.
///
/// # Errors
/// [`Fault`] names the override, the object and the path. What is left of the manifest then is not to be used.
pub fn apply(manifest: &mut Value, overrides: &[Arc<Applied>], paths: &ReplicaPaths) -> Result<(), Fault> {
    for change in overrides {
        if !names(&change.target, manifest) {
            continue;
        }
        let object = super::content::title(manifest);
        let fault = |path: Option<String>, message: String| Fault {
            index: change.index,
            object: object.clone(),
            path,
            message,
        };
        let before = Kept::of(manifest, paths);
        match &change.change {
            Change::Patch(patch) => json_merge(manifest, &Value::Object(patch.clone())),
            Change::JsonPatch(operations) => {
                for (ordinal, operation) in operations.iter().enumerate() {
                    step(manifest, operation).map_err(|(path, message)| {
                        fault(
                            Some(path),
                            format!("operation {ordinal} does not apply: {message}"),
                        )
                    })?;
                }
            }
        }
        let after = Kept::of(manifest, paths);
        if let Some((path, message)) = before.difference(&after) {
            return Err(fault(Some(path), message));
        }
    }
    Ok(())
}

/// One operation of a JSON patch. Unlike the API server, `replace` does not add what is absent: a path that is not there
/// is a mistake in the override.
fn step(manifest: &mut Value, operation: &Value) -> Result<(), (String, String)> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default();
    let path = text("path").to_owned();
    if text("op") == "replace" && manifest.pointer(&path).is_none() {
        return Err((
            path,
            "the object has no such field: use add to make it, or correct the path".to_owned(),
        ));
    }
    json_patch(manifest, &json!([operation])).map_err(|error| {
        let reason = match error {
            roundhouse_patch::PatchError::JsonPatch { reason, .. } => reason
                .strip_prefix("operation 0 does not apply: ")
                .unwrap_or(&reason)
                .to_owned(),
            other => other.to_string(),
        };
        (path, reason)
    })
}

/// What an override may not change.
#[derive(Debug, PartialEq)]
struct Kept {
    identity: [(&'static str, Option<Value>); 4],
    counts: Vec<(String, Option<Value>)>,
    labels: BTreeMap<String, Value>,
}

impl Kept {
    fn of(manifest: &Value, paths: &ReplicaPaths) -> Kept {
        let at = |pointer: &'static str| (pointer, manifest.pointer(pointer).cloned());
        let bookkeeping = |field: &str| {
            let map = manifest.pointer(field).and_then(Value::as_object);
            map.into_iter()
                .flatten()
                .filter(|(key, _)| is_bookkeeping_label(key))
        };
        Kept {
            identity: [
                at("/apiVersion"),
                at("/kind"),
                at("/metadata/name"),
                at("/metadata/namespace"),
            ],
            counts: render::count_paths(manifest, paths)
                .into_iter()
                .map(|path| {
                    let value = manifest.pointer(&path).cloned();
                    (path, value)
                })
                .collect(),
            labels: bookkeeping("/metadata/labels")
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }

    fn difference(&self, after: &Kept) -> Option<(String, String)> {
        let identity = self.identity.iter().zip(&after.identity).find(|(a, b)| a != b);
        if let Some(((path, _), _)) = identity {
            let message = "an override may not change it: it would be another object".to_owned();
            return Some(((*path).to_owned(), message));
        }
        // After the identity: the same kind has the same paths.
        let count = self.counts.iter().zip(&after.counts).find(|(a, b)| a != b);
        if let Some(((path, _), _)) = count {
            let message =
                "an override may not change what placement divides: say in a rule how many a cluster gets"
                    .to_owned();
            return Some((path.clone(), message));
        }
        (self.labels != after.labels).then(|| {
            let message = "an override may not change the labels by which the hub knows its objects (app.oam.dev/, workload.oam.dev/, trait.oam.dev/): leave them out".to_owned();
            ("/metadata/labels".to_owned(), message)
        })
    }
}

/// Labels that rendering writes; the annotations of `roundhouse.dev/` are for users to set.
fn is_bookkeeping_label(key: &str) -> bool {
    is_bookkeeping(key) && !key.starts_with("roundhouse.dev/")
}

#[cfg(test)]
mod tests;
