//! The blast radius of a change of a cluster.

use super::{
    later::{self, Later, Moments},
    load::{in_order, replicas},
};
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
    /// Applications, `<namespace>/<name>`, that something would change for if their run had not ended without success: nothing of
    /// them moves before they are started again.
    pub stopped: Vec<String>,
}

/// What a change does to one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationImpact {
    /// `<namespace>/<name>`.
    pub application: String,
    /// Replicas that move, by cluster.
    pub moved: Vec<Moved>,
    /// Divided replicas without a place, as it is stored and after; both the same where the change makes no difference.
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
    /// Now, as it is stored: a run under way may have to come to it yet.
    pub before: u64,
    /// Without the change, once runs under way have finished.
    pub otherwise: u64,
    /// After the change, once runs under way have finished.
    pub after: u64,
}

impl Moved {
    /// Replicas more than now, or fewer.
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

    /// Replicas that are on a cluster, and are taken from it by the change.
    pub fn taken(&self) -> u64 {
        let taken = self
            .moved
            .iter()
            .map(|moved| moved.before.min(moved.otherwise).saturating_sub(moved.after));
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
    let stored: Vec<Outcome> = applications
        .iter()
        .map(|(namespace, name)| Outcome::stored(snapshot, namespace, name))
        .collect();
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
        look(snapshot, key, now, |proposal, foreseen| match foreseen.stopped {
            true => Outcome::of(&foreseen),
            false => later::follow(snapshot, proposal, foreseen, &taints, now, &mut moments),
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
    let looked = stored.iter().zip(before.into_iter().zip(after));
    for ((namespace, name), (stored, (before, after))) in applications.iter().zip(looked) {
        let application = format!("{namespace}/{name}");
        match (before, after) {
            (Ok(before), Ok(after)) => {
                let one = compare(application, stored, &before, &after);
                match (one.is_empty(), after.stopped) {
                    (true, _) => {}
                    (false, true) => impact.stopped.push(one.application),
                    (false, false) => impact.applications.push(one),
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
    /// Nothing of it is carried out: see [`Foreseen::stopped`].
    stopped: bool,
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
    /// What is decided now, of steps that a run has come to.
    fn stored(snapshot: &Snapshot, namespace: &str, name: &str) -> Outcome {
        let decisions = in_order(snapshot, namespace, name);
        let specs = || decisions.iter().map(|decision| &decision.spec);
        Outcome {
            replicas: replicas(specs()),
            unplaced: specs().map(|decision| decision.unplaced).sum(),
            ..Outcome::default()
        }
    }

    pub(super) fn of(foreseen: &Foreseen) -> Outcome {
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
            replicas: replicas(foreseen.decisions.iter().map(|decision| &decision.spec)),
            unplaced: foreseen
                .decisions
                .iter()
                .map(|decision| decision.spec.unplaced)
                .sum(),
            held: foreseen.held.clone(),
            stopped: foreseen.stopped,
        }
    }
}

/// What differs between two outcomes, beside what is there now.
pub(super) fn compare(
    application: String,
    now: &Outcome,
    before: &Outcome,
    after: &Outcome,
) -> ApplicationImpact {
    let clusters: BTreeSet<&String> = before.replicas.keys().chain(after.replicas.keys()).collect();
    let of = |replicas: &BTreeMap<String, u64>, cluster: &str| replicas.get(cluster).copied().unwrap_or(0);
    let moved = clusters.into_iter().filter_map(|cluster| {
        let moved = Moved {
            before: of(&now.replicas, cluster),
            otherwise: of(&before.replicas, cluster),
            after: of(&after.replicas, cluster),
            cluster: cluster.clone(),
        };
        (moved.otherwise != moved.after).then_some(moved)
    });
    let leaving: Vec<String> = after.surplus.difference(&before.surplus).cloned().collect();
    ApplicationImpact {
        application,
        moved: moved.collect(),
        unplaced: match before.unplaced == after.unplaced {
            true => (after.unplaced, after.unplaced),
            false => (now.unplaced, after.unplaced),
        },
        arriving: after.members.difference(&before.members).cloned().collect(),
        held: after.held.clone().filter(|_| !leaving.is_empty()),
        leaving,
    }
}
