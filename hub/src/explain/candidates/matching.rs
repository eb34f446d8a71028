//! Ways to make a rule match: the labels and the name that the cluster lacks.

use super::{Candidate, MAX_MATCHES, Offer, Subject};
use crate::explain::{Change, Form, change::keys};
use roundhouse_api::{
    names::is_bookkeeping,
    placement::{ClusterSelector, Operator, ReplicaShare, Rule},
};
use std::collections::BTreeMap;

impl Subject<'_> {
    /// For each rule, the labels and the name that it lacks.
    pub(super) fn matches(&self) -> Offer {
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
            // Whom else a topology policy lets in takes nothing from anybody: it divides nothing.
            let wider = rule.cluster_selector.as_ref();
            let wider = wider.filter(|_| self.setting.form(place) == Form::Topology);
            let wider = wider.map(|selector| self.unrequire(place, selector));
            for labels in labels.into_iter().chain(wider) {
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

    /// A selector without the labels that the cluster lacks.
    fn unrequire(&self, rule: (usize, usize), selector: &ClusterSelector) -> Vec<Change> {
        let wanted = selector.match_labels.iter();
        let lacking = wanted.filter(|(key, value)| self.facts.labels.get(*key) != Some(value));
        lacking
            .map(|(key, _)| Change::Unrequire {
                rule,
                key: key.clone(),
            })
            .collect()
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
}

/// Whether a rule has a share, and it is 0.
fn claims_nothing(rule: &Rule) -> bool {
    match rule.replicas {
        Some(ReplicaShare::Percent(percent)) => percent.milli() == 0,
        Some(ReplicaShare::Count(count)) => count == 0,
        None => false,
    }
}
