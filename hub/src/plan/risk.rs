//! "Is it safe?": what a plan touches, restarts and removes, and what of that is worth a second look.

use super::{
    Action, AtOnce, BundlePlan,
    at_once::at_once,
    cluster::{Comparison, ObjectChange},
};
use crate::{application::Foreseen, placement::ClusterFacts, words};
use roundhouse_api::names::label;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How dangerous a plan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No cluster changes.
    #[default]
    None,
    /// Nothing that runs is restarted or removed.
    Low,
    /// Something that runs is restarted or removed.
    Medium,
    /// A whole region at once, a cluster that loses the application, or most of the replicas.
    High,
    /// A step is not carried out: its overrides are wrong.
    Blocked,
}

impl Level {
    /// `none`, `low`, `medium`, `high`, `blocked`.
    pub fn word(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
            Level::Blocked => "blocked",
        }
    }
}

/// What a plan touches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Risk {
    /// How dangerous it is.
    pub level: Level,
    /// Why: one line each.
    pub reasons: Vec<String>,
    /// Clusters that are touched.
    pub clusters: usize,
    /// Region → clusters of it that are touched, and clusters of it in the fleet.
    pub regions: BTreeMap<String, (usize, usize)>,
    /// How many clusters are under way at the same time at most. `None` if none is touched by a step.
    pub at_once: Option<AtOnce>,
    /// Pods that are replaced where they run.
    pub restarted: u64,
    /// Pods that are new.
    pub started: u64,
    /// Pods that go.
    pub stopped: u64,
    /// Clusters that lose the application.
    pub losing: Vec<String>,
    /// Divided replicas that find no place.
    pub unplaced: u64,
}

/// Judges a plan.
pub fn judge(
    bundles: &[BundlePlan],
    compared: &BTreeMap<String, Comparison>,
    foreseen: &Foreseen,
    fleet: &[Arc<ClusterFacts>],
) -> Risk {
    let mut risk = Risk::default();
    let region_of = |cluster: &str| {
        let at = fleet
            .binary_search_by(|facts| facts.name.as_str().cmp(cluster))
            .ok();
        let facts = at.and_then(|at| fleet.get(at));
        facts
            .and_then(|facts| facts.labels.get(label::REGION))
            .cloned()
            .unwrap_or_default()
    };
    let changing = || bundles.iter().filter(|bundle| bundle.action != Action::Keep);
    let touched: BTreeSet<&str> = changing().map(|bundle| bundle.cluster.as_str()).collect();
    risk.clusters = touched.len();
    for facts in fleet {
        risk.regions
            .entry(facts.labels.get(label::REGION).cloned().unwrap_or_default())
            .or_default()
            .1 += 1;
    }
    let mut steps: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cluster in &touched {
        risk.regions.entry(region_of(cluster)).or_default().0 += 1;
    }
    for bundle in changing().filter(|bundle| !bundle.step.is_empty()) {
        steps.entry(&bundle.step).or_default().insert(&bundle.cluster);
    }
    // A Bundle is of the last step that places there; those before it write it, too.
    let written: BTreeSet<&str> = changing()
        .filter(|bundle| !bundle.is_of_step() && bundle.action != Action::Destroy)
        .map(|bundle| bundle.cluster.as_str())
        .collect();
    for decision in &foreseen.decisions {
        let clusters = decision.spec.clusters.iter().map(String::as_str);
        let own: BTreeSet<&str> = clusters.filter(|cluster| written.contains(cluster)).collect();
        if !own.is_empty() {
            steps.entry(&decision.spec.step).or_default().extend(own);
        }
    }
    risk.at_once = at_once(&foreseen.valid, &steps);
    // Of these clusters only.
    let most_of = |clusters: &BTreeSet<&str>| {
        let steps = steps
            .iter()
            .map(|(step, own)| (*step, own.intersection(clusters).copied().collect()));
        at_once(&foreseen.valid, &steps.collect()).map_or(0, |most| most.clusters)
    };
    // Who keeps no more than the object of a step has lost the application.
    let of_components = || bundles.iter().filter(|bundle| !bundle.is_of_step());
    let stays: BTreeSet<&str> = of_components()
        .filter(|bundle| bundle.action != Action::Destroy)
        .map(|bundle| bundle.cluster.as_str())
        .collect();
    let losing: BTreeSet<&str> = of_components()
        .filter(|bundle| bundle.action == Action::Destroy)
        .map(|bundle| bundle.cluster.as_str())
        .filter(|cluster| !stays.contains(cluster))
        .collect();
    risk.losing = losing.into_iter().map(str::to_owned).collect();
    let stored = foreseen
        .decisions
        .iter()
        .filter_map(|decision| decision.stored.as_ref());
    let running = stored.map(|stored| stored.spec.placed).sum();
    let mut restarting: BTreeSet<&str> = BTreeSet::new();
    for (cluster, comparison) in compared {
        for change in comparison.iter() {
            let (before, after) = change.replicas.unwrap_or_default();
            risk.started += u64::from(after.saturating_sub(before));
            risk.stopped += u64::from(before.saturating_sub(after));
            if change.restarts() {
                restarting.insert(cluster);
                risk.restarted += u64::from(before.min(after));
            }
        }
    }
    risk.unplaced = foreseen
        .decisions
        .iter()
        .map(|decision| decision.spec.unplaced)
        .sum();
    weigh(&mut risk, running, &restarting, &region_of, &most_of, compared);
    for decision in &foreseen.decisions {
        if !decision.spec.override_errors.is_empty() {
            risk.level = Level::Blocked;
            let step = &decision.spec.step;
            risk.reasons
                .push(format!("step {step} is stopped by its overrides"));
        }
    }
    risk
}

fn number(count: usize) -> String {
    words::thousands(u64::try_from(count).unwrap_or(u64::MAX))
}

fn weigh(
    risk: &mut Risk,
    running: u64,
    restarting: &BTreeSet<&str>,
    region_of: &dyn Fn(&str) -> String,
    most_of: &dyn Fn(&BTreeSet<&str>) -> usize,
    compared: &BTreeMap<String, Comparison>,
) {
    let mut raise = |level: Level, reason: String| {
        risk.level = risk.level.max(level);
        risk.reasons.push(reason);
    };
    if risk.clusters == 0 {
        return;
    }
    raise(Level::Low, String::new());
    let mut hit: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for cluster in restarting {
        hit.entry(region_of(cluster)).or_default().insert(cluster);
    }
    for (region, clusters) in hit {
        let (count, most) = (clusters.len(), most_of(&clusters));
        let all = risk.regions.get(&region).map_or(0, |(_, all)| *all);
        let name = if region.is_empty() {
            "clusters without a region".to_owned()
        } else {
            format!("region {region}")
        };
        match count == all && all > 1 {
            true if most < all => raise(
                Level::Medium,
                format!(
                    "restarts pods on every cluster of {name} ({}), at most {} at a time",
                    number(all),
                    number(most)
                ),
            ),
            true => raise(
                Level::High,
                format!("restarts pods on every cluster of {name} ({})", number(all)),
            ),
            false => raise(
                Level::Medium,
                format!(
                    "restarts pods on {} of {} clusters of {name}",
                    number(count),
                    number(all)
                ),
            ),
        }
    }
    let lost = risk.losing.len();
    if lost > 0 {
        let clusters = if lost == 1 {
            "1 cluster loses".to_owned()
        } else {
            format!("{} clusters lose", number(lost))
        };
        raise(Level::High, format!("{clusters} the application"));
    }
    let stopped = risk.stopped;
    if stopped > 0 {
        let level = if stopped * 2 >= running {
            Level::High
        } else {
            Level::Medium
        };
        raise(level, format!("stops {}", words::count(stopped, "pod", "pods")));
    }
    let removed = |change: &&ObjectChange| change.action == Action::Destroy && change.replicas.is_none();
    let objects = compared
        .values()
        .flat_map(|comparison| comparison.iter())
        .filter(removed)
        .count();
    if objects > 0 {
        raise(
            Level::Medium,
            format!("removes {}", words::counted(objects, "object")),
        );
    }
    risk.reasons.retain(|reason| !reason.is_empty());
}
