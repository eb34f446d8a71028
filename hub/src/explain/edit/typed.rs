//! What to type for a change: a command for the cluster, or JSON patches of the objects that say it.

use super::{Place, Source};
use crate::{
    explain::{Change, Form, Setting, change::toleration},
    words,
};
use roundhouse_api::cluster::TAINT_CORDONED;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Source {
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
            Change::Reconnect | Change::Capacity(_) | Change::Allocatable { .. } => return None,
            _ => return self.patch(change, setting, cluster),
        };
        Some(command)
    }

    fn patch(&self, change: &Change, setting: &Setting, cluster: &str) -> Option<String> {
        let names_at = |(step, rule): (usize, usize)| {
            let place = self.steps.get(step)?.rules.get(rule)?.clone()?;
            Some((place, setting.steps.get(step)?.spec.placement.get(rule)?))
        };
        // A topology policy says which clusters, and nothing else.
        let rule_at = |rule| names_at(rule).filter(|_| setting.form(rule) != Form::Topology);
        let one = |place: Place, value: Value| Some(vec![add(place, &value)]);
        // What a step says as a whole is in each of its maps.
        let each = |step: usize, rest: &str, value: Value| {
            let maps = &self.steps.get(step)?.maps;
            let all: Vec<_> = maps.iter().map(|map| add(map.below(rest), &value)).collect();
            (!all.is_empty()).then_some(all)
        };
        let operations = match change {
            Change::AddName { rule } => {
                let (at, now) = names_at(*rule)?;
                now.clusters.as_ref()?;
                one(at.below("clusters/-"), json!(cluster))
            }
            Change::RemoveName { rule } => {
                let (at, now) = names_at(*rule)?;
                let index = now.clusters.as_ref()?.iter().position(|name| name == cluster)?;
                let at = at.below(&format!("clusters/{index}"));
                // Somebody may have changed the list since.
                let test = json!({"op": "test", "path": at.pointer, "value": cluster});
                Some(vec![(at.clone(), test), remove(at)])
            }
            Change::Unrequire {
                rule: (step, rule),
                key,
            } => {
                let at = self.steps.get(*step)?.selectors.get(*rule)?.clone()?;
                let key = key.replace('~', "~0").replace('/', "~1");
                Some(vec![remove(at.below(&key))])
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
                let counted = self
                    .replicas
                    .iter()
                    .find(|counted| counted.workload == *workload)?;
                let place = |pointer: &str| Place {
                    kind: "application",
                    object: self.name.clone(),
                    pointer: format!("/spec{pointer}"),
                };
                let mut all = vec![add(place(&counted.pointer), &json!(replicas))];
                if let Some((pointer, _)) = self.completions(workload, *replicas) {
                    all.push(add(place(pointer), &json!(replicas)));
                }
                Some(all)
            }
            _ => None,
        };
        let mut objects: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
        for (place, operation) in operations? {
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

/// An operation of a JSON patch, and where it is.
type Operation = (Place, Value);

fn add(place: Place, value: &Value) -> Operation {
    let operation = json!({"op": "add", "path": place.pointer, "value": value});
    (place, operation)
}

fn remove(place: Place) -> Operation {
    let operation = json!({"op": "remove", "path": place.pointer});
    (place, operation)
}
