//! Plays Deployment, StatefulSet, DaemonSet, Job and Pod: reads their specs, writes their statuses as Kubernetes' own
//! controllers and kubelets do, after a delay and with the failures that a seeded [`Model`] says. Beside them a Service of type
//! LoadBalancer gets an address at once, and a PodDisruptionBudget the counts of the pods that it selects.
//!
//! Each kind is a pure function [`Workload::next`] of the object, of what is remembered of its replicas, of the model
//! and of the time; [`run()`] watches, calls it and writes the statuses that differ. No ReplicaSets and no Pods are
//! made: replicas live in [`Memory`], which is rebuilt from the status after a restart. Of a workload that asks for more than
//! [`MOST_REPLICAS`] that many are started, and its conditions say that the others are not.

mod bound;
mod budget;
mod controller;
mod daemon_set;
mod deployment;
mod job;
mod memory;
mod model;
mod pod;
mod pods;
mod rolling;
mod service;
mod stateful_set;
#[cfg(test)]
mod tests;

pub use bound::MOST_REPLICAS;
pub use controller::run;
pub use memory::{Fate, Memory, Replica};
pub use model::{Model, TemplateHash};
pub use pods::{Around, Group, Pods, Wanted};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use serde::{Serialize, de::DeserializeOwned};

/// A kind whose status is played.
pub trait Workload:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Whether its objects are workloads. What the others have follows from their specs and from the pods that are there.
    const HAS_PODS: bool = true;

    /// Its status.
    type Status: PartialEq + Clone + Send;

    /// The status that the object has.
    fn status(&self) -> Option<&Self::Status>;

    /// The object with another status.
    fn with_status(self, status: Self::Status) -> Self;

    /// Whether the simulator plays this object at all: a Pod that a controller owns is somebody else's.
    fn is_played(&self) -> bool {
        true
    }

    /// Its pods, by its status.
    fn pods(&self, _status: &Self::Status) -> Option<Group> {
        None
    }

    /// Where the object stands now. `memory` is what the last call returned; absent after a restart.
    fn next(&self, memory: Option<Memory>, around: &Around<'_>) -> Next<Self::Status>;
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Next<S> {
    /// Its status now.
    pub status: S,
    /// What is to be remembered of its replicas.
    pub memory: Memory,
    /// When something changes by itself; absent if only a write to the object changes anything.
    pub wake_at: Option<Timestamp>,
}
