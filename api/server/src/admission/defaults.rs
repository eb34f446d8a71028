//! Defaults of built-in kinds a bundle usually carries (`SetDefaults_*` and strategies in Kubernetes).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{pod, workload};
use crate::{
    kinds::Resource,
    object::{self, child},
};

/// Shorthand: sets what is absent.
pub(super) fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    map.entry(key).or_insert_with(|| value.into());
}

/// Fills in the defaults of a built-in object. `old` is the stored one on update.
pub(crate) fn set_defaults(
    resource: &Resource,
    value: &mut Value,
    old: Option<&Value>,
    bits: impl Fn() -> u64,
) {
    let name = object::meta(value, "name").to_owned();
    let Some(map) = value.as_object_mut() else { return };
    match (&*resource.group, &*resource.kind) {
        ("apps", "Deployment") => workload::deployment(map),
        ("apps", "StatefulSet") => workload::stateful_set(map),
        ("apps", "DaemonSet") => workload::daemon_set(map, old),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workload::replica_set(map),
        ("batch", "Job") => workload::job(map, old),
        ("batch", "CronJob") => workload::cron_job(map),
        ("", "Pod") => pod::pod(map, old.is_none()),
        ("", "PodTemplate") => pod::template(map, "template"),
        ("", "Service") => service(map, old, bits),
        ("", "Secret") => secret(map),
        ("", "Namespace") => namespace(map, &name, old.is_none()),
        ("", "PersistentVolumeClaim") => {
            if let Some(spec) = child(map, "spec") {
                default(spec, "volumeMode", "Filesystem");
            }
            status(map, json!({"phase": "Pending"}));
        }
        ("", "PersistentVolume") => {
            if let Some(spec) = child(map, "spec") {
                default(spec, "persistentVolumeReclaimPolicy", "Retain");
                default(spec, "volumeMode", "Filesystem");
            }
            status(map, json!({"phase": "Pending"}));
        }
        ("autoscaling", _) => {
            if let Some(spec) = child(map, "spec") {
                default(spec, "minReplicas", 1);
                // Of version 1 the use of the CPU is a field: the conversion knows its default.
                if &*resource.version == "v2" {
                    default(spec, "metrics", json!([cpu_in_use(80)]));
                }
            }
        }
        ("coordination.k8s.io", "Lease") => default(map, "spec", json!({})),
        ("policy", "PodDisruptionBudget") => {
            let counts = [
                "currentHealthy",
                "desiredHealthy",
                "disruptionsAllowed",
                "expectedPods",
            ];
            zeros(map, &counts);
        }
        ("", "Endpoints") => {
            for part in objects(map, "subsets") {
                protocols(part, "ports");
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => protocols(map, "ports"),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(map),
        ("networking.k8s.io", "Ingress") => status(map, json!({"loadBalancer": {}})),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(map),
        ("storage.k8s.io", "StorageClass") => {
            default(map, "reclaimPolicy", "Delete");
            default(map, "volumeBindingMode", "Immediate");
        }
        ("scheduling.k8s.io", "PriorityClass") => default(map, "preemptionPolicy", "PreemptLowerPriority"),
        ("admissionregistration.k8s.io", _) => webhooks(map),
        _ => {}
    }
    if resource.status && !matches!(&*resource.kind, "Namespace" | "Node") {
        default(map, "status", json!({}));
    }
}

/// The objects of a list.
pub(super) fn objects<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    let list = map.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Counts of the status that are there from the beginning.
pub(super) fn zeros(map: &mut Map<String, Value>, counts: &[&str]) {
    if let Some(status) = child(map, "status") {
        for count in counts {
            default(status, count, 0);
        }
    }
}

/// Ports are of TCP unless they say otherwise.
fn protocols(map: &mut Map<String, Value>, key: &str) {
    for port in objects(map, key) {
        default(port, "protocol", "TCP");
    }
}

/// The metric that an autoscaler goes by if it names none.
pub(crate) fn cpu_in_use(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn status(map: &mut Map<String, Value>, value: Value) {
    default(map, "status", value);
}

fn namespace(map: &mut Map<String, Value>, name: &str, new: bool) {
    if let Some(labels) = child(map, "metadata").and_then(|m| child(m, "labels")) {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
    if new {
        if let Some(spec) = child(map, "spec") {
            spec.insert("finalizers".into(), json!(["kubernetes"]));
        }
        map.insert("status".into(), json!({"phase": "Active"}));
    }
}

fn secret(map: &mut Map<String, Value>) {
    if let Some(Value::Object(plain)) = map.remove("stringData")
        && let Some(encoded) = child(map, "data")
    {
        for (key, v) in plain {
            encoded.insert(key, STANDARD.encode(v.as_str().unwrap_or_default()).into());
        }
    }
    default(map, "type", "Opaque");
}

fn service(map: &mut Map<String, Value>, old: Option<&Value>, bits: impl Fn() -> u64) {
    let old_spec = old.and_then(|o| o.get("spec"));
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "sessionAffinity", "None");
    if spec.get("sessionAffinity") == Some(&"ClientIP".into()) {
        default(
            spec,
            "sessionAffinityConfig",
            json!({"clientIP": {"timeoutSeconds": 10_800}}),
        );
    }
    default(spec, "type", "ClusterIP");
    let ty = spec
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Some(old) = old_spec.and_then(Value::as_object) {
        drop_other_types(spec, old, &ty);
    }
    if ty != "ExternalName" {
        let blank = |v: Option<&Value>| v.is_none_or(|v| v.is_null() || v == "");
        if blank(spec.get("clusterIP")) {
            // What was allocated stays; a new one comes from 10.96.0.0/12.
            let kept = old_spec.and_then(|s| s.get("clusterIP")).cloned();
            spec.insert(
                "clusterIP".into(),
                kept.unwrap_or_else(|| cluster_ip(bits()).into()),
            );
        }
        let ip = spec.get("clusterIP").cloned().unwrap_or_default();
        let stale = spec.get("clusterIPs").is_none_or(Value::is_null);
        if stale {
            spec.insert("clusterIPs".into(), json!([ip]));
        }
        default(spec, "ipFamilies", json!(["IPv4"]));
        default(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if ty == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    for (i, port) in objects(spec, "ports").enumerate() {
        default(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
        if matches!(ty.as_str(), "NodePort" | "LoadBalancer") {
            let same =
                |p: &&Value| p.get("port") == port.get("port") && p.get("protocol") == port.get("protocol");
            let old_ports = old_spec.and_then(|s| s.get("ports")).and_then(Value::as_array);
            let kept = old_ports
                .into_iter()
                .flatten()
                .find(same)
                .and_then(|p| p.get("nodePort"))
                .cloned();
            let fresh = || 30_000 + bits().wrapping_add(i as u64) % 2_768;
            port.entry("nodePort")
                .or_insert_with(|| kept.unwrap_or_else(|| fresh().into()));
        }
    }
    map.entry("status").or_insert_with(|| json!({"loadBalancer": {}}));
}

/// Takes away what only the type before had a use for, unless it was changed as well (`dropTypeDependentFields` of Kubernetes).
fn drop_other_types(spec: &mut Map<String, Value>, old: &Map<String, Value>, ty: &str) {
    let before = old.get("type").and_then(Value::as_str).unwrap_or_default();
    let mut unused = |fields: &[&str]| {
        if fields.iter().all(|field| spec.get(*field) == old.get(*field)) {
            for field in fields {
                spec.remove(*field);
            }
        }
    };
    if before != "ExternalName" && ty == "ExternalName" {
        unused(&["clusterIP", "clusterIPs"]);
        unused(&["ipFamilies"]);
        unused(&["ipFamilyPolicy"]);
    }
    let is_open = |ty: &str| matches!(ty, "NodePort" | "LoadBalancer");
    if before == "LoadBalancer" && ty != "LoadBalancer" {
        unused(&["allocateLoadBalancerNodePorts"]);
        unused(&["loadBalancerClass"]);
    }
    if !is_open(before) || is_open(ty) {
        return;
    }
    unused(&["externalTrafficPolicy"]);
    let node_ports = |spec: &Map<String, Value>| -> Vec<Value> {
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        ports
            .map(|port| port.get("nodePort").cloned().unwrap_or_default())
            .collect()
    };
    if node_ports(spec) == node_ports(old) {
        for port in objects(spec, "ports") {
            port.remove("nodePort");
        }
    }
}

fn cluster_ip(bits: u64) -> String {
    let [a, b, c, ..] = bits.to_be_bytes();
    format!("10.{}.{}.{}", 96 + a % 16, b, c.clamp(2, 254))
}

fn network_policy(map: &mut Map<String, Value>) {
    let Some(spec) = child(map, "spec") else { return };
    let types = if spec.contains_key("egress") {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    default(spec, "policyTypes", types);
    default(spec, "podSelector", json!({}));
    for direction in ["ingress", "egress"] {
        for rule in objects(spec, direction) {
            protocols(rule, "ports");
        }
    }
}

fn binding(map: &mut Map<String, Value>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = child(map, "roleRef") {
        default(role, "apiGroup", GROUP);
    }
    for subject in objects(map, "subjects") {
        let kind = subject.get("kind").and_then(Value::as_str);
        if matches!(kind, Some("User" | "Group")) {
            default(subject, "apiGroup", GROUP);
        }
    }
}

fn webhooks(map: &mut Map<String, Value>) {
    for hook in objects(map, "webhooks") {
        default(hook, "failurePolicy", "Fail");
        default(hook, "matchPolicy", "Equivalent");
        default(hook, "namespaceSelector", json!({}));
        default(hook, "objectSelector", json!({}));
        default(hook, "timeoutSeconds", 10);
    }
}
