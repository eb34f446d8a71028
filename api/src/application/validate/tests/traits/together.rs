//! What a component has to be for traits, and what several of them say together.

use super::{accepted, check, objects, refused, spec, web, workload};
use serde_json::{Value, json};

#[test]
fn the_workload_of_objects_has_to_be_clear() {
    let scaler = json!([{"type": "scaler", "properties": {"replicas": 2}}]);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    check(
        &objects(&[
            workload("Deployment", "web"),
            config.clone(),
            workload("StatefulSet", "db"),
        ]),
        &scaler,
        ": Deployment \"web\" (objects[0]) and StatefulSet \"db\" (objects[2]) have a pod template, so that it is not clear \
         which one the traits change: give each a component of its own",
    );
    check(
        &objects(&[config.clone(), json!(null)]),
        &scaler,
        ": no object of this component has a pod template (spec.template with containers), which is what traits change: \
         write their effect into the objects",
    );
    assert_eq!(
        accepted(&objects(&[config, workload("Deployment", "web")]), &scaler).len(),
        1
    );
    let with = |containers: Value| {
        let mut workload = workload("Deployment", "web");
        workload["spec"]["template"]["spec"]["containers"] = containers;
        objects(&[workload])
    };
    check(
        &with(json!([{"name": "a"}, {"image": "x"}])),
        &scaler,
        ": cannot be merged into Deployment \"web\": spec.template.spec.containers[1] has no name",
    );
    check(
        &with(json!([{"name": "a"}, {"name": "a"}])),
        &scaler,
        ": cannot be merged into Deployment \"web\": spec.template.spec.containers[1] has the name \"a\" a second time",
    );
    let env = json!([{"type": "env", "properties": {"env": {"A": "1"}}}]);
    let lines = refused(&spec(&with(json!([{"name": "a", "env": [5]}])), &env));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("spec.components[0].traits: cannot be merged into Deployment \"web\": "),
        "{lines:?}"
    );
}

#[test]
fn traits_that_say_different_things_are_named_both_with_the_field() {
    let of = |type_: &str, properties: Value| json!({"type": type_, "properties": properties});
    let log = |image: &str| {
        of(
            "sidecar",
            json!({"name": "log", "image": image, "env": [{"name": "X", "value": "1"}]}),
        )
    };
    for (traits, expected) in [
        (
            json!([
                of("scaler", json!({"replicas": 2})),
                of("scaler", json!({"replicas": 3}))
            ]),
            "[1]: scaler sets spec.replicas to 3, and scaler (traits[0]) sets it to 2: say it in one of them",
        ),
        (
            json!([
                of("labels", json!({"a": "1"})),
                of("scaler", json!({})),
                of("labels", json!({"a": "2", "b": "1"}))
            ]),
            "[2]: labels sets metadata.labels.a to \"2\", and labels (traits[0]) sets it to \"1\": say it in one of them",
        ),
        (
            json!([
                of("labels", json!({"a.b/c": "1"})),
                of("labels", json!({"a.b/c": null}))
            ]),
            "[1]: labels removes metadata.labels[\"a.b/c\"], and labels (traits[0]) sets it to \"1\": say it in one of them",
        ),
        (
            json!([
                of("node-selector", json!({"disk": "ssd"})),
                of("node-selector", json!({"disk": "hdd"}))
            ]),
            "[1]: node-selector sets spec.template.spec.nodeSelector.disk to \"hdd\", and node-selector (traits[0]) sets it \
             to \"ssd\": say it in one of them",
        ),
        (
            json!([
                of("env", json!({"env": {"A": "1"}})),
                of("env", json!({"replace": true}))
            ]),
            "[1]: env removes spec.template.spec.containers[web].env[A], and env (traits[0]) sets it to \"1\": say it in \
             one of them",
        ),
        (
            json!([
                of("env", json!({"containerName": "log", "env": {"X": "2"}})),
                log("fluentd")
            ]),
            "[1]: sidecar sets spec.template.spec.containers[log].env[X] to \"1\", and env (traits[0]) sets it to \"2\": say \
             it in one of them",
        ),
        (
            json!([
                of("resource", json!({"cpu": "1"})),
                of("resource", json!({"cpu": "2"}))
            ]),
            "[1]: resource sets spec.template.spec.containers[web].resources.requests.cpu to \"2\", and resource (traits[0]) \
             sets it to \"1\": say it in one of them",
        ),
        (
            json!([log("a"), log("a")]),
            "[1]: sidecar adds the container spec.template.spec.containers[log], which sidecar (traits[0]) adds as well: \
             give each its own name",
        ),
        (
            json!([
                of("expose", json!({"port": [80]})),
                of("expose", json!({"port": [81]}))
            ]),
            "[1]: expose adds Service \"web\", which expose (traits[0]) adds as well: list all ports in one of them",
        ),
        (
            json!([of(
                "env",
                json!({"containers": [{"containerName": "web", "env": {"C": "1"}},
                {"containerName": "web", "env": {"C": "2"}}]})
            )]),
            "[0]: env sets spec.template.spec.containers[web].env[C] to \"2\", and sets it to \"1\" as well: say it once",
        ),
    ] {
        check(&web(), &traits, expected);
    }
    // What is said twice in the same words is no conflict.
    let same = json!([
        of("labels", json!({"a": "1"})),
        of("labels", json!({"a": "1", "b": "2"}))
    ]);
    assert_eq!(accepted(&web(), &same).len(), 2);
    // A trait may change what another adds.
    let both = json!([
        of("env", json!({"containerName": "log", "env": {"Y": "2"}})),
        log("fluentd")
    ]);
    assert_eq!(accepted(&web(), &both).len(), 2);
}
