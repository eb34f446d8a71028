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
