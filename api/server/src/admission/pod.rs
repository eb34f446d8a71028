//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use super::defaults::default;
use crate::object::child;

type Object = Map<String, Value>;

/// The pod template at `key`.
pub(super) fn template(map: &mut Object, key: &str) {
    if let Some(template) = child(map, key) {
        default(template, "metadata", json!({}));
        if let Some(spec) = child(template, "spec") {
            pod_spec(spec);
        }
    }
}

/// `v1` Pod.
pub(super) fn pod(map: &mut Object, new: bool) {
    if let Some(spec) = child(map, "spec") {
        pod_spec(spec);
        default(spec, "enableServiceLinks", true);
        default(spec, "serviceAccountName", "default");
        default(spec, "serviceAccount", "default");
        default(spec, "preemptionPolicy", "PreemptLowerPriority");
        default(spec, "priority", 0);
    }
    if new {
        let class = qos_class(map);
        map.insert("status".into(), json!({"phase": "Pending", "qosClass": class}));
    }
}

fn pod_spec(spec: &mut Object) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        default(spec, "serviceAccount", name);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for c in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(c) = c.as_object_mut() {
                container(c);
            }
        }
    }
    for v in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(v) = v.as_object_mut() {
            volume(v);
        }
    }
}

fn container(c: &mut Object) {
    let image = c
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    default(
        c,
        "imagePullPolicy",
        if is_latest(&image) {
            "Always"
        } else {
            "IfNotPresent"
        },
    );
    default(c, "terminationMessagePath", "/dev/termination-log");
    default(c, "terminationMessagePolicy", "File");
    default(c, "resources", json!({}));
    let requests: Vec<(String, Value)> = c
        .get("resources")
        .and_then(|r| r.get("limits"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if !requests.is_empty()
        && let Some(asked) = child(c, "resources").and_then(|r| child(r, "requests"))
    {
        for (key, v) in requests {
            asked.entry(key).or_insert(v);
        }
    }
    for port in c
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            default(port, "protocol", "TCP");
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(p) = c.get_mut(key).and_then(Value::as_object_mut) {
            probe(p);
        }
    }
    for env in c
        .get_mut("env")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let field = env
            .get_mut("valueFrom")
            .and_then(|v| v.get_mut("fieldRef"))
            .and_then(Value::as_object_mut);
        if let Some(field) = field {
            default(field, "apiVersion", "v1");
        }
    }
}

fn probe(p: &mut Object) {
    default(p, "timeoutSeconds", 1);
    default(p, "periodSeconds", 10);
    default(p, "successThreshold", 1);
    default(p, "failureThreshold", 3);
    if let Some(get) = p.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
    if let Some(grpc) = p.get_mut("grpc").and_then(Value::as_object_mut) {
        default(grpc, "service", "");
    }
}

/// Mode 0644.
const MODE: i64 = 420;

fn volume(v: &mut Object) {
    const SOURCES_WITH_MODE: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];
    if v.keys().all(|k| k == "name") {
        v.insert("emptyDir".into(), json!({}));
    }
    for key in SOURCES_WITH_MODE {
        if let Some(source) = v.get_mut(key).and_then(Value::as_object_mut) {
            default(source, "defaultMode", MODE);
        }
    }
    if let Some(path) = v.get_mut("hostPath").and_then(Value::as_object_mut) {
        default(path, "type", "");
    }
}

/// Whether an image reference has no tag or the tag `latest` (and no digest).
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn qos_class(map: &Object) -> &'static str {
    let containers = map
        .get("spec")
        .and_then(|s| s.get("containers"))
        .and_then(Value::as_array);
    let containers: Vec<&Value> = containers.into_iter().flatten().collect();
    let part = |c: &Value, part: &str, key: &str| {
        c.get("resources")
            .and_then(|r| r.get(part))
            .and_then(|l| l.get(key))
            .cloned()
    };
    let none = |c: &&Value| {
        ["limits", "requests"]
            .iter()
            .all(|p| part(c, p, "cpu").or(part(c, p, "memory")).is_none())
    };
    let full = |c: &&Value| {
        ["cpu", "memory"]
            .iter()
            .all(|k| part(c, "limits", k).is_some() && part(c, "limits", k) == part(c, "requests", k))
    };
    if containers.iter().all(none) {
        "BestEffort"
    } else if containers.iter().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
