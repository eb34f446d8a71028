//! Laying an applied configuration over the live object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    ApplyError, Relation, Step,
    fields::below,
    print_path,
    topology::{Topology, element_step},
};

/// The live object with everything the configuration sets. What only the live object has stays.
///
/// # Errors
/// [`ApplyError::Misfit`] for an element of the configuration that cannot be told apart.
pub(super) fn merge<T: Topology>(live: &Value, config: &Value, topology: T) -> Result<Value, ApplyError> {
    value(Some(live), Some(config), topology, &mut vec![])
}

fn value<T: Topology>(
    live: Option<&Value>,
    config: Option<&Value>,
    topology: T,
    path: &mut Vec<Step>,
) -> Result<Value, ApplyError> {
    let (live, config) = match (live, config) {
        (Some(live), Some(config)) => (live, config),
        (one, other) => return Ok(one.or(other).cloned().unwrap_or_default()),
    };
    let (from, to) = (topology.relation(live), topology.relation(config));
    // A null object or list says nothing about what is in it.
    let relation = if config.is_null() && from != Relation::Atomic {
        return Ok(live.clone());
    } else {
        to
    };
    match (relation, live, config) {
        (Relation::Granular, Value::Object(live), Value::Object(config)) => {
            object(live, config, topology, path)
        }
        (Relation::Keyed | Relation::Set, Value::Array(live), Value::Array(config))
            if !(live.is_empty() && config.is_empty()) =>
        {
            list(live, config, relation, topology, path).map(Value::Array)
        }
        _ => Ok(config.clone()),
    }
}

fn object<T: Topology>(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    topology: T,
    path: &mut Vec<Step>,
) -> Result<Value, ApplyError> {
    let mut out = live.clone();
    for (name, config) in config {
        path.push(Step::field(name));
        let merged = value(live.get(name), Some(config), topology.child(name).node, path)?;
        path.pop();
        out.insert(name.clone(), merged);
    }
    Ok(Value::Object(out))
}

/// Elements of the configuration keep their order among themselves; an element of the live list alone stays before
/// the shared element it stood before.
fn list<T: Topology>(
    live: &[Value],
    config: &[Value],
    relation: Relation,
    topology: T,
    path: &mut Vec<Step>,
) -> Result<Vec<Value>, ApplyError> {
    let mut wanted: Vec<(Step, &Value)> = vec![];
    for (index, item) in config.iter().enumerate() {
        let step = element_step(topology, relation, item, index).map_err(|error| below(path, error))?;
        if wanted.iter().any(|(have, _)| *have == step) {
            return Err(ApplyError::Misfit {
                path: print_path(path),
                reason: format!("duplicate entries for key {step}"),
            });
        }
        wanted.push((step, item));
    }
    let configured: BTreeSet<&Step> = wanted.iter().map(|(step, _)| step).collect();
    let steps = live.iter().enumerate();
    let steps: Vec<Option<Step>> = steps
        .map(|(index, item)| element_step(topology, relation, item, index).ok())
        .collect();
    // Of live elements that are there twice, none is the one that the configuration means: it replaces them all.
    let mut found: BTreeMap<&Step, Option<&Value>> = BTreeMap::new();
    for (step, item) in steps.iter().zip(live) {
        if let Some(step) = step {
            found
                .entry(step)
                .and_modify(|one| *one = None)
                .or_insert(Some(item));
        }
    }
    let mut shared: VecDeque<&Step> = wanted
        .iter()
        .map(|(step, _)| step)
        .filter(|step| found.contains_key(step))
        .collect();

    let mut out = vec![];
    let mut emit = |(step, item): &(Step, &Value), out: &mut Vec<Value>| -> Result<(), ApplyError> {
        path.push(step.clone());
        let live = found.get(step).copied().flatten();
        out.push(value(live, Some(item), topology.element(), path)?);
        path.pop();
        Ok(())
    };
    let mut next = wanted.iter();
    for (step, item) in steps.iter().zip(live) {
        let Some(step) = step.as_ref().filter(|step| configured.contains(step)) else {
            out.push(item.clone());
            continue;
        };
        // Another shared element comes first in the configuration: this one waits for its turn there.
        if shared.front() != Some(&step) {
            continue;
        }
        for entry in next.by_ref() {
            emit(entry, &mut out)?;
            if entry.0 == *step {
                break;
            }
        }
        shared.pop_front();
    }
    for entry in next {
        emit(entry, &mut out)?;
    }
    Ok(out)
}
