//! Workloads: the rules of `kubectl rollout status`, with failures where the object says so itself.

use super::{Readiness, field, true_condition};
use crate::object::{self, number};
use serde_json::Value;

fn status(live: &Value, field: &str) -> i64 {
    number(live, &format!("/status/{field}")).unwrap_or(0)
}

/// `spec.replicas`; Kubernetes' default is 1.
fn replicas(live: &Value) -> i64 {
    number(live, "/spec/replicas").unwrap_or(1)
}

/// What the object says of replicas that could not be started.
fn not_started(live: &Value) -> &str {
    true_condition(live, "ReplicaFailure").map_or("", |condition| field(condition, "message"))
}

pub(super) fn deployment(live: &Value) -> Readiness {
    if let Some(progressing) = object::condition(live, "Progressing")
        && field(progressing, "reason") == "ProgressDeadlineExceeded"
    {
        return Readiness::failed("ProgressDeadlineExceeded", field(progressing, "message"));
    }
    let (wanted, updated) = (replicas(live), status(live, "updatedReplicas"));
    let (total, available) = (status(live, "replicas"), status(live, "availableReplicas"));
    if updated < wanted {
        let paused = live.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
        let why = if paused { "(paused)" } else { not_started(live) };
        return Readiness::Progressing(
            format!("{updated} of {wanted} replicas are updated {why}")
                .trim_end()
                .into(),
        );
    }
    if total > updated {
        return Readiness::Progressing(format!("{} old replicas are still there", total - updated));
    }
    if available < updated {
        return Readiness::Progressing(format!("{available} of {updated} updated replicas are available"));
    }
    Readiness::Ready
}

pub(super) fn stateful_set(live: &Value) -> Readiness {
    let (wanted, ready) = (replicas(live), status(live, "readyReplicas"));
    if ready < wanted {
        let why = not_started(live);
        return Readiness::Progressing(
            format!("{ready} of {wanted} replicas are ready {why}")
                .trim_end()
                .into(),
        );
    }
    // Ready for `minReadySeconds`; servers before 1.22 do not say.
    let available = number(live, "/status/availableReplicas").unwrap_or(ready);
    if available < wanted {
        return Readiness::Progressing(format!("{available} of {wanted} replicas are available"));
    }
    if object::text(live, "/spec/updateStrategy/type") == Some("OnDelete") {
        return Readiness::Ready;
    }
    let partition = number(live, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let (to_update, updated) = (
        wanted.saturating_sub(partition).max(0),
        status(live, "updatedReplicas"),
    );
    if updated < to_update {
        return Readiness::Progressing(format!("{updated} of {to_update} replicas are updated"));
    }
    let revision = |name: &str| object::text(live, &format!("/status/{name}"));
    if let (0, Some(current), Some(update)) =
        (partition, revision("currentRevision"), revision("updateRevision"))
        && current != update
    {
        return Readiness::progressing("the roll-out to the new revision is not finished");
    }
    Readiness::Ready
}

pub(super) fn daemon_set(live: &Value) -> Readiness {
    let (wanted, available) = (
        status(live, "desiredNumberScheduled"),
        status(live, "numberAvailable"),
    );
    let on_delete = object::text(live, "/spec/updateStrategy/type") == Some("OnDelete");
    let updated = status(live, "updatedNumberScheduled");
    if updated < wanted && !on_delete {
        return Readiness::Progressing(format!("{updated} of {wanted} pods are updated"));
    }
    if available < wanted {
        return Readiness::Progressing(format!("{available} of {wanted} pods are available"));
    }
    Readiness::Ready
}

pub(super) fn replica_set(live: &Value) -> Readiness {
    if let Some(failure) = true_condition(live, "ReplicaFailure") {
        return Readiness::failed(field(failure, "reason"), field(failure, "message"));
    }
    let (wanted, available) = (replicas(live), status(live, "availableReplicas"));
    if available < wanted {
        return Readiness::Progressing(format!("{available} of {wanted} replicas are available"));
    }
    Readiness::Ready
}

/// OpenKruise's CloneSet: a partition is the number, or the share, of pods that stay at the old revision.
pub(super) fn clone_set(live: &Value) -> Readiness {
    let (wanted, available) = (replicas(live), status(live, "availableReplicas"));
    let to_update = number(live, "/status/expectedUpdatedReplicas").unwrap_or_else(|| {
        let partition = live.pointer("/spec/updateStrategy/partition");
        wanted
            .saturating_sub(partition.map_or(0, |partition| partition_of(partition, wanted)))
            .max(0)
    });
    let updated = status(live, "updatedReplicas");
    if updated < to_update {
        let paused = live
            .pointer("/spec/updateStrategy/paused")
            .and_then(Value::as_bool)
            == Some(true);
        let why = if paused { " (paused)" } else { "" };
        return Readiness::Progressing(format!("{updated} of {to_update} replicas are updated{why}"));
    }
    if status(live, "replicas") > wanted {
        return Readiness::progressing("pods of the old revision are still there");
    }
    if available < wanted {
        return Readiness::Progressing(format!("{available} of {wanted} replicas are available"));
    }
    Readiness::Ready
}

/// A number, or a percentage rounded up.
fn partition_of(partition: &Value, wanted: i64) -> i64 {
    match partition {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|text| text.parse::<i64>().ok())
                .unwrap_or(0);
            let share = wanted.saturating_mul(percent);
            share / 100 + i64::from(share % 100 > 0)
        }
        _ => 0,
    }
}

/// A Job has no `observedGeneration`; its terminal conditions are final.
pub(super) fn job(live: &Value) -> Readiness {
    if let Some(failed) = true_condition(live, "Failed") {
        return Readiness::failed(field(failed, "reason"), field(failed, "message"));
    }
    if true_condition(live, "Complete").is_some() {
        return Readiness::Ready;
    }
    if true_condition(live, "Suspended").is_some() {
        return Readiness::progressing("the job is suspended");
    }
    let (active, ready) = (status(live, "active"), status(live, "ready"));
    let succeeded = status(live, "succeeded");
    Readiness::Progressing(format!(
        "{active} pods are active, {ready} of them ready, {succeeded} have succeeded"
    ))
}

#[cfg(test)]
mod tests {
    use super::Readiness;
    use crate::observe::tests::verdict;
    use serde_json::{Value, json};

    fn check(group: &str, kind: &str, cases: &[(Value, Value, &str)]) {
        for (spec, status, expected) in cases {
            let live = json!({"metadata": {"generation": 2}, "spec": spec, "status": status});
            assert_eq!(&verdict(group, kind, &live), expected, "{kind} {live}");
        }
    }

    #[test]
    fn d10_deployments() {
        let full =
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let with = |field: &str, value: Value| {
            let mut status = full.clone();
            status[field] = value;
            status
        };
        let spec = json!({"replicas": 2});
        check(
            "apps",
            "Deployment",
            &[
                (spec.clone(), full.clone(), "ready"),
                (json!({}), json!({"observedGeneration": 2}), "progressing"),
                (json!({"replicas": 0}), json!({"observedGeneration": 2}), "ready"),
                (spec.clone(), json!({}), "progressing"),
                // Every number fits, but they are about the generation before.
                (spec.clone(), with("observedGeneration", json!(1)), "progressing"),
                (spec.clone(), with("updatedReplicas", json!(1)), "progressing"),
                (spec.clone(), with("replicas", json!(3)), "progressing"),
                (spec.clone(), with("availableReplicas", json!(1)), "progressing"),
                // Paused in the middle of a change: it stays on its way. Paused with nothing to do: it is ready.
                (
                    json!({"replicas": 2, "paused": true}),
                    with("updatedReplicas", json!(1)),
                    "progressing",
                ),
                (json!({"replicas": 2, "paused": true}), full.clone(), "ready"),
                (
                    spec.clone(),
                    with(
                        "conditions",
                        json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]),
                    ),
                    "ready",
                ),
                (
                    spec,
                    with(
                        "conditions",
                        json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]),
                    ),
                    "ProgressDeadlineExceeded",
                ),
            ],
        );
    }

    #[test]
    fn d10_stateful_sets() {
        let status = |ready: u32, updated: u32, current: &str, update: &str| {
            json!({"observedGeneration": 2, "readyReplicas": ready, "updatedReplicas": updated,
                   "currentRevision": current, "updateRevision": update})
        };
        let available = |available: u32| {
            let mut status = status(3, 3, "b", "b");
            status["availableReplicas"] = json!(available);
            status
        };
        let three = json!({"replicas": 3});
        let partition = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
        let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        check(
            "apps",
            "StatefulSet",
            &[
                (three.clone(), status(3, 3, "b", "b"), "ready"),
                (three.clone(), status(3, 3, "a", "b"), "progressing"),
                (three.clone(), status(3, 2, "b", "b"), "progressing"),
                (three.clone(), status(2, 3, "b", "b"), "progressing"),
                (
                    three,
                    json!({"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 3}),
                    "progressing",
                ),
                (partition, status(3, 1, "a", "b"), "ready"),
                (on_delete.clone(), status(3, 0, "a", "b"), "ready"),
                (on_delete, status(2, 0, "a", "b"), "progressing"),
                (json!({"replicas": 0}), status(0, 0, "b", "b"), "ready"),
                (json!({"replicas": 3}), available(2), "progressing"),
                (json!({"replicas": 3}), available(3), "ready"),
            ],
        );
    }

    #[test]
    fn d10_clone_sets() {
        let status = |updated: u32, expected: Value, available: u32| {
            json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": updated,
                   "expectedUpdatedReplicas": expected, "availableReplicas": available})
        };
        let none = Value::Null;
        let spec = |strategy: Value| json!({"replicas": 4, "updateStrategy": strategy});
        check(
            "apps.kruise.io",
            "CloneSet",
            &[
                (spec(json!({})), status(4, json!(4), 4), "ready"),
                (spec(json!({})), status(3, json!(4), 4), "progressing"),
                (spec(json!({})), status(4, json!(4), 3), "progressing"),
                (spec(json!({"partition": 3})), status(1, json!(1), 4), "ready"),
                (spec(json!({"partition": 3})), status(1, none.clone(), 4), "ready"),
                (
                    spec(json!({"partition": "70%"})),
                    status(1, none.clone(), 4),
                    "ready",
                ),
                (
                    spec(json!({"partition": "50%"})),
                    status(1, none, 4),
                    "progressing",
                ),
                (
                    spec(json!({"paused": true})),
                    status(1, json!(4), 4),
                    "progressing",
                ),
                (json!({"replicas": 3}), status(4, json!(3), 4), "progressing"),
                (
                    spec(json!({})),
                    json!({"updatedReplicas": 4, "availableReplicas": 4}),
                    "progressing",
                ),
            ],
        );
    }

    #[test]
    fn d10_daemon_sets() {
        let status = |wanted: u32, updated: u32, available: u32| {
            json!({"observedGeneration": 2, "desiredNumberScheduled": wanted, "updatedNumberScheduled": updated,
                   "numberAvailable": available})
        };
        check(
            "apps",
            "DaemonSet",
            &[
                (json!({}), status(3, 3, 3), "ready"),
                (json!({}), status(0, 0, 0), "ready"),
                (json!({}), status(3, 2, 3), "progressing"),
                (json!({}), status(3, 3, 2), "progressing"),
                (json!({}), json!({}), "progressing"),
                (
                    json!({"updateStrategy": {"type": "OnDelete"}}),
                    status(3, 0, 3),
                    "ready",
                ),
            ],
        );
    }

    #[test]
    fn d10_replica_sets_and_jobs() {
        check(
            "apps",
            "ReplicaSet",
            &[
                (
                    json!({"replicas": 1}),
                    json!({"observedGeneration": 2, "availableReplicas": 1}),
                    "ready",
                ),
                (
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2, "availableReplicas": 1}),
                    "progressing",
                ),
                (
                    json!({"replicas": 2}),
                    json!({"observedGeneration": 2,
                           "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]}),
                    "FailedCreate",
                ),
            ],
        );
        let job = |type_: &str, status: &str| json!({"conditions": [{"type": type_, "status": status, "reason": "R"}]});
        check(
            "batch",
            "Job",
            &[
                (json!({}), json!({}), "progressing"),
                (json!({}), job("Complete", "True"), "ready"),
                (json!({}), job("Complete", "False"), "progressing"),
                (json!({}), job("Failed", "True"), "R"),
                (json!({}), job("Suspended", "True"), "progressing"),
            ],
        );
    }

    #[test]
    fn why_replicas_are_not_started_is_told() {
        let live = json!({"spec": {"replicas": 3}, "status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
            "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "over quota"}]}});
        assert_eq!(
            super::deployment(&live),
            Readiness::progressing("1 of 3 replicas are updated over quota")
        );
        assert_eq!(
            super::stateful_set(&live),
            Readiness::progressing("1 of 3 replicas are ready over quota")
        );
    }
}
