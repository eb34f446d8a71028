//! Which changes answer the reason that decides. Whether they flip it is for placement to say.

mod choosing;
mod dividing;
mod matching;

use super::{Change, Reason, Setting, change::keys, conditions};
use crate::placement::{ClusterFacts, NotChosen, Standing};
use roundhouse_api::{
    names::is_bookkeeping,
    placement::{PlacementSpec, Rule, Taint, TaintEffect},
};

/// At most this many ways to make a cluster match.
const MAX_MATCHES: usize = 8;

/// A candidate.
pub(super) enum Candidate {
    /// These changes together.
    Fixed(Vec<Change>),
    /// The change for the least number that will do, of the first range that has one.
    Least(Vec<Range>),
}

/// The changes for the numbers of `from..=to`.
pub(super) struct Range {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) change: Box<dyn Fn(u32) -> Change>,
}

impl Range {
    fn new(from: u32, to: u32, change: impl Fn(u32) -> Change + 'static) -> Self {
        let change = Box::new(change);
        Range { from, to, change }
    }
}

impl Candidate {
    fn one(change: Change) -> Self {
        Candidate::Fixed(vec![change])
    }

    fn least(from: u32, to: u32, change: impl Fn(u32) -> Change + 'static) -> Self {
        Candidate::Least(vec![Range::new(from, to, change)])
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
    // A list without a name selects nothing, and is refused.
    let lists = |rule: &Rule| rule.clusters.as_ref().is_some_and(|names| names.len() > 1);
    let named: Vec<(usize, usize)> = subject
        .own_rules()
        .filter(|(_, rule)| lists(rule))
        .map(|(rule, _)| rule)
        .collect();
    if !named.is_empty() {
        let unlisted = named.into_iter().map(|rule| Change::RemoveName { rule });
        all.push(Candidate::Fixed(unlisted.collect()));
    }
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

    fn spec(&self) -> Option<&PlacementSpec> {
        self.setting.steps.get(self.step).map(|step| &step.spec)
    }
}
