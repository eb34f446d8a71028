//! What a component has before its traits: the workload that they change, and the names in it that are taken.

use crate::application::{
    ComponentKind, FieldPath, ObjectsProperties, WorkerProperties, pod_template, workload_of,
};
use crate::names::label;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What sort of workload it is, as far as traits care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// Pods of which there are `spec.replicas`.
    Replicated,
    /// One pod per node.
    DaemonSet,
    /// Pods that run to completion.
    Job,
}

/// The workload of a component.
#[derive(Debug)]
pub(super) struct Target {
    /// Name of the component.
    pub(super) component: String,
    /// The workload for people, such as `Deployment "web"`.
    pub(super) title: String,
    /// Its sort.
    pub(super) sort: Sort,
    /// Whether it makes Jobs: then its pod template has another place.
    pub(super) makes_jobs: bool,
    /// Where its pod template is.
    pub(super) template: &'static [&'static str],
    /// Container → its variables, sidecars of traits included.
    pub(super) containers: Vec<(String, Vec<String>)>,
    /// How many of the containers are its own.
    pub(super) own_containers: usize,
    /// Names of init containers.
    pub(super) init_containers: BTreeSet<String>,
    /// Names of its volumes.
    pub(super) volumes: BTreeSet<String>,
    /// Labels by which it finds its pods.
    pub(super) selector: BTreeMap<String, String>,
    /// Names of the component's own Services.
    pub(super) services: BTreeSet<String>,
    /// The property that says how many replicas there are, where one does.
    pub(super) replicas: Option<&'static str>,
    /// The manifest, or as much of it as traits can clash with.
    pub(super) manifest: Value,
}

impl Target {
    /// Finds the workload, or says why there is none.
    pub(super) fn of(component: &str, kind: &ComponentKind) -> Result<Target, String> {
        let built_in = |kind: &str, properties: &WorkerProperties| {
            Target::read(component, sketch(component, kind, properties), BTreeSet::new())
        };
        match kind {
            ComponentKind::Objects(properties) => Target::of_objects(component, properties),
            ComponentKind::Webservice(properties) => {
                let mut target = built_in("Deployment", &properties.worker)?;
                if properties.ports.iter().any(|port| port.expose) {
                    target.services.insert(component.to_owned());
                }
                target.replicas = properties.worker.replicas.map(|_| "properties.replicas");
                Ok(target)
            }
            ComponentKind::Worker(properties) => {
                let mut target = built_in("Deployment", properties)?;
                target.replicas = properties.replicas.map(|_| "properties.replicas");
                Ok(target)
            }
            ComponentKind::Task(properties) => built_in("Job", &properties.worker),
            ComponentKind::CronTask(properties) => built_in("CronJob", &properties.task.worker),
        }
    }

    fn of_objects(component: &str, properties: &ObjectsProperties) -> Result<Target, String> {
        let objects = &properties.objects;
        match workload_of(objects) {
            Ok(place) => {
                let is_service = |object: &&Value| group(object).is_empty() && text(object, "kind") == Some("Service");
                let services = objects.iter().filter(is_service);
                let names = services.filter_map(|service| text(service.get("metadata")?, "name"));
                let names = names.map(str::to_owned).collect();
                Target::read(component, objects.get(place).cloned().unwrap_or_default(), names)
            }
            Err(places) if places.is_empty() => Err(
                "no object of this component has a pod template (spec.template with containers), which is what traits \
                 change: write their effect into the objects"
                    .to_owned(),
            ),
            Err(places) => {
                let found = places.iter().filter_map(|place| {
                    let object = objects.get(*place)?;
                    Some(format!("{} (objects[{place}])", title(object)))
                });
                Err(format!(
                    "{} have a pod template, so that it is not clear which one the traits change: give each a component of \
                     its own",
                    found.collect::<Vec<_>>().join(" and ")
                ))
            }
        }
    }

    fn read(component: &str, manifest: Value, services: BTreeSet<String>) -> Result<Target, String> {
        let title = title(&manifest);
        let template = pod_template(&manifest).unwrap_or(&["spec", "template"]);
        let at = template.iter().try_fold(&manifest, |at, field| at.get(field));
        let pod = at.and_then(|at| at.get("spec")).unwrap_or(&Value::Null);
        let mut containers: Vec<(String, Vec<String>)> = Vec::new();
        for (place, container) in list(pod, "containers").iter().enumerate() {
            let path = format!("{}.spec.containers[{place}]", template.join("."));
            let Some(name) = text(container, "name").filter(|name| !name.is_empty()) else {
                return Err(format!("cannot be merged into {title}: {path} has no name"));
            };
            if containers.iter().any(|(other, _)| other == name) {
                return Err(format!(
                    "cannot be merged into {title}: {path} has the name {name:?} a second time"
                ));
            }
            containers.push((name.to_owned(), names(container, "env")));
        }
        let group_kind = (group(&manifest), text(&manifest, "kind").unwrap_or_default());
        let selector = manifest
            .pointer("/spec/selector/matchLabels")
            .and_then(Value::as_object);
        let selector = selector.into_iter().flatten();
        Ok(Target {
            component: component.to_owned(),
            title,
            sort: match group_kind {
                ("apps", "DaemonSet") => Sort::DaemonSet,
                ("batch", _) => Sort::Job,
                _ => Sort::Replicated,
            },
            makes_jobs: template.len() > 2,
            template,
            own_containers: containers.len(),
            containers,
            init_containers: names(pod, "initContainers").into_iter().collect(),
            volumes: names(pod, "volumes").into_iter().collect(),
            selector: selector
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            services,
            replicas: None,
            manifest,
        })
    }

    /// The target with the containers that traits add, so that other traits may name them.
    pub(super) fn with_sidecars<'v>(mut self, traits: impl Iterator<Item = &'v Value>) -> Self {
        for one in traits.filter(|one| text(one, "type") == Some("sidecar")) {
            let properties = one.get("properties").unwrap_or(&Value::Null);
            if let Some(name) = text(properties, "name")
                && !self.containers.iter().any(|(other, _)| other == name)
            {
                self.containers.push((name.to_owned(), names(properties, "env")));
            }
        }
        self
    }

    /// The path of fields of the pod template.
    pub(super) fn in_template(&self, fields: &[&str]) -> FieldPath {
        FieldPath::of(self.template).fields(fields)
    }

    /// The path of a container.
    pub(super) fn container(&self, name: &str) -> FieldPath {
        self.in_template(&["spec", "containers"]).element(name)
    }

    /// The container that a trait means that names none: the one with the component's name, otherwise the first.
    pub(super) fn main_container(&self) -> Option<&str> {
        let own = self.containers.get(..self.own_containers).unwrap_or_default();
        let named = own.iter().find(|(name, _)| *name == self.component);
        named.or_else(|| own.first()).map(|(name, _)| name.as_str())
    }

    /// Its own containers.
    pub(super) fn own(&self) -> impl Iterator<Item = &str> {
        self.containers
            .iter()
            .take(self.own_containers)
            .map(|(name, _)| name.as_str())
    }
}

/// As much of a built-in workload as traits can clash with.
fn sketch(component: &str, kind: &str, properties: &WorkerProperties) -> Value {
    let amounts = [("cpu", &properties.cpu), ("memory", &properties.memory)];
    let amounts: Map<String, Value> = amounts
        .into_iter()
        .filter_map(|(name, amount)| Some((name.to_owned(), json!(amount.as_ref()?))))
        .collect();
    let container = json!({"name": component, "env": properties.env,
        "resources": {"requests": amounts, "limits": amounts}});
    let template = json!({"spec": {"containers": [container], "volumes": properties.volumes}});
    let metadata = json!({"name": component});
    match kind {
        "Job" => {
            json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": {"template": template}})
        }
        "CronJob" => json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata,
            "spec": {"jobTemplate": {"spec": {"template": template}}}}),
        _ => json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {
            "selector": {"matchLabels": {label::COMPONENT: component}}, "template": template}}),
    }
}

fn title(object: &Value) -> String {
    let kind = text(object, "kind").unwrap_or("object");
    let name = object.get("metadata").and_then(|metadata| text(metadata, "name"));
    format!("{kind} {:?}", name.unwrap_or_default())
}

fn group(object: &Value) -> &str {
    let api_version = text(object, "apiVersion").unwrap_or_default();
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn names(value: &Value, field: &str) -> Vec<String> {
    let names = list(value, field)
        .iter()
        .filter_map(|element| text(element, "name"));
    names.map(str::to_owned).collect()
}
