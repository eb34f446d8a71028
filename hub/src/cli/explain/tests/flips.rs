//! Every change that is printed is typed in, and the cluster is seen to flip.

use super::{application, facts, hands::Hub, holds::lose_contact};
use roundhouse_api::{
    cluster::{Cluster, TAINT_CORDONED, TAINT_UNAVAILABLE},
    placement::{Taint, TaintEffect},
};
use serde_json::{Value, json};

/// Takes every way that is printed for a step of a cluster, and sees it flip. Returns how many there were.
pub(super) fn take_all(hub: &Hub, cluster: &str, step: usize) -> usize {
    let printed = &hub.explained(cluster)[step];
    let placed = hub.places(cluster, step);
    let ways = printed["flips"]["ways"].as_array().map_or(&[][..], Vec::as_slice);
    if !ways.is_empty() {
        let to = if placed { "exclude" } else { "include" };
        assert_eq!(printed["flips"]["to"], to, "{printed:#}");
    }
    for way in ways {
        let after = hub.clone().take(cluster, way);
        assert_eq!(after.places(cluster, step), !placed, "{way:#}\nof {printed:#}");
    }
    ways.len()
}

/// `c1` fares like this for this reason, one condition decides (none where it is placed), and every way that is printed
/// flips it. Returns the kinds of changes of all ways.
fn check(hub: &Hub, reason: &str, about: &str) -> Vec<String> {
    let printed = &hub.explained("c1")[0];
    let detail = printed["detail"].as_str().or(printed["reason"].as_str());
    assert_eq!(detail, Some(reason), "{printed:#}");
    let conditions = printed["conditions"].as_array().unwrap().iter();
    let decisive: Vec<&Value> = conditions
        .filter(|condition| condition["decisive"] == true)
        .collect();
    match about {
        "" => assert!(decisive.is_empty(), "{printed:#}"),
        _ => {
            assert_eq!(decisive.len(), 1, "{printed:#}");
            assert_eq!(decisive[0]["about"], about, "{printed:#}");
            assert_eq!(printed["decisive"], *decisive[0]);
        }
    }
    assert!(take_all(hub, "c1", 0) > 0, "nothing flips it: {printed:#}");
    let ways = printed["flips"]["ways"].as_array().unwrap().iter();
    let changes = ways.flat_map(|way| way["changes"].as_array().unwrap());
    changes
        .map(|change| change["kind"].as_str().unwrap().to_owned())
        .collect()
}

fn has(kinds: &[String], wanted: &[&str]) {
    for kind in wanted {
        assert!(kinds.iter().any(|known| known == kind), "{kind}: {kinds:?}");
    }
}

/// `c1` as given, among three others in the east.
fn fleet(c1: Cluster) -> Vec<Cluster> {
    let others = ["c2", "c3", "c4"].map(|name| facts(name, &[("region", "east")]));
    [c1].into_iter().chain(others).collect()
}

fn deploy(properties: Value) -> Value {
    let mut step = json!({"name": "deploy", "type": "deploy"});
    step["properties"] = properties;
    step
}

fn hub(replicas: u32, properties: Value, c1: Cluster) -> Hub {
    Hub::new(application(replicas, &json!([deploy(properties)])), fleet(c1))
}

fn plain() -> Cluster {
    facts("c1", &[])
}

fn changed(change: impl Fn(&mut Cluster)) -> Cluster {
    let mut cluster = plain();
    change(&mut cluster);
    cluster
}

pub(super) fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: None,
        effect,
        time_added: None,
    }
}

fn with(mut properties: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    properties.as_object_mut().unwrap().extend(more);
    properties
}

/// One rule for everything, and what else it says.
fn rule(more: &Value) -> Value {
    json!({"placement": [with(json!({"name": "all", "replicas": "100%"}), more)]})
}

fn all() -> Value {
    rule(&json!({}))
}

/// The others are ten times as heavy.
fn heavy() -> Value {
    rule(&json!({"weights": {"c2": 10, "c3": 10, "c4": 10}}))
}

#[test]
fn a_cluster_that_no_rule_matches() {
    let expressions = |requirement: Value| json!({"matchExpressions": [requirement]});
    for (selector, labels) in [
        (json!({"region": "east"}), &[][..]),
        (json!({"region": "east"}), &[("region", "west")]),
        (
            expressions(json!({"key": "region", "operator": "In", "values": ["a", "b"]})),
            &[],
        ),
        (
            expressions(json!({"key": "tier", "operator": "NotIn", "values": ["lab"]})),
            &[("tier", "lab")],
        ),
        (
            expressions(json!({"key": "tier", "operator": "DoesNotExist"})),
            &[("tier", "lab")],
        ),
        (expressions(json!({"key": "region", "operator": "Exists"})), &[]),
    ] {
        let properties = rule(&json!({"clusterSelector": selector}));
        check(
            &hub(12, properties, facts("c1", labels)),
            "NotMatched",
            "clusterSelector",
        );
    }
    let named = hub(12, rule(&json!({"clusters": ["c2"]})), plain());
    assert_eq!(check(&named, "NotMatched", "clusters"), ["addName"]);
}

#[test]
fn a_cluster_that_is_not_there_yet() {
    let unaccepted = changed(|cluster| cluster.spec.accepted = false);
    assert_eq!(
        check(&hub(12, all(), unaccepted), "NotAccepted", "accepted"),
        ["accept"]
    );
    let unjoined = changed(|cluster| {
        let status = cluster.status.get_or_insert_default();
        for condition in &mut status.conditions {
            condition.status = "False".to_owned();
        }
        status
            .taints
            .push(taint(TAINT_UNAVAILABLE, TaintEffect::NoSchedule));
    });
    assert_eq!(check(&hub(12, all(), unjoined), "NotJoined", "joined"), ["join"]);
    let silent = changed(lose_contact);
    assert_eq!(
        check(&hub(12, all(), silent), "Unreachable", "reachable"),
        ["reconnect"]
    );
}

#[test]
fn a_cluster_with_a_taint() {
    for (key, effect, kind) in [
        ("gpu", TaintEffect::NoSchedule, "removeTaint"),
        ("gpu", TaintEffect::NoExecute, "removeTaint"),
        (TAINT_CORDONED, TaintEffect::NoSchedule, "uncordon"),
    ] {
        let tainted = changed(|cluster| cluster.spec.taints.push(taint(key, effect)));
        let kinds = check(&hub(12, all(), tainted), "Tainted", "taint");
        assert_eq!(kinds, [kind, "tolerate"]);
    }
}

#[test]
fn a_cluster_behind_others() {
    let weights = json!({"weights": {"c2": 3, "c3": 3, "c4": 3}});
    let behind = with(rule(&weights), &json!({"maxClusters": 2}));
    let kinds = check(&hub(12, behind.clone(), plain()), "MaxClusters", "maxClusters");
    has(&kinds, &["weight", "maxClusters"]);
    // Three in the east and one in the west: the west has the fewest, so one of the east has to wait.
    let spread = |clusters: u32, c1: Cluster| {
        let more = json!({"maxClusters": clusters, "spread": {"topologyKey": "region", "maxSkew": 1}});
        let mut hub = hub(12, with(behind.clone(), &more), c1);
        let west = facts("w1", &[("region", "west")]);
        hub.clusters.insert("w1".to_owned(), west);
        hub
    };
    has(
        &check(&spread(3, plain()), "NoTopologyLabel", "spread"),
        &["setLabel"],
    );
    let east = facts("c1", &[("region", "east")]);
    has(&check(&spread(4, east), "Skewed", "spread"), &["setLabel"]);
}

#[test]
fn a_share_of_zero() {
    let kinds = check(&hub(6, heavy(), plain()), "Arithmetic", "share");
    has(&kinds, &["weight", "min", "replicas"]);
    let unweighted = rule(&json!({"weights": {"c1": 0}}));
    has(
        &check(&hub(12, unweighted, plain()), "ZeroWeight", "share"),
        &["weight", "min"],
    );
    let two = |own: Value| {
        json!({"placement": [
            with(json!({"name": "own", "clusters": ["c1"]}), &own),
            {"name": "rest", "replicas": "50%", "clusters": ["c2", "c3", "c4"]}]})
    };
    let bounded = two(json!({"replicas": "50%", "perCluster": {"max": 0}}));
    has(&check(&hub(12, bounded, plain()), "Max", "share"), &["max"]);
    let idle = two(json!({"replicas": "0%"}));
    has(
        &check(&hub(10, idle, plain()), "RuleGetsNothing", "share"),
        &["share"],
    );
    let none = two(json!({"replicas": 0}));
    has(
        &check(&hub(10, none, plain()), "RuleGetsNothing", "share"),
        &["share"],
    );
    has(
        &check(&hub(0, all(), plain()), "NothingAsked", "share"),
        &["replicas"],
    );
    let full = changed(|cluster| {
        let status = cluster.status.get_or_insert_default();
        status.capacity.insert("replicas".to_owned(), "0".to_owned());
    });
    has(
        &check(&hub(12, all(), full), "Capacity", "capacity"),
        &["capacity"],
    );
}

#[test]
fn a_cluster_that_comes_late() {
    // What is placed may not move.
    let mut hub = hub(6, with(all(), &json!({"rebalance": "Never"})), plain());
    let c1 = hub.clusters.remove("c1").unwrap();
    let mut settled = hub.decide();
    settled.clusters.insert("c1".to_owned(), c1);
    has(
        &check(&settled, "Arithmetic", "share"),
        &["rebalance", "replicas"],
    );
    // It holds the objects with no replica, and is cordoned or out of reach.
    let mut holder = self::hub(6, all(), plain());
    let c1 = holder.clusters.remove("c1").unwrap();
    let mut holder = holder.decide();
    holder.decisions[0].spec.clusters.insert(0, "c1".to_owned());
    holder.clusters.insert("c1".to_owned(), c1);
    let cordon = taint(TAINT_CORDONED, TaintEffect::NoSchedule);
    let cordoned = holder
        .clone()
        .facing("c1", |cluster| cluster.spec.taints.push(cordon));
    has(&check(&cordoned, "NoAdditional", "taint"), &["uncordon"]);
    let silent = holder.facing("c1", lose_contact);
    has(&check(&silent, "NoAdditional", "reachable"), &["reconnect"]);
}

#[test]
fn weights_that_nodes_make_grow_with_them() {
    for (resource, others, now, expected) in [
        ("cpu", "40", Some("2300m"), "allocatable cpu of 14 (now 2300m)"),
        ("cpu", "40", None, "allocatable cpu of 14 (now not reported)"),
        (
            "memory",
            "160Gi",
            Some("4Gi"),
            "allocatable memory of 54Gi (now 4Gi)",
        ),
        (
            "memory",
            "900Mi",
            Some("10Mi"),
            "allocatable memory of 300Mi (now 10Mi)",
        ),
        (
            "example.com/gpus",
            "40",
            Some("1"),
            "allocatable example.com/gpus of 14 (now 1)",
        ),
    ] {
        let weighed = rule(&json!({"weightBy": {"allocatable": resource}}));
        let mut hub = hub(6, weighed, plain());
        for (name, cluster) in &mut hub.clusters {
            let quantity = if name == "c1" { now } else { Some(others) };
            let status = cluster.status.get_or_insert_default();
            let quantity = quantity.map(|quantity| (resource.to_owned(), quantity.to_owned()));
            status.allocatable.extend(quantity);
        }
        let reason = if now.is_none() { "ZeroWeight" } else { "Arithmetic" };
        has(&check(&hub, reason, "share"), &["allocatable"]);
        let text = hub.explained("c1")[0]["flips"].to_string();
        assert!(text.contains(expected), "{expected:?} is missing in {text}");
    }
}

#[test]
fn a_percentage_has_decimals_only_where_whole_ones_do_not_do() {
    for (taken, expected) in [
        ("99.5%", "replicas 0.05% in rule own (now 0%)"),
        ("50%", "replicas 1% in rule own (now 0%)"),
    ] {
        let properties = json!({"placement": [
            {"name": "own", "replicas": "0%", "clusters": ["c1"]},
            {"name": "rest", "replicas": taken, "clusters": ["c2", "c3", "c4"]}]});
        let hub = hub(1_000, properties, plain());
        has(&check(&hub, "RuleGetsNothing", "share"), &["share"]);
        let text = hub.explained("c1")[0]["flips"].to_string();
        assert!(text.contains(expected), "{expected:?} is missing in {text}");
    }
}

/// A Job, and the properties of the step that divides it.
fn job(parallelism: u32, completions: Option<u32>, properties: Value) -> Value {
    let mut spec = json!({"parallelism": parallelism, "template": {}});
    if let Some(completions) = completions {
        spec["completions"] = json!(completions);
    }
    let metadata = json!({"name": "sums", "namespace": "default"});
    let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
    json!({
        "components": [{"name": "sums", "type": "k8s-objects", "properties": {"objects": [object]}}],
        "workflow": {"steps": [deploy(properties)]}})
}

#[test]
fn a_job_gets_completions_where_it_needs_them() {
    let more = "16 replicas of Job default/sums (now 6)";
    for (completions, expected, words) in [
        (None, Value::Null, more.to_owned()),
        (
            Some(3),
            json!(16),
            format!("{more}, and as many completions (now 3)"),
        ),
        (
            Some(12),
            json!(16),
            format!("{more}, and as many completions (now 12)"),
        ),
        (Some(100), json!(100), more.to_owned()),
    ] {
        let hub = Hub::new(job(6, completions, heavy()), fleet(plain()));
        has(&check(&hub, "Arithmetic", "share"), &["replicas"]);
        let printed = &hub.explained("c1")[0];
        let ways = printed["flips"]["ways"].as_array().unwrap();
        let is_it = |way: &&Value| way["changes"][0]["kind"] == "replicas";
        let way = ways.iter().find(is_it).unwrap_or_else(|| panic!("{printed:#}"));
        assert_eq!(way["changes"][0]["what"], words);
        let after = hub.clone().take("c1", way);
        let after = &after.spec["components"][0]["properties"]["objects"][0]["spec"];
        assert_eq!(
            (&after["parallelism"], &after["completions"]),
            (&json!(16), &expected)
        );
    }
}

#[test]
fn a_job_that_was_divided_moves_only_with_a_new_revision() {
    let selected = rule(&json!({"clusterSelector": {"region": "east"}}));
    let fresh = Hub::new(job(6, None, selected.clone()), fleet(plain()));
    // Before anything was divided a label is enough; then it is not.
    assert_eq!(check(&fresh, "NotMatched", "clusterSelector"), ["setLabel"]);
    let kinds = check(&fresh.decide(), "NotMatched", "clusterSelector");
    has(&kinds, &["setLabel", "replicas"]);
    // What a Placement says makes no new revision: it moves no Job either.
    let referring = job(6, None, json!({"placementRef": {"name": "gold"}}));
    let referring = Hub::new(referring, fleet(plain())).with("gold", &selected);
    assert_eq!(check(&referring, "NotMatched", "clusterSelector"), ["setLabel"]);
    let decided = referring.decide();
    let kinds = check(&decided, "NotMatched", "clusterSelector");
    has(&kinds, &["setLabel", "replicas"]);
    assert!(
        !kinds
            .iter()
            .any(|kind| ["weight", "min", "share"].contains(&kind.as_str())),
        "{kinds:?}"
    );
}

#[test]
fn what_a_policy_or_a_placement_says_is_changed_there() {
    let steps = |properties: Value| json!([deploy(properties)]);
    let mut spec = application(6, &steps(json!({"policies": ["p"]})));
    spec["policies"] = json!([{"name": "p", "type": "placement", "properties": heavy()}]);
    check(&Hub::new(spec, fleet(plain())), "Arithmetic", "share");
    let spec = application(6, &steps(json!({"placementRef": {"name": "gold"}})));
    let hub = Hub::new(spec, fleet(plain())).with("gold", &heavy());
    check(&hub, "Arithmetic", "share");
    let text = hub.explained("c1")[0].to_string();
    assert!(text.contains("patch placement gold"), "{text}");
}

#[test]
fn a_placed_cluster_is_taken_out() {
    let selected = rule(&json!({"clusterSelector": {"region": "east"}}));
    let kinds = check(
        &hub(12, selected, facts("c1", &[("region", "east")])),
        "Placed",
        "",
    );
    has(&kinds, &["removeLabel", "addTaint", "weight"]);
    // With nothing to divide it is a member.
    let metadata = json!({"name": "x", "namespace": "default"});
    let objects = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}]);
    let spec = json!({
        "components": [{"name": "all", "type": "k8s-objects", "properties": {"objects": objects}}],
        "workflow": {"steps": [deploy(all())]}});
    check(&Hub::new(spec, fleet(plain())), "Member", "");
}

/// `checkout` by these policies of one step.
fn by_policies(policies: &[Value], c1: Cluster) -> Hub {
    let names: Vec<&Value> = policies.iter().map(|policy| &policy["name"]).collect();
    let mut spec = application(6, &json!([deploy(json!({"policies": names}))]));
    spec["policies"] = json!(policies);
    Hub::new(spec, fleet(c1))
}

fn topology(name: &str, properties: &Value) -> Value {
    json!({"name": name, "type": "topology", "properties": properties})
}

/// Every change that is printed for `c1`: what, and what to type.
fn printed(hub: &Hub) -> Vec<(String, String)> {
    let step = &hub.explained("c1")[0];
    let ways = step["flips"]["ways"].as_array().unwrap().iter();
    let changes = ways.flat_map(|way| way["changes"].as_array().unwrap().iter());
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    changes
        .map(|change| (text(&change["what"]), text(&change["command"])))
        .collect()
}

fn patch(operations: &str) -> String {
    format!("kubectl -n default patch application checkout --type json -p '[{operations}]'")
}

#[test]
fn what_a_topology_policy_says_is_changed_there() {
    let other = topology("other", &json!({"clusters": ["c2"]}));
    let named = |names: &Value| topology("named", &json!({"clusters": names}));
    let without = by_policies(&[other.clone(), named(&json!(["c3", "c4"]))], plain());
    let kinds = check(&without, "NotMatched", "clusters");
    assert_eq!(kinds, ["addName", "addName"]);
    let add = |at: usize| {
        patch(&format!(
            r#"{{"op":"add","path":"/spec/policies/{at}/properties/clusters/-","value":"c1"}}"#
        ))
    };
    assert_eq!(
        printed(&without),
        [
            ("list it under clusters of policy other".to_owned(), add(0)),
            ("list it under clusters of policy named".to_owned(), add(1)),
        ]
    );
    // Taken off again; a list may not be empty.
    let with = by_policies(&[other.clone(), named(&json!(["c3", "c1", "c4"]))], plain());
    has(&check(&with, "Placed", ""), &["removeName", "addTaint"]);
    let at = "/spec/policies/1/properties/clusters/1";
    assert!(printed(&with).contains(&(
        "take it off clusters of policy named".to_owned(),
        patch(&format!(
            r#"{{"op":"test","path":"{at}","value":"c1"}},{{"op":"remove","path":"{at}"}}"#
        ))
    )));
    let alone = by_policies(&[other, named(&json!(["c1"]))], plain());
    assert_eq!(check(&alone, "Placed", ""), ["addTaint"]);
    // In two policies it is taken off both.
    let twice = [
        topology("a", &json!({"clusters": ["c1", "c2"]})),
        named(&json!(["c1", "c3"])),
    ];
    let kinds = check(&by_policies(&twice, plain()), "Placed", "");
    assert_eq!(kinds, ["addTaint", "removeName", "removeName"]);
}

#[test]
fn the_selector_of_a_topology_policy_is_widened_where_it_is() {
    for field in ["clusterLabelSelector", "clusterSelector"] {
        let selector = json!({"region": "east", "example.com/tier": "gold"});
        let policy = topology("gold", &json!({ field: selector }));
        let hub = by_policies(&[policy], facts("c1", &[("region", "east")]));
        let kinds = check(&hub, "NotMatched", "clusterSelector");
        assert_eq!(kinds, ["setLabel", "unrequire"]);
        let at = format!("/spec/policies/0/properties/{field}/example.com~1tier");
        assert_eq!(
            printed(&hub)[1],
            (
                "ask for no label example.com/tier in policy gold".to_owned(),
                patch(&format!(r#"{{"op":"remove","path":"{at}"}}"#))
            )
        );
    }
    // Without any label it selects every cluster.
    let both = topology(
        "both",
        &json!({"clusterLabelSelector": {"region": "west", "tier": "gold"}}),
    );
    let kinds = check(&by_policies(&[both], plain()), "NotMatched", "clusterSelector");
    assert_eq!(kinds, ["setLabel", "setLabel", "unrequire", "unrequire"]);
}

/// What has no place in a topology policy is not advised: only what can be typed is.
#[test]
fn a_topology_policy_has_no_weights_and_no_tolerations() {
    let east = topology("east", &json!({"clusters": ["c1", "c2", "c3", "c4"]}));
    let tainted = changed(|cluster| cluster.spec.taints.push(taint("gpu", TaintEffect::NoSchedule)));
    let kinds = check(
        &by_policies(std::slice::from_ref(&east), tainted.clone()),
        "Tainted",
        "taint",
    );
    assert_eq!(kinds, ["removeTaint"]);
    // Beside a placement policy there is a place for what the step says as a whole.
    let rest = |more: &Value| {
        let rule = json!([{"name": "rest", "replicas": "100%", "clusters": ["c2", "c3", "c4"],
            "weights": {"c2": 3, "c3": 3, "c4": 3}}]);
        let properties = with(json!({ "placement": rule }), more);
        json!({"name": "rest", "type": "placement", "properties": properties})
    };
    let hub = by_policies(&[east.clone(), rest(&json!({}))], tainted);
    assert_eq!(check(&hub, "Tainted", "taint"), ["removeTaint", "tolerate"]);
    let hub = by_policies(&[east, rest(&json!({"maxClusters": 3}))], plain());
    assert_eq!(check(&hub, "MaxClusters", "maxClusters"), ["maxClusters"]);
}
