//! DaemonSet: one replica on each simulated node.

use super::{
    Around, Group, Memory, Model, Next, Replica, Wanted, Workload,
    memory::{Counts, count, nonzero, object_key, seconds},
    model::{Template, labels},
    rolling::resolve,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus},
    apimachinery::pkg::util::intstr::IntOrString,
};

impl Workload for DaemonSet {
    type Status = DaemonSetStatus;

    fn status(&self) -> Option<&DaemonSetStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: DaemonSetStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn pods(&self, status: &DaemonSetStatus) -> Option<Group> {
        Some(Group {
            labels: labels(&self.spec.as_ref()?.template),
            wanted: Wanted::NoScale("daemonsets.apps"),
            total: status.current_number_scheduled,
            ready: status.number_ready,
        })
    }

    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<DaemonSetStatus> {
        let Around { model, now, .. } = *around;
        let before = self.status.clone().unwrap_or_default();
        let spec = self.spec.clone().unwrap_or_default();
        let template = Template::of(&spec.template);
        let object = object_key(self);
        let mut memory = memory.unwrap_or_else(|| recall(self, &before, &object, &template, model, now));
        let min_ready = seconds(spec.min_ready_seconds);
        memory.replicas.retain(|r| r.ordinal < model.nodes);
        memory.next_ordinal = memory.next_ordinal.min(model.nodes);
        while memory.next_ordinal < model.nodes {
            memory.start(&object, &template, model, now);
        }
        let nodes = i32::try_from(model.nodes).unwrap_or(i32::MAX);
        let available = |r: &Replica| r.is_available(min_ready, now);
        let mut may_stop = most_unavailable(&spec, nodes) - memory.count(|r| !available(r));
        for replica in memory.replicas.iter_mut().filter(|r| r.template != template.hash) {
            // One that is down anyway is replaced at no cost.
            if available(replica) {
                if may_stop <= 0 {
                    continue;
                }
                may_stop -= 1;
            }
            replica.template = template.hash;
            replica.fate = model.fate(&object, &template, replica.ordinal, now);
        }

        let available = memory.count(available);
        let status = DaemonSetStatus {
            observed_generation: self.metadata.generation,
            desired_number_scheduled: nodes,
            current_number_scheduled: memory.count(|_| true),
            updated_number_scheduled: nonzero(memory.count(|r| r.template == template.hash)),
            number_ready: memory.count(|r| r.is_ready(now)),
            number_available: nonzero(available),
            number_unavailable: nonzero(nodes - available),
            number_misscheduled: 0,
            ..before
        };
        Next {
            wake_at: memory.wake_at(min_ready, now),
            status,
            memory,
        }
    }
}

fn recall(
    daemon_set: &DaemonSet,
    status: &DaemonSetStatus,
    object: &str,
    template: &Template,
    model: &Model,
    now: Timestamp,
) -> Memory {
    let same_spec = status.observed_generation == daemon_set.metadata.generation;
    let counts = Counts {
        replicas: count(Some(status.current_number_scheduled)),
        updated: if same_spec {
            count(status.updated_number_scheduled)
        } else {
            0
        },
        ready: count(Some(status.number_ready)),
    };
    Memory::recall(counts, object, template, model, now)
}

/// How many may be down during an update; none are replaced under `OnDelete`.
fn most_unavailable(spec: &DaemonSetSpec, nodes: i32) -> i32 {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete") {
        return i32::MIN / 2;
    }
    let bound = strategy
        .and_then(|s| s.rolling_update.as_ref())
        .and_then(|r| r.max_unavailable.as_ref());
    resolve(bound.unwrap_or(&IntOrString::Int(1)), nodes, true).max(1)
}
