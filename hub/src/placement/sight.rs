//! Which changes of a cluster a placement can see.
//!
//! Architecture invariant: sound before narrow. Where [`Sight::sees`] says no, placing before and after the change gives
//! the same decisions, their reasons and counts included, but for the number of clusters that no rule matches: that one
//! is nobody's business, and no stored Decision has it.

use super::{ClusterFacts, Inventory, PlacingStep, overrides};
use roundhouse_api::placement::{ClusterSelector, Rule, WeightBy};
use std::collections::BTreeSet;

/// What an application's placing steps look at in a cluster: built once for a spec, asked for every change of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sight {
    keys: BTreeSet<String>,
    resources: BTreeSet<String>,
    rules: Vec<Sought>,
}

/// What one rule matches.
#[derive(Debug, Clone, PartialEq)]
struct Sought {
    selector: Option<ClusterSelector>,
    names: Option<BTreeSet<String>>,
    /// The labels that the selector reads.
    keys: BTreeSet<String>,
}

impl Sought {
    fn matches(&self, facts: &ClusterFacts) -> bool {
        self.names
            .as_ref()
            .is_none_or(|names| names.contains(&facts.name))
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&facts.labels))
    }

    /// Whether it matches no cluster: then a reason says what the fleet has instead.
    fn finds_none(&self, inventory: &Inventory) -> bool {
        !match &self.names {
            Some(names) => names
                .iter()
                .filter_map(|name| inventory.get(name))
                .any(|facts| self.matches(facts)),
            None => inventory
                .candidates(self.selector.as_ref())
                .any(|facts| self.matches(facts)),
        }
    }
}

impl Sight {
    /// What these steps look at.
    pub fn of(steps: &[PlacingStep<'_>]) -> Self {
        let mut sight = Sight::default();
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
        let mut keys = BTreeSet::new();
        if let Some(selector) = &rule.cluster_selector {
            keys.extend(selector.match_labels.keys().cloned());
            keys.extend(selector.match_expressions.iter().map(|r| r.key.clone()));
        }
        self.keys.extend(keys.iter().cloned());
        match &rule.weight_by {
            Some(WeightBy::Label(key)) => {
                self.keys.insert(key.clone());
            }
            Some(WeightBy::Allocatable(resource)) => {
                self.resources.insert(resource.clone());
            }
            None => {}
        }
        let names = rule.clusters.as_ref();
        self.rules.push(Sought {
            selector: rule.cluster_selector.clone(),
            names: names.map(|names| names.iter().cloned().collect()),
            keys,
        });
    }

    /// Whether a decision may change when a cluster changes like this; `None` is a cluster that is not there. `inventory`
    /// is the fleet after the change.
    ///
    /// `held` says whether the application holds something of the cluster: it is a member of one of its decisions, or a
    /// row of one, or has a Bundle of it. Of such a cluster, and of any other that a rule matches, before or after, it is
    /// seen that it comes or goes, its taints, capacity, weighed resources, and whether it is joined, accepted and
    /// reachable; where a rule matches, the labels too that selectors, weights, spread and overrides name: of a cluster that
    /// none matches they settle nothing, whatever it holds. A rule that names a cluster sees it come and go, and one that matches none at
    /// all sees the labels that it seeks on every cluster.
    pub fn sees(
        &self,
        held: bool,
        before: Option<&ClusterFacts>,
        after: Option<&ClusterFacts>,
        inventory: &Inventory,
    ) -> bool {
        let seen = match (before, after) {
            (None, None) => return false,
            (Some(before), Some(after)) if before.name == after.name => {
                let label = |key: &String| before.labels.get(key) != after.labels.get(key);
                let resource = |name: &String| before.allocatable.get(name) != after.allocatable.get(name);
                let state = before.taints != after.taints
                    || (before.joined, before.accepted, before.reachable, before.capacity)
                        != (after.joined, after.accepted, after.reachable, after.capacity)
                    || self.resources.iter().any(resource);
                held && state
                    || (state || self.keys.iter().any(label)) && (self.matches(before) || self.matches(after))
            }
            (Some(before), Some(after)) => {
                return self.sees(held, Some(before), None, inventory)
                    || self.sees(held, None, Some(after), inventory);
            }
            (Some(facts), None) | (None, Some(facts)) => held || self.matches(facts) || self.names(facts),
        };
        seen || self.is_sought(before, after, inventory)
    }

    /// Whether a rule that matches no cluster tells of a label that differs, or of a fleet that is empty.
    fn is_sought(
        &self,
        before: Option<&ClusterFacts>,
        after: Option<&ClusterFacts>,
        inventory: &Inventory,
    ) -> bool {
        fn value<'a>(facts: Option<&'a ClusterFacts>, key: &str) -> Option<&'a String> {
            facts.and_then(|facts| facts.labels.get(key))
        }
        let comes_or_goes = before.is_none() || after.is_none();
        self.rules.iter().any(|rule| {
            let differs = |key: &String| value(before, key) != value(after, key);
            (comes_or_goes && inventory.len() <= 1 || rule.keys.iter().any(differs))
                && rule.finds_none(inventory)
        })
    }

    fn matches(&self, facts: &ClusterFacts) -> bool {
        self.rules.iter().any(|rule| rule.matches(facts))
    }

    fn names(&self, facts: &ClusterFacts) -> bool {
        let lists = self.rules.iter().filter_map(|rule| rule.names.as_ref());
        lists.into_iter().any(|names| names.contains(&facts.name))
    }
}
