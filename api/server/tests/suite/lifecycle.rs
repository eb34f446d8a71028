//! What follows from deletions: finalizers, owners, namespaces, definitions.

use crate::raw::Raw;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

fn server() -> Raw {
    Raw::new(&Server::builder().seed(1).build())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn map(raw: &Raw, name: &str, meta: Value) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .extend(meta.as_object().unwrap().clone());
    let (code, made) = raw.post(MAPS, object).await;
    assert_eq!(code, 201, "{made}");
    made
}

fn owned_by(owner: &Value, blocks: bool) -> Value {
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}]})
}

async fn exists(raw: &Raw, name: &str) -> bool {
    raw.get(&format!("{MAPS}/{name}")).await.0 == 200
}

#[tokio::test]
async fn a_long_chain_of_owners_goes_with_its_root() {
    let raw = server();
    let mut last = map(&raw, "link-0", json!({})).await;
    for i in 1..3_000 {
        last = map(&raw, &format!("link-{i}"), owned_by(&last, false)).await;
    }
    raw.delete(&format!("{MAPS}/link-0"), json!({})).await;
    assert_eq!(raw.get(MAPS).await.1["items"], json!([]));
}

#[tokio::test]
async fn events_go_an_hour_after_they_were_written_last() {
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };
    let second = Arc::new(AtomicI64::new(1_767_225_600));
    let clock = second.clone();
    let clock = move || jiff::Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
    let raw = Raw::new(&Server::builder().seed(1).clock(Arc::new(clock)).build());
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R", "type": "Normal"});
    for name in ["old", "repeated"] {
        let (code, made) = raw.post(events, event(name)).await;
        assert_eq!(code, 201, "{made}");
    }
    second.fetch_add(3_000, Ordering::Relaxed);
    raw.merge(
        &format!("{events}/repeated"),
        json!({"count": 2, "lastTimestamp": "2026-01-01T00:50:00Z"}),
    )
    .await;
    second.fetch_add(601, Ordering::Relaxed);
    raw.post(events, event("new")).await;
    let left = raw.get(events).await.1;
    let left: Vec<_> = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["metadata"]["name"].clone())
        .collect();
    assert_eq!(left, ["new", "repeated"]);
}

#[tokio::test]
async fn foreground_waits_for_dependents_that_block() {
    let raw = server();
    let owner = map(&raw, "owner", json!({})).await;
    let mut meta = owned_by(&owner, true);
    meta["finalizers"] = json!(["x.dev/hold"]);
    map(&raw, "child", meta).await;
    map(&raw, "free", owned_by(&owner, false)).await;
    let (code, held) = raw
        .delete(
            &format!("{MAPS}/owner"),
            json!({"propagationPolicy": "Foreground"}),
        )
        .await;
    assert_eq!(
        (code, &held["metadata"]["finalizers"]),
        (200, &json!(["foregroundDeletion"]))
    );
    assert!(exists(&raw, "owner").await && exists(&raw, "child").await && !exists(&raw, "free").await);
    raw.merge(
        &format!("{MAPS}/child"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert!(!exists(&raw, "owner").await && !exists(&raw, "child").await);
}

#[tokio::test]
async fn a_dependent_stays_while_another_owner_lives() {
    let raw = server();
    let (a, b) = (map(&raw, "a", json!({})).await, map(&raw, "b", json!({})).await);
    let refs: Vec<Value> = [&a, &b]
        .map(|o| owned_by(o, false)["ownerReferences"][0].clone())
        .to_vec();
    map(&raw, "child", json!({"ownerReferences": refs})).await;
    raw.delete(&format!("{MAPS}/a"), json!({})).await;
    let (_, child) = raw.get(&format!("{MAPS}/child")).await;
    assert_eq!(child["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    raw.delete(&format!("{MAPS}/b"), json!({})).await;
    assert!(!exists(&raw, "child").await);
}

#[tokio::test]
async fn an_owner_with_another_uid_does_not_count_but_one_of_unknown_kind_does() {
    let raw = server();
    let mut owner = map(&raw, "owner", json!({})).await;
    owner["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    map(&raw, "child", owned_by(&owner, false)).await;
    assert!(!exists(&raw, "child").await);
    let unknown =
        json!({"ownerReferences": [{"apiVersion": "x.dev/v1", "kind": "Nothing", "name": "a", "uid": "b"}]});
    map(&raw, "child", unknown).await;
    assert!(exists(&raw, "child").await);
}

#[tokio::test]
async fn a_namespace_goes_last() {
    let raw = server();
    raw.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}}))
        .await;
    let maps = "/api/v1/namespaces/n/configmaps";
    raw.post(
        maps,
        json!({"metadata": {"name": "held", "finalizers": ["x.dev/hold"]}}),
    )
    .await;
    raw.post(maps, json!({"metadata": {"name": "free"}})).await;
    let (_, space) = raw.delete("/api/v1/namespaces/n", json!({})).await;
    assert_eq!(space["status"]["phase"], "Terminating");
    assert_eq!(raw.get(&format!("{maps}/free")).await.0, 404);
    assert_eq!(raw.delete("/api/v1/namespaces/default", json!({})).await.0, 403);
    let (code, refused) = raw.post(maps, json!({"metadata": {"name": "late"}})).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(
        refused["details"],
        json!({"kind": "configmaps", "name": "late", "causes": [{"reason": "NamespaceTerminating",
            "message": "namespace n is being terminated", "field": "metadata.namespace"}]})
    );
    // What is there already can still be changed, so that it can finish.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(raw.merge(&format!("{maps}/held"), label).await.0, 200);
    assert_eq!(raw.get("/api/v1/namespaces/n").await.0, 200);
    raw.merge(&format!("{maps}/held"), json!({"metadata": {"finalizers": []}}))
        .await;
    assert_eq!(raw.get("/api/v1/namespaces/n").await.0, 404);
    assert_eq!(raw.post(maps, json!({"metadata": {"name": "late"}})).await.0, 404);
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.x.dev"},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test]
async fn a_definition_waits_for_objects_that_are_held() {
    let raw = server();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(raw.post(crds, definition()).await.0, 201);
    let widgets = "/apis/x.dev/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w", "finalizers": ["x.dev/hold"]}, "spec": 1});
    assert_eq!(raw.post(widgets, widget).await.0, 201);
    let (_, other) = raw.get("/apis/x.dev/v1beta1/namespaces/default/widgets/w").await;
    assert_eq!(
        (&other["apiVersion"], &other["spec"]),
        (&json!("x.dev/v1beta1"), &json!(1))
    );
    raw.delete(&format!("{crds}/widgets.x.dev"), json!({})).await;
    assert_eq!(raw.get(&format!("{crds}/widgets.x.dev")).await.0, 200);
    let late = json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "late"}});
    let (code, refused) = raw.post(widgets, late).await;
    assert_eq!(
        (code, &refused["message"], &refused["details"]),
        (
            405,
            &json!("create not allowed while custom resource definition is terminating"),
            &json!({"group": "x.dev", "kind": "widgets"})
        )
    );
    raw.merge(&format!("{widgets}/w"), json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(raw.get(&format!("{crds}/widgets.x.dev")).await.0, 404);
    assert_eq!(raw.get(widgets).await.0, 404);
}

#[tokio::test]
async fn what_changes_nothing_is_not_stored() {
    let server = Server::builder().count_per_object(true).build();
    let raw = Raw::new(&server);
    let made = map(&raw, "a", json!({"labels": {"x": "y"}})).await;
    let before = (server.counter().total_stored(), server.revision());
    let path = format!("{MAPS}/a");
    for _ in 0..100 {
        raw.merge(&path, json!({"metadata": {"labels": {"x": "y"}}}))
            .await;
        raw.put(&path, json!({"metadata": {"name": "a", "labels": {"x": "y"}}}))
            .await;
    }
    assert_eq!((server.counter().total_stored(), server.revision()), before);
    assert_eq!(raw.get(&path).await.1, made);
    assert_eq!(server.counter().stored_of("configmaps", "default", "a"), 1);
    assert_eq!(
        server.counter().requests()[&("patch", "configmaps".to_owned())],
        100
    );
    assert_eq!(server.counter().write_requests(), 201);
    raw.merge(&path, json!({"data": {"a": "b"}})).await;
    assert_eq!(server.counter().stored_of("configmaps", "default", "a"), 2);
}
