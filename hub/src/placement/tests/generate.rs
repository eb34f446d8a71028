//! Random requests: small fleets with every kind of trouble, few labels so that rules overlap.

use super::fixture::{Case, cluster, workload};
use crate::placement::{ClusterFacts, Previous, StepDecision};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use roundhouse_api::cluster::TAINT_UNREACHABLE;
use roundhouse_api::decision::DecisionSpec;
use roundhouse_api::placement::{
    Bounds, ClusterSelector, Override, PlacementSpec, Rebalance, Remainder, ReplicaShare, Rule, Spread,
    Taint, TaintEffect, Toleration, WeightBy, WhenUnsatisfiable,
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
    /// Percentages of three decimals.
    pub(super) milli: bool,
    /// Rules with names.
    pub(super) names: bool,
    /// Overrides, some of them wrong.
    pub(super) overrides: bool,
}

/// Everything.
pub(super) const ALL: Scope = Scope {
    capacity: true,
    max_clusters: true,
    never: true,
    weight_by: true,
    milli: true,
    names: true,
    overrides: true,
};

/// Names of rules, sorted the other way round than the rules.
const NAMES: [&str; 3] = ["west", "east", "canary"];

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

/// What the hub puts on a cluster that it has lost contact with (`cluster/judge.rs`).
pub(super) fn lost_contact() -> Taint {
    Taint {
        key: TAINT_UNREACHABLE.to_owned(),
        value: None,
        effect: TaintEffect::NoSchedule,
        time_added: Some(Time(Timestamp::UNIX_EPOCH)),
    }
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
        let mut taints = taints;
        if !reachable {
            taints.push(lost_contact());
        }
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

fn overrides(scope: Scope) -> impl Strategy<Value = Vec<Override>> {
    let target = json!({"kind": "Deployment", "name": "w0"});
    let named = json!({"metadata": {"annotations": {"at": "${cluster.name}/${cluster.labels.tier}"}}});
    let some = prop::sample::subsequence(
        vec![
            json!({"target": target, "patch": named}),
            json!({"target": target, "clusterSelector": {"region": "east"}, "patch": {"spec": {"paused": true}}}),
            json!({"target": target, "clusters": ["c1", "c9"], "patch": {"metadata": {"labels": {"a": "${cluster.name}"}}}}),
            json!({"target": target, "rule": "rule-0", "jsonPatch": [{"op": "add", "path": "/spec/paused", "value": true}]}),
        ],
        0..3,
    );
    (some, prop::bool::weighted(0.3)).prop_map(move |(list, with)| {
        let list = list.into_iter().filter(|_| with && scope.overrides);
        list.map(|value| serde_json::from_value(value).unwrap()).collect()
    })
}

fn spec(scope: Scope) -> impl Strategy<Value = (PlacementSpec, Vec<u32>)> {
    let rules = prop::collection::vec(rule(scope), 1..4);
    let never = prop::bool::weighted(0.3).prop_map(move |never| never && scope.never);
    let limit = prop::option::weighted(0.3, 1..5u32).prop_map(move |l| l.filter(|_| scope.max_clusters));
    let tolerations = prop::collection::vec(toleration(), 0..3);
    let topology = prop::option::weighted(0.6, topology());
    let named = prop::collection::vec(prop::bool::weighted(0.3), NAMES.len());
    (
        rules,
        prop::bool::weighted(0.4),
        never,
        limit,
        tolerations,
        topology,
        (named, overrides(scope)),
    )
        .prop_map(
            move |(rules, spread, never, max_clusters, tolerations, topology, (named, overrides))| {
                let (mut placement, raw): (Vec<Rule>, _) = rules.into_iter().unzip();
                let names = placement.iter_mut().zip(NAMES.into_iter().zip(named));
                for (rule, (name, _)) in names.filter(|(_, (_, named))| *named && scope.names) {
                    rule.name = Some(name.to_owned());
                }
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
                    overrides,
                };
                (spec, raw)
            },
        )
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
    (fleet, steps, replicas, 0..8u32, any::<bool>()).prop_map(
        move |(fleet, steps, replicas, slack, milli)| {
            // The smallest part of a percent that is written, in thousandths.
            let unit = if milli && scope.milli { 1 } else { 1000 };
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
                        let percent = number * 100_000 / (raw + slack) / unit * unit;
                        let percent = format!("{}.{:03}%", percent / 1000, percent % 1000);
                        rule.replicas = Some(ReplicaShare::Percent(percent.parse().unwrap()));
                    }
                }
                case.steps.push((format!("step-{index}"), spec));
            }
            let named = |(index, count)| workload(&format!("w{index}"), count);
            case.workloads = replicas.into_iter().enumerate().map(named).collect();
            case
        },
    )
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
                for (step, spec) in &case.steps {
                    let rules = spec.placement.iter().enumerate();
                    let rules = rules.map(|(index, rule)| rule.name_or_index(index)).take(2);
                    let rules: Vec<String> = rules.chain(["gone".to_owned()]).collect();
                    for workload in &case.workloads {
                        for rule in &rules {
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

/// A request in the middle of things: Jobs are divided for this revision by some of the steps, a run has passed some, and
/// meanwhile shares, fleet and labels have changed.
pub(super) fn under_way() -> impl Strategy<Value = UnderWay> {
    let flags = || prop::collection::vec(any::<bool>(), 3);
    (any_case(ALL), fresh(ALL), flags(), flags(), flags()).prop_map(
        |(mut case, other, jobs, decided, passed)| {
            for (workload, _) in case.workloads.iter_mut().zip(jobs).filter(|(_, job)| *job) {
                workload.key.kind = "Job".to_owned();
                workload.once = true;
            }
            let mut before = case.clone();
            before.clusters = other.clusters;
            let shares: Vec<_> = before.shares().map(|share| *share).collect();
            before
                .shares()
                .zip(shares.into_iter().rev())
                .for_each(|(share, other)| *share = other);
            let passed: Vec<String> = case
                .steps
                .iter()
                .zip(passed)
                .filter(|(_, passed)| *passed)
                .map(|((name, _), _)| name.clone())
                .collect();
            let mut stored: Vec<DecisionSpec> = before.place().iter().map(StepDecision::to_spec).collect();
            for (decision, _) in stored.iter_mut().zip(decided).filter(|(_, decided)| *decided) {
                decision.revision = REVISION.to_owned();
            }
            let case = UnderWay { case, passed };
            case.storing(&stored)
        },
    )
}

/// The revision that is delivered.
const REVISION: &str = "v1";

/// A request of an application whose run is under way.
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    pub(super) case: Case,
    /// The steps that the run has passed.
    passed: Vec<String>,
}

impl UnderWay {
    /// The same after these decisions were stored.
    fn storing(mut self, stored: &[DecisionSpec]) -> Self {
        let passed = stored
            .iter()
            .filter(|decision| self.passed.contains(&decision.step));
        self.case.previous = Previous::from_decisions_at(REVISION, stored).passing(passed);
        self
    }

    /// The same after every step was decided like this for the revision.
    pub(super) fn following(self, decisions: &[StepDecision]) -> Self {
        let stored = decisions.iter().map(|decision| DecisionSpec {
            revision: REVISION.to_owned(),
            ..decision.to_spec()
        });
        let stored: Vec<_> = stored.collect();
        self.storing(&stored)
    }
}

impl Case {
    /// The percentages of all rules, in order.
    fn shares(&mut self) -> impl Iterator<Item = &mut ReplicaShare> {
        let rules = self.steps.iter_mut().flat_map(|(_, spec)| &mut spec.placement);
        let shares = rules.filter_map(|rule| rule.replicas.as_mut());
        shares.filter(|share| matches!(share, ReplicaShare::Percent(_)))
    }

    /// What would be decided with the fleet and the counts of another request.
    fn decided_for(&self, other: &Case) -> Vec<StepDecision> {
        let mut before = self.clone();
        before.clusters = other.clusters.clone();
        for (workload, other) in before.workloads.iter_mut().zip(&other.workloads) {
            workload.replicas = other.replicas;
        }
        before.place()
    }
}
