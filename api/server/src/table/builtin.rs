//! Columns of the built-in kinds people look at, as kubectl has always shown them (`pkg/printers/internalversion`).

use jiff::Timestamp;
use serde_json::Value;

use super::{age, render::Cell};
use crate::object::{at, text};

/// Name, priority (above 0: only with `-o wide`) and content.
pub(super) type Column = (&'static str, i64, Cell);

/// The columns of a kind between Name and Age.
pub(super) fn columns(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "ConfigMap") => &[("Data", 0, data_count)],
        ("", "Secret") => &[("Type", 0, |v, _| string(v, &["type"])), ("Data", 0, data_count)],
        ("", "Namespace") => &[("Status", 0, |v, _| string(v, &["status", "phase"]))],
        ("", "Node") => &[
            ("Status", 0, node_status),
            ("Version", 0, |v, _| {
                string(v, &["status", "nodeInfo", "kubeletVersion"])
            }),
        ],
        ("", "Pod") => &[
            ("Ready", 0, pod_ready),
            ("Status", 0, |v, _| string(v, &["status", "phase"])),
            ("Restarts", 0, pod_restarts),
            ("IP", 1, |v, _| or_none(v, &["status", "podIP"])),
            ("Node", 1, |v, _| or_none(v, &["spec", "nodeName"])),
        ],
        ("", "Service") => &[
            ("Type", 0, |v, _| string(v, &["spec", "type"])),
            ("Cluster-IP", 0, |v, _| or_none(v, &["spec", "clusterIP"])),
            ("External-IP", 0, external_ip),
            ("Port(s)", 0, ports),
            ("Selector", 1, |v, _| labels(v, &["spec", "selector"])),
        ],
        ("", "ServiceAccount") => &[("Secrets", 0, |v, _| count(v, &["secrets"]))],
        ("", "PersistentVolumeClaim") => &[
            ("Status", 0, |v, _| string(v, &["status", "phase"])),
            ("Volume", 0, |v, _| string(v, &["spec", "volumeName"])),
            ("Capacity", 0, |v, _| {
                string(v, &["status", "capacity", "storage"])
            }),
            ("StorageClass", 0, |v, _| string(v, &["spec", "storageClassName"])),
        ],
        ("", "Event") => &[
            ("Last Seen", 0, |v, now| ago(v, &["lastTimestamp"], now)),
            ("Type", 0, |v, _| string(v, &["type"])),
            ("Reason", 0, |v, _| string(v, &["reason"])),
            ("Object", 0, |v, _| object_of(v, "involvedObject")),
            ("Message", 0, |v, _| string(v, &["message"])),
        ],
        ("events.k8s.io", "Event") => &[
            ("Last Seen", 0, |v, now| ago(v, &["eventTime"], now)),
            ("Type", 0, |v, _| string(v, &["type"])),
            ("Reason", 0, |v, _| string(v, &["reason"])),
            ("Object", 0, |v, _| object_of(v, "regarding")),
            ("Message", 0, |v, _| string(v, &["note"])),
        ],
        ("apps", "Deployment") => &[
            ("Ready", 0, |v, _| {
                ratio(v, &["status", "readyReplicas"], &["spec", "replicas"])
            }),
            ("Up-to-date", 0, |v, _| number(v, &["status", "updatedReplicas"])),
            ("Available", 0, |v, _| number(v, &["status", "availableReplicas"])),
            ("Containers", 1, |v, _| containers(v, "name")),
            ("Images", 1, |v, _| containers(v, "image")),
            ("Selector", 1, |v, _| {
                labels(v, &["spec", "selector", "matchLabels"])
            }),
        ],
        ("apps", "StatefulSet") => &[
            ("Ready", 0, |v, _| {
                ratio(v, &["status", "readyReplicas"], &["spec", "replicas"])
            }),
            ("Containers", 1, |v, _| containers(v, "name")),
            ("Images", 1, |v, _| containers(v, "image")),
        ],
        ("apps", "ReplicaSet") | ("", "ReplicationController") => &[
            ("Desired", 0, |v, _| number(v, &["spec", "replicas"])),
            ("Current", 0, |v, _| number(v, &["status", "replicas"])),
            ("Ready", 0, |v, _| number(v, &["status", "readyReplicas"])),
        ],
        ("apps", "DaemonSet") => &[
            ("Desired", 0, |v, _| {
                number(v, &["status", "desiredNumberScheduled"])
            }),
            ("Current", 0, |v, _| {
                number(v, &["status", "currentNumberScheduled"])
            }),
            ("Ready", 0, |v, _| number(v, &["status", "numberReady"])),
            ("Up-to-date", 0, |v, _| {
                number(v, &["status", "updatedNumberScheduled"])
            }),
            ("Available", 0, |v, _| number(v, &["status", "numberAvailable"])),
            ("Node Selector", 0, |v, _| {
                labels(v, &["spec", "template", "spec", "nodeSelector"])
            }),
        ],
        ("batch", "Job") => &[
            ("Status", 0, job_status),
            ("Completions", 0, |v, _| {
                ratio(v, &["status", "succeeded"], &["spec", "completions"])
            }),
            ("Duration", 0, job_duration),
        ],
        ("batch", "CronJob") => &[
            ("Schedule", 0, |v, _| string(v, &["spec", "schedule"])),
            ("Timezone", 0, |v, _| or_none(v, &["spec", "timeZone"])),
            ("Suspend", 0, |v, _| flag(v, &["spec", "suspend"])),
            ("Active", 0, |v, _| count(v, &["status", "active"])),
            ("Last Schedule", 0, |v, now| {
                ago(v, &["status", "lastScheduleTime"], now)
            }),
        ],
        ("coordination.k8s.io", "Lease") => &[("Holder", 0, |v, _| string(v, &["spec", "holderIdentity"]))],
        ("networking.k8s.io", "Ingress") => &[
            ("Class", 0, |v, _| or_none(v, &["spec", "ingressClassName"])),
            ("Hosts", 0, hosts),
        ],
        ("networking.k8s.io", "NetworkPolicy") => &[("Pod-Selector", 0, |v, _| {
            labels(v, &["spec", "podSelector", "matchLabels"])
        })],
        ("policy", "PodDisruptionBudget") => &[
            ("Min Available", 0, |v, _| {
                plain(v, &["spec", "minAvailable"], "N/A")
            }),
            ("Max Unavailable", 0, |v, _| {
                plain(v, &["spec", "maxUnavailable"], "N/A")
            }),
            ("Allowed Disruptions", 0, |v, _| {
                number(v, &["status", "disruptionsAllowed"])
            }),
        ],
        ("autoscaling", "HorizontalPodAutoscaler") => &[
            ("Reference", 0, |v, _| {
                object_of(v.get("spec").unwrap_or(&Value::Null), "scaleTargetRef")
            }),
            ("MinPods", 0, |v, _| number(v, &["spec", "minReplicas"])),
            ("MaxPods", 0, |v, _| number(v, &["spec", "maxReplicas"])),
            ("Replicas", 0, |v, _| number(v, &["status", "currentReplicas"])),
        ],
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &[("Role", 0, |v, _| {
            format!(
                "{}/{}",
                get(v, &["roleRef", "kind"]),
                get(v, &["roleRef", "name"])
            )
            .into()
        })],
        ("apiextensions.k8s.io", _) => &[],
        ("scheduling.k8s.io", "PriorityClass") => &[("Value", 0, |v, _| number(v, &["value"]))],
        ("storage.k8s.io", "StorageClass") => &[("Provisioner", 0, |v, _| string(v, &["provisioner"]))],
        _ => &[],
    }
}

fn get<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    text(value, path).unwrap_or_default()
}

fn string(value: &Value, path: &[&str]) -> Value {
    get(value, path).into()
}

fn or_none(value: &Value, path: &[&str]) -> Value {
    text(value, path)
        .filter(|t| !t.is_empty())
        .unwrap_or("<none>")
        .into()
}

fn plain(value: &Value, path: &[&str], otherwise: &str) -> Value {
    match at(value, path) {
        None => otherwise.into(),
        Some(Value::String(s)) => s.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

fn integer(value: &Value, path: &[&str]) -> i64 {
    at(value, path).and_then(Value::as_i64).unwrap_or(0)
}

fn number(value: &Value, path: &[&str]) -> Value {
    integer(value, path).into()
}

fn flag(value: &Value, path: &[&str]) -> Value {
    if at(value, path) == Some(&Value::Bool(true)) {
        "True".into()
    } else {
        "False".into()
    }
}

fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn count(value: &Value, path: &[&str]) -> Value {
    list(value, path).len().into()
}

fn ratio(value: &Value, part: &[&str], whole: &[&str]) -> Value {
    format!("{}/{}", integer(value, part), integer(value, whole)).into()
}

fn data_count(value: &Value, _: Timestamp) -> Value {
    let size = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
    };
    (size("data") + size("binaryData")).into()
}

fn labels(value: &Value, path: &[&str]) -> Value {
    let pairs = at(value, path).and_then(Value::as_object).into_iter().flatten();
    let text: Vec<String> = pairs
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    if text.is_empty() {
        "<none>".into()
    } else {
        text.join(",").into()
    }
}

fn containers(value: &Value, key: &str) -> Value {
    let all = list(value, &["spec", "template", "spec", "containers"]);
    all.iter()
        .map(|c| get(c, &[key]))
        .collect::<Vec<_>>()
        .join(",")
        .into()
}

fn ago(value: &Value, path: &[&str], now: Timestamp) -> Value {
    text(value, path).map_or_else(|| "<none>".into(), |then| age::age(then, now).into())
}

fn object_of(value: &Value, key: &str) -> Value {
    format!(
        "{}/{}",
        get(value, &[key, "kind"]).to_lowercase(),
        get(value, &[key, "name"])
    )
    .into()
}

fn condition<'a>(value: &'a Value, ty: &str) -> Option<&'a Value> {
    list(value, &["status", "conditions"])
        .iter()
        .find(|c| get(c, &["type"]) == ty && get(c, &["status"]) == "True")
}

fn node_status(value: &Value, _: Timestamp) -> Value {
    if condition(value, "Ready").is_some() {
        "Ready".into()
    } else {
        "NotReady".into()
    }
}

fn pod_ready(value: &Value, _: Timestamp) -> Value {
    let ready = list(value, &["status", "containerStatuses"])
        .iter()
        .filter(|c| c.get("ready") == Some(&Value::Bool(true)));
    format!("{}/{}", ready.count(), list(value, &["spec", "containers"]).len()).into()
}

fn pod_restarts(value: &Value, _: Timestamp) -> Value {
    list(value, &["status", "containerStatuses"])
        .iter()
        .map(|c| integer(c, &["restartCount"]))
        .sum::<i64>()
        .into()
}

fn external_ip(value: &Value, _: Timestamp) -> Value {
    let ingress = list(value, &["status", "loadBalancer", "ingress"]);
    let address = |i: &Value| {
        text(i, &["ip"])
            .or(text(i, &["hostname"]))
            .unwrap_or_default()
            .to_owned()
    };
    match get(value, &["spec", "type"]) {
        "ExternalName" => string(value, &["spec", "externalName"]),
        "LoadBalancer" if ingress.is_empty() => "<pending>".into(),
        _ if ingress.is_empty() => "<none>".into(),
        _ => ingress.iter().map(address).collect::<Vec<_>>().join(",").into(),
    }
}

fn ports(value: &Value, _: Timestamp) -> Value {
    let port = |p: &Value| {
        let node = integer(p, &["nodePort"]);
        let node = if node > 0 {
            format!(":{node}")
        } else {
            String::new()
        };
        format!("{}{node}/{}", integer(p, &["port"]), get(p, &["protocol"]))
    };
    let all: Vec<String> = list(value, &["spec", "ports"]).iter().map(port).collect();
    if all.is_empty() {
        "<none>".into()
    } else {
        all.join(",").into()
    }
}

fn hosts(value: &Value, _: Timestamp) -> Value {
    let all: Vec<&str> = list(value, &["spec", "rules"])
        .iter()
        .filter_map(|r| text(r, &["host"]))
        .collect();
    if all.is_empty() {
        "*".into()
    } else {
        all.join(",").into()
    }
}

fn job_status(value: &Value, _: Timestamp) -> Value {
    ["Complete", "Failed", "Suspended"]
        .into_iter()
        .find(|c| condition(value, c).is_some())
        .unwrap_or("Running")
        .into()
}

fn job_duration(value: &Value, now: Timestamp) -> Value {
    let time = |path: &[&str]| text(value, path).and_then(|t| t.parse::<Timestamp>().ok());
    let Some(start) = time(&["status", "startTime"]) else {
        return "".into();
    };
    let end = time(&["status", "completionTime"]).unwrap_or(now);
    age::human(end.as_second().saturating_sub(start.as_second())).into()
}
