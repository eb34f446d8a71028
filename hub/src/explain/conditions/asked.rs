//! Every condition in its order, with the placement's own reason found among them.

use super::{Condition, Mark, Reason, Required, Share, required, tolerates};
use crate::{
    explain::change::is_the_hubs,
    placement::{ClusterFacts, NotChosen, Standing, StepDecision},
    words,
};
use jiff::Timestamp;
use roundhouse_api::placement::{PlacementSpec, Taint, TaintEffect};

/// Values of a topology that a condition names.
const GROUPS: usize = 5;

/// All that is asked of one cluster in one step.
pub(super) struct Asked<'a> {
    pub(super) now: Timestamp,
    pub(super) facts: &'a ClusterFacts,
    pub(super) spec: &'a PlacementSpec,
    pub(super) standing: Standing,
    pub(super) shares: Vec<Share>,
}

impl Asked<'_> {
    pub(super) fn reason(&self, decision: &StepDecision) -> Reason {
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
            // Whatever is divided now has a row for each of its clusters.
            () if self.shares.is_empty() => "DividedBefore",
            () if !divides => "RuleGetsNothing",
            () if bound("NoAdditional") => "NoAdditional",
            () if bound("Capacity") => "Capacity",
            () if bound("Max") => "Max",
            () if bound("ZeroWeight") => "ZeroWeight",
            () => "Arithmetic",
        })
    }

    pub(super) fn conditions(&self, reason: Reason) -> Vec<Condition> {
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
        if zero == Some("DividedBefore") {
            let found = "what is divided stands, and it came later";
            list.add("share", Some(false), true, "a replica", found);
        } else if self.shares.is_empty() && reason != Reason::Member {
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
