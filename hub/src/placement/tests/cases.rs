//! Cases: what clusters, capacity, steps and history do to a decision.

use super::fixture::{Case, cluster, counts, numbers, unplaced, workload};
use crate::placement::{ClusterFacts, StepDecision, decision_hash};
use roundhouse_api::placement::{Taint, TaintEffect};
use serde_json::{Value, json};

fn fleet(names: &[&str]) -> Vec<ClusterFacts> {
    names.iter().map(|name| cluster(name, "")).collect()
}

fn everywhere(share: &str) -> Value {
    json!({"placement": [{"replicas": share}]})
}

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: None,
        effect,
        time_added: None,
    }
}

fn excluded(decision: &StepDecision) -> Vec<(&str, u32)> {
    decision
        .excluded
        .iter()
        .map(|e| (e.reason.as_str(), e.count))
        .collect()
}

fn bounds(decisions: &[StepDecision]) -> Vec<Option<&str>> {
    decisions[0].workloads[0]
        .clusters
        .iter()
        .map(|row| row.bound.as_deref())
        .collect()
}

#[test]
fn clusters_that_are_not_chosen_are_counted_by_reason() {
    let mut clusters = fleet(&["a", "b", "c", "d", "e", "f"]);
    clusters[0].accepted = false;
    clusters[1].joined = false;
    clusters[2].reachable = false;
    clusters[2].taints = vec![taint("roundhouse.dev/unreachable", TaintEffect::NoSchedule)];
    clusters[3].taints = vec![taint("gpu", TaintEffect::NoSchedule)];
    clusters.push(cluster("g", "region=west"));
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": {
        "matchExpressions": [{"key": "region", "operator": "DoesNotExist"}]}}]});
    let mut case = Case::new(spec, 4, clusters);
    let decision = &case.place()[0];
    let expected = [
        ("NotAccepted", 1),
        ("NotJoined", 1),
        ("NotMatched", 1),
        ("Tainted", 1),
        ("Unreachable", 1),
    ];
    assert_eq!(excluded(decision), expected);
    assert_eq!(decision.clusters, ["e", "f"]);

    case.steps[0].1.tolerations =
        serde_json::from_value(json!([{"key": "gpu", "operator": "Exists"}])).unwrap();
    assert_eq!(case.place()[0].clusters, ["d", "e", "f"]);
}

#[test]
fn trouble_keeps_what_is_there_and_only_no_execute_evicts() {
    let place = |trouble: fn(&mut ClusterFacts), replicas| {
        let mut clusters = fleet(&["a", "b", "c"]);
        trouble(&mut clusters[0]);
        let case = Case::new(everywhere("100%"), replicas, clusters);
        case.after(&[("a", 3), ("b", 3), ("c", 3)]).place()
    };
    let cordoned = |facts: &mut ClusterFacts| facts.taints.push(taint("cordon", TaintEffect::NoSchedule));
    let lost = |facts: &mut ClusterFacts| facts.reachable = false;
    for trouble in [cordoned, lost] {
        assert_eq!(numbers(&place(trouble, 9)), [3, 3, 3]);
        let grown = place(trouble, 13);
        assert_eq!(numbers(&grown), [3, 5, 5]);
        assert_eq!(bounds(&grown)[0], Some("NoAdditional"));
        assert!(grown[0].satisfied);
        assert_eq!(numbers(&place(trouble, 6)), [2, 2, 2]);
    }
    let evicted = place(
        |facts| facts.taints.push(taint("broken", TaintEffect::NoExecute)),
        9,
    );
    let names: Vec<String> = counts(&evicted).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(numbers(&evicted).iter().sum::<u32>(), 9);
    assert_eq!(excluded(&evicted[0]), [("Tainted", 1)]);
}

#[test]
fn a_renamed_rule_or_step_takes_nothing_from_a_lost_cluster() {
    let mut clusters = fleet(&["a", "b"]);
    let case = Case::new(everywhere("100%"), 4, clusters.clone());
    let first = case.place();
    clusters[0].reachable = false;
    let spec = json!({"placement": [{"name": "all", "replicas": "100%"}]});
    for step in ["deploy", "ship"] {
        let renamed = Case::default()
            .step(step, spec.clone())
            .clusters(clusters.clone())
            .web(4)
            .following(&first);
        let decisions = renamed.place();
        assert_eq!(numbers(&decisions), [2, 2]);
        assert_eq!(decisions[0].clusters, ["a", "b"]);
    }
}

#[test]
fn capacity_is_shared_by_rules_and_workloads_in_order() {
    let mut clusters = fleet(&["a", "b"]);
    clusters[0].capacity = Some(5);
    let spec = json!({"placement": [
        {"name": "one", "clusters": ["a"], "replicas": 3},
        {"name": "two", "replicas": "100%"}]});
    let mut case = Case::new(spec, 10, clusters);
    case.workloads.push(workload("api", 4));
    let decision = &case.place()[0];
    let shown = |index: usize| -> Vec<(&str, &str, u32)> {
        let rows = decision.workloads[index].clusters.iter();
        rows.map(|row| (row.name.as_str(), row.rule.as_str(), row.replicas))
            .collect()
    };
    assert_eq!(shown(0), [("a", "one", 3), ("a", "two", 2), ("b", "two", 5)]);
    assert_eq!(shown(1), [("a", "one", 0), ("a", "two", 0), ("b", "two", 1)]);
    let lacking = &decision.workloads[1].unplaced;
    assert_eq!(
        (
            lacking[0].rule.as_deref(),
            lacking[0].count,
            lacking[0].reason.as_str()
        ),
        (Some("one"), 3, "AtCapacity")
    );
    assert!(!decision.satisfied);
}

#[test]
fn duplicates_get_the_full_count_and_are_no_part_of_the_sum() {
    let spec = json!({"placement": [{"name": "all"}]});
    let mut case = Case::new(spec, 3, fleet(&["a", "b"]));
    let decision = &case.place()[0];
    let workload = &decision.workloads[0];
    assert_eq!(
        (workload.placed, workload.unplaced.len(), workload.replicas),
        (0, 0, 3)
    );
    assert!(
        workload
            .clusters
            .iter()
            .all(|row| row.duplicate && row.replicas == 3 && row.quota.is_none())
    );
    assert!(decision.satisfied && decision.reasons.is_empty());

    case.clusters[1].capacity = Some(1);
    let decision = &case.place()[0];
    assert_eq!(decision.workloads[0].clusters[1].replicas, 1);
    assert_eq!(
        decision.workloads[0].clusters[1].bound.as_deref(),
        Some("Capacity")
    );
    assert!(!decision.satisfied);
    assert_eq!(
        decision.reasons,
        ["rule all does not give every cluster all 3 replicas of Deployment default/web (b: Capacity 1)"]
    );
}

#[test]
fn several_steps_share_the_replicas_and_the_remainder() {
    let clusters = || [cluster("a", "region=east"), cluster("b", "region=west")];
    let step = |region: &str, share: &str, remainder: &str| json!({"placement": [{"clusterSelector": {"region": region}, "replicas": share}], "remainder": remainder});
    let case = |first: &str, second: &str| {
        Case::default()
            .step("east", step("east", "70%", first))
            .step("west", step("west", "20%", second))
            .clusters(clusters())
            .web(10)
    };
    let decisions = case("Hold", "Hold").place();
    assert_eq!(counts(&decisions), [("a".to_owned(), 7), ("b".to_owned(), 2)]);
    assert!(decisions[0].workloads[0].unplaced.is_empty());
    assert_eq!(unplaced(&decisions), [(None, 1, "Unclaimed")]);
    assert_eq!(
        decisions.iter().map(|d| d.step.as_str()).collect::<Vec<_>>(),
        ["east", "west"]
    );
    // One remainder for all: it is spread only if every step says so.
    assert_eq!(numbers(&case("Hold", "Spread").place()), [7, 2]);
    assert_eq!(numbers(&case("Spread", "Spread").place()), [8, 2]);
}

#[test]
fn a_later_step_on_the_same_cluster_is_named() {
    let case = Case::default()
        .step(
            "canary",
            json!({"placement": [{"clusters": ["a"], "replicas": 1}]}),
        )
        .step("all", json!({"placement": [{"replicas": "90%"}]}))
        .clusters(fleet(&["a", "b"]))
        .web(10);
    let decisions = case.place();
    assert!(decisions[0].reasons.is_empty());
    assert_eq!(
        decisions[1].reasons,
        [
            "rule rule-0 places Deployment default/web on clusters of an earlier step, whose count it replaces (a: 1 from \
          step canary); let the steps select different clusters"
        ]
    );
}

#[test]
fn max_clusters_takes_the_heaviest_then_those_that_were_chosen() {
    let spec = |limit: u32| json!({"placement": [{"replicas": "100%", "weights": {"c": 5, "d": 0}}], "maxClusters": limit});
    let names = ["a", "b", "c", "d", "e"];
    let decisions = Case::new(spec(1), 6, fleet(&names)).place();
    assert_eq!(counts(&decisions), [("c".to_owned(), 6)]);
    assert_eq!(excluded(&decisions[0]), [("MaxClusters", 4)]);
    for held in ["a", "b", "e"] {
        let decisions = Case::new(spec(2), 6, fleet(&names)).after(&[(held, 1)]).place();
        assert!(
            decisions[0].clusters.contains(&held.into()),
            "{held}: {:?}",
            decisions[0].clusters
        );
    }
}

#[test]
fn members_keep_their_bundle_until_no_rule_matches() {
    let case = Case::new(everywhere("100%"), 3, fleet(&["a", "b", "c", "d"]));
    let first = case.place();
    assert_eq!(first[0].clusters.len(), 3, "a share of 0 gives no bundle");
    let none = case.clone().web(0).following(&first).place();
    assert_eq!(none[0].clusters, first[0].clusters);
    assert!(Case::web(case.clone(), 0).place()[0].clusters.is_empty());
    let mut gone = case.following(&first);
    gone.workloads.clear();
    gone.steps[0].1.placement[0].clusters = Some(vec!["d".to_owned()]);
    assert_eq!(
        gone.place()[0].clusters,
        ["d"],
        "without replicated workloads, every matched cluster"
    );
}

#[test]
fn a_bundle_stays_where_another_step_takes_the_cluster_over() {
    let step = |region: &str, share: &str| json!({"placement": [{"clusterSelector": {"region": region}, "replicas": share}]});
    let mut case = Case::default()
        .step("east", step("east", "50%"))
        .step("west", step("west", "0%"))
        .clusters([cluster("a", "region=east"), cluster("b", "region=west")])
        .web(2);
    let first = case.place();
    assert_eq!(first[0].clusters, ["a"]);
    case = case.following(&first);
    case.clusters[0] = cluster("a", "region=west");
    let second = case.place();
    assert!(second[0].clusters.is_empty());
    assert_eq!(second[1].clusters, ["a"]);
}

#[test]
fn the_hash_covers_what_is_decided_and_not_its_history() {
    let case = Case::new(everywhere("100%"), 3, fleet(&["a", "b"]));
    let first = case.place();
    let second = case.clone().following(&first).place();
    assert_ne!(first, second, "the second knows what was before");
    assert_eq!(decision_hash(&first[0]), decision_hash(&second[0]));
    let mut hashes = vec![
        decision_hash(&first[0]),
        decision_hash(&case.clone().web(4).place()[0]),
    ];
    let mut fewer = case;
    fewer.clusters[1].accepted = false;
    hashes.push(decision_hash(&fewer.place()[0]));
    hashes.dedup();
    assert_eq!(hashes.len(), 3);
}

/// A cluster that a rule divides to and another gives the full count runs the larger of the two: so the decision says, so
/// capacity is charged, and so manifests are written (`dispatch::shares`).
#[test]
fn a_share_and_the_full_count_are_not_added_up() {
    let facts = |capacity| ClusterFacts {
        capacity,
        ..cluster("c1", "region=east")
    };
    let share = json!({"name": "share", "clusterSelector": {"region": "east"}, "replicas": "50%"});
    let full = json!({"name": "full", "clusters": ["c1", "c2"]});
    for (order, rules) in [("share first", [&share, &full]), ("full first", [&full, &share])] {
        // 6 divided replicas over c1 and c3, 12 in full on c1 and c2.
        let clusters = || [facts(Some(14)), cluster("c2", ""), cluster("c3", "region=east")];
        let case = Case::new(json!({"placement": rules}), 12, clusters());
        let decisions = case.place();
        let rows: Vec<_> = decisions[0].workloads[0].clusters.iter().collect();
        let rows: Vec<_> = rows
            .iter()
            .map(|r| (r.name.as_str(), r.rule.as_str(), r.replicas))
            .collect();
        assert_eq!(
            rows,
            [
                ("c1", "full", 12),
                ("c1", "share", 3),
                ("c2", "full", 12),
                ("c3", "share", 3)
            ],
            "{order}"
        );
        assert_eq!(decisions[0].workloads[0].placed, 6, "{order}");
        assert_eq!(
            decisions[0].reasons[0],
            "1 cluster gets replicas of Deployment default/web both from a rule with a share and from one without: the larger count runs, they are not added up (c1: 3 and 12); let the rules select different clusters",
            "{order}"
        );
        // What is charged is what runs: of 14, two are left for the next workload.
        let mut two = case;
        two.workloads.push(workload("second", 12));
        let second = two.place();
        let c1 = second[0].workloads[1]
            .clusters
            .iter()
            .filter(|row| row.name == "c1");
        let c1: Vec<_> = c1
            .map(|row| (row.rule.as_str(), row.replicas, row.bound.as_deref()))
            .collect();
        assert_eq!(
            c1,
            [("full", 2, Some("Capacity")), ("share", 2, Some("Capacity"))],
            "{order}"
        );
    }
}
