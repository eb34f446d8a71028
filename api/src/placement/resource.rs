//! `Placement` (`roundhouse.dev/v1alpha1`): a placement of its own, which the applications of its namespace refer to.

use super::PlacementSpec;
use crate::decision::Exclusion;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// At most this many reasons are listed.
pub const MAX_REASONS: usize = 10;

/// Where workloads go: the rules that placing steps and placement policies name by `placementRef`.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "Placement",
    namespaced,
    status = "PlacementStatus",
    derive = "PartialEq",
    category = "roundhouse",
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Satisfied","type":"boolean","jsonPath":".status.satisfied"}"#,
    printcolumn = r#"{"name":"Matched","type":"integer","jsonPath":".status.counts.matched"}"#,
    printcolumn = r#"{"name":"Eligible","type":"integer","jsonPath":".status.counts.eligible"}"#,
    printcolumn = r#"{"name":"Applications","type":"integer","jsonPath":".status.counts.applications"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(transparent)]
#[schemars(transparent)]
pub struct PlacementObject(pub PlacementSpec);

/// What a Placement comes to on the fleet as it is, for an application that runs nowhere yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// `metadata.generation` that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether every rule has a cluster that it may use; absent while the spec is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub satisfied: Option<bool>,
    /// In numbers.
    #[serde(default)]
    pub counts: PlacementCounts,
    /// Why it is not satisfied, and what else is worth knowing: one line each, at most [`MAX_REASONS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// How many more reasons there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u32>,
    /// `Accepted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A Placement in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementCounts {
    /// Clusters that a rule selects.
    #[serde(default)]
    pub matched: u32,
    /// Of those, the clusters that may be used: accepted, joined, reachable, and no taint that is not tolerated.
    #[serde(default)]
    pub eligible: u32,
    /// Clusters that are matched and not used, by reason, sorted by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Exclusion>,
    /// Applications that refer to it.
    #[serde(default)]
    pub applications: u32,
}
