//! One row per rule on components and manifests.

use super::{check, refused, set, valid};
use serde_json::{Value, json};

#[test]
fn components() {
    let c = "/components";
    let web = || json!({"name": "web", "type": "worker", "properties": {"image": "x"}});
    let long = "a".repeat(51);
    for (pointer, value, start, part) in [
        (
            c,
            json!([]),
            "spec.components: ",
            "is empty: list at least one component",
        ),
        (
            c,
            Value::Null,
            "spec.components: ",
            "is required: list at least one component",
        ),
        (c, json!({}), "spec.components: ", "expected a list, found a map"),
        (
            "/components/0",
            json!("web"),
            "spec.components[0]: ",
            "expected a map, found \"web\"",
        ),
        (
            "/components/0/name",
            json!("Web"),
            "spec.components[0].name: ",
            "component name \"Web\" is not a DNS label",
        ),
        (
            "/components/0/name",
            json!(""),
            "spec.components[0].name: ",
            "has 0 characters: use 1 to 50",
        ),
        (
            "/components/0/name",
            json!(long),
            "spec.components[0].name: ",
            "has 51 characters: use 1 to 50",
        ),
        (
            "/components/0/name",
            json!(7),
            "spec.components[0].name: ",
            "expected a string, found 7: put it in quotes",
        ),
        (
            "/components/0/name",
            Value::Null,
            "spec.components[0].name: ",
            "is required",
        ),
        (
            "/components/-",
            web(),
            "spec.components[1].name: ",
            "component name \"web\" is used twice",
        ),
        (
            "/components/0/type",
            Value::Null,
            "spec.components[0].type: ",
            "use one of k8s-objects, webservice, worker",
        ),
        (
            "/components/0/type",
            json!("lambda"),
            "spec.components[0].type: ",
            "unknown type \"lambda\": known here: k8s-objects, webservice, worker",
        ),
        (
            "/components/0/type",
            json!("statefulset"),
            "spec.components[0].type: ",
            "\"statefulset\" is not supported yet: use one of k8s-objects, webservice, worker, task, cron-task",
        ),
        (
            "/components/0/type",
            json!("daemon"),
            "spec.components[0].type: ",
            "\"daemon\" is not supported yet",
        ),
        (
            "/components/0/properties",
            Value::Null,
            "spec.components[0].properties: ",
            "is required",
        ),
        (
            "/components/0/properties",
            json!([]),
            "spec.components[0].properties: ",
            "expected a map, found a list",
        ),
        (
            "/components/0/trait",
            json!([]),
            "spec.components[0].trait: ",
            "unknown field: did you mean \"traits\"?",
        ),
        (
            "/components/0/traits",
            json!({"type": "scaler"}),
            "spec.components[0].traits: ",
            "expected a list, found a map",
        ),
        (
            "/components/0/dependsOn",
            json!(["db"]),
            "spec.components[0].dependsOn: ",
            "dependsOn is not supported yet",
        ),
        (
            "/components/0/inputs",
            json!([1]),
            "spec.components[0].inputs: ",
            "inputs are not supported yet",
        ),
        (
            "/components/0/outputs",
            json!([1]),
            "spec.components[0].outputs: ",
            "outputs are not supported yet",
        ),
        (
            "/components/0/externalRevision",
            json!("v1"),
            "spec.components[0].externalRevision: ",
            "not supported yet",
        ),
    ] {
        check(pointer, value, start, part);
    }
}

#[test]
fn objects() {
    let big = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "x".repeat(1024 * 1024)}});
    for (properties, start, part) in [
        (json!({}), ".objects: ", "is required: list the manifests"),
        (json!({"objects": []}), ".objects: ", "is empty"),
        (
            json!({"objects": {"kind": "ConfigMap"}}),
            ".objects: ",
            "expected a list, found a map",
        ),
        (
            json!({"objects": [{}], "object": {}}),
            ".object: ",
            "did you mean \"objects\"?",
        ),
        (
            json!({"objects": [{}], "urls": ["http://x"]}),
            ".urls: ",
            "urls is not supported yet",
        ),
        (
            json!({"objects": [{}, {"kind": "List", "items": []}]}),
            ".objects[1]: ",
            "is a List",
        ),
        (
            json!({"objects": [{"kind": "ConfigMapList", "items": []}]}),
            ".objects[0]: ",
            "is a List",
        ),
        (
            json!({"objects": [big]}),
            ".objects[0]: ",
            "at most 1048576 can be sent to a cluster",
        ),
    ] {
        let component = json!({"name": "o", "type": "k8s-objects", "properties": properties});
        check(
            "/components/0",
            component,
            &format!("spec.components[0].properties{start}"),
            part,
        );
    }
}

#[test]
fn a_service_needs_a_name_that_starts_with_a_letter() {
    let component = |expose: bool| {
        json!({"name": "1web", "type": "webservice",
        "properties": {"image": "x", "ports": [{"port": 80, "expose": expose}]}})
    };
    check(
        "/components/0",
        component(true),
        "spec.components[0].name: ",
        "\"1web\" also names a Service",
    );
    let mut spec = super::valid();
    super::set(&mut spec, "/components/0", component(false));
    assert_eq!(super::refused(&spec), [""; 0]);
}

#[test]
fn the_count_of_a_workload_that_is_divided_is_one() {
    let object = |api_version: &str, kind: &str, spec: Value| {
        let objects =
            json!([{"apiVersion": api_version, "kind": kind, "metadata": {"name": "o"}, "spec": spec}]);
        json!({"name": "o", "type": "k8s-objects", "properties": {"objects": objects}})
    };
    for (api_version, kind, field, count) in [
        ("apps/v1", "Deployment", "replicas", json!("12")),
        ("apps/v1", "Deployment", "replicas", json!(-1)),
        ("apps/v1", "StatefulSet", "replicas", json!("ten")),
        ("apps/v1", "ReplicaSet", "replicas", json!(10.0)),
        (
            "apps.kruise.io/v1alpha1",
            "CloneSet",
            "replicas",
            json!(2_147_483_648_u32),
        ),
        ("batch/v1", "Job", "parallelism", json!(1e3)),
        ("batch/v1", "Job", "completions", json!(true)),
    ] {
        check(
            "/components/0",
            object(api_version, kind, json!({field: count})),
            &format!("spec.components[0].properties.objects[0].spec.{field}: "),
            &format!("expected an integer from 0 to 2147483647, found {count}"),
        );
    }
    for (api_version, kind, spec) in [
        ("apps/v1", "Deployment", json!({"replicas": null})),
        ("apps/v1", "Deployment", json!({"replicas": 2_147_483_647})),
        ("apps/v1", "Deployment", json!("malformed: it fails at the agent")),
        // Kinds that are not divided.
        ("example.com/v1", "Deployment", json!({"replicas": "many"})),
        ("example.com/v1", "Scaler", json!({"replicas": -1})),
        ("apps/v1", "DaemonSet", json!({"replicas": "x"})),
    ] {
        let mut spec_of = valid();
        set(
            &mut spec_of,
            "/components/0",
            object(api_version, kind, spec.clone()),
        );
        assert_eq!(refused(&spec_of), [""; 0], "{kind} {spec}");
    }
}
