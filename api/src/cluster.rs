//! `Cluster`: a member of the fleet as the hub sees it, and `ClusterReport`: what its agent says about it.

use crate::bundle::ApplyOnce;
use crate::placement::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Condition type: the agent has reported at least once.
pub const JOINED: &str = "Joined";
/// Condition type: the agent's Lease is fresh by the hub's clock.
pub const AVAILABLE: &str = "Available";
/// Taint of a cluster that was never heard of, or whose agent says that it cannot work.
pub const TAINT_UNAVAILABLE: &str = "roundhouse.dev/unavailable";
/// Taint of a cluster whose Lease is not renewed.
pub const TAINT_UNREACHABLE: &str = "roundhouse.dev/unreachable";
/// Taint that `roundhouse cordon` puts into the spec, with the effect `NoSchedule`: the cluster keeps what it has and gets
/// nothing more.
pub const TAINT_CORDONED: &str = "roundhouse.dev/cordoned";

/// A member cluster. Placement selects clusters by the labels of this object.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "Cluster",
    status = "ClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "roundhouse",
    printcolumn = r#"{"name":"Accepted","type":"boolean","jsonPath":".spec.accepted"}"#,
    printcolumn = r#"{"name":"Joined","type":"string","jsonPath":".status.conditions[?(@.type==\"Joined\")].status"}"#,
    printcolumn = r#"{"name":"Available","type":"string","jsonPath":".status.conditions[?(@.type==\"Available\")].status"}"#,
    printcolumn = r#"{"name":"Region","type":"string","jsonPath":".metadata.labels.region"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.kubernetesVersion"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether an administrator of the hub lets this cluster in.
    #[serde(default)]
    pub accepted: bool,
    /// Taints: placements that do not tolerate them keep away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// What the hub knows of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// `Joined`, `Available`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Taints that the hub itself adds, beside those of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// `NoExecute` taints of the spec that do not say since when they are there, with the moment when the hub first saw
    /// them: `tolerationSeconds` counts from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints_seen: Vec<Taint>,
    /// Kubernetes version of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// What the cluster can hold, in Kubernetes quantities; `replicas` bounds placement.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// What of it can be allocated, in Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, String>,
    /// When the Lease was seen to change last, by the hub's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
}

/// Facts about a member that its agent reports; the cluster controller checks and copies them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "ClusterReport",
    namespaced,
    derive = "PartialEq",
    category = "roundhouse",
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.kubernetesVersion"}"#,
    printcolumn = r#"{"name":"Agent","type":"string","jsonPath":".spec.agentVersion"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".spec.nodes"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReportSpec {
    /// Kubernetes version of the member, as `/version` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Version of the agent.
    pub agent_version: String,
    /// The agent's apply-once mode, for bundles that do not say; absent from agents that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_once: Option<ApplyOnce>,
    /// Number of nodes; absent if the agent may not list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Sum over the nodes, in Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// Sum over the nodes, in Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, String>,
}
