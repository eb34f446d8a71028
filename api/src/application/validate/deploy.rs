//! Placing steps: what one says, and what has to hold over all of them.

use super::{
    node::{Node, Shape, choice},
    placement,
    policy::Policies,
};
use crate::{
    application::{DeployStep, WaitFor},
    placement::{PlacementSpec, ReplicaShare, Rule},
};
use serde_json::Value;
use std::collections::BTreeSet;

const DEPLOY: Shape = Shape {
    known: &[
        "placement",
        "remainder",
        "rebalance",
        "tolerations",
        "maxClusters",
        "spread",
        "overrides",
        "policies",
        "wait",
        "auto",
    ],
    refused: &[
        (
            "placementRef",
            "placementRef is not supported yet: use policies, or an inline placement",
        ),
        (
            "maxParallel",
            "maxParallel is not supported yet: use several steps",
        ),
        (
            "parallelism",
            "parallelism is not supported yet: use several steps",
        ),
        (
            "maxFailedClusters",
            "maxFailedClusters is not supported yet: failed clusters make the step wait",
        ),
        (
            "inlinePolicies",
            "inlinePolicies is not supported: write the placement here",
        ),
        (
            "ignoreTerraformComponent",
            "ignoreTerraformComponent is not supported: there are no terraform components",
        ),
    ],
};
/// What to do about a missing placement.
pub(super) const RULES: &str = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}], or name placement \
                     policies under policies";

/// A placing step while all of them are compared.
pub(super) struct Placing<'a> {
    /// Name of the step.
    pub(super) name: String,
    /// What it says.
    pub(super) spec: PlacementSpec,
    /// The map that holds the placement's fields.
    pub(super) at: Node<'a>,
}

/// Reads the properties of a placing step.
pub(super) fn read(properties: &Node<'_>, policies: &Policies<'_>) -> Option<DeployStep> {
    let object = properties.object(&DEPLOY)?;
    let wait = object.optional("wait").and_then(|node| {
        node.word(&[
            ("ready", WaitFor::Ready),
            ("applied", WaitFor::Applied),
            ("none", WaitFor::None),
        ])
    });
    if let Some(auto) = object.optional("auto")
        && auto.boolean() == Some(false)
    {
        auto.refuse("auto: false is not supported yet: put a suspend step before this one");
    }
    let placement = match object.optional("policies") {
        None => placement::read(&object, RULES),
        Some(node) if object.has_any(&placement::FIELDS) => {
            node.refuse("cannot be used beside an inline placement: keep one of them");
            PlacementSpec::default()
        }
        Some(node) => named(&node, policies)?,
    };
    Some(DeployStep {
        placement,
        wait: wait.unwrap_or_default(),
    })
}

/// The rules of all named policies, in order. What else they say has to agree.
fn named(node: &Node<'_>, policies: &Policies<'_>) -> Option<PlacementSpec> {
    let entries = node.list()?;
    if entries.is_empty() {
        node.refuse("is empty: name placement policies, or write an inline placement");
    }
    let mut all: Option<(&str, PlacementSpec)> = None;
    let mut seen = BTreeSet::new();
    for entry in &entries {
        let Some(name) = entry.string() else { continue };
        let Some(policy) = policies.find(name) else {
            let known = policies
                .all
                .iter()
                .filter(|p| p.type_ == "placement")
                .map(|p| p.name);
            entry.refuse(format!(
                "there is no policy named {name:?}{}",
                choice(name, known)
            ));
            continue;
        };
        if policy.type_ != "placement" {
            let type_ = policy.type_;
            entry.refuse(format!(
                "policy {name:?} has the type {type_}: only placement policies can be named here"
            ));
            continue;
        }
        if !seen.insert(name) {
            entry.refuse(format!("policy {name:?} is named twice"));
            continue;
        }
        let Some(spec) = policy.placement.clone() else {
            continue;
        };
        match &mut all {
            None => all = Some((name, spec)),
            Some((first, all)) => {
                for field in differences(all, &spec) {
                    entry.refuse(format!("policies {first:?} and {name:?} differ in {field}: within one step they have to agree"));
                }
                let (mut overrides, first) = (spec.overrides, all.placement.len());
                for change in &mut overrides {
                    // A rule without a name is called by its place, which is another one in the joint list.
                    let unnamed = |(index, rule): (usize, &Rule)| {
                        let named_so = rule.name.is_none() && change.rule == Some(rule.name_or_index(index));
                        named_so.then(|| rule.name_or_index(first + index))
                    };
                    let moved = spec.placement.iter().enumerate().find_map(unnamed);
                    change.rule = moved.or(change.rule.take());
                }
                all.placement.extend(spec.placement);
                all.overrides.extend(overrides);
            }
        }
    }
    let (_, all) = all?;
    let mut names = BTreeSet::new();
    for (index, rule) in all.placement.iter().enumerate() {
        let name = rule.name_or_index(index);
        if !names.insert(name.clone()) {
            node.refuse(format!(
                "rule name {name:?} is used twice by these policies: give each rule its own name"
            ));
        }
    }
    Some(all)
}

fn differences(a: &PlacementSpec, b: &PlacementSpec) -> Vec<&'static str> {
    let differs = [
        ("remainder", a.remainder != b.remainder),
        ("rebalance", a.rebalance != b.rebalance),
        ("tolerations", a.tolerations != b.tolerations),
        ("maxClusters", a.max_clusters != b.max_clusters),
        ("spread", a.spread != b.spread),
    ];
    differs
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(field, _)| *field)
        .collect()
}

/// What holds over all placing steps: one remainder, and percentages of at most 100 in all (placement design, rule 2).
pub(super) fn check_together(placing: &[Placing<'_>], list: &Node<'_>) {
    if let Some((first, others)) = placing.split_first() {
        for other in others
            .iter()
            .filter(|other| other.spec.remainder != first.spec.remainder)
        {
            let (mine, theirs) = (other.spec.remainder, first.spec.remainder);
            let name = &first.name;
            other.at.child("remainder", &Value::Null).refuse(format!(
                "{mine:?} here but {theirs:?} in {name:?}: all placing steps share one remainder, so write the same in each"
            ));
        }
    }
    let mut sum = 0_u64;
    let mut parts = Vec::new();
    for step in placing {
        for (index, rule) in step.spec.placement.iter().enumerate() {
            if let Some(ReplicaShare::Percent(percent)) = rule.replicas {
                sum += u64::from(percent.milli());
                parts.push(format!(
                    "{percent} in {}/{}",
                    step.name,
                    rule.name_or_index(index)
                ));
            }
        }
    }
    if sum > 100_000 {
        let thousandths = format!("{:03}", sum % 1000);
        let decimals = thousandths.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        list.refuse(format!(
            "the percentages of all placing steps add up to {}{point}{decimals}% ({}): at most 100% can be claimed",
            sum / 1000,
            parts.join(", ")
        ));
    }
}
