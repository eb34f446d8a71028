//! Decisions for large fleets: `cargo bench -p roundhouse-hub --bench placement`.
//!
//! Each case is decided anew and with its own decision as history, as the controller does. p99 is shown beside
//! criterion's mean, since the promise is about it.

#![expect(clippy::expect_used, reason = "a benchmark may stop on a broken case")]

use criterion::{Criterion, criterion_group, criterion_main};
use roundhouse_api::{decision::WorkloadRef, placement::PlacementSpec};
use roundhouse_hub::placement::{
    ClusterFacts, Inventory, PlacingStep, Previous, Request, Sight, Workload, place,
};
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
        allocatable: [("cpu".to_owned(), format!("{}m", 1000 + index * 7 % 9000))].into(),
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

/// A tenth of the fleet, spread over zones, weighed by its processors.
fn spread() -> Value {
    json!({"placement": [{"clusterSelector": {"tier": "gold"}, "replicas": "100%", "weightBy": {"allocatable": "cpu"}}],
        "maxClusters": 1_000, "spread": {"topologyKey": "zone", "maxSkew": 2}})
}

fn decisions(criterion: &mut Criterion) {
    for (name, size, spec) in [
        ("1000 clusters, 10 rules", 1_000, rules()),
        ("10000 clusters, 10 rules", 10_000, rules()),
        ("10000 clusters, 1 rule", 10_000, one_rule()),
        ("10000 clusters, spread and weighed", 10_000, spread()),
    ] {
        let spec: PlacementSpec = serde_json::from_value(spec).expect("a placement");
        let inventory = fleet(size);
        let workloads = [web(20 * u32::try_from(size).expect("a small fleet"))];
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

/// One cluster of 1,000 gets another label, and 1,000 applications that all hold it ask whether they can see the label;
/// those that can are decided anew. The inventory and what each application looks at are kept from before, as the controller does.
fn one_label_changes(criterion: &mut Criterion) {
    let inventory = fleet(1_000);
    let specs: Vec<PlacementSpec> = (0..1_000)
        .map(|n: usize| {
            let key = ["region", "tier", "zone", "team"][n % 4];
            let rule =
                json!({"clusterSelector": {key: format!("{}{}", &key[..1], n % 10)}, "replicas": "100%"});
            serde_json::from_value(json!({"placement": [rule]})).expect("a placement")
        })
        .collect();
    let names: Vec<String> = (0..specs.len()).map(|n| format!("default/app-{n}")).collect();
    let steps: Vec<[PlacingStep<'_>; 1]> = specs
        .iter()
        .map(|spec| [PlacingStep { name: "deploy", spec }])
        .collect();
    let sights: Vec<Sight> = steps.iter().map(|steps| Sight::of(steps)).collect();
    let workloads = [web(20)];
    let held = inventory.clusters()[123].name.clone();
    let before = place(&Request {
        application: "default/app",
        steps: &[PlacingStep {
            name: "deploy",
            spec: &named(&held),
        }],
        workloads: &workloads,
        inventory: &inventory,
        previous: &Previous::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
    });
    let previous = Previous::from_steps(&before);
    let change = |key: &str| {
        let mut inventory = inventory.clone();
        let mut after = ClusterFacts::clone(&inventory.clusters()[123]);
        after.labels.insert(key.to_owned(), "t7".to_owned());
        let before = inventory.put(after).expect("a known cluster");
        let after = inventory.clusters()[123].clone();
        let seen = sights
            .iter()
            .enumerate()
            .filter(|(_, s)| s.sees(true, Some(&before), Some(&after), &inventory));
        let decided = seen.map(|(app, _)| {
            place(&Request {
                application: &names[app],
                steps: &steps[app],
                workloads: &workloads,
                inventory: &inventory,
                previous: &previous,
                now: jiff::Timestamp::UNIX_EPOCH,
            })
        });
        decided.count()
    };
    for key in ["owner", "team"] {
        let name = format!("1000 applications, one cluster's label {key}");
        println!(
            "{name}: {} decided anew, p99 {:?}",
            change(key),
            p99(|| change(key))
        );
        criterion.bench_function(&name, |bencher| bencher.iter(|| change(black_box(key))));
    }
}

/// Everything on one cluster.
fn named(cluster: &str) -> PlacementSpec {
    let rule = json!({"clusters": [cluster], "replicas": "100%"});
    serde_json::from_value(json!({"placement": [rule]})).expect("a placement")
}

fn web(replicas: u32) -> Workload {
    Workload {
        once: false,
        key: WorkloadRef {
            kind: "Deployment".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
        },
        replicas,
    }
}

/// Of 1,000 runs, after 100 that warm the caches and the allocator up. The answer is dropped inside what is measured, as
/// criterion's `iter` does it: who decides frees what was decided before, too.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn p99<T>(run: impl Fn() -> T) -> Duration {
    for _ in 0..100 {
        black_box(run());
    }
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

criterion_group!(benches, decisions, one_label_changes);
criterion_main!(benches);
