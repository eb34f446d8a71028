//! What wakes a bundle: its Bundle on the hub, its objects and its ledger in the member.

pub(crate) mod bundles;
pub(crate) mod delivered;
pub(crate) mod ear;
pub(crate) mod inbox;
pub(crate) mod kept;
pub(crate) mod ledgers;
pub(crate) mod objects;
pub(crate) mod registry;
pub(crate) mod resume;
mod steady;

pub(crate) use steady::{Steady, steady};

use crate::silence::noticing;
use kube::Client;

/// The client to watch a member with: it says in the log which watch was dead in silence. What happened meanwhile was not seen, so
/// that drift stood until the next look at everything.
fn watching(member: Client) -> Client {
    noticing(member, |path| {
        tracing::warn!(
            path,
            "this watch of the member was silent, and is made again; check what cuts connections in silence on the way to its API \
             server if this happens again"
        );
    })
}
