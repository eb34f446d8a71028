//! StatefulSet: ordinals, ordered start, updates from the highest ordinal down.

use super::{
    Around, Group, Memory, Model, Next, Replica, Wanted, Workload,
    bound::{self, Beyond, bounded},
    memory::{Counts, count, nonzero, object_key, seconds},
    model::{Template, labels},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{StatefulSet, StatefulSetCondition, StatefulSetSpec, StatefulSetStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

impl Workload for StatefulSet {
    type Status = StatefulSetStatus;

    fn status(&self) -> Option<&StatefulSetStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: StatefulSetStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn pods(&self, status: &StatefulSetStatus) -> Option<Group> {
        let spec = self.spec.as_ref()?;
        Some(Group {
            labels: labels(&spec.template),
            wanted: Wanted::Scale(spec.replicas.unwrap_or(1)),
            total: status.replicas,
            ready: status.ready_replicas.unwrap_or(0),
        })
    }

    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<StatefulSetStatus> {
        let Around { model, now, .. } = *around;
        let before = self.status.clone().unwrap_or_default();
        let spec = self.spec.clone().unwrap_or_default();
        let template = Template::of(&spec.template);
        let object = object_key(self);
        let mut memory = memory.unwrap_or_else(|| recall(self, &before, &object, &template, model, now));
        if !memory.current_template.is_known() {
            memory.current_template = template.hash;
        }
        let (desired, beyond) = bounded("spec.replicas", spec.replicas.unwrap_or(1));
        let set = Set {
            desired,
            partition: partition(&spec),
            ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
            min_ready: seconds(spec.min_ready_seconds),
        };
        set.advance(&mut memory, &object, &template, model, now);

        let replicas = memory.count(|_| true);
        let ready = memory.count(|r| r.is_ready(now));
        let updated = memory.count(|r| r.template == template.hash);
        if updated == replicas && ready == replicas {
            memory.current_template = template.hash;
        }
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let status = StatefulSetStatus {
            observed_generation: self.metadata.generation,
            replicas,
            ready_replicas: nonzero(ready),
            available_replicas: Some(memory.count(|r| r.is_available(set.min_ready, now))),
            current_replicas: nonzero(memory.count(|r| r.template == memory.current_template)),
            updated_replicas: nonzero(updated),
            current_revision: Some(format!("{name}-{}", memory.current_template)),
            update_revision: Some(format!("{name}-{}", template.hash)),
            collision_count: Some(0),
            conditions: conditions(before.conditions, beyond, now),
        };
        Next {
            wake_at: memory.wake_at(set.min_ready, now),
            status,
            memory,
        }
    }
}

fn recall(
    stateful_set: &StatefulSet,
    status: &StatefulSetStatus,
    object: &str,
    template: &Template,
    model: &Model,
    now: Timestamp,
) -> Memory {
    let same_spec = status.observed_generation == stateful_set.metadata.generation;
    let counts = Counts {
        replicas: count(Some(status.replicas)),
        updated: if same_spec {
            count(status.updated_replicas)
        } else {
            0
        },
        ready: count(status.ready_replicas),
    };
    Memory::recall(counts, object, template, model, now)
}

/// Its controller writes none: the one here says what is not started.
fn conditions(
    before: Option<Vec<StatefulSetCondition>>,
    beyond: Option<Beyond>,
    now: Timestamp,
) -> Option<Vec<StatefulSetCondition>> {
    let (mut own, mut conditions): (Vec<_>, Vec<_>) = (before.into_iter().flatten())
        .partition(|c| c.type_ == "ReplicaFailure" && c.reason.as_deref() == Some(bound::REASON));
    if let Some(message) = beyond.map(|beyond| beyond.to_string()) {
        own.retain(|c| c.message.as_ref() == Some(&message));
        conditions.push(own.pop().unwrap_or_else(|| StatefulSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(bound::REASON.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        }));
    }
    (!conditions.is_empty()).then_some(conditions)
}

/// The lowest ordinal that is updated; absent under `OnDelete`.
fn partition(spec: &StatefulSetSpec) -> Option<u32> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
    Some(count(rolling.and_then(|r| r.partition)))
}

struct Set {
    desired: u32,
    partition: Option<u32>,
    ordered: bool,
    min_ready: SignedDuration,
}

impl Set {
    fn advance(&self, memory: &mut Memory, object: &str, template: &Template, model: &Model, now: Timestamp) {
        let available = |r: &Replica| r.is_available(self.min_ready, now);
        memory.replicas.retain(|r| r.ordinal < self.desired);
        memory.next_ordinal = memory.next_ordinal.min(self.desired);
        while memory.next_ordinal < self.desired {
            // In order: the next one starts when all before it are available.
            if self.ordered && !memory.replicas.iter().all(available) {
                break;
            }
            memory.start(object, template, model, now);
        }
        let Some(partition) = self.partition else {
            return;
        };
        for replica in memory.replicas.iter_mut().rev() {
            if replica.ordinal < partition {
                return;
            }
            if replica.template != template.hash {
                replica.template = template.hash;
                replica.fate = model.fate(object, template, replica.ordinal, now);
                return;
            }
            if !available(replica) {
                return;
            }
        }
    }
}
