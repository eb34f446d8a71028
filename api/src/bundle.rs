//! `Bundle`: what one application runs on one cluster. Its spec is a superset of OCM's `ManifestWork` v1 spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// At most this many workloads in a status.
pub const MAX_WORKLOADS: usize = 50;
/// At most this many failing manifests in a status.
pub const MAX_FAILURES: usize = 100;
/// Messages in a status are cut at this many bytes.
pub const MAX_MESSAGE: usize = 512;
/// Manifests of one bundle weigh at most this much, in bytes of canonical JSON.
pub const MAX_BUNDLE_BYTES: usize = 512 * 1024;
/// One manifest weighs at most this much, in bytes of canonical JSON.
pub const MAX_MANIFEST_BYTES: usize = 1024 * 1024;
/// Manifests in one bundle.
pub const MAX_BUNDLE_OBJECTS: usize = 1000;

/// Condition type: every manifest was applied.
pub const APPLIED: &str = "Applied";
/// Condition type: every object is ready.
pub const AVAILABLE: &str = "Available";
/// Condition type: objects are still on their way.
pub const PROGRESSING: &str = "Progressing";
/// Condition type: something failed.
pub const DEGRADED: &str = "Degraded";

/// What one application runs on one cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "Bundle",
    namespaced,
    status = "BundleStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "roundhouse",
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Objects","type":"integer","jsonPath":".status.counts.total"}"#,
    printcolumn = r#"{"name":"Applied","type":"integer","jsonPath":".status.counts.applied"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.counts.ready"}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.counts.failed"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
// The rule on the field itself sees nothing of a write that leaves the epoch out.
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(oldSelf.epoch) || has(self.epoch)",
    "message": "the epoch may not be removed: a newer leader has written this object"
}]))]
#[serde(rename_all = "camelCase")]
pub struct BundleSpec {
    /// The manifests.
    pub workload: ManifestsTemplate,
    /// How single manifests are treated; the first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
    /// What becomes of the objects when the bundle is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// The application; with it the bundle was written by dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_ref: Option<ApplicationRef>,
    /// The ApplicationRevision whose content this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Hex sha256 of the canonical manifests, stamps excluded. Absent: the agent computes it. Different: nothing is
    /// applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Fencing epoch of the hub that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::epoch")]
    pub epoch: Option<i64>,
    /// Apply-once mode; absent: the agent's flag decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_once: Option<ApplyOnce>,
    /// What to do with an object that exists and is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<Adopt>,
    /// Whether an object controlled by a third party's owner reference may be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_co_ownership: Option<bool>,
    /// What to do with a difference that appears later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Nothing is applied, pruned or deleted while true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Written by dispatch before it deletes the bundle: without it a vanished bundle leaves its objects alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
}

/// The manifests of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestsTemplate {
    /// Any objects, in order. One that does not decode fails alone.
    #[serde(default)]
    #[schemars(schema_with = "crate::any_values")]
    pub manifests: Vec<Value>,
}

/// How the manifests that match are treated (OCM's `ManifestConfigOption`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Which objects.
    pub resource_identifier: ResourceIdentifier,
    /// How they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// Names objects of a bundle; `*` matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// API group, empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural, lower case.
    #[serde(default)]
    pub resource: String,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// How an object is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// The strategy.
    #[serde(rename = "type")]
    pub type_: UpdateStrategyType,
}

/// The update strategies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Three-way merge.
    #[default]
    Update,
    /// Created if missing, never changed.
    CreateOnly,
    /// Never written, only read.
    ReadOnly,
}

/// What becomes of the objects of a deleted bundle (OCM's `DeleteOption`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Foreground: the bundle waits until its objects are gone. Orphan: they stay.
    #[serde(default)]
    pub propagation_policy: PropagationPolicy,
}

/// OCM's deletion policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    /// The bundle waits until its objects are gone.
    #[default]
    Foreground,
    /// The objects stay.
    Orphan,
}

/// Points to an Application on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationRef {
    /// Namespace on the hub.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid, so that a namesake made later is another application.
    pub uid: String,
}

/// Apply-once (seed: apply-once-only; `off`, `on`, `force` there; never the bare words, YAML 1.1 reads them as booleans).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyOnce {
    /// Every difference is repaired (seed: off).
    #[default]
    Never,
    /// An object applied at this generation, revision and content is left alone (seed: on).
    Once,
}

/// What to do with an object that exists and is not ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Adopt {
    /// Taken over if nothing of what we render differs.
    #[default]
    IfNoDiff,
    /// Taken over.
    Always,
    /// Refused.
    Never,
}

/// What to do with a difference that appears after an object was applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drift {
    /// It is repaired.
    #[default]
    Correct,
    /// It is reported.
    Report,
    /// It is ignored.
    Ignore,
}

/// The positive evidence that a bundle's objects are to be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// The revision that no longer places this bundle, or the last one of a deleted application.
    pub revision: String,
    /// Who or what confirmed it: `application-deleted`, `garbage-collection`, or the hash of an approval.
    pub confirmed_by: String,
}

/// What the agent reports. It counts for the revision whose hash and generation it carries and for no other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// The hash of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// `metadata.generation` of the Bundle that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The epoch that the agent obeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// Where the bundle stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    /// Objects by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Workloads, at most [`MAX_WORKLOADS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadStatus>,
    /// `Applied`, `Available`, `Progressing`, `Degraded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// OCM's shape: the manifests that are not as they should be. Healthy objects are counted only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<ResourceStatus>,
}

/// Where a bundle stands on its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BundlePhase {
    /// Objects are being applied or are not ready yet.
    Progressing,
    /// Everything is applied and ready.
    Ready,
    /// Something failed.
    Failed,
    /// Everything was removed; the Bundle may go.
    Cleaned,
}

/// Objects of a bundle by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Manifests in the bundle.
    pub total: u32,
    /// Applied at this revision.
    pub applied: u32,
    /// Ready at this revision.
    pub ready: u32,
    /// Failed.
    pub failed: u32,
}

/// A workload's replicas on the member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Replicas that the live object asks for.
    pub desired: u32,
    /// Replicas of the present revision.
    pub updated: u32,
    /// Ready replicas.
    pub ready: u32,
}

/// Manifests that are not as they should be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// One entry per manifest, by ordinal; at most [`MAX_FAILURES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u32>,
}

/// The state of one manifest (OCM's `ManifestCondition`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which manifest.
    pub resource_meta: ResourceMeta,
    /// Its conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Names a manifest of a bundle (OCM's `ManifestResourceMeta`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMeta {
    /// Place in `spec.workload.manifests`, from 0; after the last one for objects that are being pruned.
    pub ordinal: u32,
    /// API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Plural.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}
