//! The one decisive reason, and the order in which conditions are asked.

use super::fixture::{answer, cluster, decisive, facing, setting, settled, taint};
use crate::explain::{Mark, Reason, StepAnswer};
use crate::placement::NotChosen;
use roundhouse_api::placement::TaintEffect;
use serde_json::json;

/// The conditions, one a line: mark, whether decisive, and what they say.
fn lines(answer: &StepAnswer) -> String {
    let line = |c: &crate::explain::Condition| {
        let mark = match c.mark {
            Mark::Holds => "✓",
            Mark::Fails => "✗",
            Mark::NotAsked => "–",
        };
        let decisive = if c.decisive { " ← decisive" } else { "" };
        let rule = c.rule.as_deref().unwrap_or("step");
        format!("{mark} {rule} {}: {}: {}{decisive}", c.about, c.asks, c.found)
    };
    answer.conditions.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_condition_in_its_order() {
    let rule = json!({"name": "all", "replicas": "100%", "clusterSelector": {"matchExpressions": [
        {"key": "region", "operator": "In", "values": ["east", "west"]},
        {"key": "tier", "operator": "NotIn", "values": ["lab"]}]}});
    let mut lab = cluster("c117", "region=west,tier=lab");
    lab.capacity = Some(3);
    let setting = setting(
        &[("deploy", json!({"placement": [rule]}))],
        10,
        [lab, cluster("c118", "region=west")],
    );
    insta::assert_snapshot!(lines(&answer(&setting, "c117")), @r"
    ✓ all clusterSelector: region In [east, west]: region=west
    ✗ all clusterSelector: tier NotIn [lab]: tier=lab ← decisive
    – step accepted: an administrator: accepted
    – step joined: its agent's report: joined
    – step taint: no taint that is not tolerated: no taints
    – step reachable: its agent's heartbeat: its Lease is fresh
    – step maxClusters: no limit: no limit
    – step capacity: room for a replica: 3 replicas
    – step share: a replica: 
    ");
    insta::assert_snapshot!(lines(&answer(&setting, "c118")), @r"
    ✓ all clusterSelector: region In [east, west]: region=west
    ✓ all clusterSelector: tier NotIn [lab]: no label tier
    ✓ step accepted: an administrator: accepted
    ✓ step joined: its agent's report: joined
    ✓ step taint: no taint that is not tolerated: no taints
    ✓ step reachable: its agent's heartbeat: its Lease is fresh
    ✓ step maxClusters: no limit: no limit
    ✓ step capacity: room for a replica: not reported: no bound
    ✓ all share: Deployment default/web by rule all: 10 of 10, its quota is 10
    ");
}

#[test]
fn each_taint_is_shown_with_the_toleration_that_matches() {
    let spec =
        json!({"placement": [{"replicas": "100%"}], "tolerations": [{"key": "gpu", "operator": "Exists"}]});
    let mut facts = cluster("c1", "");
    facts.taints = vec![
        taint("gpu", "a100", TaintEffect::NoExecute),
        taint("lab", "", TaintEffect::NoSchedule),
        taint("flood", "", TaintEffect::NoExecute),
    ];
    let setting = setting(&[("deploy", spec)], 4, [facts]);
    let answer = answer(&setting, "c1");
    assert_eq!(answer.reason, Reason::NotChosen(NotChosen::Tainted));
    insta::assert_snapshot!(lines(&answer), @r"
    ✓ rule-0 clusterSelector: every cluster: c1
    ✓ step accepted: an administrator: accepted
    ✓ step joined: its agent's report: joined
    ✓ step taint: gpu=a100:NoExecute: tolerated by gpu Exists
    ✗ step taint: lab:NoSchedule: no toleration
    ✗ step taint: flood:NoExecute: no toleration ← decisive
    – step reachable: its agent's heartbeat: its Lease is fresh
    – step maxClusters: no limit: no limit
    – step capacity: room for a replica: not reported: no bound
    – step share: a replica: 
    ");
}

#[test]
fn of_several_rules_the_closest_one_decides() {
    let placement = json!({"placement": [
        {"name": "gold", "replicas": "50%", "clusterSelector": {"region": "east", "tier": "gold"}},
        {"name": "some", "replicas": "50%", "clusters": ["c1", "c2", "c3", "c4", "c5", "c6"], "clusterSelector": {"region": "west"}}]});
    let setting = setting(
        &[("deploy", placement)],
        4,
        [cluster("c9", "region=west,tier=tin")],
    );
    let answer = answer(&setting, "c9");
    let expected = ["clusters", "c1, c2, c3, c4, c5, … and 1 more", "not listed"];
    assert_eq!(decisive(&answer), expected);
}

#[test]
fn a_cordoned_cluster_that_holds_something_keeps_it() {
    let spec = json!({"placement": [{"replicas": "100%"}]});
    let setting = settled(setting(
        &[("deploy", spec)],
        4,
        [cluster("c1", ""), cluster("c2", "")],
    ));
    let cordon = taint("roundhouse.dev/cordoned", "", TaintEffect::NoSchedule);
    let setting = facing(setting, "c1", |facts| facts.taints = vec![cordon]);
    let placed = answer(&setting, "c1");
    assert_eq!((placed.reason, placed.replicas()), (Reason::Placed, 2));
    let taint = placed.conditions.iter().find(|c| c.about == "taint").unwrap();
    assert_eq!(taint.found, "no toleration: keeps what it has, gets nothing more");
}
