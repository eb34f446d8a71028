//! Overrides: what differs from cluster to cluster.

use super::ClusterSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One change to one object on some clusters. Of `rule`, `clusterSelector` and `clusters` all that are given have to
/// hold; without any it is for every cluster of the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The clusters that this rule may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Clusters by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,
    /// Clusters by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Vec<String>>,
    /// The object.
    pub target: OverrideTarget,
    /// What changes in it.
    #[serde(flatten)]
    pub change: Change,
}

/// Names an object of the application; without an API version or a namespace, all objects of the kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideTarget {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// `group/version`, or `v1`, as its manifest has it; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its namespace, as its manifest has it; absent: any, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A change to a manifest. In string values `${cluster.name}` and `${cluster.labels.<key>}` stand for what the cluster
/// has; `$${cluster.` is a literal `${cluster.`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// JSON merge patch (RFC 7386): zero and empty values replace, null removes.
    Patch(Map<String, Value>),
    /// Operations of a JSON patch (RFC 6902); a path that is not there is an error, for `replace` too.
    JsonPatch(Vec<Value>),
}

impl JsonSchema for Change {
    fn schema_name() -> Cow<'static, str> {
        "Change".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "patch": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "description": "JSON merge patch (RFC 7386)."
                },
                "jsonPatch": {
                    "type": "array",
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "description": "Operations of a JSON patch (RFC 6902)."
                }
            }
        })
    }
}

impl Change {
    /// Every string value, with the path of the field that it is in: `/`-separated below the manifest for a merge patch,
    /// the path of the operation for a JSON patch. Keys and paths hold no variables.
    pub fn strings(&self) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        match self {
            Change::Patch(patch) => patch
                .iter()
                .for_each(|(key, value)| strings_of(value, &format!("/{}", escaped(key)), &mut found)),
            Change::JsonPatch(operations) => {
                for operation in operations {
                    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
                    if let Some(value) = operation.get("value") {
                        let mut inner = Vec::new();
                        strings_of(value, path, &mut inner);
                        found.extend(inner.into_iter().map(|(_, text)| (path.to_owned(), text)));
                    }
                }
            }
        }
        found
    }

    /// The same change with every string value replaced by what `fill` makes of it.
    ///
    /// # Errors
    /// The first error of `fill`.
    pub fn filled<E>(&self, mut fill: impl FnMut(&str) -> Result<String, E>) -> Result<Change, E> {
        Ok(match self {
            Change::Patch(patch) => {
                let mut patch = patch.clone();
                patch
                    .values_mut()
                    .try_for_each(|value| replace(value, &mut fill))?;
                Change::Patch(patch)
            }
            Change::JsonPatch(operations) => {
                let mut operations = operations.clone();
                let values = operations
                    .iter_mut()
                    .filter_map(|operation| operation.get_mut("value"));
                values
                    .into_iter()
                    .try_for_each(|value| replace(value, &mut fill))?;
                Change::JsonPatch(operations)
            }
        })
    }
}

/// A key as a JSON pointer writes it.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn strings_of<'a>(value: &'a Value, path: &str, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text)),
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                strings_of(value, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                strings_of(value, &format!("{path}/{}", escaped(key)), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn replace<E>(value: &mut Value, fill: &mut impl FnMut(&str) -> Result<String, E>) -> Result<(), E> {
    match value {
        Value::String(text) => *text = fill(text)?,
        Value::Array(list) => list.iter_mut().try_for_each(|value| replace(value, fill))?,
        Value::Object(map) => map.values_mut().try_for_each(|value| replace(value, fill))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
