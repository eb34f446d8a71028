//! The properties of `webservice` and `worker`, and what other types have of them, with the names and meanings that KubeVela's users know.

use super::{
    kubernetes, metadata,
    node::{Node, Object, Shape},
    volumes,
};
use crate::application::{
    ExposeType, ImagePullPolicy, Protocol, WebservicePort, WebserviceProperties, WorkerProperties,
};
use crate::quantity::is_quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// Replicas are an `int32` in Kubernetes.
pub(super) const MAX_REPLICAS: u32 = 2_147_483_647;
const NO_PORTS: &str = "a worker has no ports: use the type webservice";
const NO_REVISION_LABEL: &str = "addRevisionLabel is not supported: a label that changes with every revision restarts \
                                 the pods; revisions are labelled on the workload";

/// The container of every type with one, between what tells the types apart.
pub(super) const CONTAINER: [&str; 5] = ["cmd", "args", "env", "cpu", "memory"];
/// Its pod.
pub(super) const POD: [&str; 9] = [
    "volumes",
    "volumeMounts",
    "livenessProbe",
    "readinessProbe",
    "labels",
    "annotations",
    "imagePullPolicy",
    "imagePullSecrets",
    "hostAliases",
];
const WORKER: Shape = Shape {
    known: &[&["image"], &CONTAINER, &["replicas"], &POD],
    refused: &[
        ("port", NO_PORTS),
        ("ports", NO_PORTS),
        ("exposeType", NO_PORTS),
        ("addRevisionLabel", NO_REVISION_LABEL),
    ],
};
const WEBSERVICE: Shape = Shape {
    known: &[
        &["image", "ports", "port", "exposeType"],
        &CONTAINER,
        &["replicas"],
        &POD,
        &["addRevisionLabel"],
    ],
    refused: &[],
};
const PORT: Shape = Shape {
    known: &[&["port", "containerPort", "name", "protocol", "expose", "nodePort"]],
    refused: &[],
};

/// Reads the properties of a `worker`; what was refused has been noted.
pub(super) fn worker(properties: &Node<'_>) -> Option<WorkerProperties> {
    Some(common(&properties.object(&WORKER)?))
}

/// Reads the properties of a `webservice`; what was refused has been noted.
pub(super) fn webservice(properties: &Node<'_>) -> Option<WebserviceProperties> {
    let object = properties.object(&WEBSERVICE)?;
    let expose_type = object
        .optional("exposeType")
        .and_then(|node| {
            node.word(&[
                ("ClusterIP", ExposeType::ClusterIp),
                ("NodePort", ExposeType::NodePort),
                ("LoadBalancer", ExposeType::LoadBalancer),
            ])
        })
        .unwrap_or_default();
    // KubeVela's default, written out.
    if let Some(node) = object
        .optional("addRevisionLabel")
        .filter(|node| *node.value != Value::Bool(false))
    {
        node.refuse(NO_REVISION_LABEL);
    }
    let mut ports = ports(&object, expose_type);
    if let Some(node) = object.optional("port") {
        let port = port_number(&node);
        if object.optional("ports").is_some() {
            node.refuse("cannot be used beside ports: list it there");
        } else if let Some(port) = port {
            ports.push(WebservicePort {
                port,
                container_port: port,
                ..WebservicePort::default()
            });
        }
    }
    Some(WebserviceProperties {
        worker: common(&object),
        ports,
        expose_type,
    })
}

pub(super) fn common(object: &Object<'_>) -> WorkerProperties {
    let (volumes, volume_mounts) = volumes::read(object);
    let image = object.required("image", "name a container image");
    WorkerProperties {
        image: image.and_then(|node| node.text()).unwrap_or_default().to_owned(),
        cmd: strings(object, "cmd"),
        args: strings(object, "args"),
        env: env(object),
        cpu: quantity(object, "cpu"),
        memory: quantity(object, "memory"),
        replicas: object
            .optional("replicas")
            .and_then(|node| node.integer(0, MAX_REPLICAS)),
        volumes,
        volume_mounts,
        liveness_probe: probe(object, "livenessProbe"),
        readiness_probe: probe(object, "readinessProbe"),
        labels: metadata::labels(object, "labels"),
        annotations: metadata::annotations(object, "annotations"),
        image_pull_policy: object.optional("imagePullPolicy").and_then(|node| {
            node.word(&[
                ("Always", ImagePullPolicy::Always),
                ("IfNotPresent", ImagePullPolicy::IfNotPresent),
                ("Never", ImagePullPolicy::Never),
            ])
        }),
        image_pull_secrets: texts(object, "imagePullSecrets"),
        host_aliases: checked(&object.list("hostAliases"), &kubernetes::HOST_ALIAS),
    }
}

pub(super) fn strings(object: &Object<'_>, name: &str) -> Vec<String> {
    object
        .optional(name)
        .and_then(|node| node.strings())
        .unwrap_or_default()
}

fn texts(object: &Object<'_>, name: &str) -> Vec<String> {
    let texts = object.list(name);
    texts.iter().filter_map(Node::text).map(str::to_owned).collect()
}

/// Entries of a Kubernetes type, as they were written.
pub(super) fn checked(entries: &[Node<'_>], schema: &Value) -> Vec<Value> {
    for entry in entries {
        kubernetes::check(entry, schema);
    }
    entries.iter().map(|entry| entry.value.clone()).collect()
}

pub(super) fn env(object: &Object<'_>) -> Vec<Value> {
    let entries = object.list("env");
    let mut names = BTreeSet::new();
    for entry in &entries {
        let Some(name) = entry.value.get("name").and_then(Value::as_str) else {
            continue;
        };
        let node = entry.child("name", &Value::Null);
        if name.is_empty() {
            node.refuse("is empty");
        } else if !names.insert(name) {
            node.refuse(format!("environment variable {name:?} is set twice"));
        }
    }
    checked(&entries, &kubernetes::ENV)
}

pub(super) fn quantity(object: &Object<'_>, name: &str) -> Option<String> {
    let node = object.optional(name)?;
    let text = node.string()?;
    if text.starts_with('-') || !is_quantity(text) {
        node.refuse(format!(
            "{text:?} is not a Kubernetes quantity: write a number with an optional suffix, such as \"500m\", \"0.5\" or \
             \"128Mi\""
        ));
    }
    Some(text.to_owned())
}

pub(super) fn probe(object: &Object<'_>, name: &str) -> Option<Value> {
    let node = object.optional(name)?;
    kubernetes::check(&node, &kubernetes::PROBE);
    Some(node.value.clone())
}

pub(super) fn port_number(node: &Node<'_>) -> Option<u16> {
    node.integer(1, 65_535).and_then(|port| u16::try_from(port).ok())
}

fn ports(object: &Object<'_>, expose_type: ExposeType) -> Vec<WebservicePort> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut ports = Vec::new();
    for node in object.list("ports") {
        let Some(port) = port(&node, expose_type) else {
            continue;
        };
        let protocol = port.protocol.as_str();
        if !taken.insert((port.port, port.protocol)) {
            node.refuse(format!("port {}/{protocol} is listed twice", port.port));
        } else if let Some(name) = &port.name
            && !names.insert(name.clone())
        {
            node.refuse(format!(
                "port name {name:?} is used twice: give each port its own name"
            ));
        }
        ports.push(port);
    }
    ports
}

fn port(node: &Node<'_>, expose_type: ExposeType) -> Option<WebservicePort> {
    let object = node.object(&PORT)?;
    let expose = object
        .optional("expose")
        .and_then(|node| node.boolean())
        .unwrap_or_default();
    let protocol = object.optional("protocol").and_then(|node| {
        node.word(&[
            ("TCP", Protocol::Tcp),
            ("UDP", Protocol::Udp),
            ("SCTP", Protocol::Sctp),
        ])
    });
    let container_port = object.optional("containerPort").map(|node| port_number(&node));
    let name = object.optional("name").map(|node| port_name(&node));
    let node_port = object.optional("nodePort").map(|node| {
        if expose_type == ExposeType::ClusterIp {
            node.refuse("needs exposeType: NodePort or LoadBalancer");
        } else if !expose {
            node.refuse("needs expose: true");
        }
        port_number(&node)
    });
    let port = port_number(&object.required("port", "give the port a number")?)?;
    let protocol = protocol.unwrap_or_default();
    Some(WebservicePort {
        port,
        container_port: container_port.flatten().unwrap_or(port),
        name: Some(name.flatten().unwrap_or_else(|| default_name(port, protocol))),
        protocol,
        expose,
        node_port: node_port.flatten(),
    })
}

/// KubeVela's default: `port-80`, `port-53-udp`.
pub(super) fn default_name(port: u16, protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => format!("port-{port}"),
        Protocol::Udp => format!("port-{port}-udp"),
        Protocol::Sctp => format!("port-{port}-sctp"),
    }
}

/// Kubernetes wants an IANA service name (RFC 6335): at most 15 characters, one of them a letter.
pub(super) fn port_name(node: &Node<'_>) -> Option<String> {
    let name = node.string()?;
    let legal = crate::names::check_dns_label("port name", name, 15).is_ok()
        && name.bytes().any(|b| b.is_ascii_lowercase())
        && !name.contains("--");
    if !legal {
        node.refuse(format!(
            "{name:?} is not a port name: use at most 15 lower-case letters, digits and single '-', with at least one letter"
        ));
        return None;
    }
    Some(name.to_owned())
}
