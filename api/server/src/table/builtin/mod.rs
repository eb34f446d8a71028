//! Columns of the built-in kinds, in the order and with the words of Kubernetes 1.36 (`pkg/printers/internalversion`).

mod cluster;
mod events;
mod pods;
mod policy;
mod read;
mod services;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use crate::object;

/// What stands in a column of one object.
pub(super) type Cell = fn(&Value, Timestamp) -> Value;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) ty: &'static str,
    pub(super) format: &'static str,
    pub(super) description: &'static str,
    /// Above 0: only with `-o wide`.
    pub(super) priority: i64,
    pub(super) cell: Cell,
}

/// A column of text.
const fn column(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        ty: "string",
        format: "",
        description: "",
        priority: 0,
        cell,
    }
}

/// A column of whole numbers.
const fn number(name: &'static str, cell: Cell) -> Column {
    let mut out = column(name, cell);
    out.ty = "integer";
    out
}

/// A column that is shown with `-o wide` only.
const fn wide(name: &'static str, cell: Cell) -> Column {
    let mut out = column(name, cell);
    out.priority = 1;
    out
}

const NAME: Column = Column {
    name: "Name",
    ty: "string",
    format: "name",
    description: "Name must be unique within a namespace.",
    priority: 0,
    cell: |v, _| object::meta(v, "name").into(),
};

const AGE: Column = Column {
    name: "Age",
    ty: "string",
    format: "",
    description: "CreationTimestamp of the object.",
    priority: 0,
    cell: |v, now| age::age(object::meta(v, "creationTimestamp"), now).into(),
};

/// When it was made, where Kubernetes shows the time rather than the age.
const CREATED_AT: Column = Column {
    name: "Created At",
    ty: "date",
    format: "",
    description: "CreationTimestamp of the object.",
    priority: 0,
    cell: |v, _| object::meta(v, "creationTimestamp").into(),
};

/// The columns of a kind; of one with no columns of its own they are Name and Age.
pub(super) fn columns(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Pod") => pods::POD,
        ("", "PodTemplate") => workloads::POD_TEMPLATE,
        ("", "ReplicationController") => workloads::REPLICATION_CONTROLLER,
        ("apps", "ReplicaSet") => workloads::REPLICA_SET,
        ("apps", "Deployment") => workloads::DEPLOYMENT,
        ("apps", "StatefulSet") => workloads::STATEFUL_SET,
        ("apps", "DaemonSet") => workloads::DAEMON_SET,
        ("apps", "ControllerRevision") => workloads::CONTROLLER_REVISION,
        ("batch", "Job") => workloads::JOB,
        ("batch", "CronJob") => workloads::CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::AUTOSCALER,
        ("autoscaling", "Scale") => workloads::SCALE,
        ("", "Service") => services::SERVICE,
        ("", "Endpoints") => services::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => services::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => services::INGRESS,
        ("networking.k8s.io", "IngressClass") => services::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => services::NETWORK_POLICY,
        ("", "ConfigMap") => storage::CONFIG_MAP,
        ("", "Secret") => storage::SECRET,
        ("", "PersistentVolume") => storage::VOLUME,
        ("", "PersistentVolumeClaim") => storage::CLAIM,
        ("storage.k8s.io", "StorageClass") => storage::CLASS,
        ("storage.k8s.io", "VolumeAttachment") => storage::ATTACHMENT,
        ("storage.k8s.io", "CSINode") => storage::CSI_NODE,
        ("", "Event") => events::EVENT,
        ("", "Namespace") => cluster::NAMESPACE,
        ("", "Node") => cluster::NODE,
        ("", "ServiceAccount") => cluster::SERVICE_ACCOUNT,
        ("", "LimitRange")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => &[NAME, CREATED_AT],
        ("", "ResourceQuota") => policy::QUOTA,
        ("apiregistration.k8s.io", "APIService") => cluster::API_SERVICE,
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::SIGNING_REQUEST,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("policy", "PodDisruptionBudget") => policy::DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::BINDING,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => policy::WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policy::ADMISSION_POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => policy::ADMISSION_BINDING,
        _ => &[NAME, AGE],
    }
}
