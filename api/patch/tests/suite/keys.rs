//! Whether a document's merge keys are unique.

use roundhouse_patch::schema::{Node, PLAIN};
use serde_json::Value;

/// True when no list that merges holds two elements of one key (or one scalar twice).
pub(crate) fn unique_keys(value: &Value, node: &'static Node) -> bool {
    let Value::Object(fields) = value else { return true };
    fields.iter().all(|(name, value)| {
        let field = node.field(name);
        let child = field
            .and_then(|field| field.child)
            .or(node.values)
            .unwrap_or(&PLAIN);
        match (value, field) {
            (Value::Array(items), Some(field)) if field.strategy.merges() => {
                let identity = |item: &Value| field.merge_key.map_or(item.clone(), |key| item[key].clone());
                let keys: Vec<Value> = items.iter().map(identity).collect();
                let unique = (1..keys.len()).all(|at| !keys[..at].contains(&keys[at]));
                unique && items.iter().all(|item| unique_keys(item, child))
            }
            (value, _) => unique_keys(value, child),
        }
    })
}
