//! Decisions for large fleets: `cargo bench -p roundhouse-hub --bench placement`.
//!
//! Each case is decided anew and with its own decision as history, as the controller does. p99 is shown beside
//! criterion's mean, since the promise is about it.

#![expect(clippy::expect_used, reason = "a benchmark may stop on a broken case")]

use criterion::{Criterion, criterion_group, criterion_main};
use roundhouse_api::{decision::WorkloadRef, placement::PlacementSpec};
use roundhouse_hub::placement::{ClusterFacts, Inventory, PlacingStep, Previous, Request, Workload, place};
use serde_json::{Value, json};
use std::{hint::black_box, time::Duration};

const REGIONS: usize = 10;

fn fleet(size: usize) -> Inventory {
    let facts = |index: usize| ClusterFacts {
        name: format!("cluster-{index:05}"),
        labels: [
            ("region".to_owned(), format!("r{}", index % REGIONS)),
            (
                "tier".to_owned(),
                ["gold", "silver"][index / REGIONS % 2].to_owned(),
            ),
            ("zone".to_owned(), format!("z{}", index % 30)),
        ]
        .into(),
        joined: true,
        accepted: true,
        reachable: !index.is_multiple_of(97),
        capacity: index.is_multiple_of(3).then_some(40),
        ..ClusterFacts::default()
    };
    (0..size).map(facts).collect()
}

/// One rule per region: label, expression, weights and bounds.
fn rules() -> Value {
    let rule = |region: usize| {
        json!({
            "name": format!("r{region}"),
            "clusterSelector": {
                "matchLabels": {"region": format!("r{region}")},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]
            },
            "replicas": "9.5%",
            "weights": {format!("cluster-{region:05}"): 3},
            "perCluster": {"min": 1, "max": 60}
        })
    };
    json!({"placement": (0..REGIONS).map(rule).collect::<Vec<_>>()})
}

fn one_rule() -> Value {
    json!({"placement": [{"clusterSelector": {"tier": "gold"}, "replicas": "100%"}]})
}

fn decisions(criterion: &mut Criterion) {
    for (name, size, spec) in [
        ("1000 clusters, 10 rules", 1_000, rules()),
        ("10000 clusters, 10 rules", 10_000, rules()),
        ("10000 clusters, 1 rule", 10_000, one_rule()),
    ] {
        let spec: PlacementSpec = serde_json::from_value(spec).expect("a placement");
        let inventory = fleet(size);
        let workloads = [Workload {
            key: WorkloadRef {
                kind: "Deployment".to_owned(),
                namespace: "default".to_owned(),
                name: "web".to_owned(),
            },
            replicas: 20 * u32::try_from(size).expect("a small fleet"),
        }];
        let steps = [PlacingStep {
            name: "deploy",
            spec: &spec,
        }];
        let fresh = Previous::default();
        let request = |previous| Request {
            application: "default/shop",
            steps: &steps,
            workloads: &workloads,
            inventory: &inventory,
            previous,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let history = Previous::from_steps(&place(&request(&fresh)));
        for (kind, previous) in [("fresh", &fresh), ("again", &history)] {
            let request = request(previous);
            println!("{name}, {kind}: p99 {:?}", p99(|| place(&request)));
            criterion.bench_function(&format!("{name}, {kind}"), |bencher| {
                bencher.iter(|| place(black_box(&request)));
            });
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn p99<T>(run: impl Fn() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..1_000)
        .map(|_| {
            let start = std::time::Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[990]
}

criterion_group!(benches, decisions);
criterion_main!(benches);
