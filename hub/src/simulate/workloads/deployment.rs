//! Deployment, with the conditions that its controller writes.

use super::{
    Around, Group, Memory, Model, Next, Wanted, Workload,
    bound::{self, Beyond, bounded},
    memory::{Counts, count, nonzero, object_key, seconds},
    model::{Template, labels},
    rolling::Rolling,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// Kubernetes' default of `progressDeadlineSeconds`.
const PROGRESS_DEADLINE: i32 = 600;

impl Workload for Deployment {
    type Status = DeploymentStatus;

    fn status(&self) -> Option<&DeploymentStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: DeploymentStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn pods(&self, status: &DeploymentStatus) -> Option<Group> {
        let spec = self.spec.as_ref()?;
        Some(Group {
            labels: labels(&spec.template),
            wanted: Wanted::Scale(spec.replicas.unwrap_or(1)),
            total: status.replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
        })
    }

    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<DeploymentStatus> {
        let Around { model, now, .. } = *around;
        let before = self.status.clone().unwrap_or_default();
        let spec = self.spec.clone().unwrap_or_default();
        let template = Template::of(&spec.template);
        let object = object_key(self);
        let mut memory = memory.unwrap_or_else(|| recall(self, &before, &object, &template, model, now));
        let min_ready = seconds(spec.min_ready_seconds);
        let (desired, beyond) = bounded("spec.replicas", spec.replicas.unwrap_or(1));
        let desired = i32::try_from(desired).unwrap_or(i32::MAX);
        let rolling = Rolling::of(spec.strategy.as_ref(), desired, min_ready);
        if spec.paused != Some(true) {
            rolling.advance(&mut memory, &object, &template, model, now);
        }

        let replicas = memory.count(|_| true);
        let updated = memory.count(|r| r.template == template.hash);
        let ready = memory.count(|r| r.is_ready(now));
        let available = memory.count(|r| r.is_available(min_ready, now));
        let mut status = DeploymentStatus {
            observed_generation: self.metadata.generation,
            replicas: nonzero(replicas),
            updated_replicas: nonzero(updated),
            ready_replicas: nonzero(ready),
            available_replicas: nonzero(available),
            unavailable_replicas: nonzero((replicas - available).max(0)),
            ..before.clone()
        };
        let mut conditions = before.conditions.clone().unwrap_or_default();
        set(
            &mut conditions,
            availability(beyond.is_none() && available >= rolling.min_available(), now),
            now,
        );
        let deadline = seconds(Some(spec.progress_deadline_seconds.unwrap_or(PROGRESS_DEADLINE)));
        let name = format!(
            "{}-{}",
            self.metadata.name.as_deref().unwrap_or_default(),
            template.hash
        );
        let complete =
            updated == rolling.desired && replicas == rolling.desired && available == rolling.desired;
        forget_bound(&mut conditions, beyond);
        let times_out = match beyond {
            Some(beyond) => {
                say_bound(&mut conditions, beyond, now);
                None
            }
            None => progress(&mut conditions, &before, &status, complete, &name, deadline, now),
        };
        status.conditions = Some(conditions);
        Next {
            wake_at: memory.wake_at(min_ready, now).into_iter().chain(times_out).min(),
            status,
            memory,
        }
    }
}

fn recall(
    deployment: &Deployment,
    status: &DeploymentStatus,
    object: &str,
    template: &Template,
    model: &Model,
    now: Timestamp,
) -> Memory {
    let same_spec = status.observed_generation == deployment.metadata.generation;
    let counts = Counts {
        replicas: count(status.replicas),
        updated: if same_spec {
            count(status.updated_replicas)
        } else {
            0
        },
        ready: count(status.ready_replicas),
    };
    Memory::recall(counts, object, template, model, now)
}

fn availability(enough: bool, now: Timestamp) -> DeploymentCondition {
    let (status, reason, message) = if enough {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    condition("Available", status, reason, message.to_owned(), now)
}

/// Condition `Progressing` (kubernetes `syncRolloutStatus`). Returns when the deadline runs out.
fn progress(
    conditions: &mut Vec<DeploymentCondition>,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    complete: bool,
    replica_set: &str,
    deadline: SignedDuration,
    now: Timestamp,
) -> Option<Timestamp> {
    let present = conditions.iter().find(|c| c.type_ == "Progressing");
    let reason = present.and_then(|c| c.reason.as_deref());
    let stays_complete =
        status.replicas == status.updated_replicas && reason == Some("NewReplicaSetAvailable");
    if stays_complete {
        return None;
    }
    if complete {
        let message = format!("ReplicaSet \"{replica_set}\" has successfully progressed.");
        let done = condition("Progressing", "True", "NewReplicaSetAvailable", message, now);
        set(conditions, done, now);
        return None;
    }
    let updated = |s: &DeploymentStatus| s.updated_replicas.unwrap_or(0);
    let old = |s: &DeploymentStatus| s.replicas.unwrap_or(0) - updated(s);
    let progressed = updated(status) > updated(before)
        || old(status) < old(before)
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas;
    let last = present
        .filter(|_| !progressed && reason != Some("NewReplicaSetAvailable"))
        .and_then(|c| c.last_update_time.as_ref());
    let Some(last) = last.map(|time| time.0) else {
        let message = format!("ReplicaSet \"{replica_set}\" is progressing.");
        conditions.retain(|c| c.type_ != "Progressing" || c.status == "True");
        let going = condition("Progressing", "True", "ReplicaSetUpdated", message, now);
        set(conditions, going, now);
        if let Some(present) = conditions.iter_mut().find(|c| c.type_ == "Progressing") {
            present.last_update_time = Some(Time(now));
        }
        return now.checked_add(deadline).ok();
    };
    let times_out = last.checked_add(deadline).unwrap_or(Timestamp::MAX);
    if now < times_out {
        return Some(times_out);
    }
    let message = format!("ReplicaSet \"{replica_set}\" has timed out progressing.");
    let late = condition("Progressing", "False", "ProgressDeadlineExceeded", message, now);
    set(conditions, late, now);
    None
}

/// What was said of another number, or of one that was too large, is over.
fn forget_bound(conditions: &mut Vec<DeploymentCondition>, beyond: Option<Beyond>) {
    let message = beyond.map(|beyond| beyond.to_string());
    let is_over =
        |c: &DeploymentCondition| c.reason.as_deref() == Some(bound::REASON) && c.message != message;
    conditions.retain(|c| !is_over(c));
}

/// Nothing more is waited for: what is beyond the bound is never started.
fn say_bound(conditions: &mut Vec<DeploymentCondition>, beyond: Beyond, now: Timestamp) {
    for (type_, status) in [("Progressing", "False"), ("ReplicaFailure", "True")] {
        set(
            conditions,
            condition(type_, status, bound::REASON, beyond.to_string(), now),
            now,
        );
    }
}

fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
    }
}

/// Sets a condition; one of the same status and reason stays as it is (kubernetes `SetDeploymentCondition`).
fn set(conditions: &mut Vec<DeploymentCondition>, mut new: DeploymentCondition, now: Timestamp) {
    if let Some(present) = conditions.iter().find(|c| c.type_ == new.type_) {
        if present.status == new.status && present.reason == new.reason {
            return;
        }
        if present.status == new.status {
            new.last_transition_time.clone_from(&present.last_transition_time);
        }
    }
    new.last_update_time = Some(Time(now));
    conditions.retain(|c| c.type_ != new.type_);
    conditions.push(new);
}
