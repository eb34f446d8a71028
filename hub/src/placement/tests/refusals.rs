//! The exact words of what is refused or left out for reasons of the fleet.

use super::fixture::{Case, cluster};
use crate::placement::ClusterFacts;
use roundhouse_api::placement::{Taint, TaintEffect};
use serde_json::{Value, json};

fn reasons(spec: Value, clusters: Vec<ClusterFacts>) -> Vec<String> {
    Case::new(spec, 0, clusters).place().remove(0).reasons
}

#[test]
fn what_a_rule_looks_for_and_what_there_is_instead() {
    let fleet = || -> Vec<ClusterFacts> {
        ["a region=east", "b region=east", "c region=west", "d tier=lab"]
            .map(|text| text.split_once(' ').unwrap())
            .map(|(name, labels)| cluster(name, labels))
            .to_vec()
    };
    let expressions = |list: Value| json!({"clusterSelector": {"matchExpressions": list}});
    for (rule, clusters, sought) in [
        (json!({}), Vec::new(), "the fleet has no cluster"),
        (
            json!({"clusterSelector": {"region": "east"}}),
            Vec::new(),
            "the fleet has no cluster",
        ),
        (
            json!({"clusterSelector": {"region": "south"}}),
            fleet(),
            "selector region=south; 2 clusters have region=east, 1 cluster has region=west",
        ),
        (
            expressions(json!([{"key": "region", "operator": "In", "values": ["n1", "n2", "n3", "n4"]}])),
            fleet(),
            "selector region in [n1, n2, n3 and 1 more]; 2 clusters have region=east, 1 cluster has region=west",
        ),
        (
            expressions(
                json!([{"key": "region", "operator": "Exists"}, {"key": "region", "operator": "NotIn", "values": ["east", "west"]}]),
            ),
            fleet(),
            "selector region is there,region not in [east, west]; 2 clusters have region=east, 1 cluster has region=west",
        ),
        (
            expressions(
                json!([{"key": "tier", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]),
            ),
            fleet(),
            "selector tier is there,tier is absent; 1 cluster has tier=lab",
        ),
    ] {
        let mut rule = rule;
        rule["name"] = json!("r");
        rule["replicas"] = json!("100%");
        let expected = format!("rule r matches no cluster ({sought}); label a cluster or change the rule");
        assert_eq!(
            reasons(json!({"placement": [rule]}), clusters),
            [expected],
            "{sought}"
        );
    }
    let named = json!({"placement": [{"name": "r", "replicas": "100%", "clusters": ["x"], "clusterSelector": {"tier": "gold"}}]});
    assert_eq!(
        reasons(named, fleet()),
        [
            "rule r names clusters that are not in the fleet: x",
            "rule r matches no cluster (clusters x, selector tier=gold; 1 cluster has tier=lab); label a cluster or change the rule"
        ]
    );
}

#[test]
fn why_a_rule_may_use_none_of_its_clusters() {
    let facts = cluster("a", "region=east");
    let tainted = |effect| ClusterFacts {
        taints: vec![Taint {
            key: "gpu".to_owned(),
            value: None,
            effect,
            time_added: None,
        }],
        ..facts.clone()
    };
    for (barred, why) in [
        (
            ClusterFacts {
                accepted: false,
                ..facts.clone()
            },
            "1 NotAccepted (accept them)",
        ),
        (
            ClusterFacts {
                joined: false,
                ..facts.clone()
            },
            "1 NotJoined (start their agents)",
        ),
        (
            tainted(TaintEffect::NoSchedule),
            "1 Tainted (tolerate or remove the taint)",
        ),
        (
            tainted(TaintEffect::NoExecute),
            "1 Tainted (tolerate or remove the taint)",
        ),
        (
            ClusterFacts {
                reachable: false,
                ..facts.clone()
            },
            "1 Unreachable (wait for their agents)",
        ),
    ] {
        let spec = json!({"placement": [{"name": "r", "replicas": "100%"}]});
        let expected = format!("rule r matches clusters but may use none of them: {why}");
        assert_eq!(reasons(spec, vec![barred]), [expected]);
    }
    // Another rule has the clusters that are chosen.
    let heavy = json!({"name": "other", "replicas": "50%", "clusters": ["b", "c", "d"], "weights": {"b": 9, "c": 8, "d": 7}});
    let spread = |when: &str| json!({"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": when});
    for (labels, limit, spread, why) in [
        ("region=east", 1, Value::Null, "1 MaxClusters (raise maxClusters)"),
        (
            "region=west",
            4,
            spread("DoNotSchedule"),
            "1 Skewed (raise spread.maxSkew)",
        ),
        (
            "",
            4,
            spread("DoNotSchedule"),
            "1 NoTopologyLabel (label them for spread)",
        ),
    ] {
        let rule = json!({"name": "r", "replicas": "50%", "clusters": ["a"]});
        let mut spec = json!({"placement": [rule, heavy], "maxClusters": limit});
        if !spread.is_null() {
            spec["spread"] = spread;
        }
        let fleet = [
            ("a", labels),
            ("b", "region=west"),
            ("c", "region=east"),
            ("d", "region=west"),
        ];
        let told = reasons(spec, fleet.map(|(name, labels)| cluster(name, labels)).to_vec());
        let expected = format!("rule r matches clusters but may use none of them: {why}");
        assert!(told.contains(&expected), "{told:#?}");
    }
}

#[test]
fn clusters_without_the_label_of_a_spread_are_counted() {
    let spec = |when: &str| {
        json!({"placement": [{"name": "r", "replicas": "100%"}], "maxClusters": 4,
            "spread": {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": when}})
    };
    let of = |bare: usize, when: &str| {
        let bare = (0..bare).map(|n| cluster(&format!("n{n}"), ""));
        reasons(spec(when), bare.chain([cluster("a", "region=east")]).collect())
    };
    assert_eq!(
        of(1, "DoNotSchedule"),
        ["spread: 1 cluster has no label region and is not chosen; label it, or use ScheduleAnyway"]
    );
    assert_eq!(
        of(3, "DoNotSchedule"),
        ["spread: 3 clusters have no label region and are not chosen; label them, or use ScheduleAnyway"]
    );
    assert_eq!(of(3, "ScheduleAnyway"), [""; 0]);
}
