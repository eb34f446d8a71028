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

/// Names an object of the application; of several API groups or namespaces, all objects of the name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideTarget {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
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
