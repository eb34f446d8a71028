//! The smallest changes that flip a cluster, found by asking placement again with each of them applied.

use super::{
    Change, Reason, Setting,
    candidates::{Candidate, Range, Subject, to_exclude, to_include},
    conditions::reason,
    running::running,
};
use crate::placement::{NotChosen, Standing, StepDecision};
use std::collections::{BTreeMap, VecDeque};

/// Placement is asked at most this often.
const MAX_QUESTIONS: usize = 600;
/// At most this many changes together.
const MAX_CHANGES: usize = 6;

/// Chosen, and without a replica: behind it there is only being placed.
const LAST_STAGE: u8 = 6;

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// The cluster gets a replica of the step (with nothing to divide: the objects).
    Include,
    /// It gets none.
    Exclude,
}

/// Changes that do flip it: placement was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Flip {
    /// All of them are needed.
    pub changes: Vec<Change>,
    /// What they do.
    pub consequence: Consequence,
}

/// What changes do to what runs once every step is carried out, over all workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consequence {
    /// Replicas more on the cluster itself.
    pub here: i64,
    /// Replicas more, or fewer, on others; the largest moves first.
    pub others: Vec<Moved>,
    /// Divided replicas more without a place.
    pub unplaced: i64,
    /// Clusters that get objects now and would not any more, sorted.
    pub leaving: Vec<String>,
}

/// What moves on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The cluster.
    pub cluster: String,
    /// Replicas more, or fewer.
    pub delta: i64,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// Flips, the smallest first: by how many changes they need, what they move on other clusters, how far they reach,
    /// and by how much.
    pub flips: Vec<Flip>,
    /// Whether every candidate was tried.
    pub complete: bool,
}

/// Looks for the smallest changes that flip a cluster in a step. `None` if there is no such cluster or step.
pub fn search(setting: &Setting, cluster: &str, step: usize, aim: Aim) -> Option<Search> {
    setting.cluster(cluster)?;
    setting.steps.get(step)?;
    let before = setting.place();
    let mut trial = Trial {
        base: setting,
        scratch: setting.clone(),
        cluster,
        questions: 0,
    };
    let goal = Goal { cluster, step, aim };
    let mut found: Vec<Vec<Change>> = Vec::new();
    let mut complete = true;
    let mut open = VecDeque::from([Vec::new()]);
    while let Some(changes) = open.pop_front() {
        let least = found.iter().map(Vec::len).min().unwrap_or(MAX_CHANGES);
        if changes.len() >= least {
            // Behind a flip there are only larger ones; behind the limit nobody looked.
            complete &= !found.is_empty();
            continue;
        }
        if trial.questions >= MAX_QUESTIONS {
            complete = false;
            break;
        }
        let decisions = trial.ask(&changes);
        let Some(now) = goal.stage(&trial.scratch, &decisions) else {
            continue;
        };
        let Some(facts) = trial.scratch.cluster(cluster) else {
            continue;
        };
        let subject = Subject {
            setting: &trial.scratch,
            facts,
            step,
        };
        let offer = match aim {
            Aim::Include => to_include(&subject, now.reason, &now.standing),
            Aim::Exclude => to_exclude(&subject).into(),
        };
        complete &= !offer.cut;
        for candidate in offer.all {
            let Some((all, flips)) = goal.realise(&mut trial, &changes, &now, candidate) else {
                continue;
            };
            match flips {
                true => found.push(all),
                false if aim == Aim::Include => open.push_back(all),
                false => {}
            }
        }
    }
    let mut flips: Vec<Flip> = found
        .into_iter()
        .filter_map(|changes| {
            let after = trial.ask(&changes);
            // What is named was seen to flip it.
            goal.is_met(&after).then(|| Flip {
                consequence: consequence(&before, &after, cluster),
                changes,
            })
        })
        .collect();
    flips.sort_by_cached_key(|flip| size(flip, setting));
    flips.dedup_by(|a, b| a.changes == b.changes);
    Some(Search { flips, complete })
}

/// How large a change is.
fn size(flip: &Flip, setting: &Setting) -> (usize, u64, u8, u64, String) {
    let moved = flip
        .consequence
        .others
        .iter()
        .map(|moved| moved.delta.unsigned_abs())
        .sum();
    let reach = flip.changes.iter().map(Change::reach).max().unwrap_or(0);
    let amount = flip.changes.iter().map(|change| amount(change, setting)).sum();
    (
        flip.changes.len(),
        moved,
        reach,
        amount,
        format!("{:?}", flip.changes),
    )
}

fn amount(change: &Change, setting: &Setting) -> u64 {
    match change {
        Change::Weight { weight, .. } => u64::from(*weight),
        Change::MaxClusters { clusters, .. } => u64::from(*clusters),
        Change::MaxSkew { skew, .. } => u64::from(*skew),
        Change::Max { max, .. } => u64::from(*max),
        Change::Capacity(capacity) => u64::from(*capacity),
        Change::Replicas { workload, replicas } => {
            u64::from(replicas.saturating_sub(setting.replicas(workload)))
        }
        _ => 0,
    }
}

/// Where the cluster stands on its way in.
struct Stage {
    reason: Reason,
    standing: Standing,
    /// Grows on the way.
    progress: (u8, usize),
}

struct Goal<'a> {
    cluster: &'a str,
    step: usize,
    aim: Aim,
}

impl Goal<'_> {
    /// Whether these decisions are what is wanted.
    fn is_met(&self, decisions: &[StepDecision]) -> bool {
        let Some(decision) = decisions.get(self.step) else {
            return false;
        };
        let placed = match decision.workloads.is_empty() {
            true => decision
                .clusters
                .binary_search_by(|name| name.as_str().cmp(self.cluster))
                .is_ok(),
            false => super::conditions::shares(decision, self.cluster)
                .iter()
                .any(|share| share.replicas > 0),
        };
        placed == (self.aim == Aim::Include)
    }

    fn stage(&self, setting: &Setting, decisions: &[StepDecision]) -> Option<Stage> {
        let (reason, standing) = reason(setting, decisions, self.cluster, self.step)?;
        let facts = setting.cluster(self.cluster)?;
        let tolerations = setting.steps.get(self.step)?.spec.tolerations.len();
        let stage = match reason {
            Reason::NotChosen(NotChosen::NotMatched) => 0,
            Reason::NotChosen(NotChosen::NotAccepted) => 1,
            Reason::NotChosen(NotChosen::NotJoined) => 2,
            Reason::NotChosen(NotChosen::Tainted) => 3,
            Reason::NotChosen(NotChosen::Unreachable) => 4,
            Reason::NotChosen(NotChosen::MaxClusters | NotChosen::Skewed | NotChosen::NoTopologyLabel) => 5,
            Reason::ZeroShare(_) => LAST_STAGE,
            Reason::Placed | Reason::Member => 7,
        };
        Some(Stage {
            reason,
            standing,
            // Every taint that goes, or is tolerated, is progress too, and so is being back in reach.
            progress: (
                stage,
                (tolerations + 1) * 1000 + usize::from(facts.reachable) - facts.taints.len().min(999),
            ),
        })
    }

    /// The changes with the candidate's, and whether they flip it; `None` if they bring it no further.
    fn realise(
        &self,
        trial: &mut Trial<'_>,
        changes: &[Change],
        now: &Stage,
        candidate: Candidate,
    ) -> Option<(Vec<Change>, bool)> {
        let with = |more: &[Change]| changes.iter().chain(more).cloned().collect::<Vec<_>>();
        match candidate {
            Candidate::Fixed(more) => {
                let all = with(&more);
                let decisions = trial.ask(&all);
                if self.is_met(&decisions) {
                    return Some((all, true));
                }
                let after = self.stage(&trial.scratch, &decisions)?;
                (after.progress > now.progress).then_some((all, false))
            }
            Candidate::Least(ranges) => {
                let flips = |range: &Range| {
                    let value = least(range.from, range.to, |value| {
                        let decisions = trial.ask(&with(&[(range.change)(value)]));
                        self.is_met(&decisions)
                    })?;
                    Some(with(&[(range.change)(value)]))
                };
                if let Some(all) = ranges.iter().find_map(flips) {
                    return Some((all, true));
                }
                if now.progress.0 >= LAST_STAGE {
                    return None;
                }
                let helps = |range: &Range| {
                    let value = least(range.from, range.to, |value| {
                        let decisions = trial.ask(&with(&[(range.change)(value)]));
                        let after = self.stage(&trial.scratch, &decisions);
                        after.is_some_and(|after| after.progress.0 > now.progress.0)
                    })?;
                    Some(with(&[(range.change)(value)]))
                };
                Some((ranges.iter().find_map(helps)?, false))
            }
        }
    }
}

/// The least number of a range that will do, if what will do is a tail of it: leaps first, then halves.
fn least(from: u32, to: u32, mut does: impl FnMut(u32) -> bool) -> Option<u32> {
    // Most of what will not do at all is known after one question.
    if from > to || !does(to) {
        return None;
    }
    let (mut low, mut leap, mut high) = (from, 1_u32, from);
    while high < to && !does(high) {
        low = high + 1;
        high = high.saturating_add(leap).min(to);
        leap = leap.saturating_mul(2);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match does(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(high)
}

/// A setting that changes are tried on.
struct Trial<'a> {
    base: &'a Setting,
    scratch: Setting,
    cluster: &'a str,
    questions: usize,
}

impl Trial<'_> {
    /// What placement answers with these changes, and nothing else, applied.
    fn ask(&mut self, changes: &[Change]) -> Vec<StepDecision> {
        self.questions += 1;
        // Only these are ever changed.
        self.scratch.steps.clone_from(&self.base.steps);
        self.scratch.workloads.clone_from(&self.base.workloads);
        self.scratch.previous.fixed.clone_from(&self.base.previous.fixed);
        if let Some(facts) = self.base.inventory.get(self.cluster) {
            self.scratch.inventory.put(facts.clone());
        }
        for change in changes {
            change.apply(&mut self.scratch, self.cluster);
        }
        self.scratch.place()
    }
}

/// What differs between two answers.
fn consequence(before: &[StepDecision], after: &[StepDecision], cluster: &str) -> Consequence {
    let mut moved: BTreeMap<String, i64> = BTreeMap::new();
    let mut unplaced = 0;
    for (decisions, sign) in [(before, -1), (after, 1)] {
        for (cluster, replicas) in running(decisions) {
            *moved.entry(cluster).or_default() += sign * i64::try_from(replicas).unwrap_or(i64::MAX);
        }
        for workload in decisions.iter().flat_map(|decision| &decision.workloads) {
            unplaced += workload
                .unplaced
                .iter()
                .map(|u| sign * i64::from(u.count))
                .sum::<i64>();
        }
    }
    let here = moved.remove(cluster).unwrap_or(0);
    let mut others: Vec<Moved> = moved
        .into_iter()
        .filter(|(_, delta)| *delta != 0)
        .map(|(cluster, delta)| Moved { cluster, delta })
        .collect();
    others.sort_by(|a, b| {
        b.delta
            .unsigned_abs()
            .cmp(&a.delta.unsigned_abs())
            .then(a.cluster.cmp(&b.cluster))
    });
    let members = |decisions: &[StepDecision]| -> std::collections::BTreeSet<String> {
        decisions
            .iter()
            .flat_map(|decision| decision.clusters.iter().map(ToString::to_string))
            .collect()
    };
    Consequence {
        here,
        others,
        unplaced,
        leaving: members(before).difference(&members(after)).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_found_with_few_questions() {
        for from in 0..5 {
            for to in from..200 {
                for first in from..=to {
                    let mut asked = 0;
                    let found = least(from, to, |value| {
                        asked += 1;
                        value >= first
                    });
                    assert_eq!(found, Some(first));
                    assert!(asked <= 2 * (200_u32.ilog2() as usize + 2), "{asked}");
                }
                assert_eq!(least(from, to, |_| false), None);
            }
        }
        assert_eq!(least(3, 2, |_| true), None);
    }
}
