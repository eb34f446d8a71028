//! Which clusters a step may use, and why the others are not chosen.
//!
//! Architecture invariant: losing contact with a cluster, or cordoning it, never takes a replica away; it only stops
//! additional ones. Only a `NoExecute` taint that is not tolerated evicts.

use super::{ClusterFacts, PlacingStep, Request, fleet::Fleet, labels::ClusterSet};
use roundhouse_api::{
    decision::Exclusion,
    placement::{TaintEffect, Toleration},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// The one decisive reason for which a cluster is not chosen, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotChosen {
    /// No rule of the step selects it.
    NotMatched,
    /// No administrator has accepted it.
    NotAccepted,
    /// Its agent has never reported.
    NotJoined,
    /// It has a taint that the placement does not tolerate.
    Tainted,
    /// Its agent is out of reach and it holds nothing of this application yet.
    Unreachable,
    /// `maxClusters` others come first.
    MaxClusters,
}

impl NotChosen {
    /// As `Decision.excluded` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            NotChosen::NotMatched => "NotMatched",
            NotChosen::NotAccepted => "NotAccepted",
            NotChosen::NotJoined => "NotJoined",
            NotChosen::Tainted => "Tainted",
            NotChosen::Unreachable => "Unreachable",
            NotChosen::MaxClusters => "MaxClusters",
        }
    }
}

/// Whether a cluster that a rule matches may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// It may get replicas.
    Open,
    /// It keeps what it has and gets nothing more.
    NoAdditional,
    /// It may have none.
    Barred(NotChosen),
}

/// Whether a cluster may be used under these tolerations; `holds` says whether it holds something of the application.
///
/// A `NoExecute` taint that is tolerated for a time only counts as tolerated: the time is for the caller, who has a clock.
pub fn eligibility(cluster: &ClusterFacts, tolerations: &[Toleration], holds: bool) -> Eligibility {
    if !cluster.accepted {
        return Eligibility::Barred(NotChosen::NotAccepted);
    }
    if !cluster.joined {
        return Eligibility::Barred(NotChosen::NotJoined);
    }
    let strongest = cluster
        .taints
        .iter()
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        .map(|taint| taint.effect)
        .max();
    match (strongest, holds) {
        (Some(TaintEffect::NoExecute), _) | (Some(TaintEffect::NoSchedule), false) => {
            Eligibility::Barred(NotChosen::Tainted)
        }
        (Some(TaintEffect::NoSchedule), true) => Eligibility::NoAdditional,
        (None, _) if cluster.reachable => Eligibility::Open,
        (None, true) => Eligibility::NoAdditional,
        (None, false) => Eligibility::Barred(NotChosen::Unreachable),
    }
}

/// The clusters of one step.
#[derive(Debug)]
pub(super) struct Selection {
    /// What each rule may use, in the order of the rules.
    pub(super) rules: Vec<RuleClusters>,
    /// Clusters that keep what they have and get nothing more.
    pub(super) no_additional: ClusterSet,
    /// Clusters not chosen, by reason.
    pub(super) excluded: BTreeMap<NotChosen, u32>,
}

/// The clusters of one rule.
#[derive(Debug)]
pub(super) struct RuleClusters {
    /// Those that it may use, ascending.
    pub(super) clusters: Vec<usize>,
    /// Those that it matches but may not use, by reason.
    pub(super) barred: BTreeMap<NotChosen, u32>,
}

impl Selection {
    /// The exclusions as the decision lists them, sorted by reason.
    pub(super) fn exclusions(&self) -> Vec<Exclusion> {
        let mut list: Vec<Exclusion> = self
            .excluded
            .iter()
            .map(|(reason, count)| Exclusion {
                reason: reason.as_str().to_owned(),
                count: *count,
            })
            .collect();
        list.sort_by(|a, b| a.reason.cmp(&b.reason));
        list
    }

    /// The clusters that any rule may use.
    pub(super) fn chosen(&self, size: usize) -> ClusterSet {
        let clusters = self.rules.iter().flat_map(|rule| &rule.clusters);
        ClusterSet::of(size, clusters.copied())
    }
}

/// The clusters that hold something of the application; only asked for those that get nothing more.
pub(super) fn holders(request: &Request<'_>, fleet: &Fleet<'_>) -> ClusterSet {
    let restricted = |cluster: &&ClusterFacts| !cluster.reachable || !cluster.taints.is_empty();
    if !fleet.clusters.iter().any(restricted) {
        return ClusterSet::none(fleet.len());
    }
    let previous = request.previous;
    let counts = previous.assignments.values().flatten();
    let assigned = counts.filter(|(_, count)| **count > 0).map(|(name, _)| name);
    let names = assigned.chain(previous.members.values().flatten());
    ClusterSet::of(fleet.len(), names.filter_map(|name| fleet.find(name)))
}

/// Selects the clusters of one step.
pub(super) fn select(
    request: &Request<'_>,
    step: &PlacingStep<'_>,
    fleet: &Fleet<'_>,
    holders: &ClusterSet,
) -> Selection {
    let rules = &step.spec.placement;
    let matched: Vec<ClusterSet> = rules.iter().map(|rule| fleet.matched(rule)).collect();
    let mut verdicts = vec![Some(NotChosen::NotMatched); fleet.len()];
    let mut any = ClusterSet::none(fleet.len());
    matched.iter().for_each(|set| any.extend(set));
    let mut no_additional = ClusterSet::none(fleet.len());
    for (cluster, (facts, verdict)) in fleet.clusters.iter().zip(&mut verdicts).enumerate() {
        if !any.contains(cluster) {
            continue;
        }
        *verdict = match eligibility(facts, &step.spec.tolerations, holders.contains(cluster)) {
            Eligibility::Barred(reason) => Some(reason),
            Eligibility::Open => None,
            Eligibility::NoAdditional => {
                no_additional.insert(cluster);
                None
            }
        };
    }
    if let Some(limit) = step.spec.max_clusters {
        cut_to(limit, request, step, fleet, &matched, &mut verdicts);
    }
    let mut excluded = BTreeMap::new();
    for reason in verdicts.iter().flatten() {
        *excluded.entry(*reason).or_insert(0) += 1;
    }
    let rules = matched
        .iter()
        .map(|set| RuleClusters::of(set, &verdicts))
        .collect();
    Selection {
        rules,
        no_additional,
        excluded,
    }
}

impl RuleClusters {
    fn of(matched: &ClusterSet, verdicts: &[Option<NotChosen>]) -> Self {
        let mut clusters = Vec::new();
        let mut barred = BTreeMap::new();
        for cluster in matched.iter() {
            match verdicts.get(cluster).copied().flatten() {
                Some(reason) => *barred.entry(reason).or_insert(0) += 1,
                None => clusters.push(cluster),
            }
        }
        RuleClusters { clusters, barred }
    }
}

/// Keeps the first `limit` clusters by weight (the largest that a rule gives), then previous replicas, then whether
/// they were chosen before, then the stable hash.
fn cut_to(
    limit: u32,
    request: &Request<'_>,
    step: &PlacingStep<'_>,
    fleet: &Fleet<'_>,
    matched: &[ClusterSet],
    verdicts: &mut [Option<NotChosen>],
) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut weights = vec![0u32; fleet.len()];
    for (rule, set) in step.spec.placement.iter().zip(matched) {
        let clusters: Vec<usize> = set.iter().collect();
        for (cluster, weight) in clusters.iter().zip(fleet.look_up(&clusters, Some(&rule.weights))) {
            if let Some(largest) = weights.get_mut(*cluster) {
                *largest = (*largest).max(weight.copied().unwrap_or(1));
            }
        }
    }
    let mut previous: Vec<Option<u64>> = vec![None; fleet.len()];
    let earlier = request.previous.assignments.iter();
    for (name, count) in earlier
        .filter(|(key, _)| key.0 == step.name)
        .flat_map(|(_, map)| map)
    {
        if let Some(sum) = fleet.find(name).and_then(|cluster| previous.get_mut(cluster)) {
            *sum = Some(sum.unwrap_or(0) + u64::from(*count));
        }
    }
    let mut order: Vec<_> = verdicts
        .iter()
        .zip(weights)
        .zip(previous)
        .zip(&fleet.hashes)
        .enumerate()
        .filter(|(_, (((verdict, _), _), _))| verdict.is_none())
        .map(|(cluster, (((_, weight), previous), hash))| {
            (Reverse(weight), Reverse(previous), *hash, cluster)
        })
        .collect();
    order.sort_unstable();
    for (_, _, _, cluster) in order.into_iter().skip(limit) {
        if let Some(verdict) = verdicts.get_mut(cluster) {
            *verdict = Some(NotChosen::MaxClusters);
        }
    }
}
