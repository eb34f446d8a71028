//! The subresources that only Pods have.

use crate::raw::Raw;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn server_with(pods: &[&str]) -> Raw {
    let raw = Raw::new(&Server::builder().seed(1).build());
    for name in pods {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(raw.post(PODS, pod).await.0, 201);
        let running = json!({"status": {"phase": "Running"}});
        assert_eq!(raw.merge(&format!("{PODS}/{name}/status"), running).await.0, 200);
    }
    raw
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

#[tokio::test]
async fn an_eviction_keeps_to_the_budget() {
    let raw = server_with(&["a", "b", "c"]).await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    assert_eq!(raw.post(BUDGETS, budget).await.0, 201);
    let evict = async |name: &str| raw.post(&format!("{PODS}/{name}/eviction"), eviction(name)).await;
    let (code, refused) = evict("a").await;
    assert_eq!(
        (code, refused["details"]["causes"][0]["message"].as_str().unwrap()),
        (
            429,
            "The disruption budget web is still being processed by the server."
        )
    );
    let allow = async |allowed: i64| {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 3}});
        assert_eq!(raw.merge(&format!("{BUDGETS}/web/status"), status).await.0, 200);
    };
    allow(1).await;
    let (code, done) = evict("a").await;
    assert_eq!((code, &done["status"]), (201, &json!("Success")), "{done}");
    assert_eq!(raw.get(&format!("{PODS}/a")).await.0, 404);
    let (_, budget) = raw.get(&format!("{BUDGETS}/web")).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string(), "{budget}");
    let (code, refused) = evict("b").await;
    assert_eq!(
        (
            code,
            &refused["reason"],
            refused["details"]["causes"][0]["message"].as_str().unwrap()
        ),
        (
            429,
            &json!("TooManyRequests"),
            "The disruption budget web needs 2 healthy pods and has 3 currently"
        )
    );
    // A pod that serves nobody needs no leave.
    raw.merge(
        &format!("{PODS}/b/status"),
        json!({"status": {"phase": "Failed"}}),
    )
    .await;
    assert_eq!(evict("b").await.0, 201);
    // Two budgets are one too many.
    allow(1).await;
    raw.post(
        BUDGETS,
        json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 0, "selector": {}}}),
    )
    .await;
    assert_eq!(evict("c").await.0, 500);
    assert_eq!(evict("none").await.0, 404);
    let (code, _) = raw.post(&format!("{PODS}/c/eviction"), eviction("other")).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn an_eviction_can_be_tried_and_conditional() {
    let raw = server_with(&["a"]).await;
    let path = format!("{PODS}/a/eviction");
    assert_eq!(
        raw.post(&format!("{path}?dryRun=All"), eviction("a")).await.0,
        201
    );
    let mut other = eviction("a");
    other["deleteOptions"] = json!({"preconditions": {"uid": "other"}});
    assert_eq!(raw.post(&path, other).await.0, 409);
    assert_eq!(raw.get(&format!("{PODS}/a")).await.0, 200);
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let raw = server_with(&["a"]).await;
    let path = format!("{PODS}/a/binding");
    let to = |node: &str| json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
    assert_eq!(raw.post(&path, to("")).await.0, 422);
    assert_eq!(raw.post(&path, to("n1")).await.0, 201);
    let (_, pod) = raw.get(&format!("{PODS}/a")).await;
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(raw.post(&path, to("n2")).await.0, 409);
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_nothing_else() {
    let raw = server_with(&["a"]).await;
    let path = format!("{PODS}/a/ephemeralcontainers");
    let debugger = json!({"name": "dbg", "image": "busybox"});
    let patch = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"nodeName": "n", "ephemeralContainers": [debugger]}});
    let (code, pod) = raw.merge(&path, patch).await;
    assert_eq!(code, 200, "{pod}");
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["name"], "dbg");
    assert_eq!(
        (pod["spec"].get("nodeName"), pod["metadata"]["labels"].get("x")),
        (None, None)
    );
    for bad in [json!([]), json!([{"name": "dbg", "image": "other"}])] {
        let (code, refused) = raw
            .merge(&path, json!({"spec": {"ephemeralContainers": bad}}))
            .await;
        assert_eq!(code, 422);
        assert_eq!(
            refused["details"]["causes"][0]["field"],
            "spec.ephemeralContainers"
        );
    }
    let (code, _) = raw
        .merge(
            &format!("{PODS}/a"),
            json!({"spec": {"ephemeralContainers": null}}),
        )
        .await;
    assert_eq!(code, 422, "only through the subresource");
}

#[tokio::test]
async fn a_resize_changes_resources_only() {
    let raw = server_with(&["a"]).await;
    let containers = json!([{"name": "c", "image": "other", "resources": {"requests": {"cpu": "1"}}}]);
    let (code, pod) = raw
        .merge(
            &format!("{PODS}/a/resize"),
            json!({"spec": {"containers": containers}}),
        )
        .await;
    assert_eq!(code, 200, "{pod}");
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["resources"]["requests"]["cpu"]),
        (&json!("i"), &json!("1"))
    );
    assert_eq!(pod["metadata"]["generation"], 2);
}
