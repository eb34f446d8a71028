//! Which changes of a cluster a placement can see.
//!
//! Architecture invariant: sound before narrow. Where [`Sight::sees`] says no, placing before and after the change gives
//! the same decisions, their reasons and counts included.

use super::{ClusterFacts, PlacingStep, overrides};
use roundhouse_api::placement::{ClusterSelector, Rule, WeightBy};
use std::collections::BTreeSet;

/// What an application's placing steps look at in a cluster: built once for a spec, asked for every change of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sight {
    keys: BTreeSet<String>,
    resources: BTreeSet<String>,
    rules: Vec<(Option<ClusterSelector>, Option<BTreeSet<String>>)>,
    places: bool,
}

impl Sight {
    /// What these steps look at.
    pub fn of(steps: &[PlacingStep<'_>]) -> Self {
        let mut sight = Sight {
            places: !steps.is_empty(),
            ..Sight::default()
        };
        for step in steps {
            step.spec.placement.iter().for_each(|rule| sight.add(rule));
            if let Some(spread) = &step.spec.spread {
                sight.keys.insert(spread.topology_key.clone());
            }
            sight.keys.extend(overrides::keys_seen(step.spec));
        }
        sight
    }

    fn add(&mut self, rule: &Rule) {
        if let Some(selector) = &rule.cluster_selector {
            self.keys.extend(selector.match_labels.keys().cloned());
            let required = selector.match_expressions.iter().map(|r| r.key.clone());
            self.keys.extend(required);
        }
        match &rule.weight_by {
            Some(WeightBy::Label(key)) => {
                self.keys.insert(key.clone());
            }
            Some(WeightBy::Allocatable(resource)) => {
                self.resources.insert(resource.clone());
            }
            None => {}
        }
        let names = rule
            .clusters
            .as_ref()
            .map(|names| names.iter().cloned().collect());
        self.rules.push((rule.cluster_selector.clone(), names));
    }

    /// Whether a decision may change when a cluster changes like this; `None` is a cluster that is not there, and one that
    /// comes or goes is always seen, since decisions count the clusters that they do not choose.
    ///
    /// `held` says whether the application holds something of the cluster: it is a member of one of its decisions, or a
    /// row of one, or has a Bundle of it. Of such a cluster every change is seen but that of allocatable resources which
    /// no rule weighs by. Of any other only the labels that selectors, weights, spread and overrides name are seen, and
    /// of one that a rule matches, also its taints, capacity, weighed resources, and whether it is joined, accepted and
    /// reachable.
    pub fn sees(&self, held: bool, before: Option<&ClusterFacts>, after: Option<&ClusterFacts>) -> bool {
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) if before.name == after.name => (before, after),
            (None, None) => return false,
            _ => return self.places || held,
        };
        let label = |key: &String| before.labels.get(key) != after.labels.get(key);
        let resource = |name: &String| before.allocatable.get(name) != after.allocatable.get(name);
        let state = before.taints != after.taints
            || (before.joined, before.accepted, before.reachable, before.capacity)
                != (after.joined, after.accepted, after.reachable, after.capacity)
            || self.resources.iter().any(resource);
        if held && (state || before.labels != after.labels) || self.keys.iter().any(label) {
            return true;
        }
        // The labels that selectors name are the same before and after.
        state && self.matches(after)
    }

    fn matches(&self, facts: &ClusterFacts) -> bool {
        self.rules.iter().any(|(selector, names)| {
            names.as_ref().is_none_or(|names| names.contains(&facts.name))
                && selector
                    .as_ref()
                    .is_none_or(|selector| selector.matches(&facts.labels))
        })
    }
}
