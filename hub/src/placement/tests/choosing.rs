//! `maxClusters`, `spread` and taints that are tolerated for a time.

use super::fixture::{Case, cluster, counts, numbers};
use crate::placement::{ClusterFacts, Inventory, PlacingStep, Previous, StepDecision, next_change};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::{
    decision::DecisionSpec,
    placement::{PlacementSpec, Taint, TaintEffect},
};
use serde_json::{Value, json};

/// `a1` is cluster a1 in region a.
fn fleet(names: &[&str]) -> Vec<ClusterFacts> {
    names
        .iter()
        .map(|name| cluster(name, &format!("region={}", &name[..1])))
        .collect()
}

fn spread(limit: u32, skew: u32, when: &str) -> Value {
    json!({"placement": [{"replicas": "100%"}], "maxClusters": limit,
        "spread": {"topologyKey": "region", "maxSkew": skew, "whenUnsatisfiable": when}})
}

/// Chosen clusters per region, and how many are excluded by reason.
fn shown(decisions: &[StepDecision]) -> (String, String) {
    let mut regions: Vec<&str> = decisions[0].workloads[0]
        .clusters
        .iter()
        .map(|row| &row.name[..1])
        .collect();
    regions.sort_unstable();
    let excluded = decisions[0]
        .excluded
        .iter()
        .map(|e| format!("{} {}", e.count, e.reason));
    (regions.concat(), excluded.collect::<Vec<_>>().join(", "))
}

#[test]
fn chosen_clusters_spread_over_the_topology() {
    let names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"];
    for (limit, skew, when, expected, excluded) in [
        (3, 1, "DoNotSchedule", "abc", "4 MaxClusters"),
        (5, 1, "DoNotSchedule", "aabbc", "2 MaxClusters"),
        (6, 1, "DoNotSchedule", "aabbc", "2 Skewed"),
        (6, 2, "DoNotSchedule", "aaabbc", "1 MaxClusters"),
        (7, 2, "DoNotSchedule", "aaabbc", "1 Skewed"),
        (6, 1, "ScheduleAnyway", "aaabbc", "1 MaxClusters"),
        (9, 1, "ScheduleAnyway", "aaaabbc", ""),
    ] {
        let decisions = Case::new(spread(limit, skew, when), 70, fleet(&names)).place();
        let found = shown(&decisions);
        assert_eq!(
            (found.0.as_str(), found.1.as_str()),
            (expected, excluded),
            "{limit} {skew} {when}"
        );
        assert!(decisions[0].satisfied);
    }
}

#[test]
fn a_spread_that_cannot_be_kept_is_explained() {
    let reasons = |limit, skew, when, fleet| {
        Case::new(spread(limit, skew, when), 20, fleet)
            .place()
            .remove(0)
            .reasons
    };
    assert_eq!(
        reasons(
            6,
            1,
            "DoNotSchedule",
            fleet(&["a1", "a2", "a3", "b1", "c1", "c2"])
        ),
        [
            "spread: 5 clusters are chosen where maxClusters is 6: one more would exceed maxSkew 1 over region (region=b 1 of 1, \
          region=c 2 of 2, region=a 2 of 3); label clusters, raise maxSkew, or use ScheduleAnyway"
        ]
    );
    assert_eq!(
        reasons(
            6,
            1,
            "ScheduleAnyway",
            fleet(&["a1", "a2", "a3", "b1", "c1", "c2"])
        ),
        [
            "spread: the skew over region is 2, above maxSkew 1 (region=b 1 of 1, region=c 2 of 2, region=a 3 of 3); label \
          clusters, or raise maxSkew"
        ]
    );
    let with_one_more = || {
        let mut clusters = fleet(&["a1", "b1"]);
        clusters.push(cluster("x", ""));
        clusters
    };
    assert_eq!(
        reasons(3, 1, "DoNotSchedule", with_one_more()),
        ["spread: 1 cluster has no label region and is not chosen; label it, or use ScheduleAnyway"]
    );
    assert!(reasons(3, 1, "ScheduleAnyway", with_one_more()).is_empty());
    let decisions = Case::new(spread(2, 1, "ScheduleAnyway"), 20, with_one_more()).place();
    assert_eq!(
        shown(&decisions),
        ("ab".to_owned(), "1 MaxClusters".to_owned()),
        "without the label, last"
    );
}

#[test]
fn what_was_chosen_stays_chosen() {
    let names = ["a1", "a2", "a3", "b1", "b2", "b3"];
    let case = Case::new(spread(4, 1, "DoNotSchedule"), 8, fleet(&names));
    for chosen in [
        ["a1", "a2", "b1", "b2"],
        ["a2", "a3", "b1", "b3"],
        ["a1", "a3", "b2", "b3"],
    ] {
        let decisions = case.clone().after(&chosen.map(|name| (name, 2))).place();
        assert_eq!(decisions[0].clusters, chosen);
    }
    // A new value takes one over from the fullest.
    let mut more = case.after(&[("a1", 2), ("a2", 2), ("b1", 2), ("b2", 2)]);
    more.clusters.extend(fleet(&["c1"]));
    assert_eq!(shown(&more.place()).0.matches('c').count(), 1);
    // Under Never nothing that was chosen is given up for it.
    more.steps[0].1.rebalance = roundhouse_api::placement::Rebalance::Never;
    assert_eq!(more.place()[0].clusters, ["a1", "a2", "b1", "b2"]);
}

/// Maximum two clusters of skew 1, the heavier ones in the east.
fn two_regions(replicas: u32) -> Case {
    let weights = json!({"e1": 10, "e2": 9, "w1": 1});
    let spec = json!({"placement": [{"name": "r", "replicas": "100%", "weights": weights}], "maxClusters": 2,
        "spread": {"topologyKey": "region", "maxSkew": 1}});
    Case::new(spec, replicas, fleet(&["e1", "e2", "w1"]))
}

fn row(name: &str, replicas: u32) -> (String, u32) {
    (name.to_owned(), replicas)
}

#[test]
fn a_chosen_cluster_without_replicas_keeps_its_place_when_it_falls_silent() {
    let mut case = two_regions(2);
    let first = case.place();
    assert_eq!(counts(&first), [row("e1", 2), row("w1", 0)]);
    case = case.following(&first);
    case.clusters[2].reachable = false;
    let silent = case.place();
    assert_eq!(counts(&silent), counts(&first));
    assert_eq!(shown(&silent).1, "1 MaxClusters");
    case = case.following(&silent);
    // It gets nothing more, and is as before when it is back.
    case.workloads[0].replicas = 22;
    assert_eq!(counts(&case.place()), [row("e1", 22), row("w1", 0)]);
    case.clusters[2].reachable = true;
    assert_eq!(counts(&case.place()), [row("e1", 20), row("w1", 2)]);
    // So with a cordon.
    case = two_regions(2).following(&first);
    case.clusters[2]
        .taints
        .push(taint("cordoned", TaintEffect::NoSchedule, None));
    assert_eq!(counts(&case.place()), counts(&first));
    // What takes replicas away takes the place away too, and nobody holds one who never had it.
    case.clusters[2].taints[0].effect = TaintEffect::NoExecute;
    assert_eq!(counts(&case.place()), [row("e1", 1), row("e2", 1)]);
}

/// Region b has two clusters only because region c has one: that one got nothing, since the Job was divided before it came.
#[test]
fn a_cluster_that_came_after_everything_was_divided_keeps_its_place() {
    let mut case = Case::new(spread(4, 1, "DoNotSchedule"), 3, fleet(&["a1", "b1", "b2"]));
    case.workloads[0].key.kind = "Job".to_owned();
    case.workloads[0].once = true;
    let mut stored = Vec::new();
    let mut decide = |change: &dyn Fn(&mut Case)| {
        change(&mut case);
        case.previous = Previous::from_decisions_at("v1", &stored);
        let decisions = case.place();
        let spec = DecisionSpec {
            revision: "v1".to_owned(),
            ..decisions[0].to_spec()
        };
        stored = vec![spec];
        decisions
    };
    let one = |name: &str| row(name, 1);
    let divided = [one("a1"), one("b1"), one("b2")];
    let first = decide(&|_| {});
    assert_eq!(
        (counts(&first), &first[0].chosen[..]),
        (divided.to_vec(), &[][..])
    );
    let joined = decide(&|case| case.clusters.extend(fleet(&["c1"])));
    assert_eq!(
        (counts(&joined), &joined[0].chosen[..]),
        (divided.to_vec(), &["c1".to_owned()][..])
    );
    assert_ne!(joined[0].to_spec().hash, first[0].to_spec().hash, "it is written");
    assert_eq!(
        joined[0].clusters,
        ["a1", "b1", "b2"],
        "it gets no bundle for that"
    );
    let again = decide(&|_| {});
    assert_eq!(
        again[0].to_spec().hash,
        joined[0].to_spec().hash,
        "and written once"
    );
    // Losing contact with it moves nothing of the others.
    let silent = decide(&|case| case.clusters[3].reachable = false);
    assert_eq!(counts(&silent), divided);
    assert_eq!(
        (silent[0].satisfied, &silent[0].chosen),
        (true, &joined[0].chosen)
    );
    // What takes replicas away takes the place away too.
    let gone = decide(&|case| {
        case.clusters.pop();
    });
    assert!(gone[0].chosen.is_empty());
}

#[test]
fn a_region_out_of_reach_counts_for_the_skew() {
    let mut case = two_regions(2);
    case.clusters[2].reachable = false;
    let fresh = case.place();
    assert_eq!(counts(&fresh), [row("e1", 2)]);
    assert_eq!(shown(&fresh).1, "1 Skewed, 1 Unreachable");
    assert_eq!(
        fresh[0].reasons,
        [
            "spread: 1 clusters are chosen where maxClusters is 2: one more would exceed maxSkew 1 over region (region=w 0 of 0, \
          region=e 1 of 2); label clusters, raise maxSkew, or use ScheduleAnyway"
        ]
    );
    // Without a spread the place goes to another.
    case.steps[0].1.spread = None;
    assert_eq!(counts(&case.place()), [row("e1", 1), row("e2", 1)]);
}

#[test]
fn never_keeps_its_clusters_when_a_heavier_one_joins() {
    let spec = |rebalance: &str| json!({"placement": [{"replicas": "100%", "weights": {"z": 9}}], "maxClusters": 2, "rebalance": rebalance});
    let place = |rebalance: &str| {
        let mut clusters = fleet(&["a1", "b1"]);
        clusters.push(cluster("z", ""));
        Case::new(spec(rebalance), 4, clusters)
            .after(&[("a1", 2), ("b1", 2)])
            .place()
            .remove(0)
            .clusters
    };
    assert_eq!(place("Never"), ["a1", "b1"]);
    assert!(place("OnChange").contains(&"z".into()));
}

#[test]
fn duplicates_go_to_the_chosen_clusters_only() {
    let decisions = Case::new(
        json!({"placement": [{"name": "all"}], "maxClusters": 2}),
        3,
        fleet(&["a1", "b1", "c1"]),
    )
    .place();
    assert_eq!(numbers(&decisions), [3, 3]);
    assert_eq!(
        (decisions[0].clusters.len(), shown(&decisions).1.as_str()),
        (2, "1 MaxClusters")
    );
    assert!(decisions[0].satisfied);
    let again = Case::new(
        json!({"placement": [{"name": "all"}], "maxClusters": 2}),
        3,
        fleet(&["a1", "b1", "c1"]),
    );
    assert_eq!(
        again.following(&decisions).place()[0].clusters,
        decisions[0].clusters
    );
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn taint(key: &str, effect: TaintEffect, added: Option<i64>) -> Taint {
    Taint {
        key: key.to_owned(),
        value: None,
        effect,
        time_added: added.map(|second| Time(at(second))),
    }
}

/// Kubernetes' `tolerationSeconds` (pkg/controller/tainteviction), for clusters.
#[test]
fn a_taint_is_tolerated_for_a_time() {
    use TaintEffect::{NoExecute, NoSchedule};
    let seconds = |list: &[Option<i64>]| -> Value {
        list.iter()
            .map(|seconds| match seconds {
                Some(seconds) => json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}),
                None => json!({"key": "k", "operator": "Exists"}),
            })
            .collect()
    };
    for (tolerations, taint, now, holds, next) in [
        (seconds(&[]), taint("k", NoExecute, Some(100)), 100, false, None),
        (
            seconds(&[None]),
            taint("k", NoExecute, Some(100)),
            10_000,
            true,
            None,
        ),
        (
            seconds(&[Some(60)]),
            taint("k", NoExecute, Some(100)),
            100,
            true,
            Some(160),
        ),
        (
            seconds(&[Some(60)]),
            taint("k", NoExecute, Some(100)),
            159,
            true,
            Some(160),
        ),
        (
            seconds(&[Some(60)]),
            taint("k", NoExecute, Some(100)),
            160,
            false,
            None,
        ),
        // At once.
        (
            seconds(&[Some(0)]),
            taint("k", NoExecute, Some(100)),
            100,
            false,
            None,
        ),
        (seconds(&[Some(-5)]), taint("k", NoExecute, None), 0, false, None),
        // The shortest counts.
        (
            seconds(&[Some(60), Some(30), None]),
            taint("k", NoExecute, Some(100)),
            120,
            true,
            Some(130),
        ),
        (
            seconds(&[Some(60), Some(30), None]),
            taint("k", NoExecute, Some(100)),
            130,
            false,
            None,
        ),
        // Nobody knows since when: held.
        (
            seconds(&[Some(60)]),
            taint("k", NoExecute, None),
            10_000,
            true,
            None,
        ),
        (
            seconds(&[Some(i64::MAX)]),
            taint("k", NoExecute, Some(100)),
            10_000,
            true,
            None,
        ),
        // Seconds are for NoExecute.
        (
            seconds(&[None]),
            taint("k", NoSchedule, Some(100)),
            10_000,
            true,
            None,
        ),
        (
            seconds(&[Some(60)]),
            taint("other", NoExecute, Some(100)),
            100,
            false,
            None,
        ),
    ] {
        let spec = json!({"placement": [{"replicas": "100%"}], "tolerations": tolerations});
        let mut clusters = fleet(&["a1", "b1"]);
        clusters[0].taints.push(taint.clone());
        let mut case = Case::new(spec.clone(), 4, clusters.clone()).after(&[("a1", 2), ("b1", 2)]);
        case.now = at(now);
        let row = format!("{spec} {taint:?} at {now}");
        assert_eq!(
            numbers(&case.place()),
            if holds { vec![2, 2] } else { vec![4] },
            "{row}"
        );
        let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
        let steps = [PlacingStep {
            name: "deploy",
            spec: &spec,
        }];
        let inventory: Inventory = clusters.into_iter().collect();
        assert_eq!(next_change(&steps, &inventory, at(now)), next.map(at), "{row}");
    }
}
