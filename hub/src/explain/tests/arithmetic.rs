//! The arithmetic, as it is read off a decision.

use super::fixture::{cluster, facing, setting, settled};
use crate::{
    explain::{arithmetic, by_frequency},
    words,
};
use serde_json::json;

#[test]
fn rows_have_weight_quota_bound_previous_and_delta() {
    let spec = json!({"placement": [
        {"name": "west", "replicas": "20%", "clusterSelector": {"region": "west"}, "weights": {"c1": 3, "c2": 2},
            "perCluster": {"min": 1, "max": 1000}}]});
    let west = ["c1", "c2", "c3"].map(|name| cluster(name, "region=west"));
    let setting = settled(setting(&[("deploy", spec)], 10_000, west));
    let setting = facing(setting, "c3", |facts| facts.capacity = Some(300));
    let decisions = setting.place();
    let all = arithmetic(&setting, &decisions[0]);
    assert_eq!(
        (all[0].replicas, all[0].placed, all[0].held),
        (10_000, 2_000, Some(8_000))
    );
    let rule = &all[0].rules[0];
    assert_eq!(
        (rule.share.as_deref(), rule.total, rule.off),
        (Some("20%"), 2_000, false)
    );
    let rows: Vec<_> = rule
        .rows
        .iter()
        .map(|row| {
            let quota = words::decimal(row.quota.as_deref().unwrap());
            (
                row.cluster.as_str(),
                row.weight.unwrap(),
                quota,
                row.replicas,
                row.bound.as_deref(),
                row.delta(),
            )
        })
        .collect();
    let expected = [
        ("c1", 3, "1,000".to_owned(), 1000, Some("max 1000"), 0),
        ("c2", 2, "666.67".to_owned(), 700, None, 33),
        ("c3", 1, "333.33".to_owned(), 300, Some("capacity 300"), -33),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_total_that_misses_its_quota_says_so() {
    // Webster may leave the quota: 40/8 to 1 (of 7 by 21: 92.5 %, 2.5 %, 2.5 %, 2.5 %).
    let rules: Vec<_> = [("a", "92.5%"), ("b", "2.5%"), ("c", "2.5%"), ("d", "2.5%")]
        .iter()
        .map(|(name, share)| json!({"name": name, "replicas": share}))
        .collect();
    let fleet = |replicas| {
        setting(
            &[("deploy", json!({"placement": rules}))],
            replicas,
            [cluster("c1", "")],
        )
    };
    let off = |replicas: u32| {
        let setting = fleet(replicas);
        arithmetic(&setting, &setting.place()[0])[0]
            .rules
            .iter()
            .any(|rule| rule.off)
    };
    let misses: Vec<u32> = (1..60).filter(|replicas| off(*replicas)).collect();
    assert!(!misses.is_empty(), "some number of replicas misses a quota");
    for replicas in misses {
        // The engine says the same.
        let decisions = fleet(replicas).place();
        assert!(
            decisions[0]
                .reasons
                .iter()
                .any(|reason| reason.contains("is its exact share")),
            "{replicas}"
        );
    }
}

#[test]
fn the_most_frequent_reason_comes_first() {
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": {"region": "east"}}]});
    let mut clusters = ["a", "b", "c"].map(|name| cluster(name, "region=west")).to_vec();
    clusters.push(cluster("d", "region=east"));
    clusters[3].accepted = false;
    let decisions = setting(&[("deploy", spec)], 3, clusters).place();
    let sorted = by_frequency(&decisions[0].excluded);
    let sorted: Vec<_> = sorted
        .iter()
        .map(|e| (e.count, words::not_chosen(&e.reason)))
        .collect();
    assert_eq!(
        sorted,
        [
            (3, "no rule of the step selects it"),
            (1, "no administrator has accepted it")
        ]
    );
}
