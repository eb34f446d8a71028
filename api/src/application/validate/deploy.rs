//! Placing steps: what one says, and what has to hold over all of them.

use super::{
    node::{Node, Object, Shape, choice},
    overriding::{self, Override},
    placement,
    policy::{Policies, Policy, reference},
};
use crate::{
    application::{DeployStep, PlacementPart, PlacementSource, Together, WaitFor, combine, together},
    placement::PlacementSpec,
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
        "placementRef",
        "policies",
        "wait",
        "auto",
    ],
    refused: &[
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
pub(super) const RULES: &str = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}], name policies \
                     under policies, or a Placement under placementRef";

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
pub(super) fn read<'a>(
    properties: &Node<'a>,
    policies: &Policies<'a>,
    spec: &Object<'a>,
) -> Option<DeployStep> {
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
    let list = object.optional("policies");
    let named = list.as_ref().map(|node| named(node, policies));
    // What is wrong with the list is said already, but for what it lacks.
    let unreadable = named.as_ref().is_some_and(|named| named.refused);
    let (mut parts, overrides) = named
        .map(|named| (named.parts, named.overrides))
        .unwrap_or_default();
    let reference_node = object.optional("placementRef");
    let inline = object.has_any(&placement::FIELDS);
    let listed = !parts.is_empty() || unreadable;
    if let Some(node) = reference_node.as_ref().filter(|_| inline || listed) {
        let other = if inline {
            "an inline placement"
        } else {
            "placement policies"
        };
        node.refuse(format!("cannot be used beside {other}: keep one of them"));
    } else if let Some(node) = list.as_ref().filter(|_| inline && listed) {
        node.refuse("cannot be used beside an inline placement: keep one of them");
    } else if let Some(node) = &reference_node {
        let source = PlacementSource::Reference(reference(node)?);
        parts.push((part(None, node, source), node.clone()));
    } else if !listed {
        // Override policies alone do not say where to run.
        let spec = placement::read(&object, RULES);
        let source = PlacementSource::Inline(spec);
        parts.push((part(None, properties, source), properties.clone()));
    }
    let at = list.as_ref().unwrap_or(properties);
    let placement = put_together(&parts, at);
    let components = match overrides.is_empty() {
        true => None,
        false => Some(overriding::apply(at, spec, &overrides)?),
    };
    Some(DeployStep {
        placement,
        parts: parts.into_iter().map(|(part, _)| part).collect(),
        path: properties.path.to_string(),
        components,
        wait: wait.unwrap_or_default(),
    })
}

fn part(policy: Option<&str>, node: &Node<'_>, source: PlacementSource) -> PlacementPart {
    PlacementPart {
        policy: policy.map(str::to_owned),
        path: node.path.to_string(),
        source,
    }
}

/// The step that stands in for a placing policy where there is no workflow; every override policy changes it.
pub(super) fn from_policy<'a>(
    policy: &Policy<'a>,
    policies: &Policies<'a>,
    spec: &Object<'a>,
) -> Option<DeployStep> {
    let source = policy.placement.clone()?;
    let properties = policy
        .node
        .child("properties", policy.node.value.get("properties")?);
    let parts = [(part(Some(policy.name), &properties, source), properties.clone())];
    let overrides: Vec<_> = policies.all.iter().filter_map(|p| p.changes.as_ref()).collect();
    let components = match overrides.is_empty() {
        true => None,
        false => Some(overriding::apply(&policy.node, spec, &overrides)?),
    };
    Some(DeployStep {
        placement: put_together(&parts, &properties),
        parts: parts.into_iter().map(|(part, _)| part).collect(),
        path: properties.path.to_string(),
        components,
        wait: WaitFor::default(),
    })
}

/// The placement of a step; one with references is put together once they are resolved.
fn put_together(parts: &[(PlacementPart, Node<'_>)], list: &Node<'_>) -> PlacementSpec {
    let known: Option<Vec<_>> = parts
        .iter()
        .map(|(part, _)| match &part.source {
            PlacementSource::Inline(spec) => Some((part, spec, true)),
            PlacementSource::Topology(spec) => Some((part, spec, false)),
            PlacementSource::Reference(_) => None,
        })
        .collect();
    let combined = combine(&known.unwrap_or_default());
    for (index, reason) in combined.problems {
        let part = index.and_then(|index| parts.get(index));
        part.map_or(list, |(_, node)| node).refuse(reason);
    }
    combined.spec
}

/// What the policies of a step say.
#[derive(Default)]
struct Named<'p, 'a> {
    parts: Vec<(PlacementPart, Node<'a>)>,
    overrides: Vec<&'p Override<'a>>,
    /// Whether something in the list was refused.
    refused: bool,
}

/// The named policies, in order.
fn named<'p, 'a>(node: &Node<'a>, policies: &'p Policies<'a>) -> Named<'p, 'a> {
    let mut named = Named::default();
    let Some(entries) = node.list() else {
        named.refused = true;
        return named;
    };
    if entries.is_empty() {
        node.refuse("is empty: name placement policies, or write an inline placement");
        named.refused = true;
    }
    let mut seen = BTreeSet::new();
    for entry in &entries {
        let refused = match (entry.string(), entry) {
            (None, _) => true,
            (Some(name), entry) => match find(entry, name, policies, &mut seen) {
                None => true,
                Some(policy) => {
                    named.overrides.extend(&policy.changes);
                    if let Some(source) = &policy.placement {
                        named
                            .parts
                            .push((part(Some(name), entry, source.clone()), entry.clone()));
                    }
                    policy.changes.is_none() && policy.placement.is_none()
                }
            },
        };
        named.refused |= refused;
    }
    named
}

fn find<'p, 'a>(
    entry: &Node<'a>,
    name: &'a str,
    policies: &'p Policies<'a>,
    seen: &mut BTreeSet<&'a str>,
) -> Option<&'p Policy<'a>> {
    let Some(policy) = policies.find(name) else {
        let known = policies.all.iter().filter(|p| usable(p.type_)).map(|p| p.name);
        entry.refuse(format!(
            "there is no policy named {name:?}{}",
            choice(name, known)
        ));
        return None;
    };
    if !usable(policy.type_) {
        let type_ = policy.type_;
        entry.refuse(format!(
            "policy {name:?} has the type {type_}: only placement, topology and override policies can be named here"
        ));
        return None;
    }
    if !seen.insert(name) {
        entry.refuse(format!("policy {name:?} is named twice"));
        return None;
    }
    Some(policy)
}

fn usable(type_: &str) -> bool {
    super::policy::places(type_) || type_ == "override"
}

/// What holds over all placing steps that refer to no Placement; the others are looked at when that is resolved.
pub(super) fn check_together(placing: &[Placing<'_>], list: &Node<'_>) {
    let all: Vec<_> = placing.iter().map(|p| (p.name.as_str(), &p.spec)).collect();
    for problem in together(&all) {
        match problem {
            Together::Remainder { step, reason } => {
                if let Some(placing) = placing.get(step) {
                    placing.at.child("remainder", &Value::Null).refuse(reason);
                }
            }
            Together::Percent { reason } => list.refuse(reason),
        }
    }
}
