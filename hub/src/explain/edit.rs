//! What to type for a change: a command for the cluster, or a JSON patch of the object that says it.

use super::{Change, Setting, change::toleration, words};
use crate::render::{ReplicaPaths, count_paths};
use roundhouse_api::{
    application::{DeployStep, PlacementPart, PlacementSource, ValidApplication},
    cluster::TAINT_CORDONED,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where the placing steps of an application are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// Namespace of the application.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// One entry per placing step, in order.
    pub steps: Vec<StepSource>,
    /// Workload -> JSON pointer of its replicas in the Application.
    pub replicas: Vec<(roundhouse_api::decision::WorkloadRef, String)>,
}

/// Where one placing step is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepSource {
    /// The maps that hold the placement's fields: they all have to say the same.
    pub maps: Vec<Place>,
    /// Each rule, in order; `None` for one that is written in another form.
    pub rules: Vec<Option<Place>>,
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

    /// A change in words.
    pub fn words(&self, change: &Change, setting: &Setting, cluster: &str) -> String {
        let step = |at: usize| setting.steps.get(at).map_or("", |step| step.name.as_str());
        let rule = |(at, index): (usize, usize)| {
            let rule = setting
                .steps
                .get(at)
                .and_then(|step| step.spec.placement.get(index));
            let rule = rule.map_or_else(String::new, |rule| rule.name_or_index(index));
            match setting.steps.len() {
                1 => format!("rule {rule}"),
                _ => format!("rule {rule} of step {}", step(at)),
            }
        };
        let now = |(at, index): (usize, usize)| setting.steps.get(at)?.spec.placement.get(index);
        let facts = setting.cluster(cluster);
        match change {
            Change::SetLabel { key, value } => match facts.and_then(|facts| facts.labels.get(key)) {
                Some(now) => format!("label {key}={value} (now {now})"),
                None => format!("label {key}={value}"),
            },
            Change::RemoveLabel { key } => format!("remove label {key}"),
            Change::RemoveTaint(taint) if taint.key == TAINT_CORDONED => "uncordon it".to_owned(),
            Change::RemoveTaint(taint) => format!("remove taint {}", words::taint(taint)),
            Change::AddTaint(taint) => format!("taint it {}", words::taint(taint)),
            Change::Accept => "accept it".to_owned(),
            Change::Join => "let its agent join".to_owned(),
            Change::Reconnect => "let its agent reach the hub again".to_owned(),
            Change::Capacity(capacity) => {
                let now = facts.and_then(|facts| facts.capacity).unwrap_or(0);
                format!("capacity for {capacity} replicas (now {now})")
            }
            Change::Tolerate { step: at, taint } => {
                format!("tolerate taint {} in step {}", words::taint(taint), step(*at))
            }
            Change::AddName { rule: at } => format!("list it under clusters of {}", rule(*at)),
            Change::Weight { rule: at, weight } => {
                let now = now(*at)
                    .and_then(|rule| rule.weights.get(cluster))
                    .copied()
                    .unwrap_or(1);
                format!("weight {weight} in {} (now {now})", rule(*at))
            }
            Change::MaxClusters { step: at, clusters } => {
                let now = setting.steps.get(*at).and_then(|step| step.spec.max_clusters);
                let now = now.map_or_else(String::new, |now| format!(" (now {now})"));
                format!("maxClusters {clusters}{now}")
            }
            Change::MaxSkew { step: at, skew } => {
                let spread = setting.steps.get(*at).and_then(|step| step.spec.spread.as_ref());
                let now = spread.map_or_else(String::new, |spread| format!(" (now {})", spread.max_skew));
                format!("spread.maxSkew {skew}{now}")
            }
            Change::Share { rule: at, share } => {
                let now = now(*at).and_then(|rule| rule.replicas);
                let now = now.map_or_else(String::new, |now| format!(" (now {now})"));
                format!("replicas {share} in {}{now}", rule(*at))
            }
            Change::Min { rule: at, min } => format!("perCluster.min {min} in {}", rule(*at)),
            Change::Max { rule: at, max } => format!("perCluster.max {max} in {}", rule(*at)),
            Change::RebalanceOnChange { step: at } => format!("rebalance OnChange in step {}", step(*at)),
            Change::Replicas { workload, replicas } => {
                let now = setting
                    .workloads
                    .iter()
                    .find(|w| w.key == *workload)
                    .map_or(0, |w| w.replicas);
                format!(
                    "{} of {} {}/{} (now {})",
                    words::count((*replicas).into(), "replica", "replicas"),
                    workload.kind,
                    workload.namespace,
                    workload.name,
                    words::thousands(now)
                )
            }
        }
    }

    /// A ready command; `None` where nothing can be typed on the hub (an agent has to report), or where the object that
    /// says it is not known.
    pub fn command(&self, change: &Change, setting: &Setting, cluster: &str) -> Option<String> {
        let command = match change {
            Change::SetLabel { key, value } => {
                let facts = setting.cluster(cluster);
                let is_there = facts.is_some_and(|facts| facts.labels.contains_key(key));
                let overwrite = if is_there { " --overwrite" } else { "" };
                format!("roundhouse label {cluster} {key}={value}{overwrite}")
            }
            Change::RemoveLabel { key } => format!("roundhouse label {cluster} {key}-"),
            Change::RemoveTaint(taint) if taint.key == TAINT_CORDONED => {
                format!("roundhouse uncordon {cluster}")
            }
            Change::RemoveTaint(taint) => {
                format!("roundhouse taint {cluster} {}:{:?}-", taint.key, taint.effect)
            }
            Change::AddTaint(taint) => format!("roundhouse taint {cluster} {}", words::taint(taint)),
            Change::Accept => {
                format!(r#"kubectl patch cluster {cluster} --type merge -p '{{"spec":{{"accepted":true}}}}'"#)
            }
            Change::Join => format!(
                "roundhouse-agent --cluster {cluster} --hub-kubeconfig agents/{cluster}.kubeconfig --member-kubeconfig {cluster}.kubeconfig"
            ),
            Change::Reconnect | Change::Capacity(_) => return None,
            _ => return self.patch(change, setting, cluster),
        };
        Some(command)
    }

    fn patch(&self, change: &Change, setting: &Setting, cluster: &str) -> Option<String> {
        let rule_at = |(step, rule): (usize, usize)| {
            let place = self.steps.get(step)?.rules.get(rule)?.clone()?;
            Some((place, setting.steps.get(step)?.spec.placement.get(rule)?))
        };
        let one = |place: Place, value: Value| Some(vec![(place, value)]);
        // What a step says as a whole is in each of its maps.
        let each = |step: usize, rest: &str, value: Value| {
            let maps = &self.steps.get(step)?.maps;
            let all: Vec<_> = maps.iter().map(|map| (map.below(rest), value.clone())).collect();
            (!all.is_empty()).then_some(all)
        };
        let additions = match change {
            Change::AddName { rule } => {
                let (at, now) = rule_at(*rule)?;
                now.clusters.as_ref()?;
                one(at.below("clusters/-"), json!(cluster))
            }
            Change::Weight { rule, weight } => {
                let (at, now) = rule_at(*rule)?;
                match now.weights.is_empty() {
                    true => one(at.below("weights"), json!({ cluster: weight })),
                    false => one(at.below(&format!("weights/{cluster}")), json!(weight)),
                }
            }
            Change::Share { rule, share } => one(rule_at(*rule)?.0.below("replicas"), json!(share)),
            Change::Min { rule, .. } | Change::Max { rule, .. } => {
                let (at, now) = rule_at(*rule)?;
                let (name, value) = match change {
                    Change::Min { min, .. } => ("min", *min),
                    Change::Max { max, .. } => ("max", *max),
                    _ => return None,
                };
                match now.per_cluster {
                    None => one(at.below("perCluster"), json!({ name: value })),
                    Some(_) => one(at.below(&format!("perCluster/{name}")), json!(value)),
                }
            }
            Change::MaxClusters { step, clusters } => each(*step, "maxClusters", json!(clusters)),
            Change::MaxSkew { step, skew } => each(*step, "spread/maxSkew", json!(skew)),
            Change::RebalanceOnChange { step } => each(*step, "rebalance", json!("OnChange")),
            Change::Tolerate { step, taint } => {
                let value = json!(toleration(taint));
                match setting.steps.get(*step)?.spec.tolerations.is_empty() {
                    true => each(*step, "tolerations", json!([value])),
                    false => each(*step, "tolerations/-", value),
                }
            }
            Change::Replicas { workload, replicas } => {
                let (_, pointer) = self.replicas.iter().find(|(key, _)| key == workload)?;
                let place = Place {
                    kind: "application",
                    object: self.name.clone(),
                    pointer: format!("/spec{pointer}"),
                };
                one(place, json!(replicas))
            }
            _ => None,
        };
        let mut objects: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
        for (place, value) in additions? {
            let operation = json!({"op": "add", "path": place.pointer, "value": value});
            objects
                .entry((place.kind, place.object))
                .or_default()
                .push(operation);
        }
        let commands = objects.into_iter().map(|((kind, name), operations)| {
            // In single quotes of a shell a single quote ends them.
            let patch = Value::Array(operations).to_string().replace('\'', r"'\''");
            format!(
                "kubectl -n {} patch {kind} {name} --type json -p '{patch}'",
                self.namespace
            )
        });
        Some(commands.collect::<Vec<_>>().join(" && "))
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
            (PlacementSource::Topology(_), _) => None,
            (PlacementSource::Inline(_), Some(name)) => policy(name),
            (PlacementSource::Inline(_), None) => Some(in_application(pointer(&deploy.path))),
        };
        let rules = (0..count).map(|at| map.as_ref().map(|map| map.below(&format!("placement/{at}"))));
        source.rules.extend(rules);
        source.maps.extend(map);
    }
    source
}

/// The JSON pointer of a path such as `spec.workflow.steps[0].properties`.
fn pointer(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.map(|part| format!("/{part}")).collect()
}

/// Where the replicas of each workload are written, as far as they are in the Application itself.
fn replicas(
    namespace: &str,
    spec: &Value,
    paths: &ReplicaPaths,
) -> Vec<(roundhouse_api::decision::WorkloadRef, String)> {
    let mut all = Vec::new();
    let components = spec.pointer("/components").and_then(Value::as_array);
    for (at, component) in components.into_iter().flatten().enumerate() {
        let text =
            |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match component.get("type").and_then(Value::as_str) {
            Some("webservice" | "worker") => {
                let Some(name) = text(component, "/name") else {
                    continue;
                };
                let key = roundhouse_api::decision::WorkloadRef {
                    kind: "Deployment".to_owned(),
                    namespace: namespace.to_owned(),
                    name,
                };
                all.push((key, format!("/components/{at}/properties/replicas")));
            }
            Some("k8s-objects") => {
                let objects = component.pointer("/properties/objects").and_then(Value::as_array);
                for (index, object) in objects.into_iter().flatten().enumerate() {
                    let (Some(kind), Some(name)) = (text(object, "/kind"), text(object, "/metadata/name"))
                    else {
                        continue;
                    };
                    let Some(pointer) = count_paths(object, paths).into_iter().next() else {
                        continue;
                    };
                    let key = roundhouse_api::decision::WorkloadRef {
                        kind,
                        namespace: text(object, "/metadata/namespace")
                            .unwrap_or_else(|| namespace.to_owned()),
                        name,
                    };
                    all.push((
                        key,
                        format!("/components/{at}/properties/objects/{index}{pointer}"),
                    ));
                }
            }
            _ => {}
        }
    }
    all
}
