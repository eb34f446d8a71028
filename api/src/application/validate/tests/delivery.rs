//! One row per rule on policies, steps and placements.

use super::{check, refused, set, valid};
use serde_json::{Value, json};

#[test]
fn the_spec_itself() {
    for (spec, start, part) in [
        (Value::Null, "spec: ", "expected a map, found null"),
        (json!([]), "spec: ", "expected a map, found a list"),
        (json!("x"), "spec: ", "expected a map, found \"x\""),
    ] {
        let lines = refused(&spec);
        assert!(
            lines.len() == 1 && lines[0].starts_with(start) && lines[0].contains(part),
            "{lines:?}"
        );
    }
    check(
        "/component",
        json!([]),
        "spec.component: ",
        "did you mean \"components\"?",
    );
}

#[test]
fn policies() {
    let once = |enable: Value| json!({"name": "once", "type": "apply-once", "properties": enable});
    for (pointer, value, start, part) in [
        ("/policies", json!({}), "spec.policies: ", "expected a list"),
        (
            "/policies/0/name",
            json!("a b"),
            "spec.policies[0].name: ",
            "policy name \"a b\" is not a DNS label",
        ),
        (
            "/policies/0/name",
            Value::Null,
            "spec.policies[0].name: ",
            "is required",
        ),
        (
            "/policies/-",
            json!({"name": "all", "type": "apply-once", "properties": {"enable": true}}),
            "spec.policies[1].name: ",
            "policy name \"all\" is used twice",
        ),
        (
            "/policies/0/type",
            json!("plaecment"),
            "spec.policies[0].type: ",
            "did you mean \"placement\"? known here: placement, apply-once",
        ),
        (
            "/policies/0/type",
            json!("garbage-collect"),
            "spec.policies[0].type: ",
            "\"garbage-collect\" is not supported yet: use one of placement, apply-once",
        ),
        (
            "/policies/0/type",
            Value::Null,
            "spec.policies[0].type: ",
            "is required",
        ),
        (
            "/policies/0/scope",
            json!("x"),
            "spec.policies[0].scope: ",
            "unknown field",
        ),
        (
            "/policies/0/properties",
            Value::Null,
            "spec.policies[0].properties: ",
            "is required",
        ),
        (
            "/policies/0/properties",
            json!({}),
            "spec.policies[0].properties.placement: ",
            "is required: list the rules",
        ),
        (
            "/policies/0/properties/placement",
            json!([]),
            "spec.policies[0].properties.placement: ",
            "is empty",
        ),
        (
            "/policies/0/properties/overrides",
            json!([{}]),
            "spec.policies[0].properties.overrides: ",
            "not supported yet",
        ),
        (
            "/policies/0/properties/spread",
            json!({"a": 1}),
            "spec.policies[0].properties.spread: ",
            "not supported yet",
        ),
        (
            "/policies/0/properties/wait",
            json!("none"),
            "spec.policies[0].properties.wait: ",
            "unknown field",
        ),
        (
            "/policies/-",
            once(Value::Null),
            "spec.policies[1].properties: ",
            "enable: true",
        ),
        (
            "/policies/-",
            once(json!({})),
            "spec.policies[1].properties.enable: ",
            "is required",
        ),
        (
            "/policies/-",
            once(json!({"enable": "on"})),
            "spec.policies[1].properties.enable: ",
            "expected true or false, found \"on\"",
        ),
        (
            "/policies/-",
            once(json!({"enable": true, "rules": [{}]})),
            "spec.policies[1].properties.rules: ",
            "rules are not supported yet",
        ),
    ] {
        check(pointer, value, start, part);
    }
    let mut spec = valid();
    for name in ["a", "b"] {
        set(
            &mut spec,
            "/policies/-",
            json!({"name": name, "type": "apply-once", "properties": {"enable": true}}),
        );
    }
    assert_eq!(
        refused(&spec),
        ["spec.policies[2].type: a second apply-once policy: an application has at most one"]
    );
}

#[test]
fn steps() {
    let s = "/workflow/steps/0";
    let at = |field: &str| format!("{s}/{field}");
    for (pointer, value, start, part) in [
        (
            "/workflow".to_owned(),
            json!([]),
            "spec.workflow: ",
            "expected a map",
        ),
        (
            "/workflow/steps".to_owned(),
            json!({}),
            "spec.workflow.steps: ",
            "expected a list",
        ),
        (
            "/workflow/mode".to_owned(),
            json!({"steps": "DAG"}),
            "spec.workflow.mode: ",
            "mode is not supported yet",
        ),
        (
            "/workflow/ref".to_owned(),
            json!("x"),
            "spec.workflow.ref: ",
            "ref is not supported yet",
        ),
        (
            "/workflow/step".to_owned(),
            json!([]),
            "spec.workflow.step: ",
            "did you mean \"steps\"?",
        ),
        (
            s.to_owned(),
            json!(1),
            "spec.workflow.steps[0]: ",
            "expected a map",
        ),
        (
            at("name"),
            json!("East"),
            "spec.workflow.steps[0].name: ",
            "step name \"East\" is not a DNS label",
        ),
        (
            at("type"),
            Value::Null,
            "spec.workflow.steps[0].type: ",
            "is required",
        ),
        (
            at("type"),
            json!("deplyo"),
            "spec.workflow.steps[0].type: ",
            "did you mean \"deploy\"?",
        ),
        (
            at("type"),
            json!("step-group"),
            "spec.workflow.steps[0].type: ",
            "\"step-group\" is not supported yet: use one of open-cluster-management, deploy, suspend",
        ),
        (
            at("type"),
            json!("apply-component"),
            "spec.workflow.steps[0].type: ",
            "not supported yet",
        ),
        (
            at("if"),
            json!("always"),
            "spec.workflow.steps[0].if: ",
            "if is not supported yet",
        ),
        (
            at("timeout"),
            json!("1m"),
            "spec.workflow.steps[0].timeout: ",
            "timeout is not supported yet",
        ),
        (
            at("dependsOn"),
            json!(["a"]),
            "spec.workflow.steps[0].dependsOn: ",
            "dependsOn is not supported yet",
        ),
        (
            at("inputs"),
            json!([1]),
            "spec.workflow.steps[0].inputs: ",
            "inputs are not supported yet",
        ),
        (
            at("outputs"),
            json!([1]),
            "spec.workflow.steps[0].outputs: ",
            "outputs are not supported yet",
        ),
        (
            at("subSteps"),
            json!([1]),
            "spec.workflow.steps[0].subSteps: ",
            "subSteps are not supported yet",
        ),
        (
            at("mode"),
            json!("DAG"),
            "spec.workflow.steps[0].mode: ",
            "mode is not supported yet",
        ),
        (
            at("stage"),
            json!("pre-render"),
            "spec.workflow.steps[0].stage: ",
            "stage is not supported yet",
        ),
        (
            at("properties"),
            Value::Null,
            "spec.workflow.steps[0].properties: ",
            "is required: under placement, list the rules",
        ),
        (
            at("properties"),
            json!({}),
            "spec.workflow.steps[0].properties.placement: ",
            "or name placement policies under policies",
        ),
        (
            at("properties/wait"),
            json!("Ready"),
            "spec.workflow.steps[0].properties.wait: ",
            "did you mean \"ready\"? known here: ready, applied, none",
        ),
        (
            at("properties/auto"),
            json!(false),
            "spec.workflow.steps[0].properties.auto: ",
            "put a suspend step before",
        ),
        (
            at("properties/maxParallel"),
            json!(3),
            "spec.workflow.steps[0].properties.maxParallel: ",
            "not supported yet",
        ),
        (
            at("properties/parallelism"),
            json!(3),
            "spec.workflow.steps[0].properties.parallelism: ",
            "not supported yet",
        ),
        (
            at("properties/placementRef"),
            json!("x"),
            "spec.workflow.steps[0].properties.placementRef: ",
            "not supported yet",
        ),
        (
            at("properties/policies"),
            json!(["all"]),
            "spec.workflow.steps[0].properties.policies: ",
            "cannot be used beside an inline placement",
        ),
        (
            at("properties"),
            json!({"policies": []}),
            "spec.workflow.steps[0].properties.policies: ",
            "is empty",
        ),
        (
            at("properties"),
            json!({"policies": "all"}),
            "spec.workflow.steps[0].properties.policies: ",
            "expected a list",
        ),
        (
            at("properties"),
            json!({"policies": ["al"]}),
            "spec.workflow.steps[0].properties.policies[0]: ",
            "there is no policy named \"al\": did you mean \"all\"?",
        ),
        (
            at("properties"),
            json!({"policies": ["all", "all"]}),
            "spec.workflow.steps[0].properties.policies[1]: ",
            "named twice",
        ),
        (
            at("properties"),
            json!({"policies": [1]}),
            "spec.workflow.steps[0].properties.policies[0]: ",
            "expected a string",
        ),
        (
            "/workflow/steps".to_owned(),
            json!([{"type": "suspend"}]),
            "spec.workflow.steps: ",
            "nothing says where to run: add a policy of type placement",
        ),
        (
            "/workflow/steps/-".to_owned(),
            json!({"type": "suspend", "properties": {"duration": "1h"}}),
            "spec.workflow.steps[1].properties.duration: ",
            "not supported yet",
        ),
        (
            "/workflow/steps/-".to_owned(),
            json!({"type": "suspend", "properties": {"message": 1}}),
            "spec.workflow.steps[1].properties.message: ",
            "expected a string",
        ),
        (
            "/workflow/steps/-".to_owned(),
            json!({"name": "east", "type": "suspend"}),
            "spec.workflow.steps[1].name: ",
            "step name \"east\" is used twice",
        ),
    ] {
        check(&pointer, value, start, part);
    }
}

#[test]
fn implicit_step_names_count() {
    let mut spec = valid();
    set(&mut spec, "/workflow/steps/0/name", json!("step-1"));
    set(&mut spec, "/workflow/steps/-", json!({"type": "suspend"}));
    assert_eq!(
        refused(&spec),
        [
            "spec.workflow.steps[1]: step name \"step-1\", the default here, is used twice: give each step its own name"
        ]
    );
}

#[test]
fn an_application_without_placement_is_not_accepted() {
    let mut spec = valid();
    for (policies, workflow) in [(Value::Null, Value::Null), (json!([]), json!({"steps": []}))] {
        set(&mut spec, "/policies", policies);
        set(&mut spec, "/workflow", workflow);
        assert_eq!(
            refused(&spec),
            [
                "spec: nothing says where to run: add a policy of type placement, or a step such as {type: deploy, \
              properties: {placement: [{clusterSelector: {region: east}, replicas: \"100%\"}]}}"
            ]
        );
    }
}

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

#[test]
fn percentages_are_added_over_all_placing_steps() {
    let mut spec = valid();
    set(
        &mut spec,
        "/workflow/steps/-",
        json!({"type": "deploy", "properties": {"placement": [{"name": "w", "replicas": "20.5%"}, {"replicas": "10%"}, {"replicas": 7}]}}),
    );
    assert_eq!(
        refused(&spec),
        [
            "spec.workflow.steps: the percentages of all placing steps add up to 100.5% (70% in east/rule-0, 20.5% in \
          step-1/w, 10% in step-1/rule-1): at most 100% can be claimed"
        ]
    );
    set(
        &mut spec,
        "/workflow/steps/1/properties/placement/0/replicas",
        json!("20%"),
    );
    assert_eq!(refused(&spec), [""; 0]);
    // The same over policies, where they are the steps.
    set(&mut spec, "/workflow", Value::Null);
    set(
        &mut spec,
        "/policies/-",
        json!({"name": "more", "type": "placement", "properties": {"placement": [{"replicas": "1%"}]}}),
    );
    let lines = refused(&spec);
    assert!(
        lines.len() == 1
            && lines[0].starts_with("spec.policies: the percentages of all placing steps add up to 101%"),
        "{lines:?}"
    );
}

#[test]
fn placing_steps_share_one_remainder() {
    let mut spec = valid();
    set(
        &mut spec,
        "/workflow/steps/-",
        json!({"type": "deploy", "properties": {"remainder": "Spread", "placement": [{"replicas": "20%"}]}}),
    );
    assert_eq!(
        refused(&spec),
        [
            "spec.workflow.steps[1].properties.remainder: Spread here but Hold in \"east\": all placing steps share one \
          remainder, so write the same in each"
        ]
    );
}

#[test]
fn policies_of_one_step_have_to_agree() {
    let mut spec = valid();
    set(
        &mut spec,
        "/policies",
        json!([
            {"name": "a", "type": "placement", "properties": {"placement": [{"name": "r"}], "maxClusters": 2}},
            {"name": "b", "type": "placement", "properties": {"placement": [{"name": "r"}], "remainder": "Spread"}},
            {"name": "once", "type": "apply-once", "properties": {"enable": true}},
        ]),
    );
    set(
        &mut spec,
        "/workflow/steps/0/properties",
        json!({"policies": ["a", "b", "once"]}),
    );
    assert_eq!(
        refused(&spec),
        [
            "spec.workflow.steps[0].properties.policies: rule name \"r\" is used twice by these policies: give each rule its \
             own name",
            "spec.workflow.steps[0].properties.policies[1]: policies \"a\" and \"b\" differ in remainder: within one step \
             they have to agree",
            "spec.workflow.steps[0].properties.policies[1]: policies \"a\" and \"b\" differ in maxClusters: within one step \
             they have to agree",
            "spec.workflow.steps[0].properties.policies[2]: policy \"once\" has the type apply-once: only placement policies \
             can be named here",
        ]
    );
}
