//! Applications for runs.

use roundhouse_api::names::cluster_namespace;
use serde_json::{Value, json};

/// An application of one Deployment and one ConfigMap, delivered region by region: a step for each, with this share of the
/// replicas.
pub fn application(name: &str, replicas: u32, regions: &[(&str, &str)]) -> Value {
    let step = |(region, share): &(&str, &str)| {
        json!({"name": region, "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": region}, "replicas": share}]}})
    };
    let steps: Vec<Value> = regions.iter().map(step).collect();
    let labels = json!({"app": name});
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "components": [{"name": name, "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"image": "web:1"}},
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
                    "replicas": replicas, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}]}}],
            "workflow": {"steps": steps}
        }
    })
}

/// The same application with another image, and another content of its ConfigMap.
pub fn with_image(application: &Value, image: &str) -> Value {
    let mut application = application.clone();
    let objects = "/spec/components/0/properties/objects";
    let places = [
        format!("{objects}/0/data/image"),
        format!("{objects}/1/spec/template/spec/containers/0/image"),
    ];
    for place in places {
        if let Some(value) = application.pointer_mut(&place) {
            *value = json!(image);
        }
    }
    application
}

/// The same application without its ConfigMap.
pub fn without_config(application: &Value) -> Value {
    let mut application = application.clone();
    let objects = application.pointer_mut("/spec/components/0/properties/objects");
    if let Some(objects) = objects.and_then(Value::as_array_mut) {
        objects.retain(|object| object["kind"] != "ConfigMap");
    }
    application
}

/// A Bundle that nobody's placement has made, of ConfigMaps with these names.
pub fn bundle_by_hand(cluster: &str, name: &str, maps: &[&str]) -> Value {
    let map = |name: &&str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": {"by": "hand"}})
    };
    json!({
        "apiVersion": "roundhouse.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": name, "namespace": cluster_namespace(cluster)},
        "spec": {"workload": {"manifests": maps.iter().map(map).collect::<Vec<_>>()}}
    })
}

/// The same application, whose objects are applied once and then left to whoever changes them.
pub fn once(application: &Value) -> Value {
    let mut application = application.clone();
    application["spec"]["policies"] =
        json!([{"name": "once", "type": "apply-once", "properties": {"enable": true}}]);
    application
}

/// The same application with one more step before the others, which brings an object to the clusters of a region.
pub fn with_flags(application: &Value, region: &str) -> Value {
    let mut application = application.clone();
    let name = application.pointer("/metadata/name").and_then(Value::as_str);
    let name = format!("{}-flags", name.unwrap_or_default());
    let flags = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"on": "all"}});
    let step = json!({"name": "flags", "type": "apply-object", "properties": {
        "clusters": {"region": region}, "value": flags}});
    let steps = application.pointer_mut("/spec/workflow/steps");
    if let Some(steps) = steps.and_then(Value::as_array_mut) {
        steps.insert(0, step);
    }
    application
}

/// The same application, each step of which has at most so many clusters under way.
pub fn in_turns(application: &Value, at_a_time: u32) -> Value {
    let mut application = application.clone();
    let steps = application.pointer_mut("/spec/workflow/steps");
    for step in steps.and_then(Value::as_array_mut).into_iter().flatten() {
        step["properties"]["maxParallel"] = json!(at_a_time);
    }
    application
}
