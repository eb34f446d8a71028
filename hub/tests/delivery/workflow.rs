//! Workflows from the Application to the clusters, each with the hub left alone and with the hub killed in the middle.

use crate::{
    agents::Script,
    world::{World, region, web},
};
use futures::future::BoxFuture;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase, StepReason, WorkflowStatus},
    condition,
    revision::ApplicationRevision,
};
use roundhouse_hub::action::{Executor, Job, Outcome};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A workflow over one component of 10 replicas.
fn flow(steps: &Value) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": steps}})
}

/// A step that gives every cluster of a region all replicas.
fn all_of(name: &str, of: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": of}}]}})
}

fn phases(workflow: &WorkflowStatus) -> BTreeMap<String, StepPhase> {
    let all = workflow.all_steps();
    all.map(|step| (step.name.clone(), step.phase)).collect()
}

async fn phase_of(world: &World, step: &str) -> Option<StepPhase> {
    Some(world.status("app").await.workflow?.step(step)?.phase)
}

/// The hub is killed and started again, if that is wanted.
async fn kill(world: &mut World, wanted: bool) {
    if wanted {
        world.stop_hub().await;
        world.start_hub();
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_90_percent_ready() {
    for killed in [false, true] {
        let names: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        let clusters: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "east")).collect();
        let mut world = World::new(&clusters).await;
        for cluster in ["c3", "c4"] {
            world.agents.script(cluster, Script::Applied).await;
        }
        let mut step = all_of("east", "east");
        step["properties"]["wait"] = json!({"until": {"ready": "90%"}});
        world
            .apply("app", flow(&json!([step, {"name": "s", "type": "suspend"}])))
            .await;
        world.until_step("east", StepPhase::Running).await;
        world.rest().await;
        kill(&mut world, killed).await;
        assert_eq!(phase_of(&world, "east").await, Some(StepPhase::Running));
        let message = world.status("app").await.workflow.unwrap().message.unwrap();
        assert!(
            message.starts_with("waiting until 90% of the clusters are ready: 8 of 10 are"),
            "{message}"
        );
        world.agents.script("c3", Script::Ready).await;
        world.until_step("s", StepPhase::Suspending).await;
    }
}

#[tokio::test(start_paused = true)]
async fn always_runs_after_a_failure() {
    for killed in [false, true] {
        let mut world = World::five().await;
        world.agents.script("c4", Script::Silent).await;
        let mut west = all_of("west", "west");
        west["if"] = json!("always");
        let steps = json!([all_of("east", "east"), {"name": "broken", "type": "fail"}, all_of("skipped", "east"), west]);
        world.apply("app", flow(&steps)).await;
        world.until_step("west", StepPhase::Running).await;
        world.rest().await;
        kill(&mut world, killed).await;
        world.agents.script("c4", Script::Ready).await;
        let status = world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
        let workflow = status.workflow.unwrap();
        let expected = [
            ("east", StepPhase::Succeeded),
            ("broken", StepPhase::Failed),
            ("skipped", StepPhase::Skipped),
            ("west", StepPhase::Succeeded),
        ];
        assert_eq!(
            phases(&workflow),
            expected.map(|(name, phase)| (name.to_owned(), phase)).into()
        );
        assert_eq!(world.dispatched("app").await.len(), 5);
        assert_eq!(status.delivered_revision, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_group_are_dispatched_side_by_side() {
    for killed in [false, true] {
        let mut world = World::five().await;
        for cluster in ["c1", "c4"] {
            world.agents.script(cluster, Script::Silent).await;
        }
        let both = [region("east", "east", "70%"), region("west", "west", "30%")];
        let steps = json!([{"name": "both", "type": "step-group", "subSteps": both}, {"name": "s", "type": "suspend"}]);
        world.apply("app", flow(&steps)).await;
        world
            .until("app", "both are dispatched", async |world: &World| {
                (world.dispatched("app").await.len() == 5).then_some(())
            })
            .await;
        world.rest().await;
        kill(&mut world, killed).await;
        let workflow = world.status("app").await.workflow.unwrap();
        assert!(
            ["both", "east", "west"]
                .iter()
                .all(|step| workflow.step(step).unwrap().phase == StepPhase::Running)
        );
        world.agents.script("c4", Script::Ready).await;
        world.until_step("west", StepPhase::Succeeded).await;
        assert_eq!(phase_of(&world, "both").await, Some(StepPhase::Running));
        world.agents.script("c1", Script::Ready).await;
        world.until_step("s", StepPhase::Suspending).await;
        assert_eq!(world.replicas("app").await.values().sum::<u64>(), 10);
        // Passed steps follow the fleet again after the run.
        world.join("c6", &[("region", "west")]).await;
        world.rest().await;
        assert!(world.bundle("c6", "app").await.is_none(), "not during the run");
        world.resume("app").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.until_placed_on("app", "c6").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspension_ends_after_its_time() {
    for killed in [false, true] {
        let mut world = World::five().await;
        let steps = json!([{"name": "s", "type": "suspend", "properties": {"duration": "30m"}}, all_of("east", "east")]);
        world.apply("app", flow(&steps)).await;
        world.until_step("s", StepPhase::Suspending).await;
        let start = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        kill(&mut world, killed).await;
        tokio::time::sleep(Duration::from_secs(700)).await;
        assert_eq!(phase_of(&world, "s").await, Some(StepPhase::Suspending));
        assert!(world.dispatched("app").await.is_empty());
        world.until_step("s", StepPhase::Succeeded).await;
        let took = start.elapsed().as_secs();
        assert!((1795..1810).contains(&took), "{took}");
        world.until_phase("app", ApplicationPhase::Running).await;
    }
}

#[tokio::test(start_paused = true)]
async fn terminate_and_restart_from_a_step() {
    for killed in [false, true] {
        let mut world = World::five().await;
        world.agents.script("c4", Script::Silent).await;
        let steps = json!([region("east", "east", "70%"), region("west", "west", "30%")]);
        world.apply("app", flow(&steps)).await;
        world.until_step("west", StepPhase::Running).await;
        world.terminate("app").await;
        world
            .until_phase("app", ApplicationPhase::WorkflowTerminated)
            .await;
        kill(&mut world, killed).await;
        let first = world.status("app").await.workflow.unwrap();
        world
            .patch_status("app", json!({"workflow": {"restartFrom": "west"}}))
            .await;
        world.until_step("west", StepPhase::Running).await;
        kill(&mut world, killed).await;
        let second = world.status("app").await.workflow.unwrap();
        assert_eq!(second.step("east"), first.step("east"), "what was before stays");
        assert_eq!(second.restart_from, None);
        world.agents.script("c4", Script::Ready).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(world.replicas("app").await.values().sum::<u64>(), 10);
    }
}

/// Answers with what it is told, and counts.
#[derive(Default)]
struct Answers {
    /// What a request is answered with; nothing yet: it is held up.
    code: Mutex<Option<u16>>,
    keys: Mutex<Vec<String>>,
    told: tokio::sync::Notify,
}

struct Answering(Arc<Answers>);

impl Executor for Answering {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        let answers = self.0.clone();
        Box::pin(async move {
            answers.keys.lock().push(job.idempotency_key());
            loop {
                let told = answers.told.notified();
                if let Some(code) = *answers.code.lock() {
                    let output = json!({"statusCode": code, "responseCode": code});
                    return Outcome::Done { output };
                }
                told.await;
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_picks_the_next_step_and_a_slow_one_holds_up_nobody_else() {
    for killed in [false, true] {
        let answers = Arc::new(Answers::default());
        let mut world = World::with_executor(Arc::new(Answering(answers.clone()))).await;
        let mut east = all_of("handle-200", "east");
        east["if"] = json!("request.output.responseCode == 200");
        let mut west = all_of("handle-400", "west");
        west["if"] = json!("request.output.responseCode == 400");
        let request =
            json!({"name": "request", "type": "webhook", "properties": {"url": "https://example.org"}});
        world.apply("app", flow(&json!([request, east, west]))).await;
        world.until_step("request", StepPhase::Running).await;
        world.apply("other", flow(&json!([all_of("east", "east")]))).await;
        world.until_phase("other", ApplicationPhase::Running).await;
        kill(&mut world, killed).await;
        *answers.code.lock() = Some(400);
        answers.told.notify_waiters();
        world.until_phase("app", ApplicationPhase::Running).await;
        let keys = answers.keys.lock().clone();
        assert_eq!(keys.len(), if killed { 2 } else { 1 }, "{keys:?}");
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        let dispatched = world.dispatched("app").await;
        assert_eq!(dispatched.keys().collect::<Vec<_>>(), ["c4", "c5"]);
        // A step that is passed over the next time places nothing any more.
        *answers.code.lock() = Some(200);
        world
            .patch_status("app", json!({"phase": "runningWorkflow", "workflow": null}))
            .await;
        let asked = async |world: &World| {
            let status = world.status("app").await;
            let held = condition::get(&status.conditions, "DeletesHeld")?;
            let (_, hash) = held.message.split_once("confirm-deletes=")?;
            Some(hash.split(' ').next()?.to_owned())
        };
        let hash = world.until("app", "both are held", asked).await;
        world
            .patch(
                "app",
                json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}}),
            )
            .await;
        for cluster in ["c4", "c5"] {
            world.until_removed("app", cluster).await;
        }
        let dispatched = world.dispatched("app").await;
        assert_eq!(dispatched.keys().collect::<Vec<_>>(), ["c1", "c2", "c3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn few_clusters_are_under_way_at_a_time() {
    for killed in [false, true] {
        let clusters = [
            ("c1", "east"),
            ("c2", "east"),
            ("c3", "east"),
            ("c4", "east"),
            ("c5", "east"),
        ];
        let mut world = World::new(&clusters).await;
        for (cluster, _) in clusters {
            world.agents.script(cluster, Script::Applied).await;
        }
        let mut step = all_of("east", "east");
        step["properties"]["maxParallel"] = json!(2);
        world.apply("app", flow(&json!([step]))).await;
        for (done, (cluster, _)) in clusters.iter().enumerate() {
            let expected = (done + 2).min(5);
            world
                .until("app", "the next ones", async |world: &World| {
                    (world.dispatched("app").await.len() == expected).then_some(())
                })
                .await;
            world.rest().await;
            kill(&mut world, killed).await;
            assert_eq!(world.dispatched("app").await.len(), expected, "{done} are ready");
            world.agents.script(cluster, Script::Ready).await;
        }
        world.until_phase("app", ApplicationPhase::Running).await;
        // A run that is paused on its way dispatches no more.
        for (cluster, _) in clusters {
            world.agents.script(cluster, Script::Applied).await;
        }
        let mut next = flow(&json!([all_of("east", "east")]));
        next["components"] = web("nginx:2");
        next["workflow"]["steps"][0]["properties"]["maxParallel"] = json!(1);
        world.apply("app", next).await;
        world
            .until("app", "the first one", async |world: &World| {
                world
                    .images("app")
                    .await
                    .contains(&"nginx:2".to_owned())
                    .then_some(())
            })
            .await;
        world.suspend("app").await;
        world.rest().await;
        kill(&mut world, killed).await;
        let new = world
            .images("app")
            .await
            .iter()
            .filter(|image| *image == "nginx:2")
            .count();
        assert_eq!(new, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn more_failed_clusters_than_allowed_stop_a_step_where_it_is() {
    let world = World::five().await;
    world.agents.script("c1", Script::Failed).await;
    let mut east = all_of("east", "east");
    east["properties"]["maxFailedClusters"] = json!(0);
    east["properties"]["maxParallel"] = json!(1);
    world
        .apply("app", flow(&json!([east, all_of("west", "west")])))
        .await;
    let status = world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    let message = status.workflow.unwrap().message.unwrap();
    assert!(
        message.starts_with("step east failed: 1 clusters failed, more than maxFailedClusters 0: c1 ("),
        "{message}"
    );
    assert_eq!(world.dispatched("app").await.len(), 1);
}

/// The seed's database example: an app that is given the name of its database's secret.
fn database(image: &str, first: &[Value]) -> Value {
    let mut steps = first.to_vec();
    steps.extend([
        json!({"name": "db", "type": "apply-component", "outputs": [{"name": "connSecret", "valueFrom": "output.status.connSecret"}],
            "properties": {"name": "my-db"}}),
        json!({"name": "app", "type": "apply-component", "inputs": [{"from": "connSecret", "parameterKey": "patch.valueFrom.field"}],
            "properties": {"name": "web", "patch": {"to": {"field": "spec.containers[0].envFrom[0].secretRef.name"},
                "valueFrom": {"apiVersion": "database.example.org/v1alpha1", "kind": "MySQLInstance", "name": "my-db"}}}}),
    ]);
    json!({
        "components": [
            {"name": "my-db", "type": "k8s-objects", "properties": {"objects": [{"apiVersion": "database.example.org/v1alpha1",
                "kind": "MySQLInstance", "metadata": {"name": "my-db"}, "spec": {"image": image}}]}},
            {"name": "web", "type": "webservice", "properties": {"image": image}}],
        "policies": [{"name": "east", "type": "placement", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}}],
        "workflow": {"steps": steps}
    })
}

/// The kinds in a cluster's Bundle, the secret that the app is given, and the images.
async fn held(world: &World, cluster: &str) -> (Vec<String>, Option<String>, Vec<String>) {
    let Some(bundle) = world.bundle(cluster, "app").await else {
        return (Vec::new(), None, Vec::new());
    };
    let manifests = &bundle.spec.workload.manifests;
    let text = |manifest: &Value, pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let kinds = manifests.iter().filter_map(|m| text(m, "/kind")).collect();
    let secret = "/spec/template/spec/containers/0/envFrom/0/secretRef/name";
    let images = ["/spec/image", "/spec/template/spec/containers/0/image"];
    let images = manifests
        .iter()
        .flat_map(|m| images.iter().filter_map(|p| text(m, p)).collect::<Vec<_>>());
    (
        kinds,
        manifests.iter().find_map(|m| text(m, secret)),
        images.collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn data_of_one_components_status_gets_into_another_and_is_kept() {
    for killed in [false, true] {
        let mut world = World::new(&[("c1", "east"), ("c2", "east")]).await;
        world.apply("app", database("v1", &[])).await;
        world.until_step("db", StepPhase::Running).await;
        world.rest().await;
        kill(&mut world, killed).await;
        assert_eq!(
            held(&world, "c1").await.0,
            ["MySQLInstance"],
            "the app waits for its database"
        );
        world.agents.say("c1", "connSecret", "secret-1").await;
        world.agents.say("c2", "connSecret", "secret-2").await;
        world
            .until("app", "they do not agree", async |world: &World| {
                let message = world.status("app").await.workflow?.message?;
                message
                    .contains("clusters c1 and c2 report different values")
                    .then_some(())
            })
            .await;
        world.agents.say("c2", "connSecret", "secret-1").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        kill(&mut world, killed).await;
        for cluster in ["c1", "c2"] {
            let (kinds, secret, _) = held(&world, cluster).await;
            assert_eq!(kinds, ["MySQLInstance", "Deployment"]);
            assert_eq!(secret.as_deref(), Some("secret-1"));
        }
        world.rest().await;
        // Another value later is for another run.
        for cluster in ["c1", "c2"] {
            world.agents.say(cluster, "connSecret", "secret-9").await;
        }
        let before = world.rest().await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(world.rest().await, before, "nothing is written");
        // A new run that has not come to it: a Bundle that vanishes is made again, with the values that it had.
        world
            .apply("app", database("v2", &[json!({"name": "s", "type": "suspend"})]))
            .await;
        world.until_step("s", StepPhase::Suspending).await;
        world.remove_bundle("c1", "app").await;
        kill(&mut world, killed).await;
        world
            .until("app", "it is made again", async |world: &World| {
                let (kinds, secret, images) = held(world, "c1").await;
                (kinds.len() == 2 && secret.as_deref() == Some("secret-1") && images == ["v1", "v1"])
                    .then_some(())
            })
            .await;
        // The database is of the new revision, and the app stays as it was until its step.
        for cluster in ["c1", "c2"] {
            world.agents.silence(cluster, "connSecret").await;
        }
        world.resume("app").await;
        world
            .until("app", "the database is new", async |world: &World| {
                let (kinds, secret, images) = held(world, "c2").await;
                (kinds.len() == 2 && secret.as_deref() == Some("secret-1") && images == ["v2", "v1"])
                    .then_some(())
            })
            .await;
        kill(&mut world, killed).await;
        for cluster in ["c1", "c2"] {
            world.agents.say(cluster, "connSecret", "secret-9").await;
        }
        world.until_phase("app", ApplicationPhase::Running).await;
        let (_, secret, images) = held(&world, "c1").await;
        assert_eq!(
            (secret.as_deref(), images),
            (Some("secret-9"), vec!["v2".to_owned(), "v2".to_owned()])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_delivers_the_last_revision_that_was_whole() {
    let world = World::five().await;
    world.apply("app", flow(&json!([all_of("east", "east")]))).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    let first = status.delivered_revision.unwrap();
    world.agents.script("c1", Script::Failed).await;
    let mut east = all_of("east", "east");
    east["properties"]["maxFailedClusters"] = json!(0);
    let mut next = flow(&json!([east, {"name": "back", "type": "rollback", "if": "status.east.failed"}]));
    next["components"] = web("nginx:2");
    world.apply("app", next).await;
    world
        .until("app", "the first content is back", async |world: &World| {
            let images = world.images("app").await;
            let status = world.status("app").await;
            // The third spec: the first, the next, and what the step made of it.
            let back = status.observed_generation == Some(3) && status.workflow?.app_revision? == first;
            (back && images.iter().all(|image| image == "nginx:1")).then_some(())
        })
        .await;
    world.agents.script("c1", Script::Ready).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.delivered_revision.as_deref(), Some(first.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_the_api_server_refuses_says_so_and_fails_in_the_end() {
    let world = World::five().await;
    world.apply("app", flow(&json!([all_of("east", "east")]))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // The record is of a time at which the API server took what it refuses now.
    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let patch = json!({"spec": {"application": {"components": "all"}}});
    revisions
        .patch("app-v1", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let fail = json!({"name": "broken", "type": "fail"});
    let back = json!({"name": "back", "type": "rollback", "if": "status.broken.failed"});
    let mut next = flow(&json!([fail, back, all_of("east", "east")]));
    next["components"] = web("nginx:2");
    world.apply("app", next).await;
    let said = "going back to revision app-v1 failed: ";
    world
        .until("app", "it says what is refused", async |world: &World| {
            let workflow = world.status("app").await.workflow?;
            let step = workflow.step("back")?;
            let says = step.message.as_ref()?.starts_with(said);
            (says && step.is_retried() && step.next_try.is_some()).then_some(())
        })
        .await;
    // Other applications go on meanwhile.
    world.apply("other", flow(&json!([all_of("east", "east")]))).await;
    world.until_phase("other", ApplicationPhase::Running).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let status = world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    let workflow = status.workflow.unwrap();
    let step = workflow.step("back").unwrap();
    assert_eq!(step.reason, Some(StepReason::FailedAfterRetries));
    assert!(step.message.as_ref().unwrap().contains("components"), "{step:?}");
    assert_eq!(world.images("app").await, ["nginx:1"]);
}
