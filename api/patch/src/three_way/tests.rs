use serde_json::{Value, json};

use super::*;

fn merged(last: &Value, desired: &Value, live: &Value) -> Result<ThreeWay, String> {
    three_way_merge(Some(last), desired, live).map_err(|error| error.to_string())
}

fn object(kind: &str, fields: &Value) -> Value {
    let api_version = if kind == "Widget" {
        "example.dev/v1"
    } else {
        "apps/v1"
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}});
    object["spec"] = fields.clone();
    object
}

/// For both patch types: last applied, desired, live -> patch and result, all of `spec`.
#[test]
fn fields() {
    let table = [
        // A field left out is removed, one that others set stays.
        (
            json!({"a": 1, "b": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1, "c": 1}),
            json!({"b": null}),
            json!({"a": 1, "c": 1}),
        ),
        // We win a conflict on what we render.
        (
            json!({"a": 1}),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"a": 1}),
            json!({"a": 1}),
        ),
        // A field left out that is gone already is still named in the patch, and nothing changes.
        (
            json!({"a": 1, "b": 1}),
            json!({"a": 2}),
            json!({"a": 1}),
            json!({"a": 2, "b": null}),
            json!({"a": 2}),
        ),
        // A map left out whole is removed whole, with what others put into it.
        (
            json!({"m": {"a": "1"}}),
            json!({}),
            json!({"m": {"a": "1", "b": "2"}}),
            json!({"m": null}),
            json!({}),
        ),
        // A map emptied keeps what others put into it.
        (
            json!({"m": {"a": "1"}}),
            json!({"m": {}}),
            json!({"m": {"a": "1", "b": "2"}}),
            json!({"m": {"a": null}}),
            json!({"m": {"b": "2"}}),
        ),
        // An explicit null removes.
        (
            json!({}),
            json!({"a": null}),
            json!({"a": 1, "b": 1}),
            json!({"a": null}),
            json!({"b": 1}),
        ),
        (
            json!({}),
            json!({"m": {}}),
            json!({}),
            json!({"m": {}}),
            json!({"m": {}}),
        ),
    ];
    for kind in ["Widget", "Deployment"] {
        for (last, desired, live, patch, result) in &table {
            let got = merged(&object(kind, last), &object(kind, desired), &object(kind, live)).unwrap();
            assert_eq!(
                got.patch,
                json!({ "spec": patch }),
                "{kind} {last} {desired} {live}"
            );
            assert_eq!(got.result, object(kind, result), "{kind} {last} {desired} {live}");
        }
    }
}

#[test]
fn a_kind_with_metadata_is_patched_strategically_and_any_other_by_json_merge() {
    let containers = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let pod = |names: &[&str]| json!({"template": {"spec": {"containers": containers(names)}}});
    let (last, desired, live) = (
        pod(&["web", "old"]),
        pod(&["web"]),
        pod(&["web", "old", "injected"]),
    );

    let got = merged(
        &object("Deployment", &last),
        &object("Deployment", &desired),
        &object("Deployment", &live),
    )
    .unwrap();
    assert_eq!(
        got.patch_type.content_type(),
        "application/strategic-merge-patch+json"
    );
    assert_eq!(got.result["spec"], pod(&["web", "injected"]));

    let got = merged(
        &object("Widget", &last),
        &object("Widget", &desired),
        &object("Widget", &live),
    )
    .unwrap();
    assert_eq!(got.patch_type.content_type(), "application/merge-patch+json");
    assert_eq!(got.result["spec"], pod(&["web"]));
}

#[test]
fn nothing_to_change_gives_an_empty_patch() {
    let live = object("Deployment", &json!({"replicas": 3, "paused": true}));
    let desired = object("Deployment", &json!({"replicas": 3, "minReadySeconds": null}));
    let got = merged(&desired, &desired, &live).unwrap();
    assert!(got.is_empty());
    assert_eq!(got.result, live);

    // Kubernetes sends this selector at every pass: its strategy is to be replaced.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    assert!(merged(&budget, &budget, &budget).unwrap().is_empty());
}

#[test]
fn the_identity_stays() {
    let live = object("Deployment", &json!({}));
    let mut renamed = live.clone();
    renamed["metadata"]["name"] = json!("other");
    let error = merged(&live, &renamed, &live).unwrap_err();
    assert!(
        error.starts_with("metadata.name: \"web\" would become \"other\"; "),
        "{error}"
    );

    let mut nameless = live.clone();
    nameless["metadata"] = json!({});
    let error = merged(&live, &nameless, &live).unwrap_err();
    assert!(
        error.starts_with("metadata.name: \"web\" would become null; "),
        "{error}"
    );

    for kind in ["Widget", "StatefulSet"] {
        let error = merged(&live, &object(kind, &json!({})), &live).unwrap_err();
        assert!(
            error.starts_with("apiVersion: ") || error.starts_with("kind: "),
            "{error}"
        );
    }
    // A typed client may leave these out of what it read.
    let typed = json!({"metadata": {"name": "web"}});
    assert_eq!(merged(&live, &live, &typed).unwrap().result, live);
}

#[test]
fn nulls_inside_lists_do_not_come_back_at_every_pass() {
    let desired = object(
        "Widget",
        &json!({"parts": [{"name": "a", "size": null}], "size": 3}),
    );
    let live = object("Widget", &json!({"parts": [], "size": 3.0}));
    let first = merged(&desired, &desired, &live).unwrap();
    assert_eq!(first.patch, json!({"spec": {"parts": [{"name": "a"}]}}));
    assert!(merged(&desired, &desired, &first.result).unwrap().is_empty());
}

/// Kubernetes pairs elements that share a key by its sort, which leaves them in reverse.
#[test]
fn elements_of_one_key_merge_into_the_first() {
    let ports = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": ports}});
    let desired = ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]));
    let live = ports(json!([{"port": 53, "protocol": "UDP", "nodePort": 1}]));
    let got = merged(&desired, &desired, &live).unwrap();
    assert_eq!(
        got.result,
        ports(json!([{"port": 53, "protocol": "UDP", "nodePort": 1}]))
    );
}

#[test]
fn refusals_say_which_document_and_where() {
    let good = object(
        "Deployment",
        &json!({"template": {"spec": {"containers": [{"name": "web"}]}}}),
    );
    let bytes = |text: &str| {
        three_way_merge_bytes(None, text.as_bytes(), b"{}")
            .unwrap_err()
            .to_string()
    };
    assert!(bytes("{").starts_with("the desired object is not JSON: EOF while parsing"));
    assert_eq!(bytes("[]"), "$: expected an object, found a list");
    assert!(bytes(&format!("{}1{}", "[".repeat(200), "]".repeat(200))).contains("recursion limit exceeded"));
    let error = three_way_merge_bytes(None, b"{}", &[0xff])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the live object is not JSON: invalid utf-8"),
        "{error}"
    );

    let nameless = object(
        "Deployment",
        &json!({"template": {"spec": {"containers": [{"image": "a"}]}}}),
    );
    let error = merged(&good, &nameless, &good).unwrap_err();
    assert!(
        error.starts_with("spec.template.spec.containers[0]: element has no merge key \"name\""),
        "{error}"
    );
}

#[test]
fn escapes_and_repeated_names_are_read_as_json_has_them() {
    let desired =
        br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"b":"1","a":"\u00e4\n","b":"2","c\"":"x"}}"#;
    let got = three_way_merge_bytes(None, desired, b"{}").unwrap();
    let want = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "ä\n", "b": "2", "c\"": "x"}});
    assert_eq!(serde_json::from_slice::<Value>(&got.result).unwrap(), want);
}
