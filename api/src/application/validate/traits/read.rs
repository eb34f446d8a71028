//! One trait: its properties, and the fields that it sets.

use super::{
    super::{
        container::{MAX_REPLICAS, default_name, port_name, port_number},
        metadata::{key_is_legal, label_value},
        node::{Node, Object, Shape},
    },
    container,
    target::{Sort, Target},
};
use crate::application::{
    ExposeType, FieldPath, Protocol, Setting, TraitService, ValidTrait, WebservicePort,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SCALER: Shape = Shape {
    known: &[&["replicas"]],
    refused: &[],
};
const EXPOSE: Shape = Shape {
    known: &[&["ports", "port", "type", "annotations", "matchLabels"]],
    refused: &[],
};
const PORT: Shape = Shape {
    known: &[&["port", "name", "protocol", "nodePort"]],
    refused: &[],
};

/// Reads a trait of a built-in type.
pub(super) fn read(type_: &'static str, object: &Object<'_>, target: &Target) -> Option<ValidTrait> {
    let properties = |what: &str| object.required("properties", what);
    let mut service = None;
    let settings = match type_ {
        "scaler" => scaler(object, target)?,
        "labels" => labels(&properties("list labels, such as {team: shop}")?, target)?,
        "annotations" => annotations(&properties("list annotations, such as {team: shop}")?, target)?,
        "node-selector" => node_selector(
            &properties("list labels of nodes, such as {disktype: ssd}")?,
            target,
        )?,
        "expose" => {
            service = Some(expose(
                &properties("list the ports, such as {port: [80]}")?,
                object,
                target,
            )?);
            Vec::new()
        }
        "env" => container::env(&properties("set env, such as {env: {LEVEL: debug}}")?, target)?,
        "resource" => container::resource(&properties("set cpu or memory")?, target)?,
        _ => container::sidecar(&properties("set the name and image of the sidecar")?, target)?,
    };
    Some(ValidTrait {
        type_,
        settings,
        service,
    })
}

/// One field and its value.
pub(super) fn set(path: FieldPath, value: Value) -> Setting {
    Setting {
        path,
        value: Some(value),
    }
}

fn scaler(object: &Object<'_>, target: &Target) -> Option<Vec<Setting>> {
    let problem = match (target.sort, target.replicas) {
        (Sort::Job, _) => Some(format!(
            "{} runs to completion and has no replicas: set count in the properties of the component",
            target.title
        )),
        (Sort::DaemonSet, _) => Some(format!(
            "{} runs one pod on each node and has no replicas: choose nodes with node-selector",
            target.title
        )),
        (Sort::Replicated, Some(property)) => Some(format!(
            "scaler sets spec.replicas, and {property} of the component does so too: leave one of them out"
        )),
        (Sort::Replicated, None) => None,
    };
    if let Some(problem) = problem {
        object.refuse(problem);
        return None;
    }
    // KubeVela's default.
    let replicas = match object.optional("properties") {
        None => 1,
        Some(properties) => match properties.object(&SCALER)?.optional("replicas") {
            None => 1,
            Some(node) => node.integer(0, MAX_REPLICAS)?,
        },
    };
    Some(vec![set(FieldPath::of(&["spec", "replicas"]), json!(replicas))])
}

/// Where labels or annotations go: to the workload, to its pods, and to the Jobs between them.
fn metadata_of(target: &Target, field: &str, key: &str) -> Vec<FieldPath> {
    let mut paths = vec![FieldPath::of(&["metadata", field, key])];
    if target.makes_jobs {
        paths.push(FieldPath::of(&["spec", "jobTemplate", "metadata", field, key]));
    }
    paths.push(target.in_template(&["metadata", field, key]));
    paths
}

/// A map of keys to strings, or to `null`, which removes the key.
fn metadata(
    properties: &Node<'_>,
    field: &str,
    target: &Target,
    is_legal: impl Fn(&Node<'_>, &str, Option<&str>) -> bool,
) -> Option<Vec<Setting>> {
    let entries = properties.entries()?;
    if entries.is_empty() {
        properties.refuse("is empty, so that it changes nothing: leave the trait out");
        return None;
    }
    let mut settings = Vec::new();
    let mut legal = true;
    for (key, node) in entries {
        let value = match node.value {
            Value::Null => None,
            _ => match node.string() {
                Some(value) => Some(value),
                None => {
                    legal = false;
                    continue;
                }
            },
        };
        if !key_is_legal(&node, key) || !is_legal(&node, key, value) {
            legal = false;
            continue;
        }
        settings.extend(metadata_of(target, field, key).into_iter().map(|path| Setting {
            path,
            value: value.map(Value::from),
        }));
    }
    legal.then_some(settings)
}

fn labels(properties: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    metadata(properties, "labels", target, |node, key, value| {
        if let Some(wanted) = target.selector.get(key)
            && value != Some(wanted)
        {
            node.refuse(format!(
                "{} finds its pods by {key}={wanted} (spec.selector), so that this label cannot be changed: choose another \
                 key",
                target.title
            ));
            return false;
        }
        value.is_none_or(|value| label_value(node, value))
    })
}

fn annotations(properties: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    metadata(properties, "annotations", target, |_, _, _| true)
}

fn node_selector(properties: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    let entries = properties.entries()?;
    if entries.is_empty() {
        properties.refuse("is empty, so that it changes nothing: leave the trait out");
        return None;
    }
    let settings: Vec<Option<Setting>> = entries
        .iter()
        .map(|(key, node)| {
            let value = node.string()?;
            let legal = key_is_legal(node, key) && label_value(node, value);
            legal.then(|| set(target.in_template(&["spec", "nodeSelector", key]), json!(value)))
        })
        .collect();
    settings.into_iter().collect()
}

fn expose(properties: &Node<'_>, whole: &Object<'_>, target: &Target) -> Option<TraitService> {
    let object = properties.object(&EXPOSE)?;
    let component = &target.component;
    if target.sort == Sort::Job {
        whole.refuse(format!(
            "{} runs to completion, and a Service leads to pods that stay: use it with a webservice or worker",
            target.title
        ));
        return None;
    }
    if component.starts_with(|c: char| c.is_ascii_digit()) {
        whole.refuse(format!(
            "expose adds a Service named like the component, {component:?}, whose name has to start with a letter: rename the \
             component"
        ));
        return None;
    }
    if target.services.contains(component) {
        whole.refuse(format!(
            "expose adds Service {component:?}, which the component has already: list all ports in one of them"
        ));
        return None;
    }
    let expose_type = object
        .optional("type")
        .map(|node| {
            node.word(&[
                ("ClusterIP", ExposeType::ClusterIp),
                ("NodePort", ExposeType::NodePort),
                ("LoadBalancer", ExposeType::LoadBalancer),
            ])
        })
        .unwrap_or(Some(ExposeType::default()));
    let annotations = super::super::metadata::annotations(&object, "annotations");
    let selector = match object.optional("matchLabels") {
        Some(_) => super::super::metadata::labels(&object, "matchLabels"),
        None => target.selector.clone(),
    };
    if selector.is_empty() {
        object.refuse(format!(
            "set matchLabels, the labels of the pods: {} has no spec.selector.matchLabels to take them from",
            target.title
        ));
        return None;
    }
    let ports = ports(&object, expose_type.unwrap_or_default())?;
    Some(TraitService {
        selector,
        ports,
        expose_type: expose_type?,
        annotations,
    })
}

fn ports(object: &Object<'_>, expose_type: ExposeType) -> Option<Vec<WebservicePort>> {
    let old = object.optional("port");
    if let (Some(node), Some(_)) = (&old, object.optional("ports")) {
        node.refuse("cannot be used beside ports: list it there");
        return None;
    }
    let entries = old
        .as_ref()
        .map_or_else(|| object.list("ports"), |_| object.list("port"));
    if entries.is_empty() {
        // A value that is no list was refused already.
        let written = object.optional("ports").or(old);
        if written.is_none_or(|node| node.value.is_array()) {
            object.refuse("exposes nothing: list ports, such as [{port: 80}]");
        }
        return None;
    }
    let read: Vec<Option<WebservicePort>> = entries
        .iter()
        .map(|node| match old {
            Some(_) => port_number(node).map(|port| named_port(port, None, Protocol::Tcp, None)),
            None => port(node, expose_type),
        })
        .collect();
    let ports = read.into_iter().collect::<Option<Vec<_>>>()?;
    let (mut taken, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (node, port) in entries.iter().zip(&ports) {
        if !taken.insert((port.port, port.protocol)) {
            node.refuse(format!(
                "port {}/{} is listed twice",
                port.port,
                port.protocol.as_str()
            ));
            return None;
        }
        if !names.insert(port.name.clone()) {
            let name = port.name.as_deref().unwrap_or_default();
            node.refuse(format!(
                "port name {name:?} is used twice: give each port its own name"
            ));
            return None;
        }
    }
    Some(ports)
}

fn port(node: &Node<'_>, expose_type: ExposeType) -> Option<WebservicePort> {
    let object = node.object(&PORT)?;
    let protocol = match object.optional("protocol") {
        None => Protocol::Tcp,
        Some(node) => node.word(&[
            ("TCP", Protocol::Tcp),
            ("UDP", Protocol::Udp),
            ("SCTP", Protocol::Sctp),
        ])?,
    };
    let name = match object.optional("name") {
        None => None,
        Some(node) => Some(port_name(&node)?),
    };
    let node_port = match object.optional("nodePort") {
        None => None,
        Some(node) if expose_type == ExposeType::ClusterIp => {
            node.refuse("needs type: NodePort or LoadBalancer");
            return None;
        }
        Some(node) => Some(port_number(&node)?),
    };
    let port = port_number(&object.required("port", "give the port a number")?)?;
    Some(named_port(port, name, protocol, node_port))
}

fn named_port(port: u16, name: Option<String>, protocol: Protocol, node_port: Option<u16>) -> WebservicePort {
    WebservicePort {
        port,
        container_port: port,
        name: Some(name.unwrap_or_else(|| default_name(port, protocol))),
        protocol,
        expose: true,
        node_port,
    }
}

/// Names of a list for a message.
pub(super) fn listed<'v>(names: impl Iterator<Item = &'v str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The entries of a map, as text.
pub(super) fn strings(node: &Node<'_>) -> Option<BTreeMap<String, String>> {
    let entries = node.entries()?;
    let texts: Vec<Option<(String, String)>> = entries
        .iter()
        .map(|(key, node)| Some(((*key).to_owned(), node.string()?.to_owned())))
        .collect();
    texts.into_iter().collect()
}
