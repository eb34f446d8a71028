//! How many clusters of a step are under way at a time (`maxParallel`).
//!
//! What is under way follows from the Bundles and their reports alone, so that a restart of the hub changes nothing. Who
//! waits is noted in the Decision, for when the step is not at work any more.

use super::{
    Observed, Plan, Target, Wanted,
    evidence::report,
    plan::{Todo, shrinks},
};
use crate::workflow::{ClusterEvidence, ClusterState};
use roundhouse_api::application::WaitFor;
use std::{collections::BTreeMap, sync::Arc};

/// A step at work that dispatches to few clusters at a time.
#[derive(Debug, Clone, Copy)]
pub struct Wave<'a> {
    /// Its clusters.
    pub clusters: &'a [String],
    /// So many are under way at a time.
    pub most: usize,
    /// A cluster is under way until this is reached.
    pub wait: WaitFor,
}

/// Holds back what is beyond the waves: those Bundles wait for their turn. `shown` is what each cluster shows of what is
/// wanted. A cluster that cannot be reached takes no place, and gets its Bundle at once: nobody knows when it comes back. One
/// that is under way keeps its place when something else is wanted of it, and gets that at once.
pub fn hold_back(
    plan: &mut Plan,
    waves: &[Wave<'_>],
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    shown: &BTreeMap<String, Result<ClusterEvidence, String>>,
    unreachable: impl Fn(&str) -> bool,
) {
    for wave in waves {
        let mut due = Vec::new();
        let mut under_way = 0;
        for cluster in wave.clusters {
            let Some(Target::Bundles(wanted)) = plan.targets.get(cluster) else {
                continue;
            };
            let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
            if wanted.iter().any(|wanted| wanted.todo.is_write()) {
                // What is written in part is finished first; then what gives replicas up, which others wait for.
                let whole = wanted.iter().all(|wanted| wanted.todo.is_write());
                let away = unreachable(cluster);
                // It has its place, and is not to keep it for what is no longer wanted.
                let has_place = !away && is_begun(wanted, held, wave.wait);
                under_way += usize::from(has_place);
                due.push((away || has_place, whole, !shrinks(wanted, held), cluster.as_str()));
            } else if is_under_way(shown.get(cluster), wave.wait) {
                under_way += 1;
            }
        }
        due.sort_unstable();
        let mut free = wave.most.saturating_sub(under_way);
        let mut late = Vec::new();
        for (goes, _, _, cluster) in due {
            match (goes, free) {
                (true, _) => {}
                (false, 0) => late.push(cluster),
                (false, _) => free -= 1,
            }
        }
        for cluster in late {
            if let Some(Target::Bundles(wanted)) = plan.targets.get_mut(cluster) {
                wanted.iter_mut().for_each(wait_for_turn);
            }
        }
    }
}

fn wait_for_turn(wanted: &mut Wanted) {
    if wanted.todo.is_write() {
        wanted.todo = Todo::AwaitTurn;
    }
}

/// Whether a cluster was given something of this revision and has not shown it, where other content is to follow: a label or
/// another cluster changed its share meanwhile.
fn is_begun(wanted: &[Wanted], held: &[Arc<Observed>], wait: WaitFor) -> bool {
    let given = |held: &&Arc<Observed>| {
        let same = |wanted: &Wanted| wanted.name == held.name && wanted.spec.revision == held.spec.revision;
        !held.deleting && held.spec.revision.is_some() && wanted.iter().any(same)
    };
    let mut given = held.iter().filter(given);
    given.any(|held| !report(held).0.passes(wait))
}

fn is_under_way(shown: Option<&Result<ClusterEvidence, String>>, wait: WaitFor) -> bool {
    match shown {
        Some(Ok(evidence)) => evidence.state != ClusterState::Unreachable && !evidence.state.passes(wait),
        Some(Err(_)) | None => false,
    }
}

#[cfg(test)]
mod tests;
