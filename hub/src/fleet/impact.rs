//! The blast radius of a change of a cluster.

use super::later::{self, Later, Moments};
use crate::{
    application::{Foreseen, Proposal, Snapshot, foresee},
    dispatch,
    placement::Inventory,
};
use jiff::Timestamp;
use kube::ResourceExt;
use roundhouse_api::{cluster::Cluster, names::cluster_of_namespace};
use std::collections::{BTreeMap, BTreeSet};

/// What a change does to the applications of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impact {
    /// The applications that something changes for, sorted.
    pub applications: Vec<ApplicationImpact>,
    /// What changes after that as taints of the cluster are not tolerated any more, in order of time.
    pub later: Vec<Later>,
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
    pub(super) fn is_empty(&self) -> bool {
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
/// each of them once its run has finished: at once, and when tolerations of its taints end. The snapshot has the changed
/// cluster, and what is decided then, afterwards.
pub fn impact(
    snapshot: &Snapshot,
    applications: &[(String, String)],
    changed: &Cluster,
    now: Timestamp,
) -> Impact {
    let before: Vec<Result<Outcome, String>> = applications
        .iter()
        .map(|key| look(snapshot, key, now, |_, foreseen| Outcome::of(&foreseen)))
        .collect();
    snapshot.put_cluster(changed);
    let name = changed.name_any();
    let fleet = snapshot.fleet().into_iter();
    let taints: Inventory = fleet.filter(|facts| facts.name == name).collect();
    let mut moments = Moments::new();
    let after = applications.iter().map(|key| {
        look(snapshot, key, now, |proposal, foreseen| {
            later::follow(snapshot, proposal, foreseen, &taints, now, &mut moments)
        })
    });
    let mut after: Vec<Result<Outcome, String>> = after.collect();
    if changed.metadata.deletion_timestamp.is_some() {
        // What becomes of its Bundles is said by whoever lets it leave, and waits for no budget.
        for outcome in after.iter_mut().flatten() {
            outcome.surplus.remove(&name);
        }
    }
    let mut impact = Impact {
        asked: applications.len(),
        later: later::in_order(moments, now),
        ..Impact::default()
    };
    for ((namespace, name), (before, after)) in applications.iter().zip(before.into_iter().zip(after)) {
        let application = format!("{namespace}/{name}");
        match (before, after) {
            (Ok(before), Ok(after)) => {
                let one = compare(application, &before, &after);
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
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    replicas: BTreeMap<String, u64>,
    members: BTreeSet<String>,
    surplus: BTreeSet<String>,
    unplaced: u64,
    held: Option<String>,
}

/// Looks at what is foreseen of a stored application.
fn look(
    snapshot: &Snapshot,
    (namespace, name): &(String, String),
    now: Timestamp,
    outcome: impl FnOnce(&Proposal<'_>, Foreseen) -> Outcome,
) -> Result<Outcome, String> {
    let spec = snapshot.spec(namespace, name).unwrap_or_default();
    let proposal = Proposal {
        namespace,
        name,
        spec: &spec,
    };
    let foreseen = foresee(snapshot, &proposal, now).map_err(|why| why.to_string())?;
    Ok(outcome(&proposal, foreseen))
}

impl Outcome {
    pub(super) fn of(foreseen: &Foreseen) -> Outcome {
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
                .filter_map(|(namespace, _)| cluster_of_namespace(namespace).map(str::to_owned))
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
            held: foreseen.held.clone(),
        }
    }
}

pub(super) fn compare(application: String, before: &Outcome, after: &Outcome) -> ApplicationImpact {
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
        held: after.held.clone().filter(|_| !leaving.is_empty()),
        leaving,
    }
}
