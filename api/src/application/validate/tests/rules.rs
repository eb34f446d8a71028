//! One row per rule on the fields of a placement.

use super::check;
use serde_json::{Value, json};

#[test]
fn rules() {
    for (field, value, start, part) in [
        (
            "replicas",
            json!("70"),
            ".replicas: ",
            "\"70\" is not a percentage",
        ),
        (
            "replicas",
            json!("seventy"),
            ".replicas: ",
            "is not a percentage: write a number of at most three decimals",
        ),
        (
            "replicas",
            json!("70.1234%"),
            ".replicas: ",
            "is not a percentage",
        ),
        (
            "replicas",
            json!("100.5%"),
            ".replicas: ",
            "\"100.5%\" is above 100%",
        ),
        ("replicas", json!(-1), ".replicas: ", "-1 is not a replica count"),
        (
            "replicas",
            json!(0.7),
            ".replicas: ",
            "0.7 is not a replica count",
        ),
        ("replicas", json!(true), ".replicas: ", "expected a percentage"),
        (
            "replicas",
            Value::Null,
            ".replicas: ",
            "is null: leave it out to give every selected cluster the full count",
        ),
        (
            "clusterSelector",
            Value::Null,
            ".clusterSelector: ",
            "is null: leave it out to select every cluster",
        ),
        (
            "clusterSelector",
            json!("east"),
            ".clusterSelector: ",
            "expected a map, found \"east\"",
        ),
        (
            "clusterSelector",
            json!({"region": 1}),
            ".clusterSelector.region: ",
            "expected a string, found 1",
        ),
        (
            "clusterSelector",
            json!({"matchLabels": {"a/b": true}}),
            ".clusterSelector.matchLabels[\"a/b\"]: ",
            "expected a string",
        ),
        (
            "clusterSelector",
            json!({"matchLabels": {}, "region": "east"}),
            ".clusterSelector.region: ",
            "put labels under matchLabels",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
            ".clusterSelector.matchExpressions[0].operator: ",
            "did you mean \"In\"?",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            ".clusterSelector.matchExpressions[0]: ",
            "operator In needs values",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            ".clusterSelector.matchExpressions[0]: ",
            "takes no values",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            ".clusterSelector.matchExpressions[0].key: ",
            "is required",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}),
            ".clusterSelector.matchExpressions[0].values[0]: ",
            "expected a string",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "vals": []}]}),
            ".clusterSelector.matchExpressions[0].vals: ",
            "did you mean \"values\"?",
        ),
        (
            "clusters",
            json!([]),
            ".clusters: ",
            "is empty, so that the rule selects no cluster",
        ),
        ("clusters", Value::Null, ".clusters: ", "is null"),
        (
            "clusters",
            json!(["C1"]),
            ".clusters[0]: ",
            "cluster name \"C1\" is not a DNS label",
        ),
        ("clusters", json!(["c1", "c1"]), ".clusters[1]: ", "listed twice"),
        (
            "weights",
            json!({"C1": 1}),
            ".weights.C1: ",
            "cluster name \"C1\" is not a DNS label",
        ),
        (
            "weights",
            json!({"c1": -1}),
            ".weights.c1: ",
            "expected an integer",
        ),
        (
            "weights",
            json!({"c1": 1.5}),
            ".weights.c1: ",
            "expected an integer",
        ),
        (
            "weightBy",
            json!({"label": "x"}),
            ".weightBy: ",
            "weightBy is not supported yet: use weights",
        ),
        (
            "perCluster",
            json!({"min": 3, "max": 2}),
            ".perCluster: ",
            "min 3 is above max 2",
        ),
        (
            "perCluster",
            json!({"minimum": 3}),
            ".perCluster.minimum: ",
            "unknown field",
        ),
        (
            "perCluster",
            json!({"min": "1"}),
            ".perCluster.min: ",
            "expected an integer",
        ),
        (
            "name",
            json!("East"),
            ".name: ",
            "rule name \"East\" is not a DNS label",
        ),
        (
            "clusterSelectors",
            json!({}),
            ".clusterSelectors: ",
            "did you mean \"clusterSelector\"?",
        ),
    ] {
        let at = "spec.workflow.steps[0].properties.placement[0]";
        let pointer = format!("/workflow/steps/0/properties/placement/0/{field}");
        check(&pointer, value, &format!("{at}{start}"), part);
    }
}

#[test]
fn siblings_of_the_rules() {
    for (field, value, start, part) in [
        ("placement", json!({}), ".placement: ", "expected a list"),
        (
            "placement",
            json!([null]),
            ".placement[0]: ",
            "expected a map, found null",
        ),
        (
            "placement",
            json!([{"name": "rule-1"}, {}]),
            ".placement[1]: ",
            "rule name \"rule-1\" is used twice",
        ),
        (
            "placement",
            json!([{"name": "a"}, {"name": "a"}]),
            ".placement[1].name: ",
            "rule name \"a\" is used twice",
        ),
        (
            "remainder",
            json!("spread"),
            ".remainder: ",
            "did you mean \"Spread\"?",
        ),
        (
            "rebalance",
            json!("Always"),
            ".rebalance: ",
            "known here: OnChange, Never",
        ),
        (
            "maxClusters",
            json!(0),
            ".maxClusters: ",
            "expected an integer from 1",
        ),
        (
            "tolerations",
            json!([{"key": "a", "operator": "In"}]),
            ".tolerations[0].operator: ",
            "known here: Exists, Equal",
        ),
        (
            "tolerations",
            json!([{"key": "a", "effect": "PreferNoSchedule"}]),
            ".tolerations[0].effect: ",
            "known here: NoSchedule, NoExecute",
        ),
        (
            "tolerations",
            json!([{"key": "a", "operator": "Exists", "value": "b"}]),
            ".tolerations[0]: ",
            "Exists takes no value",
        ),
        (
            "tolerations",
            json!([{"value": "b"}]),
            ".tolerations[0]: ",
            "name a key",
        ),
        (
            "tolerations",
            json!([{"key": "a", "tolerationSeconds": 3}]),
            ".tolerations[0]: ",
            "needs effect: NoExecute",
        ),
        (
            "tolerations",
            json!([{"key": "a", "effect": "NoExecute", "tolerationSeconds": "3"}]),
            ".tolerations[0].tolerationSeconds: ",
            "expected a number of seconds",
        ),
        (
            "tolerations",
            json!([{"keys": "a", "operator": "Exists"}]),
            ".tolerations[0].keys: ",
            "did you mean \"key\"?",
        ),
    ] {
        let at = "spec.workflow.steps[0].properties";
        let pointer = format!("/workflow/steps/0/properties/{field}");
        check(&pointer, value, &format!("{at}{start}"), part);
    }
}
