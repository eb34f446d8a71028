//! What is lost while a run is under way, or after it, is made again and changes nothing else.

use crate::agents::Script;
use crate::world::{World, region, regions, web};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::application::{ApplicationPhase, StepPhase, StepStatus};
use roundhouse_api::cluster::Cluster;
use roundhouse_api::revision::ApplicationRevision;
use roundhouse_hub::action::{Executor, Job, Outcome};
use serde_json::{Value, json};
use std::sync::Arc;

/// No job ever ends.
struct Never;

impl Executor for Never {
    fn run(&self, _: Job) -> futures::future::BoxFuture<'static, Outcome> {
        Box::pin(std::future::pending())
    }
}

fn after_east(step: &Value) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": [region("east", "east", "100%"), step]}})
}

/// Step `next`, if it is in this phase.
async fn next(world: &World, phase: StepPhase) -> Option<StepStatus> {
    let workflow = world.status("app").await.workflow?;
    workflow.step("next").filter(|step| step.phase == phase).cloned()
}

async fn until_next(world: &World, phase: StepPhase) -> StepStatus {
    let what = format!("step next to be {phase:?}");
    world
        .until("app", &what, async |world: &World| next(world, phase).await)
        .await
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_made_again_whatever_kind_of_step_is_at_work() {
    let wait = json!({"name": "next", "type": "wait", "properties": {"until": "fleet.ready >= 100"}});
    let request = json!({"name": "next", "type": "request", "properties": {"url": "https://example.org"}});
    for step in [wait, request] {
        let world = World::with_executor(Arc::new(Never)).await;
        world.apply("app", after_east(&step)).await;
        until_next(&world, StepPhase::Running).await;
        let before = world.bundle("c1", "app").await.unwrap();
        world.remove_bundle("c1", "app").await;
        world
            .until("app", "the bundle is there again", async |world: &World| {
                let bundle = world.bundle("c1", "app").await?;
                (bundle.metadata.uid != before.metadata.uid && bundle.spec.hash == before.spec.hash)
                    .then_some(())
            })
            .await;
        assert!(next(&world, StepPhase::Running).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_passes_again_when_the_bundle_that_was_lost_is_ready() {
    let world = World::five().await;
    let mut steps =
        after_east(&json!({"name": "next", "type": "wait", "properties": {"until": {"ready": "100%"}}}));
    steps["workflow"]["steps"][0]["properties"]["wait"] = json!("applied");
    world.agents.script("c1", Script::Applied).await;
    world.apply("app", steps).await;
    until_next(&world, StepPhase::Running).await;
    world.remove_bundle("c1", "app").await;
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert!(world.bundle("c1", "app").await.is_some());
}

/// Its step is over and keeps its Decision, which names the cluster: of one that has nothing any more nobody waits for evidence.
#[tokio::test(start_paused = true)]
async fn a_wait_does_not_hold_for_a_cluster_that_has_left() {
    for until in [json!({"ready": "100%"}), json!("fleet.ready == fleet.clusters")] {
        let world = World::five().await;
        let wait = json!({"name": "next", "type": "wait", "properties": {"until": until}});
        let mut steps = after_east(&wait);
        steps["workflow"]["steps"][0]["properties"]["wait"] = json!("applied");
        world.agents.script("c1", Script::Applied).await;
        world.apply("app", steps).await;
        until_next(&world, StepPhase::Running).await;
        let clusters: Api<Cluster> = Api::all(world.client.clone());
        clusters.delete("c1", &DeleteParams::default()).await.unwrap();
        world.rest().await;
        assert_eq!(
            world.status("app").await.phase,
            Some(ApplicationPhase::RunningWorkflow),
            "what it has may still come back: {until}"
        );
        world.remove_bundle("c1", "app").await;
        until_next(&world, StepPhase::Succeeded).await;
        let status = world.until_phase("app", ApplicationPhase::Running).await;
        let delivery = status.delivery.unwrap();
        let named: Vec<&str> = delivery.not_ready.iter().map(|c| c.cluster.as_str()).collect();
        assert_eq!(
            (delivery.clusters_ready.as_str(), named),
            ("2/2", Vec::new()),
            "{until}"
        );
        assert!(delivery.regions.iter().all(|region| !region.region.is_empty()));
    }
}

/// Of no clusters a share is never ready: whoever waits for one would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_wait_for_clusters_that_have_all_left_is_passed_over() {
    let world = World::five().await;
    let wait = json!({"name": "next", "type": "wait", "properties": {"until": {"ready": "100%"}}});
    let mut steps = after_east(&wait);
    steps["workflow"]["steps"][0]["properties"]["wait"] = json!("applied");
    for cluster in ["c1", "c2", "c3"] {
        world.agents.script(cluster, Script::Applied).await;
    }
    world.apply("app", steps).await;
    until_next(&world, StepPhase::Running).await;
    let clusters: Api<Cluster> = Api::all(world.client.clone());
    for cluster in ["c1", "c2", "c3"] {
        clusters.delete(cluster, &DeleteParams::default()).await.unwrap();
        world.remove_bundle(cluster, "app").await;
    }
    let skipped = until_next(&world, StepPhase::Skipped).await;
    let why = "step east has placed on no cluster that is still there";
    assert_eq!(skipped.message.as_deref(), Some(why));
}

/// A step that dispatches to one cluster at a time ran out of time before it came to all: those it had not come to may leave, too.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_left_before_its_turn_is_not_waited_for() {
    let world = World::five().await;
    let wait = json!({"name": "next", "type": "wait", "if": "always",
        "properties": {"until": "fleet.ready == fleet.clusters"}});
    let mut steps = after_east(&wait);
    let east = &mut steps["workflow"]["steps"][0];
    east["properties"]["maxParallel"] = json!(1);
    east["timeout"] = json!("1m");
    for cluster in ["c1", "c2", "c3"] {
        world.agents.script(cluster, Script::Applied).await;
    }
    world.apply("app", steps).await;
    until_next(&world, StepPhase::Running).await;
    let has: Vec<String> = world.dispatched("app").await.into_keys().collect();
    let [has] = has.as_slice() else {
        panic!("one at a time: {has:?}")
    };
    world.agents.script(has, Script::Ready).await;
    world.rest().await;
    let still = next(&world, StepPhase::Running).await;
    assert!(still.is_some(), "two have not had their turn");
    let clusters: Api<Cluster> = Api::all(world.client.clone());
    for cluster in ["c1", "c2", "c3"].into_iter().filter(|cluster| cluster != has) {
        clusters.delete(cluster, &DeleteParams::default()).await.unwrap();
    }
    until_next(&world, StepPhase::Succeeded).await;
}

/// The record of the revision that is delivered: another number would be another run, with its requests and approvals.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_lost_is_written_again_under_its_name() {
    let world = World::five().await;
    let spec = json!({"components": web("nginx:1"), "workflow": {"steps": [region("east", "east", "100%")]}});
    world.apply("app", spec).await;
    let before = world.until_phase("app", ApplicationPhase::Running).await;
    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let record = revisions.get("app-v1").await.unwrap();
    revisions
        .delete("app-v1", &DeleteParams::default())
        .await
        .unwrap();
    world
        .until("app", "the record is there again", async |_: &World| {
            let again = revisions.get_opt("app-v1").await.unwrap()?;
            (again.metadata.uid != record.metadata.uid && again.spec == record.spec).then_some(())
        })
        .await;
    world.rest().await;
    let after = world.status("app").await;
    assert_eq!(after.workflow, before.workflow);
    assert_eq!(after.latest_revision, before.latest_revision);
    assert_eq!(
        revisions.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}

/// A hub that makes something else of the same spec, as another version of it may: what was approved is not asked again, and
/// nothing is requested twice.
#[tokio::test(start_paused = true)]
async fn a_hub_that_renders_otherwise_goes_on_with_what_is_recorded() {
    let mut world = World::five().await;
    world.apply("app", regions("nginx:1")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.stop_hub().await;
    let before = world.status("app").await.workflow.unwrap();
    // What is recorded is of the other hub.
    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let hashes = json!({"spec": {"componentHashes": {"web": "other"}}});
    revisions
        .patch("app-v1", &PatchParams::default(), &Patch::Merge(hashes))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let mut record = maps.get("app-v1").await.unwrap();
    let data = record.data.as_mut().unwrap();
    let web = data.get_mut("web").unwrap();
    *web = web.replace("nginx:1", "registry.example/nginx:1");
    maps.delete("app-v1", &DeleteParams::default()).await.unwrap();
    record.metadata.resource_version = None;
    record.metadata.uid = None;
    record.metadata.creation_timestamp = None;
    maps.create(&PostParams::default(), &record).await.unwrap();

    world.start_hub();
    world.rest().await;
    let status = world.status("app").await;
    assert_eq!(status.phase, Some(ApplicationPhase::WorkflowSuspending));
    let run = status.workflow.unwrap();
    assert_eq!(
        (run.run, run.steps),
        (before.run, before.steps),
        "the run goes on"
    );
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["registry.example/nginx:1"]);
    let all = revisions.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
    // The next spec is this hub's.
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["nginx:2"]);
}
