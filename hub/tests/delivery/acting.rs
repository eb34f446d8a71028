//! Steps that act: what came of them picks the next step, and a slow one holds up nobody else.

use crate::world::{World, region, web};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use roundhouse_api::application::{ApplicationPhase, ApplicationStatus, StepPhase};
use roundhouse_hub::{
    action::{Executor, Job, Outcome},
    application::ApplicationOptions,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// What an executor answers to a job; `None`: nothing, ever.
type Tell = dyn Fn(&Job) -> Option<Outcome> + Send + Sync;

/// An executor whose outcomes a test says.
#[derive(Clone)]
struct Told {
    jobs: Arc<Mutex<Vec<Job>>>,
    tell: Arc<Tell>,
}

impl Told {
    /// `None`: that job never ends.
    fn new(tell: impl Fn(&Job) -> Option<Outcome> + Send + Sync + 'static) -> Told {
        Told {
            jobs: Arc::default(),
            tell: Arc::new(tell),
        }
    }

    /// The steps that were executed, in order.
    fn steps(&self) -> Vec<String> {
        self.jobs.lock().iter().map(|job| job.step.clone()).collect()
    }
}

impl Executor for Told {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        let outcome = (self.tell)(&job);
        self.jobs.lock().push(job);
        Box::pin(async move {
            match outcome {
                Some(outcome) => outcome,
                None => std::future::pending().await,
            }
        })
    }
}

async fn world(told: &Told) -> World {
    let options = ApplicationOptions {
        executor: Some(Arc::new(told.clone())),
        ..ApplicationOptions::default()
    };
    World::with_options(&[("c1", "east")], options).await
}

/// What a webhook comes to that expects 2xx.
fn answered(status: u16) -> Outcome {
    let output = json!({"statusCode": status, "responseCode": status, "headers": {}, "body": null});
    match status {
        200..=299 => Outcome::Done { output },
        _ => Outcome::Failed {
            message: format!("https://gate.example answered {status}; expected 2xx"),
            output: Some(output),
        },
    }
}

/// The seed's example.
fn codes(image: &str) -> Value {
    json!({
        "components": web(image),
        "policies": [{"name": "everywhere", "type": "placement", "properties": {"placement": [{"replicas": "100%"}]}}],
        "workflow": {"steps": [
            {"name": "request", "type": "webhook", "properties": {"url": "https://gate.example"}},
            {"name": "handle-200", "type": "deploy", "if": "request.output.responseCode == 200", "properties": {"policies": ["everywhere"]}},
            {"name": "handle-400", "type": "notification", "if": "request.output.responseCode == 400"},
            {"name": "handle-500", "type": "rollback", "if": "request.output.responseCode == 500"}]}
    })
}

fn phases(status: &ApplicationStatus) -> Vec<(String, StepPhase)> {
    let steps = status.workflow.iter().flat_map(|workflow| &workflow.steps);
    steps.map(|step| (step.name.clone(), step.phase)).collect()
}

fn named(phases: [StepPhase; 4]) -> Vec<(String, StepPhase)> {
    let names = ["request", "handle-200", "handle-400", "handle-500"].map(str::to_owned);
    names.into_iter().zip(phases).collect()
}

#[tokio::test(start_paused = true)]
async fn a_response_code_of_200_picks_the_deployment() {
    use StepPhase::{Skipped, Succeeded};
    let told = Told::new(|_| Some(answered(200)));
    let world = world(&told).await;
    world.apply("web", codes("nginx:1")).await;
    let status = world.until_phase("web", ApplicationPhase::Running).await;
    assert_eq!(phases(&status), named([Succeeded, Succeeded, Skipped, Skipped]));
    assert_eq!(told.steps(), ["request"]);
}

#[tokio::test(start_paused = true)]
async fn a_response_code_of_400_picks_the_notification() {
    use StepPhase::{Failed, Skipped, Succeeded};
    let told = Told::new(|job| {
        Some(match job.step.as_str() {
            "request" => answered(400),
            _ => Outcome::Done { output: json!({}) },
        })
    });
    let world = world(&told).await;
    world.apply("web", codes("nginx:1")).await;
    let status = world.until_phase("web", ApplicationPhase::WorkflowFailed).await;
    assert_eq!(phases(&status), named([Failed, Skipped, Succeeded, Skipped]));
    // Tried once and ten times more, then the people are told once.
    let mut steps = told.steps();
    assert_eq!(steps.pop().as_deref(), Some("handle-400"));
    assert_eq!(steps, vec!["request"; 11]);
    let keys: Vec<String> = told.jobs.lock().iter().map(Job::idempotency_key).collect();
    assert!(
        keys[..11].iter().all(|key| *key == keys[0]),
        "one run, one step, one key: {keys:?}"
    );
    assert_ne!(keys[11], keys[0]);
}

#[tokio::test(start_paused = true)]
async fn a_response_code_of_500_picks_the_rollback() {
    let told = Told::new(|job| Some(answered(if job.revision == "web-v2" { 500 } else { 200 })));
    let world = world(&told).await;
    world.apply("web", codes("nginx:1")).await;
    world.until_phase("web", ApplicationPhase::Running).await;
    world.apply("web", codes("nginx:2")).await;
    let image = "/spec/components/0/properties/image";
    world
        .until("web", "what was delivered before", async |world: &World| {
            let app = world.applications().get("web").await.unwrap();
            let back = app.data.pointer(image) == Some(&json!("nginx:1"));
            let status = world.status("web").await;
            let own = status.observed_generation == app.metadata.generation;
            (back && own && status.phase == Some(ApplicationPhase::Running)).then_some(())
        })
        .await;
    assert!(told.jobs.lock().iter().any(|job| job.revision == "web-v2"));
}

fn calls(url: &str) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "call", "type": "webhook", "properties": {"url": url}},
        region("east", "east", "100%")]}})
}

#[tokio::test(start_paused = true)]
async fn two_runs_that_begin_within_a_second_share_nothing() {
    let told = Told::new(|job| (job.revision == "web-v2").then(|| answered(200)));
    let world = world(&told).await;
    world.apply("web", calls("https://wrong.example")).await;
    world
        .until("web", "the first call", async |_: &World| {
            (!told.jobs.lock().is_empty()).then_some(())
        })
        .await;
    let began = world.status("web").await.workflow.unwrap().start_time;
    world.apply("web", calls("https://right.example")).await;
    let status = world.until_phase("web", ApplicationPhase::Running).await;
    assert_eq!(
        status.workflow.unwrap().start_time,
        began,
        "both in one second, as the status shows it"
    );
    let keys: Vec<String> = told.jobs.lock().iter().map(Job::idempotency_key).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_from_a_step_leaves_the_calls_of_others_alone() {
    let told = Told::new(|job| (job.step == "other").then(|| answered(200)));
    let world = world(&told).await;
    let call =
        |name: &str| json!({"name": name, "type": "webhook", "properties": {"url": "https://x.example"}});
    let spec = json!({"components": web("nginx:1"), "workflow": {"mode": {"steps": "DAG"}, "steps": [
        call("slow"), call("other"), region("east", "east", "100%")]}});
    world.apply("web", spec).await;
    let called = async |step: &str, times: usize| {
        world
            .until("web", "a call", async |_: &World| {
                let steps = told.steps();
                (steps.iter().filter(|name| *name == step).count() == times).then_some(())
            })
            .await;
    };
    called("slow", 1).await;
    called("other", 1).await;
    world
        .patch_status("web", json!({"workflow": {"restartFrom": "other"}}))
        .await;
    called("other", 2).await;
    world.rest().await;
    let jobs = told.jobs.lock();
    assert_eq!(jobs.iter().filter(|job| job.step == "slow").count(), 1);
    let keys: Vec<String> = jobs
        .iter()
        .filter(|job| job.step == "other")
        .map(Job::idempotency_key)
        .collect();
    assert_ne!(keys[0], keys[1], "it is asked for anew");
}

#[tokio::test(start_paused = true)]
async fn an_application_that_is_deleted_holds_up_nobody() {
    let told = Told::new(|job| (job.application.name == "web").then(|| answered(200)));
    let world = world(&told).await;
    let held: Vec<Value> = (0..4)
        .map(|n| json!({"name": format!("call-{n}"), "type": "webhook", "properties": {"url": "https://gate.example"}}))
        .collect();
    let stuck = json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "all", "type": "step-group", "subSteps": held}, region("east", "east", "100%")]}});
    let names = ["a", "b", "c", "d"];
    for name in names {
        world.apply(name, stuck.clone()).await;
    }
    world
        .until("a", "every place is taken", async |_: &World| {
            (told.steps().len() == 12).then_some(())
        })
        .await;
    world.apply("web", calls("https://gate.example")).await;
    world.rest().await;
    assert_eq!(told.steps().len(), 12);
    for name in names {
        world.delete(name).await;
    }
    world.until_phase("web", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn many_webhooks_of_one_application_leave_room_for_others() {
    let told = Told::new(|job| (job.application.name != "stuck").then(|| answered(200)));
    let world = world(&told).await;
    let calls: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("call-{n}"), "type": "webhook", "properties": {"url": "https://gate.example"}}))
        .collect();
    let stuck = json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "all", "type": "step-group", "subSteps": calls}, region("east", "east", "100%")]}});
    world.apply("stuck", stuck).await;
    world
        .until("stuck", "calls", async |_: &World| {
            (told.steps().len() >= 2).then_some(())
        })
        .await;
    let one = json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "call", "type": "webhook", "properties": {"url": "https://gate.example"}},
        region("east", "east", "100%")]}});
    world.apply("web", one).await;
    world.until_phase("web", ApplicationPhase::Running).await;
    let held = told
        .jobs
        .lock()
        .iter()
        .filter(|job| job.application.name == "stuck")
        .count();
    assert!(held < 40, "{held} at once");
}
