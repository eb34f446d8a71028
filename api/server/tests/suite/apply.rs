//! Server-side apply and managed fields, on the wire.
#![allow(clippy::needless_pass_by_value, reason = "tables of literals")]

use crate::raw::{self, Raw};
use http::Method;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn server() -> (Server, Raw) {
    let server = Server::builder().seed(1).build();
    let raw = Raw::new(&server);
    (server, raw)
}

async fn apply(raw: &Raw, path: &str, body: Value) -> (u16, Value) {
    raw.ask(Method::PATCH, path, APPLY, body.to_string()).await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn deployment(replicas: Option<i64>, image: &str) -> Value {
    let mut out = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "a", "image": image}]}},
        },
    });
    if let Some(replicas) = replicas {
        out["spec"]["replicas"] = replicas.into();
    }
    out
}

/// `manager operation subresource` of every entry.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |e: &Value, key: &str| e[key].as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|e| {
            format!(
                "{} {} {}",
                text(e, "manager"),
                text(e, "operation"),
                text(e, "subresource")
            )
            .trim()
            .to_owned()
        })
        .collect()
}

fn fields(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .into_iter()
        .find(|e| e["manager"] == manager)
        .map_or(Value::Null, |e| e["fieldsV1"].clone())
}

#[tokio::test]
async fn creates_then_changes_and_a_repeat_writes_nothing() {
    let (server, raw) = server();
    let path = format!("{MAPS}/c?fieldManager=one");
    let (code, made) = apply(&raw, &path, map(json!({"a": "1"}))).await;
    assert_eq!((code, &made["data"]), (201, &json!({"a": "1"})));
    assert_eq!(managers(&made), ["one Apply"]);
    let before = server.revision();
    let (code, again) = apply(&raw, &path, map(json!({"a": "1"}))).await;
    assert_eq!((code, again), (200, made));
    assert_eq!(server.revision(), before);
    // YAML, as the media type says.
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  b: '2'\n";
    let (code, changed) = raw.ask(Method::PATCH, &path, APPLY, yaml).await;
    assert_eq!((code, &changed["data"]), (200, &json!({"b": "2"})));
}

#[tokio::test]
async fn conflicts_are_listed_and_force_takes_over() {
    let (_, raw) = server();
    let one = format!("{DEPLOYMENTS}/d?fieldManager=one");
    assert_eq!(apply(&raw, &one, deployment(Some(1), "a:1")).await.0, 201);
    let two = format!("{DEPLOYMENTS}/d?fieldManager=two");
    let (code, status) = apply(&raw, &two, deployment(Some(2), "a:2")).await;
    assert_eq!(code, 409);
    assert_eq!(
        (&status["reason"], &status["kind"]),
        (&json!("Conflict"), &json!("Status"))
    );
    let message = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"a\"].image";
    assert_eq!(status["message"], message);
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.replicas"});
    assert_eq!(status["details"]["causes"][0], cause);
    let (code, taken) = apply(&raw, &format!("{two}&force=true"), deployment(Some(2), "a:2")).await;
    assert_eq!((code, &taken["spec"]["replicas"]), (200, &json!(2)));
    assert_eq!(fields(&taken, "one")["f:spec"]["f:replicas"], Value::Null);
    assert_eq!(managers(&taken), ["one Apply", "two Apply"]);
    // Equal values are shared.
    assert_eq!(apply(&raw, &one, deployment(Some(2), "a:2")).await.0, 200);
}

#[tokio::test]
async fn a_field_left_to_an_autoscaler_is_kept() {
    let (_, raw) = server();
    let path = format!("{DEPLOYMENTS}/d?fieldManager=app");
    apply(&raw, &path, deployment(Some(1), "a:1")).await;
    let scale = json!({"spec": {"replicas": 5}});
    let (code, _) = raw
        .merge(&format!("{DEPLOYMENTS}/d/scale?fieldManager=hpa"), scale)
        .await;
    assert_eq!(code, 200);
    let (_, live) = raw.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!(managers(&live), ["app Apply", "hpa Update scale"]);
    assert_eq!(fields(&live, "hpa"), json!({"f:spec": {"f:replicas": {}}}));
    let (code, status) = apply(&raw, &path, deployment(Some(1), "a:1")).await;
    assert_eq!(code, 409);
    let message = "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas";
    assert_eq!(status["message"], message);
    let (code, live) = apply(&raw, &path, deployment(None, "a:2")).await;
    assert_eq!((code, &live["spec"]["replicas"]), (200, &json!(5)));
}

#[tokio::test]
async fn a_scale_is_applied_to_its_object() {
    let (_, raw) = server();
    let main = format!("{DEPLOYMENTS}/d?fieldManager=app");
    apply(&raw, &main, deployment(Some(1), "a:1")).await;
    let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=x");
    let (code, status) = apply(&raw, &path, scale.clone()).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"app\": .spec.replicas"
    );
    let (code, got) = apply(&raw, &format!("{path}&force=true"), scale.clone()).await;
    assert_eq!(
        (code, &got["kind"], &got["spec"]["replicas"]),
        (200, &json!("Scale"), &json!(3))
    );
    let (_, live) = raw.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!(managers(&live), ["app Apply", "x Apply scale"]);
    assert_eq!(fields(&live, "x"), json!({"f:spec": {"f:replicas": {}}}));
    scale["metadata"]["name"] = "nowhere".into();
    assert_eq!(
        apply(
            &raw,
            &format!("{DEPLOYMENTS}/nowhere/scale?fieldManager=x"),
            scale
        )
        .await
        .0,
        404
    );
}

#[tokio::test]
async fn status_has_managers_of_its_own() {
    let (_, raw) = server();
    apply(
        &raw,
        &format!("{DEPLOYMENTS}/d?fieldManager=app"),
        deployment(Some(1), "a:1"),
    )
    .await;
    let mut status = deployment(Some(9), "a:9");
    status["status"] = json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    let path = format!("{DEPLOYMENTS}/d/status?fieldManager=controller");
    let (code, live) = apply(&raw, &path, status.clone()).await;
    assert_eq!((code, &live["spec"]["replicas"]), (200, &json!(1)));
    assert_eq!(live["status"]["replicas"], 1);
    assert_eq!(managers(&live), ["app Apply", "controller Apply status"]);
    let owned = fields(&live, "controller");
    assert_eq!(
        owned.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["f:status"]
    );
    status["status"] = json!({"conditions": []});
    let (_, live) = apply(&raw, &path, status).await;
    assert_eq!(live["status"].get("replicas"), None);
    let (code, _) = apply(
        &raw,
        &format!("{DEPLOYMENTS}/x/status?fieldManager=controller"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "status": {},
        }),
    )
    .await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn what_is_refused() {
    let (_, raw) = server();
    let path = format!("{MAPS}/c?fieldManager=one");
    let with = |key: &str, value: Value| {
        let mut out = map(json!({}));
        out[key] = value;
        out
    };
    let version = with("apiVersion", "v2".into());
    let table = [
        (
            format!("{MAPS}/c"),
            map(json!({})),
            422,
            "fieldManager: Required value: is required for apply patch",
        ),
        (
            format!("{MAPS}/c?fieldManager={}", "x".repeat(129)),
            map(json!({})),
            422,
            "Too long",
        ),
        (
            path.clone(),
            version,
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            path.clone(),
            with("kind", "Secret".into()),
            400,
            "invalid object kind",
        ),
        (
            path.clone(),
            with("metadata", json!({"name": "c", "managedFields": []})),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            path.clone(),
            with("metadata", json!({"name": "x"})),
            400,
            "does not match the name on the URL",
        ),
        (
            path.clone(),
            with("metadata", json!({})),
            400,
            "name must be provided",
        ),
        (
            path.clone(),
            with("metadata", json!({"name": "c", "namespace": "kube-system"})),
            400,
            "does not match the namespace",
        ),
        (
            path.clone(),
            with("metadata", json!({"name": "c", "uid": "u"})),
            409,
            "uid mismatch",
        ),
        (
            path.clone(),
            with("bogus", json!(1)),
            500,
            "failed to create typed patch object (default/c; /v1, Kind=ConfigMap): .bogus: field not declared in schema",
        ),
        (
            path.clone(),
            with("data", json!({"a": 1})),
            500,
            "failed to create typed patch object (default/c; /v1, Kind=ConfigMap): .data.a: expected string, got \
             &value.valueUnstructured{Value:1}",
        ),
        (path.clone(), json!([]), 400, "must be an object"),
        (
            "/api/v1/namespaces/nowhere/configmaps/c?fieldManager=one".to_owned(),
            map(json!({})),
            404,
            "not found",
        ),
    ];
    for (path, body, code, message) in table {
        let (have, status) = apply(&raw, &path, body.clone()).await;
        let text = status["message"].as_str().unwrap_or_default();
        assert!(
            have == code && text.contains(message),
            "{path} {body}: {have} {text}"
        );
    }
    let twice = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "b"}]}});
    let (code, status) = apply(&raw, "/api/v1/namespaces/default/pods/p?fieldManager=one", twice).await;
    assert_eq!(code, 500);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains(".spec.containers: duplicate entries for key [name=\"a\"]")
    );
    // Force is for applies only.
    let (code, _) = raw.merge(&format!("{MAPS}/c?force=true"), json!({})).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn a_stale_version_is_a_conflict() {
    let (_, raw) = server();
    let path = format!("{MAPS}/c?fieldManager=one");
    let (_, made) = apply(&raw, &path, map(json!({"a": "1"}))).await;
    let version = made["metadata"]["resourceVersion"].clone();
    let mut config = map(json!({"a": "2"}));
    config["metadata"]["resourceVersion"] = version;
    assert_eq!(apply(&raw, &path, config.clone()).await.0, 200);
    let (code, status) = apply(&raw, &path, config).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let (server, raw) = server();
    let before = server.revision();
    let path = format!("{MAPS}/c?fieldManager=one&dryRun=All");
    assert_eq!(apply(&raw, &path, map(json!({"a": "1"}))).await.0, 201);
    assert_eq!(raw.get(&format!("{MAPS}/c")).await.0, 404);
    assert_eq!(server.revision(), before);
}

#[tokio::test]
async fn every_verb_names_its_manager() {
    let (_, raw) = server();
    let (_, made) = raw
        .post(
            &format!("{MAPS}?fieldManager=creator"),
            map(json!({"a": "1", "b": "1", "c": "1"})),
        )
        .await;
    assert_eq!(managers(&made), ["creator Update"]);
    assert_eq!(
        fields(&made, "creator"),
        json!({"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}})
    );
    let mut next = made.clone();
    next["data"]["a"] = "2".into();
    // A client that knows nothing of managed fields deletes none.
    next["metadata"].as_object_mut().unwrap().remove("managedFields");
    raw.put(&format!("{MAPS}/c?fieldManager=putter"), next).await;
    raw.merge(
        &format!("{MAPS}/c?fieldManager=merger"),
        json!({"data": {"b": "2"}}),
    )
    .await;
    let operations = r#"[{"op": "replace", "path": "/data/c", "value": "2"}]"#;
    let path = format!("{MAPS}/c?fieldManager=patcher");
    let (_, live) = raw
        .ask(Method::PATCH, &path, "application/json-patch+json", operations)
        .await;
    for (manager, want) in [
        ("creator", json!({"f:data": {}})),
        ("putter", json!({"f:data": {"f:a": {}}})),
        ("merger", json!({"f:data": {"f:b": {}}})),
        ("patcher", json!({"f:data": {"f:c": {}}})),
    ] {
        assert_eq!(fields(&live, manager), want, "{manager}");
    }
    // Without a parameter, the User-Agent names it.
    let request = http::Request::patch(format!("{MAPS}/c"))
        .header(http::header::CONTENT_TYPE, raw::MERGE)
        .header(http::header::USER_AGENT, "argocd/v2.9 (linux)")
        .body(json!({"data": {"d": "1"}}).to_string().into())
        .unwrap();
    raw.request(request).await;
    let (_, live) = raw.get(&format!("{MAPS}/c")).await;
    assert_eq!(fields(&live, "argocd"), json!({"f:data": {"f:d": {}}}));
}

#[tokio::test]
async fn clients_may_set_and_reset_managed_fields() {
    let (_, raw) = server();
    let object = format!("{MAPS}/c");
    raw.post(
        &format!("{MAPS}?fieldManager=kubectl-client-side-apply"),
        map(json!({"a": "1"})),
    )
    .await;
    // As kubectl does to hand client-side apply's fields to server-side apply.
    let (_, live) = raw.get(&object).await;
    let mut entry = live["metadata"]["managedFields"][0].clone();
    entry["manager"] = "kubectl".into();
    entry["operation"] = "Apply".into();
    let operations = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
    ]);
    let (code, live) = raw
        .ask(
            Method::PATCH,
            &object,
            "application/json-patch+json",
            operations.to_string(),
        )
        .await;
    assert_eq!((code, managers(&live)), (200, vec!["kubectl Apply".to_owned()]));
    // A resourceVersion that is not the stored one is a conflict here too.
    let (code, _) = raw
        .ask(
            Method::PATCH,
            &object,
            "application/json-patch+json",
            operations.to_string(),
        )
        .await;
    assert_eq!(code, 409);
    let garbage = json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Think"}]}});
    let (_, live) = raw.merge(&object, garbage).await;
    assert_eq!(managers(&live), ["kubectl Apply"]);
    let (_, live) = raw
        .merge(&object, json!({"metadata": {"managedFields": [{}]}}))
        .await;
    assert_eq!(live["metadata"].get("managedFields"), None);
    // An object that is not tracked is tracked again from the first apply on.
    let (_, live) = raw.merge(&object, json!({"data": {"b": "1"}})).await;
    assert_eq!(managers(&live), Vec::<String>::new());
    let (_, live) = apply(
        &raw,
        &format!("{object}?fieldManager=one"),
        map(json!({"c": "1"})),
    )
    .await;
    assert_eq!(managers(&live), ["one Apply", "before-first-apply Update"]);
}

#[tokio::test]
async fn what_the_server_fills_in_is_nobodys() {
    let (_, raw) = server();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let (_, made) = raw
        .post("/api/v1/namespaces/default/services?fieldManager=x", service)
        .await;
    assert!(made["spec"]["clusterIP"].is_string());
    let spec = &fields(&made, "x")["f:spec"];
    assert_eq!(spec.get("f:clusterIP"), None);
    assert_eq!(spec["f:selector"], json!({}));
    assert!(
        spec["f:ports"].get(r#"k:{"port":80,"protocol":"TCP"}"#).is_some(),
        "{spec}"
    );
    // The apply of less than everything does not lose what was allocated.
    let config = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
    let path = "/api/v1/namespaces/default/services/s?fieldManager=y&force=true";
    let (code, live) = apply(&raw, path, config).await;
    assert_eq!(
        (code, &live["spec"]["clusterIP"]),
        (200, &made["spec"]["clusterIP"])
    );
    assert_eq!(live["spec"]["ports"][0]["targetPort"], 8080);
}

fn gadgets() -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "mode": {"type": "string", "default": "a"},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port", "protocol"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "order": {"type": "array", "items": {"type": "string"}},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.x.dev"},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
                    "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}}}}}]}})
}

fn gadget(spec: Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec})
}

#[tokio::test]
async fn custom_kinds_merge_by_their_definition() {
    let (_, raw) = server();
    let (code, _) = raw
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            gadgets(),
        )
        .await;
    assert_eq!(code, 201);
    let path = |manager: &str| format!("/apis/x.dev/v1/namespaces/default/gadgets/g?fieldManager={manager}");
    let one = json!({"size": 1, "ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}], "tags": ["a", "b"],
        "order": ["x"], "selector": {"a": "1"}, "labels": {"a": "1"}, "free": {"deep": {"a": 1}}});
    let (code, live) = apply(&raw, &path("one"), gadget(one)).await;
    assert_eq!((code, &live["spec"]["mode"]), (201, &json!("a")));
    let owned = json!({"f:spec": {
        "f:size": {}, "f:order": {}, "f:selector": {},
        "f:ports": {
            r#"k:{"port":53,"protocol":"TCP"}"#: {".": {}, "f:port": {}},
            r#"k:{"port":53,"protocol":"UDP"}"#: {".": {}, "f:port": {}, "f:protocol": {}},
        },
        "f:tags": {"v:\"a\"": {}, "v:\"b\"": {}},
        "f:labels": {"f:a": {}},
        "f:free": {"f:deep": {".": {}, "f:a": {}}},
    }});
    assert_eq!(fields(&live, "one"), owned);
    let two = json!({"ports": [{"port": 80}], "tags": ["b", "c"], "labels": {"b": "2"}, "free": {"deep": {"b": 2}}});
    let (code, live) = apply(&raw, &path("two"), gadget(two)).await;
    assert_eq!(code, 200, "{live}");
    let want = json!({
        "size": 1, "mode": "a",
        "ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}],
        "tags": ["a", "b", "c"], "order": ["x"], "selector": {"a": "1"}, "labels": {"a": "1", "b": "2"},
        "free": {"deep": {"a": 1, "b": 2}},
    });
    assert_eq!(live["spec"], want);
    let (code, status) = apply(
        &raw,
        &path("two"),
        gadget(json!({"selector": {"b": "2"}, "order": ["y"]})),
    )
    .await;
    assert_eq!(code, 409);
    let message = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.order\n- .spec.selector";
    assert_eq!(status["message"], message);
    let (_, live) = apply(
        &raw,
        &path("one"),
        gadget(json!({"size": 1, "ports": [{"port": 53}]})),
    )
    .await;
    let want = json!({
        "size": 1, "mode": "a", "ports": [{"port": 53, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}],
        "tags": ["b", "c"], "labels": {"b": "2"}, "free": {"deep": {"b": 2}},
    });
    assert_eq!(live["spec"], want);
    let (code, status) = apply(&raw, &path("one"), gadget(json!({"bogus": 1}))).await;
    assert_eq!(code, 500);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .ends_with(".spec.bogus: field not declared in schema")
    );
}
