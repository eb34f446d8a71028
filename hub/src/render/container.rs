//! `webservice` and `worker`: the Deployment and Service that KubeVela's definitions of these names render; and the pod
//! template that all types with one container share.

use roundhouse_api::{
    application::{ExposeType, WebservicePort, WebserviceProperties, WorkerProperties},
    names::label,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A Deployment, and a Service if a port is exposed.
pub(super) fn webservice(name: &str, properties: &WebserviceProperties) -> Vec<Value> {
    let mut manifests = vec![deployment(name, &properties.worker, &properties.ports)];
    let exposed: Vec<&WebservicePort> = properties.ports.iter().filter(|port| port.expose).collect();
    if !exposed.is_empty() {
        manifests.push(service(name, properties.expose_type, &selector(name), &exposed));
    }
    manifests
}

/// A Deployment without ports.
pub(super) fn worker(name: &str, properties: &WorkerProperties) -> Value {
    deployment(name, properties, &[])
}

/// A Service of this name.
pub(super) fn service(name: &str, type_: ExposeType, selector: &Value, ports: &[&WebservicePort]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| service_port(port)).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": type_.as_str(), "selector": selector, "ports": ports},
    })
}

fn deployment(name: &str, properties: &WorkerProperties, ports: &[WebservicePort]) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, properties),
        "spec": {
            "replicas": properties.replicas.unwrap_or(1),
            "selector": {"matchLabels": selector(name)},
            "template": template(name, properties, ports),
        },
    })
}

/// Metadata of a workload.
pub(super) fn metadata(name: &str, properties: &WorkerProperties) -> Map<String, Value> {
    let mut metadata = object(json!({"name": name}));
    set_map(&mut metadata, "labels", &properties.labels);
    set_map(&mut metadata, "annotations", &properties.annotations);
    metadata
}

/// Metadata of what a workload makes: Jobs and pods.
pub(super) fn template_metadata(name: &str, properties: &WorkerProperties) -> Map<String, Value> {
    let mut labels = properties.labels.clone();
    labels.insert(label::COMPONENT.to_owned(), name.to_owned());
    let mut metadata = Map::new();
    set_map(&mut metadata, "labels", &labels);
    set_map(&mut metadata, "annotations", &properties.annotations);
    metadata
}

/// The pod template.
pub(super) fn template(name: &str, properties: &WorkerProperties, ports: &[WebservicePort]) -> Value {
    json!({"metadata": template_metadata(name, properties), "spec": pod(name, properties, ports)})
}

fn pod(name: &str, properties: &WorkerProperties, ports: &[WebservicePort]) -> Map<String, Value> {
    let mut pod = object(json!({"containers": [container(name, properties, ports)]}));
    set_list(&mut pod, "volumes", properties.volumes.clone());
    set_list(&mut pod, "hostAliases", properties.host_aliases.clone());
    let secrets = properties
        .image_pull_secrets
        .iter()
        .map(|name| json!({"name": name}));
    set_list(&mut pod, "imagePullSecrets", secrets.collect());
    pod
}

fn container(name: &str, properties: &WorkerProperties, ports: &[WebservicePort]) -> Map<String, Value> {
    let mut container = object(json!({"name": name, "image": properties.image}));
    if let Some(policy) = properties.image_pull_policy {
        container.insert("imagePullPolicy".to_owned(), json!(policy.as_str()));
    }
    let words = |words: &[String]| words.iter().map(|word| json!(word)).collect();
    set_list(&mut container, "command", words(&properties.cmd));
    set_list(&mut container, "args", words(&properties.args));
    set_list(&mut container, "env", properties.env.clone());
    set_list(&mut container, "ports", container_ports(ports));
    set_list(&mut container, "volumeMounts", properties.volume_mounts.clone());
    let amounts: Map<String, Value> = [("cpu", &properties.cpu), ("memory", &properties.memory)]
        .into_iter()
        .filter_map(|(resource, amount)| Some((resource.to_owned(), json!(amount.as_ref()?))))
        .collect();
    if !amounts.is_empty() {
        container.insert(
            "resources".to_owned(),
            json!({"limits": amounts, "requests": amounts}),
        );
    }
    for (field, probe) in [
        ("livenessProbe", &properties.liveness_probe),
        ("readinessProbe", &properties.readiness_probe),
    ] {
        if let Some(probe) = probe {
            container.insert(field.to_owned(), probe.clone());
        }
    }
    container
}

/// Several ports of the Service may lead to one of the container: Kubernetes merges container ports by number and
/// protocol, so each is listed once.
fn container_ports(ports: &[WebservicePort]) -> Vec<Value> {
    let mut seen = std::collections::BTreeSet::new();
    let distinct = ports
        .iter()
        .filter(|port| seen.insert((port.container_port, port.protocol)));
    distinct
        .map(|port| {
            let mut entry = json!({"containerPort": port.container_port, "protocol": port.protocol.as_str()});
            set_name(&mut entry, port);
            entry
        })
        .collect()
}

fn service_port(port: &WebservicePort) -> Value {
    let mut entry = json!({
        "port": port.port,
        "targetPort": port.container_port,
        "protocol": port.protocol.as_str(),
    });
    set_name(&mut entry, port);
    if let (Some(node_port), Some(entry)) = (port.node_port, entry.as_object_mut()) {
        entry.insert("nodePort".to_owned(), json!(node_port));
    }
    entry
}

fn set_name(entry: &mut Value, port: &WebservicePort) {
    if let (Some(name), Some(entry)) = (&port.name, entry.as_object_mut()) {
        entry.insert("name".to_owned(), json!(name));
    }
}

fn selector(name: &str) -> Value {
    json!({label::COMPONENT: name})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(super) fn set_map(target: &mut Map<String, Value>, field: &str, entries: &BTreeMap<String, String>) {
    if !entries.is_empty() {
        target.insert(field.to_owned(), json!(entries));
    }
}

fn set_list(target: &mut Map<String, Value>, field: &str, entries: Vec<Value>) {
    if !entries.is_empty() {
        target.insert(field.to_owned(), Value::Array(entries));
    }
}
