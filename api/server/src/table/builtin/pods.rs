//! Pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, age, column,
    read::{get, holds, integer, is, list, or_none, time},
    wide,
};
use crate::object;

pub(super) const POD: &[Column] = &[
    NAME,
    column("Ready", |v, _| {
        let all = list(v, &["spec", "containers"]).len();
        format!("{}/{all}", State::of(v).ready).into()
    }),
    column("Status", |v, _| State::of(v).reason.into()),
    column("Restarts", restarts),
    AGE,
    wide("IP", |v, _| or_none(v, &["status", "podIP"])),
    wide("Node", |v, _| or_none(v, &["spec", "nodeName"])),
    wide("Nominated Node", |v, _| {
        or_none(v, &["status", "nominatedNodeName"])
    }),
    wide("Readiness Gates", |v, _| {
        let gates = list(v, &["spec", "readinessGates"]);
        let met = gates.iter().filter(|g| holds(v, get(g, &["conditionType"])));
        match gates.len() {
            0 => "<none>".into(),
            all => format!("{}/{all}", met.count()).into(),
        }
    }),
];

/// What `printPod` in Kubernetes makes of the states of the containers.
struct State {
    ready: usize,
    reason: String,
    restarts: i64,
    /// When a container last ended.
    last: Option<Timestamp>,
}

impl State {
    fn of(pod: &Value) -> Self {
        let phase = get(pod, &["status", "phase"]);
        let own = get(pod, &["status", "reason"]);
        let mut out = Self {
            ready: 0,
            reason: if own.is_empty() { phase } else { own }.to_owned(),
            restarts: 0,
            last: None,
        };
        if !out.initializing(pod) {
            out.running(pod);
        }
        if !object::meta(pod, "deletionTimestamp").is_empty() {
            let lost = own == "NodeLost";
            if lost {
                out.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                out.reason = "Terminating".to_owned();
            }
        }
        out
    }

    fn count(&mut self, container: &Value) {
        self.restarts += integer(container, &["restartCount"]);
        self.last = self
            .last
            .max(time(container, &["lastState", "terminated", "finishedAt"]));
    }

    /// The init containers; whether one of them is not done.
    fn initializing(&mut self, pod: &Value) -> bool {
        let all = list(pod, &["spec", "initContainers"]).len();
        for (i, container) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            self.count(container);
            let waiting = get(container, &["state", "waiting", "reason"]);
            self.reason = match object::at(container, &["state", "terminated"]) {
                Some(ended) if integer(ended, &["exitCode"]) == 0 => continue,
                Some(ended) => format!("Init:{}", end(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{i}/{all}"),
            };
            return true;
        }
        false
    }

    fn running(&mut self, pod: &Value) {
        (self.restarts, self.last) = (0, None);
        let mut any = false;
        for container in list(pod, &["status", "containerStatuses"]).iter().rev() {
            self.count(container);
            let waiting = get(container, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = object::at(container, &["state", "terminated"]) {
                self.reason = end(ended);
            } else if is(container, &["ready"]) && object::at(container, &["state", "running"]).is_some() {
                self.ready += 1;
                any = true;
            }
        }
        if self.reason == "Completed" && any {
            self.reason = if holds(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }
}

/// How a container ended.
fn end(terminated: &Value) -> String {
    match (
        get(terminated, &["reason"]),
        integer(terminated, &["signal"]),
        integer(terminated, &["exitCode"]),
    ) {
        ("", 0, code) => format!("ExitCode:{code}"),
        ("", signal, _) => format!("Signal:{signal}"),
        (reason, ..) => reason.to_owned(),
    }
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let state = State::of(pod);
    match state.last.filter(|_| state.restarts > 0) {
        Some(last) => {
            let since = age::human(now.as_second().saturating_sub(last.as_second()));
            format!("{} ({since} ago)", state.restarts).into()
        }
        None => state.restarts.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_pod_is_doing() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let running = json!({"name": "a", "ready": true, "restartCount": 0, "state": {"running": {}}});
        let waiting = json!({"name": "b", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:07:00Z"}}});
        let ended = |code: i64, reason: &str| json!({"name": "a", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": reason}}});
        let status = |phase: &str, all: Value| json!({"phase": phase, "containerStatuses": all});
        let init = json!({"phase": "Pending", "initContainerStatuses": [ended(0, "Completed"), {"restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}]});
        let table = [
            (json!({"phase": "Pending"}), "0/2 Pending 0"),
            (
                status("Running", json!([running, waiting])),
                "1/2 CrashLoopBackOff 3 (3m ago)",
            ),
            (status("Running", json!([running, running])), "2/2 Running 0"),
            (
                status("Succeeded", json!([ended(0, "Completed")])),
                "0/2 Completed 0",
            ),
            (status("Failed", json!([ended(3, "")])), "0/2 ExitCode:3 0"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0"),
            (init, "0/2 Init:1/2 0"),
        ];
        let spec = json!({"containers": [{}, {}], "initContainers": [{}, {}]});
        for (status, expected) in table {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
            let cells = |pod: &Value| -> String {
                let cells = POD.iter().skip(1).take(3).map(|c| (c.cell)(pod, now));
                let cells: Vec<String> = cells.map(|c| c.as_str().unwrap().to_owned()).collect();
                cells.join(" ")
            };
            assert_eq!(cells(&pod), expected);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:30Z");
            let done = expected.contains("Completed") || pod["status"]["phase"] == "Failed";
            assert_eq!(cells(&pod).contains("Terminating"), !done, "{expected}");
        }
    }
}
