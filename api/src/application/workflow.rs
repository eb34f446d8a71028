//! `spec.workflow` as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The steps of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// How steps follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<WorkflowMode>,
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<WorkflowStep>,
}

/// How steps follow one another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowMode {
    /// The steps of the workflow; `StepByStep` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::any_value")]
    pub steps: Option<Mode>,
    /// The steps of a `step-group`; `DAG` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::any_value")]
    pub sub_steps: Option<Mode>,
}

/// How the steps of a list follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// One after the other.
    StepByStep,
    /// All at once, each as soon as what it depends on has succeeded.
    #[serde(rename = "DAG")]
    Dag,
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStep {
    /// Name; `step-<index>` from 0 where absent, `<group>-<index>` in a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it does: `deploy`, `suspend`, `step-group`, ….
    #[serde(rename = "type")]
    pub type_: String,
    /// What people call it: `{alias: …}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "crate::any_value")]
    pub meta: Value,
    /// Runs only if this holds: `always`, or an expression in CEL.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub if_: Option<String>,
    /// Fails after this time, such as `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Starts when these steps have succeeded, whatever stands before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Values that it takes from other steps: `{from, parameterKey}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub inputs: Vec<Value>,
    /// Values that it gives to other steps: `{name, valueFrom}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub outputs: Vec<Value>,
    /// Of a `step-group`: how its steps follow one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::any_value")]
    pub mode: Option<Mode>,
    /// The steps of a `step-group`, with the same fields, but for `mode` and `subSteps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub sub_steps: Vec<Value>,
    /// Properties of that type.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "crate::any_value")]
    pub properties: Value,
}
