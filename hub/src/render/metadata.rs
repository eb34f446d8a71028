//! What every rendered manifest carries in its metadata, whatever its kind.

use roundhouse_api::names::label;
use serde_json::{Map, Value};

/// Kinds without a namespace, by group. Custom kinds are not here: the member's discovery knows them, and its agent
/// leaves the namespace out.
const CLUSTER_SCOPED: [(&str, &[&str]); 14] = [
    ("", &["Namespace", "Node", "PersistentVolume", "ComponentStatus"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["IngressClass", "IPAddress", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodSecurityPolicy"]),
    (
        "rbac.authorization.k8s.io",
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "resource.k8s.io",
        &["DeviceClass", "DeviceTaintRule", "ResourceSlice"],
    ),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

/// Kinds that run pods, by group: they are `WORKLOAD`, everything else is `TRAIT` (seed: apply-once-only).
const WORKLOADS: [(&str, &[&str]); 4] = [
    ("", &["Pod", "ReplicationController"]),
    ("apps", &["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"]),
    ("batch", &["Job", "CronJob"]),
    (
        "apps.kruise.io",
        &[
            "CloneSet",
            "StatefulSet",
            "DaemonSet",
            "BroadcastJob",
            "AdvancedCronJob",
        ],
    ),
];

/// Group and kind of a manifest; `None` if it does not say.
pub(super) fn group_kind(manifest: &Value) -> Option<(&str, &str)> {
    let api_version = manifest.get("apiVersion")?.as_str()?;
    let kind = manifest.get("kind")?.as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some((group, kind))
}

/// A string of `metadata`; empty counts as absent, as in Kubernetes.
pub(super) fn field<'a>(manifest: &'a Value, name: &str) -> Option<&'a str> {
    let text = manifest.get("metadata")?.get(name)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The component that a manifest is rendered from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// Namespace of the application.
    pub(super) namespace: &'a str,
    /// Name of the application.
    pub(super) app: &'a str,
    /// Name of the component.
    pub(super) component: &'a str,
    /// Type of the component.
    pub(super) component_type: &'a str,
}

/// Adds namespace and labels. A manifest that is malformed where they belong is left as it is.
pub(super) fn complete(manifest: &mut Value, origin: Origin<'_>) {
    let labels = [
        (label::APP_NAME, origin.app),
        (label::APP_NAMESPACE, origin.namespace),
        (label::COMPONENT, origin.component),
        (label::COMPONENT_TYPE, origin.component_type),
    ];
    add(manifest, origin.namespace, &labels);
}

/// Adds the namespace where it has to have one and names none, and labels with the resource type behind them.
pub(super) fn add(manifest: &mut Value, namespace: &str, labels: &[(&str, &str)]) {
    let group_kind = group_kind(manifest);
    let cluster_scoped = group_kind.is_some_and(|of| is_in(&CLUSTER_SCOPED, of));
    let resource_type = if group_kind.is_some_and(|of| is_in(&WORKLOADS, of)) {
        label::WORKLOAD
    } else {
        label::TRAIT
    };
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let unset = match metadata.get("namespace") {
        None | Some(Value::Null) => true,
        Some(value) => value == "",
    };
    if unset && !cluster_scoped {
        metadata.insert("namespace".to_owned(), Value::from(namespace));
    }
    insert(metadata, "labels", labels);
    insert(metadata, "labels", &[(label::RESOURCE_TYPE, resource_type)]);
}

/// Sets entries of the map `field` of `metadata`, unless what is there is no map.
pub(super) fn insert(metadata: &mut Map<String, Value>, field: &str, entries: &[(&str, &str)]) {
    let map = metadata.entry(field).or_insert(Value::Null);
    if map.is_null() {
        *map = Value::Object(Map::new());
    }
    if let Some(map) = map.as_object_mut() {
        for (key, value) in entries {
            map.insert((*key).to_owned(), Value::from(*value));
        }
    }
}

fn is_in(table: &[(&str, &[&str])], (group, kind): (&str, &str)) -> bool {
    table
        .iter()
        .any(|(g, kinds)| *g == group && kinds.contains(&kind))
}
