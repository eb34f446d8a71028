//! The blast radius of a change of a cluster.

use crate::{
    application::{Foreseen, Proposal, Snapshot, foresee},
    dispatch,
};
use jiff::Timestamp;
use roundhouse_api::cluster::Cluster;
use std::collections::{BTreeMap, BTreeSet};

/// What a change does to the applications of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impact {
    /// The applications that something changes for, sorted.
    pub applications: Vec<ApplicationImpact>,
    /// How many applications were asked.
    pub asked: usize,
    /// Applications that cannot be asked, `<namespace>/<name>`, and why: what runs of them stays as it is.
    pub refused: Vec<(String, String)>,
}

/// What a change does to one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationImpact {
    /// `<namespace>/<name>`.
    pub application: String,
    /// Replicas that move, by cluster.
    pub moved: Vec<Moved>,
    /// Divided replicas without a place, before and after.
    pub unplaced: (u64, u64),
    /// Clusters that would get it, sorted.
    pub arriving: Vec<String>,
    /// Clusters whose Bundles would be removed, sorted.
    pub leaving: Vec<String>,
    /// Why those removals would wait for a confirmation; `None` if they would not.
    pub held: Option<String>,
}

/// Replicas of one application on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The cluster.
    pub cluster: String,
    /// Now.
    pub before: u64,
    /// After the change.
    pub after: u64,
}

impl Moved {
    /// Replicas more, or fewer.
    pub fn delta(&self) -> i64 {
        i64::try_from(self.after).unwrap_or(i64::MAX) - i64::try_from(self.before).unwrap_or(i64::MAX)
    }
}

impl ApplicationImpact {
    fn is_empty(&self) -> bool {
        self.moved.is_empty()
            && self.arriving.is_empty()
            && self.leaving.is_empty()
            && self.unplaced.0 == self.unplaced.1
    }

    /// Replicas that are taken from a cluster.
    pub fn taken(&self) -> u64 {
        let taken = self
            .moved
            .iter()
            .map(|moved| moved.before.saturating_sub(moved.after));
        taken.sum()
    }
}

/// Says what becomes of `applications` (namespace and name) when `changed` takes the place of the cluster of its name,
/// each of them once its run has finished. The snapshot has the changed cluster afterwards.
pub fn impact(
    snapshot: &Snapshot,
    applications: &[(String, String)],
    changed: &Cluster,
    now: Timestamp,
) -> Impact {
    let look = || {
        applications
            .iter()
            .map(|key| Outcome::of(snapshot, key, now))
            .collect::<Vec<_>>()
    };
    let before = look();
    snapshot.put_cluster(changed);
    let after = look();
    let mut impact = Impact {
        asked: applications.len(),
        ..Impact::default()
    };
    for ((namespace, name), (before, after)) in applications.iter().zip(before.into_iter().zip(after)) {
        let application = format!("{namespace}/{name}");
        match (before, after) {
            (Ok(before), Ok(after)) => {
                let one = compare(application, &before, after);
                if !one.is_empty() {
                    impact.applications.push(one);
                }
            }
            (Err(why), _) | (_, Err(why)) => impact.refused.push((application, why)),
        }
    }
    impact
}

/// What of an application is compared.
#[derive(Debug, Default)]
struct Outcome {
    replicas: BTreeMap<String, u64>,
    members: BTreeSet<String>,
    surplus: BTreeSet<String>,
    unplaced: u64,
    held: Option<String>,
}

impl Outcome {
    fn of(
        snapshot: &Snapshot,
        (namespace, name): &(String, String),
        now: Timestamp,
    ) -> Result<Outcome, String> {
        let spec = snapshot.spec(namespace, name).unwrap_or_default();
        let proposal = Proposal {
            namespace,
            name,
            spec: &spec,
        };
        match foresee(snapshot, &proposal, now) {
            Ok(foreseen) => Ok(Outcome::from(foreseen)),
            Err(why) => Err(why.to_string()),
        }
    }
}

impl From<Foreseen> for Outcome {
    fn from(foreseen: Foreseen) -> Outcome {
        let layers: Vec<_> = foreseen
            .decisions
            .iter()
            .map(|decision| dispatch::Layer::of(true, &decision.spec))
            .collect();
        let shares = dispatch::shares(&layers);
        let wanted = foreseen.plan.targets.iter();
        let members = wanted.filter(|(_, target)| !matches!(target, dispatch::Target::Nothing));
        Outcome {
            members: members.map(|(cluster, _)| cluster.clone()).collect(),
            surplus: foreseen
                .plan
                .surplus
                .iter()
                .filter_map(|(namespace, _)| namespace.strip_prefix("cluster-").map(str::to_owned))
                .collect(),
            replicas: shares
                .into_iter()
                .map(|(cluster, share)| {
                    let replicas = share.replicas.values().map(|part| u64::from(part.replicas)).sum();
                    (cluster, replicas)
                })
                .collect(),
            unplaced: foreseen
                .decisions
                .iter()
                .map(|decision| decision.spec.unplaced)
                .sum(),
            held: foreseen.held,
        }
    }
}

fn compare(application: String, before: &Outcome, after: Outcome) -> ApplicationImpact {
    let clusters: BTreeSet<&String> = before.replicas.keys().chain(after.replicas.keys()).collect();
    let of = |replicas: &BTreeMap<String, u64>, cluster: &str| replicas.get(cluster).copied().unwrap_or(0);
    let moved = clusters.into_iter().filter_map(|cluster| {
        let moved = Moved {
            before: of(&before.replicas, cluster),
            after: of(&after.replicas, cluster),
            cluster: cluster.clone(),
        };
        (moved.before != moved.after).then_some(moved)
    });
    let leaving: Vec<String> = after.surplus.difference(&before.surplus).cloned().collect();
    ApplicationImpact {
        application,
        moved: moved.collect(),
        unplaced: (before.unplaced, after.unplaced),
        arriving: after.members.difference(&before.members).cloned().collect(),
        held: after.held.filter(|_| !leaving.is_empty()),
        leaving,
    }
}
