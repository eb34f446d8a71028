//! What happens to an object between the request and the store.

mod agent;
mod container;
mod decode;
mod defaults;
mod escalation;
mod events;
mod generation;
mod immutable;
mod job;
mod metadata;
mod namespace;
mod pod;
mod pod_spec;
mod roles;
mod rules;
mod secret;
mod service;
mod strategy;
mod workload;

pub(crate) use agent::check_agent;
pub(crate) use decode::{check_kind, decode, mistyped, prune_root, sanitize, unknown_fields};
pub(crate) use defaults::{cpu_in_use, set_defaults};
pub(crate) use escalation::check_escalation;
pub(crate) use generation::next_generation;
pub(crate) use immutable::check_immutable;
pub(crate) use metadata::{check_metadata, check_metadata_update, stamp};
pub(crate) use namespace::check_namespace;
pub(crate) use rules::check_object;
