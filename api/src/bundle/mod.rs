//! `Bundle`: what one application runs on one cluster. Its spec is a superset of OCM's `ManifestWork` v1 spec.

mod once;
mod status;
mod treatment;

pub use once::{Affect, ApplyOnceRule, ApplyOnceSelector, ApplyOnceStrategy};
pub use status::{
    BundlePhase, BundleStatus, Counts, FeedbackValue, FieldValue, FieldValueType, ManifestCondition,
    OmittedWorkloads, ResourceMeta, ResourceStatus, StatusFeedback, WorkloadStatus,
};
pub use treatment::{
    ConditionRule, ConditionRuleType, DeleteOption, Executor, ExecutorSubject, ExecutorType,
    FeedbackExpression, FeedbackPath, FeedbackRule, FeedbackType, IgnoreCondition, IgnoreFields, IgnoreRule,
    ManifestConfig, PropagationPolicy, ResourceIdentifier, SelectivelyOrphan, ServerSideApply,
    ServiceAccountRef, UpdateStrategy, UpdateStrategyType,
};

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
/// Condition reason: a workload that is to be removed still asks for replicas or runs, see [`Deletion`].
pub const REMOVAL_REFUSED: &str = "RemovalRefused";
/// Condition reasons: the bundle is of an earlier epoch, or of an earlier generation, than what the agent obeyed last, and is
/// ignored, as the hub went back in time.
pub const OLD_EPOCH: &str = "OldEpoch";
/// See [`OLD_EPOCH`].
pub const OLD_GENERATION: &str = "OldGeneration";
/// Condition type: the executor of the bundle may write what it has; what it lacks is named. Absent without an executor.
pub const EXECUTOR_PERMITTED: &str = "ExecutorPermitted";
/// Condition type: everything that has an end has come to it.
pub const COMPLETE: &str = "Complete";
/// Condition type of a single manifest: fields differ from the bundle and stay so, because `drift` is `Report`. Reason of
/// the same name.
pub const DRIFTED: &str = "Drifted";
/// Condition type of a single manifest: somebody else rewrites a field of it again and again. Reason of the same name.
pub const FIGHTING: &str = "Fighting";
/// Feedback values of one bundle weigh at most this much together, in bytes of JSON.
pub const MAX_FEEDBACK: usize = 8 * 1024;

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
    /// On whose behalf the objects are written; absent: on the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
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
    /// Hex sha256 over the hashes of all parts that the application has on this cluster, in their order; absent where
    /// there is one part. What leaves a part is removed only when the others say the same here: it may be about to move
    /// to one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_hash: Option<String>,
    /// Fencing epoch of the hub that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::epoch")]
    pub epoch: Option<i64>,
    /// Apply-once mode; absent: the agent's flag decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_once: Option<ApplyOnce>,
    /// Fields that keep their live value (policy `apply-once`); the first rule that matches an object counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply_once_rules: Vec<ApplyOnceRule>,
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
    /// As `Once`, and an object that was deleted stays deleted (seed: force).
    Force,
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

/// What to do with a difference that appears after an object was applied, in a field that the bundle renders; other
/// fields are never looked at. New content is written in every mode, and an object that is missing is made again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drift {
    /// It is repaired within moments. A field that somebody else rewrites again and again is repaired ever more rarely,
    /// and reported as [`FIGHTING`].
    #[default]
    Correct,
    /// It stays, and is reported as [`DRIFTED`].
    Report,
    /// It stays.
    Ignore,
}

/// The positive evidence that a bundle's objects are to be removed.
///
/// Under apply-once (`Once`, `Force`) a workload that still asks for replicas (`spec.replicas` above 0 on the member) goes
/// only when that is confirmed: by `application-deleted`, by a step that takes it away, or by the hash of an approval. `garbage-collection` (the
/// placement moved away) is evidence, but no such confirmation: the workload stays, with reason `RemovalRefused`, until
/// its replicas are 0, or the object carries the annotation `roundhouse.dev/prune: "true"`, or the Application the
/// annotation `roundhouse.dev/confirm-deletes` with the hash that its status names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// The revision that no longer places this bundle, or the last one of a deleted application.
    pub revision: String,
    /// Who or what confirmed it: `application-deleted`, `garbage-collection`, `cluster-left`, `step <name>`, or the hash of an
    /// approval.
    pub confirmed_by: String,
}

impl Deletion {
    /// Value of [`Deletion::confirmed_by`]: the Application was deleted.
    pub const APPLICATION_DELETED: &str = "application-deleted";
    /// Value of [`Deletion::confirmed_by`]: the placement moved away, within the delete budget.
    pub const GARBAGE_COLLECTION: &str = "garbage-collection";
    /// Value of [`Deletion::confirmed_by`]: an administrator lets the cluster leave, and its objects be deleted.
    pub const CLUSTER_LEFT: &str = "cluster-left";

    /// Value of [`Deletion::confirmed_by`]: a person wrote a `delete-object` step of this name into the workflow.
    pub fn by_step(step: &str) -> String {
        format!("step {step}")
    }

    /// The step that confirmed it.
    pub fn step(&self) -> Option<&str> {
        self.confirmed_by.strip_prefix("step ")
    }
}
