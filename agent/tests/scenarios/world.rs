//! The world of a scenario: a hub, a member, and an agent between them.

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use roundhouse_agent::{AgentError, Config, run};
use roundhouse_api::bundle::{BundlePhase, BundleStatus};
use roundhouse_api::clock::{Clock, SharedClock};
use roundhouse_api::names::ClusterName;
use roundhouse_api::{condition, crds, hash};
use roundhouse_apiserver::{ApiBody, ApiService, Server};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;

pub(crate) const NAMESPACE: &str = "cluster-c1";
pub(crate) const HUB_ID: &str = "0123456789";
const DEADLINE: Duration = Duration::from_secs(30);

/// A clock that goes with tokio's.
#[derive(Debug)]
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> jiff::Timestamp {
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start + jiff::SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// A wire that can be cut: requests that it holds back wait until it is mended.
#[derive(Clone)]
pub(crate) struct Wire {
    inner: ApiService,
    cut: Arc<AtomicBool>,
    /// Which requests a cut holds back, by method and path.
    holds: fn(&http::Method, &str) -> bool,
}

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<ApiBody>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (mut inner, cut) = (self.inner.clone(), Arc::clone(&self.cut));
        let held = (self.holds)(request.method(), request.uri().path());
        async move {
            while held && cut.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            inner.call(request).await
        }
        .boxed()
    }
}

/// A hub and a member.
pub(crate) struct World {
    pub(crate) hub: Server,
    pub(crate) member: Server,
    pub(crate) hub_client: Client,
    pub(crate) member_client: Client,
}

/// A running agent.
pub(crate) struct Agent {
    task: JoinHandle<Result<(), AgentError>>,
    shutdown: CancellationToken,
}

impl Agent {
    /// As `kill -9`.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// As SIGTERM.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Waits for it to give up by itself.
    pub(crate) async fn ended(self) -> Result<(), AgentError> {
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .expect("the agent gives up")
            .unwrap()
    }
}

impl World {
    /// A hub that serves cluster `c1`, with its Lease.
    pub(crate) async fn new() -> Self {
        let world = World::without_lease().await;
        world.make_lease(HUB_ID).await;
        world
    }

    pub(crate) async fn without_lease() -> Self {
        let build = || Server::builder().seed(1).count_per_object(true).build();
        let (hub, member) = (build(), build());
        let hub_client = Client::new(hub.service(), "default");
        let member_client = Client::new(member.service(), "default");
        let world = World {
            hub,
            member,
            hub_client,
            member_client,
        };
        // The definitions that an agent meets.
        let needed = |kind: &str| matches!(kind, "Bundle" | "ClusterReport");
        for definition in crds::hub().into_iter().filter(|d| needed(&d.spec.names.kind)) {
            let api = Api::all(world.hub_client.clone());
            api.create(&PostParams::default(), &definition).await.unwrap();
        }
        world
            .create(
                Side::Hub,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            )
            .await;
        world
    }

    pub(crate) async fn make_lease(&self, hub_id: &str) {
        self.create(
            Side::Hub,
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "agent",
                "namespace": NAMESPACE, "annotations": {"roundhouse.dev/hub-id": hub_id}}}),
        )
        .await;
    }

    pub(crate) fn config() -> Config {
        Config::new(ClusterName::new("c1").unwrap())
    }

    pub(crate) fn agent(&self) -> Agent {
        self.agent_with(World::config())
    }

    pub(crate) fn agent_with(&self, config: Config) -> Agent {
        self.agent_between(config, self.hub_client.clone(), self.member_client.clone())
    }

    pub(crate) fn agent_between(&self, config: Config, hub: Client, member: Client) -> Agent {
        let shutdown = CancellationToken::new();
        let clock: SharedClock = Arc::new(TestClock(Instant::now()));
        let task = tokio::spawn(run(config, hub, member, clock, shutdown.clone()));
        Agent { task, shutdown }
    }

    /// A client to one side over a wire that is whole until it is cut.
    pub(crate) fn wire(
        &self,
        side: Side,
        holds: fn(&http::Method, &str) -> bool,
    ) -> (Client, Arc<AtomicBool>) {
        let cut = Arc::new(AtomicBool::new(false));
        let inner = match side {
            Side::Hub => self.hub.service(),
            Side::Member => self.member.service(),
        };
        (
            Client::new(
                Wire {
                    inner,
                    cut: Arc::clone(&cut),
                    holds,
                },
                "default",
            ),
            cut,
        )
    }

    pub(crate) fn api(
        &self,
        side: Side,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = match side {
            Side::Hub => self.hub_client.clone(),
            Side::Member => self.member_client.clone(),
        };
        if namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, namespace, &resource)
        }
    }

    fn api_of(&self, side: Side, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        (
            self.api(
                side,
                &text("/apiVersion"),
                &text("/kind"),
                &text("/metadata/namespace"),
            ),
            text("/metadata/name"),
        )
    }

    pub(crate) async fn create(&self, side: Side, object: Value) -> Value {
        let (api, _) = self.api_of(side, &object);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        serde_json::to_value(api.create(&PostParams::default(), &object).await.unwrap()).unwrap()
    }

    /// The live object that is named as `object` is.
    pub(crate) async fn live(&self, side: Side, object: &Value) -> Option<Value> {
        let (api, name) = self.api_of(side, object);
        api.get_opt(&name)
            .await
            .unwrap()
            .map(|live| serde_json::to_value(live).unwrap())
    }

    pub(crate) async fn merge(&self, side: Side, object: &Value, patch: Value) -> Value {
        let (api, name) = self.api_of(side, object);
        let live = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        serde_json::to_value(live).unwrap()
    }

    pub(crate) async fn merge_status(&self, side: Side, object: &Value, status: Value) {
        let (api, name) = self.api_of(side, object);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, side: Side, object: &Value) {
        let (api, name) = self.api_of(side, object);
        api.delete(&name, &DeleteParams::background()).await.unwrap();
    }

    /// Writes a Bundle with this spec, made or changed; answers its generation.
    pub(crate) async fn bundle(&self, name: &str, spec: Value) -> i64 {
        let mut object = bundle(name);
        let spec_patch = json!({"spec": spec});
        let live = if self.live(Side::Hub, &object).await.is_some() {
            self.merge(Side::Hub, &object, spec_patch).await
        } else {
            object["spec"] = spec_patch["spec"].clone();
            self.create(Side::Hub, object).await
        };
        live["metadata"]["generation"].as_i64().unwrap()
    }

    pub(crate) async fn status(&self, name: &str) -> BundleStatus {
        let live = self.live(Side::Hub, &bundle(name)).await.unwrap_or_default();
        serde_json::from_value(live["status"].clone()).unwrap_or_default()
    }

    /// Waits until the report is about this generation and in this phase.
    pub(crate) async fn reported(&self, name: &str, generation: i64, phase: BundlePhase) -> BundleStatus {
        let what = format!("{name} reports generation {generation} as {phase:?}");
        eventually_with(
            &what,
            || self.status(name),
            |status| status.observed_generation == Some(generation) && status.phase == Some(phase),
        )
        .await
    }

    /// Plays the Deployment controller: the roll-out of the present generation is finished.
    pub(crate) async fn roll_out(&self, deployment: &Value) {
        let live = self.live(Side::Member, deployment).await.unwrap();
        let replicas = live["spec"]["replicas"].as_i64().unwrap_or(1);
        let status = json!({"observedGeneration": live["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
        self.merge_status(Side::Member, deployment, status).await;
    }

    pub(crate) async fn ledger(&self, bundle: &str) -> Option<Value> {
        let api = self.api(Side::Member, "roundhouse.dev/v1alpha1", "AppliedBundle", "");
        let name = format!("{HUB_ID}.{bundle}");
        api.get_opt(&name)
            .await
            .ok()
            .flatten()
            .map(|ledger| serde_json::to_value(ledger).unwrap())
    }

    /// Writing requests that both servers were sent, those that changed nothing included, without renewals of the Lease.
    pub(crate) fn write_requests(&self) -> u64 {
        let requests = self.hub.counter().requests();
        let renewals = requests
            .iter()
            .filter(|((_, table), _)| table.starts_with("leases"));
        let renewals: u64 = renewals
            .filter(|((verb, _), _)| *verb == "patch")
            .map(|(_, n)| n)
            .sum();
        assert!(renewals > 0, "the Lease is renewed: {requests:?}");
        self.hub.counter().write_requests() + self.member.counter().write_requests() - renewals
    }

    /// Stored writes at both servers, without the Lease's.
    pub(crate) fn writes(&self) -> u64 {
        let lease = self
            .hub
            .counter()
            .stored_of("leases.coordination.k8s.io", NAMESPACE, "agent");
        self.hub.counter().total_stored() + self.member.counter().total_stored() - lease
    }
}

/// The hub or the member.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Hub,
    Member,
}

/// A Bundle's identity.
pub(crate) fn bundle(name: &str) -> Value {
    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle", "metadata": {"name": name, "namespace": NAMESPACE}})
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": value}})
}

pub(crate) fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app.oam.dev/name": "app"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A hand-written spec.
pub(crate) fn spec(manifests: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}})
}

/// A spec as dispatch writes it.
pub(crate) fn dispatched(manifests: &[Value], revision: &str, epoch: i64) -> Value {
    json!({"workload": {"manifests": manifests}, "hash": hash::of_manifests(manifests), "revision": revision,
        "epoch": epoch, "applicationRef": {"namespace": "default", "name": "app", "uid": "app-uid"}})
}

pub(crate) fn reason(status: &BundleStatus, type_: &str) -> String {
    condition::get(&status.conditions, type_)
        .map(|c| c.reason.clone())
        .unwrap_or_default()
}

/// Waits for a condition, up to a deadline of the (paused) clock.
pub(crate) async fn eventually<F>(what: &str, check: impl Fn() -> F)
where
    F: Future<Output = bool>,
{
    eventually_with(what, check, |holds| *holds).await;
}

/// Waits until what is looked at is as it should be.
pub(crate) async fn eventually_with<T, F>(what: &str, look: impl Fn() -> F, holds: impl Fn(&T) -> bool) -> T
where
    T: std::fmt::Debug,
    F: Future<Output = T>,
{
    let deadline = Instant::now() + DEADLINE;
    loop {
        let seen = look().await;
        if holds(&seen) {
            return seen;
        }
        assert!(
            Instant::now() < deadline,
            "not within {DEADLINE:?}: {what}; last seen: {seen:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Lets time pass, for what must not happen.
pub(crate) async fn pass_time(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
