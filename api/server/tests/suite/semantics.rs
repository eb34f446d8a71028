//! What Kubernetes answers where the obvious answer would be another.

use crate::raw::{MERGE, Raw};
use http::Method;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn server() -> Raw {
    Raw::new(&Server::builder().seed(1).build())
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": "w"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["z", "w"]}]},
        "template": {"metadata": {"labels": {"app": "w", "a": "w"}}, "spec": {"containers": [{"name": "w", "image": "w"}]}}}})
}

/// Code and fields of the causes of an answer.
fn verdict((code, status): (u16, Value)) -> String {
    let causes = status["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let fields: Vec<&str> = causes.iter().map(|c| c["field"].as_str().unwrap()).collect();
    format!("{code} {}", fields.join(" ")).trim().to_owned()
}

#[tokio::test]
async fn names_and_versions_in_bodies() {
    let raw = server();
    raw.post(MAPS, config("one")).await;
    let one = format!("{MAPS}/one");
    // The body of a PUT must name the object.
    assert_eq!(raw.put(&one, json!({"data": {}})).await.0, 400);
    assert_eq!(raw.put(&one, json!({"metadata": {"name": "one"}})).await.0, 200);
    // A lease may not be overwritten blindly, and zero is no version.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    raw.post(leases, json!({"metadata": {"name": "l"}})).await;
    let zero = json!({"metadata": {"name": "l", "resourceVersion": "0"}});
    assert_eq!(
        verdict(raw.put(&format!("{leases}/l"), zero).await),
        "422 metadata.resourceVersion"
    );
}

#[tokio::test]
async fn metadata_of_updates() {
    let raw = server();
    let (_, made) = raw.post(MAPS, config("one")).await;
    let one = format!("{MAPS}/one");
    let table = [
        (json!({"creationTimestamp": "2001-01-01T00:00:00Z"}), "200"),
        (
            json!({"deletionTimestamp": "2001-01-01T00:00:00Z"}),
            "422 metadata.deletionTimestamp",
        ),
        (json!({"uid": "other"}), "422 metadata.uid"),
        (json!({"finalizers": ["hold"]}), "422 metadata.finalizers[0]"),
        (json!({"finalizers": ["/hold"]}), "422 metadata.finalizers"),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            "422 metadata.finalizers",
        ),
        (json!({"resourceVersion": "1"}), "409"),
    ];
    for (patch, want) in table {
        let answer = raw.merge(&one, json!({"metadata": patch})).await;
        assert_eq!(verdict(answer), want, "{patch}");
    }
    let (_, kept) = raw.get(&one).await;
    assert_eq!(kept, made);
    let generated = json!({"metadata": {"generateName": "Bad_"}});
    assert_eq!(
        verdict(raw.post(MAPS, generated).await),
        "422 metadata.generateName metadata.name"
    );
    let dash = json!({"metadata": {"generateName": "fine-"}});
    assert_eq!(raw.post(MAPS, dash).await.0, 201);
}

#[tokio::test]
async fn patches_that_do_not_fit() {
    let raw = server();
    raw.post(DEPLOYMENTS, deployment("web")).await;
    let web = format!("{DEPLOYMENTS}/web");
    let strategic = "application/strategic-merge-patch+json";
    for (media, patch) in [
        (MERGE, r#"{"spec":{"replicas":"x"}}"#),
        (strategic, r#"{"spec":{"replicas":"x"}}"#),
        (
            "application/json-patch+json",
            r#"[{"op":"replace","path":"/spec/replicas","value":"x"}]"#,
        ),
    ] {
        let (code, status) = raw.ask(Method::PATCH, &web, media, patch).await;
        assert_eq!(status["details"]["kind"], Value::Null, "{media}");
        assert_eq!(verdict((code, status)), "422 patch", "{media}");
    }
    let strict = format!("{web}?fieldValidation=Strict");
    assert_eq!(
        verdict(raw.merge(&strict, json!({"spec": {"bogus": 1}})).await),
        "422 patch"
    );
    let test = r#"[{"op":"test","path":"/spec/replicas","value":7}]"#;
    let (code, status) = raw
        .ask(Method::PATCH, &web, "application/json-patch+json", test)
        .await;
    // Without details kubectl shows the message.
    assert_eq!((code, &status["details"]), (422, &Value::Null));
    assert!(
        status["message"].as_str().unwrap().contains("did not match"),
        "{status}"
    );
}

#[tokio::test]
async fn scale() {
    let raw = server();
    raw.post(DEPLOYMENTS, deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (_, mut scale) = raw.get(&path).await;
    assert_eq!(scale["status"]["selector"], "a in (w,z),app=w");
    scale["spec"] = json!({});
    let (code, scaled) = raw.put(&path, scale.clone()).await;
    assert_eq!(
        (code, &scaled["spec"]),
        (200, &json!({})),
        "an omitted count is zero"
    );
    let stale = raw.put(&path, scale.clone()).await;
    assert_eq!(stale.0, 409);
    let table = [
        (json!({"kind": "Deployment"}), "400"),
        (json!({"spec": {"replicas": "x"}}), "400"),
        (json!({"spec": {"replicas": -1}}), "422 spec.replicas"),
        (json!({"metadata": {"name": "other"}}), "400"),
        (json!({"metadata": {}}), "400"),
    ];
    for (change, want) in table {
        let mut body = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
        }
        assert_eq!(verdict(raw.put(&path, body).await), want, "{change}");
    }
}

#[tokio::test]
async fn options_of_deletes() {
    let raw = server();
    raw.post(MAPS, config("one")).await;
    let one = format!("{MAPS}/one");
    for (options, want) in [
        (json!({"propagationPolicy": "Up"}), "422 propagationPolicy"),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": false}),
            "422 propagationPolicy",
        ),
        (json!({"dryRun": ["Some"]}), "422 dryRun"),
    ] {
        assert_eq!(
            verdict(raw.delete(&one, options.clone()).await),
            want,
            "{options}"
        );
    }
    assert_eq!(raw.get(&one).await.0, 200, "nothing was deleted");
}

#[tokio::test]
async fn jobs_orphan_by_default() {
    let raw = server();
    let job = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    for (options, stays) in [
        (json!({}), true),
        (json!({"propagationPolicy": "Background"}), false),
    ] {
        let (_, owner) = raw.post(JOBS, job("owner")).await;
        let mut child = config("child");
        child["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": owner["metadata"]["uid"]}]);
        raw.post(MAPS, child).await;
        assert_eq!(raw.delete(&format!("{JOBS}/owner"), options.clone()).await.0, 200);
        assert_eq!(raw.get(&format!("{JOBS}/owner")).await.0, 404, "{options}");
        let (code, _) = raw.get(&format!("{MAPS}/child")).await;
        assert_eq!(code == 200, stays, "{options}");
        raw.delete(&format!("{MAPS}/child"), json!({})).await;
    }
}

#[tokio::test]
async fn a_named_get_is_no_watch() {
    let raw = server();
    raw.post(MAPS, config("one")).await;
    let (code, one) = raw.get(&format!("{MAPS}/one?watch=true")).await;
    assert_eq!((code, &one["kind"]), (200, &json!("ConfigMap")));
}

#[tokio::test]
async fn versions_to_come() {
    let raw = server();
    raw.post(MAPS, config("one")).await;
    for path in [MAPS.to_owned(), format!("{MAPS}/one")] {
        let (code, status) = raw.get(&format!("{path}?resourceVersion=99999")).await;
        assert_eq!(
            (code, &status["details"]["causes"][0]["reason"]),
            (504, &json!("ResourceVersionTooLarge")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn pods_hardly_change() {
    let raw = server();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    raw.post(pods, pod).await;
    let path = format!("{pods}/p");
    for (patch, want) in [
        (
            json!({"containers": [{"name": "d", "image": "i"}]}),
            "422 spec.containers",
        ),
        (json!({"restartPolicy": "Never"}), "422 spec"),
        (json!({"containers": [{"name": "c", "image": "j"}]}), "200"),
        (json!({"nodeName": "n"}), "200"),
        (json!({"nodeName": "m"}), "422 spec"),
    ] {
        let body = json!({"spec": patch}).to_string();
        let answer = raw
            .ask(
                Method::PATCH,
                &path,
                "application/strategic-merge-patch+json",
                body,
            )
            .await;
        assert_eq!(verdict(answer), want, "{patch}");
    }
}

#[tokio::test]
async fn patches_do_not_grow_objects_without_bound() {
    let raw = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    raw.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let widgets = "/apis/x.dev/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "one"}, "data": {}});
    assert_eq!(raw.post(widgets, widget).await.0, 201);
    let one = format!("{widgets}/one");
    let piece = "v".repeat(2 << 20);
    assert_eq!(raw.merge(&one, json!({"data": {"b": piece}})).await.0, 200);
    assert_eq!(raw.merge(&one, json!({"data": {"c": piece}})).await.0, 413);
    let copy = r#"[{"op":"copy","from":"/data/b","path":"/data/d"}]"#;
    let (code, _) = raw
        .ask(Method::PATCH, &one, "application/json-patch+json", copy)
        .await;
    assert_eq!(code, 413);
}
