//! Who becomes the agent of a cluster: invitations, requests for certificates, and the rights that follow.
//!
//! Double opt-in: somebody who may write Clusters invites (`roundhouse join`), which gives out a token of a ServiceAccount
//! that may ask for one certificate and nothing else; and somebody accepts (`roundhouse accept`), at once or when the agent
//! has asked. What is asked for is judged by [`decide()`], pure; what the agent may is a Role and a RoleBinding that name its
//! present user exactly, so that a serial that is raised ends whatever was before. The same on every API server.
//!
//! Architecture Invariant: an identity is claimed in the status of its Cluster before it is approved. Of two requests by one
//! invitation one is approved, whenever the hub is killed.

mod decide;
mod decided;
pub(super) mod rights;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tokens;

pub(super) use decide::{Requested, Verdict, decide};
pub(super) use decided::told_by;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::cluster::{AgentIdentity, Cluster, IdentityMethod, Leave};

/// How long an invitation that was used stays for its agent to fetch the certificate, if the agent is not heard of before.
const FETCHED_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// An agent that renews its Lease this long after it was let in does so as who it is now: what was under way is over.
const SETTLED: SignedDuration = SignedDuration::from_secs(2);
/// The same where tokens are the identity: an API server may take the token of an account that is gone for this much longer
/// (kube-apiserver remembers for ten seconds whose a token is).
const TOKEN_SETTLED: SignedDuration = SignedDuration::from_secs(15);
/// How soon it is looked again whether an agent that was heard of is settled.
const LOOK: SignedDuration = SignedDuration::from_secs(5);

/// Whether the invitation of a cluster holds, and until when that may change by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Invitation {
    /// Whether it holds.
    pub(super) open: bool,
    /// When to look again.
    pub(super) until: Option<Timestamp>,
}

/// Judges the invitation of a cluster whose agent was last heard of at `heard`. Where tokens are the identity it is used from
/// the moment on in which it is accepted, and its agent may come whenever it holds.
pub(super) fn invitation(
    cluster: &Cluster,
    method: IdentityMethod,
    heard: Option<Timestamp>,
    now: Timestamp,
) -> Invitation {
    let closed = Invitation {
        open: false,
        until: None,
    };
    let spec = &cluster.spec;
    let Some(Time(until)) = spec.join_until else {
        return closed;
    };
    if spec.serial == 0 || cluster.metadata.deletion_timestamp.is_some() {
        return closed;
    }
    let used = used(cluster);
    let settled = match method {
        IdentityMethod::Certificate => SETTLED,
        IdentityMethod::Token => TOKEN_SETTLED,
    };
    let is_heard = |since| heard.is_some_and(|heard| heard.duration_since(since) > settled);
    let fetched_by = match (used, method) {
        (Some(since), _) if is_heard(since) => return closed,
        (Some(since), IdentityMethod::Certificate) => since
            .checked_add(FETCHED_WITHIN)
            .unwrap_or(Timestamp::MAX)
            .min(until),
        (Some(_), IdentityMethod::Token) | (None, _) => until,
    };
    if now >= fetched_by {
        return closed;
    }
    // Heard of, and it may still be as who it was before: the next time is soon.
    let is_about_to_settle = used.is_some_and(|since| heard.is_some_and(|heard| heard > since));
    let soon = is_about_to_settle.then(|| now.checked_add(LOOK).unwrap_or(Timestamp::MAX));
    Invitation {
        open: true,
        until: Some(soon.map_or(fetched_by, |soon| soon.min(fetched_by))),
    }
}

/// Whether the agent of the present serial is let in. Certificates are approved one by one, for a key; a token is given to
/// whoever is invited, so that each invitation is accepted by itself, also that of a cluster that was in before.
pub(super) fn lets_in(cluster: &Cluster, method: IdentityMethod) -> bool {
    let spec = &cluster.spec;
    let by_this_invitation = match method {
        IdentityMethod::Certificate => true,
        IdentityMethod::Token => spec.auto_accept || used(cluster).is_some(),
    };
    // One that is forgotten is not waited for: whatever its agent does meanwhile keeps nothing from going.
    let forgotten = cluster.metadata.deletion_timestamp.is_some() && spec.leave == Some(Leave::Forget);
    spec.accepted && by_this_invitation && !forgotten
}

/// When the invitation of the present serial was used, if it was.
fn used(cluster: &Cluster) -> Option<Timestamp> {
    let identity = identity_of(cluster)?;
    (identity.serial == cluster.spec.serial).then(|| identity.since.as_ref().map_or(Timestamp::MIN, |t| t.0))
}

/// What the status says of the agent's identity.
pub(super) fn identity_of(cluster: &Cluster) -> Option<&AgentIdentity> {
    cluster.status.as_ref()?.identity.as_ref()
}
