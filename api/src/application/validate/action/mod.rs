//! What steps that act say in their properties.

mod notification;
mod object;
mod request;
mod source;

#[cfg(test)]
mod tests;

pub(super) use object::waited;
pub use request::check_header;
pub use source::check_url;

use super::{
    Violation,
    node::{Findings, Node},
    path::Path,
};
use crate::application::{ActionKind, ActionProperties, ClusterVerb};
use serde_json::{Value, json};

/// Reads the properties of a step that acts.
///
/// # Errors
/// All violations, their paths beginning with `properties`; never empty.
pub(in crate::application) fn read(
    kind: ActionKind,
    properties: &Value,
) -> Result<ActionProperties, Vec<Violation>> {
    let findings = Findings::default();
    let empty = json!({});
    let properties = if properties.is_null() { &empty } else { properties };
    let action = read_node(kind, &Node::root(properties, "properties", &findings));
    super::conclude(action, findings)
}

/// The same, with the places of what is refused below `properties`.
pub(super) fn read_with_paths(
    kind: ActionKind,
    properties: &Value,
) -> Result<ActionProperties, Vec<(Path, String)>> {
    let findings = Findings::default();
    let action = read_node(kind, &Node::root(properties, "properties", &findings));
    let refused = findings.into_sorted();
    match action {
        Some(action) if refused.is_empty() => Ok(action),
        _ => Err(refused),
    }
}

/// Reads the object of a step with `clusters`: the manifest as it is written there.
///
/// # Errors
/// All violations, their paths beginning with `properties`; never empty.
pub(in crate::application) fn read_cluster_object(
    verb: ClusterVerb,
    properties: &Value,
) -> Result<Value, Vec<Violation>> {
    let findings = Findings::default();
    let object = object::in_clusters(verb, &Node::root(properties, "properties", &findings));
    super::conclude(object, findings)
}

/// The same, with the places of what is refused below `properties`.
pub(super) fn check_cluster_object(verb: ClusterVerb, properties: &Value) -> Vec<(Path, String)> {
    let findings = Findings::default();
    object::in_clusters(verb, &Node::root(properties, "properties", &findings));
    findings.into_sorted()
}

/// `None` only if something was refused.
fn read_node(kind: ActionKind, node: &Node<'_>) -> Option<ActionProperties> {
    Some(match kind {
        ActionKind::Request => ActionProperties::Request(request::request(node)?),
        ActionKind::Webhook => ActionProperties::Webhook(request::webhook(node)?),
        ActionKind::Notification => ActionProperties::Notification(notification::notification(node)?),
        ActionKind::ApplyObject => ActionProperties::ApplyObject(object::apply(node)?),
        ActionKind::ReadObject => ActionProperties::ReadObject(object::named(node, object::Verb::Read)?),
        ActionKind::DeleteObject => {
            ActionProperties::DeleteObject(object::named(node, object::Verb::Delete)?)
        }
    })
}
