//! What to type for a change: a command for the cluster, or a JSON patch of the object that says it.

use super::{Change, Setting, change::toleration, words};
use roundhouse_api::cluster::TAINT_CORDONED;
use serde_json::{Value, json};
use std::fmt::Write as _;

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
    /// `application` or `placement`.
    pub kind: String,
    /// Name of that object.
    pub name: String,
    /// JSON pointers of the maps that hold the placement's fields; several policies of one step say the same.
    pub maps: Vec<String>,
    /// JSON pointer of each rule, in order.
    pub rules: Vec<String>,
}

impl Source {
    /// Finds the placing steps in the `spec` of a valid Application. A step that is written elsewhere has no pointers.
    pub fn of(namespace: &str, name: &str, spec: &Value, setting: &Setting) -> Source {
        let list = |value: &Value, pointer: &str| -> usize {
            value
                .pointer(pointer)
                .and_then(Value::as_array)
                .map_or(0, Vec::len)
        };
        let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str);
        let steps = 0..list(spec, "/workflow/steps");
        let policies = 0..list(spec, "/policies");
        let policy = |wanted: &str| {
            let mut places = policies.clone();
            places.find(|at| text(&format!("/policies/{at}/name")) == Some(wanted))
        };
        let of_step = |step: &super::Step| {
            let mut maps = Vec::new();
            let written = steps.clone().find(|at| {
                let default = format!("step-{at}");
                text(&format!("/workflow/steps/{at}/name")).unwrap_or(&default) == step.name
            });
            match written {
                Some(at) => {
                    let properties = format!("/workflow/steps/{at}/properties");
                    let named = (0..list(spec, &format!("{properties}/policies")))
                        .filter_map(|n| policy(text(&format!("{properties}/policies/{n}"))?))
                        .map(|at| format!("/policies/{at}/properties"));
                    maps.extend(named);
                    if maps.is_empty() {
                        maps.push(properties);
                    }
                }
                // Without a workflow there is one step per policy, of its name.
                None => maps.extend(policy(&step.name).map(|at| format!("/policies/{at}/properties"))),
            }
            let rules: Vec<String> = maps
                .iter()
                .flat_map(|map| {
                    (0..list(spec, &format!("{map}/placement"))).map(move |n| format!("{map}/placement/{n}"))
                })
                .collect();
            // What does not add up is not here.
            let known = rules.len() == step.spec.placement.len();
            StepSource {
                kind: "application".to_owned(),
                name: name.to_owned(),
                maps: if known { maps } else { Vec::new() },
                rules: if known { rules } else { Vec::new() },
            }
        };
        Source {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            steps: setting.steps.iter().map(of_step).collect(),
            replicas: replicas(namespace, spec),
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
                    "{} replicas of {} {}/{} (now {})",
                    words::thousands(*replicas),
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
        let add = |path: String, value: Value| json!({"op": "add", "path": path, "value": value});
        let rule_at = |(step, rule): (usize, usize)| {
            let source = self.steps.get(step)?;
            let pointer = source.rules.get(rule)?.clone();
            let now = setting.steps.get(step)?.spec.placement.get(rule)?;
            Some((source, pointer, now))
        };
        let step_at = |step: usize| {
            let source = self.steps.get(step).filter(|source| !source.maps.is_empty())?;
            Some((source, &setting.steps.get(step)?.spec))
        };
        let (source, operations) = match change {
            Change::AddName { rule } => {
                let (source, at, now) = rule_at(*rule)?;
                now.clusters.as_ref()?;
                (source, vec![add(format!("{at}/clusters/-"), json!(cluster))])
            }
            Change::Weight { rule, weight } => {
                let (source, at, now) = rule_at(*rule)?;
                let operation = match now.weights.is_empty() {
                    true => add(format!("{at}/weights"), json!({ cluster: weight })),
                    false => add(format!("{at}/weights/{cluster}"), json!(weight)),
                };
                (source, vec![operation])
            }
            Change::Share { rule, share } => {
                let (source, at, _) = rule_at(*rule)?;
                (source, vec![add(format!("{at}/replicas"), json!(share))])
            }
            Change::Min { rule, .. } | Change::Max { rule, .. } => {
                let (source, at, now) = rule_at(*rule)?;
                let (name, value) = match change {
                    Change::Min { min, .. } => ("min", *min),
                    Change::Max { max, .. } => ("max", *max),
                    _ => return None,
                };
                let operation = match now.per_cluster {
                    None => add(format!("{at}/perCluster"), json!({ name: value })),
                    Some(_) => add(format!("{at}/perCluster/{name}"), json!(value)),
                };
                (source, vec![operation])
            }
            Change::MaxClusters { step, clusters } => {
                let (source, _) = step_at(*step)?;
                let each = source
                    .maps
                    .iter()
                    .map(|map| add(format!("{map}/maxClusters"), json!(clusters)));
                (source, each.collect())
            }
            Change::MaxSkew { step, skew } => {
                let (source, _) = step_at(*step)?;
                let each = source
                    .maps
                    .iter()
                    .map(|map| add(format!("{map}/spread/maxSkew"), json!(skew)));
                (source, each.collect())
            }
            Change::RebalanceOnChange { step } => {
                let (source, _) = step_at(*step)?;
                let each = source
                    .maps
                    .iter()
                    .map(|map| add(format!("{map}/rebalance"), json!("OnChange")));
                (source, each.collect())
            }
            Change::Tolerate { step, taint } => {
                let (source, spec) = step_at(*step)?;
                let value = json!(toleration(taint));
                let each = source.maps.iter().map(|map| match spec.tolerations.is_empty() {
                    true => add(format!("{map}/tolerations"), json!([value])),
                    false => add(format!("{map}/tolerations/-"), value.clone()),
                });
                (source, each.collect())
            }
            Change::Replicas { workload, replicas } => {
                let (_, pointer) = self.replicas.iter().find(|(key, _)| key == workload)?;
                let operations = vec![add(pointer.clone(), json!(replicas))];
                return Some(self.kubectl("application", &self.name, operations));
            }
            _ => return None,
        };
        Some(self.kubectl(&source.kind, &source.name, operations))
    }

    fn kubectl(&self, kind: &str, name: &str, mut operations: Vec<Value>) -> String {
        for operation in &mut operations {
            if let Some(Value::String(path)) = operation.get_mut("path") {
                *path = format!("/spec{path}");
            }
        }
        let mut text = format!(
            "kubectl -n {} patch {kind} {name} --type json -p '",
            self.namespace
        );
        // In single quotes of a shell a single quote ends them.
        let _ = write!(
            text,
            "{}'",
            Value::Array(operations).to_string().replace('\'', r"'\''")
        );
        text
    }
}

/// Where the replicas of each workload are written, as far as they are in the Application itself.
fn replicas(namespace: &str, spec: &Value) -> Vec<(roundhouse_api::decision::WorkloadRef, String)> {
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
                    let field = if kind == "Job" { "parallelism" } else { "replicas" };
                    let key = roundhouse_api::decision::WorkloadRef {
                        kind,
                        namespace: text(object, "/metadata/namespace")
                            .unwrap_or_else(|| namespace.to_owned()),
                        name,
                    };
                    all.push((
                        key,
                        format!("/components/{at}/properties/objects/{index}/spec/{field}"),
                    ));
                }
            }
            _ => {}
        }
    }
    all
}
