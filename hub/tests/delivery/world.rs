//! A hub on an API server, and the words that the tests use.

use crate::{
    agents::Agents,
    asked::Asked,
    killed::Death,
    real::{self, Real},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, ApplicationStatus, StepPhase},
    bundle::Bundle,
    clock::{Clock, SharedClock},
    cluster::{AVAILABLE, Cluster, ClusterSpec, ClusterStatus, JOINED},
    decision::Decision,
};
use roundhouse_apiserver::{Server, envtest::skipped};
use roundhouse_hub::{
    action::Executor,
    application::{self, ApplicationOptions},
    leader::{Leading, stored_epoch},
    run,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The clock of a test: it goes with tokio's, which may be paused.
#[derive(Debug)]
pub(crate) struct TestClock(tokio::time::Instant);

impl TestClock {
    pub(crate) fn shared() -> SharedClock {
        Arc::new(TestClock(tokio::time::Instant::now()))
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

const FIVE: [(&str, &str); 5] = [
    ("c1", "east"),
    ("c2", "east"),
    ("c3", "east"),
    ("c4", "west"),
    ("c5", "west"),
];

/// What a hub has that is the only one: its epoch is above all that are stored.
async fn next_term(client: &Client) -> Leading {
    Leading::always(stored_epoch(client).await.unwrap() + 1)
}

pub(crate) struct World {
    server: Behind,
    pub(crate) client: Client,
    pub(crate) agents: Agents,
    pub(crate) clock: SharedClock,
    /// What the hub has asked for.
    pub(crate) asked: Asked,
    options: ApplicationOptions,
    hub: Option<(CancellationToken, JoinHandle<()>)>,
}

/// The API server of the hub.
enum Behind {
    Embedded(Server),
    Real(Box<Real>),
}

impl World {
    /// A hub over the given clusters, `(name, region)`, with agents that report everything ready.
    pub(crate) async fn new(clusters: &[(&str, &str)]) -> World {
        World::with_options(clusters, ApplicationOptions::default()).await
    }

    /// Five clusters as [`World::five`], and a hub whose steps act through `executor`.
    pub(crate) async fn with_executor(executor: Arc<dyn Executor>) -> World {
        let options = ApplicationOptions {
            executor: Some(executor),
            ..ApplicationOptions::default()
        };
        World::with_options(&FIVE, options).await
    }

    /// A hub over the given clusters, with settings of its application controller.
    pub(crate) async fn with_options(clusters: &[(&str, &str)], options: ApplicationOptions) -> World {
        skipped::paused().unwrap();
        World::start(clusters, options, None).await
    }

    /// As [`World::new`], on a real API server where the environment names one: nothing is known then of requests and of counts,
    /// and time is not paused.
    pub(crate) async fn on_any_server(clusters: &[(&str, &str)]) -> World {
        World::start(clusters, ApplicationOptions::default(), real::server().await).await
    }

    async fn start(clusters: &[(&str, &str)], options: ApplicationOptions, real: Option<Real>) -> World {
        let clock = TestClock::shared();
        let (server, client) = match real {
            Some(real) => {
                let client = real.client.clone();
                (Behind::Real(Box::new(real)), client)
            }
            None => {
                let clock = clock.clone();
                let server = Server::builder()
                    .seed(7)
                    .clock(Arc::new(move || clock.now()))
                    .count_per_object(true)
                    .strict()
                    .build();
                let client = Client::new(server.service(), "default");
                (Behind::Embedded(server), client)
            }
        };
        run::install(&client, &run::HubOptions::default()).await.unwrap();
        let mut world = World {
            agents: Agents::start(client.clone()),
            server,
            client,
            clock,
            asked: Asked::default(),
            options,
            hub: None,
        };
        for (name, region) in clusters {
            world.join(name, &[("region", region)]).await;
        }
        world.start_hub();
        world
    }

    /// East c1, c2, c3 and west c4, c5.
    pub(crate) async fn five() -> World {
        World::new(&FIVE).await
    }

    /// As [`World::five`], on any server.
    pub(crate) async fn five_on_any_server() -> World {
        World::on_any_server(&FIVE).await
    }

    /// The embedded API server.
    pub(crate) fn server(&self) -> &Server {
        match &self.server {
            Behind::Embedded(server) => server,
            Behind::Real(_) => {
                panic!("the server is a real one: World::five is for tests that count its requests")
            }
        }
    }

    /// A mark of what is stored: on the embedded server how many writes it has stored.
    pub(crate) async fn mark(&self) -> u64 {
        match &self.server {
            Behind::Embedded(server) => server.counter().total_stored(),
            Behind::Real(real) => real.mark().await,
        }
    }

    /// Lets a time pass in which nothing should happen; where time is real, a quarter of a minute of it at the most.
    pub(crate) async fn long_while(&self, time: Duration) {
        let real = matches!(self.server, Behind::Real(_));
        let most = if real { Duration::from_secs(15) } else { time };
        tokio::time::sleep(time.min(most)).await;
    }

    pub(crate) fn start_hub(&mut self) {
        let stop = CancellationToken::new();
        let (client, asked) = (self.client.clone(), self.asked.clone());
        let (options, clock, token) = (self.options.clone(), self.clock.clone(), stop.clone());
        let running = async move {
            let leading = next_term(&client).await;
            application::run(asked.through(client), options, leading, clock, token).await;
        };
        self.hub = Some((stop, tokio::spawn(running)));
    }

    /// Starts a hub that is killed when its death comes: nothing that it does is finished. Another one goes on at once.
    pub(crate) fn start_mortal_hub(&mut self, death: &Death) {
        let stop = CancellationToken::new();
        let (client, options, clock) = (self.client.clone(), self.options.clone(), self.clock.clone());
        let run = move |client, leading, stop| {
            application::run(client, options.clone(), leading, clock.clone(), stop)
        };
        let (death, token) = (death.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let leading = next_term(&client).await;
            tokio::select! {
                () = run(death.through(client.clone()), leading, token.clone()) => return,
                () = death.comes() => {}
            }
            let leading = next_term(&client).await;
            run(client, leading, token).await;
        });
        self.hub = Some((stop, task));
    }

    pub(crate) async fn stop_hub(&mut self) {
        let (stop, task) = self.hub.take().unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    /// Registers a cluster as the cluster controller would.
    pub(crate) async fn join(&self, name: &str, labels: &[(&str, &str)]) {
        self.namespace(name).await;
        let mut cluster = Cluster::new(
            name,
            ClusterSpec {
                accepted: true,
                ..ClusterSpec::default()
            },
        );
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        cluster.metadata.labels = Some(labels.collect());
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        clusters.create(&PostParams::default(), &cluster).await.unwrap();
        self.available(name, true).await;
    }

    pub(crate) async fn namespace(&self, cluster: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(format!("cluster-{cluster}"));
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }

    /// Says whether a cluster's Lease is fresh.
    pub(crate) async fn available(&self, name: &str, available: bool) {
        let condition = |type_: &str, status: bool| Condition {
            type_: type_.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: "Test".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(self.clock.now()),
        };
        let status = ClusterStatus {
            conditions: vec![condition(JOINED, true), condition(AVAILABLE, available)],
            ..ClusterStatus::default()
        };
        self.patch_cluster_status(name, json!(status)).await;
    }

    pub(crate) async fn label_cluster(&self, name: &str, labels: Value) {
        self.patch_cluster(name, json!({"metadata": {"labels": labels}}))
            .await;
    }

    /// Sets the taints of a cluster.
    pub(crate) async fn taint_cluster(&self, name: &str, taints: Value) {
        self.patch_cluster(name, json!({"spec": {"taints": taints}}))
            .await;
    }

    async fn patch_cluster(&self, name: &str, patch: Value) {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        clusters
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Changes the status of a cluster as the cluster controller would.
    pub(crate) async fn patch_cluster_status(&self, name: &str, status: Value) {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"status": status}));
        clusters
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) fn applications(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Application>(&());
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    /// Creates an application, or replaces its spec.
    pub(crate) async fn apply(&self, name: &str, spec: Value) {
        let applications = self.applications();
        match applications.get_opt(name).await.unwrap() {
            Some(_) => {
                // A merge patch would keep fields that the new spec has not.
                let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
                let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
                applications
                    .patch(name, &PatchParams::default(), &patch)
                    .await
                    .unwrap();
            }
            None => {
                let resource = ApiResource::erase::<Application>(&());
                let object = DynamicObject::new(name, &resource).data(json!({"spec": spec}));
                applications
                    .create(&PostParams::default(), &object)
                    .await
                    .unwrap();
            }
        }
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.applications()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn patch_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.applications()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Pauses a run, and waits until the hub has taken that up.
    pub(crate) async fn suspend(&self, name: &str) {
        self.patch_status(name, json!({"workflow": {"suspend": true}}))
            .await;
        self.until_phase(name, ApplicationPhase::WorkflowSuspending).await;
    }

    /// Ends a run.
    pub(crate) async fn terminate(&self, name: &str) {
        self.patch_status(name, json!({"workflow": {"terminated": true}}))
            .await;
    }

    /// Lets a suspended run go on.
    pub(crate) async fn resume(&self, name: &str) {
        self.patch_status(name, json!({"workflow": {"suspend": false}}))
            .await;
    }

    /// Applies what suspends itself for an approval, approves it, and waits until all of it runs.
    pub(crate) async fn deliver_approved(&self, name: &str, spec: Value) {
        self.apply(name, spec).await;
        self.until_phase(name, ApplicationPhase::WorkflowSuspending).await;
        self.resume(name).await;
        self.until_phase(name, ApplicationPhase::Running).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.applications()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn status(&self, name: &str) -> ApplicationStatus {
        match self.applications().get_opt(name).await.unwrap() {
            Some(object) => serde_json::from_value(object.data["status"].clone()).unwrap_or_default(),
            None => ApplicationStatus::default(),
        }
    }

    pub(crate) async fn bundle(&self, cluster: &str, app: &str) -> Option<Bundle> {
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        bundles.get_opt(&format!("default.{app}")).await.unwrap()
    }

    /// Takes a Bundle away as nobody should: without its finalizers.
    pub(crate) async fn remove_bundle(&self, cluster: &str, app: &str) {
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        let name = format!("default.{app}");
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        bundles
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        bundles.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a Bundle as `kubectl delete` does, without waiting.
    pub(crate) async fn delete_bundle(&self, cluster: &str, app: &str) {
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        let params = DeleteParams::default();
        bundles.delete(&format!("default.{app}"), &params).await.unwrap();
    }

    /// Writes the evidence of a confirmation to a Bundle, as a hub does before it deletes it.
    pub(crate) async fn confirm_bundle(&self, cluster: &str, app: &str, hash: &str) {
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        let patch = json!({"spec": {"deletion": {"revision": format!("{app}-v2"), "confirmedBy": hash}}});
        bundles
            .patch(
                &format!("default.{app}"),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
            .unwrap();
    }

    pub(crate) async fn decision(&self, name: &str) -> Option<Decision> {
        let decisions: Api<Decision> = Api::namespaced(self.client.clone(), "default");
        decisions.get_opt(name).await.unwrap()
    }

    /// Cluster → (replicas, image) of an application's Deployment, over all Bundles.
    pub(crate) async fn dispatched(&self, app: &str) -> BTreeMap<String, (u64, String)> {
        let bundles: Api<Bundle> = Api::all(self.client.clone());
        let all = bundles.list(&Default::default()).await.unwrap();
        let own = all
            .into_iter()
            .filter(|b| b.name_any() == format!("default.{app}"));
        own.map(|bundle| {
            let cluster = bundle.namespace().unwrap().replacen("cluster-", "", 1);
            let manifests = &bundle.spec.workload.manifests;
            let deployment = manifests.iter().find(|m| m["kind"] == "Deployment");
            let text = |pointer: &str| {
                deployment
                    .and_then(|d| d.pointer(pointer))
                    .cloned()
                    .unwrap_or_default()
            };
            let replicas = text("/spec/replicas").as_u64().unwrap_or_default();
            let image = text("/spec/template/spec/containers/0/image");
            (cluster, (replicas, image.as_str().unwrap_or_default().to_owned()))
        })
        .collect()
    }

    /// Replicas by cluster, in order.
    pub(crate) async fn replicas(&self, app: &str) -> BTreeMap<String, u64> {
        let all = self.dispatched(app).await;
        all.into_iter()
            .map(|(cluster, (replicas, _))| (cluster, replicas))
            .collect()
    }

    /// The images of an application's Deployment, over all clusters, each once.
    pub(crate) async fn images(&self, app: &str) -> Vec<String> {
        let all = self.dispatched(app).await;
        let images: BTreeSet<String> = all.into_values().map(|(_, image)| image).collect();
        images.into_iter().collect()
    }

    /// Waits until a step of application `app` is in a phase.
    pub(crate) async fn until_step(&self, step: &str, phase: StepPhase) {
        let what = format!("step {step} is {phase:?}");
        let is = async |world: &World| {
            let workflow = world.status("app").await.workflow?;
            (workflow.step(step)?.phase == phase).then_some(())
        };
        self.until("app", &what, is).await;
    }

    /// Waits until `check` says what it found, or panics with the application's status.
    pub(crate) async fn until<T, F>(&self, app: &str, what: &str, mut check: F) -> T
    where
        F: AsyncFnMut(&World) -> Option<T>,
    {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(found) = check(self).await {
                return found;
            }
            if tokio::time::Instant::now() > deadline {
                let status = serde_json::to_string_pretty(&self.status(app).await).unwrap();
                panic!(
                    "{what}: not within the deadline\n{status}\n{:#?}",
                    self.dispatched(app).await
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn until_phase(&self, app: &str, phase: ApplicationPhase) -> ApplicationStatus {
        let generation = self.applications().get(app).await.unwrap().metadata.generation;
        self.until(app, &format!("phase {phase:?}"), async |world: &World| {
            let status = world.status(app).await;
            (status.phase == Some(phase) && status.observed_generation == generation).then_some(status)
        })
        .await
    }

    /// Waits until a cluster has replicas of an application.
    pub(crate) async fn until_placed_on(&self, app: &str, cluster: &str) {
        self.until(app, &format!("{cluster} has replicas"), async |world: &World| {
            let replicas = world.replicas(app).await;
            replicas.get(cluster).filter(|n| **n > 0).map(|_| ())
        })
        .await;
    }

    /// Waits until nothing is left of an application on a cluster.
    pub(crate) async fn until_removed(&self, app: &str, cluster: &str) {
        self.until(app, &format!("{cluster} is clean"), async |world: &World| {
            world.bundle(cluster, app).await.is_none().then_some(())
        })
        .await;
    }

    /// Waits until an application is not there any more.
    pub(crate) async fn until_gone(&self, app: &str) {
        self.until(app, "the application is gone", async |world: &World| {
            let found = world.applications().get_opt(app).await.unwrap();
            found.is_none().then_some(())
        })
        .await;
    }

    /// Lets everything come to rest: no stored write for a while. Returns the mark of what is there then.
    pub(crate) async fn rest(&self) -> u64 {
        let mut before = self.mark().await;
        for _ in 0..1_000 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let now = self.mark().await;
            if now == before {
                return now;
            }
            before = now;
        }
        panic!("something is written again and again");
    }
}

/// A webservice of 10 replicas.
pub(crate) fn web(image: &str) -> Value {
    json!([{"name": "web", "type": "webservice", "properties": {"image": image, "replicas": 10,
        "ports": [{"port": 80, "expose": true}]}}])
}

/// A placing step for one region.
pub(crate) fn region(name: &str, region: &str, share: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [
        {"clusterSelector": {"region": region}, "replicas": share}]}})
}

/// The seed's application.
pub(crate) fn seed(image: &str) -> Value {
    json!({"components": web(image), "workflow": {"steps": [{"type": "open-cluster-management",
        "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"clusterSelector": {"region": "west"}, "replicas": "20%"}]}}]}})
}

/// East, approval, west.
pub(crate) fn regions(image: &str) -> Value {
    json!({"components": web(image), "workflow": {"steps": [
        region("east", "east", "70%"),
        {"name": "approve", "type": "suspend"},
        region("west", "west", "30%")]}})
}
