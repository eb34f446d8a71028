//! Pods that no controller owns: pulled, started, ready.

use super::{Around, Fate, Group, Memory, Next, Wanted, Workload, memory::object_key, model::Template};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, Pod,
        PodCondition, PodStatus, PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

impl Workload for Pod {
    type Status = PodStatus;

    fn status(&self) -> Option<&PodStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: PodStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn is_played(&self) -> bool {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.controller == Some(true)).count() == 0
    }

    fn pods(&self, status: &PodStatus) -> Option<Group> {
        let is_ready = |c: &PodCondition| c.type_ == "Ready" && c.status == "True";
        Some(Group {
            labels: self.metadata.labels.clone().unwrap_or_default(),
            wanted: Wanted::Alone,
            total: 1,
            ready: i32::from(status.conditions.iter().flatten().any(is_ready)),
        })
    }

    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<PodStatus> {
        let Around { model, now, .. } = *around;
        let before = self.status.clone().unwrap_or_default();
        let template = Template::of(&PodTemplateSpec {
            spec: self.spec.clone(),
            ..Default::default()
        });
        let mut memory = memory.unwrap_or_default();
        if memory.replicas.is_empty() {
            memory.start(&object_key(self), &template, model, now);
            let was_running = before.phase.as_deref() == Some("Running");
            if let (true, Some(replica)) = (was_running, memory.replicas.first_mut()) {
                replica.fate = Fate::ReadyAt(Timestamp::UNIX_EPOCH);
            }
        }
        let state = match memory.replicas.first().map(|replica| replica.fate) {
            Some(Fate::ReadyAt(at)) if at <= now => State::Running,
            Some(Fate::CrashesAt(at)) if at <= now => State::Waiting("CrashLoopBackOff"),
            Some(Fate::NotPulled) => State::Waiting("ImagePullBackOff"),
            _ => State::Waiting("ContainerCreating"),
        };
        let running = state == State::Running;
        let mut conditions = before.conditions.clone().unwrap_or_default();
        for (type_, status) in [
            ("PodScheduled", true),
            ("Initialized", true),
            ("ContainersReady", running),
            ("Ready", running),
        ] {
            set(&mut conditions, type_, status, now);
        }
        let containers = self.spec.as_ref().map(|spec| spec.containers.as_slice());
        let status = PodStatus {
            phase: Some(if running { "Running" } else { "Pending" }.to_owned()),
            observed_generation: self.metadata.generation,
            conditions: Some(conditions),
            start_time: before.start_time.clone().or(Some(Time(now))),
            container_statuses: Some(
                containers
                    .unwrap_or_default()
                    .iter()
                    .map(|container| container_status(container, &before, state, now))
                    .collect(),
            ),
            ..before
        };
        Next {
            wake_at: memory.wake_at(SignedDuration::ZERO, now),
            status,
            memory,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Waiting(&'static str),
}

fn container_status(
    container: &Container,
    before: &PodStatus,
    state: State,
    now: Timestamp,
) -> ContainerStatus {
    let present = before.container_statuses.iter().flatten();
    let since = present
        .filter(|status| status.name == container.name)
        .find_map(|status| status.state.as_ref()?.running.as_ref()?.started_at.clone());
    let state_now = match state {
        State::Running => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: since.or(Some(Time(now))),
            }),
            ..Default::default()
        },
        State::Waiting(reason) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.to_owned()),
                message: None,
            }),
            ..Default::default()
        },
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready: state == State::Running,
        started: Some(state == State::Running),
        state: Some(state_now),
        ..Default::default()
    }
}

fn set(conditions: &mut Vec<PodCondition>, type_: &str, status: bool, now: Timestamp) {
    let status = if status { "True" } else { "False" };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(present) if present.status == status => {}
        Some(present) => {
            status.clone_into(&mut present.status);
            present.last_transition_time = Some(Time(now));
        }
        None => conditions.push(PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(Time(now)),
            ..Default::default()
        }),
    }
}
