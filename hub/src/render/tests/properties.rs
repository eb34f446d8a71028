//! A table of every property: what it changes in the manifests of its component.

use super::rendered;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _};

/// Every property with a value, by component type.
pub(super) fn table() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5});
    let container = vec![
        ("cmd", json!(["sleep"])),
        ("args", json!(["60"])),
        (
            "env",
            json!([{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        ),
        ("cpu", json!("500m")),
        ("memory", json!("128Mi")),
        (
            "volumes",
            json!([{"name": "data", "mountPath": "/data", "type": "pvc", "claimName": "c"}]),
        ),
        (
            "volumeMounts",
            json!({"configMap": [{"name": "conf", "mountPath": "/conf", "cmName": "cm", "subPath": "x"}]}),
        ),
        ("livenessProbe", probe.clone()),
        ("readinessProbe", probe),
        ("labels", json!({"team": "a"})),
        ("annotations", json!({"note": "b"})),
        ("imagePullPolicy", json!("IfNotPresent")),
        ("imagePullSecrets", json!(["registry"])),
        ("hostAliases", json!([{"ip": "10.0.0.1", "hostnames": ["db"]}])),
    ];
    let with = |own: Vec<(&'static str, Value)>| {
        let mut all = own;
        all.extend(container.clone());
        all
    };
    let job = [
        ("count", json!(3)),
        ("restart", json!("OnFailure")),
        ("backoffLimit", json!(2)),
        ("activeDeadlineSeconds", json!(600)),
        ("ttlSecondsAfterFinished", json!(60)),
    ];
    let cron = [
        ("schedule", json!("0 3 * * 0")),
        ("concurrencyPolicy", json!("Forbid")),
        ("suspend", json!(true)),
        ("startingDeadlineSeconds", json!(30)),
        ("successfulJobsHistoryLimit", json!(1)),
        ("failedJobsHistoryLimit", json!(0)),
    ];
    vec![
        (
            "webservice",
            with(vec![
                ("replicas", json!(3)),
                ("port", json!(80)),
                (
                    "ports",
                    json!([{"port": 80, "containerPort": 8080, "name": "http", "expose": true}, {"port": 53, "protocol": "UDP"}]),
                ),
                ("exposeType", json!("NodePort")),
                ("addRevisionLabel", json!(false)),
            ]),
        ),
        ("worker", with(vec![("replicas", json!(3))])),
        ("task", with(job.to_vec())),
        ("cron-task", with(job.iter().chain(&cron).cloned().collect())),
    ]
}

/// A component of a type with no more properties than it needs.
pub(super) fn small(type_: &str) -> Value {
    let mut properties = json!({"image": "busybox"});
    if type_ == "cron-task" {
        properties["schedule"] = json!("@daily");
    }
    json!({"name": "c", "type": type_, "properties": properties})
}

/// Every leaf of some manifests, under kind and path.
pub(super) fn leaves(component: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, at: String, all: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    walk(value, format!("{at}/{}", key.replace('/', "~1")), all);
                }
            }
            Value::Array(list) if list.iter().any(Value::is_object) => {
                for (index, value) in list.iter().enumerate() {
                    walk(value, format!("{at}/{index}"), all);
                }
            }
            leaf => {
                all.insert(at, leaf.clone());
            }
        }
    }
    let mut all = BTreeMap::new();
    for manifest in &rendered(&json!([component])).components[0].manifests {
        walk(manifest, manifest["kind"].as_str().unwrap().to_owned(), &mut all);
    }
    all
}

/// What differs between two components, a line per leaf.
pub(super) fn difference(before: &Value, after: &Value) -> String {
    let (before, after) = (leaves(before), leaves(after));
    let mut text = String::new();
    for (path, value) in &after {
        if before.get(path) != Some(value) {
            writeln!(text, "  {path} = {value}").unwrap();
        }
    }
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        writeln!(text, "  {path} is gone").unwrap();
    }
    text
}

#[test]
fn every_property_and_what_it_changes() {
    for (type_, properties) in table() {
        let base = small(type_);
        let mut text = format!("{type_}: {}\n", base["properties"]);
        for (path, value) in leaves(&base) {
            writeln!(text, "  {path} = {value}").unwrap();
        }
        for (name, value) in properties {
            let mut changed = base.clone();
            changed["properties"][name] = value.clone();
            write!(text, "\n{name}: {value}\n{}", difference(&base, &changed)).unwrap();
        }
        insta::assert_snapshot!(format!("properties_{type_}"), text);
    }
}

#[test]
fn what_is_left_to_kubernetes_defaults_is_not_written() {
    let manifests = rendered(&json!([small("cron-task")]))
        .components
        .remove(0)
        .manifests;
    assert_eq!(
        manifests[0]["spec"],
        json!({"schedule": "@daily", "jobTemplate": {
            "metadata": {"labels": {"app.oam.dev/component": "c"}},
            "spec": {"parallelism": 1, "completions": 1, "template": {
                "metadata": {"labels": {"app.oam.dev/component": "c"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}})
    );
}
