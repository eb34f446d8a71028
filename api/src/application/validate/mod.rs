//! Pure validation of an Application: names every unknown and ill-typed field, with its path and what to do.
//!
//! The spec is read field by field with a cursor ([`node`]) that notes what it cannot understand and goes on, so that
//! one pass finds everything. What is understood but not supported yet is refused by name, never ignored.

mod action;
mod component;
mod container;
mod deploy;
mod duration;
mod executor;
mod kind;
mod kubernetes;
mod metadata;
mod node;
mod objects;
mod once;
mod overrides;
mod overriding;
mod path;
mod placement;
mod policy;
mod schedule;
mod step;
mod task;
mod topology;
mod traits;
mod volumes;
mod workflow;

pub use action::{check_header, check_url};
pub(super) use action::{read as read_action, read_cluster_object};
pub(crate) use node::choice;

#[cfg(test)]
mod tests;

use super::ValidApplication;
use crate::names::{MAX_APPLICATION_NAME, NameError, check_dns_label};
use crate::placement::PlacementSpec;
use node::{Findings, Node, Shape};
use serde_json::Value;
use std::collections::BTreeSet;

/// Something in a spec that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Violation {
    /// Path of the field, such as `spec.workflow.steps[0].properties.placement[1].replicas`.
    pub path: String,
    /// What is wrong and what to do.
    pub reason: String,
}

const SPEC: Shape = Shape {
    known: &[&["components", "policies", "workflow"]],
    refused: &[],
};

/// Understands an application's `spec`, or says what in it cannot be understood.
///
/// # Errors
/// All violations that were found, in the order of the spec; never empty.
pub fn validate(spec: &Value) -> Result<ValidApplication, Vec<Violation>> {
    let findings = Findings::default();
    let application = read(&Node::root(spec, "spec", &findings));
    conclude(application, findings)
}

/// Understands the `spec` of a Placement, or says what in it cannot be understood: the same rules as for a placement
/// inside an application.
///
/// # Errors
/// All violations that were found, in the order of the spec; never empty.
pub fn validate_placement(spec: &Value) -> Result<PlacementSpec, Vec<Violation>> {
    let findings = Findings::default();
    let placement = policy::read_whole(&Node::root(spec, "spec", &findings));
    conclude(placement, findings)
}

fn conclude<T>(read: Option<T>, findings: Findings) -> Result<T, Vec<Violation>> {
    let violations: Vec<Violation> = findings
        .into_sorted()
        .into_iter()
        .map(|(path, reason)| Violation {
            path: path.to_string(),
            reason,
        })
        .collect();
    match read {
        Some(read) if violations.is_empty() => Ok(read),
        _ => Err(violations),
    }
}

/// Checks the name of an application: a DNS label of at most 50 characters, so that every name derived from it fits.
///
/// # Errors
/// [`NameError`] names the application and the rule.
pub fn check_application_name(name: &str) -> Result<(), NameError> {
    check_dns_label("application name", name, MAX_APPLICATION_NAME)
}

/// Reads the whole spec; `None` only if something was refused.
fn read(spec: &Node<'_>) -> Option<ValidApplication> {
    let object = spec.object(&SPEC)?;
    let components = component::read_all(&object);
    let policies = policy::read_all(&object);
    let (steps, mode) = workflow::read_all(&object, &policies);
    Some(ValidApplication {
        components,
        steps,
        mode,
        apply_once: policies.apply_once.mode,
        apply_once_rules: policies.apply_once.rules,
        executor: policies.executor,
    })
}

/// Reads the `name` of a component, policy or step, and sees to it that it is unique.
fn name<'a>(node: &Node<'a>, what: &'static str, seen: &mut BTreeSet<String>) -> Option<&'a str> {
    let name = node.string()?;
    if let Err(error) = check_dns_label(what, name, MAX_APPLICATION_NAME) {
        node.refuse(error.to_string());
        return None;
    }
    if !seen.insert(name.to_owned()) {
        node.refuse(format!("{what} {name:?} is used twice: give each its own name"));
        return None;
    }
    Some(name)
}

/// Says of a type that it is not supported: known elsewhere, or not known at all.
fn refuse_type(node: &Node<'_>, type_: &str, known: &[&str], known_elsewhere: &[&str]) {
    if known_elsewhere.contains(&type_) {
        let known = known.join(", ");
        node.refuse(format!("{type_:?} is not supported yet: use one of {known}"));
    } else {
        let choice = node::choice(type_, known.iter().copied());
        node.refuse(format!("unknown type {type_:?}{choice}"));
    }
}
