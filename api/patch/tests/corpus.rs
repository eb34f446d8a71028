//! The recorded cases: what Kubernetes 1.36 computes is what we compute.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use roundhouse_patch::{PatchType, three_way_merge};
use serde_json::Value;

struct Case {
    id: String,
    last_applied: Option<Value>,
    desired: Value,
    live: Value,
    patch: Value,
    result: Value,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three-way.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
    lines
        .map(|line| {
            let mut case: Value = serde_json::from_str(&line.unwrap()).unwrap();
            Case {
                id: case["id"].as_str().unwrap().to_owned(),
                last_applied: Some(case["lastApplied"].take()).filter(|last| !last.is_null()),
                desired: case["modified"].take(),
                live: case["live"].take(),
                patch: case["patch"].take(),
                result: case["result"].take(),
            }
        })
        .collect()
}

#[test]
fn results() {
    let mut wrong = 0;
    let mut patches = 0;
    for case in cases() {
        match three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live) {
            Ok(merged) => {
                if merged.result != case.result {
                    wrong += 1;
                    if wrong < 4 {
                        println!(
                            "{}\n  patch {}\n  want  {}\n  result {}\n  want   {}",
                            case.id, merged.patch, case.patch, merged.result, case.result
                        );
                    }
                }
                if merged.patch != case.patch {
                    patches += 1;
                    if patches < 9 {
                        println!("PATCH {}\n  {}\n  {}", case.id, merged.patch, case.patch);
                    }
                }
                let _ = PatchType::Merge;
            }
            Err(error) => {
                wrong += 1;
                println!("{}: {error}", case.id);
            }
        }
    }
    println!("{wrong} wrong, {patches} patches differ");
    assert_eq!(wrong, 0);
}
