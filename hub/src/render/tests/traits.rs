//! Traits: what each changes, that their order does not matter, and what a revision makes of them.

use super::{
    properties::{difference, small},
    rendered,
};
use crate::render::{
    Rendered, ReplicaPaths, component_hash, from_config_map_data, replica_count, to_config_map_data,
    workloads,
};
use proptest::prelude::*;
use roundhouse_api::application::validate;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A Deployment as an object, with two containers.
fn objects() -> Value {
    json!({"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}, "annotations": {"old": "1"}}, "spec": {
                "containers": [{"name": "main", "image": "nginx", "env": [
                        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "level"}}},
                        {"name": "OLD", "value": "1"}],
                    "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}},
                    {"name": "aux", "image": "busybox"}],
                "volumes": [{"name": "data", "emptyDir": {}}]}}}}]}})
}

/// Every trait with all its properties, for the workload of [`objects`].
pub(super) fn of_objects() -> Vec<Value> {
    let of = |type_: &str, properties: Value| json!({"type": type_, "properties": properties});
    vec![
        of("scaler", json!({"replicas": 5})),
        of("labels", json!({"team": "a"})),
        of("annotations", json!({"note": "b", "old": null})),
        of(
            "expose",
            json!({"type": "LoadBalancer", "annotations": {"lb": "internal"},
            "ports": [{"port": 80, "name": "http", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}),
        ),
        of("expose", json!({"port": [80], "matchLabels": {"app": "web"}})),
        of(
            "env",
            json!({"containerName": "main", "env": {"LEVEL": "debug", "NEW": "1"}, "unset": ["OLD"]}),
        ),
        of(
            "env",
            json!({"containerName": "main", "replace": true, "env": {"NEW": "1"}}),
        ),
        of(
            "env",
            json!({"containers": [{"containerName": "aux", "env": {"A": "1"}}]}),
        ),
        of("resource", json!({"cpu": 2, "memory": "1Gi"})),
        of(
            "resource",
            json!({"requests": {"cpu": "0.5"}, "limits": {"cpu": "2", "memory": "1Gi"}}),
        ),
        of(
            "sidecar",
            json!({"name": "log", "image": "fluentd", "cmd": ["fluentd"], "args": ["-q"],
            "env": [{"name": "Z", "value": "1"}, {"name": "A", "value": "$(Z)"}], "volumes": [{"name": "data", "path": "/data"}],
            "livenessProbe": {"tcpSocket": {"port": 24224}}, "readinessProbe": {"exec": {"command": ["true"]}}}),
        ),
        of("node-selector", json!({"disktype": "ssd"})),
    ]
}

#[test]
fn every_trait_and_what_it_changes() {
    let mut text = String::new();
    for one in of_objects() {
        let mut changed = objects();
        changed["traits"] = json!([one]);
        write!(
            text,
            "{} {}\n{}\n",
            one["type"].as_str().unwrap(),
            one["properties"],
            difference(&objects(), &changed)
        )
        .unwrap();
    }
    insta::assert_snapshot!("traits_of_objects", text);
}

#[test]
fn every_trait_of_the_built_in_types() {
    let of = |type_: &str, properties: Value| json!({"type": type_, "properties": properties});
    let all = [
        of("scaler", json!({"replicas": 5})),
        of("labels", json!({"team": "a"})),
        of("annotations", json!({"note": "b"})),
        of("expose", json!({"port": [80]})),
        of("env", json!({"env": {"LEVEL": "debug"}})),
        of("resource", json!({"cpu": 1})),
        of("sidecar", json!({"name": "log", "image": "fluentd"})),
        of("node-selector", json!({"disktype": "ssd"})),
    ];
    let mut text = String::new();
    for type_ in ["webservice", "cron-task"] {
        let base = small(type_);
        for one in &all {
            if type_ == "cron-task" && matches!(one["type"].as_str(), Some("scaler" | "expose")) {
                continue;
            }
            let mut changed = base.clone();
            changed["traits"] = json!([one]);
            write!(
                text,
                "{type_}: {} {}\n{}\n",
                one["type"].as_str().unwrap(),
                one["properties"],
                difference(&base, &changed)
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!("traits_of_built_in_types", text);
}

fn with(component: &Value, traits: &[Value]) -> Rendered {
    let mut component = component.clone();
    component["traits"] = json!(traits);
    rendered(&json!([component]))
}

#[test]
fn a_scaler_is_no_change_of_the_pods_and_is_what_is_divided() {
    let scaler = |replicas: u32| {
        with(
            &small("worker"),
            &[json!({"type": "scaler", "properties": {"replicas": replicas}})],
        )
    };
    let (three, nine) = (scaler(3), scaler(9));
    let manifest = |rendered: &Rendered| rendered.components[0].manifests[0].clone();
    assert_eq!(
        manifest(&three)["spec"]["template"],
        manifest(&nine)["spec"]["template"]
    );
    assert_eq!(replica_count(&manifest(&nine), &ReplicaPaths::default()), Some(9));
    assert_eq!(workloads(&nine)[0].replicas, 9);
    assert_ne!(
        component_hash(&three.components[0]),
        component_hash(&nine.components[0])
    );
    // Of objects it overrules what the manifest says.
    let of_objects = with(&objects(), &of_objects()[..1]);
    assert_eq!(workloads(&of_objects)[0].replicas, 5);
}

#[test]
fn the_service_of_a_trait_is_labelled_as_one() {
    let rendered = with(
        &small("worker"),
        &[json!({"type": "expose", "properties": {"port": [80]}})],
    );
    let [deployment, service] = rendered.components[0].manifests.as_slice() else {
        panic!("{rendered:?}")
    };
    assert_eq!(
        service["metadata"],
        json!({"name": "c", "namespace": "shop", "labels": {
            "app.oam.dev/name": "app", "app.oam.dev/namespace": "shop", "app.oam.dev/component": "c",
            "app.oam.dev/resourceType": "TRAIT", "workload.oam.dev/type": "worker", "trait.oam.dev/type": "expose"}})
    );
    assert_eq!(
        service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"],
        "it leads to the pods"
    );
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["labels"],
        json!({"app.oam.dev/component": "c"})
    );
}

#[test]
fn the_record_of_a_revision_carries_what_traits_made() {
    let rendered = with(&objects(), &of_objects()[..4]);
    let parts = to_config_map_data(&rendered);
    assert!(parts[0]["c"].contains("\"team\": \"a\""), "{parts:?}");
    assert_eq!(from_config_map_data(["c"], &parts).unwrap(), rendered);
}

/// Traits that go together, several of a type among them.
fn pool() -> Vec<Value> {
    let of = |type_: &str, properties: Value| json!({"type": type_, "properties": properties});
    vec![
        of("scaler", json!({"replicas": 5})),
        of("labels", json!({"team": "a", "old": null})),
        of("labels", json!({"team": "a", "tier": "b"})),
        of("annotations", json!({"note": "b", "old": null})),
        of("annotations", json!({"z": "1", "a": "1"})),
        of("expose", json!({"port": [80, 81]})),
        of(
            "env",
            json!({"containerName": "main", "env": {"LEVEL": "debug", "Z": "1"}}),
        ),
        of(
            "env",
            json!({"containerName": "main", "env": {"A": "1"}, "unset": ["OLD"]}),
        ),
        of("resource", json!({"requests": {"cpu": "0.5"}})),
        of("resource", json!({"limits": {"memory": "1Gi"}})),
        of(
            "sidecar",
            json!({"name": "zz", "image": "z", "env": [{"name": "Z", "value": "1"}, {"name": "A", "value": "$(Z)"}]}),
        ),
        of(
            "sidecar",
            json!({"name": "aa", "image": "a", "volumes": [{"name": "data", "path": "/d"}]}),
        ),
        of("sidecar", json!({"name": "mm", "image": "m", "cmd": ["m"]})),
        of("node-selector", json!({"disktype": "ssd"})),
        of("node-selector", json!({"zone": "a"})),
    ]
}

#[test]
fn variables_of_a_sidecar_keep_their_order() {
    let rendered = with(&objects(), &pool());
    let containers = &rendered.components[0].manifests[1]["spec"]["template"]["spec"]["containers"];
    let names: Vec<_> = containers
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["main", "aux", "aa", "mm", "zz"]);
    assert_eq!(
        containers[4]["env"],
        json!([{"name": "Z", "value": "1"}, {"name": "A", "value": "$(Z)"}])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_order_of_traits_has_no_meaning(
        (some, shuffled) in prop::sample::subsequence(pool(), 1..=pool().len())
            .prop_flat_map(|some| (Just(some.clone()), Just(some).prop_shuffle()))
    ) {
        let bytes = |traits: &[Value]| serde_json::to_vec(&with(&objects(), traits).components[0].manifests).unwrap();
        prop_assert_eq!(bytes(&some), bytes(&shuffled));
    }

    /// Whatever the manifest: what validation accepts is merged.
    #[test]
    fn what_is_accepted_is_merged(
        place in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![json!(null), json!(5), json!("x"), json!([]), json!({}), json!([{}]), json!([5]),
            json!({"name": "x"}), json!([{"name": "main"}]), json!([[]]), json!({"$patch": "delete"}), json!([{"$patch": "replace"}])])
    ) {
        fn places(value: &Value, at: String, all: &mut Vec<String>) {
            match value {
                Value::Object(map) => map.iter().for_each(|(key, v)| places(v, format!("{at}/{}", key.replace('/', "~1")), all)),
                Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), all)),
                _ => {}
            }
            all.push(at);
        }
        let mut component = objects();
        let mut all = Vec::new();
        places(&component["properties"]["objects"][1], "/properties/objects/1".to_owned(), &mut all);
        *component.pointer_mut(place.get(&all).as_str()).unwrap() = value;
        component["traits"] = json!(pool());
        let spec = json!({"components": [component],
            "policies": [{"name": "p", "type": "placement", "properties": {"placement": [{}]}}]});
        if let Ok(application) = validate(&spec) {
            let rendered = crate::render::render("shop", "app", &application);
            prop_assert_eq!(&rendered.components[0].manifests[1]["spec"]["replicas"], &json!(5));
        }
    }
}
