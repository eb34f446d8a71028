//! Arbitrary JSON and mutations of valid specs: never a panic, never a report without a line, never a part lost.

use super::valid;
use crate::application::validate;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Words of the format among others, so that objects are often nearly right.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "components", "policies", "workflow", "steps", "name", "type", "properties", "placement", "replicas", "weights",
            "clusters", "clusterSelector", "matchLabels", "matchExpressions", "key", "operator", "values", "perCluster",
            "min", "max", "image", "env", "ports", "port", "volumes", "volumeMounts", "mountPath", "objects", "kind",
            "webservice", "worker", "k8s-objects", "task", "cron-task", "schedule", "count", "traits", "scaler", "labels", "sidecar",
            "expose", "resource", "requests", "cpu", "node-selector", "containerName", "unset", "spec", "template", "containers", "deploy", "suspend", "apply-once", "enable", "70%", "101%", "In", "Hold",
            "remainder", "tolerations", "maxClusters", "livenessProbe", "httpGet", "pvc", "configMap", "items", "wait",
            "topology", "override", "placementRef", "clusterLabelSelector", "clusterSelector", "allowEmpty", "rules", "selector", "strategy", "path", "affect", "componentNames", "spec.replicas", "onUpdate", "*",
            "if", "always", "timeout", "1h", "dependsOn", "inputs", "outputs", "from", "parameterKey", "valueFrom", "output.a",
            "subSteps", "step-group", "mode", "DAG", "until", "ready", "request", "url", "export", "value", "patch", "to", "field",
            "status.a.failed", "apply-component", "maxParallel", "duration", "break", "fail", "rollback", "webhook",
            "notification", "apply-object", "read-object", "headers", "expectedStatus", "2xx", "secretRef", "slack", "message", "text",
        ]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

/// A valid spec with every part of the format in it.
fn rich() -> Value {
    let mut spec = valid();
    spec["components"] = json!([
        {"name": "web", "type": "webservice", "properties": {"image": "nginx", "cpu": "1", "replicas": 3,
            "ports": [{"port": 80, "expose": true, "name": "http", "protocol": "TCP"}], "labels": {"a": "b"},
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}}}},
        {"name": "w", "type": "worker", "properties": {"image": "busybox", "cmd": ["sleep"], "volumeMounts": {
            "configMap": [{"name": "c", "mountPath": "/c", "cmName": "c", "items": [{"key": "k", "path": "p"}]}]}}},
        {"name": "o", "type": "k8s-objects", "properties": {"objects": [{"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "o", "env": [{"name": "A", "value": "1"}]}], "volumes": [{"name": "v"}]}}}}]},
            "traits": [{"type": "scaler", "properties": {"replicas": 2}},
                {"type": "labels", "properties": {"c": "d", "e": null}},
                {"type": "expose", "properties": {"ports": [{"port": 80}]}},
                {"type": "env", "properties": {"containers": [{"containerName": "o", "env": {"A": "2"}, "unset": ["B"]}]}},
                {"type": "resource", "properties": {"requests": {"cpu": 1}}},
                {"type": "sidecar", "properties": {"name": "log", "image": "l", "volumes": [{"name": "v", "path": "/v"}]}},
                {"type": "node-selector", "properties": {"disk": "ssd"}}]},
        {"name": "t", "type": "task", "properties": {"image": "x", "count": 2},
            "traits": [{"type": "annotations", "properties": {"a": "b"}}]},
        {"name": "c", "type": "cron-task", "properties": {"image": "x", "schedule": "0 1-3 * * mon"}},
    ]);
    spec["workflow"]["steps"] = json!([
        {"name": "a", "type": "deploy", "properties": {"wait": "applied", "maxClusters": 3,
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
            "placement": [{"name": "r", "replicas": "50%", "weights": {"c1": 2}, "perCluster": {"min": 1, "max": 9},
                "clusters": ["c1"], "clusterSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}}]}},
        {"type": "suspend", "properties": {"message": "m"}},
        {"type": "open-cluster-management", "properties": {"placement": [{"replicas": 3}]}},
        {"type": "deploy", "properties": {"policies": ["t", "o"]}},
        {"type": "deploy", "properties": {"placementRef": {"name": "regions"}}},
        {"name": "ask", "type": "request", "properties": {"url": "https://x"}, "timeout": "1m", "meta": {"alias": "Ask"},
            "outputs": [{"name": "url", "valueFrom": "output.body.url"}]},
        {"name": "both", "type": "step-group", "mode": "DAG", "if": "ask.output.statusCode == 200", "subSteps": [
            {"name": "x", "type": "wait", "properties": {"until": {"ready": "90%"}}},
            {"name": "y", "type": "suspend", "dependsOn": ["x"], "properties": {"duration": "1h"}}]},
        {"name": "tell", "type": "webhook", "if": "always", "properties": {"url": "https://y"},
            "inputs": [{"from": "url", "parameterKey": "body.url"}]},
        {"name": "one", "type": "apply-component", "properties": {"component": "w", "placement": [{}], "maxParallel": 2,
            "maxFailedClusters": 1, "wait": {"until": {"ready": 3}}, "patch": {"to": {"field": "spec.x"}, "value": 1}}},
        {"name": "set", "type": "export", "properties": {"type": "patch", "component": "w", "value": {"spec": {}}}},
        {"type": "fail", "if": "status.both.failed", "properties": {"message": "m"}},
        {"name": "say", "type": "notification", "properties": {"message": "m", "teams": {"url": "https://z", "message": {"text": "t"}},
            "slack": {"url": {"secretRef": {"name": "s", "key": "k"}}, "message": {"text": "t", "mrkdwn": true}}}},
        {"name": "keep", "type": "apply-object", "properties": {"value": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x"}}}},
    ]);
    let policies = spec["policies"].as_array_mut().unwrap();
    policies.push(json!({"name": "t", "type": "topology", "properties": {"clusterLabelSelector": {"region": "east"}, "allowEmpty": true}}));
    policies.push(
        json!({"name": "o", "type": "override", "properties": {"components": [
        {"name": "w", "properties": {"image": "x", "cmd": []}}]}}),
    );
    policies.push(json!({"name": "p", "type": "placement", "properties": {"placementRef": "regions"}}));
    spec
}

/// Every place of a value, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, v)| places(v, &format!("{at}/{key}"), all)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, v)| places(v, &format!("{at}/{i}"), all)),
        _ => {}
    }
}

fn len(spec: &Value, pointer: &str) -> usize {
    spec.pointer(pointer)
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}

/// What has to hold for any input.
fn holds(spec: &Value) -> Result<(), TestCaseError> {
    match validate(spec) {
        Ok(application) => {
            prop_assert_eq!(application.components.len(), len(spec, "/components"));
            let steps = len(spec, "/workflow/steps");
            prop_assert!(steps == 0 || application.steps.len() == steps);
            prop_assert!(!application.steps.is_empty());
        }
        Err(violations) => {
            prop_assert!(!violations.is_empty());
            for violation in violations {
                prop_assert!(violation.path.starts_with("spec") && !violation.reason.is_empty());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn arbitrary_json_never_panics(spec in any_json()) {
        holds(&spec)?;
    }

    #[test]
    fn a_valid_spec_with_some_places_replaced_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4)
    ) {
        let mut spec = rich();
        for (index, value) in changes {
            let mut all = Vec::new();
            places(&spec, "", &mut all);
            if let Some(place) = spec.pointer_mut(index.get(&all).as_str()) {
                *place = value;
            }
        }
        holds(&spec)?;
    }

    #[test]
    fn a_field_that_nobody_knows_is_always_named(index in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        places(&rich(), "", &mut all);
        // Manifests and maps with free keys take any field; what an override changes is judged in its component.
        let open = ["/labels", "/weights", "/clusterLabelSelector", "/env", "/9/properties/value",
            "/9/properties/value/spec", "/12/properties/value", "/12/properties/value/metadata"];
        // Labels, annotations and labels of nodes are the properties of their traits.
        let keys = ["/components/2/traits/1/properties", "/components/2/traits/6/properties", "/components/3/traits/0/properties"];
        let closed = |p: &String| {
            if keys.contains(&p.as_str()) {
                return false;
            }
            let changed = p.starts_with("/policies") && p.ends_with("/components/0/properties");
            !p.contains("/objects/") && !changed && !open.iter().any(|end| p.ends_with(end))
        };
        let mut spec = rich();
        all.retain(|p| closed(p) && spec.pointer(p).is_some_and(Value::is_object));
        let place = index.get(&all);
        spec.pointer_mut(place).unwrap()["nobodyKnowsThis"] = json!(1);
        let violations = validate(&spec).unwrap_err();
        prop_assert_eq!(violations.len(), 1);
        prop_assert!(violations[0].path.ends_with(".nobodyKnowsThis"), "{:?}", violations);
        prop_assert!(violations[0].reason.starts_with("unknown field"), "{:?}", violations);
    }
}

#[test]
fn the_rich_spec_is_accepted() {
    assert_eq!(validate(&rich()).map(|a| a.steps.len()), Ok(13));
}
