//! The recorded cases, and whether a document's merge keys are unique.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use roundhouse_patch::schema::{Node, PLAIN};
use serde_json::Value;

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) strategy: String,
    pub(crate) last_applied: Option<Value>,
    pub(crate) desired: Value,
    pub(crate) live: Value,
    pub(crate) patch: Value,
    pub(crate) result: Value,
}

pub(crate) fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three-way.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
    lines
        .map(|line| {
            let mut case: Value = serde_json::from_str(&line.unwrap()).unwrap();
            Case {
                id: case["id"].as_str().unwrap().to_owned(),
                strategy: case["strategy"].as_str().unwrap().to_owned(),
                last_applied: Some(case["lastApplied"].take()).filter(|last| !last.is_null()),
                desired: case["modified"].take(),
                live: case["live"].take(),
                patch: case["patch"].take(),
                result: case["result"].take(),
            }
        })
        .collect()
}

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
