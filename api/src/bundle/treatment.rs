//! How single manifests of a bundle are treated: OCM's `manifestConfigs` and `deleteOption`, with our additions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the manifests that match are treated (OCM's `ManifestConfigOption`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfig {
    /// Which objects.
    pub resource_identifier: ResourceIdentifier,
    /// How they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Which values of theirs are reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// Which conditions are made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub condition_rules: Vec<ConditionRule>,
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
    #[serde(default, rename = "type")]
    pub type_: UpdateStrategyType,
    /// With `ServerSideApply`: how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
    /// Fields whose live value is kept, with every strategy that writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub ignore_fields: Vec<IgnoreFields>,
    /// Fields for whose change the object is deleted and made again if the member says that they are immutable. Each
    /// is a field path as in [`IgnoreRule::json_paths`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recreate_fields: Vec<String>,
}

/// The update strategies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Three-way merge.
    #[default]
    Update,
    /// Server-side apply with a field manager of its own.
    ServerSideApply,
    /// Created if missing, never changed.
    CreateOnly,
    /// Never written, only read.
    ReadOnly,
    /// Three-way merge; where the member says that a field is immutable, the object is deleted and made again.
    Recreate,
}

/// How an object is applied on the server side (OCM's `ServerSideApplyConfig`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApply {
    /// Whether fields of other managers are taken over.
    #[serde(default)]
    pub force: bool,
    /// The field manager; empty is `roundhouse-agent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_manager: String,
    /// Fields that are not applied over live ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub ignore_fields: Vec<IgnoreFields>,
}

/// One entry of `ignoreFields`: OCM's rule, or a field path alone, which is short for a rule with this path and
/// `OnSpokePresent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IgnoreFields {
    /// A field path.
    Path(String),
    /// OCM's rule.
    Rule(IgnoreRule),
    /// Neither: the schema cannot say what an entry is, and one that is wrong is its Bundle's trouble, not that of whoever reads
    /// all of them.
    Other(Value),
}

impl IgnoreFields {
    /// What is wrong with an entry that is neither of both, for people.
    pub fn refusal(&self) -> Option<String> {
        let IgnoreFields::Other(other) = self else {
            return None;
        };
        let wanted = "use a field path, or {condition, jsonPaths}";
        Some(match serde_json::from_value::<IgnoreRule>(other.clone()) {
            Err(error) if other.is_object() => format!("{error}; {wanted}"),
            _ => format!("{other} is no field path; {wanted}"),
        })
    }
}

/// Which fields are ignored, and when (OCM's `IgnoreField`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreRule {
    /// When.
    #[serde(default)]
    pub condition: IgnoreCondition,
    /// Field paths: JSONPath (`.spec.replicas`, `$.spec.containers[?(@.name=="main")].env`), JSON pointer
    /// (`/spec/replicas`, RFC 6901), or a dotted path (`spec.replicas`, `spec.containers[0].image`).
    #[serde(default)]
    pub json_paths: Vec<String>,
}

/// When a field is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IgnoreCondition {
    /// Whenever the live object has the field.
    #[default]
    OnSpokePresent,
    /// The live value is kept until the bundle changes what it wants of this object.
    OnSpokeChange,
}

/// Which values of a live object are reported (OCM's `FeedbackRule`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Where the values come from.
    #[serde(default, rename = "type")]
    pub type_: FeedbackType,
    /// With `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<FeedbackPath>,
    /// With `CEL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<FeedbackExpression>,
}

/// Where reported values come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackType {
    /// The well-known values of the kind.
    #[default]
    WellKnownStatus,
    /// JSON paths.
    JSONPaths,
    /// CEL expressions (ours).
    CEL,
}

/// A value by JSON path (OCM's `JsonPath`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackPath {
    /// Under which name it is reported.
    pub name: String,
    /// Only for objects of this API version; empty is any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The path, in kubectl's dialect: `.status.readyReplicas`.
    pub path: String,
}

/// A value by CEL expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackExpression {
    /// Under which name it is reported.
    pub name: String,
    /// The expression; `object` is the live object.
    pub expression: String,
}

/// A condition made of a live object (OCM's `ConditionRule`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRule {
    /// Its condition type: `Complete`, `Ready`, `Available`, `Progressing`, `Degraded`, or any other.
    #[serde(default)]
    pub condition: String,
    /// Where it comes from.
    #[serde(default, rename = "type")]
    pub type_: ConditionRuleType,
    /// With `CEL`: all must hold; `object` is the live object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// The message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// CEL that makes the message; `object` and `result` can be used. Goes before `message`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
}

/// Where a condition comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionRuleType {
    /// What is known of the kind: completion of Jobs and Pods.
    #[default]
    WellKnownConditions,
    /// CEL expressions.
    CEL,
}

/// What becomes of the objects of a deleted bundle (OCM's `DeleteOption`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Foreground: the bundle waits until its objects are gone. Orphan: they stay. Absent: as Foreground, but Namespaces,
    /// PersistentVolumeClaims and CustomResourceDefinitions stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<PropagationPolicy>,
    /// With `SelectivelyOrphan`: which objects stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// A hand-written bundle goes this many seconds after it is complete; absent: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// OCM's deletion policies. Without one all go but Namespaces, PersistentVolumeClaims and CustomResourceDefinitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PropagationPolicy {
    /// The bundle waits until its objects are gone.
    Foreground,
    /// The objects stay.
    Orphan,
    /// Objects that an orphaning rule names stay, the others go.
    SelectivelyOrphan,
}

/// Which objects of a deleted bundle stay (OCM's `SelectivelyOrphan`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// The objects; `*` matches everything.
    #[serde(default)]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// On whose behalf the objects of a bundle are read and written (OCM's `ManifestWorkExecutor`). The agent impersonates it:
/// it needs `get`, `create` and `patch` on what the bundle has, and `delete` on what is to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Executor {
    /// Who.
    pub subject: ExecutorSubject,
}

/// Who writes the objects of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSubject {
    /// What kind of identity.
    #[serde(default, rename = "type")]
    pub type_: ExecutorType,
    /// With `ServiceAccount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
}

/// Kinds of identities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutorType {
    /// A service account of the member.
    #[default]
    ServiceAccount,
}

/// A service account of the member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}
