//! Custom resource definitions: from a stored definition to the kinds it serves.

mod names;
mod status;
mod version;

pub(crate) use names::check as check_definition;
pub(crate) use status::{establish, terminate};
pub(crate) use version::CustomVersion;
pub(crate) use version::{resources, stored_as};

/// Table definitions are stored in.
pub(crate) const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
