//! `ComponentDefinition`: as much of KubeVela's as tells where the count of a kind lives.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Namespace whose definitions are for the applications of all namespaces, as in KubeVela.
pub const SYSTEM_NAMESPACE: &str = "vela-system";

/// Says of a kind which field counts its replicas, so that placement divides it. It is for the applications of its
/// namespace, or of all if it is in `vela-system`. What else KubeVela knows in a definition is kept and has no effect.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.oam.dev",
    version = "v1beta1",
    kind = "ComponentDefinition",
    namespaced,
    shortname = "comp",
    derive = "PartialEq",
    category = "oam",
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.workload.definition.kind"}"#,
    printcolumn = r#"{"name":"Replicas","type":"string","jsonPath":".spec.replicasPath"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ComponentDefinitionSpec {
    /// The workload.
    #[serde(default)]
    pub workload: WorkloadDefinition,
    /// Path of the field that counts replicas, such as `spec.replicas`; without it, or with a
    /// path that is none, the kind is not divided. The built-in
    /// kinds of `apps` and `batch` and `CloneSet` have theirs whatever a definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_path: Option<String>,
}

/// Names a workload's kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct WorkloadDefinition {
    /// The kind; absent from definitions that name a `type` instead, which have no effect here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<WorkloadKind>,
}

/// A kind of one API version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadKind {
    /// Group and version, such as `apps.kruise.io/v1alpha1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}
