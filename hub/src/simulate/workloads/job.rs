//! Job: pods that end, until enough succeeded or too many failed.

use super::{
    Around, Fate, Group, Memory, Next, Wanted, Workload,
    bound::{self, bounded},
    memory::{count, nonzero, object_key},
    model::{Template, labels},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Kubernetes' default of `backoffLimit`.
const BACKOFF_LIMIT: i32 = 6;

impl Workload for Job {
    type Status = JobStatus;

    fn status(&self) -> Option<&JobStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: JobStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn pods(&self, status: &JobStatus) -> Option<Group> {
        Some(Group {
            labels: labels(&self.spec.as_ref()?.template),
            wanted: Wanted::NoScale("jobs.batch"),
            total: status.active.unwrap_or(0),
            ready: status.ready.unwrap_or(0),
        })
    }

    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<JobStatus> {
        let Around { model, now, .. } = *around;
        let before = self.status.clone().unwrap_or_default();
        let spec = self.spec.clone().unwrap_or_default();
        let mut memory = memory.unwrap_or_else(|| Memory {
            succeeded: count(before.succeeded),
            failed: count(before.failed),
            next_ordinal: count(before.succeeded).saturating_add(count(before.failed)),
            ..Memory::default()
        });
        if is_over(&before) {
            memory.replicas.clear();
            return Next {
                status: before,
                memory,
                wake_at: None,
            };
        }
        if spec.suspend == Some(true) {
            return suspended(before, memory, now);
        }
        let parallelism = count(Some(spec.parallelism.unwrap_or(1)));
        // Without completions one success ends the Job (a work queue).
        let (completions, beyond) = bounded("spec.completions", spec.completions.unwrap_or(1));
        if let Some(beyond) = beyond {
            return refused(before, memory, &beyond.to_string(), now);
        }
        count_ended(&mut memory, now);
        let too_many = memory.failed > count(Some(spec.backoff_limit.unwrap_or(BACKOFF_LIMIT)));
        let done = memory.succeeded >= completions;
        if done || too_many {
            memory.replicas.clear();
        } else {
            let object = object_key(self);
            let template = Template::of(&spec.template);
            let wanted = parallelism.min(completions.saturating_sub(memory.succeeded));
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            memory.replicas.truncate(wanted);
            for _ in memory.replicas.len()..wanted {
                memory.start(&object, &template, model, now);
            }
        }

        let active = memory.count(|_| true);
        let mut conditions = before.conditions.clone().unwrap_or_default();
        if done {
            end(
                &mut conditions,
                ["SuccessCriteriaMet", "Complete"],
                "CompletionsReached",
                "Reached expected number of succeeded pods",
                now,
            );
        } else if too_many {
            end(
                &mut conditions,
                ["FailureTarget", "Failed"],
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
                now,
            );
        }
        resume(&mut conditions, now);
        let status = JobStatus {
            active: nonzero(active),
            succeeded: nonzero(i32::try_from(memory.succeeded).unwrap_or(i32::MAX)),
            failed: nonzero(i32::try_from(memory.failed).unwrap_or(i32::MAX)),
            ready: Some(memory.count(|r| r.fate != Fate::NotPulled)),
            terminating: Some(0),
            start_time: before.start_time.clone().or(Some(Time(now))),
            completion_time: done.then_some(Time(now)),
            conditions: (!conditions.is_empty()).then_some(conditions),
            uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
            ..before
        };
        Next {
            wake_at: memory.wake_at(SignedDuration::ZERO, now),
            status,
            memory,
        }
    }
}

fn is_over(status: &JobStatus) -> bool {
    let ended = |c: &JobCondition| ["Complete", "Failed"].contains(&c.type_.as_str()) && c.status == "True";
    status.conditions.iter().flatten().any(ended)
}

fn count_ended(memory: &mut Memory, now: Timestamp) {
    let (mut succeeded, mut failed) = (0, 0);
    memory.replicas.retain(|replica| match replica.fate {
        Fate::ReadyAt(at) if at <= now => {
            succeeded += 1;
            false
        }
        Fate::CrashesAt(at) if at <= now => {
            failed += 1;
            false
        }
        _ => true,
    });
    memory.succeeded = memory.succeeded.saturating_add(succeeded);
    memory.failed = memory.failed.saturating_add(failed);
}

/// A Job with more pods than are run fails, as one that its controller cannot carry out.
fn refused(before: JobStatus, memory: Memory, why: &str, now: Timestamp) -> Next<JobStatus> {
    let mut conditions = before.conditions.clone().unwrap_or_default();
    end(
        &mut conditions,
        ["FailureTarget", "Failed"],
        bound::REASON,
        why,
        now,
    );
    resume(&mut conditions, now);
    let start_time = before.start_time.clone().or(Some(Time(now)));
    without_pods(before, memory, start_time, conditions)
}

fn suspended(before: JobStatus, memory: Memory, now: Timestamp) -> Next<JobStatus> {
    let mut conditions = before.conditions.clone().unwrap_or_default();
    if !conditions
        .iter()
        .any(|c| c.type_ == "Suspended" && c.status == "True")
    {
        conditions.retain(|c| c.type_ != "Suspended");
        conditions.push(condition(
            "Suspended",
            "True",
            "JobSuspended",
            "Job suspended",
            now,
        ));
    }
    without_pods(before, memory, None, conditions)
}

/// A Job that runs nothing, and of which nothing follows by itself.
fn without_pods(
    before: JobStatus,
    mut memory: Memory,
    start_time: Option<Time>,
    conditions: Vec<JobCondition>,
) -> Next<JobStatus> {
    memory.replicas.clear();
    Next {
        status: JobStatus {
            active: None,
            ready: Some(0),
            start_time,
            conditions: Some(conditions),
            ..before
        },
        memory,
        wake_at: None,
    }
}

fn resume(conditions: &mut Vec<JobCondition>, now: Timestamp) {
    if conditions
        .iter()
        .any(|c| c.type_ == "Suspended" && c.status == "True")
    {
        conditions.retain(|c| c.type_ != "Suspended");
        conditions.push(condition("Suspended", "False", "JobResumed", "Job resumed", now));
    }
}

fn end(conditions: &mut Vec<JobCondition>, types: [&str; 2], reason: &str, message: &str, now: Timestamp) {
    for type_ in types {
        conditions.push(condition(type_, "True", reason, message, now));
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}
