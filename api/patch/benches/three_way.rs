//! Three-way merge over the recorded cases, one core: `cargo bench -p roundhouse-patch`.
//!
//! One iteration is all 1,200 cases; the throughput line gives cases a second (35 µs a case are 28,571 a second).

#![allow(missing_docs, reason = "criterion's macro makes a public function")]
#![allow(
    clippy::unwrap_used,
    reason = "a bench without its recorded cases has nothing to measure"
)]

use std::{
    hint::black_box,
    io::{BufRead, BufReader},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::GzDecoder;
use roundhouse_patch::{three_way_merge, three_way_merge_bytes};
use serde_json::Value;

struct Case {
    last_applied: Option<Value>,
    desired: Value,
    live: Value,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three-way.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(std::fs::File::open(path).unwrap())).lines();
    lines
        .map(|line| {
            let mut case: Value = serde_json::from_str(&line.unwrap()).unwrap();
            Case {
                last_applied: Some(case["lastApplied"].take()).filter(|last| !last.is_null()),
                desired: case["modified"].take(),
                live: case["live"].take(),
            }
        })
        .collect()
}

fn three_way(criterion: &mut Criterion) {
    let cases = cases();
    let mut group = criterion.benchmark_group("three_way");
    group.throughput(Throughput::Elements(cases.len() as u64));

    group.bench_function("values", |bencher| {
        bencher.iter(|| {
            for case in &cases {
                black_box(three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live).unwrap());
            }
        });
    });

    let texts: Vec<(Option<String>, String, String)> = cases
        .iter()
        .map(|case| {
            (
                case.last_applied.as_ref().map(Value::to_string),
                case.desired.to_string(),
                case.live.to_string(),
            )
        })
        .collect();
    group.bench_function("bytes", |bencher| {
        bencher.iter(|| {
            for (last, desired, live) in &texts {
                let last = last.as_ref().map(String::as_bytes);
                black_box(three_way_merge_bytes(last, desired.as_bytes(), live.as_bytes()).unwrap());
            }
        });
    });
    group.finish();
}

criterion_group!(benches, three_way);
criterion_main!(benches);
