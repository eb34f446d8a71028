//! The whole pass of an agent that finds nothing to do, over a bundle of 20 objects, without the network:
//! `cargo bench -p roundhouse-agent`. The target is 1 ms.
//!
//! One iteration parses the Bundle, decodes the manifests, compares the ledger, reads the 20 objects (canned responses, as
//! bytes), and makes the report. As in an agent, the hash is that of the first pass over this generation, and an object is
//! judged again only if the answer is not, byte for byte, the one that the last pass found unchanged. The second figure is
//! of an agent that has just been started, and judges every object. The
//! responses are those of an embedded API server to which a first pass applied the bundle. A write would end the bench.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench that cannot be set up, or whose pass writes, has nothing to measure"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use futures::{FutureExt, future::BoxFuture};
use http_body_util::{BodyExt, Either, Full};
use kube::{
    Api, Client,
    api::PostParams,
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use parking_lot::Mutex;
use roundhouse_agent::{Config, measure::Pass};
use roundhouse_api::{
    bundle::Bundle,
    clock::{SharedClock, SystemClock},
    crds, hash,
    names::ClusterName,
};
use roundhouse_apiserver::{ApiBody, ApiService, Server};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};
use tower::Service;

/// Responses to GET requests by path; recorded at first, then played.
#[derive(Default)]
struct Tape {
    played: bool,
    responses: HashMap<String, bytes::Bytes>,
}

#[derive(Clone)]
struct Canned {
    server: ApiService,
    tape: Arc<Mutex<Tape>>,
}

impl Service<http::Request<Body>> for Canned {
    type Response = http::Response<Either<Full<bytes::Bytes>, ApiBody>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (mut server, tape) = (self.server.clone(), Arc::clone(&self.tape));
        let uri = request.uri().to_string();
        let single =
            request.method() == http::Method::GET && !uri.contains("watch=") && !uri.contains("limit=");
        let canned = {
            let tape = tape.lock();
            assert!(
                !tape.played || request.method() == http::Method::GET,
                "{} {uri}",
                request.method()
            );
            tape.responses.get(&uri).filter(|_| tape.played).cloned()
        };
        if let Some(bytes) = canned {
            return std::future::ready(Ok(http::Response::new(Either::Left(Full::new(bytes))))).boxed();
        }
        async move {
            let answer = server.call(request).await?;
            let (head, body) = answer.into_parts();
            if !single {
                return Ok(http::Response::from_parts(head, Either::Right(body)));
            }
            let bytes = body
                .collect()
                .await
                .map(|body| body.to_bytes())
                .unwrap_or_default();
            if head.status.is_success() {
                tape.lock().responses.insert(uri, bytes.clone());
            }
            Ok(http::Response::from_parts(head, Either::Left(Full::new(bytes))))
        }
        .boxed()
    }
}

/// Twenty objects as an application has them.
fn manifests() -> Vec<Value> {
    let metadata = |name: String| {
        json!({"name": name, "namespace": "default", "labels": {"app.oam.dev/name": "shop",
            "app.oam.dev/namespace": "default", "app.oam.dev/component": name, "app.oam.dev/revision": "shop-v1"},
            "annotations": {"app.oam.dev/generation": "3"}})
    };
    let deployment = |n: usize| {
        let name = format!("web-{n}");
        let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
        let env: Vec<Value> = (0..6)
            .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value {n}")}))
            .collect();
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name.clone()), "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {
                "containers": [{"name": "main", "image": "registry.example/shop/web:1.28", "env": env,
                    "ports": [{"name": "http", "containerPort": 8080}], "readinessProbe": probe, "livenessProbe": probe,
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}]}],
                "volumes": [{"name": "settings", "configMap": {"name": "settings-0"}}]}}}})
    };
    let service = |n: usize| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(format!("web-{n}")), "spec": {
            "selector": {"app": format!("web-{n}")}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
    };
    let settings = |n: usize| {
        let data: serde_json::Map<String, Value> = (0..8)
            .map(|line| {
                (
                    format!("key-{line}"),
                    json!(format!("a line of text, number {line}")),
                )
            })
            .collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(format!("settings-{n}")), "data": data})
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("token".to_owned()),
        "type": "Opaque", "data": {"token": "aHVudGVyMg==", "user": "c2hvcA=="}});
    let widget = |n: usize| {
        json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": metadata(format!("widget-{n}")),
            "spec": {"size": n, "parts": [{"name": "a"}, {"name": "b"}], "options": {"colour": "green", "depth": 3}}})
    };
    let mut all: Vec<Value> = (0..5)
        .map(deployment)
        .chain((0..5).map(service))
        .chain((0..6).map(settings))
        .collect();
    all.push(secret);
    all.extend((0..3).map(widget));
    all
}

async fn create(client: &Client, api_version: &str, kind: &str, object: Value) -> DynamicObject {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap()
}

/// A hub with the Bundle, and a member that a first pass has applied it to.
async fn settled() -> Pass {
    let (hub, member) = (Server::builder().build(), Server::builder().build());
    let tape = Arc::new(Mutex::new(Tape::default()));
    let client = |server: &Server| {
        Client::new(
            Canned {
                server: server.service(),
                tape: Arc::clone(&tape),
            },
            "default",
        )
    };
    let (hub, member) = (client(&hub), client(&member));
    for definition in crds::hub()
        .into_iter()
        .filter(|definition| definition.spec.names.kind == "Bundle")
    {
        Api::all(hub.clone())
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
    }
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example"}, "spec": {"group": "shop.example", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    create(
        &member,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        crd,
    )
    .await;
    create(
        &hub,
        "v1",
        "Namespace",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-c1"}}),
    )
    .await;
    let manifests = manifests();
    assert_eq!(manifests.len(), 20);
    let spec = json!({"hash": hash::of_manifests(&manifests), "revision": "shop-v1", "epoch": 1,
        "applicationRef": {"namespace": "default", "name": "shop", "uid": "u"}, "workload": {"manifests": manifests}});
    let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "default.shop", "namespace": "cluster-c1"}, "spec": spec});
    let bundle = create(&hub, "roundhouse.dev/v1alpha1", "Bundle", bundle).await;
    let clock: SharedClock = Arc::new(SystemClock);
    let config = Config::new(ClusterName::new("c1").unwrap());
    let mut pass = Pass::new(config, (&hub, "0123456789"), &member, &clock, bundle)
        .await
        .unwrap();
    // The first applies, the second finds everything as it is, and its answers are played from then on.
    for _ in 0..2 {
        assert!(pass.run().await, "a pass failed");
    }
    let bundles: Api<Bundle> = Api::namespaced(hub, "cluster-c1");
    let counts = bundles
        .get("default.shop")
        .await
        .unwrap()
        .status
        .unwrap()
        .counts
        .unwrap();
    assert_eq!(
        (counts.applied, counts.failed),
        (20, 0),
        "not everything is applied"
    );
    tape.lock().played = true;
    pass
}

fn no_op_pass(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut pass = runtime.block_on(settled());
    criterion.bench_function("no_op_pass/20_objects", |bencher| {
        bencher.iter(|| assert!(runtime.block_on(pass.run()), "a pass failed"));
    });
    criterion.bench_function("no_op_pass/20_objects_all_judged", |bencher| {
        bencher.iter(|| assert!(runtime.block_on(pass.run_judging_all()), "a pass failed"));
    });
}

criterion_group!(benches, no_op_pass);
criterion_main!(benches);
