//! Busy: whether a workload that is to go still runs something; pure. Under apply-once it goes only when it does not, or
//! when somebody confirms its removal.

use crate::object::{ObjectKey, number};
use roundhouse_api::names::annotation;
use serde_json::Value;
use std::fmt;

/// What a workload still runs, or asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// `spec.replicas` of whatever kind has them.
    Replicas(i64),
    /// Nodes that a DaemonSet runs on.
    Nodes(i64),
    /// Pods of a Job that have not ended.
    Pods(i64),
}

impl Busy {
    /// What `live` still runs; `None` if nothing, and for what is no workload. Replicas that are left out are one, as
    /// its controller takes them.
    pub(crate) fn of(group: &str, kind: &str, live: &Value) -> Option<Self> {
        let replicas = |absent| Busy::Replicas(number(live, "/spec/replicas").unwrap_or(absent));
        let busy = match (group, kind) {
            ("apps", "DaemonSet") => {
                Busy::Nodes(number(live, "/status/currentNumberScheduled").unwrap_or_default())
            }
            ("batch", "Job") => Busy::Pods(number(live, "/status/active").unwrap_or_default()),
            ("apps", "Deployment" | "StatefulSet" | "ReplicaSet")
            | ("apps.kruise.io", "CloneSet" | "StatefulSet")
            | ("", "ReplicationController") => replicas(1),
            _ => replicas(0),
        };
        let (Busy::Replicas(count) | Busy::Nodes(count) | Busy::Pods(count)) = busy;
        (count > 0).then_some(busy)
    }

    /// Why the removal of `target` is refused, and what to do.
    pub(crate) fn refusal(self, target: &ObjectKey) -> String {
        let way = match self {
            Busy::Replicas(_) => "scale it to 0, or ",
            Busy::Nodes(_) => "",
            Busy::Pods(_) => "let it end or suspend it, or ",
        };
        format!(
            "{target} {self} and apply-once is on: {way}annotate it with {}=true, or delete the application",
            annotation::PRUNE
        )
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Busy::Replicas(count) => write!(f, "still asks for {count} replicas"),
            Busy::Nodes(count) => write!(f, "still runs on {count} nodes"),
            Busy::Pods(count) => write!(f, "still runs {count} pods"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_still_runs() {
        for (group, kind, live, expected) in [
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 3}}),
                Some(Busy::Replicas(3)),
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 0}, "status": {"replicas": 2}}),
                None,
            ),
            (
                "apps",
                "StatefulSet",
                json!({"spec": {}}),
                Some(Busy::Replicas(1)),
            ),
            ("apps.kruise.io", "CloneSet", json!({}), Some(Busy::Replicas(1))),
            (
                "apps.kruise.io",
                "CloneSet",
                json!({"spec": {"replicas": 0}}),
                None,
            ),
            (
                "example.com",
                "Widget",
                json!({"spec": {"replicas": 2}}),
                Some(Busy::Replicas(2)),
            ),
            ("example.com", "Widget", json!({}), None),
            (
                "apps",
                "DaemonSet",
                json!({"status": {"currentNumberScheduled": 4}}),
                Some(Busy::Nodes(4)),
            ),
            ("apps", "DaemonSet", json!({}), None),
            (
                "batch",
                "Job",
                json!({"status": {"active": 1, "succeeded": 2}}),
                Some(Busy::Pods(1)),
            ),
            ("batch", "Job", json!({"status": {"succeeded": 3}}), None),
            ("", "ConfigMap", json!({"data": {"replicas": "3"}}), None),
        ] {
            assert_eq!(Busy::of(group, kind, &live), expected, "{kind} {live}");
        }
    }

    #[test]
    fn a_refusal_names_the_object_and_what_to_do() {
        let key = ObjectKey {
            group: "batch".into(),
            kind: "Job".into(),
            namespace: "default".into(),
            name: "once".into(),
        };
        for (busy, expected) in [
            (
                Busy::Replicas(2),
                "still asks for 2 replicas and apply-once is on: scale it to 0, or annotate",
            ),
            (
                Busy::Nodes(3),
                "still runs on 3 nodes and apply-once is on: annotate",
            ),
            (
                Busy::Pods(1),
                "still runs 1 pods and apply-once is on: let it end or suspend it, or annotate",
            ),
        ] {
            assert_eq!(
                busy.refusal(&key),
                format!(
                    "Job.batch default/once {expected} it with roundhouse.dev/prune=true, or delete the application"
                )
            );
        }
    }
}
