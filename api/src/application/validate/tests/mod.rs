//! Tests of validation: a table with a row per rule, whole reports, and arbitrary JSON.

mod accepted;
mod arbitrary;
mod components;
mod containers;
mod objects;
mod overriding;
mod placements;
mod policies;
mod rules;
mod steps;
mod tasks;
mod topology;
mod traits;

use super::validate;
use serde_json::{Value, json};

/// A small application that is accepted; rows change one place of it.
fn valid() -> Value {
    json!({
        "components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{"replicas": "100%"}]}}],
        "workflow": {"steps": [{"name": "east", "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"}]}}]}
    })
}

/// Everything refused in `spec`, one line each.
fn refused(spec: &Value) -> Vec<String> {
    match validate(spec) {
        Ok(_) => Vec::new(),
        Err(violations) => violations.iter().map(ToString::to_string).collect(),
    }
}

/// Sets the place that a JSON pointer names.
fn set(spec: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match spec.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => panic!("{parent} is {other}"),
    }
}

/// One change of the valid application, and the one line that it leads to: its start, and what else is in it.
fn check(pointer: &str, value: Value, start: &str, part: &str) {
    let row = format!("{pointer} = {value}");
    let mut spec = valid();
    set(&mut spec, pointer, value);
    let lines = refused(&spec);
    assert_eq!(lines.len(), 1, "{row}: {lines:#?}");
    assert!(
        lines[0].starts_with(start) && lines[0].contains(part),
        "{row}: {lines:#?}"
    );
}

#[test]
fn every_violation_is_named_in_the_order_of_the_document() {
    let spec = json!({
        "extra": 1,
        "components": [
            {"name": "Web", "type": "webservice", "properties": {"imge": "nginx", "cpu": "lots", "ports": [{"port": 0}]}},
            {"name": "db", "type": "worker", "dependsOn": ["Web"], "traits": [{"type": "scalr"}], "properties": {"image": 5, "env": [{"nam": "A"}]}},
        ],
        "policies": [{"name": "p", "type": "replication"}],
        "workflow": {"steps": [
            {"type": "deploy", "stage": "pre-render", "properties": {"placement": [{"replicas": "7O%"}, {"replicas": "101%"}]}},
        ]}
    });
    let paths: Vec<String> = validate(&spec).unwrap_err().into_iter().map(|v| v.path).collect();
    assert_eq!(
        paths,
        [
            "spec.components[0].name",
            "spec.components[0].properties.cpu",
            "spec.components[0].properties.image",
            "spec.components[0].properties.imge",
            "spec.components[0].properties.ports[0].port",
            "spec.components[1].dependsOn",
            "spec.components[1].properties.env[0].nam",
            "spec.components[1].properties.env[0].name",
            "spec.components[1].properties.image",
            "spec.components[1].traits[0].type",
            "spec.extra",
            "spec.policies[0].type",
            "spec.workflow.steps[0].properties.placement[0].replicas",
            "spec.workflow.steps[0].properties.placement[1].replicas",
            "spec.workflow.steps[0].stage",
        ]
    );
}

#[test]
fn a_typing_mistake_gets_a_suggestion() {
    let spec = json!({
        "components": [{"name": "web", "type": "webservce", "properties": {}},
            {"name": "w", "type": "worker", "properties": {"imge": "nginx"}}],
        "policies": [{"name": "everywhere", "type": "placement", "properties": {"placement": [{}]}}],
        "workflow": {"steps": [{"type": "deploy", "properties": {"policies": ["everywere"]}}]}
    });
    assert_eq!(
        refused(&spec),
        [
            "spec.components[0].type: unknown type \"webservce\": did you mean \"webservice\"? known here: k8s-objects, \
             webservice, worker, task, cron-task",
            "spec.components[1].properties.image: is required: name a container image",
            "spec.components[1].properties.imge: unknown field: did you mean \"image\"? known here: image, cmd, args, env, \
             cpu, memory, replicas, volumes, volumeMounts, livenessProbe, readinessProbe, labels, annotations, \
             imagePullPolicy, imagePullSecrets, hostAliases",
            "spec.workflow.steps[0].properties.policies[0]: there is no policy named \"everywere\": did you mean \
             \"everywhere\"? known here: everywhere",
        ]
    );
}
