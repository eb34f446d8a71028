//! What an agent reports of a bundle.

use super::{OLD_EPOCH, OLD_GENERATION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the agent reports. It counts for the revision whose hash and generation it carries and for no other.
///
/// Drift and fights are no failures of the content that was applied: an object with either counts as applied, and `phase`
/// goes by failures and readiness alone, so that a roll-out does not hang on an autoscaler. They show elsewhere: a
/// manifest with drift that is only reported has the condition [`DRIFTED`](super::DRIFTED), and `Applied` is True with
/// the reason `Drifted` and the number of such objects; a manifest that is fought over has the condition
/// [`FIGHTING`](super::FIGHTING), and `Degraded` is True with the reason `Fighting`, because somebody has to act.
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
    /// Workloads, at most [`MAX_WORKLOADS`](super::MAX_WORKLOADS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadStatus>,
    /// The workloads that are not listed, summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_workloads: Option<OmittedWorkloads>,
    /// `Applied`, `Available`, `Progressing`, `Degraded`, and those that `conditionRules` make: `Complete` above all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// OCM's shape: the manifests that are not as they should be, and those that rules are about. Other healthy objects
    /// are counted only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<ResourceStatus>,
}

impl BundleStatus {
    /// Whether it is about this generation of the bundle: observed, and not ignored for something later.
    pub fn is_about(&self, generation: i64) -> bool {
        self.observed_generation == Some(generation) && self.ignores(generation).is_none()
    }

    /// Why the agent ignores this generation of the bundle, if it has obeyed something later. What else the status says is of what
    /// it obeys.
    pub fn ignores(&self, generation: i64) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| {
            [OLD_EPOCH, OLD_GENERATION].contains(&condition.reason.as_str())
                && condition.observed_generation == Some(generation)
        })
    }
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

impl WorkloadStatus {
    /// Replicas that are ready and of the present revision, at most as many as asked for.
    pub fn ready_replicas(&self) -> u32 {
        self.ready.min(self.updated).min(self.desired)
    }
}

/// Workloads beyond [`MAX_WORKLOADS`](super::MAX_WORKLOADS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OmittedWorkloads {
    /// How many.
    pub count: u32,
    /// Replicas that they ask for, together.
    pub desired: u64,
    /// Of those, the ready ones of the present revision.
    pub ready: u64,
}

/// Manifests that are not as they should be, and manifests that rules are about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// One entry per manifest, by ordinal; at most [`MAX_FAILURES`](super::MAX_FAILURES) that fail, and 100 others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    /// How many more fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u32>,
    /// Whether feedback was left out because all of it together weighs more than [`MAX_FEEDBACK`](super::MAX_FEEDBACK).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub feedback_truncated: bool,
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
    /// The values that its feedback rules ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_feedback: Option<StatusFeedback>,
}

/// Values of a live object (OCM's `StatusFeedbackResult`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusFeedback {
    /// The values, in the order of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// One value (OCM's `FeedbackValue`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Its name.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A typed value (OCM's `FieldValue`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which of the fields is set.
    #[serde(rename = "type")]
    pub type_: FieldValueType,
    /// With `Integer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// With `String`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// With `Boolean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// With `JsonRaw`: a list or an object, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}

/// Types of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldValueType {
    /// A whole number.
    #[default]
    Integer,
    /// A text.
    String,
    /// True or false.
    Boolean,
    /// JSON as text.
    JsonRaw,
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
