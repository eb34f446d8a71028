//! What applications come to in every cluster, and what Bundles have of it.

use crate::render::{self, ReplicaPaths};
use roundhouse_api::{
    application::{ComponentKind, ValidApplication},
    decision::WorkloadRef,
};
use serde_json::Value;

/// Groups of kinds that are built in, beside those below `k8s.io`: where their counts live is known.
const BUILT_IN: [&str; 5] = ["", "apps", "batch", "autoscaling", "policy"];

/// A manifest that every Bundle of an application has.
#[derive(Debug, Clone)]
pub(super) struct Everywhere {
    pub(super) manifest: Value,
    /// Nothing of it is changed on its way but its replicas, which are divided, and where these are is known.
    pub(super) is_whole: bool,
}

/// What every Bundle of an application has, but for Jobs, which are made once: the objects of its components as they are written, and
/// what the others render to, with their traits. None where a step takes one component only or changes any.
pub(super) fn everywhere(namespace: &str, name: &str, application: &ValidApplication) -> Vec<Everywhere> {
    let steps = || application.all_steps().filter_map(|step| step.kind.deploy());
    if steps().any(|step| step.components.is_some() || step.only.is_some()) {
        return Vec::new();
    }
    let is_overridden = |manifest: &Value| {
        let mut overrides = steps().flat_map(|step| &step.placement.overrides);
        overrides.any(|one| {
            manifest["kind"] == *one.target.kind && manifest["metadata"]["name"] == *one.target.name
        })
    };
    let rendered = render::render(namespace, name, application);
    let components = application.components.iter().zip(rendered.components);
    let manifests = components.flat_map(|(component, rendered)| match &component.kind {
        ComponentKind::Objects(raw) if component.traits.is_empty() => raw.objects.clone(),
        _ => rendered.manifests,
    });
    let manifests = manifests.filter(|manifest| manifest["kind"] != "Job");
    manifests
        .map(|manifest| Everywhere {
            is_whole: is_built_in(api_version(&manifest)) && !is_overridden(&manifest),
            manifest,
        })
        .collect()
}

fn api_version(manifest: &Value) -> &str {
    let of = manifest.get("apiVersion");
    of.and_then(Value::as_str).unwrap_or_default()
}

/// Whether the kinds of this `apiVersion` are built into Kubernetes.
pub(super) fn is_built_in(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    BUILT_IN.contains(&group) || group.ends_with(".k8s.io")
}

/// What of that is otherwise in the `manifests` of a cluster, or is not there, each in a few words.
pub(super) fn unlike<'a, M: Iterator<Item = &'a Value>>(
    everywhere: &'a [Everywhere],
    manifests: impl Fn() -> M + 'a,
) -> impl Iterator<Item = String> {
    whole(everywhere).filter_map(move |object| {
        let mut wanted = object.clone();
        let counts = render::count_paths(object, &ReplicaPaths::default());
        counts.iter().for_each(|count| without(&mut wanted, count));
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

fn whole(everywhere: &[Everywhere]) -> impl Iterator<Item = &Value> {
    let whole = everywhere.iter().filter(|one| one.is_whole);
    whole.map(|one| &one.manifest)
}

/// Takes the field at a JSON pointer away.
fn without(object: &mut Value, pointer: &str) {
    let parts = pointer.rsplit_once('/');
    let parent =
        parts.and_then(|(parent, field)| Some((object.pointer_mut(parent)?.as_object_mut()?, field)));
    if let Some((parent, field)) = parent {
        parent.remove(field);
    }
}

/// Whether a manifest is the one of an object.
pub(super) fn is_same(object: &Value, manifest: &Value) -> bool {
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
pub(super) fn is_divided(kind: &str) -> bool {
    ["Deployment", "StatefulSet"].contains(&kind)
}

/// How many it wants; `None` if that is no number.
pub(super) fn replicas(manifest: &Value) -> Option<u64> {
    // Without the field it is one.
    manifest.pointer("/spec/replicas").map_or(Some(1), Value::as_u64)
}

/// The workloads among these objects, and how many replicas the application asks for of each.
pub(super) fn workloads(everywhere: &[Everywhere]) -> impl Iterator<Item = (&Value, u64)> {
    let divided = whole(everywhere).filter(|object| object["kind"].as_str().is_some_and(is_divided));
    divided.filter_map(|object| Some((object, replicas(object)?)))
}

/// What an element of a list is called.
pub(super) fn name(element: &Value) -> Option<&str> {
    element.get("name")?.as_str()
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
        let overridden = json!({"type": "deploy", "properties": {"placement": placement, "overrides": [
            {"clusterSelector": {"region": "east"}, "target": {"kind": "ConfigMap", "name": "a"},
                "jsonPatch": [{"op": "add", "path": "/data", "value": {"a": "b"}}]}]}});
        let policies = json!([{"name": "more", "type": "override", "properties": {"components": [
            {"name": "app", "properties": {"image": "nginx:2"}}]}}]);
        for (step, expected) in [
            (whole, &[("Deployment", true), ("ConfigMap", true)][..]),
            (one, &[]),
            (changed, &[]),
            (overridden, &[("Deployment", true), ("ConfigMap", false)]),
        ] {
            let spec = json!({"policies": policies, "workflow": {"steps": [step]}, "components": [
                {"name": "app", "type": "worker", "properties": {"image": "nginx:1"}},
                {"name": "raw", "type": "k8s-objects", "properties": {"objects": [object("ConfigMap"), object("Job")]}}]});
            let all = everywhere("n", "a", &validate(&spec).unwrap());
            let kinds = all
                .iter()
                .map(|one| (one.manifest["kind"].as_str().unwrap(), one.is_whole));
            let kinds: Vec<_> = kinds.collect();
            assert_eq!(kinds, expected, "{spec}");
        }
    }

    #[test]
    fn traits_are_part_of_it_and_kinds_with_counts_elsewhere_are_not() {
        let game = json!({"apiVersion": "games.io/v1", "kind": "Game", "metadata": {"name": "g"}, "spec": {"size": 3}});
        let template = json!({"spec": {"containers": [{"name": "w", "image": "w:1"}]}});
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": template}});
        let spec = json!({"workflow": {"steps": [{"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]},
            "components": [{"name": "raw", "type": "k8s-objects", "properties": {"objects": [web, game]},
                "traits": [{"type": "scaler", "properties": {"replicas": 7}}]}]});
        let all = everywhere("n", "a", &validate(&spec).unwrap());
        let whole: Vec<bool> = all.iter().map(|one| one.is_whole).collect();
        assert_eq!(whole, [true, false], "{all:?}");
        let asked: Vec<u64> = workloads(&all).map(|(_, replicas)| replicas).collect();
        assert_eq!(asked, [7], "{all:?}");
    }

    #[test]
    fn what_is_otherwise_is_told_and_replicas_are_counted() {
        let objects = json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 5, "paused": true}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b", "namespace": "n"}, "spec": {}}]);
        let spec = json!({"components": [{"name": "a", "type": "k8s-objects", "properties": {"objects": objects}}],
            "workflow": {"steps": [{"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
        let everywhere = everywhere("default", "a", &validate(&spec).unwrap());
        let told = |manifests: &Value| {
            let all = manifests.as_array().unwrap();
            unlike(&everywhere, || all.iter()).collect::<Vec<_>>()
        };
        let manifests: Vec<&Value> = everywhere.iter().map(|one| &one.manifest).collect();
        let mut other = json!(manifests);
        assert_eq!(told(&other), [""; 0]);
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
            let asked = workloads(&everywhere).find(|(manifest, _)| is_of(manifest, &workload));
            asked.map(|(_, replicas)| replicas)
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
