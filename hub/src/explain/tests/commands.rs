//! What to type.

use super::fixture::{cluster, setting, taint, web};
use crate::{
    explain::{Change, Setting, Source},
    render::{Rendered, ReplicaPaths},
};
use roundhouse_api::{
    application::{Found, resolve, validate},
    placement::TaintEffect,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn spec() -> Value {
    json!({
        "components": [
            {"name": "side", "type": "worker", "properties": {"image": "x"}},
            {"name": "web", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 10}}]}}],
        "policies": [
            {"name": "p", "type": "placement", "properties": {"placement": [{"name": "b", "replicas": "10%"}]}}],
        "workflow": {"steps": [
            {"name": "east", "type": "deploy", "properties": {"maxClusters": 3,
                "placement": [{"replicas": "50%", "clusters": ["c2"], "weights": {"c2": 2}}]}},
            {"type": "suspend"},
            {"name": "west", "type": "deploy", "properties": {"policies": ["p"]}}]}})
}

/// Where the application `shop/checkout` is written.
fn source_of(spec: &Value) -> Source {
    Source::of(
        "shop",
        "checkout",
        spec,
        &validate(spec).unwrap(),
        &ReplicaPaths::default(),
    )
}

#[test]
fn changes_have_words_and_commands() {
    let spec = spec();
    let east = spec["workflow"]["steps"][0]["properties"].clone();
    let west = spec["policies"][0]["properties"].clone();
    let mut c1 = cluster("c1", "tier=tin");
    c1.taints = vec![taint("gpu", "a'b", TaintEffect::NoSchedule)];
    let setting = setting(&[("east", east), ("west", west)], 10, [c1.clone()]);
    let source = source_of(&spec);
    let mut lines = Vec::new();
    for change in [
        Change::SetLabel {
            key: "tier".into(),
            value: "gold".into(),
        },
        Change::SetLabel {
            key: "zone".into(),
            value: "a".into(),
        },
        Change::RemoveLabel { key: "tier".into() },
        Change::RemoveTaint(c1.taints[0].clone()),
        Change::RemoveTaint(taint(
            roundhouse_api::cluster::TAINT_CORDONED,
            "",
            TaintEffect::NoSchedule,
        )),
        Change::AddTaint(taint("maintenance", "", TaintEffect::NoExecute)),
        Change::Accept,
        Change::Join,
        Change::Reconnect,
        Change::Capacity(3),
        Change::Tolerate {
            step: 0,
            taint: c1.taints[0].clone(),
        },
        Change::AddName { rule: (0, 0) },
        Change::Weight {
            rule: (0, 0),
            weight: 4,
        },
        Change::Weight {
            rule: (1, 0),
            weight: 4,
        },
        Change::MaxClusters { step: 0, clusters: 4 },
        Change::Share {
            rule: (1, 0),
            share: serde_json::from_value(json!("15%")).unwrap(),
        },
        Change::Min { rule: (0, 0), min: 1 },
        Change::RebalanceOnChange { step: 0 },
        Change::Replicas {
            workload: web(),
            replicas: 16,
        },
    ] {
        lines.push(source.words(&change, &setting, "c1"));
        let command = source.command(&change, &setting, "c1");
        lines.push(format!("  {}", command.as_deref().unwrap_or("-")));
    }
    insta::assert_snapshot!("commands", lines.join("\n"));
}

#[test]
fn a_patch_is_the_change() {
    let mut object = json!({"spec": spec()});
    let east = object["spec"]["workflow"]["steps"][0]["properties"].clone();
    let setting = setting(&[("east", east)], 10, [cluster("c1", "")]);
    let source = Source::of(
        "default",
        "web",
        &object["spec"],
        &validate(&object["spec"]).unwrap(),
        &ReplicaPaths::default(),
    );
    let change = Change::Weight {
        rule: (0, 0),
        weight: 4,
    };
    let command = source.command(&change, &setting, "c1").unwrap();
    let patch = command.split('\'').nth(1).unwrap();
    let operations: Value = serde_json::from_str(patch).unwrap();
    let path = operations[0]["path"].as_str().unwrap();
    let (parent, key) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = operations[0]["value"].clone();
    let rule = &object["spec"]["workflow"]["steps"][0]["properties"]["placement"][0];
    assert_eq!(rule["weights"], json!({"c1": 4, "c2": 2}));
}

#[test]
fn what_a_placement_says_is_changed_there() {
    let spec = json!({
        "components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
        "workflow": {"steps": [{"type": "deploy", "properties": {"placementRef": {"name": "gold"}}}]}});
    let mut valid = validate(&spec).unwrap();
    let gold = json!({"placement": [{"replicas": "50%"}], "maxClusters": 2});
    let gold = serde_json::from_value(gold).unwrap();
    resolve(&mut valid, |_| Found::Valid(&gold)).unwrap();
    let setting = Setting::of(
        "shop/web".to_owned(),
        ("web-v1", &[]),
        &valid,
        &Rendered::default(),
        vec![cluster("c1", "").into()],
        &BTreeMap::new(),
        jiff::Timestamp::UNIX_EPOCH,
    );
    let source = Source::of("shop", "web", &spec, &valid, &ReplicaPaths::default());
    for (change, expected) in [
        (
            Change::Weight {
                rule: (0, 0),
                weight: 4,
            },
            r#"kubectl -n shop patch placement gold --type json -p '[{"op":"add","path":"/spec/placement/0/weights","value":{"c1":4}}]'"#,
        ),
        (
            Change::MaxClusters { step: 0, clusters: 3 },
            r#"kubectl -n shop patch placement gold --type json -p '[{"op":"add","path":"/spec/maxClusters","value":3}]'"#,
        ),
    ] {
        assert_eq!(source.command(&change, &setting, "c1").as_deref(), Some(expected));
    }
}

#[test]
fn a_count_is_written_where_its_kind_has_it() {
    let object = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "default"}});
    let spec = json!({"components": [{"name": "all", "type": "k8s-objects", "properties": {"objects": [
        object("games.io/v1", "Server"), object("batch/v1", "Job"), object("example.org/v1", "Job"), object("apps/v1", "Deployment")]}}],
        "workflow": {"steps": [{"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
    let definition = json!({"workload": {"definition": {"apiVersion": "games.io/v1", "kind": "Server"}}, "replicasPath": "spec.pool.size"});
    let name = ("default".to_owned(), "server".to_owned());
    let definition = serde_json::from_value(definition).unwrap();
    let paths = ReplicaPaths::of("default", [(&name, &definition)]);
    let source = Source::of("default", "all", &spec, &validate(&spec).unwrap(), &paths);
    let pointers: Vec<_> = source
        .replicas
        .iter()
        .map(|counted| (counted.workload.kind.as_str(), counted.pointer.as_str()))
        .collect();
    assert_eq!(
        pointers,
        [
            ("Server", "/components/0/properties/objects/0/spec/pool/size"),
            ("Job", "/components/0/properties/objects/1/spec/parallelism"),
            ("Deployment", "/components/0/properties/objects/3/spec/replicas"),
        ]
    );
    let change = Change::Replicas {
        workload: source.replicas[0].workload.clone(),
        replicas: 1,
    };
    let setting = setting(&[], 10, [cluster("c1", "")]);
    let words = source.words(&change, &setting, "c1");
    assert_eq!(words, "1 replica of Server default/x (now 0)");
}

#[test]
fn what_is_done_one_after_the_other_adds_up() {
    let spec = spec();
    let east = spec["workflow"]["steps"][0]["properties"].clone();
    let gpu = |effect| taint("gpu", "", effect);
    let setting = setting(&[("east", east)], 10, [cluster("c1", "")]);
    let source = source_of(&spec);
    let tolerate = |effect| Change::Tolerate {
        step: 0,
        taint: gpu(effect),
    };
    let changes = [
        tolerate(TaintEffect::NoSchedule),
        tolerate(TaintEffect::NoExecute),
        Change::Min { rule: (0, 0), min: 1 },
        Change::Max { rule: (0, 0), max: 2 },
    ];
    let advice = source.advice(&changes, &setting, "c1");
    let paths: Vec<Value> = advice
        .iter()
        .map(|advice| {
            let patch = advice
                .command
                .as_ref()
                .unwrap()
                .split('\'')
                .nth(1)
                .unwrap()
                .to_owned();
            serde_json::from_str::<Value>(&patch).unwrap()[0]["path"].take()
        })
        .collect();
    let at = "/spec/workflow/steps/0/properties";
    assert_eq!(
        paths,
        [
            format!("{at}/tolerations"),
            format!("{at}/tolerations/-"),
            format!("{at}/placement/0/perCluster"),
            format!("{at}/placement/0/perCluster/max"),
        ]
    );
}

#[test]
fn the_number_of_a_scaler_is_changed_in_the_trait() {
    let workload = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": {
            "template": {"spec": {"containers": [{"name": "a"}]}}}})
    };
    let scaler = json!({"type": "scaler", "properties": {"replicas": 3}});
    let labels = json!({"type": "labels", "properties": {"a": "b"}});
    let spec = json!({"components": [
        {"name": "web", "type": "worker", "properties": {"image": "x"}, "traits": [labels, scaler]},
        {"name": "db", "type": "k8s-objects", "properties": {"objects": [{"kind": "ConfigMap"}, workload("pg")]}, "traits": [scaler]},
        {"name": "one", "type": "worker", "properties": {"image": "x"}, "traits": [{"type": "scaler"}]},
        {"name": "run", "type": "task", "properties": {"image": "x"}}],
        "workflow": {"steps": [{"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
    let valid = validate(&spec).unwrap();
    let source = Source::of("default", "all", &spec, &valid, &ReplicaPaths::default());
    let pointers: Vec<_> = source
        .replicas
        .iter()
        .map(|c| {
            (
                c.workload.kind.as_str(),
                c.workload.name.as_str(),
                c.pointer.as_str(),
            )
        })
        .collect();
    // A scaler without properties has no field to change.
    assert_eq!(
        pointers,
        [
            ("Deployment", "web", "/components/0/traits/1/properties/replicas"),
            ("StatefulSet", "pg", "/components/1/traits/0/properties/replicas"),
            ("Job", "run", "/components/3/properties/count"),
        ]
    );
}
