//! `task` and `cron-task`: the Job and CronJob that KubeVela's definitions of these names render. What a user leaves to
//! Kubernetes' defaults is left to them here.

use super::container;
use roundhouse_api::application::{CronTaskProperties, TaskProperties};
use serde_json::{Map, Value, json};

/// A Job.
pub(super) fn task(name: &str, properties: &TaskProperties) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": container::metadata(name, &properties.worker),
        "spec": job_spec(name, properties),
    })
}

/// A CronJob.
pub(super) fn cron_task(name: &str, properties: &CronTaskProperties) -> Value {
    let job = json!({
        "metadata": container::template_metadata(name, &properties.task.worker),
        "spec": job_spec(name, &properties.task),
    });
    let mut spec = Map::new();
    spec.insert("schedule".to_owned(), json!(properties.schedule));
    set(
        &mut spec,
        [
            (
                "concurrencyPolicy",
                properties.concurrency_policy.map(|policy| json!(policy.as_str())),
            ),
            ("suspend", properties.suspend.map(Value::from)),
            (
                "startingDeadlineSeconds",
                properties.starting_deadline_seconds.map(Value::from),
            ),
            (
                "successfulJobsHistoryLimit",
                properties.successful_jobs_history_limit.map(Value::from),
            ),
            (
                "failedJobsHistoryLimit",
                properties.failed_jobs_history_limit.map(Value::from),
            ),
            ("jobTemplate", Some(job)),
        ],
    );
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": container::metadata(name, &properties.task.worker),
        "spec": spec,
    })
}

fn job_spec(name: &str, properties: &TaskProperties) -> Map<String, Value> {
    let mut template = container::template(name, &properties.worker, &[]);
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod.insert("restartPolicy".to_owned(), json!(properties.restart.as_str()));
    }
    let mut spec = Map::new();
    set(
        &mut spec,
        [
            ("parallelism", Some(json!(properties.count))),
            ("completions", Some(json!(properties.count))),
            ("backoffLimit", properties.backoff_limit.map(Value::from)),
            (
                "activeDeadlineSeconds",
                properties.active_deadline_seconds.map(Value::from),
            ),
            (
                "ttlSecondsAfterFinished",
                properties.ttl_seconds_after_finished.map(Value::from),
            ),
            ("template", Some(template)),
        ],
    );
    spec
}

fn set<const N: usize>(spec: &mut Map<String, Value>, fields: [(&str, Option<Value>); N]) {
    let given = fields
        .into_iter()
        .filter_map(|(field, value)| Some((field.to_owned(), value?)));
    spec.extend(given);
}
