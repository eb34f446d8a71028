//! Replicas of workloads, for the report.

use crate::object::{ObjectKey, number};
use roundhouse_api::bundle::WorkloadStatus;
use serde_json::Value;

/// The replicas of a workload; `None` for other kinds.
pub(super) fn replicas(key: &ObjectKey, live: &Value) -> Option<WorkloadStatus> {
    let read = |pointer: &str, absent: i64| {
        u32::try_from(number(live, pointer).unwrap_or(absent).max(0)).unwrap_or(u32::MAX)
    };
    let (desired, updated, ready) = match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") | ("apps.kruise.io", "CloneSet") => (
            read("/spec/replicas", 1),
            read("/status/updatedReplicas", 0),
            read("/status/readyReplicas", 0),
        ),
        // All pods of a ReplicaSet are of its one revision.
        ("apps", "ReplicaSet") => (
            read("/spec/replicas", 1),
            read("/status/replicas", 0),
            read("/status/readyReplicas", 0),
        ),
        ("apps", "DaemonSet") => (
            read("/status/desiredNumberScheduled", 0),
            read("/status/updatedNumberScheduled", 0),
            read("/status/numberReady", 0),
        ),
        ("batch", "Job") => {
            let completions = read("/spec/completions", 1);
            let (active, succeeded) = (read("/status/active", 0), read("/status/succeeded", 0));
            (completions, active.saturating_add(succeeded), succeeded)
        }
        _ => return None,
    };
    Some(WorkloadStatus {
        kind: key.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        desired,
        updated,
        ready,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_of_workloads() {
        let counts = |group: &str, kind: &str, live: Value| {
            let key = ObjectKey {
                group: group.into(),
                kind: kind.into(),
                ..ObjectKey::default()
            };
            replicas(&key, &live).map(|w| (w.desired, w.updated, w.ready))
        };
        let deployment =
            json!({"spec": {"replicas": 3}, "status": {"updatedReplicas": 2, "readyReplicas": 1}});
        assert_eq!(counts("apps", "Deployment", deployment), Some((3, 2, 1)));
        assert_eq!(counts("apps", "Deployment", json!({})), Some((1, 0, 0)));
        let daemons =
            json!({"status": {"desiredNumberScheduled": 4, "updatedNumberScheduled": 3, "numberReady": 2}});
        assert_eq!(counts("apps", "DaemonSet", daemons), Some((4, 3, 2)));
        assert_eq!(
            counts("batch", "Job", json!({"status": {"succeeded": 1}})),
            Some((1, 1, 1))
        );
        let clones = json!({"spec": {"replicas": 3}, "status": {"updatedReplicas": 2, "readyReplicas": 1}});
        assert_eq!(counts("apps.kruise.io", "CloneSet", clones), Some((3, 2, 1)));
        assert_eq!(counts("", "ConfigMap", json!({})), None);
        assert_eq!(counts("example.com", "Deployment", json!({})), None);
    }
}
