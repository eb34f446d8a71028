//! What is wrong with workloads and Services is said with the field, as Kubernetes says it; what is right is taken.

use crate::raw::Raw;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn deployment() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "initContainers": [{"name": "first", "image": "i"}],
            "containers": [{
                "name": "main", "image": "i",
                "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
                "env": [{"name": "a.b/c", "value": "1"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "resources": {"requests": {"cpu": "0.5", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1024Mi"}},
                "volumeMounts": [{"name": "etc", "mountPath": "/etc/web"}],
                "livenessProbe": {"httpGet": {"port": "http"}},
                "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2}}],
            "volumes": [{"name": "etc", "configMap": {"name": "etc"}}, {"name": "scratch"}]}}}})
}

fn service() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"ports": [
        {"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 80, "protocol": "UDP"}]}})
}

/// Sets what a pointer leads to; parents are there.
fn with(mut value: Value, pointer: &str, to: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = to,
        object => object[key] = to,
    }
    value
}

/// One complaint is made, of this reason and field.
async fn refused(path: &str, object: Value, reason: &str, field: &str) {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let (code, status) = raw.post(path, object.clone()).await;
    assert_eq!(code, 422, "{field}: {object}");
    let causes = status["details"]["causes"].as_array().unwrap();
    let found: Vec<(&str, &str)> = causes
        .iter()
        .map(|cause| {
            (
                cause["reason"].as_str().unwrap(),
                cause["field"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, [(reason, field)], "{status}");
}

#[tokio::test]
async fn good_ones_are_taken_and_their_quantities_are_written_in_canonical_form() {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let (code, stored) = raw.post(DEPLOYMENTS, deployment()).await;
    assert_eq!(code, 201, "{stored}");
    assert_eq!(
        stored["spec"]["template"]["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
    );
    let (_, again) = raw.put(&format!("{DEPLOYMENTS}/web"), deployment()).await;
    assert_eq!(
        again["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"],
        "nothing is changed by another spelling"
    );
    assert_eq!(raw.post(SERVICES, service()).await.0, 201);
    // The volumes of a StatefulSet's pods come from claims.
    let set = json!({"metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "0.5Gi"}}}}],
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [
            {"name": "main", "image": "i", "volumeMounts": [{"name": "disk", "mountPath": "/var"}]}]}}}});
    let (code, stored) = raw.post(STATEFUL_SETS, set.clone()).await;
    assert_eq!(code, 201, "{stored}");
    let claim = &stored["spec"]["volumeClaimTemplates"][0]["spec"]["resources"];
    assert_eq!(*claim, json!({"requests": {"storage": "512Mi"}}));
    let ending = with(set, "/spec/template/spec/restartPolicy", json!("Never"));
    refused(
        STATEFUL_SETS,
        ending,
        "FieldValueNotSupported",
        "spec.template.spec.restartPolicy",
    )
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_a_container_is_named() {
    const CONTAINER: &str = "/spec/template/spec/containers/0";
    let port = |port: Value| ("/ports", json!([port]));
    for ((pointer, to), reason, field) in [
        (("/image", json!(" ")), "Required", "image"),
        (("/name", json!("Main")), "Invalid", "name"),
        (("/name", json!("first")), "Duplicate", "name"),
        (
            ("/imagePullPolicy", json!("Sometimes")),
            "NotSupported",
            "imagePullPolicy",
        ),
        (port(json!({"name": "web"})), "Required", "ports[0].containerPort"),
        (
            port(json!({"containerPort": 65_536})),
            "Invalid",
            "ports[0].containerPort",
        ),
        (
            port(json!({"containerPort": 80, "hostPort": -1})),
            "Invalid",
            "ports[0].hostPort",
        ),
        (
            port(json!({"containerPort": 80, "protocol": "HTTP"})),
            "NotSupported",
            "ports[0].protocol",
        ),
        (
            port(json!({"containerPort": 80, "name": "a-very-long-name"})),
            "Invalid",
            "ports[0].name",
        ),
        (
            port(json!({"containerPort": 80, "name": "80"})),
            "Invalid",
            "ports[0].name",
        ),
        (("/env", json!([{"value": "1"}])), "Required", "env[0].name"),
        (("/env", json!([{"name": "a=b"}])), "Invalid", "env[0].name"),
        (
            ("/env", json!([{"name": "a", "valueFrom": {}}])),
            "Invalid",
            "env[0].valueFrom",
        ),
        (
            (
                "/env",
                json!([{"name": "a", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            ),
            "Invalid",
            "env[0].valueFrom",
        ),
        (
            (
                "/env",
                json!([{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s"}}}]),
            ),
            "Required",
            "env[0].valueFrom.secretKeyRef.key",
        ),
        (("/envFrom", json!([{"prefix": "a"}])), "Invalid", "envFrom[0]"),
        (
            ("/envFrom", json!([{"secretRef": {}}])),
            "Required",
            "envFrom[0].secretRef.name",
        ),
        (
            ("/volumeMounts", json!([{"name": "none", "mountPath": "/a"}])),
            "NotFound",
            "volumeMounts[0].name",
        ),
        (
            ("/volumeMounts", json!([{"name": "etc"}])),
            "Required",
            "volumeMounts[0].mountPath",
        ),
        (
            (
                "/volumeMounts",
                json!([{"name": "etc", "mountPath": "/a"}, {"name": "scratch", "mountPath": "/a"}]),
            ),
            "Invalid",
            "volumeMounts[1].mountPath",
        ),
        (
            (
                "/volumeMounts",
                json!([{"name": "etc", "mountPath": "/a", "subPath": "../b"}]),
            ),
            "Invalid",
            "volumeMounts[0].subPath",
        ),
        (("/resources", json!({"limits": {"cpu": "-1"}})), "Invalid", ""),
        (
            (
                "/resources",
                json!({"requests": {"memory": "1025Mi"}, "limits": {"memory": "1Gi"}}),
            ),
            "Invalid",
            "resources.requests",
        ),
        (
            ("/livenessProbe", json!({"periodSeconds": 5})),
            "Required",
            "livenessProbe",
        ),
        (
            (
                "/livenessProbe",
                json!({"httpGet": {"port": 80}, "exec": {"command": ["a"]}}),
            ),
            "Forbidden",
            "livenessProbe.httpGet",
        ),
        (
            ("/livenessProbe", json!({"exec": {}})),
            "Required",
            "livenessProbe.exec.command",
        ),
        (
            ("/livenessProbe", json!({"httpGet": {"port": 0}})),
            "Invalid",
            "livenessProbe.httpGet.port",
        ),
        (
            (
                "/livenessProbe",
                json!({"httpGet": {"port": 80}, "successThreshold": 2}),
            ),
            "Invalid",
            "livenessProbe.successThreshold",
        ),
        (
            (
                "/startupProbe",
                json!({"httpGet": {"port": 80}, "periodSeconds": -1}),
            ),
            "Invalid",
            "startupProbe.periodSeconds",
        ),
    ] {
        let object = with(deployment(), &format!("{CONTAINER}{pointer}"), to);
        if field.is_empty() {
            // The limit, and the request that comes from it.
            let raw = Raw::new(&Server::builder().seed(1).build());
            assert_eq!(raw.post(DEPLOYMENTS, object).await.0, 422, "{pointer}");
            continue;
        }
        let field = format!("spec.template.spec.containers[0].{field}");
        refused(DEPLOYMENTS, object, &format!("FieldValue{reason}"), &field).await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_pod_or_its_rollout_is_named() {
    for (pointer, to, reason, field) in [
        (
            "/spec/template/spec/containers",
            json!([]),
            "Required",
            "spec.template.spec.containers",
        ),
        (
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            "NotSupported",
            "spec.template.spec.restartPolicy",
        ),
        (
            "/spec/template/spec/dnsPolicy",
            json!("Mine"),
            "NotSupported",
            "spec.template.spec.dnsPolicy",
        ),
        (
            "/spec/template/spec/volumes/1",
            json!({"name": "etc", "emptyDir": {}}),
            "Duplicate",
            "spec.template.spec.volumes[1].name",
        ),
        (
            "/spec/template/spec/volumes/1",
            json!({"name": "two", "emptyDir": {}, "secret": {"secretName": "s"}}),
            "Forbidden",
            "spec.template.spec.volumes[1].secret",
        ),
        (
            "/spec/template/spec/volumes/1",
            json!({"name": "two", "secret": {}}),
            "Required",
            "spec.template.spec.volumes[1].secret.secretName",
        ),
        (
            "/spec/strategy/type",
            json!("Recreate"),
            "Forbidden",
            "spec.strategy.rollingUpdate",
        ),
        (
            "/spec/strategy/rollingUpdate/maxSurge",
            json!("lots"),
            "Invalid",
            "spec.strategy.rollingUpdate.maxSurge",
        ),
        (
            "/spec/strategy/rollingUpdate/maxUnavailable",
            json!("101%"),
            "Invalid",
            "spec.strategy.rollingUpdate.maxUnavailable",
        ),
        (
            "/spec/strategy/rollingUpdate",
            json!({"maxSurge": 0, "maxUnavailable": "0%"}),
            "Invalid",
            "spec.strategy.rollingUpdate.maxUnavailable",
        ),
        (
            "/spec/minReadySeconds",
            json!(-1),
            "Invalid",
            "spec.minReadySeconds",
        ),
        (
            "/spec/minReadySeconds",
            json!(600),
            "Invalid",
            "spec.progressDeadlineSeconds",
        ),
        ("/spec/replicas", json!(-1), "Invalid", "spec.replicas"),
    ] {
        let object = with(deployment(), pointer, to);
        refused(DEPLOYMENTS, object, &format!("FieldValue{reason}"), field).await;
    }
    let job = json!({"metadata": {"name": "once"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    refused(
        JOBS,
        job,
        "FieldValueRequired",
        "spec.template.spec.restartPolicy",
    )
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_a_service_is_named() {
    for (pointer, to, reason, field) in [
        ("/spec/type", json!("Door"), "NotSupported", "spec.type"),
        ("/spec/ports", json!([]), "Required", "spec.ports"),
        ("/spec/ports/0/port", json!(0), "Invalid", "spec.ports[0].port"),
        (
            "/spec/ports/0/targetPort",
            json!(70_000),
            "Invalid",
            "spec.ports[0].targetPort",
        ),
        (
            "/spec/ports/0/targetPort",
            json!("No_Port"),
            "Invalid",
            "spec.ports[0].targetPort",
        ),
        (
            "/spec/ports/0/protocol",
            json!("UDP"),
            "Duplicate",
            "spec.ports[1]",
        ),
        (
            "/spec/ports/1/name",
            json!("http"),
            "Duplicate",
            "spec.ports[1].name",
        ),
        ("/spec/ports/1/name", json!(""), "Required", "spec.ports[1].name"),
        (
            "/spec/ports/0/nodePort",
            json!(30_000),
            "Forbidden",
            "spec.ports[0].nodePort",
        ),
        (
            "/spec/sessionAffinity",
            json!("Mine"),
            "NotSupported",
            "spec.sessionAffinity",
        ),
    ] {
        let object = with(service(), pointer, to);
        refused(SERVICES, object, &format!("FieldValue{reason}"), field).await;
    }
    let outside = json!({"metadata": {"name": "out"}, "spec": {"type": "ExternalName"}});
    refused(SERVICES, outside, "FieldValueRequired", "spec.externalName").await;
}
