//! The fields an object sets.

use serde_json::Value;

use super::{
    ApplyError, FieldSet, Relation, Step, print_path,
    set::Node,
    topology::{Topology, element_step},
};

/// The fields that a configuration sets: every scalar, every atomic list and object, every element of a list, every
/// entry of a map, and what is empty or null.
///
/// # Errors
/// [`ApplyError::Misfit`] for an element that cannot be told apart, or one that is there twice.
pub(super) fn fields_of<T: Topology>(value: &Value, topology: T) -> Result<FieldSet, ApplyError> {
    match walk(value, topology, &mut vec![], true)? {
        Some(set) => Ok(set),
        None => Ok(FieldSet::default()),
    }
}

/// The fields that an object has, as far as they can be told apart. Of elements there twice the fields of both count.
pub(super) fn fields_of_live<T: Topology>(value: &Value, topology: T) -> FieldSet {
    match walk(value, topology, &mut vec![], false) {
        Ok(Some(set)) => set,
        _ => FieldSet::default(),
    }
}

/// What is set below a value; `None` if the value is a leaf.
fn walk<T: Topology>(
    value: &Value,
    topology: T,
    path: &mut Vec<Step>,
    strict: bool,
) -> Result<Option<FieldSet>, ApplyError> {
    let relation = topology.relation(value);
    let mut set = FieldSet::default();
    match (relation, value) {
        (Relation::Granular, Value::Object(fields)) => {
            for (name, value) in fields {
                let child = topology.child(name);
                let step = Step::field(name);
                path.push(step.clone());
                let below = walk(value, child.node, path, strict)?;
                path.pop();
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let node = Node {
                    member: below.is_none() || empty || !child.named,
                    below: below.unwrap_or_default(),
                };
                // A named list without elements is neither a leaf nor leads to one.
                if node.member || !node.below.is_empty() {
                    set.entries.insert(step, node);
                }
            }
        }
        (Relation::Keyed | Relation::Set, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let step = match element_step(topology, relation, item, index) {
                    Ok(step) => step,
                    Err(error) if strict => return Err(below(path, error)),
                    Err(_) => continue,
                };
                if strict && set.entries.contains_key(&step) {
                    return Err(ApplyError::Misfit {
                        path: print_path(path),
                        reason: format!("duplicate entries for key {step}"),
                    });
                }
                path.push(step.clone());
                let below = walk(item, topology.element(), path, strict)?;
                path.pop();
                let node = set.entries.entry(step).or_default();
                node.member = true;
                node.below = std::mem::take(&mut node.below).union(below.unwrap_or_default());
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(set))
}

/// Puts the path of the list before what is wrong with its element.
pub(super) fn below(path: &[Step], error: ApplyError) -> ApplyError {
    match error {
        ApplyError::Misfit { path: at, reason } => ApplyError::Misfit {
            path: print_path(path),
            reason: format!("{at}: {reason}"),
        },
        other => other,
    }
}
