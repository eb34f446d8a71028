//! The policy `executor`.

use super::node::{Node, Object, Shape};
use crate::{application::NamedAccount, names::check_dns_label};

const EXECUTOR: Shape = Shape {
    known: &[&["serviceAccount", "namespace"]],
    refused: &[],
};
const WHAT: &str = "name the service account of the clusters under serviceAccount";

/// Reads the policy: a service account by its name and, where that is not the application's, its namespace.
pub(super) fn read(policy: &Object<'_>) -> Option<NamedAccount> {
    let node = policy.required("properties", WHAT)?;
    let properties = node.object(&EXECUTOR)?;
    let name = properties.required("serviceAccount", WHAT);
    let namespace = properties.optional("namespace");
    let name = name.and_then(|node| checked(&node, "service account", true));
    let namespace = match namespace {
        None => None,
        Some(node) => Some(checked(&node, "namespace", false)?),
    };
    Some(NamedAccount {
        path: node.path.to_string(),
        namespace,
        name: name?,
    })
}

/// A name as Kubernetes takes it: a DNS label, or for a service account several of them with points between.
fn checked(node: &Node<'_>, what: &'static str, dotted: bool) -> Option<String> {
    let text = node.string()?;
    let parts = if dotted {
        text.split('.').collect()
    } else {
        vec![text]
    };
    let wrong = parts
        .iter()
        .find_map(|part| check_dns_label(what, part, 63).err());
    match wrong {
        None if text.len() <= 253 => Some(text.to_owned()),
        Some(error) => {
            node.refuse(error.to_string());
            None
        }
        None => {
            node.refuse(format!("{what} name has {} characters: use 1 to 253", text.len()));
            None
        }
    }
}
