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

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

#[tokio::test]
async fn only_directives_of_wrong_form_are_bad_requests() {
    let raw = server();
    raw.post(DEPLOYMENTS, deployment("web")).await;
    let web = format!("{DEPLOYMENTS}/web");
    let containers = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let order = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    for (patch, want) in [
        (containers(json!([{"image": "x"}])), 500),
        (containers(json!([{"name": "w", "$patch": "turn"}])), 500),
        (json!({"spec": {"$patch": "merge"}}), 500),
        (
            order(json!({"$setElementOrder/containers": [{"name": "v"}], "containers": [{"name": "w"}]})),
            500,
        ),
        (
            order(json!({"$setElementOrder": [{"name": "v"}], "containers": [{"name": "w"}]})),
            400,
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            422,
        ),
        (json!({"spec": {"strategy": {"$retainKeys": "type"}}}), 400),
        (containers(json!([["w"]])), 422),
    ] {
        let (code, status) = raw.ask(Method::PATCH, &web, STRATEGIC, patch.to_string()).await;
        assert_eq!(code, want, "{patch}: {status}");
    }
    for (patch, want) in [("[1]", 400), ("[[]]", 400), (r#"[{"op": 1}]"#, 422)] {
        let (code, status) = raw.ask(Method::PATCH, &web, JSON_PATCH, patch).await;
        assert_eq!(code, want, "{patch}: {status}");
    }
}

#[tokio::test]
async fn a_limited_list_of_a_version_is_of_that_version() {
    let raw = server();
    let (_, one) = raw.post(MAPS, config("one")).await;
    raw.post(MAPS, config("two")).await;
    let version = one["metadata"]["resourceVersion"].as_str().unwrap();
    for (query, count) in [
        ("limit=10", 1),
        ("limit=10&resourceVersionMatch=Exact", 1),
        ("limit=10&resourceVersionMatch=NotOlderThan", 2),
        ("limit=0", 2),
    ] {
        let (code, list) = raw
            .get(&format!("{MAPS}?resourceVersion={version}&{query}"))
            .await;
        assert_eq!(
            (code, list["items"].as_array().unwrap().len()),
            (200, count),
            "{query}"
        );
    }
    let (_, list) = raw.get(&format!("{MAPS}?resourceVersion=0&limit=10")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn fields_are_selected_by_what_they_stand_for() {
    let raw = server();
    let job = json!({"metadata": {"name": "done"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    raw.post(JOBS, job).await;
    let status = json!({"status": {"succeeded": 1}});
    assert_eq!(raw.merge(&format!("{JOBS}/done/status"), status).await.0, 200);
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str, rest: Value| {
        let mut event = json!({"metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
        for (key, value) in rest.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    for (name, rest) in [
        ("old", json!({"source": {"component": "kubelet", "host": "h"}})),
        (
            "new",
            json!({"reportingComponent": "kubelet", "reportingInstance": "h"}),
        ),
        ("other", json!({"source": {"component": "x"}})),
    ] {
        let (code, answer) = raw.post(events, event(name, rest)).await;
        assert_eq!(code, 201, "{answer}");
    }
    for (path, selector, want) in [
        (JOBS, "status.successful=1", vec!["done"]),
        (JOBS, "status.successful=0", vec![]),
        (events, "source=kubelet", vec!["new", "old"]),
        (events, "source=x", vec!["other"]),
    ] {
        let (code, list) = raw.get(&format!("{path}?fieldSelector={selector}")).await;
        assert_eq!(code, 200, "{list}");
        let names = list["items"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|o| o["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, want, "{selector}");
    }
}

#[tokio::test]
async fn metadata_is_written_with_the_status_of_built_in_kinds() {
    let raw = server();
    raw.post(DEPLOYMENTS, deployment("web")).await;
    let web = format!("{DEPLOYMENTS}/web/status");
    let patch = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"l": "1"}}, "spec": {"replicas": 7},
        "status": {"replicas": 3}});
    let (code, after) = raw.merge(&web, patch.clone()).await;
    assert_eq!(code, 200, "{after}");
    let meta = &after["metadata"];
    assert_eq!(
        (&meta["annotations"], meta.get("labels"), &meta["generation"]),
        (&json!({"a": "b"}), None, &json!(1)),
        "a Deployment keeps its labels"
    );
    let mut entries = meta["managedFields"].as_array().unwrap().iter();
    let entry = entries.find(|entry| entry["subresource"] == "status").unwrap();
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}, "f:status": {"f:replicas": {}}})
    );
    assert_eq!(
        (&after["spec"]["replicas"], &after["status"]["replicas"]),
        (&json!(1), &json!(3))
    );
    let bad = json!({"metadata": {"annotations": {"a b": "c"}}});
    assert_eq!(verdict(raw.merge(&web, bad).await), "422 metadata.annotations");

    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    raw.post(pods, pod).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}]);
    let patch = json!({"metadata": {"labels": {"l": "1"}, "ownerReferences": owner}});
    let (code, after) = raw.merge(&format!("{pods}/p/status"), patch).await;
    assert_eq!(
        (
            code,
            &after["metadata"]["labels"],
            after["metadata"].get("ownerReferences")
        ),
        (200, &json!({"l": "1"}), None),
        "a Pod keeps its owners"
    );
}

#[tokio::test]
async fn yaml_and_applied_fields_that_come_twice() {
    let raw = server();
    let yaml = "metadata: {name: one}\ndata:\n  a: '1'\n  a: '2'\n";
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let (code, status) = raw.ask(Method::POST, &strict, "application/yaml", yaml).await;
    assert_eq!(code, 400, "{status}");
    let response = raw.send(Method::POST, MAPS, "application/yaml", yaml).await;
    assert_eq!(response.status().as_u16(), 201);
    assert_eq!(
        response.headers()["warning"],
        "299 - \"duplicate field \\\"data.a\\\"\""
    );
    let (_, made) = raw.get(&format!("{MAPS}/one")).await;
    assert_eq!(made["data"]["a"], "2");

    for body in [
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}, "data": {"a": "1", "a": "2"}}"#,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata:\n  a: '1'\n  a: '2'\n",
    ] {
        let path = format!("{MAPS}/two?fieldManager=m");
        let strict = format!("{path}&fieldValidation=Strict");
        let (code, status) = raw.ask(Method::PATCH, &strict, APPLY, body).await;
        assert_eq!(code, 400, "{status}");
        let ignore = format!("{path}&fieldValidation=Ignore");
        let response = raw.send(Method::PATCH, &ignore, APPLY, body).await;
        assert!(response.status().is_success());
        assert_eq!(response.headers().get("warning"), None);
        let response = raw.send(Method::PATCH, &path, APPLY, body).await;
        assert!(response.status().is_success());
        assert!(response.headers().get("warning").is_some(), "{body}");
        let (_, applied) = raw.get(&format!("{MAPS}/two")).await;
        assert_eq!(applied["data"]["a"], "2");
    }
}

const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test]
async fn dependents_that_are_not_orphaned_go() {
    let raw = server();
    let job = json!({"metadata": {"name": "owner"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    for (query, options) in [
        ("?orphanDependents=false", json!({})),
        ("", json!({"orphanDependents": false})),
    ] {
        let (_, owner) = raw.post(JOBS, job.clone()).await;
        let mut child = config("child");
        child["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": owner["metadata"]["uid"]}]);
        raw.post(MAPS, child).await;
        assert_eq!(
            raw.delete(&format!("{JOBS}/owner{query}"), options.clone())
                .await
                .0,
            200
        );
        assert_eq!(raw.get(&format!("{MAPS}/child")).await.0, 404, "{options}");
    }
    let mut held = config("held");
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    raw.post(MAPS, held).await;
    let held = format!("{MAPS}/held");
    assert_eq!(raw.delete(&held, json!({"orphanDependents": false})).await.0, 202);
    assert_eq!(raw.delete(&held, json!({"orphanDependents": true})).await.0, 200);
    assert_eq!(raw.delete(&held, json!({})).await.0, 200);
}

#[tokio::test]
async fn what_updates_take_from_metadata() {
    let raw = server();
    let (_, made) = raw
        .post(MAPS, json!({"metadata": {"generateName": "one-"}}))
        .await;
    let one = format!("{MAPS}/{}", made["metadata"]["name"].as_str().unwrap());
    let (code, after) = raw.merge(&one, json!({"metadata": {"generateName": null}})).await;
    assert_eq!((code, after["metadata"].get("generateName")), (200, None));
    let grace = json!({"metadata": {"deletionGracePeriodSeconds": 5}});
    assert_eq!(
        verdict(raw.merge(&one, grace).await),
        "422 metadata.deletionGracePeriodSeconds"
    );

    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "u-1"});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": "u-1"});
    let mut twice = config("twice");
    twice["metadata"]["ownerReferences"] = json!([reference, other, reference]);
    let dry = format!("{MAPS}?dryRun=All&fieldValidation=Ignore");
    let response = raw
        .send(Method::POST, &dry, "application/json", twice.to_string())
        .await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert!(
        warning.ends_with("please fix your requests; duplicate UID(s) observed: u-1\""),
        "{warning}"
    );
    let (code, made) = raw.post(MAPS, twice).await;
    assert_eq!(
        (code, &made["metadata"]["ownerReferences"]),
        (201, &json!([reference, other]))
    );
}

#[tokio::test]
async fn kinds_of_storage_are_shown_as_they_go() {
    let raw = server();
    let storage = "/apis/storage.k8s.io/v1";
    for (path, object) in [
        ("storageclasses", json!({"provisioner": "x.dev/p"})),
        ("csidrivers", json!({"spec": {}})),
        ("csinodes", json!({"spec": {"drivers": []}})),
        (
            "volumeattachments",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "one"});
        let (code, made) = raw.post(&format!("{storage}/{path}"), object).await;
        assert_eq!(code, 201, "{made}");
        let (code, gone) = raw.delete(&format!("{storage}/{path}/one"), json!({})).await;
        assert_eq!((code, &gone["kind"]), (200, &made["kind"]), "{path}");
    }
}

#[tokio::test]
async fn line_breaks_in_base64_are_nothing() {
    let raw = server();
    let secrets = "/api/v1/namespaces/default/secrets";
    for (path, field) in [(secrets, "data"), (MAPS, "binaryData")] {
        let mut object = json!({"metadata": {"name": "wrapped"}});
        object[field] = json!({"a": "aGVs\nbG8g\r\nd29ybGQ=\n"});
        let (code, made) = raw.post(path, object.clone()).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made[field]["a"], "aGVsbG8gd29ybGQ=");
        object["metadata"]["name"] = json!("wrong");
        object[field]["a"] = json!("aGVs bG8=");
        assert_eq!(raw.post(path, object).await.0, 400);
    }
}

#[tokio::test]
async fn questions_have_no_metadata() {
    let raw = server();
    let group = "/apis/authorization.k8s.io/v1";
    let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let mut of_somebody = spec.clone();
    of_somebody["user"] = json!("jane");
    for (path, spec, meta, want) in [
        (
            "selfsubjectaccessreviews",
            &spec,
            json!({"name": "x"}),
            "422 metadata",
        ),
        (
            "subjectaccessreviews",
            &of_somebody,
            json!({"labels": {"a": "b"}}),
            "422 metadata",
        ),
        (
            "subjectaccessreviews",
            &of_somebody,
            json!({"creationTimestamp": null}),
            "201",
        ),
        ("selfsubjectaccessreviews", &spec, json!({}), "201"),
    ] {
        let review = json!({"metadata": meta, "spec": spec});
        assert_eq!(
            verdict(raw.post(&format!("{group}/{path}"), review).await),
            want,
            "{path} {meta}"
        );
    }
    let mut local = of_somebody;
    local["resourceAttributes"]["namespace"] = json!("default");
    let path = format!("{group}/namespaces/default/localsubjectaccessreviews");
    for (meta, want) in [
        (json!({"namespace": "default"}), "201"),
        (json!({"namespace": "default", "name": "x"}), "422 metadata"),
    ] {
        let review = json!({"metadata": meta, "spec": local});
        assert_eq!(verdict(raw.post(&path, review).await), want, "{meta}");
    }
}

#[tokio::test]
async fn metadata_alone_is_of_an_object_or_of_a_list() {
    let raw = server();
    raw.post(MAPS, config("one")).await;
    let one = format!("{MAPS}/one");
    let accept = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    let (of_one, of_list) = (
        accept("PartialObjectMetadata"),
        accept("PartialObjectMetadataList"),
    );
    for (path, accept, want) in [
        (&one[..], &of_one, 200),
        (&one[..], &of_list, 406),
        (MAPS, &of_list, 200),
        (MAPS, &of_one, 406),
        (MAPS, &format!("{of_one},application/json"), 406),
        (&one[..], &format!("{of_list},application/json"), 406),
    ] {
        let (code, answer) = raw.get_with(path, &[("accept", accept)]).await;
        assert_eq!(code, want, "{path} {accept}: {answer}");
    }
}
