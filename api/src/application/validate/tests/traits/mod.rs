//! Traits: what is refused, by the exact line, and what is understood.

mod containers;
mod together;

use super::{refused, set, valid};
use crate::application::{ExposeType, ValidTrait, validate};
use serde_json::{Value, json};

/// An application of one component with these traits.
fn spec(component: &Value, traits: &Value) -> Value {
    let mut spec = valid();
    let mut component = component.clone();
    component["traits"] = traits.clone();
    set(&mut spec, "/components/0", component);
    spec
}

fn web() -> Value {
    json!({"name": "web", "type": "webservice", "properties": {"image": "nginx", "cpu": "1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "volumes": [{"name": "data", "emptyDir": {}}]}})
}

fn task() -> Value {
    json!({"name": "once", "type": "task", "properties": {"image": "busybox"}})
}

/// A workload as a manifest.
fn workload(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
            {"name": "main", "image": "x"}, {"name": "aux", "image": "y"}]}}}})
}

fn objects(objects: &[Value]) -> Value {
    json!({"name": "o", "type": "k8s-objects", "properties": {"objects": objects}})
}

/// One refusal, by its path below the component's traits and its reason.
#[track_caller]
fn check(component: &Value, traits: &Value, expected: &str) {
    let lines = refused(&spec(component, traits));
    assert_eq!(
        lines,
        [format!("spec.components[0].traits{expected}")],
        "{traits}"
    );
}

#[track_caller]
fn one(component: &Value, type_: &str, properties: &Value, expected: &str) {
    let traits = json!([{"type": type_, "properties": properties}]);
    check(component, &traits, &format!("[0]{expected}"));
}

fn accepted(component: &Value, traits: &Value) -> Vec<ValidTrait> {
    let application = validate(&spec(component, traits)).unwrap_or_else(|v| panic!("{v:#?}"));
    application.components[0].traits.clone()
}

/// Every field that a trait sets, as text.
fn settings(component: &Value, type_: &str, properties: &Value) -> Vec<String> {
    let traits = json!([{"type": type_, "properties": properties}]);
    let settings = accepted(component, &traits).remove(0).settings;
    let line = |setting: &crate::application::Setting| match &setting.value {
        Some(value) => format!("{} = {value}", setting.path),
        None => format!("{} removed", setting.path),
    };
    settings.iter().map(line).collect()
}

#[test]
fn traits_that_are_not_built_in_are_named_with_the_nearest_thing() {
    for (type_, expected) in [
        (
            "gateway",
            "the trait gateway is not built in: use the trait expose, and a component of type k8s-objects with an Ingress \
             or HTTPRoute to its Service",
        ),
        (
            "ingress",
            "the trait ingress is not built in: use the trait expose, and a component of type k8s-objects with an Ingress \
             or HTTPRoute to its Service",
        ),
        (
            "hpa",
            "the trait hpa is not built in: put a HorizontalPodAutoscaler into a component of type k8s-objects, and keep \
             spec.replicas by a rule of an apply-once policy; for a fixed number use scaler",
        ),
        (
            "cpuscaler",
            "the trait cpuscaler is not built in: put a HorizontalPodAutoscaler into a component of type k8s-objects, and \
             keep spec.replicas by a rule of an apply-once policy; for a fixed number use scaler",
        ),
        (
            "storage",
            "the trait storage is not built in: use volumes and volumeMounts of the component, and a component of type \
             k8s-objects for a PersistentVolumeClaim, ConfigMap or Secret",
        ),
        (
            "init-container",
            "the trait init-container is not built in: write the workload as k8s-objects, with this in its pod template",
        ),
        (
            "container-image",
            "the trait container-image is not built in: set image in the properties of the component",
        ),
        (
            "json-patch",
            "the trait json-patch is not built in: use overrides of a placement (patch, jsonPatch), whose target names one \
             object; without a selector they change it on every cluster",
        ),
        (
            "rollout",
            "the trait rollout is not built in: use several deploy steps of the workflow, with suspend between them",
        ),
        (
            "sclaer",
            "unknown trait \"sclaer\": did you mean \"scaler\"? known here: scaler, labels, annotations, expose, env, \
             resource, sidecar, node-selector",
        ),
    ] {
        check(
            &web(),
            &json!([{"type": type_}]),
            &format!("[0].type: {expected}"),
        );
    }
}

#[test]
fn the_form_of_a_trait_is_checked() {
    let web = web();
    check(&web, &json!([5]), "[0]: expected a map, found 5");
    check(
        &web,
        &json!([{"properties": {}}]),
        "[0].type: is required: use one of scaler, labels, annotations, expose, env, resource, sidecar, node-selector",
    );
    check(
        &web,
        &json!([{"type": "scaler", "propertys": {}}]),
        "[0].propertys: unknown field: did you mean \"properties\"? known here: type, properties",
    );
    for (type_, what) in [
        ("labels", "list labels, such as {team: shop}"),
        ("annotations", "list annotations, such as {team: shop}"),
        ("node-selector", "list labels of nodes, such as {disktype: ssd}"),
        ("expose", "list the ports, such as {port: [80]}"),
        ("env", "set env, such as {env: {LEVEL: debug}}"),
        ("resource", "set cpu or memory"),
        ("sidecar", "set the name and image of the sidecar"),
    ] {
        let expected = format!("[0].properties: is required: {what}");
        check(&web, &json!([{"type": type_}]), &expected);
    }
    // Without traits nothing is asked of the objects.
    assert_eq!(refused(&spec(&objects(&[json!(5)]), &json!([]))), [""; 0]);
}

#[test]
fn a_scaler_sets_replicas_where_nothing_else_does() {
    assert_eq!(
        settings(&web(), "scaler", &json!({"replicas": 7})),
        ["spec.replicas = 7"]
    );
    // KubeVela's default.
    assert_eq!(settings(&web(), "scaler", &json!({})), ["spec.replicas = 1"]);
    assert_eq!(accepted(&web(), &json!([{"type": "scaler"}])).len(), 1);
    one(
        &web(),
        "scaler",
        &json!({"replicas": "3"}),
        ".properties.replicas: expected an integer from 0 to 2147483647, found \"3\"",
    );
    one(
        &web(),
        "scaler",
        &json!({"min": 1}),
        ".properties.min: unknown field: known here: replicas",
    );
    for type_ in ["webservice", "worker"] {
        let both = json!({"name": "w", "type": type_, "properties": {"image": "x", "replicas": 3}});
        one(
            &both,
            "scaler",
            &json!({"replicas": 3}),
            ": scaler sets spec.replicas, and properties.replicas of the component does so too: leave one of them out",
        );
    }
    one(
        &task(),
        "scaler",
        &json!({"replicas": 3}),
        ": Job \"once\" runs to completion and has no replicas: set count in the properties of the component",
    );
    one(
        &objects(&[workload("DaemonSet", "d")]),
        "scaler",
        &json!({"replicas": 3}),
        ": DaemonSet \"d\" runs one pod on each node and has no replicas: choose nodes with node-selector",
    );
}

#[test]
fn labels_and_annotations_are_of_the_workload_and_its_pods() {
    assert_eq!(
        settings(&web(), "labels", &json!({"team": "a", "old": null})),
        [
            "metadata.labels.old removed",
            "spec.template.metadata.labels.old removed",
            "metadata.labels.team = \"a\"",
            "spec.template.metadata.labels.team = \"a\"",
        ]
    );
    let cron = json!({"name": "c", "type": "cron-task", "properties": {"image": "x", "schedule": "@daily"}});
    assert_eq!(
        settings(&cron, "annotations", &json!({"team": "a b"})),
        [
            "metadata.annotations.team = \"a b\"",
            "spec.jobTemplate.metadata.annotations.team = \"a b\"",
            "spec.jobTemplate.spec.template.metadata.annotations.team = \"a b\"",
        ]
    );
    let deployment = objects(&[workload("Deployment", "d")]);
    for value in [json!("other"), json!(null)] {
        one(
            &deployment,
            "labels",
            &json!({ "app": value }),
            ".properties.app: Deployment \"d\" finds its pods by app=d (spec.selector), so that this label cannot be \
             changed: choose another key",
        );
    }
    assert_eq!(settings(&deployment, "labels", &json!({"app": "d"})).len(), 2);
    for (type_, properties, expected) in [
        (
            "labels",
            json!({}),
            ": is empty, so that it changes nothing: leave the trait out",
        ),
        ("labels", json!([]), ": expected a map, found a list"),
        (
            "labels",
            json!({"a": 1}),
            ".a: expected a string, found 1: put it in quotes",
        ),
        (
            "labels",
            json!({"app.oam.dev/name": "x"}),
            "[\"app.oam.dev/name\"]: keys under \"app.oam.dev/\" are written by the hub: choose another",
        ),
        (
            "annotations",
            json!({"$patch": "x"}),
            "[\"$patch\"]: \"$patch\" is no key of labels or annotations: use at most 63 letters, digits, '-', '_' and \
             '.', starting and ending with a letter or digit, after an optional prefix such as example.com/",
        ),
        (
            "labels",
            json!({"a": "b c"}),
            ".a: \"b c\" is no value of a label: use at most 63 letters, digits, '-', '_' and '.', starting and ending \
             with a letter or digit",
        ),
        (
            "node-selector",
            json!({"a": "b c"}),
            ".a: \"b c\" is no value of a label: use at most 63 letters, digits, '-', '_' and '.', starting and ending \
             with a letter or digit",
        ),
        (
            "node-selector",
            json!({"a": null}),
            ".a: expected a string, found null",
        ),
        (
            "node-selector",
            json!({}),
            ": is empty, so that it changes nothing: leave the trait out",
        ),
    ] {
        one(&web(), type_, &properties, &format!(".properties{expected}"));
    }
    assert_eq!(
        settings(&web(), "node-selector", &json!({"disktype": "ssd"})),
        ["spec.template.spec.nodeSelector.disktype = \"ssd\""]
    );
}

#[test]
fn expose_adds_a_service() {
    let traits = json!([{"type": "expose", "properties": {"type": "LoadBalancer", "annotations": {"a": "b"},
        "ports": [{"port": 80, "name": "http", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}}]);
    let service = accepted(&web(), &traits).remove(0).service.unwrap();
    assert_eq!(service.expose_type, ExposeType::LoadBalancer);
    assert_eq!(
        service.selector,
        [("app.oam.dev/component".to_owned(), "web".to_owned())].into()
    );
    let names: Vec<_> = service
        .ports
        .iter()
        .map(|port| port.name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["http", "port-53-udp"]);
    let of_objects = json!([{"type": "expose", "properties": {"port": [80, 81]}}]);
    let service = accepted(&objects(&[workload("StatefulSet", "s")]), &of_objects)
        .remove(0)
        .service
        .unwrap();
    assert_eq!(service.selector, [("app".to_owned(), "s".to_owned())].into());
    assert_eq!(service.ports.len(), 2);

    let mut exposed = web();
    exposed["properties"]["ports"] = json!([{"port": 80, "expose": true}]);
    let has_service = objects(&[
        workload("Deployment", "d"),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"}}),
    ]);
    let mut bare = workload("Deployment", "d");
    bare["spec"]["selector"] = json!(null);
    let mut digit = web();
    digit["name"] = json!("1web");
    let port = json!({"port": [80]});
    for (component, properties, expected) in [
        (
            &exposed,
            &port,
            ": expose adds Service \"web\", which the component has already: list all ports in one of them",
        ),
        (
            &has_service,
            &port,
            ": expose adds Service \"o\", which the component has already: list all ports in one of them",
        ),
        (
            &objects(&[bare]),
            &port,
            ".properties: set matchLabels, the labels of the pods: Deployment \"d\" has no spec.selector.matchLabels to \
             take them from",
        ),
        (
            &digit,
            &port,
            ": expose adds a Service named like the component, \"1web\", whose name has to start with a letter: rename the \
             component",
        ),
        (
            &task(),
            &port,
            ": Job \"once\" runs to completion, and a Service leads to pods that stay: use it with a webservice or worker",
        ),
        (
            &web(),
            &json!({}),
            ".properties: exposes nothing: list ports, such as [{port: 80}]",
        ),
        (
            &web(),
            &json!({"port": 80}),
            ".properties.port: expected a list, found 80",
        ),
        (
            &web(),
            &json!({"port": [80], "ports": [{"port": 80}]}),
            ".properties.port: cannot be used beside ports: list it there",
        ),
        (
            &web(),
            &json!({"ports": [{"port": 80}, {"port": 80}]}),
            ".properties.ports[1]: port 80/TCP is listed twice",
        ),
        (
            &web(),
            &json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}),
            ".properties.ports[1]: port name \"a\" is used twice: give each port its own name",
        ),
        (
            &web(),
            &json!({"ports": [{"port": 80, "nodePort": 30080}]}),
            ".properties.ports[0].nodePort: needs type: NodePort or LoadBalancer",
        ),
        (
            &web(),
            &json!({"ports": [{"port": 80, "targetPort": 81}]}),
            ".properties.ports[0].targetPort: unknown field: known here: port, name, protocol, nodePort",
        ),
        (
            &web(),
            &json!({"port": [80], "type": "ExternalName"}),
            ".properties.type: \"ExternalName\" is not known here: known here: ClusterIP, NodePort, LoadBalancer",
        ),
    ] {
        one(component, "expose", properties, expected);
    }
}
