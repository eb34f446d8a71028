//! What an agent may keep on the hub: objects of its own names, and of a size that fits what they are for.

use serde_json::Value;

use crate::{
    auth::{Action, Attributes, denied},
    error::ApiError,
    kinds::Resource,
    object::{self, meta},
    server::Core,
    verbs::Author,
};

/// Largest Lease of an agent, in bytes as stored: one has about 600.
const LEASE: usize = 8 << 10;
/// Largest ClusterReport, in bytes as stored: one has about 2,000, more where nodes have many kinds of resources.
const REPORT: usize = 64 << 10;
/// Largest request for a certificate: one has about 2,000 bytes, of which the hub keeps some for an hour.
const REQUEST: usize = 32 << 10;

/// Refuses an agent the creation (`old` is absent) of an object whose name, which no path has told, is not its own; and
/// whatever object of its own that is larger than it has reason to be.
///
/// # Errors
/// 403, 413.
pub(crate) fn check_agent(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
    author: Option<&Author>,
) -> Result<(), ApiError> {
    let Some(author) = author.filter(|author| author.identity.agent_of().is_some()) else {
        return Ok(());
    };
    let limit = match (&*resource.group, &*resource.kind) {
        ("coordination.k8s.io", "Lease") => LEASE,
        ("roundhouse.dev", "ClusterReport") => REPORT,
        ("certificates.k8s.io", _) => REQUEST,
        _ => return Ok(()),
    };
    if old.is_none() && resource.namespaced {
        let attributes = Attributes {
            verb: "create",
            group: &resource.group,
            resource: &resource.plural,
            subresource: "",
            namespace,
            name: meta(new, "name"),
        };
        let decision = core
            .authorizer
            .decide(&author.identity, &Action::Resource(attributes));
        if !decision.allowed {
            return Err(denied(&author.identity, &attributes, &decision.reason));
        }
    }
    if object::encode(new).len() > limit {
        return Err(ApiError::too_large(limit));
    }
    Ok(())
}
