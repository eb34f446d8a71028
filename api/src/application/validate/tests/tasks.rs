//! `task` and `cron-task`: what is refused, by the exact line, and what is understood.

use super::{refused, set, valid};
use crate::application::{ComponentKind, ConcurrencyPolicy, RestartPolicy, validate};
use serde_json::{Value, json};

fn spec(type_: &str, properties: &Value) -> Value {
    let mut spec = valid();
    let component = json!({"name": "once", "type": type_, "properties": properties});
    set(&mut spec, "/components/0", component);
    spec
}

fn cron(name: &str, value: Value) -> Value {
    let mut properties = json!({"image": "busybox", "schedule": "@daily"});
    properties[name] = value;
    properties
}

#[test]
fn every_refusal_is_named() {
    for (type_, properties, expected) in [
        ("task", json!({}), ".image: is required: name a container image"),
        (
            "task",
            json!({"image": "x", "replicas": 2}),
            ".replicas: a task runs to completion and has no replicas: set count",
        ),
        (
            "task",
            json!({"image": "x", "ports": [{"port": 80}]}),
            ".ports: a task has no ports: use the type webservice",
        ),
        (
            "task",
            json!({"image": "x", "port": 80}),
            ".port: a task has no ports: use the type webservice",
        ),
        (
            "task",
            json!({"image": "x", "schedule": "@daily"}),
            ".schedule: a task runs once: use the type cron-task",
        ),
        (
            "task",
            json!({"image": "x", "addRevisionLabel": true}),
            ".addRevisionLabel: addRevisionLabel is not supported: a label that changes with every revision makes another \
             Job; revisions are labelled on the workload",
        ),
        (
            "task",
            json!({"image": "x", "count": 0}),
            ".count: expected an integer from 1 to 2147483647, found 0",
        ),
        (
            "task",
            json!({"image": "x", "restart": "Always"}),
            ".restart: \"Always\" is not known here: known here: Never, OnFailure",
        ),
        (
            "task",
            json!({"image": "x", "backoffLimit": -1}),
            ".backoffLimit: expected an integer from 0 to 2147483647, found -1",
        ),
        (
            "task",
            json!({"image": "x", "activeDeadlineSeconds": 0}),
            ".activeDeadlineSeconds: expected an integer from 1 to 2147483647, found 0",
        ),
        (
            "cron-task",
            json!({"image": "x"}),
            ".schedule: is required: say when it runs, such as \"*/5 * * * *\" for every five minutes",
        ),
        (
            "cron-task",
            cron("schedule", json!("61 * * * *")),
            ".schedule: \"61\" is no minute: use numbers from 0 to 59, ranges such as 0-59, steps such as */2, lists, or *",
        ),
        (
            "cron-task",
            cron("schedule", json!("* * * *")),
            ".schedule: has 4 fields: write five, minute, hour, day of the month, month, day of the week, as in \
             \"*/5 * * * *\"",
        ),
        (
            "cron-task",
            cron("schedule", json!("@fortnightly")),
            ".schedule: \"@fortnightly\" is not known here: use five fields, or one of @yearly, @annually, @monthly, \
             @weekly, @daily, @midnight, @hourly",
        ),
        (
            "cron-task",
            cron("schedule", json!("TZ=UTC * * * * *")),
            ".schedule: names a time zone, which Kubernetes refuses in a schedule: leave it out",
        ),
        (
            "cron-task",
            cron("timeZone", json!("UTC")),
            ".timeZone: timeZone is not supported yet: write the schedule in the time zone of the member's controllers",
        ),
        (
            "cron-task",
            cron("concurrencyPolicy", json!("forbid")),
            ".concurrencyPolicy: \"forbid\" is not known here: did you mean \"Forbid\"? known here: Allow, Forbid, Replace",
        ),
        (
            "cron-task",
            cron("suspend", json!("yes")),
            ".suspend: expected true or false, found \"yes\"",
        ),
        (
            "cron-task",
            cron("failedJobsHistoryLimit", json!("1")),
            ".failedJobsHistoryLimit: expected an integer from 0 to 2147483647, found \"1\"",
        ),
    ] {
        let lines = refused(&spec(type_, &properties));
        assert_eq!(lines, [format!("spec.components[0].properties{expected}")]);
    }
}

#[test]
fn a_task_in_full() {
    let properties = json!({"image": "busybox", "count": 4, "restart": "OnFailure", "backoffLimit": 0,
        "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0, "cmd": ["sh"], "cpu": "1",
        "volumes": [{"name": "d", "mountPath": "/d", "type": "emptyDir"}]});
    let application = validate(&spec("task", &properties)).unwrap();
    let ComponentKind::Task(task) = &application.components[0].kind else {
        panic!("{application:?}")
    };
    assert_eq!((task.count, task.restart), (4, RestartPolicy::OnFailure));
    assert_eq!(
        (
            task.backoff_limit,
            task.active_deadline_seconds,
            task.ttl_seconds_after_finished
        ),
        (Some(0), Some(60), Some(0))
    );
    assert_eq!(task.worker.volume_mounts.len(), 1);
}

#[test]
fn a_cron_task_says_what_the_user_says_and_no_more() {
    let application = validate(&spec("cron-task", &cron("concurrencyPolicy", json!("Forbid")))).unwrap();
    let ComponentKind::CronTask(cron) = &application.components[0].kind else {
        panic!("{application:?}")
    };
    assert_eq!((cron.schedule.as_str(), cron.task.count), ("@daily", 1));
    assert_eq!(cron.concurrency_policy, Some(ConcurrencyPolicy::Forbid));
    assert_eq!(
        (
            cron.suspend,
            cron.successful_jobs_history_limit,
            cron.task.backoff_limit
        ),
        (None, None, None)
    );
}
