//! The fleet as deliveries know it. There is one, kept up to date change by change; a pass looks at it as it was when
//! the pass began.

use crate::placement::{ClusterFacts, Inventory};
use kube::ResourceExt;
use roundhouse_api::{
    cluster::{self, Cluster},
    condition,
    names::label,
    placement::Taint,
    quantity,
};
use std::{collections::BTreeMap, sync::Arc};

/// A cluster as far as deliveries are concerned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) facts: Arc<ClusterFacts>,
    pub(super) region: String,
    /// Why nothing can be known of it now.
    pub(super) unreachable: Option<String>,
    /// Whether it leaves the fleet: what becomes of its Bundles is the cluster controller's to say.
    pub(super) leaving: bool,
}

impl Member {
    pub(super) fn of(cluster: &Cluster) -> Member {
        let status = cluster.status.clone().unwrap_or_default();
        let available = condition::get(&status.conditions, cluster::AVAILABLE);
        let reachable = available.is_some_and(|c| c.status == "True");
        let unreachable = (!reachable).then(|| match available {
            Some(condition) => {
                let since = condition.last_transition_time.0;
                format!("agent unreachable since {since:.0}")
            }
            None => "agent never heard of".to_owned(),
        });
        let mut taints: Vec<Taint> = cluster.spec.taints.clone();
        for taint in taints.iter_mut().filter(|taint| taint.time_added.is_none()) {
            let seen = status.taints_seen.iter().find(|seen| seen.is_same(taint));
            taint.time_added = seen.and_then(|seen| seen.time_added.clone());
        }
        taints.extend(status.taints);
        Member {
            region: cluster.labels().get(label::REGION).cloned().unwrap_or_default(),
            facts: Arc::new(ClusterFacts {
                name: cluster.name_any(),
                labels: cluster.labels().clone(),
                taints,
                joined: condition::is_true(&status.conditions, cluster::JOINED),
                accepted: cluster.spec.accepted && cluster.metadata.deletion_timestamp.is_none(),
                reachable,
                capacity: status.capacity.get("replicas").and_then(|text| replicas(text)),
                allocatable: status.allocatable,
            }),
            unreachable,
            leaving: cluster.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Replicas that fit into a capacity: whole ones, and at most as many as can be counted. `None` if it is no quantity.
fn replicas(capacity: &str) -> Option<u32> {
    let whole = quantity::whole(capacity)?;
    Some(u32::try_from(whole).unwrap_or(u32::MAX))
}

/// All clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    /// By name.
    pub(super) members: BTreeMap<String, Arc<Member>>,
    /// The same, indexed for placement.
    pub(super) inventory: Inventory,
}

/// A cluster before and after something happened to it; `None` where it is not there.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) before: Option<Arc<Member>>,
    pub(super) after: Option<Arc<Member>>,
}

impl Change {
    /// What placement knew and knows.
    pub(super) fn facts(&self) -> (Option<&ClusterFacts>, Option<&ClusterFacts>) {
        (
            self.before.as_deref().map(|member| member.facts.as_ref()),
            self.after.as_deref().map(|member| member.facts.as_ref()),
        )
    }

    /// Whether what is shown of a cluster differs: its region, and whether it can be reached.
    pub(super) fn shows(&self) -> bool {
        let shown = |member: &Option<Arc<Member>>| {
            member
                .as_deref()
                .map(|member| (member.region.clone(), member.unreachable.clone()))
        };
        shown(&self.before) != shown(&self.after)
    }
}

impl Fleet {
    /// Why nothing can be known of a cluster now.
    pub(super) fn unreachable(&self, cluster: &str) -> Option<&str> {
        match self.members.get(cluster) {
            Some(member) => member.unreachable.as_deref(),
            None => Some("the cluster is not registered"),
        }
    }

    /// Whether a cluster is there and leaves.
    pub(super) fn is_leaving(&self, cluster: &str) -> bool {
        self.members.get(cluster).is_some_and(|member| member.leaving)
    }

    /// Whether a cluster is there and does not leave.
    pub(super) fn stays(&self, cluster: &str) -> bool {
        self.members.get(cluster).is_some_and(|member| !member.leaving)
    }

    /// Takes a cluster in; `None` if nothing changed that deliveries depend on.
    pub(super) fn put(&mut self, cluster: &Cluster) -> Option<Change> {
        let (name, after) = (cluster.name_any(), Arc::new(Member::of(cluster)));
        let before = self.members.get(&name).cloned();
        if before.as_ref() == Some(&after) {
            return None;
        }
        self.inventory.put(after.facts.clone());
        self.members.insert(name.clone(), after.clone());
        Some(Change {
            name,
            before,
            after: Some(after),
        })
    }

    /// Takes a cluster out; `None` if there was none.
    pub(super) fn remove(&mut self, name: &str) -> Option<Change> {
        let before = self.members.remove(name)?;
        self.inventory.remove(name);
        Some(Change {
            name: name.to_owned(),
            before: Some(before),
            after: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::cluster::ClusterStatus;

    #[test]
    fn capacity_is_any_quantity_rounded_down() {
        for (text, expected) in [
            ("12", Some(12)),
            ("1k", Some(1000)),
            ("1e3", Some(1000)),
            ("10.0", Some(10)),
            ("10.9", Some(10)),
            ("9999m", Some(9)),
            ("0.9999", Some(0)),
            ("-1", Some(0)),
            ("5G", Some(u32::MAX)),
            ("1e30", Some(u32::MAX)),
            ("many", None),
            ("", None),
        ] {
            let mut cluster = Cluster::new("c1", Default::default());
            let capacity = BTreeMap::from([("replicas".to_owned(), text.to_owned())]);
            cluster.status = Some(ClusterStatus {
                capacity,
                ..ClusterStatus::default()
            });
            assert_eq!(Member::of(&cluster).facts.capacity, expected, "{text:?}");
        }
    }
}
