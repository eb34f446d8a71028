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
/// that is under way keeps its place when something else is wanted of it, and gets that before others get theirs; at once unless
/// all places are taken: then its own went to another one when it had shown what is waited for, and it does so no more.
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
            if wanted.iter().any(|wanted| wanted.todo.changes()) {
                // What is written in part is finished; then what gives replicas up comes first, which others wait for.
                let whole = wanted.iter().all(|wanted| wanted.todo.changes());
                let turn = match is_begun(wanted, held, wave.wait) {
                    _ if unreachable(cluster) => Turn::Beside,
                    true if whole => Turn::Own,
                    true => Turn::Half,
                    false => Turn::New,
                };
                under_way += usize::from(turn == Turn::Half);
                due.push((turn, whole, !shrinks(wanted, held), cluster.as_str()));
            } else if is_under_way(shown.get(cluster), wave.wait) {
                under_way += 1;
            }
        }
        due.sort_unstable();
        let mut free = wave.most.saturating_sub(under_way);
        let mut late = Vec::new();
        for (turn, _, _, cluster) in due {
            match (turn, free) {
                (Turn::Beside | Turn::Half, _) => {}
                (Turn::Own | Turn::New, 0) => late.push(cluster),
                (Turn::Own | Turn::New, _) => free -= 1,
            }
        }
        for cluster in late {
            if let Some(Target::Bundles(wanted)) = plan.targets.get_mut(cluster) {
                wanted.iter_mut().for_each(wait_for_turn);
            }
        }
    }
}

/// What place a cluster takes that is to be written, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// None.
    Beside,
    /// It has one, and a part of what it gets.
    Half,
    /// It has one, and is not to keep it for what is no longer wanted.
    Own,
    /// A free one.
    New,
}

fn wait_for_turn(wanted: &mut Wanted) {
    if wanted.todo.changes() {
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
