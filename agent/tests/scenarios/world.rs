//! The world of a scenario: a hub, a member, and an agent between them.
//!
//! Both are embedded servers in paused time, or, where `KUBEBUILDER_ASSETS` names a real one, kube-apiservers in real
//! time, where the agent's intervals and [`pass_time`] are a hundred times shorter. A scenario about counters of the
//! embedded server or about exact delays asks for [`World::embedded`].

use crate::real::{self, Real};
use crate::rights;
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
use roundhouse_apiserver::{Server, WriteCounter};
use serde_json::{Value, json};
use std::cell::Cell;
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
/// By how much waiting is shorter where time is not paused.
const HASTE: u32 = 100;

thread_local! {
    /// Whether the scenario of this thread runs on real servers: a scenario has one thread and one world.
    static ON_REAL: Cell<bool> = const { Cell::new(false) };
}

/// A duration of a scenario, as long as it takes in the present world.
pub(crate) fn hastened(duration: Duration) -> Duration {
    if ON_REAL.get() { duration / HASTE } else { duration }
}

/// A clock that goes with tokio's.
#[derive(Debug)]
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> jiff::Timestamp {
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start + jiff::SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// What a wire does with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    /// It goes through.
    Through,
    /// It waits until the wire lets it through.
    Held,
    /// It is answered with this status by something in between.
    Refused(u16),
    /// It is answered so by a server of another version.
    Answered(u16, &'static str),
    /// It goes through, and what is answered is changed on the way back.
    Reworked(fn(&mut Value)),
    /// The connection breaks before it arrives.
    Lost,
    /// It arrives, and the connection breaks before the answer does.
    Unanswered,
    /// It arrives, and no answer ever comes.
    Swallowed,
}

type Gate = Arc<dyn Fn(&http::Method, &str) -> Pass + Send + Sync>;

/// A wire with a gate: it is asked about each request by method and path, and about a held one again and again.
#[derive(Clone)]
pub(crate) struct Wire {
    inner: Client,
    gate: Gate,
}

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (inner, gate) = (self.inner.clone(), Arc::clone(&self.gate));
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let mut wait = Duration::from_millis(10);
            loop {
                match gate(&method, &path) {
                    Pass::Through => return inner.send(request).await,
                    Pass::Refused(code) => return Ok(refusal(code, DENIED)),
                    Pass::Answered(code, message) => return Ok(refusal(code, message)),
                    Pass::Reworked(rework) => return reworked(inner.send(request).await?, rework).await,
                    Pass::Lost => return Err(broken()),
                    Pass::Unanswered => {
                        let _ = inner.send(request).await;
                        return Err(broken());
                    }
                    Pass::Swallowed => {
                        let _ = inner.send(request).await;
                        return std::future::pending().await;
                    }
                    Pass::Held => tokio::time::sleep(wait).await,
                }
                // A cut of an hour is not asked about a hundred times a second.
                wait = (wait * 2).min(hastened(Duration::from_secs(10)));
            }
        }
        .boxed()
    }
}

/// As the client of a connection that broke.
fn broken() -> kube::Error {
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    kube::Error::Service(Box::new(reset))
}

async fn reworked(
    response: http::Response<Body>,
    rework: fn(&mut Value),
) -> Result<http::Response<Body>, kube::Error> {
    let (mut head, body) = response.into_parts();
    let mut answer: Value = serde_json::from_slice(&body.collect_bytes().await?).unwrap();
    rework(&mut answer);
    head.headers.remove(http::header::CONTENT_LENGTH);
    Ok(http::Response::from_parts(
        head,
        Body::from(serde_json::to_vec(&answer).unwrap()),
    ))
}

/// An answer as an API server or an admission webhook gives it.
const DENIED: &str = "admission webhook \"gate.example.com\" denied the request";

fn refusal(code: u16, message: &str) -> http::Response<Body> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": if code == 403 { "Forbidden" } else { "InternalError" },
        "message": message});
    let body = Body::from(serde_json::to_vec(&status).unwrap());
    http::Response::builder().status(code).body(body).unwrap()
}

/// An embedded server, which stands idle where real ones are used.
pub(crate) struct Embedded {
    server: Server,
    is_idle: bool,
}

impl Embedded {
    /// What it counted.
    pub(crate) fn counter(&self) -> &WriteCounter {
        assert!(
            !self.is_idle,
            "real servers do not count: ask for World::embedded()"
        );
        self.server.counter()
    }

    /// Writing requests that it was sent.
    pub(crate) fn write_requests(&self) -> u64 {
        self.counter().write_requests()
    }

    /// Ends the watches that are open, as a server that goes away.
    pub(crate) fn close_watches(&self) {
        assert!(
            !self.is_idle,
            "real servers are not in this process: ask for World::embedded()"
        );
        self.server.close_watches();
    }

    /// The server itself, to put something in front of it.
    pub(crate) fn service(&self) -> roundhouse_apiserver::ApiService {
        assert!(
            !self.is_idle,
            "real servers are not in this process: ask for World::embedded()"
        );
        self.server.service()
    }
}

/// A hub and a member.
pub(crate) struct World {
    pub(crate) hub: Embedded,
    pub(crate) member: Embedded,
    pub(crate) hub_client: Client,
    pub(crate) member_client: Client,
    real: Option<Real>,
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

    /// As [`World::new`], but embedded wherever it runs: for what only an embedded server in paused time can tell.
    pub(crate) async fn embedded() -> Self {
        let world = World::start(None).await;
        world.make_lease(HUB_ID).await;
        world
    }

    pub(crate) async fn without_lease() -> Self {
        World::start(real::servers().await).await
    }

    async fn start(real: Option<Real>) -> Self {
        ON_REAL.set(real.is_some());
        let hub = Server::builder().seed(1).count_per_object(true).strict().build();
        let member = rights::member();
        let (hub_client, member_client) = match &real {
            Some(real) => (real.hub.clone(), real.member.clone()),
            None => (
                Client::new(hub.service(), "default"),
                Client::new(member.service(), "default"),
            ),
        };
        let is_idle = real.is_some();
        let world = World {
            hub: Embedded { server: hub, is_idle },
            member: Embedded {
                server: member,
                is_idle,
            },
            hub_client,
            member_client,
            real,
        };
        // The definitions that an agent meets.
        let needed = |kind: &str| matches!(kind, "Bundle" | "ClusterReport");
        for definition in crds::hub().into_iter().filter(|d| needed(&d.spec.names.kind)) {
            let definition = serde_json::to_value(definition).unwrap();
            if world.live(Side::Hub, &definition).await.is_none() {
                world.create(Side::Hub, definition).await;
            }
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
        let mut config = Config::new(ClusterName::new("c1").unwrap());
        let intervals = [
            &mut config.resync,
            &mut config.retry_min,
            &mut config.retry_max,
            &mut config.report_interval,
        ];
        for interval in intervals {
            *interval = hastened(*interval);
        }
        config
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
        let is_cut = Arc::clone(&cut);
        let gate = move |method: &http::Method, path: &str| {
            if is_cut.load(Ordering::Acquire) && holds(method, path) {
                Pass::Held
            } else {
                Pass::Through
            }
        };
        (self.gated(side, gate), cut)
    }

    /// A client to one side whose requests pass a gate.
    pub(crate) fn gated(
        &self,
        side: Side,
        gate: impl Fn(&http::Method, &str) -> Pass + Send + Sync + 'static,
    ) -> Client {
        let inner = self.client(side);
        let gate: Gate = Arc::new(gate);
        Client::new(Wire { inner, gate }, "default")
    }

    fn client(&self, side: Side) -> Client {
        match side {
            Side::Hub => self.hub_client.clone(),
            Side::Member => self.member_client.clone(),
        }
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
        let client = self.client(side);
        if namespace.is_empty() {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, namespace, &resource)
        }
    }

    /// The objects of the kind and namespace of `object`, and its name.
    pub(crate) fn api_of(&self, side: Side, object: &Value) -> (Api<DynamicObject>, String) {
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
        let (api, name) = self.api_of(side, &object);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let made = api.create(&PostParams::default(), &object).await.unwrap();
        if self.real.is_some() && object.types.is_some_and(|t| t.kind == "CustomResourceDefinition") {
            real::established(&api, &name).await;
        }
        serde_json::to_value(made).unwrap()
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

    /// Writes the evidence for the removal of a Bundle; answers its generation.
    pub(crate) async fn confirm(&self, name: &str, confirmed_by: &str) -> i64 {
        let evidence = json!({"spec": {"deletion": {"revision": "app-v1", "confirmedBy": confirmed_by}}});
        let live = self.merge(Side::Hub, &bundle(name), evidence).await;
        live["metadata"]["generation"].as_i64().unwrap()
    }

    /// Deletes a Bundle as dispatch does, finalizer and evidence first; answers the generation before the deletion.
    pub(crate) async fn tombstone(&self, name: &str, confirmed_by: &str) -> i64 {
        let finalizer = json!({"metadata": {"finalizers": ["roundhouse.dev/dispatch"]}});
        self.merge(Side::Hub, &bundle(name), finalizer).await;
        let generation = self.confirm(name, confirmed_by).await;
        self.delete(Side::Hub, &bundle(name)).await;
        generation
    }

    /// Takes dispatch's finalizer off.
    pub(crate) async fn release(&self, name: &str) {
        let released = json!({"metadata": {"finalizers": null}});
        self.merge(Side::Hub, &bundle(name), released).await;
    }

    /// Waits until the ledger says that the objects of a Bundle that vanished are held.
    pub(crate) async fn held(&self, name: &str) {
        eventually_with(
            "its objects are held",
            || self.ledger(name),
            |ledger| {
                ledger
                    .as_ref()
                    .is_some_and(|ledger| ledger["spec"]["state"] == "Orphaned")
            },
        )
        .await;
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

    /// Writing requests that both embedded servers were sent, those that changed nothing included, without renewals of
    /// the Lease. Only an embedded server counts them: see [`World::embedded`].
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
        self.hub.write_requests() + self.member.write_requests() - renewals
    }

    /// Stored writes at both servers, without the Lease's. At a real server, objects that are made, gone or at another
    /// resourceVersion than at the last look: equal at two looks means that nothing was written, as at an embedded one.
    pub(crate) fn writes(&self) -> u64 {
        if let Some(real) = &self.real {
            return real.changes();
        }
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

/// A Job.
pub(crate) fn job(image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}}})
}

/// A hand-written spec whose objects are all treated so.
pub(crate) fn treated(manifests: &[Value], strategy: Value) -> Value {
    let everything = json!({"group": "*", "resource": "*", "namespace": "*", "name": "*"});
    let mut config = json!({"resourceIdentifier": everything});
    config["updateStrategy"] = strategy;
    let mut content = spec(manifests);
    content["manifestConfigs"] = json!([config]);
    content
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

/// Lets time pass, for what must not happen. Where time is not paused, a hundredth of it, from one second to twelve.
pub(crate) async fn pass_time(seconds: u64) {
    let mut time = hastened(Duration::from_secs(seconds));
    if ON_REAL.get() {
        time = time.clamp(Duration::from_secs(1), Duration::from_secs(12));
    }
    tokio::time::sleep(time).await;
}
