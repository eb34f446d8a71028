//! What wakes a bundle: its Bundle on the hub, its objects in the member.

pub(crate) mod bundles;
pub(crate) mod inbox;
pub(crate) mod objects;
pub(crate) mod registry;
mod steady;

pub(crate) use steady::{Steady, steady};
