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

/// The same application as a component of type `webservice`, whose count, variable and Service are traits of it; its ConfigMap is a
/// component of its own.
pub fn as_service(application: &Value) -> Value {
    let mut application = application.clone();
    let objects = "/spec/components/0/properties/objects";
    let taken = |at: &str| {
        application
            .pointer(&format!("{objects}/{at}"))
            .cloned()
            .unwrap_or_default()
    };
    let (map, replicas) = (taken("0"), taken("1/spec/replicas"));
    let name = application.pointer("/metadata/name").cloned().unwrap_or_default();
    application["spec"]["components"] = json!([
        {"name": name, "type": "webservice", "properties": {"image": "web:1"}, "traits": [
            {"type": "scaler", "properties": {"replicas": replicas}},
            {"type": "env", "properties": {"env": {"LEVEL": "info"}}},
            {"type": "expose", "properties": {"port": [80]}}]},
        {"name": "config", "type": "k8s-objects", "properties": {"objects": [map]}}]);
    application
}

/// The same application with another image, and another content of its ConfigMap.
pub fn with_image(application: &Value, image: &str) -> Value {
    let mut application = application.clone();
    let components = application.pointer_mut("/spec/components");
    for component in components.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(value) = component.pointer_mut("/properties/image") {
            *value = json!(image);
        }
        let objects = component.pointer_mut("/properties/objects");
        for object in objects.and_then(Value::as_array_mut).into_iter().flatten() {
            for place in ["/data/image", "/spec/template/spec/containers/0/image"] {
                if let Some(value) = object.pointer_mut(place) {
                    *value = json!(image);
                }
            }
        }
    }
    application
}

/// The same application without its ConfigMap.
pub fn without_config(application: &Value) -> Value {
    let mut application = application.clone();
    let components = application.pointer_mut("/spec/components");
    if let Some(components) = components.and_then(Value::as_array_mut) {
        for component in components.iter_mut() {
            let objects = component.pointer_mut("/properties/objects");
            if let Some(objects) = objects.and_then(Value::as_array_mut) {
                objects.retain(|object| object["kind"] != "ConfigMap");
            }
        }
        components.retain(|component| component.pointer("/properties/objects") != Some(&json!([])));
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

/// The same application, with one more step behind the step of this name.
pub fn then_step(application: &Value, after: &str, step: Value) -> Value {
    let mut application = application.clone();
    let steps = application.pointer_mut("/spec/workflow/steps");
    if let Some(steps) = steps.and_then(Value::as_array_mut) {
        let behind = steps.iter().position(|step| step["name"] == after);
        steps.insert(behind.map_or(steps.len(), |at| at + 1), step);
    }
    application
}

/// The properties of the step of this name.
fn properties<'a>(application: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    let steps = application.pointer_mut("/spec/workflow/steps")?.as_array_mut()?;
    let found = steps.iter_mut().find(|one| one["name"] == step)?;
    found.get_mut("properties")
}

/// The same application, whose step of this name waits for this.
pub fn waiting_for(application: &Value, step: &str, wait: Value) -> Value {
    let mut application = application.clone();
    if let Some(properties) = properties(&mut application, step) {
        properties["wait"] = wait;
    }
    application
}

/// The same application, whose steps fail when more clusters than this have failed.
pub fn bearing(application: &Value, failed: u32) -> Value {
    let mut application = application.clone();
    let steps = application.pointer_mut("/spec/workflow/steps");
    for step in steps.and_then(Value::as_array_mut).into_iter().flatten() {
        if step["type"] == "deploy" {
            step["properties"]["maxFailedClusters"] = json!(failed);
        }
    }
    application
}

/// The same application, whose step of this name is placed by a Placement of this name; and that Placement. `None` if there is no such
/// step.
pub fn placed_by(application: &Value, step: &str, placement: &str) -> Option<(Value, Value)> {
    let mut application = application.clone();
    let own = properties(&mut application, step)?.as_object_mut()?;
    let rules = own.remove("placement")?;
    own.insert("placementRef".to_owned(), json!({"name": placement}));
    let placement = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Placement",
        "metadata": {"name": placement, "namespace": "default"}, "spec": {"placement": rules}});
    Some((application, placement))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::raw::everywhere;
    use roundhouse_api::application::validate;

    #[test]
    fn a_service_is_the_same_by_other_means() {
        let plain = application("web", 7, &[("east", "100%")]);
        let image = "/spec/template/spec/containers/0/image";
        for (of, kinds) in [
            (plain.clone(), &["ConfigMap", "Deployment"][..]),
            (as_service(&plain), &["Deployment", "Service", "ConfigMap"]),
        ] {
            let rendered = |application: &Value| {
                let valid = validate(&application["spec"]).unwrap();
                let all = everywhere("default", "web", &valid).into_iter();
                all.map(|one| one.manifest).collect::<Vec<_>>()
            };
            let all = rendered(&with_image(&of, "web:2"));
            let is: Vec<&str> = all.iter().filter_map(|object| object["kind"].as_str()).collect();
            assert_eq!(is, kinds);
            for object in all {
                match object["kind"].as_str() {
                    Some("Deployment") => {
                        assert_eq!(object["metadata"]["name"], "web");
                        assert_eq!(object["spec"]["replicas"], 7);
                        assert_eq!(object.pointer(image), Some(&json!("web:2")));
                    }
                    Some("ConfigMap") => assert_eq!(object["data"]["image"], "web:2"),
                    _ => {}
                }
            }
            let less = rendered(&with_image(&without_config(&of), "web:3"));
            assert_eq!(less.len(), kinds.len() - 1);
            assert!(less.iter().all(|object| object["kind"] != "ConfigMap"));
            assert_eq!(less[0].pointer(image), Some(&json!("web:3")));
        }
    }
}
