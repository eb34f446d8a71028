//! What an agent, or who is invited to become one, may keep on the hub: objects of its own names, and of a size that fits
//! what they are for.

use serde_json::Value;

use crate::{
    auth::{Action, Attributes, cluster_of_invitation, denied, request_name},
    error::ApiError,
    kinds::Resource,
    object::meta,
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
    let Some(author) = author else { return Ok(()) };
    if let Some(cluster) = cluster_of_invitation(&author.identity.user) {
        return check_invited(cluster, resource, new);
    }
    if author.identity.agent_of().is_none() {
        return Ok(());
    }
    let limit = match (&*resource.group, &*resource.kind) {
        ("coordination.k8s.io", "Lease") => LEASE,
        ("roundhouse.dev", "ClusterReport") => REPORT,
        ("certificates.k8s.io", _) => REQUEST,
        _ => return Ok(()),
    };
    if old.is_none() {
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
    if roundhouse_patch::weight(new) > limit {
        return Err(ApiError::too_large(limit));
    }
    Ok(())
}

/// Who is invited asks for the certificate of the one agent, under the one name, and bounded: a name that belongs to another
/// cluster would stand in the way of that one's requests. Other servers have this as a ValidatingAdmissionPolicy.
fn check_invited(cluster: &str, resource: &Resource, new: &Value) -> Result<(), ApiError> {
    if &*resource.table != crate::csr::TABLE {
        return Ok(());
    }
    let (name, own) = (meta(new, "name"), request_name(cluster));
    if name != own {
        let why = format!("the request of the agent of cluster {cluster:?} is named {own:?}");
        return Err(resource.forbidden(name, &why));
    }
    if roundhouse_patch::weight(new) > REQUEST {
        return Err(ApiError::too_large(REQUEST));
    }
    Ok(())
}
