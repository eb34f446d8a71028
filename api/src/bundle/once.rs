//! Apply-once rules of a bundle (seed: apply-once-only; the policy `apply-once` as KubeVela's users know it).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which fields of which objects keep their live value; the first rule whose selector matches an object counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyOnceRule {
    /// Which objects; every object without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<ApplyOnceSelector>,
    /// What is kept, and when.
    pub strategy: ApplyOnceStrategy,
}

/// Selects objects: the lists are ANDed, an empty list matches everything, one entry of a list suffices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyOnceSelector {
    /// Names of components (label `app.oam.dev/component`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_names: Vec<String>,
    /// Types of components (label `workload.oam.dev/type`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_types: Vec<String>,
    /// Types of traits (label `trait.oam.dev/type`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trait_types: Vec<String>,
    /// Kinds of objects (`Deployment`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_types: Vec<String>,
    /// Names of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// What is kept, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyOnceStrategy {
    /// Field paths (`spec.replicas`), in each spelling that [`FieldPath`](roundhouse_patch::field::FieldPath) reads. `*`
    /// is the whole object: it is applied once per content, as with [`ApplyOnce::Once`](super::ApplyOnce::Once), whatever
    /// `affect` says.
    pub path: Vec<String>,
    /// When. A field that the live object does not have is never kept: the manifest's value is sent.
    #[serde(default)]
    pub affect: Affect,
}

/// When the live value of a path is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Affect {
    /// Always.
    #[default]
    #[serde(rename = "always")]
    Always,
    /// When a new content is applied. The value that was kept then is recorded in the member's ledger, and is what a
    /// later repair of drift restores. Values of a Secret are not recorded: for a Secret this is `always`.
    #[serde(rename = "onUpdate")]
    OnUpdate,
    /// When drift is repaired. A new content sets the manifest's value once.
    #[serde(rename = "onStateKeep")]
    OnStateKeep,
}
