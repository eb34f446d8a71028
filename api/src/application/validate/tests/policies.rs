//! One row per rule on the spec itself and on policies.

use super::{check, refused, set, valid, validate};
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
fn the_executor_is_a_service_account() {
    let policy = |properties: Value| json!({"name": "who", "type": "executor", "properties": properties});
    let spec = |properties: Value| {
        let mut spec = valid();
        set(&mut spec, "/policies/-", policy(properties));
        spec
    };
    let of = |properties: Value| {
        let executor = validate(&spec(properties)).unwrap().executor("team-a");
        let account = executor.unwrap().subject.service_account.unwrap();
        format!("{}/{}", account.namespace, account.name)
    };
    assert_eq!(of(json!({"serviceAccount": "deployer.v1"})), "team-a/deployer.v1");
    assert_eq!(
        of(json!({"serviceAccount": "deployer", "namespace": "shared"})),
        "shared/deployer"
    );
    assert_eq!(validate(&valid()).unwrap().executor("team-a"), None);
    let at = "spec.policies[1].properties";
    for (properties, start, part) in [
        (json!({}), format!("{at}.serviceAccount: "), "is required"),
        (
            json!({"serviceAccount": "a:b"}),
            format!("{at}.serviceAccount: "),
            "is not a DNS label",
        ),
        (
            json!({"serviceAccount": ""}),
            format!("{at}.serviceAccount: "),
            "use 1 to 63",
        ),
        (
            json!({"serviceAccount": "a", "namespace": "a.b"}),
            format!("{at}.namespace: "),
            "is not a DNS label",
        ),
        (
            json!({"serviceAccount": "a", "user": "b"}),
            format!("{at}.user: "),
            "known here: serviceAccount, namespace",
        ),
    ] {
        check("/policies/-", policy(properties), &start, part);
    }
    let mut twice = spec(json!({"serviceAccount": "a"}));
    let mut second = policy(json!({"serviceAccount": "b"}));
    second["name"] = json!("other");
    twice["policies"].as_array_mut().unwrap().push(second);
    let lines = refused(&twice);
    assert!(
        lines.iter().any(|line| line.contains("a second executor policy")),
        "{lines:?}"
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
            "did you mean \"placement\"? known here: placement, topology, override, apply-once, executor",
        ),
        (
            "/policies/0/type",
            json!("garbage-collect"),
            "spec.policies[0].type: ",
            "\"garbage-collect\" is not supported yet: use one of placement, topology, override, apply-once, executor",
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
            json!([{"target": {"kind": "Deployment", "name": "web"}}]),
            "spec.policies[0].properties.overrides[0]: ",
            "changes nothing",
        ),
        (
            "/policies/0/properties",
            json!({"placement": [{}], "maxClusters": 2, "spread": {"topologyKey": "region", "maxSkew": 1, "a": 1}}),
            "spec.policies[0].properties.spread.a: ",
            "unknown field",
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
            "spec.workflow.steps[0].properties.policies[2]: policy \"once\" has the type apply-once: only placement, topology and override policies \
             can be named here",
        ]
    );
}

#[test]
fn rules_of_apply_once() {
    let of = |properties: Value| json!({"name": "once", "type": "apply-once", "properties": properties});
    let rule = |rule: Value| of(json!({"enable": true, "rules": [rule]}));
    let strategy = |strategy: Value| rule(json!({"strategy": strategy}));
    let selector =
        |selector: Value| rule(json!({"selector": selector, "strategy": {"path": ["spec.replicas"]}}));
    for (policy, start, part) in [
        (
            of(json!({"enable": true, "mode": "force"})),
            "mode: ",
            "did you mean \"Force\"?",
        ),
        (
            of(json!({"enable": true, "mode": true})),
            "mode: ",
            "expected a string, found true",
        ),
        (
            of(json!({"enable": true, "mode": "Once", "rules": [{"strategy": {"path": ["*"]}}]})),
            "mode: ",
            "leave one of them out",
        ),
        (
            rule(json!({})),
            "rules[0].strategy: ",
            "is required: write which fields",
        ),
        (rule(json!("x")), "rules[0]: ", "expected a map"),
        (
            rule(json!({"selector": null, "strategy": {"path": ["*"]}})),
            "rules[0].selector: ",
            "to select every object",
        ),
        (
            strategy(json!({})),
            "rules[0].strategy.path: ",
            "is required: list field paths",
        ),
        (
            strategy(json!({"path": []})),
            "rules[0].strategy.path: ",
            "is empty: list field paths",
        ),
        (
            strategy(json!({"path": "spec"})),
            "rules[0].strategy.path: ",
            "expected a list",
        ),
        (
            strategy(json!({"path": [""]})),
            "rules[0].strategy.path[0]: ",
            "is empty",
        ),
        (
            strategy(json!({"path": ["spec.replicas", "spec..x"]})),
            "rules[0].strategy.path[1]: ",
            "field path \"spec..x\"",
        ),
        (
            strategy(json!({"path": ["spec.replicas"], "affect": "onUpdates"})),
            "rules[0].strategy.affect: ",
            "did you mean \"onUpdate\"?",
        ),
        (
            strategy(json!({"path": ["*"], "affect": "onUpdate"})),
            "rules[0].strategy.path[0]: ",
            "not onUpdate",
        ),
        (
            selector(json!({"componentNames": ["web", "wbe"]})),
            "rules[0].selector.componentNames[1]: ",
            "the application has no component \"wbe\": did you mean \"web\"?",
        ),
        (
            selector(json!({"componentTypes": ["webservices"]})),
            "rules[0].selector.componentTypes[0]: ",
            "did you mean \"webservice\"?",
        ),
        (
            selector(json!({"resourceTypes": [3]})),
            "rules[0].selector.resourceTypes[0]: ",
            "expected a string",
        ),
        (
            selector(json!({"oamTypes": ["TRAIT"]})),
            "rules[0].selector.oamTypes: ",
            "select by componentTypes",
        ),
        (
            selector(json!({"resourceType": ["Deployment"]})),
            "rules[0].selector.resourceType: ",
            "did you mean \"resourceTypes\"?",
        ),
    ] {
        let start = format!("spec.policies[1].properties.{start}");
        check("/policies/-", policy, &start, part);
    }
}
