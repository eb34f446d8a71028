//! Random requests: small fleets with every kind of trouble, few labels so that rules overlap.

use super::fixture::{Case, cluster, workload};
use crate::placement::{ClusterFacts, Previous};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use roundhouse_api::placement::{
    Bounds, ClusterSelector, PlacementSpec, Rebalance, Remainder, ReplicaShare, Rule, Spread, Taint,
    TaintEffect, Toleration, WeightBy, WhenUnsatisfiable,
};
use serde_json::json;

/// The second at which generated requests are decided.
const NOW: i64 = 20;

/// What a generated request may contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) capacity: bool,
    pub(super) max_clusters: bool,
    pub(super) never: bool,
    /// Weights read from the clusters.
    pub(super) weight_by: bool,
}

/// Everything.
pub(super) const ALL: Scope = Scope {
    capacity: true,
    max_clusters: true,
    never: true,
    weight_by: true,
};

fn taint() -> impl Strategy<Value = Taint> {
    let effect = prop_oneof![3 => Just(TaintEffect::NoSchedule), 1 => Just(TaintEffect::NoExecute)];
    let added = prop::option::weighted(0.7, 0..NOW + 5);
    (prop::sample::select(vec!["cordon", "gpu"]), effect, added).prop_map(|(key, effect, added)| Taint {
        key: key.to_owned(),
        value: None,
        effect,
        time_added: added.map(|second| Time(Timestamp::from_second(second).unwrap())),
    })
}

fn facts(scope: Scope) -> impl Strategy<Value = ClusterFacts> {
    let labels = prop::sample::select(vec![
        "region=east",
        "region=west",
        "region=east,tier=gold,weight=3",
        "region=west,tier=gold,weight=7",
        "region=north,weight=x",
        "",
    ]);
    let flags = (
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.85),
    );
    let capacity = prop::option::weighted(0.3, 0..12u32).prop_map(move |c| c.filter(|_| scope.capacity));
    let taints = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(taint(), 1..3)];
    let cpu = prop::sample::select(vec![None, Some("2"), Some("2300m"), Some("5"), Some("many")]);
    let facts = (labels, flags, capacity, taints, cpu);
    facts.prop_map(|(labels, (joined, accepted, reachable), capacity, taints, cpu)| {
        let cpu = cpu.map(|cpu| ("cpu".to_owned(), cpu.to_owned()));
        ClusterFacts {
            allocatable: cpu.into_iter().collect(),
            joined,
            accepted,
            reachable,
            capacity,
            taints,
            ..cluster("", labels)
        }
    })
}

fn selector() -> impl Strategy<Value = Option<ClusterSelector>> {
    prop::sample::select(vec![
        None,
        Some(json!({"region": "east"})),
        Some(json!({"region": "west"})),
        Some(json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
        Some(json!({"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["west"]}]})),
        Some(json!({"region": "south"})),
    ])
    .prop_map(|value| value.map(|value| ClusterSelector::from_value(&value).unwrap()))
}

/// A rule; a percentage is a raw number here and made to fit the others later.
fn rule(scope: Scope) -> impl Strategy<Value = (Rule, u32)> {
    let names = prop::option::weighted(0.2, prop::collection::vec("c[0-7]", 1..4));
    let share = prop_oneof![5 => Just(0), 2 => Just(1), 1 => Just(2)];
    let weights = prop::collection::btree_map("c[0-6]", 0..6u32, 0..4);
    let bounds = (
        prop::option::weighted(0.2, 0..4u32),
        prop::option::weighted(0.2, 0..7u32),
    );
    let weight_by = prop::sample::select(vec![
        None,
        None,
        None,
        Some(WeightBy::Label("weight".to_owned())),
        Some(WeightBy::Allocatable("cpu".to_owned())),
    ]);
    let weight_by = weight_by.prop_map(move |by| by.filter(|_| scope.weight_by));
    (selector(), names, share, 0..5u32, weights, bounds, weight_by).prop_map(
        |(cluster_selector, clusters, share, number, weights, (min, max), weight_by)| {
            let weights = if weight_by.is_some() {
                Default::default()
            } else {
                weights
            };
            let rule = Rule {
                allow_empty: false,
                cluster_selector,
                clusters,
                weights,
                replicas: (share == 1).then_some(ReplicaShare::Count(number)),
                per_cluster: (min.is_some() || max.is_some()).then_some(Bounds { min, max }),
                name: None,
                weight_by,
            };
            (rule, if share == 0 { number + 1 } else { 0 })
        },
    )
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let key = prop::sample::select(vec!["gpu", "gpu", "cordon"]);
    let seconds = prop::option::weighted(0.5, -1..NOW + 5);
    (key, seconds).prop_map(|(key, seconds)| Toleration {
        key: Some(key.to_owned()),
        effect: seconds.map(|_| TaintEffect::NoExecute),
        toleration_seconds: seconds,
        ..Toleration::default()
    })
}

fn topology() -> impl Strategy<Value = Spread> {
    let when = prop::sample::select(vec![
        WhenUnsatisfiable::DoNotSchedule,
        WhenUnsatisfiable::ScheduleAnyway,
    ]);
    (prop::sample::select(vec!["region", "tier"]), 1..3u32, when).prop_map(
        |(key, max_skew, when_unsatisfiable)| Spread {
            topology_key: key.to_owned(),
            max_skew,
            when_unsatisfiable,
        },
    )
}

fn spec(scope: Scope) -> impl Strategy<Value = (PlacementSpec, Vec<u32>)> {
    let rules = prop::collection::vec(rule(scope), 1..4);
    let never = prop::bool::weighted(0.3).prop_map(move |never| never && scope.never);
    let limit = prop::option::weighted(0.3, 1..5u32).prop_map(move |l| l.filter(|_| scope.max_clusters));
    let tolerations = prop::collection::vec(toleration(), 0..3);
    let topology = prop::option::weighted(0.6, topology());
    (
        rules,
        prop::bool::weighted(0.4),
        never,
        limit,
        tolerations,
        topology,
    )
        .prop_map(|(rules, spread, never, max_clusters, tolerations, topology)| {
            let (placement, raw) = rules.into_iter().unzip();
            let spec = PlacementSpec {
                placement,
                remainder: if spread {
                    Remainder::Spread
                } else {
                    Remainder::Hold
                },
                rebalance: if never {
                    Rebalance::Never
                } else {
                    Rebalance::OnChange
                },
                tolerations,
                max_clusters,
                spread: topology.filter(|_| max_clusters.is_some()),
                overrides: Vec::new(),
            };
            (spec, raw)
        })
}

/// Small fleets.
pub(super) fn fleets(scope: Scope) -> impl Strategy<Value = Vec<ClusterFacts>> {
    prop::collection::vec((facts(scope), 0..7u8), 0..7).prop_map(|fleet| {
        let named = |(facts, number): (ClusterFacts, u8)| ClusterFacts {
            name: format!("c{number}"),
            ..facts
        };
        fleet.into_iter().map(named).collect()
    })
}

/// A request without history. Percentages sum to at most 100.
pub(super) fn fresh(scope: Scope) -> impl Strategy<Value = Case> {
    let fleet = prop::collection::vec(facts(scope), 0..7);
    let steps = prop::collection::vec(spec(scope), 1..3);
    let replicas = prop::collection::vec(0..25u32, 0..3);
    (fleet, steps, replicas, 0..8u32).prop_map(|(fleet, steps, replicas, slack)| {
        let mut case = Case {
            now: Timestamp::from_second(NOW).unwrap(),
            ..Case::default()
        };
        let named = |(index, facts): (usize, ClusterFacts)| ClusterFacts {
            name: format!("c{index}"),
            ..facts
        };
        case.clusters = fleet.into_iter().enumerate().map(named).collect();
        let raw: u32 = steps.iter().flat_map(|(_, raw)| raw).sum();
        for (index, (mut spec, raws)) in steps.into_iter().enumerate() {
            for (rule, number) in spec.placement.iter_mut().zip(raws) {
                if number > 0 {
                    let percent = format!("{}%", number * 100 / (raw + slack));
                    rule.replicas = Some(ReplicaShare::Percent(percent.parse().unwrap()));
                }
            }
            case.steps.push((format!("step-{index}"), spec));
        }
        let named = |(index, count)| workload(&format!("w{index}"), count);
        case.workloads = replicas.into_iter().enumerate().map(named).collect();
        case
    })
}

/// A request with a history: what was decided for a fleet and workloads that have changed since, or any numbers.
pub(super) fn any_case(scope: Scope) -> impl Strategy<Value = Case> {
    let numbers = prop::collection::vec(0..9u32, 12);
    (fresh(scope), fresh(scope), 0..3, numbers).prop_map(|(mut case, other, history, numbers)| {
        match history {
            0 => {}
            1 => case.previous = Previous::from_steps(&case.decided_for(&other)),
            _ => {
                let mut numbers = numbers.into_iter().cycle();
                for (step, _) in &case.steps {
                    for workload in &case.workloads {
                        for rule in ["rule-0", "rule-1", "gone"] {
                            let clusters = ["c0", "c1", "c2", "c5"].into_iter().zip(&mut numbers);
                            let counts = clusters.filter(|(_, n)| *n < 6);
                            let previous = std::mem::take(&mut case.previous);
                            case.previous = previous.assigning((step, &workload.key, rule), counts);
                        }
                    }
                    case.previous = std::mem::take(&mut case.previous).enrolling(step, &["c1", "c2"]);
                }
            }
        }
        case
    })
}

impl Case {
    /// What would be decided with the fleet and the counts of another request.
    fn decided_for(&self, other: &Case) -> Vec<crate::placement::StepDecision> {
        let mut before = self.clone();
        before.clusters = other.clusters.clone();
        for (workload, other) in before.workloads.iter_mut().zip(&other.workloads) {
            workload.replicas = other.replicas;
        }
        before.place()
    }
}
