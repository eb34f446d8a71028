//! Defaults of workloads.

use serde_json::{Map, Value, json};

use super::{
    defaults::{default, objects, zeros},
    pod,
};
use crate::object::child;

type Object = Map<String, Value>;

/// `apps/v1` Deployment.
pub(super) fn deployment(map: &mut Object) {
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    if let Some(strategy) = child(spec, "strategy") {
        default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&"RollingUpdate".into())
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            default(rolling, "maxUnavailable", "25%");
            default(rolling, "maxSurge", "25%");
        }
    }
    pod::template(spec, "template");
}

/// `apps/v1` StatefulSet.
pub(super) fn stateful_set(map: &mut Object) {
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = child(spec, "updateStrategy") {
        default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&"RollingUpdate".into())
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            default(rolling, "partition", 0);
        }
    }
    if let Some(policy) = child(spec, "persistentVolumeClaimRetentionPolicy") {
        default(policy, "whenDeleted", "Retain");
        default(policy, "whenScaled", "Retain");
    }
    for claim in objects(spec, "volumeClaimTemplates") {
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
        default(claim, "status", json!({"phase": "Pending"}));
        if let Some(spec) = child(claim, "spec") {
            default(spec, "volumeMode", "Filesystem");
        }
    }
    pod::template(spec, "template");
    zeros(map, &["replicas", "availableReplicas"]);
}

/// `apps/v1` DaemonSet.
pub(super) fn daemon_set(map: &mut Object, old: Option<&Value>) {
    daemon_set_fields(map);
    // Kubernetes counts changes of the template in an annotation, which nobody can set.
    let template = |spec: Option<&Value>| spec.and_then(|spec| spec.get("template")).cloned();
    let counted = |old: &Value| {
        let count = crate::object::at(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
        count
            .and_then(Value::as_str)
            .and_then(|count| count.parse::<i64>().ok())
            .unwrap_or(1)
    };
    let count = match old {
        None => 1,
        Some(old) if template(old.get("spec")) == template(map.get("spec")) => counted(old),
        Some(old) => counted(old).saturating_add(1),
    };
    if let Some(annotations) = child(map, "metadata").and_then(|metadata| child(metadata, "annotations")) {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), count.to_string().into());
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn daemon_set_fields(map: &mut Object) {
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = child(spec, "updateStrategy") {
        default(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&"RollingUpdate".into())
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            default(rolling, "maxUnavailable", 1);
            default(rolling, "maxSurge", 0);
        }
    }
    pod::template(spec, "template");
    let counts = [
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    ];
    zeros(map, &counts);
}

/// `apps/v1` ReplicaSet and `v1` ReplicationController.
pub(super) fn replica_set(map: &mut Object) {
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "replicas", 1);
    pod::template(spec, "template");
    zeros(map, &["replicas"]);
}

/// `batch/v1` Job. A new Job gets its selector and the labels it goes by from its uid, as the server generates them.
pub(super) fn job(map: &mut Object, old: Option<&Value>) {
    let text = |key: &str| {
        map.get("metadata")
            .and_then(|m| m.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (uid, name) = (text("uid"), text("name"));
    let Some(spec) = child(map, "spec") else { return };
    job_spec(spec);
    if old.is_some() || uid.is_empty() || spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    super::job::generate_selector(spec, &uid, &name);
}

fn job_spec(spec: &mut Object) {
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    default(spec, "backoffLimit", 6);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "podReplacementPolicy", "TerminatingOrFailed");
    pod::template(spec, "template");
}

/// `batch/v1` CronJob.
pub(super) fn cron_job(map: &mut Object) {
    let Some(spec) = child(map, "spec") else { return };
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    // Only the pod template of the job is defaulted; the job's own defaults come when the job is made.
    if let Some(job) = child(spec, "jobTemplate").and_then(|t| child(t, "spec")) {
        pod::template(job, "template");
    }
}
