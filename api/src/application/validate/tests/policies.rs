//! One row per rule on the spec itself and on policies.

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
