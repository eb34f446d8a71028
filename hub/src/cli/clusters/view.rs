//! What is said of a cluster.

use crate::{fleet::Load, words};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use roundhouse_api::{
    cluster::{AVAILABLE, Cluster, IdentityMethod, JOINED},
    condition,
    names::label,
    placement::Taint,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A cluster, and what is placed on it.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterView {
    pub(super) name: String,
    pub(super) region: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) accepted: bool,
    /// Whether an agent waits to be let in.
    pub(super) waits: bool,
    /// The digest of its key.
    pub(super) waiting_key: Option<String>,
    pub(super) deleting: bool,
    pub(super) joined: Option<Condition>,
    pub(super) available: Option<Condition>,
    /// Those of the spec, then those that the hub itself added.
    pub(super) taints: Vec<Taint>,
    pub(super) capacity: BTreeMap<String, String>,
    pub(super) allocatable: BTreeMap<String, String>,
    pub(super) kubernetes: Option<String>,
    pub(super) agent: Option<String>,
    /// By the agent's Lease, or by the status; `None` where neither is known to tell the present.
    pub(super) last_seen: Option<Time>,
    pub(super) created: Option<Time>,
    pub(super) load: Load,
}

impl ClusterView {
    /// `heard` is when the agent of each cluster renewed its Lease last.
    pub(super) fn of(
        cluster: &Cluster,
        loads: &mut BTreeMap<String, Load>,
        heard: &BTreeMap<String, Timestamp>,
    ) -> ClusterView {
        let status = cluster.status.clone().unwrap_or_default();
        let condition = |type_| condition::get(&status.conditions, type_).cloned();
        let name = cluster.name_any();
        let heard = heard.get(&name).copied();
        // What the status says is from when something else in it changed: of an agent that is heard it is too early.
        let stale = heard.is_none() && condition::is_true(&status.conditions, AVAILABLE);
        let last_seen = status.last_seen.filter(|_| !stale).map(|at| at.0).max(heard);
        ClusterView {
            region: cluster.labels().get(label::REGION).cloned().unwrap_or_default(),
            labels: cluster.labels().clone(),
            accepted: cluster.spec.accepted,
            waits: waits(cluster),
            waiting_key: status
                .identity
                .as_ref()
                .and_then(|identity| identity.waiting_key.clone()),
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            joined: condition(JOINED),
            available: condition(AVAILABLE),
            taints: cluster
                .spec
                .taints
                .iter()
                .chain(&status.taints)
                .cloned()
                .collect(),
            load: loads.remove(&name).unwrap_or_default(),
            created: cluster.metadata.creation_timestamp.clone(),
            name,
            capacity: status.capacity,
            allocatable: status.allocatable,
            kubernetes: status.kubernetes_version,
            agent: status.agent_version,
            last_seen: last_seen.map(Time),
        }
    }

    /// Replicas that are placed here, over all applications.
    pub(super) fn replicas(&self) -> u64 {
        self.load.iter().map(|(_, replicas)| replicas).sum()
    }

    pub(super) fn structured(&self) -> Value {
        let condition = |condition: &Option<Condition>| match condition {
            Some(condition) => json!({
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "since": condition.last_transition_time,
            }),
            None => Value::Null,
        };
        let taint = |taint: &Taint| {
            json!({
                "key": taint.key, "value": taint.value, "effect": taint.effect,
                "timeAdded": taint.time_added, "text": words::taint(taint),
            })
        };
        let applications = self.load.iter();
        let applications =
            applications.map(|(name, replicas)| json!({"application": name, "replicas": replicas}));
        json!({
            "name": self.name,
            "region": self.region,
            "labels": self.labels,
            "accepted": self.accepted,
            "waits": self.waits,
            "waitingKey": self.waiting_key,
            "deleting": self.deleting,
            "joined": condition(&self.joined),
            "available": condition(&self.available),
            "taints": self.taints.iter().map(taint).collect::<Vec<_>>(),
            "capacity": self.capacity,
            "allocatable": self.allocatable,
            "kubernetesVersion": self.kubernetes,
            "agentVersion": self.agent,
            "lastSeen": self.last_seen,
            "created": self.created,
            "applications": applications.collect::<Vec<_>>(),
            "replicas": self.replicas(),
        })
    }
}

/// Whether an agent waits that somebody accepts it: with a key, or, where tokens are the identity, by an invitation.
fn waits(cluster: &Cluster) -> bool {
    let (spec, status) = (&cluster.spec, cluster.status.as_ref());
    let identity = status.and_then(|status| status.identity.as_ref());
    identity.is_some_and(|identity| {
        let by_token = identity.method == IdentityMethod::Token
            && identity.user.is_none()
            && spec.join_until.is_some()
            && identity.observed_serial == spec.serial;
        identity.waiting_key.is_some() || (by_token && spec.accepted)
    })
}
