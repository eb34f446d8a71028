//! References to Placements: what `validate()` makes of them, what `resolve()` does, and every refusal by its text.

use super::{refused, set, valid};
use crate::{
    application::{
        Found, StepKind, Unresolved, ValidApplication, Violation, references, resolve, validate,
        validate_placement,
    },
    placement::PlacementSpec,
};
use serde_json::{Value, json};

/// The valid application with these steps' properties.
fn steps(all: &[Value]) -> Value {
    let mut spec = valid();
    let steps: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(index, properties)| json!({"name": format!("s{index}"), "type": "deploy", "properties": properties}))
        .collect();
    set(&mut spec, "/workflow/steps", json!(steps));
    spec
}

fn placement(spec: &Value) -> PlacementSpec {
    validate_placement(spec).unwrap()
}

/// Resolves with a Placement `regions` (east 70 %) and one `bad` that is refused.
fn resolved(spec: &Value) -> Result<ValidApplication, Unresolved> {
    let regions = placement(
        &json!({"placement": [{"name": "east", "clusterSelector": {"region": "east"}, "replicas": "70%"}]}),
    );
    let bad = [Violation {
        path: "spec.placement".to_owned(),
        reason: "is empty".to_owned(),
    }];
    let mut application = validate(spec).unwrap();
    resolve(&mut application, |name| match name {
        "regions" => Found::Valid(&regions),
        "bad" => Found::Refused(&bad),
        _ => Found::Missing,
    })?;
    Ok(application)
}

fn rules(application: &ValidApplication, step: usize) -> Vec<String> {
    match &application.steps[step].kind {
        StepKind::Deploy(deploy) => {
            let rules = deploy.placement.placement.iter().enumerate();
            rules.map(|(index, rule)| rule.name_or_index(index)).collect()
        }
        _ => panic!("no placing step"),
    }
}

#[test]
fn both_forms_of_a_reference_are_resolved() {
    for reference in [json!("regions"), json!({"name": "regions"})] {
        let spec = steps(&[json!({"placementRef": reference})]);
        assert_eq!(references(&spec).into_iter().collect::<Vec<_>>(), ["regions"]);
        let pure = validate(&spec).unwrap();
        assert_eq!(rules(&pure, 0), [""; 0], "validate() knows no Placement");
        assert_eq!(rules(&resolved(&spec).unwrap(), 0), ["east"]);
    }
}

#[test]
fn policies_that_refer_stand_in_their_order() {
    let mut spec = steps(&[json!({"policies": ["all", "regions"]})]);
    set(
        &mut spec,
        "/policies/-",
        json!({"name": "regions", "type": "placement", "properties": {"placementRef": {"name": "regions"}}}),
    );
    set(
        &mut spec,
        "/policies/0/properties/placement/0/replicas",
        json!("30%"),
    );
    assert_eq!(references(&spec).into_iter().collect::<Vec<_>>(), ["regions"]);
    assert_eq!(rules(&resolved(&spec).unwrap(), 0), ["rule-0", "east"]);
    // Without a workflow the policy is the step.
    set(&mut spec, "/workflow", Value::Null);
    let read = resolved(&spec).unwrap();
    assert_eq!(
        (rules(&read, 0), rules(&read, 1)),
        (vec!["rule-0".to_owned()], vec!["east".to_owned()])
    );
}

#[test]
fn an_application_without_references_is_left_alone() {
    let spec = valid();
    assert_eq!(resolved(&spec).unwrap(), validate(&spec).unwrap());
    assert!(references(&spec).is_empty());
    assert!(
        references(&json!({"policies": [1, {"properties": {"placementRef": 5}}], "workflow": []})).is_empty()
    );
}

#[test]
fn what_cannot_be_resolved() {
    let inline = |share: &str| json!({"placement": [{"replicas": share}]});
    for (all, reason, line) in [
        (
            vec![json!({"placementRef": "none"})],
            "PlacementMissing",
            "spec.workflow.steps[0].properties.placementRef: there is no Placement \"none\" in the application's namespace: \
             create it, or name another one; nothing is placed anew until then",
        ),
        (
            vec![inline("10%"), json!({"placementRef": {"name": "bad"}})],
            "PlacementNotAccepted",
            "spec.workflow.steps[1].properties.placementRef: Placement \"bad\" is not accepted (spec.placement: is empty): \
             correct it; nothing is placed anew until then",
        ),
        (
            vec![inline("31%"), json!({"placementRef": "regions"})],
            "PlacementsConflict",
            "spec.workflow.steps: the percentages of all placing steps add up to 101% (31% in s0/rule-0, 70% in s1/east): \
             at most 100% can be claimed; nothing is placed anew until then",
        ),
        (
            vec![
                json!({"placement": [{"replicas": "1%"}], "remainder": "Spread"}),
                json!({"placementRef": "regions"}),
            ],
            "PlacementsConflict",
            "spec.workflow.steps[1].properties.remainder: Hold here but Spread in \"s0\": all placing steps share one \
             remainder, so write the same in each; nothing is placed anew until then",
        ),
    ] {
        let error = resolved(&steps(&all)).unwrap_err();
        assert_eq!((error.reason(), error.to_string().as_str()), (reason, line));
    }
    let mut spec = steps(&[json!({"policies": ["all", "regions"]})]);
    set(
        &mut spec,
        "/policies/0/properties",
        json!({"placement": [{"name": "east", "replicas": "1%"}], "maxClusters": 2}),
    );
    set(
        &mut spec,
        "/policies/-",
        json!({"name": "regions", "type": "placement", "properties": {"placementRef": "regions"}}),
    );
    assert_eq!(
        resolved(&spec).unwrap_err().to_string(),
        "spec.workflow.steps[0].properties.policies[1]: policies \"all\" and \"regions\" differ in maxClusters: within one \
         step they have to agree; nothing is placed anew until then"
    );
}

#[test]
fn every_refusal_of_a_reference() {
    let at = "spec.workflow.steps[0].properties";
    for (properties, line) in [
        (
            json!({"placementRef": {}}),
            format!("{at}.placementRef.name: is required: name a Placement"),
        ),
        (
            json!({"placementRef": 5}),
            format!("{at}.placementRef: expected a map, found 5"),
        ),
        (
            json!({"placementRef": {"name": "a", "namespace": "b"}}),
            format!(
                "{at}.placementRef.namespace: namespace cannot be set: a Placement is looked for in the application's \
                 namespace"
            ),
        ),
        (
            json!({"placementRef": "A_b"}),
            format!(
                "{at}.placementRef: \"A_b\" cannot be the name of a Placement: use lower-case letters, digits, '-' and '.'"
            ),
        ),
        (
            json!({"placementRef": "a", "placement": [{}]}),
            format!("{at}.placementRef: cannot be used beside an inline placement: keep one of them"),
        ),
        (
            json!({"placementRef": "a", "policies": ["all"]}),
            format!("{at}.placementRef: cannot be used beside placement policies: keep one of them"),
        ),
    ] {
        assert_eq!(refused(&steps(&[properties])), [line]);
    }
    let mut spec = valid();
    set(&mut spec, "/policies/0/properties/placementRef", json!("a"));
    assert_eq!(
        refused(&spec),
        [
            "spec.policies[0].properties.placement: unknown field: did you mean \"placementRef\"? known here: placementRef"
        ]
    );
}

#[test]
fn override_policies_go_beside_any_placement() {
    let change = json!({"name": "o", "type": "override", "properties": {"components": [{"name": "web", "properties": {"image": "x"}}]}});
    for properties in [
        json!({"policies": ["o"], "placement": [{"replicas": "10%"}]}),
        json!({"policies": ["o"], "placementRef": "regions"}),
        json!({"policies": ["o", "all"]}),
    ] {
        let mut spec = steps(&[properties]);
        set(&mut spec, "/policies/-", change.clone());
        assert_eq!(refused(&spec), [""; 0]);
        assert_eq!(rules(&resolved(&spec).unwrap(), 0).len(), 1);
    }
    let mut spec = steps(&[json!({"policies": ["o"]})]);
    set(&mut spec, "/policies/-", change);
    assert_eq!(
        refused(&spec),
        [
            "spec.workflow.steps[0].properties.placement: is required: list the rules, such as [{clusterSelector: {region: \
             east}, replicas: \"70%\"}], name policies under policies, or a Placement under placementRef"
        ]
    );
}

#[test]
fn the_spec_of_a_placement() {
    let spec =
        placement(&json!({"placement": [{"replicas": "70%"}], "remainder": "Spread", "maxClusters": 3}));
    assert_eq!((spec.placement.len(), spec.max_clusters), (1, Some(3)));
    for (spec, line) in [
        (json!(null), "spec: expected a map, found null"),
        (
            json!({}),
            "spec.placement: is required: list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}]",
        ),
        (
            json!({"placement": [{"replica": "70%"}]}),
            "spec.placement[0].replica: unknown field: did you mean \"replicas\"? known here: name, clusterSelector, clusters, \
             allowEmpty, replicas, weights, weightBy, perCluster",
        ),
        (
            json!({"placement": [{"replicas": "70%"}, {"name": "w", "replicas": "40.5%"}]}),
            "spec.placement: the percentages add up to 110.5% (70% in rule-0, 40.5% in w): at most 100% can be claimed",
        ),
    ] {
        let lines: Vec<String> = validate_placement(&spec)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(lines, [line]);
    }
}

#[test]
fn every_other_refusal_of_a_placing_step_and_of_policies() {
    let step = "spec.workflow.steps[0].properties";
    let placement = json!([{"replicas": "1%"}]);
    for (properties, line) in [
        (
            json!({"placement": placement, "inlinePolicies": [1]}),
            format!("{step}.inlinePolicies: inlinePolicies is not supported: write the placement here"),
        ),
        (
            json!({"placement": placement, "ignoreTerraformComponent": true}),
            format!(
                "{step}.ignoreTerraformComponent: ignoreTerraformComponent is not supported: there are no terraform \
                 components"
            ),
        ),
        (
            json!({"policies": []}),
            format!("{step}.policies: is empty: name placement policies, or write an inline placement"),
        ),
        (
            json!({"policies": ["all"], "placement": placement}),
            format!("{step}.policies: cannot be used beside an inline placement: keep one of them"),
        ),
        (
            json!({"policies": ["all", "all"]}),
            format!("{step}.policies[1]: policy \"all\" is named twice"),
        ),
        (
            json!({"policies": ["al"]}),
            format!(
                "{step}.policies[0]: there is no policy named \"al\": did you mean \"all\"? known here: all"
            ),
        ),
    ] {
        assert_eq!(refused(&steps(&[properties])), [line]);
    }
    for (policy, line) in [
        (
            json!({"type": "topology", "properties": {"clusters": ["c1"]}}),
            "spec.policies[1].name: is required: give the policy a name",
        ),
        (
            json!({"name": "x"}),
            "spec.policies[1].type: is required: use one of placement, topology, override, apply-once, executor",
        ),
        (
            json!({"name": "x", "type": "replication"}),
            "spec.policies[1].type: \"replication\" is not supported yet: use one of placement, topology, override, \
             apply-once, executor",
        ),
        (
            json!({"name": "x", "type": "placement"}),
            "spec.policies[1].properties: is required: under placement, list the rules, such as [{clusterSelector: {region: \
             east}, replicas: \"70%\"}], or name a Placement under placementRef",
        ),
    ] {
        let mut spec = valid();
        set(&mut spec, "/policies/-", policy);
        assert_eq!(refused(&spec), [line]);
    }
}
