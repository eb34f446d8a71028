//! `Application` (`core.oam.dev/v1beta1`): components, policies and a workflow (seed: policies-and-workflow).
//!
//! The API server keeps unknown fields of an Application, so that [`validate()`] can refuse them by name instead of the
//! server dropping them in silence.

mod action;
mod expression;
mod order;
mod parameter;
mod properties;
mod resolve;
mod status;
mod step;
mod traits;
mod validate;
mod workflow;

pub(crate) use action::identity;
pub use action::*;
pub use expression::{Misread, Reference, StepExpression, StepNames};
pub use order::{cycle, order};
pub use parameter::{ParameterKey, ParameterKeyError, Unset};
pub use properties::*;
pub use resolve::{Found, Unresolved, references, resolve};
pub(crate) use resolve::{Together, above_hundred, combine, together};
pub use status::*;
pub use step::*;
pub use traits::{FieldPath, Setting, TraitService, ValidTrait, merge_traits, pod_template, workload_of};
pub use validate::{
    Violation, check_application_name, check_header, check_url, validate, validate_placement,
};
pub use workflow::{Mode, Workflow, WorkflowMode, WorkflowStep};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the user wants to run, and how it is delivered.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.oam.dev",
    version = "v1beta1",
    kind = "Application",
    namespaced,
    shortname = "app",
    status = "ApplicationStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "oam",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".status.latestRevision.name"}"#,
    printcolumn = r#"{"name":"Step","type":"string","jsonPath":".status.workflow.current"}"#,
    printcolumn = r#"{"name":"Clusters","type":"string","jsonPath":".status.delivery.clustersReady"}"#,
    printcolumn = r#"{"name":"Replicas","type":"string","jsonPath":".status.delivery.replicasReady"}"#,
    printcolumn = r#"{"name":"Unplaced","type":"integer","jsonPath":".status.delivery.unplaced"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSpec {
    /// What is delivered.
    #[serde(default)]
    pub components: Vec<Component>,
    /// Rules for the whole application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
    /// How it is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
}

/// One component: a workload and what belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name, unique in the application.
    pub name: String,
    /// `k8s-objects`, `webservice`, `worker`, `task` or `cron-task`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Properties of that type.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "crate::any_value")]
    pub properties: Value,
    /// What is merged into its workload before it is sent, in one change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traits: Vec<Trait>,
}

/// One trait of a component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct Trait {
    /// `scaler`, `labels`, `annotations`, `expose`, `env`, `resource`, `sidecar` or `node-selector`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Properties of that type.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "crate::any_value")]
    pub properties: Value,
}

/// One policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Name, unique in the application.
    pub name: String,
    /// `placement`, `topology`, `override`, `apply-once` or `executor`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Properties of that type.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "crate::any_value")]
    pub properties: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spec_is_written_as_it_was_read() {
        for spec in [
            json!({"components": [{"name": "a", "type": "worker", "properties": {"image": "x", "extra": null},
                "traits": [{"type": "scaler", "properties": {"replicas": 3}}, {"type": "expose"}]}],
                "policies": [{"name": "p", "type": "placement"}],
                "workflow": {"mode": {"steps": "DAG", "subSteps": "StepByStep"}, "steps": [{"type": "suspend"},
                    {"name": "b", "type": "deploy", "if": "always", "timeout": "1m", "dependsOn": ["a"], "meta": {"alias": "B"},
                        "inputs": [{"from": "x", "parameterKey": "y"}], "outputs": [{"name": "x", "valueFrom": "output.z"}],
                        "properties": {}},
                    {"name": "g", "type": "step-group", "mode": "DAG", "subSteps": [{"type": "suspend"}]}]}}),
            json!({"components": []}),
        ] {
            let read: ApplicationSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), spec);
        }
    }
}
