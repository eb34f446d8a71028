//! What can be seen on live objects: whether they are ready, the replicas of workloads, and what the rules of the bundle
//! ask for. Everything here is pure.
//!
//! | module | question |
//! | --- | --- |
//! | `workload`, `builtin`, `custom` | is it ready, by what is known of its kind or by its conditions? |
//! | `rules` | which rules of the bundle are about it? |
//! | `conditions` | which conditions do they make, and what does that say of its readiness? |
//! | `feedback` | which values of it are reported? |
//! | `expression` | CEL within a budget |
//! | `replicas` | how many replicas does a workload have? |

mod builtin;
mod conditions;
mod custom;
mod expression;
mod feedback;
mod replicas;
mod rules;
mod workload;

pub(crate) use conditions::RuleCondition;
pub(crate) use feedback::Synced;
pub(crate) use rules::{Examined, RuleSet, Rules};

use crate::object::{self, ObjectKey};
use roundhouse_api::bundle::WorkloadStatus;
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

/// What one look at a live object shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sight {
    /// Whether it is ready.
    pub(crate) readiness: Readiness,
    /// Its replicas, for workloads.
    pub(crate) workload: Option<WorkloadStatus>,
    /// What the rules of the bundle say.
    pub(crate) examined: Examined,
}

/// Looks at a live object of API version `version`; `written` is the generation that our own last write produced. What
/// the rules said of this very version of the object is `known`, and is not asked again.
pub(crate) fn look(
    key: &ObjectKey,
    version: &str,
    live: &Value,
    written: Option<i64>,
    rules: Option<&RuleSet>,
    known: Option<&Examined>,
) -> Sight {
    let known = known.filter(|known| !known.postponed).cloned();
    let behind = behind(key, live, written);
    let examine = |rules: &RuleSet| {
        let examined = known.unwrap_or_else(|| rules.examine(key, version, live));
        match &behind {
            // Values are told as they are.
            Some(_) => Examined {
                conditions: rules
                    .unexamined("its status is of an earlier generation")
                    .conditions,
                ..examined
            },
            None => examined,
        }
    };
    let examined = rules.map(examine).unwrap_or_default();
    let workload = replicas::replicas(key, live).map(|workload| match &behind {
        // Whose pods they are that it counts is not known yet.
        Some(_) => WorkloadStatus {
            updated: 0,
            ..workload
        },
        None => workload,
    });
    Sight {
        readiness: unsettled(live, behind)
            .unwrap_or_else(|| conditions::decide(&examined.conditions, by_kind(key, live))),
        workload,
        examined,
    }
}

/// Judges a live object by its kind alone.
pub(crate) fn readiness(key: &ObjectKey, live: &Value) -> Readiness {
    unsettled(live, behind(key, live, None)).unwrap_or_else(|| by_kind(key, live))
}

/// How an object that runs to an end came to it, well or badly, even if it is on its way out by now; `None` for one that
/// has not, or that has no end. A Job's terminal conditions are final.
pub(crate) fn end(key: &ObjectKey, live: &Value) -> Option<Readiness> {
    if !key.is("batch", "Job") {
        return None;
    }
    match workload::job(live) {
        Readiness::Progressing(_) => None,
        end => Some(end),
    }
}

/// Why nothing that the object says counts yet: it is on its way out, or what it says is [`behind`].
fn unsettled(live: &Value, behind: Option<String>) -> Option<Readiness> {
    match object::is_deleting(live) {
        true => Some(Readiness::progressing("being deleted")),
        false => behind.map(Readiness::Progressing),
    }
}

/// Why what the object says is not of what it is to be: it was read before our own write, or its controller has not seen its
/// present generation. A Deployment that was just changed still shows the old revision as ready.
fn behind(key: &ObjectKey, live: &Value, written: Option<i64>) -> Option<String> {
    let generation = object::generation(live);
    if let Some(written) = written.filter(|written| generation < *written) {
        return Some(format!("generation {generation} was read, {written} was written"));
    }
    let observed = object::number(live, "/status/observedGeneration");
    let observed = observed.or(observes_generations(key).then_some(0))?;
    (observed < generation).then(|| format!("generation {generation} is not observed yet, {observed} is"))
}

/// Kinds whose controllers always say which generation they saw.
fn observes_generations(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("apps.kruise.io", "CloneSet")
            | ("policy", "PodDisruptionBudget")
    )
}

fn by_kind(key: &ObjectKey, live: &Value) -> Readiness {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "Deployment") => workload::deployment(live),
        ("apps", "StatefulSet") => workload::stateful_set(live),
        ("apps", "DaemonSet") => workload::daemon_set(live),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workload::replica_set(live),
        ("apps.kruise.io", "CloneSet") => workload::clone_set(live),
        ("batch", "Job") => workload::job(live),
        ("", "Pod") => builtin::pod(live),
        ("", "PersistentVolumeClaim") => builtin::volume_claim(live),
        ("", "Service") => builtin::service(live),
        ("", "Namespace") => builtin::namespace(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => builtin::definition(live),
        ("apiregistration.k8s.io", "APIService") => builtin::api_service(live),
        ("policy", "PodDisruptionBudget") => builtin::disruption_budget(live),
        ("autoscaling", "HorizontalPodAutoscaler") => builtin::autoscaler(live),
        _ if builtin::ready_once_applied(key) => Readiness::Ready,
        _ => custom::judge(live),
    }
}

/// A field of a condition, empty if it is missing.
fn field<'a>(condition: &'a Value, name: &str) -> &'a str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of a type if its status is `True`.
fn true_condition<'a>(live: &'a Value, type_: &str) -> Option<&'a Value> {
    object::condition(live, type_).filter(|condition| field(condition, "status") == "True")
}

/// What a condition says, for people: `Reason: message`.
fn saying(condition: &Value) -> String {
    let says = [field(condition, "reason"), field(condition, "message")];
    let says = says.into_iter().filter(|text| !text.is_empty());
    says.collect::<Vec<_>>().join(": ")
}

fn too_many() -> String {
    format!("the bundle has more than {} expressions", rules::MAX_EXPRESSIONS)
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
    fn what_was_read_before_our_own_write_is_not_ready() {
        let key = ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            ..ObjectKey::default()
        };
        let live = serde_json::json!({"metadata": {"generation": 2}, "spec": {"replicas": 1},
            "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}});
        let at = |written| look(&key, "v1", &live, written, None, None).readiness;
        assert_eq!(at(None), Readiness::Ready);
        assert_eq!(at(Some(2)), Readiness::Ready);
        assert!(matches!(at(Some(3)), Readiness::Progressing(_)));
    }

    #[test]
    fn an_object_that_is_being_deleted_is_not_ready() {
        let live = serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(verdict("", "ConfigMap", &live), "progressing");
        assert_eq!(verdict("example.com", "Widget", &live), "progressing");
    }
}
