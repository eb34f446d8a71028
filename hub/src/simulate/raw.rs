//! What users wrote as it is to be applied.

use roundhouse_api::{
    application::{ComponentKind, ValidApplication},
    decision::WorkloadRef,
};
use serde_json::Value;

/// The objects that every Bundle of an application has as they are written, the replicas aside, which are divided: those of its
/// `k8s-objects` components, but for Jobs, which are made once. None where a step takes one component only, or changes any.
pub(super) fn raw_objects(application: &ValidApplication) -> impl Iterator<Item = &Value> {
    let mut steps = application.all_steps().filter_map(|step| step.kind.deploy());
    let is_whole = steps.all(|step| step.components.is_none() && step.only.is_none());
    let components = application.components.iter().filter(move |_| is_whole);
    let raw = components.filter_map(|component| match &component.kind {
        ComponentKind::Objects(raw) => Some(&raw.objects),
        _ => None,
    });
    raw.flatten().filter(|object| object["kind"] != "Job")
}

/// What of that is otherwise in the `manifests` of a cluster, or is not there, each in a few words.
pub(super) fn unlike<'a, M: Iterator<Item = &'a Value>>(
    application: &'a ValidApplication,
    manifests: impl Fn() -> M + 'a,
) -> impl Iterator<Item = String> {
    raw_objects(application).filter_map(move |object| {
        let mut wanted = object.clone();
        if let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("replicas");
        }
        let why = match manifests().find(|manifest| is_same(object, manifest)) {
            None => "is not there".to_owned(),
            Some(manifest) => format!("differs at {}", missing(&wanted, manifest, "")?),
        };
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Some(format!("{} {} {why}", text("/kind"), text("/metadata/name")))
    })
}

/// Whether a manifest is the one of an object.
fn is_same(object: &Value, manifest: &Value) -> bool {
    let namespace = "/metadata/namespace";
    let there = object
        .pointer(namespace)
        .is_none_or(|of| manifest.pointer(namespace) == Some(of));
    let named = ["/apiVersion", "/kind", "/metadata/name"];
    there && named.iter().all(|at| manifest.pointer(at) == object.pointer(at))
}

/// Whether a manifest is the one of a workload.
pub(super) fn is_of(manifest: &Value, workload: &WorkloadRef) -> bool {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    text("/kind") == Some(&workload.kind)
        && text("/metadata/name") == Some(&workload.name)
        && text("/metadata/namespace").is_none_or(|namespace| namespace == workload.namespace)
}

/// Whether a workload of this kind says in `spec.replicas` how many it wants.
pub(super) fn is_divided(workload: &WorkloadRef) -> bool {
    ["Deployment", "StatefulSet"].contains(&workload.kind.as_str())
}

/// How many it wants; `None` if that is no number.
pub(super) fn replicas(manifest: &Value) -> Option<u64> {
    // Without the field it is one.
    manifest.pointer("/spec/replicas").map_or(Some(1), Value::as_u64)
}

/// How many replicas the application asks for of a workload, if that is one of these objects.
pub(super) fn replicas_of(application: &ValidApplication, workload: &WorkloadRef) -> Option<u64> {
    let mut own = raw_objects(application).filter(|object| is_of(object, workload));
    own.next().filter(|_| is_divided(workload)).and_then(replicas)
}

/// The first place in `wanted` that `live` has otherwise.
pub(super) fn missing(wanted: &Value, live: &Value, at: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(key, value)| {
            let at = format!("{at}.{key}");
            match live.get(key) {
                Some(live) => missing(value, live, &at),
                None => Some(at),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            let mut pairs = wanted.iter().zip(live).enumerate();
            pairs.find_map(|(n, (wanted, live))| missing(wanted, live, &format!("{at}[{n}]")))
        }
        (wanted, live) => (wanted != live).then(|| format!("{at}: {live}, not {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::application::validate;
    use serde_json::json;

    #[test]
    fn what_no_step_changes_or_leaves_out_is_in_every_bundle() {
        let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
        let placement = json!([{"replicas": "100%"}]);
        let whole = json!({"type": "deploy", "properties": {"placement": placement}});
        let one = json!({"type": "apply-component", "properties": {"name": "raw", "placement": placement}});
        let changed = json!({"type": "deploy", "properties": {"policies": ["more"], "placement": placement}});
        let policies = json!([{"name": "more", "type": "override", "properties": {"components": [
            {"name": "app", "properties": {"image": "nginx:2"}}]}}]);
        for (step, expected) in [(whole, 1), (one, 0), (changed, 0)] {
            let spec = json!({"policies": policies, "workflow": {"steps": [step]}, "components": [
                {"name": "app", "type": "worker", "properties": {"image": "nginx:1"}},
                {"name": "raw", "type": "k8s-objects", "properties": {"objects": [object("ConfigMap"), object("Job")]}}]});
            let valid = validate(&spec).unwrap();
            let raw: Vec<&Value> = raw_objects(&valid).collect();
            assert_eq!(raw.len(), expected, "{spec}");
            assert!(raw.iter().all(|object| object["kind"] == "ConfigMap"));
        }
    }

    #[test]
    fn what_is_otherwise_is_told_and_replicas_are_counted() {
        let objects = json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 5, "paused": true}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b", "namespace": "n"}, "spec": {}}]);
        let spec = json!({"components": [{"name": "a", "type": "k8s-objects", "properties": {"objects": objects}}],
            "workflow": {"steps": [{"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
        let valid = validate(&spec).unwrap();
        let told = |manifests: &Value| {
            let all = manifests.as_array().unwrap();
            unlike(&valid, || all.iter()).collect::<Vec<_>>()
        };
        assert_eq!(told(&objects), [""; 0]);
        let mut other = objects;
        other[0]["data"]["k"] = json!("2");
        // What is divided, and what is more, is no difference.
        other[1]["spec"] = json!({"replicas": 2, "paused": true, "more": 1});
        other[2]["metadata"]["namespace"] = json!("m");
        assert_eq!(
            told(&other),
            [
                "ConfigMap a differs at .data.k: \"2\", not \"1\"",
                "Deployment b is not there"
            ]
        );
        let count = |kind: &str, namespace: &str, name: &str| {
            let workload = WorkloadRef {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            replicas_of(&valid, &workload)
        };
        assert_eq!(count("Deployment", "default", "a"), Some(5));
        assert_eq!(count("Deployment", "n", "b"), Some(1));
        for (kind, namespace, name) in [
            ("Deployment", "m", "b"),
            ("Deployment", "n", "c"),
            ("ConfigMap", "n", "a"),
        ] {
            assert_eq!(count(kind, namespace, name), None, "{kind} {namespace}/{name}");
        }
    }
}
