//! What happens to an object between the request and the store.

mod decode;
mod defaults;
mod generation;
mod immutable;
mod job;
mod metadata;
mod namespace;
mod pod;
mod rules;
mod workload;

pub(crate) use decode::{check_kind, decode, mistyped, sanitize, unknown_fields};
pub(crate) use defaults::set_defaults;
pub(crate) use generation::next_generation;
pub(crate) use immutable::check_immutable;
pub(crate) use metadata::{check_metadata, check_metadata_update, stamp};
pub(crate) use namespace::check_namespace;
pub(crate) use rules::check_object;
