//! The recorded cases.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
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
