//! A hub that is killed at each status that it writes, before or after the write is made, and another one that goes on: what
//! comes of it is what comes of it when nobody is killed. Every story is a sentence that users read. With `ROUNDHOUSE_LONG`
//! it is killed at each write of any kind, before it and after it.

use crate::{
    agents::Script,
    objects::flags,
    taking::take,
    world::{World, region, regions, web},
};
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::{Api, Client, ResourceExt, api::ListParams, client::Body};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase},
    bundle::Bundle,
    decision::Decision,
    hash,
    revision::ApplicationRevision,
};
use roundhouse_hub::action::{Executor, Job, Outcome};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tower::service_fn;

/// Counts the writes of a hub, and ends it at one of them.
#[derive(Clone, Default)]
pub(crate) struct Death {
    /// The write, from 1; 0: none.
    at: usize,
    /// The API server has it, and only the answer is lost.
    made: bool,
    writes: Arc<AtomicUsize>,
    died: Arc<Notify>,
}

impl Death {
    /// The client of the hub that is killed: from then on nobody answers it any more.
    pub(crate) fn through(&self, client: Client) -> Client {
        let death = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, death) = (client.clone(), death.clone());
            let path = request.uri().path();
            // What is told to people is told beside everything else.
            let counts = |path: &str| match long() {
                true => !path.ends_with("/events"),
                false => path.ends_with("/status"),
            };
            let writes = request.method() != Method::GET && counts(path);
            async move {
                let number = match writes {
                    true => death.writes.fetch_add(1, Ordering::SeqCst) + 1,
                    false => death.writes.load(Ordering::SeqCst),
                };
                if death.at == 0 || number < death.at {
                    return client.send(request).await;
                }
                if writes && number == death.at {
                    if death.made {
                        let _ = client.send(request).await;
                    }
                    death.died.notify_one();
                }
                std::future::pending().await
            }
        });
        Client::new(service, namespace)
    }

    /// Ends when the hub is to end.
    pub(crate) async fn comes(&self) {
        self.died.notified().await;
    }
}

/// Answers each request with a code, and notes for whom.
#[derive(Default)]
struct Answering {
    code: u16,
    asked: Mutex<BTreeSet<(String, String)>>,
}

impl Executor for Answering {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        // The code is of the second content: the first one has to be delivered for a way back.
        let code = if job.revision.ends_with("-v1") {
            200
        } else {
            self.code
        };
        self.asked
            .lock()
            .insert((job.step.clone(), job.idempotency_key()));
        let output = json!({"statusCode": code, "responseCode": code});
        Box::pin(std::future::ready(Outcome::Done { output }))
    }
}

/// What users read.
#[derive(Debug, Clone, Copy)]
enum Story {
    EastThenApprovalThenWest,
    WaitsFor90PercentReady,
    ResponsePicksTheNextStep(u16),
    AlwaysRunsAfterAFailure,
    GroupInParallel,
    DataFromOneComponentToAnother,
    SuspendsForADuration,
    TerminateAndRestartFromAStep,
    TakesAwayWhatAStepHasApplied,
}

fn flow(image: &str, steps: &Value) -> Value {
    json!({"components": web(image), "workflow": {"steps": steps}})
}

/// The request of the seed, and what its answer picks.
fn codes(image: &str) -> Value {
    json!({
        "components": web(image),
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{"replicas": "100%"}]}}],
        "workflow": {"steps": [
            {"name": "request", "type": "webhook", "properties": {"url": "https://gate.example"}},
            {"name": "handle-200", "type": "deploy", "if": "request.output.responseCode == 200", "properties": {"policies": ["all"]}},
            {"name": "handle-400", "type": "notification", "if": "request.output.responseCode == 400"},
            {"name": "handle-500", "type": "rollback", "if": "request.output.responseCode == 500"}]}
    })
}

/// The seed's database and the app that is given the name of its secret.
fn database() -> Value {
    json!({
        "components": [
            {"name": "my-db", "type": "k8s-objects", "properties": {"objects": [{"apiVersion": "database.example.org/v1alpha1",
                "kind": "MySQLInstance", "metadata": {"name": "my-db"}}]}},
            {"name": "web", "type": "webservice", "properties": {"image": "nginx:1"}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}}],
        "workflow": {"steps": [
            {"name": "db", "type": "apply-component", "outputs": [{"name": "connSecret", "valueFrom": "output.status.connSecret"}],
                "properties": {"name": "my-db"}},
            {"name": "app", "type": "apply-component", "inputs": [{"from": "connSecret", "parameterKey": "patch.valueFrom.field"}],
                "properties": {"name": "web", "patch": {"to": {"field": "spec.containers[0].envFrom[0].secretRef.name"},
                    "valueFrom": {"apiVersion": "database.example.org/v1alpha1", "kind": "MySQLInstance", "name": "my-db"}}}}]}
    })
}

impl Story {
    async fn tell(self, world: &World) {
        use ApplicationPhase::{Running, WorkflowFailed, WorkflowTerminated};
        use StepPhase::{Running as AtWork, Suspending};
        let agents = &world.agents;
        match self {
            Story::EastThenApprovalThenWest => {
                world.apply("app", regions("nginx:1")).await;
                world.until_step("approve", Suspending).await;
                assert_eq!(world.replicas("app").await.values().sum::<u64>(), 7);
                world.resume("app").await;
                world.until_phase("app", Running).await;
            }
            Story::WaitsFor90PercentReady => {
                agents.script("c3", Script::Applied).await;
                let mut step = region("east", "east", "100%");
                step["properties"]["wait"] = json!({"until": {"ready": "90%"}});
                world.apply("app", flow("nginx:1", &json!([step]))).await;
                world.until_step("east", AtWork).await;
                world.rest().await;
                world.until_step("east", AtWork).await;
                agents.script("c3", Script::Ready).await;
                world.until_phase("app", Running).await;
            }
            Story::ResponsePicksTheNextStep(code) => {
                world.apply("app", codes("nginx:1")).await;
                world.until_phase("app", Running).await;
                world.apply("app", codes("nginx:2")).await;
                let image = if code == 200 { "nginx:2" } else { "nginx:1" };
                let done = async |world: &World| {
                    let app = world.applications().get("app").await.unwrap();
                    let wanted = app.data.pointer("/spec/components/0/properties/image");
                    let goes_back = code != 500 || wanted == Some(&json!(image));
                    let status = world.status("app").await;
                    let taken_in = status.observed_generation == app.metadata.generation;
                    let workflow = status.workflow?;
                    let is_over = workflow.finished && workflow.generation == app.metadata.generation;
                    (goes_back && taken_in && is_over && (code == 500 || workflow.app_revision? == "app-v2"))
                        .then_some(())
                };
                world.until("app", "the second run is over", done).await;
            }
            Story::AlwaysRunsAfterAFailure => {
                let mut west = region("west", "west", "30%");
                west["if"] = json!("always");
                let fail = json!({"name": "broken", "type": "fail"});
                let steps = json!([region("east", "east", "70%"), fail, west]);
                world.apply("app", flow("nginx:1", &steps)).await;
                world.until_phase("app", WorkflowFailed).await;
            }
            Story::GroupInParallel => {
                for cluster in ["c1", "c4"] {
                    agents.script(cluster, Script::Silent).await;
                }
                let both = [region("east", "east", "70%"), region("west", "west", "30%")];
                let steps = json!([{"name": "both", "type": "step-group", "subSteps": both}]);
                world.apply("app", flow("nginx:1", &steps)).await;
                world.until_step("east", AtWork).await;
                world.until_step("west", AtWork).await;
                let all = async |world: &World| (world.dispatched("app").await.len() == 5).then_some(());
                world.until("app", "both are dispatched", all).await;
                for cluster in ["c1", "c4"] {
                    agents.script(cluster, Script::Ready).await;
                }
                world.until_phase("app", Running).await;
            }
            Story::DataFromOneComponentToAnother => {
                world.apply("app", database()).await;
                world.until_step("db", AtWork).await;
                for cluster in ["c1", "c2", "c3"] {
                    agents.say(cluster, "connSecret", "secret-1").await;
                }
                world.until_phase("app", Running).await;
            }
            Story::SuspendsForADuration => {
                let wait = json!({"name": "s", "type": "suspend", "properties": {"duration": "30m"}});
                world
                    .apply(
                        "app",
                        flow("nginx:1", &json!([wait, region("east", "east", "100%")])),
                    )
                    .await;
                world.until_step("s", Suspending).await;
                tokio::time::sleep(Duration::from_secs(1790)).await;
                assert!(world.dispatched("app").await.is_empty());
                world.until_phase("app", Running).await;
            }
            Story::TakesAwayWhatAStepHasApplied => {
                let ask = json!({"name": "ask", "type": "suspend"});
                let steps = json!([
                    flags(&json!({"region": "east"}), "1"),
                    ask,
                    take(&json!(["c1", "c2"])),
                    region("east", "east", "100%")
                ]);
                world.apply("app", flow("nginx:1", &steps)).await;
                world.until_step("ask", Suspending).await;
                agents.script("c2", Script::Silent).await;
                world.resume("app").await;
                world.until_step("away", AtWork).await;
                agents.script("c2", Script::Ready).await;
                world.until_phase("app", Running).await;
            }
            Story::TerminateAndRestartFromAStep => {
                agents.script("c4", Script::Silent).await;
                let steps = json!([region("east", "east", "70%"), region("west", "west", "30%")]);
                world.apply("app", flow("nginx:1", &steps)).await;
                world.until_step("west", AtWork).await;
                let status = json!({"workflow": {"terminated": true}});
                world.patch_status("app", status).await;
                world.until_phase("app", WorkflowTerminated).await;
                let status = json!({"workflow": {"restartFrom": "west"}});
                world.patch_status("app", status).await;
                world.until_step("west", AtWork).await;
                agents.script("c4", Script::Ready).await;
                world.until_phase("app", Running).await;
            }
        }
    }

    /// What comes of it, and how many writes that took the hub.
    async fn outcome(self, at: usize, made: bool) -> (Came, usize) {
        let code = match self {
            Story::ResponsePicksTheNextStep(code) => code,
            _ => 200,
        };
        let answering = Arc::new(Answering {
            code,
            ..Answering::default()
        });
        let mut world = World::with_executor(Arc::new(Shared(answering.clone()))).await;
        world.stop_hub().await;
        let death = Death {
            at,
            made,
            ..Death::default()
        };
        world.start_mortal_hub(&death);
        self.tell(&world).await;
        world.rest().await;
        (
            Came::of(&world, &answering).await,
            death.writes.load(Ordering::SeqCst),
        )
    }
}

struct Shared(Arc<Answering>);

impl Executor for Shared {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        self.0.run(job)
    }
}

/// All that must not depend on who died on the way.
#[derive(Debug, PartialEq)]
struct Came {
    phase: Option<ApplicationPhase>,
    steps: BTreeMap<String, StepPhase>,
    delivered: Option<String>,
    /// Bundle -> what it says, and how often that was changed.
    bundles: BTreeMap<String, (String, Option<i64>)>,
    decisions: BTreeSet<String>,
    revisions: BTreeSet<String>,
    /// How often steps were asked for under another key.
    requests: BTreeMap<String, usize>,
}

impl Came {
    async fn of(world: &World, answering: &Answering) -> Came {
        let status = world.status("app").await;
        let steps = status.workflow.iter().flat_map(|workflow| workflow.all_steps());
        let all = ListParams::default();
        let bundles: Api<Bundle> = Api::all(world.client.clone());
        let bundles = bundles.list(&all).await.unwrap().into_iter().map(|bundle| {
            let title = format!("{}/{}", bundle.namespace().unwrap(), bundle.name_any());
            let mut spec = serde_json::to_value(&bundle.spec).unwrap();
            // Identities are new in every world, and every hub has an epoch of its own.
            spec["applicationRef"]["uid"] = Value::Null;
            spec["epoch"] = Value::Null;
            (title, (hash::of_value(&spec), bundle.metadata.generation))
        });
        let decisions: Api<Decision> = Api::namespaced(world.client.clone(), "default");
        let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
        let mut requests = BTreeMap::new();
        for (step, _) in answering.asked.lock().iter() {
            *requests.entry(step.clone()).or_default() += 1;
        }
        Came {
            phase: status.phase,
            steps: steps.map(|step| (step.name.clone(), step.phase)).collect(),
            delivered: status.delivered_revision.clone(),
            bundles: bundles.collect(),
            decisions: decisions
                .list(&all)
                .await
                .unwrap()
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
            revisions: revisions
                .list(&all)
                .await
                .unwrap()
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
            requests,
        }
    }
}

/// Whether there is time for everything.
fn long() -> bool {
    std::env::var("ROUNDHOUSE_LONG").is_ok_and(|value| value == "1")
}

/// Tells the story once undisturbed, then with a death at each write.
async fn the_same_whoever_dies(story: Story) {
    let (undisturbed, writes) = story.outcome(0, false).await;
    assert!(writes > 2, "{story:?}: {writes} writes");
    for at in 1..=writes {
        for made in [false, true] {
            if !long() && made == (at % 2 == 0) {
                continue;
            }
            let (came, counted) = story.outcome(at, made).await;
            assert!(counted >= at, "{story:?}: nobody died at write {at}");
            assert_eq!(
                came, undisturbed,
                "{story:?}: write {at} of {writes}, made: {made}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn east_first_then_approval_then_west() {
    the_same_whoever_dies(Story::EastThenApprovalThenWest).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_90_percent_ready() {
    the_same_whoever_dies(Story::WaitsFor90PercentReady).await;
}

#[tokio::test(start_paused = true)]
async fn a_response_code_picks_the_next_step() {
    for code in [200, 400, 500] {
        the_same_whoever_dies(Story::ResponsePicksTheNextStep(code)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn always_runs_after_a_failure() {
    the_same_whoever_dies(Story::AlwaysRunsAfterAFailure).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_is_dispatched_in_parallel() {
    the_same_whoever_dies(Story::GroupInParallel).await;
}

#[tokio::test(start_paused = true)]
async fn data_of_one_components_status_gets_into_another() {
    the_same_whoever_dies(Story::DataFromOneComponentToAnother).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspension_ends_after_its_time() {
    the_same_whoever_dies(Story::SuspendsForADuration).await;
}

#[tokio::test(start_paused = true)]
async fn terminate_and_restart_from_a_step() {
    the_same_whoever_dies(Story::TerminateAndRestartFromAStep).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_takes_away_what_an_earlier_one_has_applied() {
    the_same_whoever_dies(Story::TakesAwayWhatAStepHasApplied).await;
}
