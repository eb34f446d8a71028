//! The properties of `task` and `cron-task`, with the names and meanings that KubeVela's users know.

use super::{
    container::{CONTAINER, MAX_REPLICAS, POD, common},
    node::{Node, Object, Shape},
    schedule,
};
use crate::application::{ConcurrencyPolicy, CronTaskProperties, RestartPolicy, TaskProperties};

const NO_REPLICAS: &str = "a task runs to completion and has no replicas: set count";
const NO_PORTS: &str = "a task has no ports: use the type webservice";
const NO_REVISION_LABEL: &str = "addRevisionLabel is not supported: a label that changes with every revision makes \
                                 another Job; revisions are labelled on the workload";
const NO_SCHEDULE: &str = "a task runs once: use the type cron-task";

/// How a Job ends.
const JOB: [&str; 3] = ["backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"];
const TASK: Shape = Shape {
    known: &[&["image", "count", "restart"], &CONTAINER, &POD, &JOB],
    refused: &[
        ("replicas", NO_REPLICAS),
        ("port", NO_PORTS),
        ("ports", NO_PORTS),
        ("exposeType", NO_PORTS),
        ("addRevisionLabel", NO_REVISION_LABEL),
        ("schedule", NO_SCHEDULE),
        ("concurrencyPolicy", NO_SCHEDULE),
        ("suspend", NO_SCHEDULE),
    ],
};
const CRON_TASK: Shape = Shape {
    known: &[
        &["image", "schedule", "count", "restart"],
        &CONTAINER,
        &POD,
        &[
            "concurrencyPolicy",
            "suspend",
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ],
        &JOB,
    ],
    refused: &[
        ("replicas", NO_REPLICAS),
        ("port", NO_PORTS),
        ("ports", NO_PORTS),
        ("exposeType", NO_PORTS),
        ("addRevisionLabel", NO_REVISION_LABEL),
        (
            "timeZone",
            "timeZone is not supported yet: write the schedule in the time zone of the member's controllers",
        ),
    ],
};

/// Reads the properties of a `task`; what was refused has been noted.
pub(super) fn task(properties: &Node<'_>) -> Option<TaskProperties> {
    Some(job(&properties.object(&TASK)?))
}

/// Reads the properties of a `cron-task`; what was refused has been noted.
pub(super) fn cron_task(properties: &Node<'_>) -> Option<CronTaskProperties> {
    let object = properties.object(&CRON_TASK)?;
    let schedule = object
        .required(
            "schedule",
            "say when it runs, such as \"*/5 * * * *\" for every five minutes",
        )
        .and_then(|node| {
            let text = node.text()?;
            if let Some(problem) = schedule::problem(text) {
                node.refuse(problem);
            }
            Some(text.to_owned())
        });
    Some(CronTaskProperties {
        task: job(&object),
        schedule: schedule.unwrap_or_default(),
        concurrency_policy: object.optional("concurrencyPolicy").and_then(|node| {
            node.word(&[
                ("Allow", ConcurrencyPolicy::Allow),
                ("Forbid", ConcurrencyPolicy::Forbid),
                ("Replace", ConcurrencyPolicy::Replace),
            ])
        }),
        suspend: object.optional("suspend").and_then(|node| node.boolean()),
        starting_deadline_seconds: number(&object, "startingDeadlineSeconds", 0),
        successful_jobs_history_limit: number(&object, "successfulJobsHistoryLimit", 0),
        failed_jobs_history_limit: number(&object, "failedJobsHistoryLimit", 0),
    })
}

fn job(object: &Object<'_>) -> TaskProperties {
    TaskProperties {
        worker: common(object),
        count: number(object, "count", 1).unwrap_or(1),
        restart: object
            .optional("restart")
            .and_then(|node| {
                node.word(&[
                    ("Never", RestartPolicy::Never),
                    ("OnFailure", RestartPolicy::OnFailure),
                ])
            })
            .unwrap_or_default(),
        backoff_limit: number(object, "backoffLimit", 0),
        active_deadline_seconds: number(object, "activeDeadlineSeconds", 1),
        ttl_seconds_after_finished: number(object, "ttlSecondsAfterFinished", 0),
    }
}

fn number(object: &Object<'_>, name: &str, min: u32) -> Option<u32> {
    object
        .optional(name)
        .and_then(|node| node.integer(min, MAX_REPLICAS))
}
