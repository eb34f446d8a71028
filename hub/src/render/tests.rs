//! Rendering, end to end over the module: one test per promise.

mod accepted;
mod properties;
mod traits;
mod variants;

use super::*;
use roundhouse_api::{application::validate, hash};
use serde_json::json;

fn rendered(components: &Value) -> Rendered {
    let spec = json!({
        "components": components,
        "policies": [{"name": "p", "type": "placement", "properties": {"placement": [{}]}}]
    });
    let application = validate(&spec).unwrap_or_else(|violations| panic!("{violations:#?}"));
    render("shop", "app", &application)
}

/// What one component of `k8s-objects` renders to.
fn objects(objects: &Value) -> Vec<Value> {
    let component = json!([{"name": "o", "type": "k8s-objects", "properties": {"objects": objects}}]);
    rendered(&component).components.remove(0).manifests
}

fn labels(resource_type: &str, component: &str, component_type: &str) -> Value {
    json!({"app.oam.dev/name": "app", "app.oam.dev/namespace": "shop", "app.oam.dev/component": component,
        "app.oam.dev/resourceType": resource_type, "workload.oam.dev/type": component_type})
}

#[test]
fn a_small_worker_is_a_deployment_of_one() {
    let rendered = rendered(&json!([{"name": "w", "type": "worker", "properties": {"image": "busybox"}}]));
    assert_eq!(
        rendered.components[0].manifests,
        [json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "w", "namespace": "shop", "labels": labels("WORKLOAD", "w", "worker")},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app.oam.dev/component": "w"}},
                "template": {"metadata": {"labels": {"app.oam.dev/component": "w"}},
                    "spec": {"containers": [{"name": "w", "image": "busybox"}]}}}
        })]
    );
}

#[test]
fn a_webservice_in_full() {
    let probe = json!({"httpGet": {"path": "/", "port": 80}});
    let env = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]);
    let mut manifests = rendered(&json!([{"name": "web", "type": "webservice", "properties": {
        "image": "nginx", "imagePullPolicy": "Always", "imagePullSecrets": ["reg"], "replicas": 10,
        "cmd": ["nginx"], "args": ["-q"], "cpu": "500m", "memory": "1Gi", "env": env,
        "livenessProbe": probe, "readinessProbe": probe,
        "labels": {"team": "a"}, "annotations": {"note": "b"},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
        "volumeMounts": {"emptyDir": [{"name": "tmp", "mountPath": "/tmp"}]},
        "exposeType": "NodePort",
        "ports": [{"port": 80, "containerPort": 8080, "name": "http", "expose": true, "nodePort": 30080},
            {"port": 81, "containerPort": 8080, "expose": true}, {"port": 53, "protocol": "UDP"}]
    }}]))
    .components
    .remove(0)
    .manifests;
    let service = manifests.pop().unwrap();
    let mut metadata_labels = labels("WORKLOAD", "web", "webservice");
    metadata_labels["team"] = json!("a");
    assert_eq!(
        manifests,
        [json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": metadata_labels, "annotations": {"note": "b"}},
            "spec": {"replicas": 10, "selector": {"matchLabels": {"app.oam.dev/component": "web"}},
                "template": {
                    "metadata": {"labels": {"app.oam.dev/component": "web", "team": "a"}, "annotations": {"note": "b"}},
                    "spec": {
                        "containers": [{"name": "web", "image": "nginx", "imagePullPolicy": "Always",
                            "command": ["nginx"], "args": ["-q"], "env": env,
                            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
                            "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http"},
                                {"containerPort": 53, "protocol": "UDP", "name": "port-53-udp"}],
                            "livenessProbe": probe, "readinessProbe": probe,
                            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}],
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
                        "imagePullSecrets": [{"name": "reg"}]}}}
        })]
    );
    assert_eq!(
        service,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "labels": labels("TRAIT", "web", "webservice")},
            "spec": {"type": "NodePort", "selector": {"app.oam.dev/component": "web"}, "ports": [
                {"port": 80, "targetPort": 8080, "protocol": "TCP", "name": "http", "nodePort": 30080},
                {"port": 81, "targetPort": 8080, "protocol": "TCP", "name": "port-81"}]}
        })
    );
}

#[test]
fn without_an_exposed_port_there_is_no_service() {
    let properties = json!({"image": "nginx", "port": 80});
    let rendered = rendered(&json!([{"name": "web", "type": "webservice", "properties": properties}]));
    let [deployment] = rendered.components[0].manifests.as_slice() else {
        panic!("{rendered:?}")
    };
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(ports, &json!([{"containerPort": 80, "protocol": "TCP"}]));
}

#[test]
fn objects_get_a_namespace_where_they_can_have_one() {
    for (api_version, kind, namespace, expected) in [
        ("v1", "ConfigMap", Value::Null, json!("shop")),
        ("v1", "ConfigMap", json!(""), json!("shop")),
        ("v1", "ConfigMap", json!("other"), json!("other")),
        ("v1", "Namespace", Value::Null, Value::Null),
        (
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            Value::Null,
            Value::Null,
        ),
        ("rbac.authorization.k8s.io/v1", "Role", Value::Null, json!("shop")),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            Value::Null,
            Value::Null,
        ),
        // The same word in another group is another kind.
        ("example.com/v1", "Namespace", Value::Null, json!("shop")),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": namespace}});
        let manifest = objects(&json!([object])).remove(0);
        assert_eq!(
            manifest["metadata"]["namespace"], expected,
            "{api_version} {kind} {namespace}"
        );
    }
}

#[test]
fn workloads_and_traits_are_told_apart_by_kind() {
    for (api_version, kind, expected) in [
        ("apps/v1", "Deployment", "WORKLOAD"),
        ("apps/v1", "DaemonSet", "WORKLOAD"),
        ("batch/v1", "CronJob", "WORKLOAD"),
        ("v1", "Pod", "WORKLOAD"),
        ("apps.kruise.io/v1alpha1", "CloneSet", "WORKLOAD"),
        ("v1", "Service", "TRAIT"),
        ("example.com/v1", "Deployment", "TRAIT"),
    ] {
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "labels": {"a": "b"}}});
        let manifest = objects(&json!([object])).remove(0);
        let mut expected = labels(expected, "o", "k8s-objects");
        expected["a"] = json!("b");
        assert_eq!(manifest["metadata"]["labels"], expected, "{api_version} {kind}");
    }
}

#[test]
fn malformed_manifests_stay_as_they_are() {
    let bad = json!([null, 7, "x", [1], {}, {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}]);
    assert_eq!(json!(objects(&bad)), bad);
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": 5, "labels": []}});
    assert_eq!(objects(&json!([odd])), [odd]);
}

#[test]
fn stamps_are_in_the_metadata_only_and_no_part_of_the_hash() {
    let rendered = rendered(&json!([{"name": "w", "type": "worker", "properties": {"image": "busybox"}}]));
    let component = &rendered.components[0];
    let mut stamped = component.manifests[0].clone();
    let stamps = Stamps {
        app_revision: "app-v3".to_owned(),
        component_revision: "w-v2".to_owned(),
        generation: 7,
    };
    stamp(&mut stamped, &stamps);
    let metadata = &stamped["metadata"];
    assert_eq!(metadata["labels"]["app.oam.dev/revision"], "w-v2");
    assert_eq!(metadata["labels"]["app.oam.dev/appRevision"], "app-v3");
    assert_eq!(metadata["annotations"], json!({"app.oam.dev/generation": "7"}));
    assert_eq!(stamped["spec"], component.manifests[0]["spec"]);
    assert_eq!(
        hash::of_manifest(&stamped),
        hash::of_manifest(&component.manifests[0])
    );
    for mut bad in [json!(null), json!([]), json!({"metadata": 3})] {
        let before = bad.clone();
        stamp(&mut bad, &stamps);
        assert_eq!(bad, before);
    }
}

#[test]
fn a_components_hash_follows_its_content_only() {
    let of = |name: &str, image: &str| {
        let properties = json!({"image": image});
        let rendered = rendered(&json!([{"name": "a", "type": "worker", "properties": properties},
            {"name": name, "type": "worker", "properties": {"image": "other"}}]));
        component_hash(&rendered.components[0])
    };
    assert_eq!(of("b", "nginx:1"), of("c", "nginx:1"));
    assert_ne!(of("b", "nginx:1"), of("b", "nginx:2"));
}
