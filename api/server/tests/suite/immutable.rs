//! What of an object may not change, and what Kubernetes says about it.

use crate::raw::Raw;
use http::Method;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn pods() -> Value {
    json!({"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "w", "image": "w"}]}})
}

/// Code and message of an answer, the message without the object it is about.
fn answer((code, body): (u16, Value)) -> String {
    let message = body["message"].as_str().unwrap_or_default();
    let why = message
        .split_once(" is invalid: ")
        .map_or(message, |(_, why)| why);
    format!("{code} {why}").trim_end().to_owned()
}

/// Path of the collection, the object, and what its patches answer.
type Row<'a> = (&'a str, Value, &'a [(Value, &'a str)]);

async fn check(table: &[Row<'_>]) {
    let raw = Raw::new(&Server::builder().seed(1).build());
    for (path, object, patches) in table {
        let mut object = object.clone();
        object["metadata"] = json!({"name": "one"});
        let (code, made) = raw.post(path, object).await;
        assert_eq!(code, 201, "{path}: {made}");
        for (patch, expected) in *patches {
            let one = format!("{path}/one");
            assert_eq!(
                answer(raw.merge(&one, patch.clone()).await),
                *expected,
                "{path} {patch}"
            );
        }
    }
}

#[tokio::test]
async fn workloads() {
    let apps = |plural: &str| format!("/apis/apps/v1/namespaces/default/{plural}");
    let selector = json!({"matchLabels": {"app": "w"}});
    let workload = json!({"spec": {"selector": selector, "template": pods()}});
    let mut stateful = workload.clone();
    stateful["spec"]["serviceName"] = json!("w");
    let other = json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}}});
    let selector_is_fixed =
        "422 spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"}}: field is immutable";
    let stateful_is_fixed = "422 spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    let fixed = [
        (other.clone(), selector_is_fixed),
        (
            json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
            "422 [spec.template.metadata.labels: Invalid value: {\"app\":\"w\"}: `selector` does not match template `labels`, spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"}}: field is immutable]",
        ),
        (json!({"spec": {"template": {"spec": {"priority": 1}}}}), "200"),
    ];
    check(&[
        (&apps("deployments"), workload.clone(), &fixed),
        (&apps("daemonsets"), workload.clone(), &fixed),
        (&apps("replicasets"), workload.clone(), &fixed),
        (
            &apps("statefulsets"),
            stateful,
            &[
                (json!({"spec": {"serviceName": "x"}}), stateful_is_fixed),
                (json!({"spec": {"podManagementPolicy": "Parallel"}}), stateful_is_fixed),
                (
                    json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]}}),
                    stateful_is_fixed,
                ),
                (
                    json!({"spec": {"replicas": 3, "minReadySeconds": 5, "template": {"spec": {"priority": 1}}}}),
                    "200",
                ),
            ],
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_holds_content() {
    let core = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    let frozen = "field is immutable when `immutable` is set";
    check(&[
        (
            &core("configmaps"),
            json!({"immutable": true, "data": {"a": "1"}}),
            &[
                (json!({"data": {"a": "2"}}), &format!("422 data: Forbidden: {frozen}")),
                (
                    json!({"immutable": null, "binaryData": {"b": "YQ=="}}),
                    &format!("422 [immutable: Forbidden: {frozen}, binaryData: Forbidden: {frozen}]"),
                ),
                (json!({"binaryData": {}, "metadata": {"labels": {"a": "b"}}}), "200"),
            ],
        ),
        (
            &core("secrets"),
            json!({"immutable": true, "data": {"a": "YQ=="}}),
            &[
                (
                    json!({"type": "example.com/x", "immutable": false}),
                    &format!(
                        "422 [type: Invalid value: \"example.com/x\": field is immutable, immutable: Forbidden: {frozen}]"
                    ),
                ),
                (json!({"stringData": {"a": "b"}}), &format!("422 data: Forbidden: {frozen}")),
            ],
        ),
    ])
    .await;
}

#[tokio::test]
async fn services_and_claims() {
    let core = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    let spec_is_fixed = "422 spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    check(&[
        (
            &core("services"),
            json!({"spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}}),
            &[
                (
                    json!({"spec": {"clusterIP": "10.96.0.10"}}),
                    "422 spec.clusterIPs[0]: Invalid value: [\"10.96.0.10\"]: may not change once set",
                ),
                (
                    json!({"spec": {"clusterIP": "None"}}),
                    "422 spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
                ),
                (json!({"spec": {"clusterIP": "", "ports": [{"port": 81}]}}), "200"),
            ],
        ),
        (
            &core("persistentvolumeclaims"),
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            &[
                (json!({"spec": {"accessModes": ["ReadWriteMany"]}}), spec_is_fixed),
                (json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}), spec_is_fixed),
                (json!({"spec": {"volumeName": "v", "storageClassName": "fast"}}), "200"),
                (json!({"spec": {"volumeName": "w"}}), spec_is_fixed),
                (json!({"spec": {"storageClassName": "slow"}}), spec_is_fixed),
            ],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_bound_claim_may_grow() {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "one"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(raw.post(claims, claim).await.0, 201);
    let one = format!("{claims}/one");
    let bound = json!({"status": {"phase": "Bound"}});
    assert_eq!(raw.merge(&format!("{one}/status"), bound).await.0, 200);
    let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    assert_eq!(raw.merge(&one, grown).await.0, 200);
    let limited = json!({"spec": {"resources": {"limits": {"storage": "3Gi"}}}});
    assert_eq!(raw.merge(&one, limited).await.0, 422);
}

#[tokio::test]
async fn rules_and_classes() {
    let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    check(&[
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            json!({"roleRef": role("a"), "subjects": []}),
            &[(
                json!({"roleRef": role("b")}),
                "422 roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"b\"}: cannot change roleRef",
            )],
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"provisioner": "a/b"}),
            &[
                (
                    json!({"provisioner": "c/d", "parameters": {"a": "b"}}),
                    "422 [parameters: Forbidden: updates to parameters are forbidden., provisioner: Forbidden: updates to provisioner are forbidden.]",
                ),
                (
                    json!({"volumeBindingMode": "WaitForFirstConsumer"}),
                    "422 volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
                ),
                (json!({"allowVolumeExpansion": true}), "200"),
            ],
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"value": 5}),
            &[
                (json!({"value": 6}), "422 value: Forbidden: may not be changed in an update."),
                (
                    json!({"preemptionPolicy": "Never"}),
                    "422 preemptionPolicy: Invalid value: \"Never\": field is immutable",
                ),
                (json!({"description": "x"}), "200"),
            ],
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"spec": {"controller": "a/b"}}),
            &[(
                json!({"spec": {"controller": "c/d"}}),
                "422 spec.controller: Invalid value: \"c/d\": field is immutable",
            )],
        ),
    ])
    .await;
}

fn job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

/// What was generated when a Job was made is no difference when its manifest is applied again.
#[tokio::test]
async fn a_job_applied_again() {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let (_, made) = raw.post(JOBS, job()).await;
    let one = format!("{JOBS}/one");
    let again = raw.ask(Method::PATCH, &one, STRATEGIC, job().to_string()).await;
    assert_eq!(again, (200, made.clone()));
    assert_eq!(raw.put(&one, made.clone()).await, (200, made.clone()));
    // Replaced by its manifest, it lacks what was generated.
    let (code, refused) = raw.put(&one, job()).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 422, "{message}");
    let start = "Job.batch \"one\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.selector: Invalid value: \"null\": field is immutable, spec.template: Invalid value: {";
    assert!(message.starts_with(start), "{message}");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}});
    let (code, refused) = raw.ask(Method::PATCH, &one, STRATEGIC, image.to_string()).await;
    let causes = refused["details"]["causes"].as_array().unwrap();
    assert_eq!((code, causes.len()), (422, 1));
    assert_eq!(causes[0]["field"], "spec.template");
    assert!(
        causes[0]["message"]
            .as_str()
            .unwrap()
            .ends_with(": field is immutable")
    );
    let suspended = json!({"spec": {"suspend": true, "parallelism": 2, "backoffLimit": 1}});
    assert_eq!(raw.merge(&one, suspended).await.0, 200);
}

#[tokio::test]
async fn a_selector_of_a_job_set_by_hand() {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let mut own = job();
    own["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
    own["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
    let (code, refused) = raw.post(JOBS, own.clone()).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 422, "{message}");
    assert!(message.ends_with("`selector` not auto-generated"), "{message}");
    own["spec"]["manualSelector"] = json!(true);
    let (code, made) = raw.post(JOBS, own).await;
    assert_eq!(
        (code, &made["spec"]["selector"]),
        (201, &json!({"matchLabels": {"a": "b"}}))
    );
}
