//! Which overrides are decided for whom.

use super::fixture::{Case, cluster};
use crate::placement::{StepDecision, decision_hash, error_line};
use serde_json::{Value, json};

fn place(overrides: &Value) -> StepDecision {
    let spec = json!({"placement": [
        {"name": "east", "clusterSelector": {"region": "east"}, "replicas": "60%"},
        {"name": "west", "clusterSelector": {"region": "west"}, "replicas": "40%"},
        {"name": "south", "clusterSelector": {"region": "south"}, "replicas": 0}], "overrides": overrides});
    let clusters = [
        "c1 region=east,db=one",
        "c2 region=east,db=two",
        "c3 region=west,db=one",
        "c4 region=west",
        "c5 region=north",
    ]
    .map(|text| text.split_once(' ').unwrap())
    .map(|(name, labels)| cluster(name, labels));
    Case::new(spec, 10, clusters).place().remove(0)
}

fn on(mut whom: Value) -> Value {
    whom["target"] = json!({"kind": "ConfigMap", "name": "settings"});
    whom["patch"] = json!({"data": {"level": "debug"}});
    whom
}

fn lines(decision: &StepDecision) -> Vec<String> {
    decision.override_errors.iter().map(error_line).collect()
}

#[test]
fn an_override_is_for_the_members_that_it_means() {
    for (whom, expected) in [
        (json!({}), vec!["c1", "c2", "c3", "c4"]),
        (json!({"rule": "east"}), vec!["c1", "c2"]),
        (json!({"clusterSelector": {"db": "one"}}), vec!["c1", "c3"]),
        (json!({"clusters": ["c4", "c2", "unknown"]}), vec!["c2", "c4"]),
        (
            json!({"rule": "west", "clusterSelector": {"matchExpressions": [{"key": "db", "operator": "DoesNotExist"}]}}),
            vec!["c4"],
        ),
    ] {
        let decision = place(&json!([on(whom.clone())]));
        assert_eq!(decision.overrides[0].clusters, expected, "{whom}");
        assert_eq!(
            (lines(&decision), decision.satisfied),
            (vec![], false),
            "south has no cluster"
        );
        assert!(decision.cluster_labels.is_empty());
    }
    // A rule that matches no cluster says so itself.
    let decision = place(&json!([on(json!({"rule": "south"}))]));
    assert!(decision.override_errors.is_empty() && decision.overrides.is_empty());
}

#[test]
fn an_override_without_a_cluster_is_an_error() {
    let decision = place(&json!([
        on(json!({})),
        on(json!({"clusters": ["c5"]})),
        on(json!({"rule": "middle"}))
    ]));
    let expected = [
        "overrides[1] of ConfigMap settings: it is for no cluster that the rules match: correct rule, clusterSelector or \
         clusters, or remove it",
        "overrides[2] of ConfigMap settings: there is no rule named middle: name one of this placement",
    ];
    assert_eq!(lines(&decision), expected);
    assert!(
        !decision.satisfied
            && expected
                .iter()
                .all(|line| decision.reasons.contains(&(*line).to_owned()))
    );
    assert_eq!(decision.overrides.len(), 1);
}

#[test]
fn labels_that_variables_name_are_part_of_the_decision() {
    let named = |whom: Value| {
        let mut change = on(whom);
        change["patch"] = json!({"data": {"url": "${cluster.labels.db}.${cluster.name}/${HOME}"}});
        change
    };
    let decision = place(&json!([named(json!({"rule": "east"}))]));
    assert_eq!(
        json!(decision.cluster_labels),
        json!({"c1": {"db": "one"}, "c2": {"db": "two"}})
    );
    assert_ne!(
        decision_hash(&decision),
        decision_hash(&place(&json!([on(json!({"rule": "east"}))])))
    );
    let decision = place(&json!([named(json!({}))]));
    assert_eq!(
        lines(&decision),
        [
            "overrides[0] of ConfigMap settings at /data/url on cluster c4: the cluster has no label db, which \
          ${cluster.labels.db} stands for: label it, or restrict the override to clusters that have the label"
        ]
    );
    let operations = json!([{"target": {"kind": "ConfigMap", "name": "settings"}, "jsonPatch": [
        {"op": "add", "path": "/data/list", "value": ["${cluster.labels.tier}"]}]}]);
    assert_eq!(
        lines(&place(&operations)),
        [
            "overrides[0] of ConfigMap settings at /data/list on cluster c1 and 3 more: the cluster has no label tier, which \
          ${cluster.labels.tier} stands for: label it, or restrict the override to clusters that have the label"
        ]
    );
}
