//! Whatever makes pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, age, column, number,
    read::{
        ago, containers, count, flag, get, holds, int, integer, labels, list, or_none, plain, ratio,
        selector, string, time,
    },
    wide,
};
use crate::object;

const TEMPLATE: [&str; 3] = ["spec", "template", "spec"];
const CRON: [&str; 5] = ["spec", "jobTemplate", "spec", "template", "spec"];

const CONTAINERS: Column = wide("Containers", |v, _| containers(v, &TEMPLATE, "name"));
const IMAGES: Column = wide("Images", |v, _| containers(v, &TEMPLATE, "image"));
const SELECTOR: Column = wide("Selector", |v, _| selector(v, &["spec", "selector"]));

const DESIRED: Column = number("Desired", |v, _| int(v, &["spec", "replicas"]));
const CURRENT: Column = number("Current", |v, _| int(v, &["status", "replicas"]));
const READY: Column = number("Ready", |v, _| int(v, &["status", "readyReplicas"]));
const READY_OF_DESIRED: Column = column("Ready", |v, _| {
    ratio(v, &["status", "readyReplicas"], &["spec", "replicas"])
});

pub(super) const POD_TEMPLATE: &[Column] = &[
    NAME,
    column("Containers", |v, _| containers(v, &["template", "spec"], "name")),
    column("Images", |v, _| containers(v, &["template", "spec"], "image")),
    column("Pod Labels", |v, _| {
        labels(v, &["template", "metadata", "labels"])
    }),
];

pub(super) const REPLICATION_CONTROLLER: &[Column] =
    &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR];

pub(super) const REPLICA_SET: &[Column] = &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR];

pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    READY_OF_DESIRED,
    number("Up-to-date", |v, _| int(v, &["status", "updatedReplicas"])),
    number("Available", |v, _| int(v, &["status", "availableReplicas"])),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const STATEFUL_SET: &[Column] = &[NAME, READY_OF_DESIRED, AGE, CONTAINERS, IMAGES];

pub(super) const DAEMON_SET: &[Column] = &[
    NAME,
    number("Desired", |v, _| int(v, &["status", "desiredNumberScheduled"])),
    number("Current", |v, _| int(v, &["status", "currentNumberScheduled"])),
    number("Ready", |v, _| int(v, &["status", "numberReady"])),
    number("Up-to-date", |v, _| int(v, &["status", "updatedNumberScheduled"])),
    number("Available", |v, _| int(v, &["status", "numberAvailable"])),
    column("Node Selector", |v, _| {
        labels(v, &["spec", "template", "spec", "nodeSelector"])
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CONTROLLER_REVISION: &[Column] = &[
    NAME,
    column("Controller", |v, _| {
        let owners = list(v, &["metadata", "ownerReferences"]);
        let controller = owners
            .iter()
            .find(|o| o.get("controller") == Some(&Value::Bool(true)));
        let Some(owner) = controller else {
            return "<none>".into();
        };
        let (group, _) = get(owner, &["apiVersion"]).split_once('/').unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        let kind = get(owner, &["kind"]).to_lowercase();
        format!("{kind}{dot}{group}/{}", get(owner, &["name"])).into()
    }),
    number("Revision", |v, _| int(v, &["revision"])),
    AGE,
];

pub(super) const JOB: &[Column] = &[
    NAME,
    column("Status", job_status),
    column("Completions", |v, _| {
        let succeeded = integer(v, &["status", "succeeded"]);
        let parallel = integer(v, &["spec", "parallelism"]);
        match object::at(v, &["spec", "completions"]).and_then(Value::as_i64) {
            Some(all) => format!("{succeeded}/{all}").into(),
            None if parallel > 1 => format!("{succeeded}/1 of {parallel}").into(),
            None => format!("{succeeded}/1").into(),
        }
    }),
    column("Duration", job_duration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CRON_JOB: &[Column] = &[
    NAME,
    column("Schedule", |v, _| string(v, &["spec", "schedule"])),
    column("Timezone", |v, _| or_none(v, &["spec", "timeZone"])),
    column("Suspend", |v, _| flag(v, &["spec", "suspend"])),
    number("Active", |v, _| count(v, &["status", "active"])),
    column("Last Schedule", |v, now| {
        let path = ["status", "lastScheduleTime"];
        if get(v, &path).is_empty() {
            "<none>".into()
        } else {
            ago(v, &path, now)
        }
    }),
    AGE,
    wide("Containers", |v, _| containers(v, &CRON, "name")),
    wide("Images", |v, _| containers(v, &CRON, "image")),
    wide("Selector", |v, _| {
        selector(v, &["spec", "jobTemplate", "spec", "selector"])
    }),
];

pub(super) const AUTOSCALER: &[Column] = &[
    NAME,
    column("Reference", |v, _| {
        let target = ["spec", "scaleTargetRef"];
        format!(
            "{}/{}",
            get(v, &[target[0], target[1], "kind"]),
            get(v, &[target[0], target[1], "name"])
        )
        .into()
    }),
    column("Targets", targets),
    column("MinPods", |v, _| plain(v, &["spec", "minReplicas"], "<unset>")),
    number("MaxPods", |v, _| int(v, &["spec", "maxReplicas"])),
    number("Replicas", |v, _| int(v, &["status", "currentReplicas"])),
    AGE,
];

pub(super) const SCALE: &[Column] = &[
    NAME,
    number("Desired", |v, _| int(v, &["spec", "replicas"])),
    number("Available", |v, _| int(v, &["status", "replicas"])),
    AGE,
];

fn job_status(value: &Value, _: Timestamp) -> Value {
    if holds(value, "Complete") {
        "Complete".into()
    } else if holds(value, "Failed") {
        "Failed".into()
    } else if object::is_deleting(value) {
        "Terminating".into()
    } else {
        let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        let found = others.into_iter().find(|c| holds(value, c));
        found.unwrap_or("Running").into()
    }
}

fn job_duration(value: &Value, now: Timestamp) -> Value {
    let Some(start) = time(value, &["status", "startTime"]) else {
        return "".into();
    };
    let end = time(value, &["status", "completionTime"]).unwrap_or(now);
    age::human(end.as_second().saturating_sub(start.as_second())).into()
}

/// The metrics an autoscaler goes by: what is measured and what is wanted (`formatHPAMetrics`).
fn targets(value: &Value, _: Timestamp) -> Value {
    let specs = list(value, &["spec", "metrics"]);
    if specs.is_empty() {
        return "<none>".into();
    }
    let statuses = list(value, &["status", "currentMetrics"]);
    let target = |(i, spec): (usize, &Value)| {
        let source = match get(spec, &["type"]) {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => return "<unknown type>".to_owned(),
        };
        let current = |key: &str| {
            statuses
                .get(i)
                .map(|s| plain(s, &[source, "current", key], "<unknown>"))
        };
        let shown = |cell: Option<Value>| match cell {
            Some(Value::String(s)) => s,
            _ => "<unknown>".to_owned(),
        };
        let name = match get(spec, &[source, "name"]) {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let wanted = |key: &str| plain(spec, &[source, "target", key], "");
        if let Some(percent) = wanted("averageUtilization").as_str().filter(|s| !s.is_empty()) {
            let now = match shown(current("averageUtilization")) {
                unknown if unknown.starts_with('<') => unknown,
                number => format!("{number}%"),
            };
            return format!("{name}{now}/{percent}%");
        }
        for (key, unit) in [
            ("averageValue", if source == "resource" { "" } else { " (avg)" }),
            ("value", ""),
        ] {
            if let Some(goal) = wanted(key).as_str().filter(|s| !s.is_empty()) {
                return format!("{name}{}/{goal}{unit}", shown(current(key)));
            }
        }
        format!("{name}<unknown>/<auto>")
    };
    let all: Vec<String> = specs.iter().enumerate().map(target).collect();
    match all.as_slice() {
        [a, b, rest @ ..] if !rest.is_empty() => format!("{a}, {b} + {} more...", rest.len()).into(),
        all => all.join(", ").into(),
    }
}
