//! Taking fields out of an object.

use serde_json::Value;

use super::{
    FieldSet, Relation, Step,
    topology::{Topology, element_step},
};

/// The value without these fields; `None` if nothing is left of it. Nothing is taken out of what is atomic.
pub(super) fn remove<T: Topology>(value: &Value, fields: &FieldSet, topology: T) -> Option<Value> {
    let relation = topology.relation(value);
    match (relation, value) {
        (Relation::Granular, Value::Object(map)) => {
            let mut out = serde_json::Map::new();
            for (name, value) in map {
                let step = Step::field(name);
                if let Some(left) = keep(value, fields, &step, topology.child(name).node) {
                    out.insert(name.clone(), left);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        (Relation::Keyed | Relation::Set, Value::Array(items)) => {
            let mut out = vec![];
            for (index, item) in items.iter().enumerate() {
                let left = match element_step(topology, relation, item, index) {
                    Ok(step) => keep(item, fields, &step, topology.element()),
                    Err(_) => Some(item.clone()),
                };
                out.extend(left);
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
        _ => Some(value.clone()),
    }
}

fn keep<T: Topology>(value: &Value, fields: &FieldSet, step: &Step, topology: T) -> Option<Value> {
    match fields.entries.get(step) {
        None => Some(value.clone()),
        Some(node) if node.member => None,
        Some(node) => remove(value, &node.below, topology),
    }
}
