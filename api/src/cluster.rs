//! `Cluster`: a member of the fleet as the hub sees it, and `ClusterReport`: what its agent says about it.

use crate::bundle::ApplyOnce;
use crate::placement::Taint;
use crate::shared;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Condition type: the agent has reported at least once.
pub const JOINED: &str = "Joined";
/// Condition type: the agent's Lease is fresh by the hub's clock.
pub const AVAILABLE: &str = "Available";
/// Condition type: the agent renews its Lease, and what the hub sends does not arrive there.
pub const DEAF: &str = "Deaf";
/// Condition type: the cluster is leaving; its message says what is waited for.
pub const LEAVING: &str = "Leaving";
/// The longest life that an agent may ask for its certificate: 90 days, so that one that is lost ends by itself.
pub const LONGEST_CERTIFICATE: Duration = Duration::from_secs(90 * 86_400);
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
    /// Number of the identity that the agent of this cluster has, or is invited to ask for; whoever raises it ends every
    /// earlier identity. `roundhouse join` takes the seconds since 1970 by the API server's clock, so that a Cluster that is
    /// made again after it left lets no old certificate in. 0 is a cluster that nobody was invited from.
    #[serde(default)]
    #[schemars(range(min = 0), extend("x-kubernetes-validations" = [{
        "rule": "self >= oldSelf",
        "message": "the serial may not decrease: an identity that was ended would be let in again"
    }]))]
    pub serial: u32,
    /// Until when the invitation holds: then, or with the first certificate of this serial, the ServiceAccount that invites is
    /// removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_until: Option<Time>,
    /// Whether whoever has the invitation of this serial first is let in once the cluster is accepted. Otherwise the key that
    /// asks waits until `acceptedKey` names it, also where the cluster was accepted before. Where tokens are the identity no key
    /// asks: this alone accepts the invitation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_accept: bool,
    /// Digest of the one key, `sha256:<hex>` of its public part (DER, SubjectPublicKeyInfo), that the first certificate of
    /// this serial is given to; without it any key of whoever holds the invitation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub accepted_key: Option<String>,
    /// What becomes of the cluster's objects when this Cluster is deleted; without it they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Leave>,
    /// Taints: placements that do not tolerate them keep away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// How a cluster leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Leave {
    /// The agent forgets its bundles; what it applied stays in the cluster as it is.
    #[default]
    Orphan,
    /// The agent deletes what it applied; the Cluster is gone when it has reported so.
    DeleteResources,
    /// The hub forgets the cluster without hearing of its agent, which may be gone for ever: what it applied stays.
    Forget,
}

/// The identity of a cluster's agent, as the hub gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentIdentity {
    /// What the identity is proved by.
    #[serde(default)]
    pub method: IdentityMethod,
    /// The user that the RoleBinding of the cluster's namespace names: no other has the rights of this cluster's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The serial of the spec that the rights on the hub are of: no earlier one has any.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_serial: u32,
    /// The serial whose invitation was used; a later one is still open.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub serial: u32,
    /// Digest of the key that the first certificate of this serial was given to, `sha256:<hex>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When the invitation of this serial was used, by the hub's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Digest of the key that asks for a certificate and waits to be accepted, `sha256:<hex>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_key: Option<String>,
}

/// What the identity of an agent is proved by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdentityMethod {
    /// A client certificate of signer `kubernetes.io/kube-apiserver-client`, renewed by the agent.
    #[default]
    Certificate,
    /// Tokens of a ServiceAccount on the hub, renewed by the agent: where that signer signs nothing.
    Token,
}

/// What the hub knows of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// `Joined`, `Available`, `Deaf`, `Leaving`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Taints that the hub itself adds, beside those of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// `NoExecute` taints of the spec that do not say since when they are there, with the moment when the hub first saw
    /// them: `tolerationSeconds` counts from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints_seen: Vec<Taint>,
    /// Who the agent is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<AgentIdentity>,
    /// Kubernetes version of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Number of nodes, if the agent may list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// What the cluster can hold, in Kubernetes quantities; `replicas` bounds placement.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// What of it can be allocated, in Kubernetes quantities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, String>,
    /// When the Lease was seen to change last, by the hub's clock, as of the last change of anything else in this status:
    /// heartbeats alone are not written. The Lease `agent` in the namespace of the cluster says when it was renewed last.
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
    /// Labels that the agent proposes for its Cluster, all below `agent.roundhouse.dev/`; others are not taken over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Rights in the member that the agent lacks, at most 50, such as `create deployments.apps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_rights: Vec<String>,
    /// Why the agent could not tell what it may in the member, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights_unknown: Option<String>,
    /// Bundles that vanished without `spec.deletion` and whose objects the agent holds in the member, at most 50 by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// How many there are, those that `held` does not name included.
    #[serde(default, skip_serializing_if = "shared::is_zero")]
    pub held_count: u32,
}
