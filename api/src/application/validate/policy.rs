//! `spec.policies`.

use super::{
    executor,
    node::{Node, Object, Shape},
    once::{self, ApplyOncePolicy},
    overriding::{self, Override},
    placement, topology,
};
use crate::{
    application::{NamedAccount, PlacementSource, above_hundred},
    names::check_dns_label,
    placement::PlacementSpec,
};
use std::collections::BTreeSet;

const POLICY: Shape = Shape {
    known: &[&["name", "type", "properties"]],
    refused: &[],
};
const PLACEMENT: Shape = Shape {
    known: &[&placement::FIELDS],
    refused: &[],
};
/// A policy that refers to a Placement.
const REFERRING: Shape = Shape {
    known: &[&["placementRef"]],
    refused: &[],
};
const REFERENCE: Shape = Shape {
    known: &[&["name"]],
    refused: &[(
        "namespace",
        "namespace cannot be set: a Placement is looked for in the application's namespace",
    )],
};
/// What to do about a policy that places nothing.
const RULES: &str = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}], or name a Placement under \
                     placementRef";
/// Policy types that are built in.
const TYPES: [&str; 5] = ["placement", "topology", "override", "apply-once", "executor"];
/// Policy types that KubeVela's users and the seed know.
const KNOWN_ELSEWHERE: [&str; 10] = [
    "garbage-collect",
    "shared-resource",
    "take-over",
    "read-only",
    "resource-update",
    "replication",
    "health",
    "env-binding",
    "security",
    "deployment-insights",
];

/// The policies of an application.
#[derive(Debug, Default)]
pub(super) struct Policies<'a> {
    /// All of them, in order.
    pub(super) all: Vec<Policy<'a>>,
    /// What the apply-once policy says.
    pub(super) apply_once: ApplyOncePolicy,
    /// What the executor policy says.
    pub(super) executor: Option<NamedAccount>,
}

/// One policy.
#[derive(Debug)]
pub(super) struct Policy<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its type.
    pub(super) type_: &'a str,
    /// Where it is.
    pub(super) node: Node<'a>,
    /// What a placement or topology policy says.
    pub(super) placement: Option<PlacementSource>,
    /// What an override policy says.
    pub(super) changes: Option<Override<'a>>,
}

impl Policy<'_> {
    /// Whether it says where to run.
    pub(super) fn places(&self) -> bool {
        places(self.type_)
    }
}

/// Whether policies of this type say where to run.
pub(super) fn places(type_: &str) -> bool {
    matches!(type_, "placement" | "topology")
}

impl<'a> Policies<'a> {
    /// The policy of that name.
    pub(super) fn find(&self, name: &str) -> Option<&Policy<'a>> {
        self.all.iter().find(|policy| policy.name == name)
    }
}

/// Reads all policies.
pub(super) fn read_all<'a>(spec: &Object<'a>) -> Policies<'a> {
    let mut policies = Policies::default();
    let mut names = BTreeSet::new();
    let (mut apply_once_seen, mut executor_seen) = (false, false);
    for node in spec.list("policies") {
        let Some(object) = node.object(&POLICY) else {
            continue;
        };
        let name = object
            .required("name", "give the policy a name")
            .and_then(|node| super::name(&node, "policy name", &mut names));
        let Some(type_node) = object.required(
            "type",
            "use one of placement, topology, override, apply-once, executor",
        ) else {
            continue;
        };
        let Some(type_) = type_node.string() else { continue };
        let (mut placement, mut changes) = (None, None);
        match type_ {
            "placement" => placement = read_placement(&object),
            "topology" => placement = topology::read(&object, name).map(PlacementSource::Topology),
            "override" => changes = overriding::read(&object, spec),
            "apply-once" => {
                if apply_once_seen {
                    type_node.refuse("a second apply-once policy: an application has at most one");
                }
                apply_once_seen = true;
                policies.apply_once = once::read(&object, spec);
            }
            "executor" => {
                if executor_seen {
                    type_node.refuse("a second executor policy: an application has at most one");
                }
                executor_seen = true;
                policies.executor = executor::read(&object);
            }
            _ => super::refuse_type(&type_node, type_, &TYPES, &KNOWN_ELSEWHERE),
        }
        if let Some(name) = name {
            policies.all.push(Policy {
                name,
                type_,
                node,
                placement,
                changes,
            });
        }
    }
    policies
}

fn read_placement(policy: &Object<'_>) -> Option<PlacementSource> {
    let properties = policy.required("properties", &format!("under placement, {RULES}"))?;
    if properties
        .value
        .get("placementRef")
        .is_some_and(|value| !value.is_null())
    {
        let object = properties.object(&REFERRING)?;
        return reference(&object.optional("placementRef")?).map(PlacementSource::Reference);
    }
    let spec = placement::read(&properties.object(&PLACEMENT)?, RULES);
    Some(PlacementSource::Inline(spec))
}

/// A reference to a Placement: `{name: regions}`, or its bare name.
pub(super) fn reference(node: &Node<'_>) -> Option<String> {
    let name_node = match node.value.is_string() {
        true => node.clone(),
        false => node.object(&REFERENCE)?.required("name", "name a Placement")?,
    };
    let name = name_node.string()?;
    // A DNS subdomain, as every name of a custom resource.
    let labels = |part: &str| check_dns_label("Placement name", part, 63).is_ok();
    if name.len() > 253 || !name.split('.').all(labels) {
        name_node.refuse(format!(
            "{name:?} cannot be the name of a Placement: use lower-case letters, digits, '-' and '.'"
        ));
        return None;
    }
    Some(name.to_owned())
}

/// Reads the whole spec of a Placement.
pub(super) fn read_whole(spec: &Node<'_>) -> Option<PlacementSpec> {
    let what = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}]";
    let object = spec.object(&PLACEMENT)?;
    let placement = placement::read(&object, what);
    let rules = placement.placement.iter().enumerate();
    let sum = above_hundred(rules.map(|(index, rule)| (rule.name_or_index(index), rule.replicas)));
    if let (Some(sum), Some(list)) = (sum, object.optional("placement")) {
        list.refuse(format!(
            "the percentages add up to {sum}: at most 100% can be claimed"
        ));
    }
    Some(placement)
}
