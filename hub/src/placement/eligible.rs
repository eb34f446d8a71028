//! Which clusters a step may use, and why the others are not chosen.
//!
//! Architecture invariant: losing contact with a cluster, or cordoning it, never takes a replica away; it only stops
//! additional ones. Only a `NoExecute` taint that is not tolerated evicts.

use super::{
    ClusterFacts, PlacingStep, Request,
    fleet::Fleet,
    history::{History, Holders},
    labels::ClusterSet,
    spread::{Candidate, Choice, choose},
    tolerance::{Tolerated, tolerated},
    weights::{Weights, Wording, weights},
};
use jiff::Timestamp;
use roundhouse_api::{
    cluster::TAINT_UNREACHABLE,
    decision::{Exclusion, FrozenWeights},
    placement::{Rebalance, Taint, TaintEffect, Toleration},
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
    /// `maxClusters` has room, but choosing it would exceed the skew of `spread`.
    Skewed,
    /// It lacks the label that `spread` goes by.
    NoTopologyLabel,
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
            NotChosen::Skewed => "Skewed",
            NotChosen::NoTopologyLabel => "NoTopologyLabel",
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

/// Whether a cluster may be used under these tolerations at this moment; `holds` says whether it holds something of the
/// application.
pub fn eligibility(
    cluster: &ClusterFacts,
    tolerations: &[Toleration],
    holds: bool,
    now: Timestamp,
) -> Eligibility {
    if !cluster.accepted {
        return Eligibility::Barred(NotChosen::NotAccepted);
    }
    if !cluster.joined {
        return Eligibility::Barred(NotChosen::NotJoined);
    }
    // The hub's own taint says what `reachable` says, and nothing tolerates being out of reach.
    let is_contact = |taint: &Taint| {
        !cluster.reachable && taint.key == TAINT_UNREACHABLE && taint.effect == TaintEffect::NoSchedule
    };
    let strongest = cluster
        .taints
        .iter()
        .filter(|taint| !is_contact(taint))
        .filter(|taint| tolerated(taint, tolerations, now) == Tolerated::No)
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

/// Whether nothing keeps a cluster from having replicas: it may be cordoned or out of reach.
fn is_there(cluster: &ClusterFacts, tolerations: &[Toleration], now: Timestamp) -> bool {
    !matches!(
        eligibility(cluster, tolerations, true, now),
        Eligibility::Barred(_)
    )
}

/// The clusters of one step.
#[derive(Debug)]
pub(super) struct Selection {
    /// What each rule may use, in the order of the rules.
    pub(super) rules: Vec<RuleClusters>,
    /// Clusters that keep what they have and get nothing more.
    pub(super) no_additional: ClusterSet,
    /// Clusters that hold something which belongs to this step.
    pub(super) holders: ClusterSet,
    /// Clusters not chosen, by reason.
    pub(super) excluded: BTreeMap<NotChosen, u32>,
    /// Why each cluster is not chosen; `None` for those that are.
    pub(super) verdicts: Vec<Option<NotChosen>>,
    /// The usable clusters as `maxClusters` takes them, best first; empty without a limit.
    pub(super) order: Vec<usize>,
    /// What each rule matches by selector and names, in the order of the rules.
    pub(super) matched: Vec<ClusterSet>,
    /// What `maxClusters` and `spread` chose, if there are such.
    pub(super) choice: Option<Choice>,
}

/// The clusters of one rule.
#[derive(Debug)]
pub(super) struct RuleClusters {
    /// Those that it may use, ascending.
    pub(super) clusters: Vec<usize>,
    /// Their weights.
    pub(super) weights: Vec<u64>,
    /// Those of them whose weight cannot be read, with what is there instead.
    pub(super) unread: Vec<(usize, Option<String>)>,
    /// Weights to be remembered.
    pub(super) frozen: Option<FrozenWeights>,
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
}

/// The clusters that a step matches by selector and names.
#[derive(Debug)]
struct Matched {
    rules: Vec<ClusterSet>,
    any: ClusterSet,
}

impl Matched {
    fn new(step: &PlacingStep<'_>, fleet: &Fleet<'_>) -> Self {
        let rules: Vec<ClusterSet> = step
            .spec
            .placement
            .iter()
            .map(|rule| fleet.matched(rule))
            .collect();
        let mut any = ClusterSet::none(fleet.len());
        rules.iter().for_each(|set| any.extend(set));
        Matched { rules, any }
    }
}

/// Selects the clusters of every step.
pub(super) fn select(request: &Request<'_>, history: &History<'_>, fleet: &Fleet<'_>) -> Vec<Selection> {
    let matched: Vec<Matched> = request
        .steps
        .iter()
        .map(|step| Matched::new(step, fleet))
        .collect();
    let holders = Holders::new(history, fleet);
    let matched_by = |name: &str| {
        let steps = request.steps.iter().zip(&matched);
        let mut named = steps.filter(|(step, _)| step.name == name);
        named.next().map(|(_, matched)| &matched.any)
    };
    let held: Vec<ClusterSet> = request
        .steps
        .iter()
        .map(|step| holders.of(step.name, fleet, matched_by))
        .collect();
    let steps = request.steps.iter().zip(matched).zip(held);
    steps
        .map(|((step, matched), holders)| select_step(request, step, history, fleet, matched, holders))
        .collect()
}

fn select_step(
    request: &Request<'_>,
    step: &PlacingStep<'_>,
    history: &History<'_>,
    fleet: &Fleet<'_>,
    matched: Matched,
    holders: ClusterSet,
) -> Selection {
    let Matched { rules: matched, any } = matched;
    let mut verdicts = vec![Some(NotChosen::NotMatched); fleet.len()];
    let mut no_additional = ClusterSet::none(fleet.len());
    let before = match step.spec.max_clusters {
        Some(_) => history.chosen(step.name, fleet),
        None => Vec::new(),
    };
    let was_chosen = |cluster: usize| before.get(cluster).copied().flatten().is_some();
    let clusters = fleet.clusters.iter().zip(&mut verdicts).enumerate();
    for (cluster, (facts, verdict)) in clusters.filter(|(cluster, _)| any.contains(*cluster)) {
        // A place among the chosen is held as replicas are: given up for a lost contact, it would move what others have.
        let holds = holders.contains(cluster) || was_chosen(cluster);
        *verdict = match eligibility(facts, &step.spec.tolerations, holds, request.now) {
            Eligibility::Barred(reason) => Some(reason),
            Eligibility::Open => None,
            Eligibility::NoAdditional => {
                no_additional.insert(cluster);
                None
            }
        };
    }
    let wording = Wording::of(step.spec);
    let rules = step.spec.placement.iter().zip(&matched).enumerate();
    let weighed: Vec<(Vec<usize>, Weights)> = rules
        .map(|(index, (rule, set))| {
            let clusters = set.list();
            let name = rule.name_or_index(index);
            let weights = weights(request, step, &wording, (&name, rule), &clusters, fleet);
            (clusters, weights)
        })
        .collect();
    let mut order = Vec::new();
    let choice = step.spec.max_clusters.map(|limit| {
        let candidates = preferred(step, &before, fleet, &weighed, &verdicts);
        order.extend(candidates.iter().map(|candidate| candidate.cluster));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let counts = |cluster: usize| {
            let facts = fleet.clusters.get(cluster).filter(|_| any.contains(cluster));
            facts.is_some_and(|facts| is_there(facts, &step.spec.tolerations, request.now))
        };
        choose(&candidates, limit, step.spec.spread.as_ref(), fleet, counts)
    });
    if let Some(choice) = &choice {
        let lists = [
            (&choice.beyond_limit, NotChosen::MaxClusters),
            (&choice.skewed, NotChosen::Skewed),
            (&choice.unlabelled, NotChosen::NoTopologyLabel),
        ];
        for (cluster, reason) in lists
            .into_iter()
            .flat_map(|(list, reason)| list.iter().map(move |c| (*c, reason)))
        {
            let (Some(facts), Some(verdict)) = (fleet.clusters.get(cluster), verdicts.get_mut(cluster))
            else {
                continue;
            };
            // A cluster in trouble that is not kept is out for its trouble.
            *verdict = match eligibility(facts, &step.spec.tolerations, false, request.now) {
                Eligibility::Barred(reason) => Some(reason),
                Eligibility::Open | Eligibility::NoAdditional => Some(reason),
            };
        }
    }
    let mut excluded = BTreeMap::new();
    for reason in verdicts.iter().flatten() {
        *excluded.entry(*reason).or_insert(0) += 1;
    }
    let rules = weighed
        .into_iter()
        .map(|(clusters, weights)| RuleClusters::of(&clusters, weights, &verdicts))
        .collect();
    Selection {
        rules,
        no_additional,
        holders,
        excluded,
        verdicts,
        order,
        matched,
        choice,
    }
}

impl RuleClusters {
    fn of(matched: &[usize], weights: Weights, verdicts: &[Option<NotChosen>]) -> Self {
        let mut rule = RuleClusters {
            clusters: Vec::with_capacity(matched.len()),
            weights: Vec::with_capacity(matched.len()),
            unread: weights.unread,
            frozen: weights.frozen,
            barred: BTreeMap::new(),
        };
        let verdict = |cluster: usize| verdicts.get(cluster).copied().flatten();
        for (cluster, weight) in matched.iter().zip(weights.of) {
            match verdict(*cluster) {
                Some(reason) => *rule.barred.entry(reason).or_insert(0) += 1,
                None => {
                    rule.clusters.push(*cluster);
                    rule.weights.push(weight);
                }
            }
        }
        rule.unread.retain(|(cluster, _)| verdict(*cluster).is_none());
        rule
    }
}

/// The usable clusters as `maxClusters` takes them: by weight (the largest that a rule gives), then previous replicas,
/// then whether they were chosen before, then the stable hash. Under `rebalance: Never` what was chosen before comes
/// first. `before` is [`History::chosen`].
fn preferred(
    step: &PlacingStep<'_>,
    before: &[Option<u64>],
    fleet: &Fleet<'_>,
    weighed: &[(Vec<usize>, Weights)],
    verdicts: &[Option<NotChosen>],
) -> Vec<Candidate> {
    let mut largest = vec![0u64; fleet.len()];
    for (cluster, weight) in weighed
        .iter()
        .flat_map(|(clusters, weights)| clusters.iter().zip(&weights.of))
    {
        if let Some(largest) = largest.get_mut(*cluster) {
            *largest = (*largest).max(*weight);
        }
    }
    let never = step.spec.rebalance == Rebalance::Never;
    let ranks = largest.into_iter().zip(before).zip(verdicts).enumerate();
    let mut order: Vec<_> = ranks
        .filter(|(_, (_, verdict))| verdict.is_none())
        .map(|(cluster, ((weight, before), _))| {
            let kept = never && before.is_some();
            (
                Reverse(kept),
                Reverse(weight),
                Reverse(*before),
                fleet.hash(cluster),
                cluster,
            )
        })
        .collect();
    order.sort_unstable();
    order
        .into_iter()
        .map(|(kept, .., cluster)| Candidate {
            cluster,
            kept: kept.0,
        })
        .collect()
}
