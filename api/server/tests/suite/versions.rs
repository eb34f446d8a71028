//! One stored object in several versions, and what an old object lacks.

use crate::raw::{MERGE, Raw};
use http::Method;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const CORE: &str = "/api/v1/namespaces/default/events";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn server() -> Raw {
    Raw::new(&Server::builder().seed(1).build())
}

#[tokio::test]
async fn an_autoscaler_in_both_versions() {
    let raw = server();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70}});
    let (code, made) = raw.post(V1, object).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 70);
    let (_, read) = raw.get(&format!("{V2}/web")).await;
    assert_eq!(read["apiVersion"], "autoscaling/v2");
    let cpu = json!({"type": "Utilization", "averageUtilization": 70});
    assert_eq!(read["spec"]["metrics"][0]["resource"]["target"], cpu);
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    let (code, _) = raw
        .merge(&format!("{V2}/web"), json!({"spec": {"minReplicas": 2}}))
        .await;
    assert_eq!(code, 200);
    let (_, list) = raw.get(V1).await;
    let spec = &list["items"][0]["spec"];
    assert_eq!(
        (&spec["minReplicas"], &spec["targetCPUUtilizationPercentage"]),
        (&json!(2), &json!(70))
    );
    assert_eq!(spec.get("metrics"), None);

    let response = raw.send(Method::GET, &format!("{V1}?watch=1"), "", "").await;
    let mut watch = response.into_body();
    let event = Raw::line(&mut watch).await.unwrap();
    assert_eq!(event["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!(event["object"]["spec"]["targetCPUUtilizationPercentage"], 70);
    raw.delete(&format!("{V2}/web"), json!({})).await;
    let event = Raw::line(&mut watch).await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["kind"]),
        (&json!("DELETED"), &json!("HorizontalPodAutoscaler"))
    );
    assert_eq!(raw.get(&format!("{V1}/web")).await.0, 404);

    // Who names no metric goes by the use of the CPU.
    let plain = json!({"metadata": {"name": "plain"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5}});
    for path in [V1, V2] {
        assert_eq!(raw.post(path, plain.clone()).await.0, 201);
        let (_, read) = raw.get(&format!("{V2}/plain")).await;
        assert_eq!(
            read["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80,
            "{path}"
        );
        raw.delete(&format!("{V1}/plain"), json!({})).await;
    }
}

#[tokio::test]
async fn nobody_writes_the_status_of_an_autoscaler_by_annotation() {
    const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
    const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
    let raw = server();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 5}});
    let forged = json!([{"type": "AbleToScale", "status": "Forged"}]).to_string();
    // Not when it is made.
    let made = json!({"metadata": {"name": "made", "annotations": {CONDITIONS: forged}},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5}});
    let (code, made) = raw.post(V1, made).await;
    assert_eq!((code, made["metadata"].get("annotations")), (201, None), "{made}");
    let status = |object: &Value| object["status"]["conditions"].clone();
    assert_eq!(status(&raw.get(&format!("{V2}/made")).await.1), Value::Null);
    // Nor later, by any way to change the object.
    let object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5,
        "metrics": [memory], "behavior": behavior}});
    assert_eq!(raw.post(V2, object).await.0, 201);
    let conditions =
        json!([{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let told = json!({"status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": conditions}});
    let (code, answer) = raw.merge(&format!("{V2}/web/status"), told).await;
    assert_eq!(code, 200, "{answer}");
    let (v1, v2) = (format!("{V1}/web"), format!("{V2}/web"));
    let stored = async || raw.get(&v2).await.1;
    let before = stored().await;
    assert_eq!(status(&before), conditions);
    let patch = json!({"metadata": {"annotations": {CONDITIONS: forged}}});
    let (code, answer) = raw.merge(&v1, patch).await;
    assert_eq!(code, 200, "{answer}");
    let (_, mut read) = raw.get(&v1).await;
    read["metadata"]["annotations"][CONDITIONS] = json!(forged);
    read["spec"]["maxReplicas"] = json!(6);
    let (code, answer) = raw.put(&v1, read).await;
    assert_eq!(code, 200, "{answer}");
    let after = stored().await;
    assert_eq!(
        (
            &after["status"],
            &after["spec"]["metrics"],
            &after["spec"]["behavior"]
        ),
        (&before["status"], &json!([memory]), &behavior)
    );
    assert_eq!(after["spec"]["maxReplicas"], 6);
    // Who writes the status does not write the rest.
    let (_, mut read) = raw.get(&v1).await;
    read["metadata"]["annotations"][METRICS] = json!("[]");
    read["status"]["desiredReplicas"] = json!(3);
    assert_eq!(raw.put(&format!("{v1}/status"), read).await.0, 200);
    let after = stored().await;
    assert_eq!(
        (
            &after["status"]["desiredReplicas"],
            &after["spec"]["metrics"],
            &after["spec"]["behavior"]
        ),
        (&json!(3), &json!([memory]), &behavior)
    );
    // One who leaves the annotations out takes the other metrics and the behavior away, as in Kubernetes, and not the status.
    let plain = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 70}});
    assert_eq!(raw.put(&v1, plain).await.0, 200);
    let after = stored().await;
    assert_eq!(status(&after), conditions);
    assert_eq!(after["spec"].get("behavior"), None);
    assert_eq!(after["spec"]["metrics"][0]["resource"]["name"], "cpu");
}

#[tokio::test]
async fn events_are_the_same_in_both_groups() {
    let raw = server();
    let event = json!({"metadata": {"name": "one"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Why", "message": "said", "type": "Normal"});
    assert_eq!(raw.post(CORE, event).await.0, 201);
    let other = json!({"metadata": {"name": "two"}, "regarding": {"kind": "Node", "name": "n"}, "reason": "Why", "note": "noted",
        "type": "Normal", "action": "Do", "reportingController": "me", "reportingInstance": "me-0", "eventTime": "2026-01-01T00:00:00.000000Z"});
    let (code, made) = raw.post(EVENTS, other).await;
    assert_eq!((code, &made["note"]), (201, &json!("noted")), "{made}");
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for path in [CORE, EVENTS] {
        assert_eq!(names(&raw.get(path).await.1), ["one", "two"], "{path}");
    }
    let (_, one) = raw.get(&format!("{EVENTS}/one")).await;
    assert_eq!(
        (&one["note"], &one["regarding"]["name"]),
        (&json!("said"), &json!("p"))
    );
    let (_, two) = raw.get(&format!("{CORE}/two")).await;
    assert_eq!(
        (&two["message"], &two["reportingComponent"]),
        (&json!("noted"), &json!("me"))
    );
    for (path, selector) in [
        (CORE, "involvedObject.kind%3DNode"),
        (EVENTS, "regarding.kind%3DNode,type%3DNormal"),
    ] {
        let (_, list) = raw.get(&format!("{path}?fieldSelector={selector}")).await;
        assert_eq!(names(&list), ["two"], "{path}");
    }
    let patch = json!({"note": "again"});
    assert_eq!(raw.merge(&format!("{EVENTS}/one"), patch).await.0, 200);
    assert_eq!(raw.get(&format!("{CORE}/one")).await.1["message"], "again");
    let missing = raw.get(&format!("{EVENTS}/none")).await.1;
    assert_eq!(missing["message"], "events.events.k8s.io \"none\" not found");
    assert_eq!(raw.delete(EVENTS, json!({})).await.0, 200);
    assert_eq!(names(&raw.get(CORE).await.1), [""; 0]);
}

fn definition(color: &Value) -> Value {
    json!({"metadata": {"name": "things.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": color},
                "x-kubernetes-validations": [{"rule": "self.color == oldSelf.color"}]}}}}}]}})
}

#[tokio::test]
async fn an_object_older_than_a_default_is_read_with_it() {
    let raw = server();
    let things = "/apis/x.dev/v1/namespaces/default/things";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, made) = raw
        .post(definitions, definition(&json!({"type": "string"})))
        .await;
    assert_eq!(code, 201, "{made}");
    let old =
        json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "old"}, "spec": {"size": 1}});
    assert_eq!(raw.post(things, old).await.0, 201);
    let (_, before) = raw.get(&format!("{things}/old")).await;
    assert_eq!(before["spec"].get("color"), None);

    let with_default = definition(&json!({"type": "string", "default": "red"}));
    let (code, _) = raw
        .ask(
            Method::PATCH,
            &format!("{definitions}/things.x.dev"),
            MERGE,
            with_default.to_string(),
        )
        .await;
    assert_eq!(code, 200);
    let (_, after) = raw.get(&format!("{things}/old")).await;
    assert_eq!(after["spec"]["color"], "red");
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    let (_, list) = raw.get(things).await;
    assert_eq!(list["items"][0]["spec"]["color"], "red");
    assert_eq!(list["items"][0]["kind"], "Thing");
    let response = raw.send(Method::GET, &format!("{things}?watch=1"), "", "").await;
    let event = Raw::line(&mut response.into_body()).await.unwrap();
    assert_eq!(event["object"]["spec"]["color"], "red");
    // The rule compares with the default, too.
    let (code, _) = raw
        .merge(&format!("{things}/old"), json!({"spec": {"size": 2}}))
        .await;
    assert_eq!(code, 200);
    let (code, _) = raw
        .merge(&format!("{things}/old"), json!({"spec": {"color": "blue"}}))
        .await;
    assert_eq!(code, 422);
    let (_, stored) = raw.get(&format!("{things}/old")).await;
    assert_eq!(
        (&stored["spec"]["color"], &stored["metadata"]["generation"]),
        (&json!("red"), &json!(2))
    );
}

#[tokio::test]
async fn whoever_uses_a_deprecated_version_is_warned() {
    let raw = server();
    let version = |name: &str, more: Value| {
        let mut version = json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        version
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        version
    };
    let versions = [
        version("v1", json!({})),
        version("v1beta1", json!({"deprecated": true})),
        version(
            "v1alpha1",
            json!({"deprecated": true, "deprecationWarning": "v1alpha1 goes with the year"}),
        ),
    ];
    let definition = json!({"metadata": {"name": "lamps.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
        "versions": versions}});
    let (code, made) = raw
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await;
    assert_eq!(code, 201, "{made}");
    let lamps = |version: &str| format!("/apis/example.com/{version}/namespaces/default/lamps");
    for (path, expected) in [
        (lamps("v1"), None),
        (
            lamps("v1beta1"),
            Some("299 - \"example.com/v1beta1 Lamp is deprecated\""),
        ),
        (lamps("v1alpha1"), Some("299 - \"v1alpha1 goes with the year\"")),
        (
            "/api/v1/namespaces/default/endpoints".to_owned(),
            Some("299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""),
        ),
        ("/api/v1/namespaces/default/configmaps".to_owned(), None),
    ] {
        let response = raw.send(Method::GET, &path, "", "").await;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let warning = response
            .headers()
            .get("warning")
            .map(|value| value.to_str().unwrap());
        assert_eq!(warning, expected, "{path}");
    }
}
