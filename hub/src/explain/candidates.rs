//! Which changes answer the reason that decides. Whether they flip it is for placement to say.

use super::{
    Change, Reason, Setting,
    change::{is_the_hubs, keys},
    conditions,
};
use crate::placement::{ClusterFacts, NotChosen, Standing};
use roundhouse_api::{
    names::is_bookkeeping,
    placement::{
        ClusterSelector, Operator, PlacementSpec, Rebalance, ReplicaShare, Rule, Taint, TaintEffect, WeightBy,
    },
};
use std::collections::BTreeMap;

/// At most this many ways to make a cluster match.
const MAX_MATCHES: usize = 8;
/// Weights beyond this say nothing any more.
const MAX_WEIGHT: u32 = 1_000_000;
/// As many replicas more are tried.
const MAX_MORE: u32 = 1_000_000;
/// 100 %, in percent.
const WHOLE: u32 = 100;

/// A candidate.
pub(super) enum Candidate {
    /// These changes together.
    Fixed(Vec<Change>),
    /// The change for the least number of `from..=to` that will do.
    Least(u32, u32, Box<dyn Fn(u32) -> Change>),
}

impl Candidate {
    fn one(change: Change) -> Self {
        Candidate::Fixed(vec![change])
    }

    fn least(from: u32, to: u32, change: impl Fn(u32) -> Change + 'static) -> Self {
        Candidate::Least(from, to, Box::new(change))
    }
}

/// Candidates.
#[derive(Default)]
pub(super) struct Offer {
    pub(super) all: Vec<Candidate>,
    /// Whether there are more than are offered.
    pub(super) cut: bool,
}

impl Offer {
    fn and(mut self, more: Offer) -> Self {
        self.all.extend(more.all);
        self.cut |= more.cut;
        self
    }
}

impl From<Vec<Candidate>> for Offer {
    fn from(all: Vec<Candidate>) -> Self {
        Offer { all, cut: false }
    }
}

/// What is looked at.
pub(super) struct Subject<'a> {
    pub(super) setting: &'a Setting,
    pub(super) facts: &'a ClusterFacts,
    /// Place of the step.
    pub(super) step: usize,
}

/// Changes that may let the cluster in.
pub(super) fn to_include(subject: &Subject<'_>, reason: Reason, standing: &Standing) -> Offer {
    let one = |change: Change| Offer::from(vec![Candidate::one(change)]);
    match reason {
        Reason::Placed | Reason::Member => Offer::default(),
        Reason::NotChosen(NotChosen::NotMatched) => subject.matches(),
        Reason::NotChosen(NotChosen::NotAccepted) => one(Change::Accept),
        Reason::NotChosen(NotChosen::NotJoined) => one(Change::Join),
        Reason::NotChosen(NotChosen::Tainted) => {
            Offer::from(subject.untaint()).and(subject.in_spite_of_trouble(standing))
        }
        Reason::NotChosen(NotChosen::Unreachable) => {
            one(Change::Reconnect).and(subject.in_spite_of_trouble(standing))
        }
        Reason::NotChosen(NotChosen::MaxClusters) => subject.rank(standing).into(),
        Reason::NotChosen(NotChosen::Skewed) => {
            let mut all: Vec<Candidate> = subject.skew(standing).into_iter().collect();
            all.extend(subject.weights());
            subject.topology(standing).and(all.into())
        }
        Reason::NotChosen(NotChosen::NoTopologyLabel) => subject.topology(standing),
        Reason::ZeroShare(_) => {
            let mut all = subject.more();
            if standing.no_additional {
                all.extend(subject.untaint());
                if !subject.facts.reachable {
                    all.push(Candidate::one(Change::Reconnect));
                }
            }
            all.into()
        }
    }
}

/// Changes that may take the cluster out.
pub(super) fn to_exclude(subject: &Subject<'_>) -> Vec<Candidate> {
    let mut all = Vec::new();
    for key in subject.selector_keys() {
        if subject.facts.labels.contains_key(&key) {
            all.push(Candidate::one(Change::RemoveLabel { key }));
        }
    }
    all.push(Candidate::one(Change::AddTaint(Taint {
        key: "maintenance".to_owned(),
        value: None,
        effect: TaintEffect::NoExecute,
        time_added: None,
    })));
    let weights = subject
        .own_rules()
        .filter(|(_, rule)| rule.replicas.is_some() && rule.weight_by.is_none());
    all.extend(weights.map(|(rule, _)| Candidate::one(Change::Weight { rule, weight: 0 })));
    all
}

impl Subject<'_> {
    /// The rules of the step, each with its place.
    fn rules(&self) -> impl Iterator<Item = ((usize, usize), &Rule)> {
        let rules = self.setting.steps.get(self.step).into_iter();
        let rules = rules.flat_map(|step| step.spec.placement.iter().enumerate());
        rules.map(|(index, rule)| ((self.step, index), rule))
    }

    /// The rules that give the cluster a row.
    fn own_rules(&self) -> impl Iterator<Item = ((usize, usize), &Rule)> {
        self.rules().filter(|(_, rule)| {
            let required = conditions::required(rule, self.facts);
            required.iter().all(|required| required.holds)
        })
    }

    fn selector_keys(&self) -> Vec<String> {
        let selectors = self
            .own_rules()
            .filter_map(|(_, rule)| rule.cluster_selector.as_ref());
        let mut all: Vec<String> = selectors
            .flat_map(keys)
            .filter(|key| !is_bookkeeping(key))
            .map(str::to_owned)
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// For each rule, the labels and the name that it lacks.
    fn matches(&self) -> Offer {
        let mut ways: Vec<(bool, Vec<Change>)> = Vec::new();
        let mut cut = false;
        for (place, rule) in self.rules() {
            let named = rule
                .clusters
                .as_ref()
                .is_none_or(|names| names.contains(&self.facts.name));
            let name = (!named).then_some(Change::AddName { rule: place });
            let (labels, more) = match &rule.cluster_selector {
                Some(selector) => self.labels(selector),
                None => (vec![Vec::new()], false),
            };
            cut |= more;
            for labels in labels {
                let changes: Vec<Change> = labels.into_iter().chain(name.clone()).collect();
                let known = ways.iter_mut().find(|(_, known)| *known == changes);
                match known {
                    Some((idle, _)) => *idle &= claims_nothing(rule),
                    None if changes.is_empty() => {}
                    None => ways.push((claims_nothing(rule), changes)),
                }
            }
        }
        // Rules that have something to divide go first, then the fewest changes; equal ones in the order of the rules.
        ways.sort_by_key(|(idle, changes)| (*idle, changes.len()));
        cut |= ways.len() > MAX_MATCHES;
        let ways = ways.into_iter().take(MAX_MATCHES);
        Offer {
            all: ways.map(|(_, changes)| Candidate::Fixed(changes)).collect(),
            cut,
        }
    }

    /// Ways to satisfy a selector, and whether there are more; none if no label can.
    fn labels(&self, selector: &ClusterSelector) -> (Vec<Vec<Change>>, bool) {
        let mut ways: Vec<Vec<Change>> = vec![Vec::new()];
        let mut cut = false;
        for key in keys(selector) {
            let wanted = |labels: &BTreeMap<String, String>| {
                selector
                    .match_labels
                    .get(key)
                    .is_none_or(|value| labels.get(key) == Some(value))
                    && selector
                        .match_expressions
                        .iter()
                        .filter(|e| e.key == key)
                        .all(|e| e.matches(labels))
            };
            if wanted(&self.facts.labels) {
                continue;
            }
            if is_bookkeeping(key) {
                return (Vec::new(), false);
            }
            let mut choices = Vec::new();
            if self.facts.labels.contains_key(key) && wanted(&BTreeMap::new()) {
                choices.push(Change::RemoveLabel { key: key.to_owned() });
            }
            for value in self.values(selector, key) {
                if wanted(&BTreeMap::from([(key.to_owned(), value.clone())])) {
                    choices.push(Change::SetLabel {
                        key: key.to_owned(),
                        value,
                    });
                }
            }
            cut |= ways.len() * choices.len() > MAX_MATCHES;
            ways = ways
                .iter()
                .flat_map(|way| {
                    choices
                        .iter()
                        .map(|choice| way.iter().cloned().chain([choice.clone()]).collect())
                })
                .take(MAX_MATCHES)
                .collect();
        }
        // No way at all is not cut short.
        let cut = cut && !ways.is_empty();
        (ways, cut)
    }

    /// Values that a label may take: those that the selector names, or one that other clusters have.
    fn values(&self, selector: &ClusterSelector, key: &str) -> Vec<String> {
        let mut values: Vec<String> = selector.match_labels.get(key).cloned().into_iter().collect();
        let mut free = false;
        for expression in selector.match_expressions.iter().filter(|e| e.key == key) {
            match &expression.operator {
                Operator::In(named) => values.extend(named.iter().cloned()),
                Operator::NotIn(_) | Operator::Exists => free = true,
                Operator::DoesNotExist => {}
            }
        }
        if values.is_empty() && free {
            let others = self.setting.inventory.clusters().iter();
            let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
            for value in others.filter_map(|facts| facts.labels.get(key)) {
                *counted.entry(value).or_default() += 1;
            }
            let mut counted: Vec<_> = counted.into_iter().collect();
            counted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            values.extend(counted.into_iter().map(|(value, _)| value.to_owned()));
            values.push("true".to_owned());
        }
        values.dedup();
        values
    }

    /// One taint less, or tolerated.
    fn untaint(&self) -> Vec<Candidate> {
        let Some(step) = self.setting.steps.get(self.step) else {
            return Vec::new();
        };
        let open = |taint: &&Taint| !conditions::tolerates(&step.spec, taint, self.setting.now);
        let mut taints: Vec<&Taint> = self.facts.taints.iter().filter(open).collect();
        // The strongest decides, so it goes first.
        taints.sort_by_key(|taint| std::cmp::Reverse(taint.effect));
        let Some(taint) = taints.first() else {
            return Vec::new();
        };
        if is_the_hubs(taint) {
            return vec![Candidate::one(match self.facts.joined {
                true => Change::Reconnect,
                false => Change::Join,
            })];
        }
        let tolerate = Change::Tolerate {
            step: self.step,
            taint: (*taint).clone(),
        };
        vec![
            Candidate::one(Change::RemoveTaint((*taint).clone())),
            Candidate::one(tolerate),
        ]
    }

    /// Further up in the order of `maxClusters`, or a longer order.
    fn rank(&self, standing: &Standing) -> Vec<Candidate> {
        let mut all = self.weights();
        all.extend(self.rebalance());
        let limit = self
            .setting
            .steps
            .get(self.step)
            .and_then(|step| step.spec.max_clusters);
        if let (Some(limit), Some(place)) = (limit, &standing.place) {
            let step = self.step;
            let to = u32::try_from(place.of).unwrap_or(u32::MAX);
            all.push(Candidate::least(limit.saturating_add(1), to, move |clusters| {
                Change::MaxClusters { step, clusters }
            }));
        }
        all
    }

    /// A cluster that holds something is let in with its trouble if it ranks among those that are chosen: only when it
    /// does not, the trouble is named as the reason.
    fn in_spite_of_trouble(&self, standing: &Standing) -> Offer {
        if standing.place.is_none() {
            return Offer::default();
        }
        let mut all = self.rank(standing);
        all.extend(self.skew(standing));
        self.topology(standing).and(all.into())
    }

    /// Another value of the label that the spread goes by.
    fn topology(&self, standing: &Standing) -> Offer {
        let spread = self.spec().and_then(|spec| spec.spread.as_ref());
        let Some(key) = spread
            .map(|spread| &spread.topology_key)
            .filter(|key| !is_bookkeeping(key))
        else {
            return Offer::default();
        };
        let mut values: Vec<&String> = standing.groups.keys().collect();
        values.retain(|value| self.facts.labels.get(key) != Some(*value));
        let label = |value: &String| Change::SetLabel {
            key: key.clone(),
            value: value.clone(),
        };
        Offer {
            cut: values.len() > MAX_MATCHES,
            all: values
                .into_iter()
                .take(MAX_MATCHES)
                .map(|value| Candidate::one(label(value)))
                .collect(),
        }
    }

    /// A larger skew.
    fn skew(&self, standing: &Standing) -> Option<Candidate> {
        let step = self.step;
        let spread = self.spec()?.spread.as_ref()?;
        let all: u32 = standing.groups.values().map(|(_, could)| *could).sum();
        Some(Candidate::least(
            spread.max_skew.saturating_add(1),
            all,
            move |skew| Change::MaxSkew { step, skew },
        ))
    }

    /// What was placed before may move.
    fn rebalance(&self) -> Option<Candidate> {
        let never = self.spec()?.rebalance == Rebalance::Never;
        never.then(|| Candidate::one(Change::RebalanceOnChange { step: self.step }))
    }

    fn spec(&self) -> Option<&PlacementSpec> {
        self.setting.steps.get(self.step).map(|step| &step.spec)
    }

    fn weights(&self) -> Vec<Candidate> {
        let of_rule = |(rule, spec): ((usize, usize), &Rule)| match &spec.weight_by {
            None => {
                let weight = spec.weights.get(&self.facts.name).copied().unwrap_or(1);
                Some(Candidate::least(
                    weight.saturating_add(1),
                    MAX_WEIGHT,
                    move |weight| Change::Weight { rule, weight },
                ))
            }
            Some(WeightBy::Label(key)) if !is_bookkeeping(key) => {
                let weight = self
                    .facts
                    .labels
                    .get(key)
                    .and_then(|value| value.parse::<u32>().ok());
                let key = key.clone();
                Some(Candidate::least(
                    weight.unwrap_or(0).saturating_add(1),
                    MAX_WEIGHT,
                    move |weight| Change::SetLabel {
                        key: key.clone(),
                        value: weight.to_string(),
                    },
                ))
            }
            // Nobody sets what a cluster can allocate.
            Some(_) => None,
        };
        self.own_rules().filter_map(of_rule).collect()
    }

    /// A larger claim, a larger total, a wider bound.
    fn more(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        let claimed: u32 = self
            .setting
            .steps
            .iter()
            .flat_map(|step| &step.spec.placement)
            .filter_map(|rule| match rule.replicas {
                Some(ReplicaShare::Percent(percent)) => Some(percent.milli()),
                _ => None,
            })
            .sum();
        let asked = self
            .setting
            .workloads
            .iter()
            .map(|w| w.replicas)
            .max()
            .unwrap_or(0);
        for (rule, spec) in self.own_rules() {
            match spec.replicas {
                Some(ReplicaShare::Percent(percent)) => {
                    let room = (WHOLE * 1000).saturating_sub(claimed) / 1000;
                    let from = percent.milli() / 1000 + 1;
                    let to = (percent.milli() / 1000).saturating_add(room).min(WHOLE);
                    all.push(Candidate::least(from, to, move |percent| Change::Share {
                        rule,
                        share: share_of(percent),
                    }));
                }
                Some(ReplicaShare::Count(count)) => {
                    all.push(Candidate::least(count.saturating_add(1), asked, move |count| {
                        Change::Share {
                            rule,
                            share: ReplicaShare::Count(count),
                        }
                    }));
                }
                None => {}
            }
            let bounds = spec.per_cluster.unwrap_or_default();
            if spec.replicas.is_some() && bounds.min.unwrap_or(0) == 0 && bounds.max != Some(0) {
                all.push(Candidate::one(Change::Min { rule, min: 1 }));
            }
            if let Some(max) = bounds.max {
                let to = max.saturating_add(asked);
                all.push(Candidate::least(max.saturating_add(1), to, move |max| {
                    Change::Max { rule, max }
                }));
            }
        }
        all.extend(self.weights());
        if let Some(capacity) = self.facts.capacity {
            let to = capacity.saturating_add(MAX_MORE);
            all.push(Candidate::least(capacity.saturating_add(1), to, Change::Capacity));
        }
        all.extend(self.rebalance());
        for workload in &self.setting.workloads {
            let (key, now) = (workload.key.clone(), workload.replicas);
            all.push(Candidate::least(
                now.saturating_add(1),
                now.saturating_add(MAX_MORE),
                move |replicas| Change::Replicas {
                    workload: key.clone(),
                    replicas,
                },
            ));
        }
        all
    }
}

/// Whether a rule has a share, and it is 0.
fn claims_nothing(rule: &Rule) -> bool {
    match rule.replicas {
        Some(ReplicaShare::Percent(percent)) => percent.milli() == 0,
        Some(ReplicaShare::Count(count)) => count == 0,
        None => false,
    }
}

/// A share of whole percent; above 100 it stays at 100.
fn share_of(percent: u32) -> ReplicaShare {
    match format!("{}%", percent.min(WHOLE)).parse() {
        Ok(percent) => ReplicaShare::Percent(percent),
        // Not reached: every number up to 100 is a percentage.
        Err(_) => ReplicaShare::Count(percent),
    }
}
