//! What is asked of a cluster, in the order in which it is asked, and the one thing that decides.
//!
//! Architecture invariant: the reason is the placement's own ([`standing`](crate::placement::standing), and the rows of
//! the decision); here it is only found among the conditions.

use super::{Setting, change::is_the_hubs, words};
use crate::placement::{ClusterFacts, Eligibility, NotChosen, Standing, StepDecision, eligibility};
use jiff::Timestamp;
use roundhouse_api::{
    decision::WorkloadRef,
    placement::{PlacementSpec, Rule, Taint, TaintEffect},
};

/// Values of a topology that a condition names.
const GROUPS: usize = 5;

/// How a condition turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// What came before has decided.
    NotAsked,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How it turned out.
    pub mark: Mark,
    /// Whether it is the one reason.
    pub decisive: bool,
    /// What it is about: `clusters`, `clusterSelector`, `accepted`, `joined`, `taint`, `reachable`, `maxClusters`, `spread`,
    /// `capacity`, `share`, `overrides`.
    pub about: &'static str,
    /// The rule that asks; absent for what the step asks.
    pub rule: Option<String>,
    /// What is asked for.
    pub asks: String,
    /// What there is.
    pub found: String,
}

/// Why a cluster has what it has of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has replicas.
    Placed,
    /// There is nothing to divide, and it gets the objects.
    Member,
    /// The step does not choose it.
    NotChosen(NotChosen),
    /// The step chooses it, and its share is 0, for this reason: a bound of the decision's rows (`Capacity`, `Max`,
    /// `ZeroWeight`, `NoAdditional`), `NothingAsked` (the workload asks for no replica), `RuleGetsNothing` (the rule's
    /// total is 0), or `Arithmetic` (every seat went to a larger claim).
    ZeroShare(&'static str),
}

impl Reason {
    /// A word for programs.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Placed => "Placed",
            Reason::Member => "Member",
            Reason::NotChosen(reason) => reason.as_str(),
            Reason::ZeroShare(_) => "ZeroShare",
        }
    }

    /// Whether the cluster gets something.
    pub fn is_placed(self) -> bool {
        matches!(self, Reason::Placed | Reason::Member)
    }
}

/// What one rule gives the cluster of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The workload.
    pub workload: WorkloadRef,
    /// The rule.
    pub rule: String,
    /// Replicas.
    pub replicas: u32,
    /// What the rule divides.
    pub total: u32,
    /// Exact share as a reduced fraction; absent for duplicates.
    pub quota: Option<String>,
    /// The bound that held.
    pub bound: Option<String>,
    /// What settled a tie.
    pub tie: Option<String>,
}

/// How a cluster fares in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAnswer {
    /// Step name.
    pub step: String,
    /// The reason.
    pub reason: Reason,
    /// Every condition, in order.
    pub conditions: Vec<Condition>,
    /// What it gets, by workload and rule.
    pub shares: Vec<Share>,
}

impl StepAnswer {
    /// Replicas that it gets of the step, over all workloads and rules.
    pub fn replicas(&self) -> u64 {
        self.shares.iter().map(|share| u64::from(share.replicas)).sum()
    }
}

/// How a cluster fares in every step; `None` if the fleet has no such cluster. `decisions` is what placement answered.
pub fn conditions(setting: &Setting, decisions: &[StepDecision], cluster: &str) -> Option<Vec<StepAnswer>> {
    let facts = setting.cluster(cluster)?;
    let standings = setting.standing(cluster)?;
    let steps = setting.steps.iter().zip(standings).zip(decisions);
    let answers = steps.map(|((step, standing), decision)| {
        let asked = Asked {
            now: setting.now,
            facts,
            spec: &step.spec,
            standing,
            shares: shares(decision, cluster),
        };
        let reason = asked.reason(decision);
        StepAnswer {
            step: step.name.clone(),
            reason,
            conditions: asked.conditions(reason),
            shares: asked.shares,
        }
    });
    Some(answers.collect())
}

/// Why the cluster has what it has of one step: as [`conditions`] says, without the conditions.
pub(super) fn reason(
    setting: &Setting,
    decisions: &[StepDecision],
    cluster: &str,
    step: usize,
) -> Option<(Reason, Standing)> {
    let decision = decisions.get(step)?;
    let asked = Asked {
        now: setting.now,
        facts: setting.cluster(cluster)?,
        spec: &setting.steps.get(step)?.spec,
        standing: setting.standing(cluster)?.into_iter().nth(step)?,
        shares: shares(decision, cluster),
    };
    Some((asked.reason(decision), asked.standing))
}

/// The rows of a cluster.
pub(super) fn shares(decision: &StepDecision, cluster: &str) -> Vec<Share> {
    let mut shares = Vec::new();
    for workload in &decision.workloads {
        let from = workload
            .clusters
            .partition_point(|row| row.name.as_str() < cluster);
        let rows = workload.clusters.iter().skip(from);
        for row in rows.take_while(|row| row.name == cluster) {
            let total = workload
                .rules
                .iter()
                .find(|t| t.rule.as_deref() == Some(&row.rule));
            shares.push(Share {
                workload: workload.workload.clone(),
                rule: row.rule.clone(),
                replicas: row.replicas,
                total: total.map_or(0, |total| total.total),
                quota: row.quota.clone(),
                bound: row.bound.as_deref().map(str::to_owned),
                tie: row.tie.as_deref().map(str::to_owned),
            });
        }
    }
    shares
}

/// One requirement of a rule.
pub(super) struct Required {
    pub(super) about: &'static str,
    pub(super) asks: String,
    pub(super) found: String,
    pub(super) holds: bool,
}

/// What a rule requires of a cluster to match, in order.
pub(super) fn required(rule: &Rule, facts: &ClusterFacts) -> Vec<Required> {
    let mut all = Vec::new();
    if let Some(names) = &rule.clusters {
        let holds = names.contains(&facts.name);
        all.push(Required {
            about: "clusters",
            asks: listed(names),
            found: if holds { "listed" } else { "not listed" }.to_owned(),
            holds,
        });
    }
    if let Some(selector) = &rule.cluster_selector {
        for (key, value) in &selector.match_labels {
            all.push(Required {
                about: "clusterSelector",
                asks: format!("{key}={value}"),
                found: words::label(&facts.labels, key),
                holds: facts.labels.get(key) == Some(value),
            });
        }
        for requirement in &selector.match_expressions {
            all.push(Required {
                about: "clusterSelector",
                asks: words::requirement(requirement),
                found: words::label(&facts.labels, &requirement.key),
                holds: requirement.matches(&facts.labels),
            });
        }
    }
    if all.is_empty() {
        all.push(Required {
            about: "clusterSelector",
            asks: "every cluster".to_owned(),
            found: facts.name.clone(),
            holds: true,
        });
    }
    all
}

fn listed(names: &[String]) -> String {
    const NAMES: usize = 5;
    let mut text = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES {
        text.push_str(&format!(", … and {} more", names.len() - NAMES));
    }
    text
}

/// Whether a taint alone would not keep a cluster away, by placement's own rule.
pub(super) fn tolerates(spec: &PlacementSpec, taint: &Taint, now: Timestamp) -> bool {
    let facts = ClusterFacts {
        taints: vec![taint.clone()],
        joined: true,
        accepted: true,
        reachable: true,
        ..ClusterFacts::default()
    };
    eligibility(&facts, &spec.tolerations, false, now) == Eligibility::Open
}

/// All that is asked of one cluster in one step.
struct Asked<'a> {
    now: Timestamp,
    facts: &'a ClusterFacts,
    spec: &'a PlacementSpec,
    standing: Standing,
    shares: Vec<Share>,
}

impl Asked<'_> {
    fn reason(&self, decision: &StepDecision) -> Reason {
        if let Some(not_chosen) = self.standing.not_chosen {
            return Reason::NotChosen(not_chosen);
        }
        if decision.workloads.is_empty() {
            return Reason::Member;
        }
        if self.shares.iter().any(|share| share.replicas > 0) {
            return Reason::Placed;
        }
        let bound = |code: &str| {
            self.shares
                .iter()
                .any(|share| share.bound.as_deref() == Some(code))
        };
        let divides = self.shares.iter().any(|share| share.total > 0);
        Reason::ZeroShare(match () {
            () if decision.workloads.iter().all(|workload| workload.replicas == 0) => "NothingAsked",
            () if !divides => "RuleGetsNothing",
            () if bound("NoAdditional") => "NoAdditional",
            () if bound("Capacity") => "Capacity",
            () if bound("Max") => "Max",
            () if bound("ZeroWeight") => "ZeroWeight",
            () => "Arithmetic",
        })
    }

    fn conditions(&self, reason: Reason) -> Vec<Condition> {
        let mut list = Listing {
            conditions: Vec::new(),
            decided: false,
        };
        self.matching(&mut list, reason);
        self.membership(&mut list, reason);
        self.taints(&mut list, reason);
        self.order(&mut list, reason);
        self.spread(&mut list, reason);
        self.division(&mut list, reason);
        list.conditions
    }

    fn matching(&self, list: &mut Listing, reason: Reason) {
        let rules: Vec<Vec<Required>> = self
            .spec
            .placement
            .iter()
            .map(|rule| required(rule, self.facts))
            .collect();
        let failing = |rule: &Vec<Required>| rule.iter().filter(|r| !r.holds).count();
        let closest = rules.iter().map(failing).min();
        let mut open = reason == Reason::NotChosen(NotChosen::NotMatched);
        let mut decided = false;
        for (index, rule) in rules.into_iter().enumerate() {
            let name = self
                .spec
                .placement
                .get(index)
                .map(|rule| rule.name_or_index(index));
            let is_closest = Some(failing(&rule)) == closest;
            for required in rule {
                let decisive = open && is_closest && !required.holds;
                open &= !decisive;
                decided |= decisive;
                list.conditions.push(Condition {
                    mark: if required.holds { Mark::Holds } else { Mark::Fails },
                    decisive,
                    about: required.about,
                    rule: name.clone(),
                    asks: required.asks,
                    found: required.found,
                });
            }
        }
        if open {
            list.add(
                "clusterSelector",
                Some(false),
                true,
                "a rule",
                "the step has no rule",
            );
        }
        list.decided |= decided;
    }

    fn membership(&self, list: &mut Listing, reason: Reason) {
        let is = |of: NotChosen| reason == Reason::NotChosen(of);
        let facts = self.facts;
        let (accepted, joined) = (facts.accepted, facts.joined);
        let found = if accepted { "accepted" } else { "not accepted" };
        list.add(
            "accepted",
            Some(accepted),
            is(NotChosen::NotAccepted),
            "an administrator",
            found,
        );
        let found = if joined { "joined" } else { "no agent has reported" };
        list.add(
            "joined",
            Some(joined),
            is(NotChosen::NotJoined),
            "its agent's report",
            found,
        );
    }

    fn taints(&self, list: &mut Listing, reason: Reason) {
        let facts = self.facts;
        let tainted = reason == Reason::NotChosen(NotChosen::Tainted);
        let restricted = reason == Reason::ZeroShare("NoAdditional");
        let barring = facts
            .taints
            .iter()
            .filter(|taint| !self.is_contact(taint) && self.tolerating(taint).is_none())
            .max_by_key(|taint| taint.effect);
        let mut open = tainted || restricted;
        for taint in facts.taints.iter().filter(|taint| !self.is_contact(taint)) {
            let toleration = self.tolerating(taint);
            let decisive = open && barring == Some(taint);
            open &= !decisive;
            let found = match &toleration {
                Some(toleration) => format!("tolerated by {toleration}"),
                None if self.standing.holds && taint.effect == TaintEffect::NoSchedule => {
                    "no toleration: keeps what it has, gets nothing more".to_owned()
                }
                None => "no toleration".to_owned(),
            };
            list.add(
                "taint",
                Some(toleration.is_some()),
                decisive,
                &words::taint(taint),
                &found,
            );
        }
        if !facts.taints.iter().any(|taint| !self.is_contact(taint)) {
            list.add(
                "taint",
                Some(true),
                false,
                "no taint that is not tolerated",
                "no taints",
            );
        }
        let unreachable = reason == Reason::NotChosen(NotChosen::Unreachable);
        let found = match (facts.reachable, self.standing.holds) {
            (true, _) => "its Lease is fresh",
            (false, true) => "out of reach: keeps what it has, gets nothing more",
            (false, false) => "out of reach, and it holds nothing of the application yet",
        };
        let decisive = unreachable || restricted && open && !facts.reachable;
        list.add(
            "reachable",
            Some(facts.reachable),
            decisive,
            "its agent's heartbeat",
            found,
        );
    }

    /// The hub's own taint says what `reachable` says.
    fn is_contact(&self, taint: &Taint) -> bool {
        !self.facts.reachable && is_the_hubs(taint) && taint.key == roundhouse_api::cluster::TAINT_UNREACHABLE
    }

    fn tolerating(&self, taint: &Taint) -> Option<String> {
        if !tolerates(self.spec, taint, self.now) {
            return None;
        }
        let mut all = self.spec.tolerations.iter();
        all.find(|toleration| toleration.tolerates(taint))
            .map(words::toleration)
    }

    fn order(&self, list: &mut Listing, reason: Reason) {
        let decisive = reason == Reason::NotChosen(NotChosen::MaxClusters);
        let Some(limit) = self.spec.max_clusters else {
            list.add("maxClusters", Some(true), decisive, "no limit", "no limit");
            return;
        };
        let asks = format!("among the first {limit}");
        let Some(place) = &self.standing.place else {
            list.add(
                "maxClusters",
                Some(!decisive),
                decisive,
                &asks,
                "not in the order",
            );
            return;
        };
        let mut found = format!("place {} of {}", place.rank, place.of);
        if decisive && !place.ahead.is_empty() {
            found.push_str(&format!(", behind {}", place.ahead.join(", ")));
        }
        list.add("maxClusters", Some(!decisive), decisive, &asks, &found);
    }

    fn spread(&self, list: &mut Listing, reason: Reason) {
        let unlabelled = reason == Reason::NotChosen(NotChosen::NoTopologyLabel);
        let decisive = unlabelled || reason == Reason::NotChosen(NotChosen::Skewed);
        let Some(spread) = &self.spec.spread else { return };
        let asks = format!("a skew of {} of at most {}", spread.topology_key, spread.max_skew);
        let mut found = words::label(&self.facts.labels, &spread.topology_key);
        if !self.standing.groups.is_empty() {
            let chosen = self.standing.groups.iter().take(GROUPS);
            let chosen: Vec<String> = chosen
                .map(|(value, (chosen, _))| format!("{value} {chosen}"))
                .collect();
            found.push_str(&format!("; chosen: {}", chosen.join(", ")));
            if self.standing.groups.len() > GROUPS {
                found.push_str(&format!(
                    ", … and {} more values",
                    self.standing.groups.len() - GROUPS
                ));
            }
        }
        list.add("spread", Some(!decisive), decisive, &asks, &found);
    }

    fn division(&self, list: &mut Listing, reason: Reason) {
        let zero = match reason {
            Reason::ZeroShare(code) => Some(code),
            _ => None,
        };
        let found = match self.facts.capacity {
            Some(replicas) => words::count(replicas.into(), "replica", "replicas"),
            None => "not reported: no bound".to_owned(),
        };
        let full = zero == Some("Capacity");
        list.add("capacity", Some(!full), full, "room for a replica", &found);
        let mut open = zero.is_some() && !list.decided;
        for share in &self.shares {
            let decisive = open
                && share.replicas == 0
                && (zero != Some("Max") || share.bound.as_deref() == Some("Max"))
                && (zero != Some("ZeroWeight") || share.bound.as_deref() == Some("ZeroWeight"))
                && (zero != Some("Arithmetic") || share.total > 0);
            open &= !decisive;
            let kind = &share.workload.kind;
            let asks = format!(
                "{kind} {}/{} by rule {}",
                share.workload.namespace, share.workload.name, share.rule
            );
            list.conditions.push(Condition {
                mark: match (share.replicas > 0, list.decided && !decisive) {
                    (true, _) => Mark::Holds,
                    (false, false) => Mark::Fails,
                    (false, true) => Mark::NotAsked,
                },
                decisive,
                about: "share",
                rule: Some(share.rule.clone()),
                asks,
                found: in_words(share),
            });
        }
        if self.shares.is_empty() && reason != Reason::Member {
            list.add("share", None, false, "a replica", "");
        }
    }
}

fn in_words(share: &Share) -> String {
    let mut text = match &share.quota {
        Some(quota) => {
            let decimal = words::decimal(quota);
            let exact = if quota.contains('/') {
                format!(" ({quota})")
            } else {
                String::new()
            };
            format!(
                "{} of {}, its quota is {decimal}{exact}",
                words::thousands(share.replicas),
                words::thousands(share.total)
            )
        }
        None => format!("{}, the full count", words::thousands(share.replicas)),
    };
    if let Some(bound) = &share.bound {
        text.push_str(&format!("; bound {bound}"));
    }
    if let Some(tie) = &share.tie {
        text.push_str(&format!("; {}", words::tie(tie)));
    }
    text
}

struct Listing {
    conditions: Vec<Condition>,
    decided: bool,
}

impl Listing {
    fn add(&mut self, about: &'static str, holds: Option<bool>, decisive: bool, asks: &str, found: &str) {
        let mark = match (self.decided, holds) {
            (true, _) | (_, None) => Mark::NotAsked,
            (false, Some(true)) => Mark::Holds,
            (false, Some(false)) => Mark::Fails,
        };
        self.decided |= decisive;
        self.conditions.push(Condition {
            mark: if decisive { Mark::Fails } else { mark },
            decisive,
            about,
            rule: None,
            asks: asks.to_owned(),
            found: found.to_owned(),
        });
    }
}
