//! `autoscaling/v1` over the stored `autoscaling/v2` (`pkg/apis/autoscaling/v1/conversion.go`): the first metric of the CPU
//! is a field, whatever else version 1 has no field for is kept in annotations.
//!
//! As in Kubernetes, these annotations are the fields: a `PUT` of version 1 that leaves them out takes the other metrics and
//! the behavior away, since nobody could take them away otherwise; a patch changes what it names. Of the status that is so
//! for those only who may write the status.

use serde_json::{Map, Value, json};

use super::Conversion;
use crate::{
    admission::cpu_in_use,
    object::{at, child},
};

pub(in crate::kinds) const AUTOSCALER_V1: Conversion = Conversion {
    stored_group: "autoscaling",
    table: "horizontalpodautoscalers.autoscaling",
    stored_field: str::to_owned,
    hides,
    to_stored,
    from_stored,
};

const ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/";

/// Where version 2 has what version 1 keeps in the annotation of this name.
const KEPT: [(&str, &str, &str); 4] = [
    ("metrics", "spec", "metrics"),
    ("behavior", "spec", "behavior"),
    ("current-metrics", "status", "currentMetrics"),
    ("conditions", "status", "conditions"),
];

fn hides(value: &Value) -> bool {
    let annotations = at(value, &["metadata", "annotations"]).and_then(Value::as_object);
    annotations.is_some_and(|annotations| {
        KEPT.iter()
            .any(|(name, ..)| annotations.contains_key(&format!("{ANNOTATION}{name}")))
    })
}

fn section<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    value.get_mut(key).and_then(Value::as_object_mut)
}

/// Whether a metric is the use of the CPU by all of a pod.
fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn from_stored(value: &mut Value) {
    let mut kept = Map::new();
    for (name, part, key) in KEPT {
        let Some(map) = section(value, part) else { continue };
        let Some(mut content) = map.remove(key) else {
            continue;
        };
        if let Value::Array(list) = &mut content {
            let path: &[&str] = if part == "spec" {
                &["resource", "target", "averageUtilization"]
            } else {
                &["resource", "current", "averageUtilization"]
            };
            let cpu = list
                .iter()
                .position(|m| is_cpu(m) && at(m, path).is_some_and(Value::is_i64));
            if let Some(cpu) = cpu {
                let field = match part {
                    "spec" => "targetCPUUtilizationPercentage",
                    _ => "currentCPUUtilizationPercentage",
                };
                if let Some(percent) = at(&list.remove(cpu), path) {
                    map.insert(field.to_owned(), percent.clone());
                }
            }
            if list.is_empty() {
                continue;
            }
        }
        kept.insert(format!("{ANNOTATION}{name}"), content.to_string().into());
    }
    if !kept.is_empty()
        && let Some(annotations) = value
            .as_object_mut()
            .and_then(|map| child(map, "metadata"))
            .and_then(|meta| child(meta, "annotations"))
    {
        annotations.extend(kept);
    }
}

fn to_stored(value: &mut Value) {
    for (name, part, key) in KEPT {
        let annotation = format!("{ANNOTATION}{name}");
        let Some(meta) = section(value, "metadata") else {
            break;
        };
        let Some(Value::Object(annotations)) = meta.get_mut("annotations") else {
            break;
        };
        // What cannot be read goes, too: it would come back as what it is not.
        let text = annotations.remove(&annotation);
        if annotations.is_empty() {
            meta.remove("annotations");
        }
        let content = text
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(content) = content.filter(|content| fits(key, content))
            && let Some(map) = value.as_object_mut().and_then(|map| child(map, part))
        {
            map.insert(key.to_owned(), content);
        }
    }
    if let Some(spec) = section(value, "spec") {
        let percent = spec
            .remove("targetCPUUtilizationPercentage")
            .and_then(|n| n.as_i64());
        let default = (!spec.contains_key("metrics")).then_some(80);
        prepend(spec, "metrics", percent.or(default).map(cpu_in_use));
    }
    if let Some(status) = section(value, "status") {
        let current = status
            .remove("currentCPUUtilizationPercentage")
            .filter(Value::is_i64);
        let first = |n| json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": n}}});
        prepend(status, "currentMetrics", current.map(first));
    }
}

/// Whether a field of version 2 may be this: a list of objects (the behavior: an object), no deeper than any real one.
fn fits(key: &str, content: &Value) -> bool {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let shape = match content {
        Value::Array(list) => key != "behavior" && list.iter().all(Value::is_object),
        Value::Object(_) => key == "behavior",
        _ => false,
    };
    shape && depth(content) <= DEEPEST
}

/// Levels of the deepest metric: a selector with expressions.
const DEEPEST: usize = 12;

fn prepend(map: &mut Map<String, Value>, key: &str, first: Option<Value>) {
    let Some(first) = first else { return };
    let list = map.entry(key).or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.insert(0, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let plain = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1,
            "maxReplicas": 5, "targetCPUUtilizationPercentage": 80}, "status": {"currentReplicas": 2, "currentCPUUtilizationPercentage": 40}});
        let stored = AUTOSCALER_V1.stored(&plain);
        assert_eq!(
            stored["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}])
        );
        assert_eq!(stored["spec"].get("targetCPUUtilizationPercentage"), None);
        let mut back = stored;
        AUTOSCALER_V1.serve(&mut back);
        assert_eq!(back, plain);
    }

    #[test]
    fn what_version_1_has_no_field_for() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let stored = json!({"metadata": {"name": "web", "annotations": {"own": "1"}}, "spec": {"maxReplicas": 5, "metrics": [cpu, memory],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}, "status": {"conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let mut served = stored.clone();
        AUTOSCALER_V1.serve(&mut served);
        assert_eq!(
            served["spec"],
            json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 50})
        );
        assert_eq!(served["metadata"]["annotations"].as_object().unwrap().len(), 4);
        assert_eq!(AUTOSCALER_V1.stored(&served), stored);
        let by_hand = json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "{"}}, "spec": {}});
        let cpu = json!({"metadata": {}, "spec": {"metrics": [cpu_in_use(80)]}});
        assert_eq!(AUTOSCALER_V1.stored(&by_hand), cpu, "as Kubernetes drops it");
    }
}
