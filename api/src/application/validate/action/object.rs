//! `apply-object`, `read-object` and `delete-object`.

use super::super::node::{Node, Shape};
use crate::application::{ApplyObject, ClusterVerb, HubObject, identity};
use crate::names::{GROUP, OAM_GROUP};
use serde_json::Value;

const CLUSTER: &str =
    "is not known here: write clusters: [c1, c2], or labels such as clusters: {region: east}";
const CLUSTERS: &str = "cannot come from an input: write the clusters, or their labels";
const OF_CLUSTERS: &str = "is for objects in clusters: write clusters beside it, or leave it out";
const ON_HUB: [(&str, &str); 6] = [
    ("cluster", CLUSTER),
    ("clusters", CLUSTERS),
    ("tolerations", OF_CLUSTERS),
    ("maxParallel", OF_CLUSTERS),
    ("parallelism", OF_CLUSTERS),
    ("maxFailedClusters", OF_CLUSTERS),
];
const APPLY: Shape = Shape {
    known: &[&["value"]],
    refused: &ON_HUB,
};
const NAMED: Shape = Shape {
    known: &[&["apiVersion", "kind", "namespace", "name"]],
    refused: &ON_HUB,
};
/// Which clusters, and how the step goes about them.
const IN_CLUSTERS: [&str; 4] = ["clusters", "maxParallel", "parallelism", "maxFailedClusters"];
const APPLY_IN_CLUSTERS: Shape = Shape {
    known: &[&["value", "tolerations"], &IN_CLUSTERS],
    refused: &[("cluster", CLUSTER)],
};
const READ_IN_CLUSTERS: Shape = Shape {
    known: &[
        &["apiVersion", "kind", "namespace", "name", "tolerations"],
        &IN_CLUSTERS,
    ],
    refused: &[("cluster", CLUSTER)],
};
const DELETE_IN_CLUSTERS: Shape = Shape {
    known: &[&["apiVersion", "kind", "namespace", "name"], &IN_CLUSTERS],
    refused: &[
        ("cluster", CLUSTER),
        (
            "tolerations",
            "tolerations are not needed here: a taint keeps nothing from being taken away",
        ),
    ],
};
const NOT_WAITED: &str = "wait looks at objects on the hub: a read-object step with clusters waits until they all have the \
                          object and report what its outputs name";
const WAITED: Shape = Shape {
    known: &[&["apiVersion", "kind", "namespace", "name"]],
    refused: &[("cluster", NOT_WAITED), ("clusters", NOT_WAITED)],
};

/// What is done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Apply,
    Read,
    Delete,
    /// In clusters, where agents do it with rights of their own.
    There(ClusterVerb),
}

/// `apply-object`: KubeVela's `value`.
pub(super) fn apply(node: &Node<'_>) -> Option<ApplyObject> {
    written(node, &APPLY, Verb::Apply)
}

/// The object of a step with `clusters`, as the clusters are to have it, or what names it.
pub(super) fn in_clusters(verb: ClusterVerb, node: &Node<'_>) -> Option<Value> {
    let there = Verb::There(verb);
    match verb {
        ClusterVerb::Apply => Some(written(node, &APPLY_IN_CLUSTERS, there)?.value),
        ClusterVerb::Read => {
            of_shape(node, &READ_IN_CLUSTERS, there)?;
            Some(identity(node.value))
        }
        ClusterVerb::Delete => {
            of_shape(node, &DELETE_IN_CLUSTERS, there)?;
            Some(identity(node.value))
        }
    }
}

fn written(node: &Node<'_>, shape: &Shape, verb: Verb) -> Option<ApplyObject> {
    let object = node.object(shape)?;
    let value = object.required("value", "write the object")?;
    // Its other fields are the API server's to understand.
    let open = value.open_object()?;
    let api_version = open.required("apiVersion", "name the API version of the object");
    let kind = open.required("kind", "name the kind of the object");
    let metadata = open.required("metadata", "name the object under metadata.name");
    let metadata = metadata.and_then(|node| node.open_object());
    if let Some(metadata) = &metadata {
        for field in [
            "generateName",
            "ownerReferences",
            "finalizers",
            "managedFields",
            "uid",
            "resourceVersion",
        ] {
            if let Some(node) = metadata.optional(field) {
                node.refuse(format!("{field} cannot be set here: leave it out"));
            }
        }
    }
    let name = metadata
        .as_ref()
        .and_then(|m| m.required("name", "name the object"));
    let namespace = metadata.as_ref().and_then(|m| m.optional("namespace"));
    let named = read(verb, api_version, kind, namespace, name)?;
    Some(ApplyObject {
        object: named,
        value: value.value.clone(),
    })
}

/// `read-object` and `delete-object`.
pub(super) fn named(node: &Node<'_>, verb: Verb) -> Option<HubObject> {
    of_shape(node, &NAMED, verb)
}

/// The object of a `wait`.
pub(in super::super) fn waited(node: &Node<'_>) -> Option<HubObject> {
    of_shape(node, &WAITED, Verb::Read)
}

fn of_shape(node: &Node<'_>, shape: &Shape, verb: Verb) -> Option<HubObject> {
    let object = node.object(shape)?;
    let api_version = object.required("apiVersion", "name the API version of the object");
    let kind = object.required("kind", "name the kind of the object");
    let name = object.required("name", "name the object");
    read(verb, api_version, kind, object.optional("namespace"), name)
}

fn read(
    verb: Verb,
    api_version: Option<Node<'_>>,
    kind: Option<Node<'_>>,
    namespace: Option<Node<'_>>,
    name: Option<Node<'_>>,
) -> Option<HubObject> {
    let api_version = api_version.and_then(|node| {
        let text = node.text()?;
        let version = text.rsplit('/').next().unwrap_or_default();
        let group = text.strip_suffix(version).unwrap_or_default();
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        let is_one = part(version) && (group.is_empty() || group.strip_suffix('/').is_some_and(part));
        if !is_one {
            node.refuse(format!(
                "{text:?} is no API version: write one such as v1 or apps/v1"
            ));
        }
        is_one.then(|| text.to_owned())
    });
    let kind = kind.and_then(|node| {
        let text = node.text()?;
        let is_one = text.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_one {
            node.refuse(format!("{text:?} is no kind: write one such as ConfigMap"));
            return None;
        }
        if let Some(api_version) = &api_version
            && let Err(reason) = permitted(verb, api_version, text)
        {
            node.refuse(reason);
            return None;
        }
        Some(text.to_owned())
    });
    let named = |node: Node<'_>, what: &str| {
        let text = node.text()?;
        if !is_name(text) {
            node.refuse(format!("{text:?} is no name of {what}"));
            return None;
        }
        Some(text.to_owned())
    };
    let name = name.and_then(|node| named(node, "an object"));
    let namespace = match namespace {
        None => None,
        Some(node) => Some(named(node, "a namespace")?),
    };
    Some(HubObject {
        api_version: api_version?,
        kind: kind?,
        namespace,
        name: name?,
    })
}

/// Whether steps may do this with objects of this kind. The hub acts with its own rights: what would give its rights away,
/// or show in a status what few may read, is left to those who have the rights themselves.
fn permitted(verb: Verb, api_version: &str, kind: &str) -> Result<(), String> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let reads = matches!(verb, Verb::Read | Verb::There(ClusterVerb::Read));
    match (group, kind) {
        ("", "Secret") if reads => Err(
            "Secrets are not read by steps: their content would stand in the application's status; take a header of a \
             request from one by valueFrom.secretKeyRef"
                .to_owned(),
        ),
        // What an agent may write is its cluster's to say, as with the objects of a component.
        _ if matches!(verb, Verb::There(_)) => Ok(()),
        ("", "Secret" | "ServiceAccount") => Err(format!(
            "{kind}s are not written by steps: they give rights that their author may not have; create it beside the application"
        )),
        ("rbac.authorization.k8s.io", _) if verb != Verb::Read => Err(format!(
            "{kind}s are not written by steps: they give rights that their author may not have; create it beside the application"
        )),
        (GROUP | OAM_GROUP, _) if verb != Verb::Read => {
            Err(format!("objects of {group} are the hub's own or its users': steps may only read them"))
        }
        _ => Ok(()),
    }
}

/// Whether a text can be a name in the path of an object.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.:_".contains(&b);
    (1..=253).contains(&text.len()) && text.bytes().all(plain) && !text.bytes().all(|b| b == b'.')
}
