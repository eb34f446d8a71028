//! Where things are written, what a change of them is in words, and what to type for it.

mod said;
mod typed;

use super::{Change, Setting};
use crate::render::{ReplicaPaths, count_paths};
use roundhouse_api::{
    application::{DeployStep, PlacementPart, PlacementSource, ValidApplication, workload_of},
    decision::WorkloadRef,
};
use serde_json::Value;
use std::borrow::Cow;

/// Where the placing steps of an application are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// Namespace of the application.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// One entry per placing step, in order.
    pub steps: Vec<StepSource>,
    /// Where the workloads' counts are, as far as the Application itself has them.
    pub replicas: Vec<Counted>,
}

/// Where one placing step is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepSource {
    /// The maps that hold the placement's fields: they all have to say the same.
    pub maps: Vec<Place>,
    /// Each rule, in order: the map that has its fields, which for a topology policy are its properties.
    pub rules: Vec<Option<Place>>,
    /// The selector of each rule that is a topology policy with one.
    pub selectors: Vec<Option<Place>>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// A word for programs.
    pub kind: &'static str,
    /// What, for people.
    pub words: String,
    /// What to type; `None` where nothing can be typed on the hub, or where the object that says it is not known.
    pub command: Option<String>,
}

/// Where the count of a workload is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The workload.
    pub workload: WorkloadRef,
    /// JSON pointer of its replicas in the Application's `spec`; a Job's are its `parallelism`.
    pub pointer: String,
    /// JSON pointer of a Job's `completions`, and how many they are; absent where it names none.
    pub completions: Option<(String, u64)>,
}

/// A place in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `application` or `placement`.
    pub kind: &'static str,
    /// Name of that object.
    pub object: String,
    /// JSON pointer in it.
    pub pointer: String,
}

impl Place {
    /// What is below it.
    fn below(&self, rest: &str) -> Place {
        Place {
            pointer: format!("{}/{rest}", self.pointer),
            ..self.clone()
        }
    }
}

impl Source {
    /// Finds out where the placing steps of an application are written. `spec` is the Application's, as `valid` was
    /// understood of it, and `paths` say where definitions have the counts of further kinds.
    pub fn of(
        namespace: &str,
        name: &str,
        spec: &Value,
        valid: &ValidApplication,
        paths: &ReplicaPaths,
    ) -> Source {
        let steps = valid.placing().map(|(_, deploy)| step_source(name, spec, deploy));
        Source {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            steps: steps.collect(),
            replicas: replicas(namespace, spec, paths),
        }
    }

    /// What to do, one after the other: each change as it reads and is typed once those before it were made.
    pub fn advice(&self, changes: &[Change], setting: &Setting, cluster: &str) -> Vec<Advice> {
        let mut after = Cow::Borrowed(setting);
        let mut all = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            all.push(Advice {
                kind: change.kind(),
                words: self.words(change, &after, cluster),
                command: self.command(change, &after, cluster),
            });
            if at + 1 < changes.len() {
                change.apply(after.to_mut(), cluster);
            }
        }
        all
    }

    /// Where a Job's completions are, and how many, if they are fewer than these replicas: some clusters would have
    /// nothing to complete.
    fn completions(&self, workload: &WorkloadRef, replicas: u32) -> Option<(&str, u64)> {
        let counted = self
            .replicas
            .iter()
            .find(|counted| counted.workload == *workload)?;
        let (pointer, now) = counted.completions.as_ref()?;
        (*now < u64::from(replicas)).then_some((pointer.as_str(), *now))
    }
}

fn step_source(name: &str, spec: &Value, deploy: &DeployStep) -> StepSource {
    let in_application = |pointer: String| Place {
        kind: "application",
        object: name.to_owned(),
        pointer,
    };
    let policy = |wanted: &str| {
        let policies = spec.get("policies")?.as_array()?;
        let named = |policy: &Value| policy.get("name").and_then(Value::as_str) == Some(wanted);
        let at = policies.iter().position(named)?;
        Some(in_application(format!("/spec/policies/{at}/properties")))
    };
    let mut source = StepSource::default();
    // One reference has the rules that the other parts do not have.
    let known = |part: &PlacementPart| match &part.source {
        PlacementSource::Inline(spec) | PlacementSource::Topology(spec) => Some(spec.placement.len()),
        PlacementSource::Reference(_) => None,
    };
    let references = deploy.parts.iter().filter(|part| known(part).is_none()).count();
    if references > 1 {
        return source;
    }
    let others: usize = deploy.parts.iter().filter_map(known).sum();
    for part in &deploy.parts {
        let count = known(part).unwrap_or_else(|| deploy.placement.placement.len().saturating_sub(others));
        let map = match (&part.source, &part.policy) {
            (PlacementSource::Reference(name), _) => Some(Place {
                kind: "placement",
                object: name.clone(),
                pointer: "/spec".to_owned(),
            }),
            (PlacementSource::Topology(_), name) => {
                let at = name.as_deref().and_then(policy);
                let selector = at.as_ref().and_then(|at| selector(spec, at));
                source.rules.push(at);
                source.selectors.push(selector);
                continue;
            }
            (PlacementSource::Inline(_), Some(name)) => policy(name),
            (PlacementSource::Inline(_), None) => Some(in_application(pointer(&deploy.path))),
        };
        let rules = (0..count).map(|at| map.as_ref().map(|map| map.below(&format!("placement/{at}"))));
        source.rules.extend(rules);
        source.selectors.resize(source.rules.len(), None);
        source.maps.extend(map);
    }
    source
}

/// The selector in the properties of a topology policy, under its name or its old one.
fn selector(spec: &Value, properties: &Place) -> Option<Place> {
    let written = spec.pointer(properties.pointer.strip_prefix("/spec")?)?;
    let fields = ["clusterLabelSelector", "clusterSelector"].into_iter();
    let mut there = fields.filter(|field| written.get(field).is_some_and(Value::is_object));
    there.next().map(|field| properties.below(field))
}

/// The JSON pointer of a path such as `spec.workflow.steps[0].properties`.
fn pointer(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.map(|part| format!("/{part}")).collect()
}

/// Where the replicas of each workload are written, as far as they are in the Application itself.
fn replicas(namespace: &str, spec: &Value, paths: &ReplicaPaths) -> Vec<Counted> {
    let mut all = Vec::new();
    let components = spec.pointer("/components").and_then(Value::as_array);
    for (at, component) in components.into_iter().flatten().enumerate() {
        let workload = |kind: &str, own_namespace: Option<String>, name: String| WorkloadRef {
            kind: kind.to_owned(),
            namespace: own_namespace.unwrap_or_else(|| namespace.to_owned()),
            name,
        };
        let scaler = scaler(component).map(|rest| format!("/components/{at}{rest}"));
        let (kind, property) = match component.get("type").and_then(Value::as_str) {
            Some("webservice" | "worker") => ("Deployment", "replicas"),
            Some("task") => ("Job", "count"),
            Some("k8s-objects") => {
                let objects = component.pointer("/properties/objects").and_then(Value::as_array);
                let objects = objects.map(Vec::as_slice).unwrap_or_default();
                let scaled = scaler.as_ref().and_then(|_| workload_of(objects).ok());
                for (index, object) in objects.iter().enumerate() {
                    let (Some(kind), Some(name)) = (text(object, "/kind"), text(object, "/metadata/name"))
                    else {
                        continue;
                    };
                    let below = format!("/components/{at}/properties/objects/{index}");
                    let mut counts = count_paths(object, paths).into_iter();
                    let Some(pointer) = counts.next() else {
                        continue;
                    };
                    all.push(Counted {
                        workload: workload(&kind, text(object, "/metadata/namespace"), name),
                        completions: counts.next().and_then(|pointer| {
                            let number = object.pointer(&pointer)?.as_u64()?;
                            Some((format!("{below}{pointer}"), number))
                        }),
                        pointer: match &scaler {
                            Some(scaler) if scaled == Some(index) && pointer == "/spec/replicas" => {
                                scaler.clone()
                            }
                            _ => format!("{below}{pointer}"),
                        },
                    });
                }
                continue;
            }
            _ => continue,
        };
        if let Some(name) = text(component, "/name") {
            all.push(Counted {
                workload: workload(kind, None, name),
                pointer: scaler.unwrap_or_else(|| format!("/components/{at}/properties/{property}")),
                completions: None,
            });
        }
    }
    // A `scaler` may have no properties, and a field of a map that is not there cannot be added.
    all.retain(|counted| {
        let parent = counted.pointer.strip_suffix("/replicas");
        let parent = parent.filter(|parent| parent.contains("/traits/"));
        parent.is_none_or(|parent| spec.pointer(parent).is_some())
    });
    all
}

/// Where the trait `scaler` of a component says its number, from the component.
fn scaler(component: &Value) -> Option<String> {
    let traits = component.get("traits")?.as_array()?;
    let is_scaler = |one: &Value| one.get("type").and_then(Value::as_str) == Some("scaler");
    let at = traits.iter().position(is_scaler)?;
    Some(format!("/traits/{at}/properties/replicas"))
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
