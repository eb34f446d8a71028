//! The typed properties of components, policies and steps, and the application as [`validate()`](super::validate())
//! understood it.

use crate::placement::PlacementSpec;
use k8s_openapi::api::core::v1::{EnvVar, Probe, Volume, VolumeMount};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// An application whose every property was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidApplication {
    /// Components, in order.
    pub components: Vec<ValidComponent>,
    /// Steps, in order; made from the placement policies where the application has no workflow.
    pub steps: Vec<ValidStep>,
    /// Whether the application asks for apply-once; absent: the agents' flag decides.
    pub apply_once: Option<crate::bundle::ApplyOnce>,
}

/// A component whose properties were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidComponent {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: ComponentKind,
}

/// The component types.
#[derive(Debug, Clone, PartialEq)]
pub enum ComponentKind {
    /// `k8s-objects`: manifests as they are.
    Objects(ObjectsProperties),
    /// `webservice`: a Deployment, and a Service for its exposed ports.
    Webservice(Box<WebserviceProperties>),
    /// `worker`: a Deployment without ports.
    Worker(Box<WorkerProperties>),
}

/// A step whose properties were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidStep {
    /// Name, `step-<index>` where the user gave none.
    pub name: String,
    /// The type as written.
    pub type_: String,
    /// What it does.
    pub kind: StepKind,
}

/// The step types.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// `open-cluster-management` and `deploy`: place, dispatch, wait.
    Deploy(Box<DeployStep>),
    /// `suspend`: waits until it is resumed.
    Suspend(SuspendProperties),
}

/// A placing step.
#[derive(Debug, Clone, PartialEq)]
pub struct DeployStep {
    /// The placement, inline or from the named policies.
    pub placement: PlacementSpec,
    /// What the step waits for.
    pub wait: WaitFor,
}

/// Properties of `k8s-objects`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectsProperties {
    /// The manifests.
    pub objects: Vec<Value>,
}

/// Properties that `webservice` and `worker` share, with the names that KubeVela users know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerProperties {
    /// Container image.
    pub image: String,
    /// Entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// CPU request and limit, a Kubernetes quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory request and limit, a Kubernetes quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Replicas before division.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Volumes of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Where they are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Liveness probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Readiness probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Labels of workload and pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of workload and pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `Always`, `IfNotPresent` or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Names of Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
}

/// When images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePullPolicy {
    /// Always.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

/// Properties of `webservice`: those of a worker, and ports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebserviceProperties {
    /// What it has in common with a worker.
    #[serde(flatten)]
    pub worker: WorkerProperties,
    /// Ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<WebservicePort>,
    /// Type of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose_type: Option<ExposeType>,
}

/// One port of a webservice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebservicePort {
    /// Port number.
    pub port: u16,
    /// Port of the container where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_port: Option<u16>,
    /// Name; `port-<port>` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `TCP` (default), `UDP` or `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Whether the Service exposes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expose: bool,
    /// Node port, with `exposeType: NodePort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
}

/// Transport protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP
    #[default]
    TCP,
    /// UDP
    UDP,
    /// SCTP
    SCTP,
}

/// Types of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExposeType {
    /// Inside the cluster.
    #[default]
    ClusterIP,
    /// On each node.
    NodePort,
    /// By a load balancer.
    LoadBalancer,
}

/// Properties of a placing step: the placement's fields and their siblings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployProperties {
    /// The inline placement.
    #[serde(flatten)]
    pub placement: PlacementSpec,
    /// Names of placement policies of the application, instead of an inline placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// What the step waits for.
    #[serde(default)]
    pub wait: WaitFor,
}

/// What a placing step waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    /// Every cluster has applied its bundle and its objects are ready.
    #[default]
    Ready,
    /// Every cluster has applied its bundle.
    Applied,
    /// Nothing: the step ends when the bundles are written.
    None,
}

/// Properties of `suspend`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspendProperties {
    /// Shown while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Properties of the policy `apply-once`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyOnceProperties {
    /// Whether it is on for the whole application.
    #[serde(default)]
    pub enable: bool,
}
