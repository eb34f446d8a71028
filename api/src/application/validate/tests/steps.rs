//! One row per rule on steps, alone and together.

use super::{check, refused, set, valid};
use crate::application::{ClusterVerb, Condition, Feedback, OutputSource, StepKind, order, validate};
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
            json!("rollout"),
            "spec.workflow.steps[0].type: ",
            "\"rollout\" is not supported yet: use one of open-cluster-management, deploy, apply-component, suspend, step-group",
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

/// A second step beside the valid one, and the line that it leads to.
fn second(step: Value, start: &str, part: &str) {
    check(
        "/workflow/steps/-",
        step,
        &format!("spec.workflow.steps[1]{start}"),
        part,
    );
}

#[test]
fn what_steps_have_in_common() {
    let suspend = |field: &str, value: Value| {
        let mut step = json!({"name": "b", "type": "suspend"});
        step[field] = value;
        step
    };
    for (field, value, start, part) in [
        ("if", json!(true), ".if: ", "expected a string"),
        (
            "if",
            json!("status.est.failed"),
            ".if: ",
            "line 1, column 8: there is no step named \"est\": did you mean \"east\"?",
        ),
        (
            "if",
            json!("status.east.failed &&"),
            ".if: ",
            "line 1, column 22: Syntax error",
        ),
        (
            "if",
            json!("east.output.x == 1"),
            ".if: ",
            "step \"east\" has no output",
        ),
        (
            "if",
            json!("inputs.x == 1"),
            ".if: ",
            "the step has no input from \"x\"",
        ),
        (
            "timeout",
            json!("1d"),
            ".timeout: ",
            "\"1d\" is no duration above zero: write one such as 30s, 10m or 1h30m",
        ),
        ("timeout", json!(30), ".timeout: ", "expected a string"),
        ("dependsOn", json!("east"), ".dependsOn: ", "expected a list"),
        (
            "dependsOn",
            json!(["eest"]),
            ".dependsOn[0]: ",
            "there is no step named \"eest\" beside this one: did you mean \"east\"?",
        ),
        (
            "meta",
            json!({"alas": "x"}),
            ".meta.alas: ",
            "did you mean \"alias\"?",
        ),
        (
            "mode",
            json!("DAG"),
            ".mode: ",
            "mode is for steps of type step-group only",
        ),
        (
            "subSteps",
            json!([{"type": "suspend"}]),
            ".subSteps: ",
            "subSteps is for steps of type step-group only",
        ),
        ("stage", json!("pre-render"), ".stage: ", "not supported yet"),
        (
            "inputs",
            json!([{"parameterKey": "x"}]),
            ".inputs[0].from: ",
            "is required",
        ),
        (
            "inputs",
            json!([{"from": "secret"}]),
            ".inputs[0].from: ",
            "there is no output named \"secret\"",
        ),
        (
            "inputs",
            json!([{"from": "context."}]),
            ".inputs[0].from: ",
            "is no output of a step, and no expression: line 1",
        ),
        (
            "inputs",
            json!([{"from": "context.appName", "parameterKey": "message"}]),
            ".inputs[0].parameterKey: ",
            "suspend takes no input into its properties",
        ),
        (
            "inputs",
            json!([{"from": "context.appName", "parameterKey": "a["}]),
            ".inputs[0].parameterKey: ",
            "a bracket is not closed",
        ),
        (
            "outputs",
            json!([{"name": "x"}]),
            ".outputs[0].valueFrom: ",
            "is required",
        ),
        (
            "outputs",
            json!([{"name": "a b", "valueFrom": "context.appName"}]),
            ".outputs[0].name: ",
            "cannot be the name of an output",
        ),
        (
            "outputs",
            json!([{"name": "x", "valueFrom": "output.x"}]),
            ".outputs[0].valueFrom: ",
            "there is no \"output\" here",
        ),
        (
            "outputs",
            json!([{"name": "x", "valueFrom": "1"}, {"name": "x", "valueFrom": "2"}]),
            ".outputs[1].name: ",
            "is given twice",
        ),
        (
            "properties",
            json!({"duration": "soon"}),
            ".properties.duration: ",
            "is no duration",
        ),
        (
            "properties",
            json!({"until": "x"}),
            ".properties.until: ",
            "unknown field",
        ),
    ] {
        second(suspend(field, value), start, part);
    }
}

/// A `wait` over an object with these properties.
fn waits(properties: &Value) -> Value {
    let mut step = json!({"type": "wait", "properties": {"object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}});
    for (key, value) in properties.as_object().unwrap() {
        step["properties"][key] = value.clone();
    }
    step
}

/// A step with an object in clusters.
fn there(type_: &str, properties: &Value) -> Value {
    let mut step = json!({"type": type_, "properties": properties});
    if type_ == "apply-object" && step["properties"].get("value").is_none() {
        step["properties"]["value"] =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    }
    step
}

#[test]
fn inputs_fill_in_objects_in_clusters_but_not_what_they_are_and_where() {
    for (type_, key, start, part) in [
        ("apply-object", "value.data.a", "", ""),
        ("apply-object", "value.metadata.name", "", ""),
        ("apply-object", "value.metadata.labels.a", "", ""),
        ("read-object", "name", "", ""),
        (
            "apply-object",
            "value",
            ".inputs[0].parameterKey: ",
            "goes below value",
        ),
        (
            "apply-object",
            "value.kind",
            ".inputs[0].parameterKey: ",
            "neither its kind nor its namespace",
        ),
        (
            "apply-object",
            "value.metadata",
            ".inputs[0].parameterKey: ",
            "neither its kind nor its namespace",
        ),
        (
            "apply-object",
            "value.metadata.namespace",
            ".inputs[0].parameterKey: ",
            "neither its kind",
        ),
        (
            "apply-object",
            "clusters",
            ".inputs[0].parameterKey: ",
            "nor the clusters",
        ),
        (
            "read-object",
            "namespace",
            ".inputs[0].parameterKey: ",
            "goes into name",
        ),
    ] {
        let mut spec = valid();
        set(
            &mut spec,
            "/workflow/steps/-",
            json!({"name": "gives", "type": "export", "properties": {"value": 1},
            "outputs": [{"name": "u", "valueFrom": "output"}]}),
        );
        let mut step = match type_ {
            "apply-object" => there(type_, &json!({"clusters": {}})),
            _ => there(
                type_,
                &json!({"clusters": {}, "apiVersion": "v1", "kind": "Pod", "name": "x"}),
            ),
        };
        step["name"] = json!("takes");
        step["inputs"] = json!([{"from": "u", "parameterKey": key}]);
        let at = spec["workflow"]["steps"].as_array().unwrap().len();
        set(&mut spec, "/workflow/steps/-", step);
        let refused: Vec<String> = match validate(&spec) {
            Ok(_) => Vec::new(),
            Err(violations) => violations.iter().map(ToString::to_string).collect(),
        };
        if part.is_empty() {
            assert_eq!(refused, [""; 0], "{key}");
        } else {
            assert_eq!(refused.len(), 1, "{key}: {refused:?}");
            let start = format!("spec.workflow.steps[{at}]{start}");
            assert!(
                refused[0].starts_with(&start) && refused[0].contains(part),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn objects_in_clusters_are_understood() {
    let mut spec = valid();
    let at = spec["workflow"]["steps"].as_array().unwrap().len();
    for mut step in [
        there(
            "apply-object",
            &json!({"clusters": {"matchExpressions": [{"key": "region", "operator": "Exists"}]}}),
        ),
        there(
            "read-object",
            &json!({"clusters": ["c1"], "apiVersion": "v1", "kind": "Pod", "name": "x", "namespace": "n"}),
        ),
    ] {
        let output = format!("of-{}", step["type"].as_str().unwrap());
        step["outputs"] = json!([{"name": output, "valueFrom": "output.metadata.uid"}]);
        set(&mut spec, "/workflow/steps/-", step);
    }
    let valid = validate(&spec).unwrap();
    let objects: Vec<_> = valid.steps[at..]
        .iter()
        .map(|step| {
            let StepKind::ClusterObject(object) = &step.kind else {
                panic!("{step:?}");
            };
            let OutputSource::Feedback {
                component: None,
                read,
            } = &step.outputs[0].value
            else {
                panic!("{:?}", step.outputs);
            };
            assert_eq!(read, &Feedback::Path(".metadata.uid".to_owned()));
            (
                object.verb,
                object.identity(),
                object.placement.placement[0].clone(),
            )
        })
        .collect();
    assert_eq!(objects[0].0, ClusterVerb::Apply);
    assert_eq!(
        objects[0]
            .2
            .cluster_selector
            .as_ref()
            .unwrap()
            .match_expressions
            .len(),
        1
    );
    assert_eq!(objects[1].0, ClusterVerb::Read);
    assert_eq!(
        objects[1].1,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "n"}})
    );
    assert_eq!(objects[1].2.clusters.as_deref(), Some(&["c1".to_owned()][..]));
    // It has no output on the hub that others could name as a whole.
    let name = &valid.steps[at].name;
    set(
        &mut spec,
        "/workflow/steps/-",
        json!({"name": "told", "type": "suspend", "if": format!("{name}.output.metadata.uid == 'x'")}),
    );
    let refused = validate(&spec).unwrap_err();
    assert!(refused[0].to_string().contains("has no output"), "{refused:?}");
}

#[test]
fn properties_of_steps() {
    for (step, start, part) in [
        (
            json!({"type": "wait"}),
            ".properties: ",
            "is required: say what is waited for: write {ready: \"90%\"}",
        ),
        (
            json!({"type": "wait", "properties": {"until": {"ready": "90"}}}),
            ".properties.until.ready: ",
            "is not a percentage",
        ),
        (
            json!({"type": "wait", "properties": {"until": {"ready": -1}}}),
            ".properties.until.ready: ",
            "expected an integer",
        ),
        (
            json!({"type": "wait", "properties": {"until": "fleet.ready >"}}),
            ".properties.until: ",
            "Syntax error",
        ),
        (
            json!({"type": "wait", "properties": {"until": {"ready": 1}, "steps": ["x"]}}),
            ".properties.steps[0]: ",
            "there is no step named \"x\"",
        ),
        (
            waits(&json!({"until": "object.data.a =="})),
            ".properties.until: ",
            "line 1, column",
        ),
        (
            waits(&json!({"until": "fleet.ready > 1"})),
            ".properties.until: ",
            "there is no \"fleet\" here",
        ),
        (
            waits(&json!({"until": {"ready": "90%"}})),
            ".properties.until: ",
            "counts clusters, and object says to look at an object: write an expression over object",
        ),
        (
            waits(&json!({})),
            ".properties.until: ",
            "is required: write an expression over object, such as \"object.status.phase == 'Ready'\"",
        ),
        (
            waits(&json!({"until": "true", "steps": ["east"]})),
            ".properties.steps: ",
            "keep one of them",
        ),
        (
            waits(&json!({"until": "true", "object": {"apiVersion": "v1", "kind": "ConfigMap"}})),
            ".properties.object.name: ",
            "is required: name the object",
        ),
        (
            waits(&json!({"until": "true", "object": {"apiVersion": "v1", "kind": "Secret", "name": "x"}})),
            ".properties.object.kind: ",
            "Secrets are not read by steps",
        ),
        (
            waits(
                &json!({"until": "true", "object": {"apiVersion": "v1", "kind": "Pod", "name": "x", "clusters": ["c1"]}}),
            ),
            ".properties.object.clusters: ",
            "a read-object step with clusters waits",
        ),
        (
            there("apply-object", &json!({"clusters": []})),
            ".properties.clusters: ",
            "is empty, so that the step selects no cluster",
        ),
        (
            there("apply-object", &json!({"clusters": ["C1"]})),
            ".properties.clusters[0]: ",
            "is not a DNS label",
        ),
        (
            there("apply-object", &json!({"clusters": {"region": 3}})),
            ".properties.clusters.region: ",
            "expected a string",
        ),
        (
            there(
                "apply-object",
                &json!({"clusters": ["c1"], "value": {"kind": "ConfigMap", "metadata": {"name": "x"}}}),
            ),
            ".properties.value.apiVersion: ",
            "is required",
        ),
        (
            there("apply-object", &json!({"clusters": ["c1"], "cluster": "c2"})),
            ".properties.cluster: ",
            "write clusters: [c1, c2], or labels",
        ),
        (
            there(
                "read-object",
                &json!({"clusters": ["c1"], "apiVersion": "v1", "kind": "Secret", "name": "x"}),
            ),
            ".properties.kind: ",
            "Secrets are not read by steps",
        ),
        (
            json!({"type": "fail", "properties": {"mesage": "x"}}),
            ".properties.mesage: ",
            "did you mean \"message\"?",
        ),
        (
            json!({"type": "export", "properties": {}}),
            ".properties.value: ",
            "is required",
        ),
        (
            json!({"type": "export", "properties": {"type": "patch", "value": {}}}),
            ".properties.component: ",
            "is required: name the component that is patched",
        ),
        (
            json!({"type": "export", "properties": {"type": "patch", "component": "wep", "value": {}}}),
            ".properties.component: ",
            "did you mean \"web\"?",
        ),
        (
            json!({"type": "export", "properties": {"component": "web", "value": {}}}),
            ".properties.component: ",
            "is for type: patch only",
        ),
        (
            json!({"type": "rollback", "properties": {"to": 3}}),
            ".properties.to: ",
            "expected a string",
        ),
        (
            json!({"type": "request", "properties": {}}),
            ".properties.url: ",
            "is required",
        ),
        (json!({"type": "step-group"}), ".subSteps: ", "is required"),
        (
            json!({"type": "step-group", "subSteps": []}),
            ".subSteps: ",
            "is empty",
        ),
        (
            json!({"type": "step-group", "properties": {"x": 1}, "subSteps": [{"type": "suspend"}]}),
            ".properties: ",
            "a step-group has no properties",
        ),
        (
            json!({"type": "step-group", "subSteps": [{"type": "step-group"}]}),
            ".subSteps[0].type: ",
            "cannot be in another one",
        ),
        (
            json!({"type": "step-group", "subSteps": [{"type": "suspend", "subSteps": [1]}]}),
            ".subSteps[0].subSteps: ",
            "cannot be in another one",
        ),
        (
            json!({"type": "step-group", "subSteps": [{"name": "east", "type": "suspend"}]}),
            ".subSteps[0].name: ",
            "step name \"east\" is used twice",
        ),
        (
            json!({"type": "step-group", "subSteps": [{"type": "suspend", "dependsOn": ["east"]}]}),
            ".subSteps[0].dependsOn[0]: ",
            "there is no step named \"east\" beside this one",
        ),
        (
            json!({"type": "apply-component", "properties": {"placement": [{}]}}),
            ".properties.name: ",
            "is required: name the component to apply",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "db", "placement": [{}]}}),
            ".properties.name: ",
            "there is no component named \"db\"",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "cluster": "c1", "placement": [{}]}}),
            ".properties.cluster: ",
            "name it under placement",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{}], "patch": {"to": {"field": "a"}}}}),
            ".properties.patch: ",
            "has no value",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{}],
                "patch": {"to": {"field": "metadata.name"}, "value": "other"}}}),
            ".properties.patch.to.field: ",
            "metadata.name may not be patched: it would be another object",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{}],
                "patch": {"to": {"field": "spec.replicas"}, "value": 7}}}),
            ".properties.patch.to.field: ",
            "spec.replicas may not be patched: placement divides it; say in a rule how many a cluster gets",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{}],
                "patch": {"to": {"field": "metadata"}, "value": {}}}}),
            ".properties.patch.to.field: ",
            "holds metadata.name, which may not be patched: name the fields that change",
        ),
        (
            json!({"type": "export", "properties": {"type": "patch", "component": "web", "value": {"kind": "Job"}}}),
            ".properties.value: ",
            "kind may not be patched: it would be another object",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{}], "patch": {"value": 1}}}),
            ".properties.patch.to: ",
            "is required",
        ),
        (
            json!({"type": "apply-component", "properties": {"name": "web", "placement": [{"replicas": "10%"}]}}),
            ".properties: ",
            "component \"web\" is divided by step \"east\" already",
        ),
        (
            json!({"type": "deploy", "properties": {"placement": [{}], "wait": {"until": {}}}}),
            ".properties.wait.until.ready: ",
            "is required",
        ),
        (
            json!({"type": "deploy", "properties": {"placement": [{}], "maxParallel": 0}}),
            ".properties.maxParallel: ",
            "expected an integer from 1",
        ),
        (
            json!({"type": "deploy", "properties": {"placement": [{}], "maxParallel": 1, "parallelism": 1}}),
            ".properties.parallelism: ",
            "says the same",
        ),
        (
            json!({"type": "deploy", "properties": {"placement": [{}], "maxParallel": 1, "wait": "none"}}),
            ".properties.maxParallel: ",
            "cannot be used with wait: none",
        ),
        (
            json!({"type": "deploy", "properties": {"placement": [{}], "maxFailedClusters": "1"}}),
            ".properties.maxFailedClusters: ",
            "expected an integer",
        ),
    ] {
        second(step, start, part);
    }
}

#[test]
fn steps_that_wait_for_one_another_are_refused() {
    let refuse = |mode: &str, steps: Value, part: &str| {
        let mut spec = valid();
        set(&mut spec, "/workflow/mode", json!({"steps": mode}));
        for step in steps.as_array().unwrap() {
            set(&mut spec, "/workflow/steps/-", step.clone());
        }
        let lines = refused(&spec);
        match part {
            "" => assert_eq!(lines, [""; 0]),
            part => assert!(lines.len() == 1 && lines[0].contains(part), "{lines:?}"),
        }
    };
    let suspend = |name: &str, after: &[&str]| json!({"name": name, "type": "suspend", "dependsOn": after});
    refuse(
        "DAG",
        json!([suspend("a", &["b"]), suspend("b", &["a"])]),
        "spec.workflow.steps: steps wait for one another: a waits for b, which waits for a;",
    );
    refuse("DAG", json!([suspend("a", &["a"])]), "a waits for a;");
    refuse("DAG", json!([suspend("a", &["b"]), suspend("b", &[])]), "");
    // Without dependsOn a step comes after all before it.
    refuse(
        "StepByStep",
        json!([suspend("a", &["b"]), suspend("b", &[])]),
        "a waits for b, which waits for a",
    );
    refuse(
        "StepByStep",
        json!([suspend("a", &["b"]), suspend("b", &["east"])]),
        "",
    );
    // A wait comes after the steps whose clusters it waits for, and those have clusters.
    let wait = |name: &str, of: &str, after: &[&str]| {
        json!({"name": name, "type": "wait", "dependsOn": after,
        "properties": {"steps": [of], "until": {"ready": 1}}})
    };
    let west = |after: &[&str]| {
        json!({"name": "west", "type": "deploy", "dependsOn": after,
        "properties": {"placement": [{"clusterSelector": {"region": "west"}, "replicas": 1}]}})
    };
    refuse(
        "StepByStep",
        json!([wait("w", "west", &[]), west(&[])]),
        "w waits for west, which waits for w",
    );
    refuse(
        "DAG",
        json!([wait("w", "west", &[]), west(&["w"])]),
        "w waits for west, which waits for w",
    );
    refuse("DAG", json!([wait("w", "west", &[]), west(&[])]), "");
    refuse(
        "StepByStep",
        json!([suspend("s", &[]), wait("w", "s", &[])]),
        "step w waits for the clusters of step s, which has none: a step of type suspend places nothing",
    );
    let asks = |name: &str, of: &str| json!({"name": name, "type": "request", "if": format!("{of}.output.statusCode == 200"), "properties": {"url": "https://x"}});
    refuse(
        "DAG",
        json!([asks("a", "b"), asks("b", "a")]),
        "a waits for b, which waits for a",
    );
    refuse("DAG", json!([asks("a", "a")]), "a waits for a");
    refuse(
        "DAG",
        json!([asks("a", "b"), {"name": "b", "type": "export", "properties": {"value": 1}}]),
        "",
    );
}

#[test]
fn the_seeds_database_example_is_understood() {
    let spec = json!({
        "components": [
            {"name": "my-db", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "database.example.org/v1alpha1", "kind": "MySQLInstance", "metadata": {"name": "my-db"}}]}},
            {"name": "my-app", "type": "webservice", "properties": {"image": "nginx"}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}],
        "workflow": {"steps": [
            {"type": "apply-component", "outputs": [{"name": "connSecret", "valueFrom": "output.status.connSecret"}],
                "properties": {"name": "my-db"}},
            {"type": "apply-component", "inputs": [{"from": "connSecret", "parameterKey": "patch.valueFrom.field"}],
                "properties": {"name": "my-app", "patch": {
                    "to": {"field": "spec.containers[0].envFrom[0].secretRef.name"},
                    "valueFrom": {"apiVersion": "database.example.org/v1alpha1", "kind": "MySQLInstance", "name": "my-db"}}}}]}
    });
    let valid = validate(&spec).unwrap();
    let OutputSource::Feedback { component, read } = &valid.steps[0].outputs[0].value else {
        panic!("{:?}", valid.steps[0]);
    };
    assert_eq!(
        (component.as_deref(), read),
        (Some("my-db"), &Feedback::Path(".status.connSecret".to_owned()))
    );
    let deploy = valid.steps[1].kind.deploy().unwrap();
    assert_eq!(deploy.only.as_deref(), Some("my-app"));
    let patch = deploy.patch.as_ref().unwrap();
    assert_eq!(
        (patch.field.pointer().as_str(), &patch.value),
        ("/spec/containers/0/envFrom/0/secretRef/name", &None)
    );
    assert_eq!(
        deploy.placement.placement.len(),
        1,
        "it goes where the application goes"
    );
    assert_eq!(order(&valid.steps, valid.mode), [vec![], vec![0]]);
}

#[test]
fn the_seeds_response_codes_are_understood() {
    let mut spec = valid();
    for step in [
        json!({"name": "request", "type": "webhook", "properties": {"url": "https://example.org"}}),
        json!({"name": "handle-400", "type": "notification", "if": "request.output.responseCode == 400"}),
        json!({"name": "handle-500", "type": "rollback", "if": "request.output.responseCode == 500"}),
        json!({"name": "at-last", "type": "notification", "if": "always", "meta": {"alias": "Tell"}, "timeout": "1m"}),
        json!({"name": "both", "type": "step-group", "subSteps": [{"type": "suspend"}, {"type": "break"}]}),
    ] {
        set(&mut spec, "/workflow/steps/-", step);
    }
    let valid = validate(&spec).unwrap();
    assert_eq!(valid.steps[1].referenced, ["responseCode"]);
    assert_eq!(valid.steps[4].condition, Some(Condition::Always));
    assert_eq!(valid.steps[4].alias.as_deref(), Some("Tell"));
    assert_eq!(valid.steps[4].timeout, Some(std::time::Duration::from_secs(60)));
    let names: Vec<&str> = valid.all_steps().map(|step| step.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "east",
            "request",
            "handle-400",
            "handle-500",
            "at-last",
            "both",
            "both-0",
            "both-1"
        ]
    );
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
