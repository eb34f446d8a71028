//! One row per rule on steps, alone and together.

use super::{check, refused, set, valid};
use serde_json::{Value, json};

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
            "name policies under policies, or a Placement under placementRef",
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
            "cannot be used beside an inline placement: keep one of them",
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
                "spec: nothing says where to run: add a policy of type placement or topology, or a step such as {type: deploy, \
              properties: {placement: [{clusterSelector: {region: east}, replicas: \"100%\"}]}}"
            ]
        );
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
