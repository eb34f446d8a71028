//! `spec.components`.

use super::{
    container::{self, MAX_REPLICAS},
    node::{Node, Object, Shape},
    task, traits,
};
use crate::application::{ComponentKind, ObjectsProperties, ValidComponent};
use crate::bundle::MAX_MANIFEST_BYTES;
use serde_json::Value;
use std::collections::BTreeSet;

const COMPONENT: Shape = Shape {
    known: &[&["name", "type", "properties", "traits"]],
    refused: &[
        (
            "dependsOn",
            "dependsOn is not supported yet: use several applications or steps",
        ),
        (
            "inputs",
            "inputs are not supported yet: write the values into the properties",
        ),
        ("outputs", "outputs are not supported yet"),
        ("scopes", "scopes are not supported"),
        ("externalRevision", "externalRevision is not supported yet"),
        ("replicaKey", "replicaKey is not supported yet"),
    ],
};
const OBJECTS: Shape = Shape {
    known: &[&["objects"]],
    refused: &[(
        "urls",
        "urls is not supported yet: put the manifests into objects",
    )],
};

/// Component types that are built in.
pub(super) const TYPES: [&str; 5] = ["k8s-objects", "webservice", "worker", "task", "cron-task"];
/// Component types that KubeVela's users know.
const KNOWN_ELSEWHERE: [&str; 9] = [
    "daemon",
    "statefulset",
    "statefulservice",
    "helm",
    "helmchart",
    "kustomize",
    "raw",
    "ref-objects",
    "addon",
];

/// Reads all components.
pub(super) fn read_all(spec: &Object<'_>) -> Vec<ValidComponent> {
    let what =
        "list at least one component, such as {name: web, type: webservice, properties: {image: nginx}}";
    let Some(node) = spec.required("components", what) else {
        return Vec::new();
    };
    let list = node.list().unwrap_or_default();
    if node.value.as_array().is_some_and(Vec::is_empty) {
        node.refuse(format!("is empty: {what}"));
    }
    let mut names = BTreeSet::new();
    list.iter()
        .filter_map(|component| read(component, &mut names))
        .collect()
}

/// The names of the components as they are written, for those who refer to them.
pub(super) fn names<'a>(spec: &Object<'a>) -> Vec<&'a str> {
    let list = spec.optional("components").map(|node| node.list_if_any());
    let named = |component: &Node<'a>| component.value.get("name")?.as_str();
    list.iter().flatten().filter_map(named).collect()
}

/// The kind of the object that a component stands for, its first one, as far as the component is well written.
pub(super) fn kind_of<'a>(spec: &Object<'a>, name: &str) -> Option<&'a str> {
    let list = spec.optional("components")?.list_if_any();
    let component = list
        .iter()
        .find(|component| component.value.get("name").and_then(Value::as_str) == Some(name))?;
    match component.value.get("type")?.as_str()? {
        "webservice" | "worker" => Some("Deployment"),
        "task" => Some("Job"),
        "cron-task" => Some("CronJob"),
        "k8s-objects" => component.value.pointer("/properties/objects/0/kind")?.as_str(),
        _ => None,
    }
}

/// Reads one component.
pub(super) fn read(node: &Node<'_>, names: &mut BTreeSet<String>) -> Option<ValidComponent> {
    let component = node.object(&COMPONENT)?;
    let name = component
        .required("name", "give the component a name")
        .and_then(|node| super::name(&node, "component name", names));
    let type_node = component.required(
        "type",
        "use one of k8s-objects, webservice, worker, task, cron-task",
    )?;
    let type_ = type_node.string()?;
    if !TYPES.contains(&type_) {
        super::refuse_type(&type_node, type_, &TYPES, &KNOWN_ELSEWHERE);
        return None;
    }
    let properties = component.required("properties", "set the properties of the component")?;
    let kind = match type_ {
        "k8s-objects" => ComponentKind::Objects(objects(&properties)?),
        "webservice" => ComponentKind::Webservice(Box::new(container::webservice(&properties)?)),
        "task" => ComponentKind::Task(Box::new(task::task(&properties)?)),
        "cron-task" => ComponentKind::CronTask(Box::new(task::cron_task(&properties)?)),
        _ => ComponentKind::Worker(Box::new(container::worker(&properties)?)),
    };
    if let (ComponentKind::Webservice(properties), Some(name)) = (&kind, name)
        && properties.ports.iter().any(|port| port.expose)
        && name.starts_with(|c: char| c.is_ascii_digit())
    {
        let node = component.required("name", "give the component a name")?;
        node.refuse(format!(
            "{name:?} also names a Service, whose name has to start with a letter"
        ));
    }
    let traits = match (component.optional("traits"), name) {
        (Some(node), Some(name)) => traits::read_all(&node, name, &kind),
        _ => Vec::new(),
    };
    Some(ValidComponent {
        name: name?.to_owned(),
        kind,
        traits,
    })
}

/// A bad manifest is no reason to refuse the others: it fails alone at the agent. Only what could never travel as one
/// manifest is refused here, and a count that cannot be divided: it would be placed whole on every cluster.
fn objects(properties: &Node<'_>) -> Option<ObjectsProperties> {
    let what = "list the manifests";
    let node = properties.object(&OBJECTS)?.required("objects", what)?;
    let objects = node.list()?;
    if objects.is_empty() {
        node.refuse(format!("is empty: {what}"));
    }
    for object in &objects {
        if is_list(object.value) {
            object.refuse("is a List: put its items into objects themselves");
        }
        for field in counts(object.value) {
            count_is_legal(object, field);
        }
        let size = crate::hash::canonical(object.value).len();
        if size > MAX_MANIFEST_BYTES {
            object.refuse(format!(
                "the manifest has {size} bytes: at most {MAX_MANIFEST_BYTES} can be sent to a cluster"
            ));
        }
    }
    let objects = objects.iter().map(|object| object.value.clone()).collect();
    Some(ObjectsProperties { objects })
}

/// The fields of `spec` that count what is divided. Of other kinds such a field may be anything.
fn counts(object: &Value) -> &'static [&'static str] {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
    match (group, text("kind")) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("apps.kruise.io", "CloneSet") => {
            &["replicas"]
        }
        ("batch", "Job") => &["parallelism", "completions"],
        _ => &[],
    }
}

fn count_is_legal(object: &Node<'_>, field: &str) {
    let spec = object.value.get("spec").map(|spec| object.child("spec", spec));
    let count = spec.as_ref().and_then(|spec| {
        let count = spec.value.get(field).filter(|count| !count.is_null())?;
        Some(spec.child(field, count))
    });
    if let Some(count) = count {
        count.integer(0, MAX_REPLICAS);
    }
}

/// `v1 List` and the typed lists that `kubectl get -o yaml` prints; a custom kind that only ends in `List` is no list.
fn is_list(object: &Value) -> bool {
    match object.get("kind").and_then(Value::as_str) {
        Some("List") => true,
        Some(kind) => kind.ends_with("List") && object.get("items").is_some_and(Value::is_array),
        None => false,
    }
}
