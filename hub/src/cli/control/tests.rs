//! Commands on a hub on which somebody else writes in between.

use super::{Command, give};
use crate::cli::subject::Subject;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    client::Body,
};
use roundhouse_api::application::{Application, ApplicationStatus, StepPhase};
use roundhouse_apiserver::Server;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A hub with the application `web` of this spec.
pub(in crate::cli) async fn hub_with(spec: &Value) -> (Client, DynamicObject) {
    let client = Client::new(Server::builder().seed(1).build().service(), "default");
    crate::run::install(&client, &crate::run::HubOptions::default())
        .await
        .unwrap();
    let web = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default"}, "spec": spec});
    let web: DynamicObject = serde_json::from_value(web).unwrap();
    let api = subject().api(&client);
    let made = api.create(&PostParams::default(), &web).await.unwrap();
    (client, made)
}

/// One whose run waits at the first of two gates.
async fn hub() -> Client {
    let spec =
        json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}]});
    let (client, _) = hub_with(&spec).await;
    stands(&client, &run(["suspending", "pending"])).await;
    client
}

pub(in crate::cli) fn subject() -> Subject {
    Subject {
        application: "web".to_owned(),
        namespace: "default".to_owned(),
        kubeconfig: None,
    }
}

fn run([first, second]: [&str; 2]) -> Value {
    let step = |name: &str, phase: &str| json!({"name": name, "type": "suspend", "phase": phase});
    json!({"observedGeneration": 1, "phase": "workflowSuspending", "workflow": {"run": 1000, "status": "suspending",
        "suspend": true, "steps": [step("gate-1", first), step("gate-2", second)]}})
}

/// Writes a status, as the hub does.
async fn stands(client: &Client, status: &Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let api = subject().api(client);
    api.patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn status(client: &Client) -> ApplicationStatus {
    let api: Api<Application> = Api::namespaced(client.clone(), "default");
    api.get("web").await.unwrap().status.unwrap()
}

/// A client of somebody whose first write is overtaken: just before it arrives, others write what they want to.
pub(in crate::cli) fn overtaken<Done>(
    inner: &Client,
    by: impl Fn(Client) -> Done + Send + Sync + 'static,
) -> Client
where
    Done: Future<Output = ()> + Send + 'static,
{
    let (inner, by, first) = (inner.clone(), Arc::new(by), Arc::new(AtomicBool::new(true)));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, by, first) = (inner.clone(), by.clone(), first.clone());
        async move {
            if request.method() != http::Method::GET && first.swap(false, Ordering::Relaxed) {
                by(inner.clone()).await;
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

/// Overtaken by this status.
fn behind(hub: &Client, status: Value) -> Client {
    overtaken(hub, move |hub| {
        let status = status.clone();
        async move { stands(&hub, &status).await }
    })
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_was_not_looked_at_is_not_opened() {
    let hub = hub().await;
    let overtaken = behind(&hub, run(["succeeded", "suspending"]));
    let done = give(&subject(), &overtaken, &Command::Resume).await.unwrap();
    assert_eq!(
        done,
        "is resumed already: it is past step gate-1, and it waits at step gate-2 for a resume of its own"
    );
    let run = status(&hub).await.workflow.unwrap();
    assert!(run.suspend, "{run:?}");
    assert_eq!(run.step("gate-2").unwrap().phase, StepPhase::Suspending);
    // Whoever looks again resumes what is there now.
    let done = give(&subject(), &hub, &Command::Resume).await.unwrap();
    assert_eq!(done, "resumed");
    assert!(!status(&hub).await.workflow.unwrap().suspend);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_started_in_between_is_not_ended() {
    let hub = hub().await;
    let mut next = run(["suspending", "pending"]);
    next["workflow"]["run"] = json!(2000);
    let overtaken = behind(&hub, next);
    let refused = give(&subject(), &overtaken, &Command::Terminate)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "error: application default/web is not terminated [E-CONFLICT]\n\
         cause: it has changed since it was looked at: its run was started again\n\
         try:   roundhouse status web, and then again if that is still meant"
    );
    assert_eq!(refused.status(), 1);
    assert!(!status(&hub).await.workflow.unwrap().terminated);
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_of_what_was_looked_at_is_written_over() {
    let hub = hub().await;
    let mut same = run(["suspending", "pending"]);
    same["workflow"]["message"] = json!("look at the graphs");
    let overtaken = behind(&hub, same);
    let done = give(&subject(), &overtaken, &Command::Resume).await.unwrap();
    assert_eq!(done, "resumed");
    let run = status(&hub).await.workflow.unwrap();
    assert!(!run.suspend && run.message.is_some(), "{run:?}");
}

/// A run whose second step is at work, with what is said of it.
fn at_work(said: &Value) -> Value {
    let step = |name: &str, phase: &str| json!({"name": name, "type": "deploy", "phase": phase, "firstExecuteTime": "2026-01-01T00:00:01.000000Z"});
    let mut run = json!({"run": 1000, "status": "running", "suspend": false,
        "steps": [step("one", "succeeded"), step("two", "running")]});
    run.as_object_mut()
        .unwrap()
        .extend(said.as_object().unwrap().clone());
    json!({"observedGeneration": 1, "phase": "runningWorkflow", "workflow": run})
}

/// The same, when the hub has taken a pause up.
fn taken_up() -> Value {
    let mut status = at_work(&json!({"status": "suspending", "suspend": true, "paused": true}));
    status["workflow"]["steps"][1]["phase"] = json!("suspending");
    status["phase"] = json!("workflowSuspending");
    status
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_taken_up_in_between_is_the_one_that_ends() {
    let hub = hub().await;
    stands(&hub, &at_work(&json!({}))).await;
    assert_eq!(
        give(&subject(), &hub, &Command::Suspend).await.unwrap(),
        "suspended"
    );
    let overtaken = behind(&hub, taken_up());
    let done = give(&subject(), &overtaken, &Command::Resume).await.unwrap();
    assert_eq!(done, "resumed");
    let run = status(&hub).await.workflow.unwrap();
    // By the mark the hub knows that a pause is over, and that no step has its approval.
    assert!(!run.suspend && run.paused, "{run:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_ends_before_it_is_taken_up_is_none() {
    let marked = json!({"suspend": true, "paused": true});
    for said in [Some(marked), Some(json!({"paused": true})), None] {
        let hub = hub().await;
        stands(&hub, &at_work(&said.clone().unwrap_or(json!({})))).await;
        let again = give(&subject(), &hub, &Command::Suspend).await.unwrap();
        let expected = said.as_ref().map_or("suspended", |_| "is suspended already");
        assert_eq!(again, expected, "{said:?}");
        let done = give(&subject(), &hub, &Command::Resume).await.unwrap();
        assert_eq!(done, "resumed", "{said:?}");
        let run = status(&hub).await.workflow.unwrap();
        assert!(!run.suspend && !run.paused, "{said:?}: {run:?}");
    }
    // Others resume by the field.
    let hub = hub().await;
    stands(&hub, &at_work(&json!({}))).await;
    give(&subject(), &hub, &Command::Suspend).await.unwrap();
    stands(&hub, &json!({"workflow": {"suspend": false}})).await;
    let run = status(&hub).await.workflow.unwrap();
    assert!(!run.suspend && !run.paused, "{run:?}");
}
