//! What can be seen on live objects: whether they are ready, and the replicas of workloads.

mod builtin;
mod custom;
pub(crate) mod feedback;
mod workload;

use crate::object::{self, ObjectKey};
use serde_json::Value;

/// Whether a live object does what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// On its way; the text says what is waited for.
    Progressing(String),
    /// It does.
    Ready,
    /// It does not and says so itself.
    Failed {
        /// Machine-readable, the object's own where it gives one.
        reason: String,
        /// What a person should know.
        message: String,
    },
}

impl Readiness {
    fn progressing(message: impl Into<String>) -> Self {
        Readiness::Progressing(message.into())
    }

    fn failed(reason: &str, message: &str) -> Self {
        let reason = if reason.is_empty() { "Failed" } else { reason };
        Readiness::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// Judges a live object. What it says counts only when its controller has seen the present generation: a Deployment
/// that was just changed still shows the old revision as ready.
pub(crate) fn readiness(key: &ObjectKey, live: &Value) -> Readiness {
    if object::is_deleting(live) {
        return Readiness::progressing("being deleted");
    }
    match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "Deployment") => observed(live, workload::deployment),
        ("apps", "StatefulSet") => observed(live, workload::stateful_set),
        ("apps", "DaemonSet") => observed(live, workload::daemon_set),
        ("apps", "ReplicaSet") => observed(live, workload::replica_set),
        ("batch", "Job") => workload::job(live),
        ("", "Pod") => builtin::pod(live),
        ("", "PersistentVolumeClaim") => builtin::volume_claim(live),
        ("", "Service") => builtin::service(live),
        ("", "Namespace") => builtin::namespace(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => builtin::definition(live),
        ("policy", "PodDisruptionBudget") => observed(live, builtin::disruption_budget),
        _ if builtin::ready_once_applied(key) => Readiness::Ready,
        _ => custom::judge(live),
    }
}

/// Waits for the controller to see the present generation, then judges.
fn observed(live: &Value, judge: impl Fn(&Value) -> Readiness) -> Readiness {
    let (generation, observed) = (
        object::generation(live),
        object::number(live, "/status/observedGeneration").unwrap_or(0),
    );
    if observed < generation {
        return Readiness::Progressing(format!(
            "generation {generation} is not observed yet, {observed} is"
        ));
    }
    judge(live)
}

/// A field of a condition, empty if it is missing.
fn field<'a>(condition: &'a Value, name: &str) -> &'a str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of a type if its status is `True`.
fn true_condition<'a>(live: &'a Value, type_: &str) -> Option<&'a Value> {
    object::condition(live, type_).filter(|condition| field(condition, "status") == "True")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `ready`, `progressing` or the reason of the failure.
    pub(crate) fn verdict(group: &str, kind: &str, live: &Value) -> String {
        let key = ObjectKey {
            group: group.into(),
            kind: kind.into(),
            ..ObjectKey::default()
        };
        match readiness(&key, live) {
            Readiness::Ready => "ready".into(),
            Readiness::Progressing(_) => "progressing".into(),
            Readiness::Failed { reason, .. } => reason,
        }
    }

    #[test]
    fn an_object_that_is_being_deleted_is_not_ready() {
        let live = serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(verdict("", "ConfigMap", &live), "progressing");
        assert_eq!(verdict("example.com", "Widget", &live), "progressing");
    }
}
