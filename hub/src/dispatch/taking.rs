//! What a step takes away again: the Bundles that carry the object of steps before it.
//!
//! Architecture Invariant: a cluster counts only once its agent has reported that the object is gone, and the Bundle of which
//! it says that stays until the step is over. Where a Bundle is missing, nobody has said anything: one without manifests is
//! made, with the evidence for removal in it, so that the agent removes what its ledger still has, and reports.

use super::{
    Divided, Observed, Part, Plan, Target, Wanted,
    evidence::{AWAITS_TURN, removal_report, worst},
    plan::Todo,
    removal::{self, Removal},
};
use crate::workflow::{ClusterEvidence, ClusterState};
use roundhouse_api::{
    bundle::{ApplicationRef, BundleSpec, Deletion},
    hash,
    names::{cluster_namespace, step_bundle_name},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All that taking away depends on.
#[derive(Debug, Clone, Copy)]
pub struct Taking<'a> {
    /// The application.
    pub application: &'a ApplicationRef,
    /// The step that takes away.
    pub step: &'a str,
    /// The revision whose workflow says so.
    pub revision: &'a str,
    /// Fencing epoch of this hub.
    pub epoch: i64,
    /// Cluster -> the steps whose object goes there.
    pub targets: &'a BTreeMap<String, BTreeSet<&'a str>>,
    /// Step -> cluster -> its Bundles.
    pub observed: &'a BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>>,
    /// At most this many clusters are under way at a time.
    pub most: Option<u32>,
}

/// What has to be done, and what the clusters show.
#[derive(Debug, Default, PartialEq)]
pub struct Taken {
    /// The Bundles that are made for their agents to report on.
    pub asked: Plan,
    /// The Bundles that go, with the evidence that is written first.
    pub due: Vec<(Arc<Observed>, Deletion)>,
    /// What each cluster shows, by name: ready is one where the object is gone.
    pub clusters: Vec<ClusterEvidence>,
}

/// How far the removal of one Bundle is.
enum Stand<'a> {
    /// There is none, of this step.
    Missing(&'a str),
    /// It is to be confirmed or deleted.
    Due(&'a Arc<Observed>),
    /// Its agent is at it.
    Going(&'a Arc<Observed>),
    /// Its agent has reported that all is gone.
    Gone,
}

/// Says what is next on each cluster. A cluster that cannot be reached takes no place among those under way; `unreachable`
/// says why it cannot.
pub fn take_away(taking: &Taking<'_>, unreachable: impl Fn(&str) -> Option<String>) -> Taken {
    let deletion = removal::evidence(taking.revision, &Deletion::by_step(taking.step));
    let stands = taking.targets.iter().map(|(cluster, steps)| {
        let stands: Vec<Stand<'_>> = steps
            .iter()
            .flat_map(|step| stands(taking, step, cluster, &deletion))
            .collect();
        (cluster, stands, unreachable(cluster))
    });
    let stands: Vec<_> = stands.collect();
    let most = taking
        .most
        .map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let begun = |stands: &[Stand<'_>]| !stands.iter().any(is_open);
    let under_way = stands.iter().filter(|(_, stands, away)| {
        away.is_none() && begun(stands) && !stands.iter().all(|stand| matches!(stand, Stand::Gone))
    });
    let mut free = most.saturating_sub(under_way.count());
    let mut open: Vec<_> = stands.iter().filter(|(_, stands, _)| !begun(stands)).collect();
    // What is begun in part is finished first.
    open.sort_by_key(|(cluster, stands, _)| (stands.iter().all(is_open), *cluster));
    let mut late = BTreeSet::new();
    for (cluster, _, away) in open {
        match (away, free) {
            (Some(_), _) => {}
            (None, 0) => {
                late.insert(*cluster);
            }
            (None, _) => free -= 1,
        }
    }
    let mut taken = Taken::default();
    for (cluster, stands, away) in &stands {
        let waits = late.contains(cluster);
        if !waits {
            let missing = stands.iter().filter_map(|stand| match stand {
                Stand::Missing(step) => Some(asked(taking, step, cluster, &deletion)),
                _ => None,
            });
            let missing: Vec<Wanted> = missing.collect();
            if !missing.is_empty() {
                let target = Target::Bundles(missing);
                taken.asked.targets.insert((*cluster).clone(), target);
            }
            taken.due.extend(stands.iter().filter_map(|stand| match stand {
                Stand::Due(bundle) => Some((Arc::clone(bundle), deletion.clone())),
                _ => None,
            }));
        }
        let shown = shown(cluster, stands, waits, away.as_deref());
        taken.clusters.push(shown);
    }
    taken
}

fn is_open(stand: &Stand<'_>) -> bool {
    matches!(stand, Stand::Missing(_) | Stand::Due(_))
}

fn stands<'a>(taking: &Taking<'a>, step: &'a str, cluster: &str, deletion: &Deletion) -> Vec<Stand<'a>> {
    let held = taking.observed.get(step).and_then(|held| held.get(cluster));
    let held = held.map_or(&[][..], Vec::as_slice);
    let stand = |bundle: &'a Arc<Observed>| match removal::next(bundle, Some(deletion)) {
        Removal::Confirm | Removal::Delete => Stand::Due(bundle),
        Removal::Await => Stand::Going(bundle),
        Removal::Release => Stand::Gone,
    };
    match held {
        [] => vec![Stand::Missing(step)],
        held => held.iter().map(stand).collect(),
    }
}

fn shown(cluster: &str, stands: &[Stand<'_>], waits: bool, away: Option<&str>) -> ClusterEvidence {
    let unknown = || {
        let message = "its agent has not reported that the object is gone";
        (ClusterState::Waiting, message.to_owned())
    };
    let each = stands.iter().map(|stand| match stand {
        Stand::Missing(_) | Stand::Due(_) if waits => (ClusterState::Dispatching, AWAITS_TURN.to_owned()),
        Stand::Missing(_) => (
            ClusterState::Dispatching,
            "its bundle is not there: it is asked for a report".to_owned(),
        ),
        Stand::Due(_) => (
            ClusterState::Dispatching,
            "the removal is not written yet".to_owned(),
        ),
        Stand::Going(bundle) => removal_report(bundle).unwrap_or_else(unknown),
        Stand::Gone => (ClusterState::Ready, String::new()),
    });
    let nothing = || (ClusterState::Dispatching, String::new());
    let (mut state, mut message) = worst(each).unwrap_or_else(nothing);
    if let Some(why) = away
        && !matches!(state, ClusterState::Dispatching | ClusterState::Ready)
    {
        state = ClusterState::Unreachable;
        why.clone_into(&mut message);
    }
    ClusterEvidence {
        cluster: cluster.to_owned(),
        state,
        message,
    }
}

/// A Bundle that carries nothing but the question whether the object is gone.
fn asked(taking: &Taking<'_>, step: &str, cluster: &str, deletion: &Deletion) -> Wanted {
    let application = taking.application;
    let part = Part {
        hash: hash::of_manifests(&[]),
        manifests: Vec::new(),
    };
    Wanted {
        namespace: cluster_namespace(cluster),
        name: step_bundle_name(&application.namespace, &application.name, step),
        step: step.to_owned(),
        steps: None,
        part: 0,
        spec: BundleSpec {
            application_ref: Some(application.clone()),
            revision: Some(taking.revision.to_owned()),
            hash: Some(part.hash.clone()),
            epoch: Some(taking.epoch),
            deletion: Some(deletion.clone()),
            ..BundleSpec::default()
        },
        divided: Arc::new(Divided { parts: vec![part] }),
        todo: Todo::Create,
    }
}

#[cfg(test)]
mod tests;
