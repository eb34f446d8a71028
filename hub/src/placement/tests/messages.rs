//! What people read: the exact messages.

use super::fixture::{Case, cluster, numbers, unplaced};
use crate::placement::ClusterFacts;
use serde_json::{Value, json};

fn fleet(names: &[&str]) -> Vec<ClusterFacts> {
    names.iter().map(|name| cluster(name, "")).collect()
}

fn reasons(spec: Value, replicas: u32, clusters: Vec<ClusterFacts>) -> Vec<String> {
    Case::new(spec, replicas, clusters).place().remove(0).reasons
}

#[test]
fn reasons_say_what_to_do() {
    let east = || -> Vec<ClusterFacts> { ["a", "b"].map(|name| cluster(name, "region=east")).to_vec() };
    let rule = |extra: Value| {
        let mut rule = json!({"name": "r", "replicas": "100%"});
        rule.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"placement": [rule]})
    };
    let table: Vec<(Value, u32, &[&str])> = vec![
        (
            rule(json!({"replicas": "90%"})),
            10,
            &[
                "1 of 10 replicas of Deployment default/web is not placed: no rule claims it (percentages sum to 90%; \
               remainder: Hold); set remainder: Spread in every placing step, or raise a percentage",
            ],
        ),
        (
            rule(json!({"replicas": 8})),
            10,
            &[
                "2 of 10 replicas of Deployment default/web are not placed: no rule claims them (no rule has a percentage \
               above 0%); add a rule with a percentage",
            ],
        ),
        (
            rule(json!({"clusterSelector": {"region": "west"}})),
            2,
            &[
                "rule r matches no cluster (selector region=west; 2 clusters have region=east); label a cluster or \
                 change the rule",
                "2 replicas of Deployment default/web cannot be placed: rule r has no cluster",
            ],
        ),
        (
            rule(json!({"clusterSelector": {"zone": "1"}})),
            0,
            &[
                "rule r matches no cluster (selector zone=1; no cluster has the label zone); label a cluster or change \
               the rule",
            ],
        ),
        (
            rule(json!({"clusters": ["a", "x", "y"]})),
            1,
            &["rule r names clusters that are not in the fleet: x, y"],
        ),
        (
            rule(json!({"weights": {"a": 2, "x": 2}})),
            1,
            &["rule r has weights for clusters that it does not match: x"],
        ),
        (
            rule(json!({"perCluster": {"max": 2}})),
            5,
            &[
                "1 replica of Deployment default/web cannot be placed: the clusters of rule r take no more (a: Max 2, b: Max 2)",
            ],
        ),
        (
            rule(json!({"perCluster": {"min": 2}})),
            3,
            &[
                "rule r: 3 of Deployment default/web are fewer than its minimums (2 on each of 2 clusters): minimums are \
               shrunk; lower perCluster.min or raise replicas",
            ],
        ),
        (
            rule(json!({"replicas": 12})),
            10,
            &[
                "Overcommitted: the rules claim more than the 10 replicas of Deployment default/web: rule r gets 10 of 12; \
               lower counts or percentages",
            ],
        ),
        (
            json!({"placement": []}),
            1,
            &["step deploy has no rule: add one under placement"],
        ),
    ];
    for (spec, replicas, expected) in table {
        let shown = spec.to_string();
        assert_eq!(reasons(spec, replicas, east()), expected, "{shown}");
    }
    let mut barred = east();
    barred[0].accepted = false;
    barred[1].joined = false;
    assert_eq!(
        reasons(rule(json!({})), 0, barred),
        [
            "rule r matches clusters but may use none of them: 1 NotAccepted (accept them), 1 NotJoined (start their agents)"
        ]
    );
}

/// However long the reasons are.
#[test]
fn what_claims_too_much_is_marked_where_it_shrinks() {
    let counts: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("r{n}"), "replicas": 1, "clusterSelector": {"x": n.to_string()}}))
        .collect();
    let case = Case::default()
        .step(
            "first",
            json!({"placement": [{"name": "half", "replicas": "50%"}]}),
        )
        .step("second", json!({"placement": counts}))
        .step("third", json!({"placement": [{"name": "rest", "replicas": 3}]}))
        .clusters(fleet(&["a"]))
        .web(40);
    let decisions = case.place();
    let shrunk: Vec<Vec<(&str, u32, u32)>> = decisions
        .iter()
        .map(|decision| {
            let rules = decision.workloads[0].shrunk();
            rules
                .map(|rule| (rule.rule.as_deref().unwrap(), rule.total, rule.seats))
                .collect()
        })
        .collect();
    assert_eq!(
        shrunk,
        [
            vec![("half", 0, 20)],
            vec![("r0", 0, 1), ("r1", 0, 1), ("r2", 0, 1)],
            vec![]
        ]
    );
    let marked: Vec<bool> = decisions.iter().map(|d| d.workloads[0].overcommitted).collect();
    assert_eq!(marked, [true, true, false]);
    let mut enough = case;
    enough.workloads[0].replicas = 86;
    assert!(enough.place().iter().all(|d| !d.workloads[0].overcommitted));
}

#[test]
fn a_total_outside_its_quota_is_named() {
    let rules = |shares: &[&str]| {
        let list: Vec<Value> = shares.iter().map(|share| json!({"replicas": share})).collect();
        json!({"placement": list})
    };
    assert_eq!(
        reasons(rules(&["55%", "7%", "31%", "7%"]), 20, fleet(&["a"])),
        [
            "rule rule-0 gets 12 where 11 is its exact share of Deployment default/web: rounding all shares together, so \
          that one replica more never takes one from a rule"
        ]
    );
}

/// The code and the sentence of each bound that leaves replicas without a place.
#[test]
fn what_finds_no_place_is_named_with_its_bound() {
    let with = |change: fn(&mut ClusterFacts)| {
        let mut facts = cluster("a", "");
        change(&mut facts);
        facts
    };
    let spec = || json!({"placement": [{"name": "r", "replicas": "100%"}]});
    for (facts, before, code, told) in [
        (
            with(|facts| facts.capacity = Some(2)),
            0,
            (3, "AtCapacity"),
            vec![
                "3 replicas of Deployment default/web cannot be placed: the clusters of rule r take no more (a: Capacity 2)",
            ],
        ),
        (
            with(|facts| facts.reachable = false),
            2,
            (3, "NoAdditional"),
            vec![
                "3 replicas of Deployment default/web cannot be placed: the clusters of rule r take no more (a: NoAdditional 2)",
            ],
        ),
        (
            with(|facts| facts.accepted = false),
            0,
            (5, "NoClusterEligible"),
            vec![
                "rule r matches clusters but may use none of them: 1 NotAccepted (accept them)",
                "5 replicas of Deployment default/web cannot be placed: rule r has no cluster",
            ],
        ),
    ] {
        let mut case = Case::new(spec(), 5, vec![facts]);
        if before > 0 {
            let key = ("deploy", &case.workloads[0].key.clone(), "r");
            case.previous = std::mem::take(&mut case.previous).assigning(key, [("a", before)]);
        }
        let decisions = case.place();
        assert_eq!(unplaced(&decisions), [(Some("r"), code.0, code.1)]);
        assert_eq!(decisions[0].reasons, told);
        assert!(!decisions[0].satisfied);
    }
}

#[test]
fn what_never_keeps_is_named() {
    let spec = json!({"placement": [{"replicas": "100%"}], "rebalance": "Never"});
    let decisions = Case::new(spec, 6, fleet(&["a", "b"]))
        .after(&[("a", 5), ("b", 1)])
        .place();
    assert_eq!(numbers(&decisions), [5, 1]);
    assert_eq!(
        decisions[0].reasons,
        [
            "rule rule-0 keeps earlier assignments of Deployment default/web (rebalance: Never): dividing anew would move \
          2 replicas"
        ]
    );
}

#[test]
fn long_lists_are_cut_and_counted() {
    let rules: Vec<Value> = (0..40)
        .map(|i| json!({"replicas": 0, "clusterSelector": {"x": "y".repeat(i)}}))
        .collect();
    let lines = reasons(json!({"placement": rules}), 0, fleet(&["a"]));
    assert_eq!(lines.len(), 33);
    assert_eq!(lines[32], "… and 8 more");
    let selector = json!({"x": "y".repeat(1000)});
    let lines = reasons(
        json!({"placement": [{"replicas": 0, "clusterSelector": selector}]}),
        0,
        fleet(&["a"]),
    );
    assert_eq!(lines[0].chars().count(), 401);
}
