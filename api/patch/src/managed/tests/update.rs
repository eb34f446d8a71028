//! Writes that are no server-side apply.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_create_is_owned_by_its_creator() {
    let mut object = Object::new("apps/v1", "Deployment");
    let mut value = deployment(json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "x"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{
                "name": "a", "image": "a:1", "resources": {}, "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }]},
        },
    }));
    value["metadata"]["labels"] = json!({"app": "x"});
    value["metadata"]["uid"] = json!("u");
    // As Kubernetes 1.36 records `kubectl create deployment`.
    object
        .update("kubectl-create", value)
        .owned(json!({"kubectl-create/Update": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": {r#"k:{"name":"a"}"#: {
                        ".": {},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {".": {}, r#"k:{"containerPort":80,"protocol":"TCP"}"#: {
                            ".": {}, "f:containerPort": {}, "f:protocol": {},
                        }},
                        "f:resources": {},
                    }}},
                },
            },
        }}));
}

#[test]
fn an_update_takes_what_it_changes_and_drops_what_it_removes() {
    of_config_map()
        .update("one", config_map(json!({"a": "1", "b": "1", "c": "1"})))
        .update("two", config_map(json!({"a": "2", "b": "1"})))
        .owned(json!({
            "one/Update": {"f:data": {".": {}, "f:b": {}}},
            "two/Update": {"f:data": {"f:a": {}}},
        }))
        .update("two", config_map(json!({"b": "2"})))
        .owned(json!({"one/Update": {"f:data": {}}, "two/Update": {"f:data": {"f:b": {}}}}));
}

#[test]
fn times_change_with_the_set() {
    let mut object = of_config_map();
    object.update("one", config_map(json!({"a": "1", "b": "1"})));
    let at = |now, after: &Value, object: &Object| {
        let who = Write {
            now,
            ..write("one", "v1")
        };
        let entries = object.entries.clone();
        update(
            object.live.as_ref(),
            after,
            entries,
            &who,
            object.topology(),
            &Scope::all(),
        )
    };
    let later = "2026-01-02T03:04:06Z";
    let same = at(later, &config_map(json!({"a": "1", "b": "1"})), &object);
    assert_eq!(same, object.entries);
    let removed = at(later, &config_map(json!({"a": "1"})), &object);
    assert_eq!(removed[0].time, NOW);
    let changed = at(later, &config_map(json!({"a": "2", "b": "1"})), &object);
    assert_eq!(changed[0].time, later);
}

#[test]
fn an_object_that_is_not_tracked_stays_so() {
    let mut object = of_config_map();
    object.live = Some(config_map(json!({"a": "1"})));
    object
        .update("one", config_map(json!({"a": "2"})))
        .owned(json!({}));
}

#[test]
fn the_oldest_updaters_are_folded() {
    let mut object = of_config_map();
    let mut data = serde_json::Map::new();
    for n in 0..13 {
        data.insert(format!("k{n}"), "1".into());
        let after = config_map(Value::Object(data.clone()));
        let entries = std::mem::take(&mut object.entries);
        let manager = format!("m{n}");
        let now = format!("2026-01-02T03:04:{n:02}Z");
        let who = Write {
            now: &now,
            ..write(&manager, "v1")
        };
        object.entries = update(
            object.live.as_ref(),
            &after,
            entries,
            &who,
            object.topology(),
            &Scope::all(),
        );
        object.live = Some(after);
    }
    assert_eq!(object.entries.len(), 10);
    let ancient = object
        .entries
        .iter()
        .find(|e| e.manager == "ancient-changes")
        .unwrap();
    let folded = json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}});
    assert_eq!(ancient.fields.to_fields_v1(), folded);
    assert_eq!(ancient.time, "2026-01-02T03:04:03Z");
}

#[test]
fn a_status_writer_owns_status_only() {
    let mut object = Object::new("apps/v1", "Deployment");
    object.update("one", deployment(json!({"replicas": 1})));
    let mut after = object.live.clone().unwrap();
    after["status"] = json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    let who = Write {
        subresource: "status",
        ..write("controller", "apps/v1")
    };
    let scope = Scope::Only(Step::field("status"));
    let entries = object.entries.clone();
    let entries = update(
        object.live.as_ref(),
        &after,
        entries,
        &who,
        object.topology(),
        &scope,
    );
    let status = entries.iter().find(|e| e.subresource == "status").unwrap();
    let fields = json!({"f:status": {
        "f:conditions": {".": {}, r#"k:{"type":"Available"}"#: {".": {}, "f:status": {}, "f:type": {}}},
        "f:replicas": {},
    }});
    assert_eq!(status.fields.to_fields_v1(), fields);
}

#[test]
fn another_value_of_ones_own_fields_only_renews_ones_entry() {
    let mut object = of_config_map();
    object
        .update("one", config_map(json!({"a": "1", "b": "1"})))
        .update("two", config_map(json!({"a": "1", "b": "1", "c": "1"})));
    let renews = |manager: &str, data: Value| object.renew(manager, &config_map(data));
    assert!(renews("one", json!({"a": "2", "b": "2", "c": "1"})));
    assert!(renews("two", json!({"a": "1", "b": "1", "c": "2"})));
    for (manager, data) in [
        ("two", json!({"a": "2", "b": "1", "c": "1"})),
        ("one", json!({"a": "2", "b": "1", "c": "2"})),
        ("one", json!({"a": "2", "c": "1"})),
        ("one", json!({"a": "2", "b": "1", "c": "1", "d": "1"})),
        ("three", json!({"a": "2", "b": "1", "c": "1"})),
        ("one", json!({"a": "1", "b": "1", "c": "1"})),
    ] {
        assert!(!renews(manager, data.clone()), "{manager} {data}");
    }
    // An applier has it, too.
    object.force("three", config_map(json!({"a": "1"})));
    assert!(!object.renew("one", &config_map(json!({"a": "2", "b": "1", "c": "1"}))));
    assert!(object.renew("one", &config_map(json!({"a": "1", "b": "2", "c": "1"}))));
}
