//! The weights of a rule's clusters: listed in the rule, or read from the clusters.
//!
//! Architecture invariant: weights of allocatable resources move only when the placement changes or one of them moves by
//! more than a fifth, so that the autoscaling of nodes does not move replicas.

use super::{
    PlacingStep, Request,
    fleet::{Fleet, look_up},
};
use roundhouse_api::{
    decision::FrozenWeights,
    hash,
    placement::{PlacementSpec, Rule, WeightBy},
    quantity,
};
use std::cell::OnceCell;

/// A frozen weight holds until one of its rule moves by more than this part of itself.
const FIFTH: u64 = 5;

/// The hash of a placement, for which weights are frozen; computed once, and only for rules that freeze.
#[derive(Debug)]
pub(super) struct Wording<'a>(&'a PlacementSpec, OnceCell<String>);

impl<'a> Wording<'a> {
    /// Of this placement.
    pub(super) fn of(placement: &'a PlacementSpec) -> Self {
        Wording(placement, OnceCell::new())
    }

    fn hash(&self) -> &str {
        self.1
            .get_or_init(|| hash::of_value(&serde_json::to_value(self.0).unwrap_or_default()))
    }
}

/// The weights of the clusters that a rule matches.
#[derive(Debug, Default)]
pub(super) struct Weights {
    /// In the order of the clusters.
    pub(super) of: Vec<u64>,
    /// Clusters whose weight cannot be read and is 0, with what is there instead.
    pub(super) unread: Vec<(usize, Option<String>)>,
    /// What is to be remembered.
    pub(super) frozen: Option<FrozenWeights>,
}

/// Reads the weights of the clusters that a rule matches, which ascend.
pub(super) fn weights(
    request: &Request<'_>,
    step: &PlacingStep<'_>,
    wording: &Wording<'_>,
    (name, rule): (&str, &Rule),
    clusters: &[usize],
    fleet: &Fleet<'_>,
) -> Weights {
    match &rule.weight_by {
        None => {
            let listed: Vec<_> = fleet.find_all(&rule.weights).collect();
            Weights {
                of: look_up(clusters, &listed)
                    .map(|weight| weight.map_or(1, |weight| u64::from(*weight)))
                    .collect(),
                ..Weights::default()
            }
        }
        Some(WeightBy::Label(key)) => {
            let mut weights = Weights::default();
            for cluster in clusters {
                let value = fleet
                    .clusters
                    .get(*cluster)
                    .and_then(|facts| facts.labels.get(key));
                let weight = value.and_then(|value| whole_number(value));
                if weight.is_none() {
                    weights.unread.push((*cluster, value.cloned()));
                }
                weights.of.push(u64::from(weight.unwrap_or(0)));
            }
            weights
        }
        Some(WeightBy::Allocatable(resource)) => {
            let key = (step.name.to_owned(), name.to_owned());
            let before = request.previous.frozen.get(&key);
            let before = before.filter(|f| f.allocatable == *resource && f.placement == wording.hash());
            allocatable(resource, name, wording.hash(), before, clusters, fleet)
        }
    }
}

/// A label value that is a weight: digits only, at most 2147483647.
fn whole_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number: i32 = digits.then(|| text.parse().ok())??;
    u32::try_from(number).ok()
}

fn allocatable(
    resource: &str,
    rule: &str,
    placement: &str,
    before: Option<&FrozenWeights>,
    clusters: &[usize],
    fleet: &Fleet<'_>,
) -> Weights {
    let held: Vec<_> = fleet
        .find_all(before.into_iter().flat_map(|frozen| &frozen.weights))
        .map(|(cluster, weight)| (cluster, *weight))
        .collect();
    let held: Vec<Option<u64>> = look_up(clusters, &held).collect();
    let now: Vec<Result<u64, Option<String>>> = clusters
        .iter()
        .map(|cluster| {
            let reported = fleet
                .clusters
                .get(*cluster)
                .and_then(|f| f.allocatable.get(resource));
            let text = reported.ok_or(None)?;
            let number = match resource {
                "cpu" => quantity::thousandths(text),
                _ => quantity::units(text),
            };
            number.ok_or_else(|| Some(text.clone()))
        })
        .collect();
    let has_moved = |(held, now): (&Option<u64>, &Result<u64, _>)| match (held, now) {
        (Some(held), Ok(now)) => u128::from(held.abs_diff(*now)) * u128::from(FIFTH) > u128::from(*held),
        _ => false,
    };
    let moved = held.iter().zip(&now).any(has_moved);
    let mut weights = Weights::default();
    let mut frozen = Vec::with_capacity(clusters.len());
    for (cluster, (held, now)) in clusters.iter().zip(held.into_iter().zip(now)) {
        let weight = match (held, now) {
            (Some(held), Ok(_)) if !moved => held,
            (_, Ok(now)) => now,
            // Nothing reported is no evidence that nothing is there.
            (Some(held), Err(_)) => held,
            (None, Err(text)) => {
                weights.unread.push((*cluster, text));
                weights.of.push(0);
                continue;
            }
        };
        frozen.push((fleet.name(*cluster).to_owned(), weight));
        weights.of.push(weight);
    }
    weights.frozen = Some(FrozenWeights {
        rule: rule.to_owned(),
        allocatable: resource.to_owned(),
        placement: placement.to_owned(),
        weights: frozen.into_iter().collect(),
    });
    weights
}
