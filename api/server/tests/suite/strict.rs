//! What a Kubernetes API server refuses, and what its strict mode refuses beside that: mistakes of a client.

use crate::raw::{self, Raw};
use http::Method;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const APPS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const OLD_EVENTS: &str = "/api/v1/namespaces/default/events";
const CLUSTERS: &str = "/apis/roundhouse.dev/v1alpha1/clusters";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

async fn with_definitions(server: &Server) -> Raw {
    let admin = Raw::new(server);
    for definition in roundhouse_api::crds::all() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = admin.post(path, serde_json::to_value(definition).unwrap()).await;
        assert_eq!(code, 201, "{answer}");
    }
    admin
}

fn map(metadata: Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    map["metadata"] = metadata;
    map
}

fn event(changes: &Value) -> Value {
    let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "roundhouse.dev/hub", "reportingInstance": "h", "action": "Act", "reason": "Why",
        "type": "Normal", "note": "n"});
    event
        .as_object_mut()
        .unwrap()
        .extend(changes.as_object().unwrap().clone());
    event
}

#[tokio::test]
async fn what_kubernetes_refuses_is_refused() {
    let server = Server::builder().seed(1).build();
    let admin = with_definitions(&server).await;
    let (_, there) = admin.post(MAPS, map(json!({"name": "there"}))).await;
    let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "there"}, "spec": {}});
    let (code, answer) = admin.post(CLUSTERS, cluster.clone()).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(
        admin
            .post(EVENTS, event(&json!({"metadata": {"name": "fine"}})))
            .await
            .0,
        201
    );
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    assert_eq!(
        admin
            .post(LEASES, lease(json!({"leaseDurationSeconds": 1})))
            .await
            .0,
        201
    );
    let one = |name: &str| format!("{MAPS}/{name}");
    let owner = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller});
    let old_event = |changes: Value| {
        let mut event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
        for (key, value) in changes.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    let (post, put, patch, delete) = (Method::POST, Method::PUT, Method::PATCH, Method::DELETE);
    let mut wrong = vec![];
    for (what, method, path, media, body, want) in [
        (
            "a lease of no seconds",
            &post,
            LEASES.to_owned(),
            JSON,
            lease(json!({"leaseDurationSeconds": 0})),
            422,
        ),
        (
            "less than no transitions",
            &post,
            LEASES.to_owned(),
            JSON,
            lease(json!({"leaseTransitions": -1})),
            422,
        ),
        (
            "a lease without version",
            &put,
            format!("{LEASES}/l"),
            JSON,
            lease(json!({})),
            422,
        ),
        (
            "a long note",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"note": "n".repeat(1025)})),
            422,
        ),
        (
            "an event at no time",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"eventTime": null})),
            422,
        ),
        (
            "an odd type",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"type": "Odd"})),
            422,
        ),
        (
            "no reason",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"reason": ""})),
            422,
        ),
        (
            "no action",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"action": null})),
            422,
        ),
        (
            "a long reason",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"reason": "r".repeat(129)})),
            422,
        ),
        (
            "no controller",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"reportingController": null})),
            422,
        ),
        (
            "an odd controller",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"reportingController": "a b"})),
            422,
        ),
        (
            "no instance",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"reportingInstance": null})),
            422,
        ),
        (
            "a series of one",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}})),
            422,
        ),
        (
            "a count that is not of this version",
            &post,
            EVENTS.to_owned(),
            JSON,
            event(&json!({"deprecatedCount": 1})),
            422,
        ),
        (
            "about another namespace, in v1",
            &post,
            OLD_EVENTS.to_owned(),
            JSON,
            old_event(json!({"involvedObject": {"kind": "Pod", "namespace": "kube-system", "name": "p"}})),
            422,
        ),
        (
            "about no namespace",
            &post,
            OLD_EVENTS.replace("default", "kube-public"),
            JSON,
            old_event(json!({"involvedObject": {"kind": "Node", "name": "p"}})),
            422,
        ),
        (
            "an owner without uid",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "ownerReferences": [owner("", false)]})),
            422,
        ),
        (
            "two controllers",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "ownerReferences": [owner("1", true), owner("2", true)]})),
            422,
        ),
        (
            "a bare finalizer",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "finalizers": ["x"]})),
            422,
        ),
        (
            "a finalizer that is no name",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "finalizers": ["a b/c"]})),
            422,
        ),
        (
            "a label that is none",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "labels": {"a": "-b"}})),
            422,
        ),
        (
            "an annotation's key",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "annotations": {"a b": "c"}})),
            422,
        ),
        (
            "large annotations",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "annotations": {"a": "c".repeat(256 << 10)}})),
            422,
        ),
        ("no name", &post, MAPS.to_owned(), JSON, map(json!({})), 422),
        (
            "a generated name",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"generateName": "A_"})),
            422,
        ),
        (
            "a version on create",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "resourceVersion": "1"})),
            500,
        ),
        (
            "another namespace",
            &post,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a", "namespace": "kube-system"})),
            400,
        ),
        (
            "another kind",
            &post,
            MAPS.to_owned(),
            JSON,
            json!({"kind": "Secret", "metadata": {"name": "a"}}),
            400,
        ),
        (
            "no such namespace",
            &post,
            "/api/v1/namespaces/absent/configmaps".to_owned(),
            JSON,
            map(json!({"name": "a"})),
            404,
        ),
        (
            "text",
            &post,
            MAPS.to_owned(),
            "text/plain",
            map(json!({"name": "a"})),
            415,
        ),
        (
            "a merge patch that is put",
            &put,
            one("there"),
            raw::MERGE,
            there.clone(),
            415,
        ),
        ("a patch of no type", &patch, one("there"), "", json!({}), 415),
        ("a patch as JSON", &patch, one("there"), JSON, json!({}), 415),
        (
            "another uid",
            &put,
            one("there"),
            JSON,
            map(json!({"name": "there", "uid": "1"})),
            409,
        ),
        (
            "another uid in a patch",
            &patch,
            one("there"),
            raw::MERGE,
            json!({"metadata": {"uid": "1"}}),
            422,
        ),
        (
            "another version",
            &put,
            one("there"),
            JSON,
            map(json!({"name": "there", "resourceVersion": "1"})),
            409,
        ),
        (
            "another name",
            &put,
            one("there"),
            JSON,
            map(json!({"name": "b"})),
            400,
        ),
        (
            "another name in a patch",
            &patch,
            one("there"),
            raw::MERGE,
            json!({"metadata": {"name": "b"}}),
            400,
        ),
        (
            "another namespace in a patch",
            &patch,
            one("there"),
            raw::MERGE,
            json!({"metadata": {"namespace": "b"}}),
            400,
        ),
        (
            "a put that creates",
            &put,
            one("absent"),
            JSON,
            map(json!({"name": "absent"})),
            404,
        ),
        (
            "a put to all",
            &put,
            MAPS.to_owned(),
            JSON,
            map(json!({"name": "a"})),
            405,
        ),
        (
            "a post to one",
            &post,
            one("there"),
            JSON,
            map(json!({"name": "there"})),
            405,
        ),
        (
            "status where there is none",
            &put,
            format!("{MAPS}/there/status"),
            JSON,
            there.clone(),
            404,
        ),
        (
            "apply without a manager",
            &patch,
            one("there"),
            APPLY,
            map(json!({"name": "there"})),
            422,
        ),
        (
            "apply of a field that is not there",
            &patch,
            format!("{MAPS}/there?fieldManager=m"),
            APPLY,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}, "no": 1}),
            500,
        ),
        (
            "apply of managed fields",
            &patch,
            format!("{MAPS}/there?fieldManager=m"),
            APPLY,
            map(json!({"name": "there", "managedFields": []})),
            400,
        ),
        (
            "apply of no kind",
            &patch,
            format!("{MAPS}/there?fieldManager=m"),
            APPLY,
            json!({"metadata": {"name": "there"}}),
            400,
        ),
        (
            "apply of another name",
            &patch,
            format!("{MAPS}/there?fieldManager=m"),
            APPLY,
            map(json!({"name": "b"})),
            400,
        ),
        (
            "force without apply",
            &patch,
            format!("{MAPS}/there?force=true"),
            raw::MERGE,
            json!({}),
            422,
        ),
        (
            "deletion of another uid",
            &delete,
            one("there"),
            JSON,
            json!({"preconditions": {"uid": "1"}}),
            409,
        ),
        (
            "deletion of another version",
            &delete,
            one("there"),
            JSON,
            json!({"preconditions": {"resourceVersion": "1"}}),
            409,
        ),
        (
            "deletion of two minds",
            &delete,
            one("there"),
            JSON,
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            422,
        ),
        (
            "deletion with an object",
            &delete,
            one("there"),
            JSON,
            there.clone(),
            400,
        ),
        (
            "a namespace in capitals",
            &post,
            "/api/v1/namespaces".to_owned(),
            JSON,
            json!({"metadata": {"name": "Team"}}),
            422,
        ),
        (
            "the default namespace's end",
            &delete,
            "/api/v1/namespaces/default".to_owned(),
            JSON,
            json!({}),
            403,
        ),
        (
            "all namespaces' end",
            &delete,
            "/api/v1/namespaces".to_owned(),
            JSON,
            json!({}),
            405,
        ),
        (
            "a custom object of no kind",
            &post,
            CLUSTERS.to_owned(),
            JSON,
            json!({"metadata": {"name": "a"}, "spec": {}}),
            400,
        ),
        (
            "a custom object of another type",
            &post,
            CLUSTERS.to_owned(),
            JSON,
            json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": 1}),
            422,
        ),
        (
            "a custom object without version",
            &put,
            format!("{CLUSTERS}/there"),
            JSON,
            cluster.clone(),
            422,
        ),
        (
            "a custom status without version",
            &put,
            format!("{CLUSTERS}/there/status"),
            JSON,
            cluster,
            422,
        ),
        (
            "a strategic patch of a custom object",
            &patch,
            format!("{CLUSTERS}/there"),
            "application/strategic-merge-patch+json",
            json!({}),
            415,
        ),
        (
            "a strict create",
            &post,
            format!("{MAPS}?fieldValidation=Strict"),
            JSON,
            json!({"metadata": {"name": "a"}, "no": 1}),
            400,
        ),
        (
            "a selection by what cannot be selected by",
            &Method::GET,
            format!("{MAPS}?fieldSelector=data.a%3Db"),
            "",
            Value::Null,
            400,
        ),
        (
            "a selector that is none",
            &Method::GET,
            format!("{MAPS}?labelSelector=a%20in%20%28"),
            "",
            Value::Null,
            400,
        ),
    ] {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (code, answer) = admin.ask(method.clone(), &path, media, body).await;
        if code != want {
            wrong.push(format!("{what}: {code}, not {want}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn strict_mode_refuses_mistakes_that_kubernetes_tolerates() {
    let plain = Server::builder().seed(1).build();
    let strict = Server::builder().seed(1).strict().build();
    let (plain, strict) = (with_definitions(&plain).await, with_definitions(&strict).await);
    let with = |changes: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        roundhouse_patch::json_merge(&mut object, &changes);
        object
    };
    let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"}, "spec": {}});
    for admin in [&plain, &strict] {
        for (path, object) in [(APPS, with(json!({}))), (CLUSTERS, cluster.clone())] {
            let (code, answer) = admin.post(path, object).await;
            assert_eq!(code, 201, "{answer}");
        }
    }
    let (post, put, patch, get) = (Method::POST, Method::PUT, Method::PATCH, Method::GET);
    let one = format!("{APPS}/d");
    let dry = |path: &str| format!("{path}?dryRun=All");
    for (what, method, path, media, body, refusal) in [
        (
            "a parameter",
            &get,
            format!("{APPS}?labelselector=a"),
            "",
            Value::Null,
            "parameter \"labelselector\" is not known",
        ),
        (
            "parameters that are known",
            &get,
            format!("{APPS}?labelSelector=a&timeout=5s&pretty=true"),
            "",
            Value::Null,
            "",
        ),
        (
            "a field",
            &post,
            dry(MAPS),
            JSON,
            json!({"metadata": {"name": "a"}, "Data": {}}),
            "unknown field \"Data\"",
        ),
        (
            "a field whatever is asked for",
            &post,
            format!("{MAPS}?dryRun=All&fieldValidation=Ignore"),
            JSON,
            json!({"metadata": {"name": "a"}, "Data": {}}),
            "unknown field \"Data\"",
        ),
        (
            "a field of our own kinds",
            &patch,
            dry(&format!("{CLUSTERS}/c")),
            raw::MERGE,
            json!({"spec": {"no": 1}}),
            "unknown field \"spec.no\"",
        ),
        (
            "a uid",
            &post,
            dry(MAPS),
            JSON,
            map(json!({"name": "a", "uid": "1"})),
            "metadata.uid of a new object",
        ),
        (
            "a time that nobody set",
            &post,
            dry(MAPS),
            JSON,
            map(json!({"name": "a", "creationTimestamp": null})),
            "",
        ),
        (
            "a status of a new object",
            &post,
            dry(APPS),
            JSON,
            with(json!({"metadata": {"name": "e"}, "status": {"replicas": 1}})),
            "the status of a new object is dropped",
        ),
        (
            "an empty status",
            &post,
            dry(APPS),
            JSON,
            with(json!({"metadata": {"name": "e"}, "status": {"conditions": [], "replicas": 0}})),
            "",
        ),
        (
            "an update of any version",
            &put,
            dry(&one),
            JSON,
            with(json!({"spec": {"replicas": 2}})),
            "an update without metadata.resourceVersion",
        ),
        (
            "a patch of any version",
            &patch,
            dry(&one),
            raw::MERGE,
            json!({"spec": {"replicas": 2}}),
            "",
        ),
        (
            "a status that is dropped",
            &patch,
            dry(&one),
            raw::MERGE,
            json!({"status": {"replicas": 2}}),
            "a change of the status is dropped here",
        ),
        (
            "a status",
            &patch,
            dry(&format!("{one}/status")),
            raw::MERGE,
            json!({"status": {"replicas": 2}}),
            "",
        ),
        (
            "a spec that is dropped",
            &patch,
            dry(&format!("{one}/status")),
            raw::MERGE,
            json!({"spec": {"replicas": 2}}),
            "a change of the spec is dropped here",
        ),
    ] {
        let text = || {
            if body.is_null() {
                String::new()
            } else {
                body.to_string()
            }
        };
        let (code, answer) = plain.ask(method.clone(), &path, media, text()).await;
        assert!(code < 300, "{what}: Kubernetes tolerates it: {answer}");
        let (code, answer) = strict.ask(method.clone(), &path, media, text()).await;
        if refusal.is_empty() {
            assert!(code < 300, "{what}: {answer}");
        } else {
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(matches!(code, 400 | 422), "{what}: {answer}");
            assert!(message.contains(refusal), "{what}: {message}");
        }
    }
    // Read, changed and written back is right, also by who knows the spec only.
    let (_, mut object) = strict.get(&one).await;
    object["spec"]["replicas"] = json!(3);
    let (code, mut object) = strict.put(&one, object).await;
    assert_eq!(code, 200, "{object}");
    object["status"] = json!({});
    assert_eq!(strict.put(&one, object.clone()).await.0, 200);
    object["status"] = json!({"replicas": 3});
    assert_eq!(strict.put(&format!("{one}/status"), object).await.0, 200);
}
