//! Placing steps: what one says, and what has to hold over all of them.

use super::{
    component,
    node::{Node, Object, Shape, choice},
    overrides,
    overriding::{self, Override},
    placement,
    policy::{Policies, Policy, reference},
    step::{self, Scope},
};
use crate::{
    application::{
        DeployStep, FieldPatch, PlacementPart, PlacementSource, Together, Until, WaitFor, combine, together,
    },
    placement::PlacementSpec,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// How every placing step dispatches.
const DISPATCH: [&str; 6] = [
    "placementRef",
    "policies",
    "wait",
    "maxParallel",
    "parallelism",
    "maxFailedClusters",
];
const DEPLOY: Shape = Shape {
    known: &[&placement::FIELDS, &DISPATCH, &["auto"]],
    refused: &[INLINE_POLICIES, TERRAFORM],
};
const APPLY_COMPONENT: Shape = Shape {
    known: &[&["name", "component", "patch"], &placement::FIELDS, &DISPATCH],
    refused: &[
        INLINE_POLICIES,
        TERRAFORM,
        (
            "cluster",
            "cluster is not supported: name it under placement, such as [{clusters: [c1]}]",
        ),
        (
            "namespace",
            "namespace is not supported: set it in the component's objects",
        ),
    ],
};
const INLINE_POLICIES: (&str, &str) = (
    "inlinePolicies",
    "inlinePolicies is not supported: write the placement here",
);
const TERRAFORM: (&str, &str) = (
    "ignoreTerraformComponent",
    "ignoreTerraformComponent is not supported: there are no terraform components",
);
const WAIT: Shape = Shape {
    known: &[&["until"]],
    refused: &[],
};
const PATCH: Shape = Shape {
    known: &[&["to", "value", "valueFrom"]],
    refused: &[],
};
const PATCH_TO: Shape = Shape {
    known: &[&["field"]],
    refused: &[],
};
const PATCH_FROM: Shape = Shape {
    known: &[&["apiVersion", "kind", "name", "field"]],
    refused: &[],
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
    /// The only component that it dispatches.
    pub(super) only: Option<String>,
    /// The map that holds the placement's fields.
    pub(super) at: Node<'a>,
}

/// Reads the properties of a placing step; with `single`, of one that applies a single component.
pub(super) fn read<'a>(
    properties: &Node<'a>,
    policies: &Policies<'a>,
    spec: &Object<'a>,
    scope: &Scope<'_>,
    single: bool,
) -> Option<DeployStep> {
    let object = properties.object(if single { &APPLY_COMPONENT } else { &DEPLOY })?;
    let (wait, until) = object
        .optional("wait")
        .map(|node| wait(&node, scope))
        .unwrap_or_default();
    let auto = object.optional("auto").and_then(|node| node.boolean());
    let only = match single {
        true => Some(applied_component(&object, spec)?),
        false => None,
    };
    let patch = match object.optional("patch") {
        Some(node) => {
            let kind = only.as_ref().and_then(|only| component::kind_of(spec, only));
            Some(patch(&node, scope, kind)?)
        }
        None => None,
    };
    let max_parallel = max_parallel(&object, wait);
    let max_failed_clusters = max_failed_clusters(&object);
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
    } else if !listed && !inline && single && policies.all.iter().any(Policy::places) {
        // It goes where the application goes.
        for policy in &policies.all {
            if let Some(source) = &policy.placement {
                let at = policy
                    .node
                    .child("properties", policy.node.value.get("properties")?);
                parts.push((part(Some(policy.name), &at, source.clone()), at));
            }
        }
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
        only,
        patch,
        asks: auto == Some(false),
        wait,
        until,
        max_parallel,
        max_failed_clusters,
    })
}

/// `ready`, `applied`, `none`, or `{until: …}`.
fn wait(node: &Node<'_>, scope: &Scope<'_>) -> (WaitFor, Option<Until>) {
    if node.value.is_object() {
        let until = node
            .object(&WAIT)
            .and_then(|object| object.required("until", "say what is waited for, such as {ready: \"90%\"}"))
            .and_then(|node| step::until(&node, scope));
        return (WaitFor::Ready, until);
    }
    let word = node.word(&[
        ("ready", WaitFor::Ready),
        ("applied", WaitFor::Applied),
        ("none", WaitFor::None),
    ]);
    (word.unwrap_or_default(), None)
}

/// `maxFailedClusters`.
pub(super) fn max_failed_clusters(object: &Object<'_>) -> Option<u32> {
    let node = object.optional("maxFailedClusters")?;
    node.integer(0, u32::MAX)
}

/// `maxParallel`, or KubeVela's `parallelism`.
pub(super) fn max_parallel(object: &Object<'_>, wait: WaitFor) -> Option<u32> {
    let (ours, theirs) = (object.optional("maxParallel"), object.optional("parallelism"));
    if let (Some(_), Some(theirs)) = (&ours, &theirs) {
        theirs.refuse("cannot be used beside maxParallel, which says the same: keep one of them");
    }
    let node = ours.or(theirs)?;
    if wait == WaitFor::None {
        node.refuse(
            "cannot be used with wait: none, where no cluster is waited for: wait for applied or ready",
        );
    }
    node.integer(1, u32::MAX)
}

/// The component that a step applies: `component`, or the seed's `name`.
fn applied_component(object: &Object<'_>, spec: &Object<'_>) -> Option<String> {
    let node = match object.optional("component") {
        Some(node) => {
            if let Some(other) = object.optional("name") {
                other.refuse("cannot be used beside component, which says the same: keep one of them");
            }
            node
        }
        None => object.required("name", "name the component to apply")?,
    };
    let name = node.text()?;
    let names = component::names(spec);
    if !names.contains(&name) {
        let known = choice(name, names.into_iter());
        node.refuse(format!("there is no component named {name:?}{known}"));
        return None;
    }
    Some(name.to_owned())
}

/// The seed's `patch`: a field of the component's object, and the value or the input that it gets.
fn patch(node: &Node<'_>, scope: &Scope<'_>, kind: Option<&str>) -> Option<FieldPatch> {
    let object = node.object(&PATCH)?;
    let at = object
        .required("to", "say which field, such as {field: spec.containers[0].image}")?
        .object(&PATCH_TO)?
        .required("field", "name a field, such as spec.containers[0].image")?;
    let field = step::key(&at)?;
    overrides::check_change(&at, &field.pointer(), kind);
    let filled = |key: &str| scope.keys.iter().any(|filled| filled.as_str() == key);
    let by_input = filled("patch.valueFrom.field") || filled("patch.value");
    if let Some(from) = object.optional("valueFrom") {
        // What the value is of, for people: the step that applies it gives the value as an output.
        let from = from.object(&PATCH_FROM)?;
        if let Some(field) = from.optional("field") {
            field.refuse("comes from an input: give the field as an output of the step that applies the object, and take it with parameterKey patch.valueFrom.field");
        }
    }
    let value = object.present("value").map(|node| node.value.clone());
    match (&value, by_input) {
        (None, false) => node.refuse(
            "has no value: write it under value, or take it from an input with parameterKey patch.valueFrom.field",
        ),
        (Some(_), true) => node.refuse("has a value and an input for it: keep one of them"),
        _ => {}
    }
    Some(FieldPatch { field, value })
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
        only: None,
        patch: None,
        asks: false,
        wait: WaitFor::default(),
        until: None,
        max_parallel: None,
        max_failed_clusters: None,
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
    let all: Vec<_> = placing
        .iter()
        .map(|p| (p.name.as_str(), &p.spec, p.only.as_deref()))
        .collect();
    for problem in together(&all) {
        match problem {
            Together::Remainder { step, reason } => {
                if let Some(placing) = placing.get(step) {
                    placing.at.child("remainder", &Value::Null).refuse(reason);
                }
            }
            Together::Twice { step, reason } => {
                if let Some(placing) = placing.get(step) {
                    placing.at.refuse(reason);
                }
            }
            Together::Percent { reason } => list.refuse(reason),
        }
    }
}
