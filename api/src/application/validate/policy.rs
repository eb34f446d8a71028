//! `spec.policies`.

use super::{
    node::{Node, Object, Shape},
    once::{self, ApplyOncePolicy},
    placement,
};
use crate::placement::PlacementSpec;
use std::collections::BTreeSet;

const POLICY: Shape = Shape {
    known: &["name", "type", "properties"],
    refused: &[],
};
const PLACEMENT: Shape = Shape {
    known: &placement::FIELDS,
    refused: &[],
};
/// Policy types that are built in.
const TYPES: [&str; 2] = ["placement", "apply-once"];
/// Policy types that KubeVela's users and the seed know.
const KNOWN_ELSEWHERE: [&str; 12] = [
    "topology",
    "override",
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
    /// What a placement policy says.
    pub(super) placement: Option<PlacementSpec>,
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
    let mut apply_once_seen = false;
    for node in spec.list("policies") {
        let Some(object) = node.object(&POLICY) else {
            continue;
        };
        let name = object
            .required("name", "give the policy a name")
            .and_then(|node| super::name(&node, "policy name", &mut names));
        let Some(type_node) = object.required("type", "use one of placement, apply-once") else {
            continue;
        };
        let Some(type_) = type_node.string() else { continue };
        let mut placement = None;
        match type_ {
            "placement" => placement = read_placement(&object),
            "apply-once" => {
                if apply_once_seen {
                    type_node.refuse("a second apply-once policy: an application has at most one");
                }
                apply_once_seen = true;
                policies.apply_once = once::read(&object, spec);
            }
            _ => super::refuse_type(&type_node, type_, &TYPES, &KNOWN_ELSEWHERE),
        }
        if let Some(name) = name {
            policies.all.push(Policy {
                name,
                type_,
                node,
                placement,
            });
        }
    }
    policies
}

fn read_placement(policy: &Object<'_>) -> Option<PlacementSpec> {
    let what = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}]";
    let properties = policy.required("properties", &format!("under placement, {what}"))?;
    Some(placement::read(&properties.object(&PLACEMENT)?, what))
}
