//! `ApplicationRevision`: an immutable record of what an Application was and of what it rendered to.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A revision of an application, named `<app>-v<N>`; immutable.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.oam.dev",
    version = "v1beta1",
    kind = "ApplicationRevision",
    namespaced,
    shortname = "apprev",
    derive = "PartialEq",
    category = "oam",
    printcolumn = r#"{"name":"Application","type":"string","jsonPath":".spec.applicationName"}"#,
    printcolumn = r#"{"name":"Revision","type":"integer","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"Resources","type":"string","jsonPath":".spec.resourcesConfigMap.name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationRevisionSpec {
    /// Name of the application.
    pub application_name: String,
    /// N of `<app>-v<N>`.
    pub revision: u64,
    /// `metadata.generation` of the application when this revision was made.
    pub generation: i64,
    /// Hash over the application's spec: an identical earlier revision is reused.
    pub hash: String,
    /// The application's spec as the user wrote it, values that are written into Secrets of its components included: whoever
    /// may read ApplicationRevisions reads them, as whoever may read Applications does.
    #[schemars(schema_with = "crate::any_object")]
    pub application: Value,
    /// Component name → component revision, `<component>-v<N>`.
    #[serde(default)]
    pub components: std::collections::BTreeMap<String, String>,
    /// Component name → hash of what it rendered to: a component with the same content keeps its revision.
    #[serde(default)]
    pub component_hashes: std::collections::BTreeMap<String, String>,
    /// The ConfigMap with the rendered resources: component → JSON (seed: policies-and-workflow).
    pub resources_config_map: RecordedResources,
    /// The Secret with the rendered resources of the components that contain Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_secret: Option<RecordedResources>,
}

/// Names the ConfigMaps or Secrets with the rendered resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResources {
    /// Name, in the application's namespace; further parts `-2`, `-3`, …
    pub name: String,
    /// Number of parts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parts: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(parts: &u32) -> bool {
    *parts == 1
}
