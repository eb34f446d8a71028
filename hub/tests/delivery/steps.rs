//! Several placing steps, with an approval between them.

use crate::world::{World, region, regions, web};
use roundhouse_api::application::{ApplicationPhase, StepPhase};
use serde_json::json;
use std::collections::BTreeSet;

async fn clusters_with(world: &World, image: &str) -> BTreeSet<String> {
    let all = world.dispatched("app").await;
    all.into_iter()
        .filter(|(_, (_, i))| i == image)
        .map(|(cluster, _)| cluster)
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn east_then_approval_then_west() {
    let world = World::five_on_any_server().await;
    world.apply("app", regions("nginx:1")).await;
    let status = world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    assert_eq!(clusters_with(&world, "nginx:1").await, set(&["c1", "c2", "c3"]));
    let workflow = status.workflow.unwrap();
    assert!(workflow.suspend);
    assert_eq!(workflow.current.as_deref(), Some("approve (1/3)"));
    world.resume("app").await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    let replicas = world.replicas("app").await;
    assert_eq!(replicas["c4"] + replicas["c5"], 3);
    assert_eq!(status.delivery.unwrap().replicas_ready, "10/10");

    // The second time, west keeps the old revision, whole, until it is approved.
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    assert_eq!(clusters_with(&world, "nginx:2").await, set(&["c1", "c2", "c3"]));
    assert_eq!(clusters_with(&world, "nginx:1").await, set(&["c4", "c5"]));
    assert_eq!(world.replicas("app").await, replicas);
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(clusters_with(&world, "nginx:2").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_of_a_step_not_reached_that_vanishes_is_made_again_as_it_was() {
    let world = World::five_on_any_server().await;
    world.apply("app", regions("nginx:1")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    let before = world.bundle("c4", "app").await.unwrap();
    let bundles: kube::Api<roundhouse_api::bundle::Bundle> =
        kube::Api::namespaced(world.client.clone(), "cluster-c4");
    bundles.delete("default.app", &Default::default()).await.unwrap();
    let after = world
        .until("app", "it is made again", async |world: &World| {
            let bundle = world.bundle("c4", "app").await?;
            (bundle.metadata.uid != before.metadata.uid).then_some(bundle)
        })
        .await;
    assert_eq!(after.spec.hash, before.spec.hash);
    assert_eq!(after.spec.revision, before.spec.revision);
    assert_eq!(
        world.status("app").await.phase,
        Some(ApplicationPhase::WorkflowSuspending)
    );
}

#[tokio::test(start_paused = true)]
async fn a_later_step_replaces_what_an_earlier_one_placed_on_a_cluster() {
    let world = World::five_on_any_server().await;
    let spec = json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "canary", "type": "deploy", "properties": {"placement": [{"clusters": ["c1"], "replicas": "10%"}]}},
        {"name": "approve", "type": "suspend"},
        {"name": "all", "type": "deploy", "properties": {"placement": [{"replicas": "90%"}]}}]}});
    world.apply("app", spec).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    assert_eq!(world.replicas("app").await, [("c1".to_owned(), 1)].into());
    world.resume("app").await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    let decision = world.decision("app-all").await.unwrap();
    let of_c1 = decision.spec.workloads[0]
        .clusters
        .iter()
        .find(|c| c.name == "c1")
        .unwrap()
        .replicas;
    let replicas = world.replicas("app").await;
    assert_eq!(replicas["c1"], u64::from(of_c1), "replaced, not added");
    assert_eq!(replicas.values().sum::<u64>(), 9);
    assert_eq!(status.delivery.unwrap().placed, 9);
}

#[tokio::test(start_paused = true)]
async fn steps_that_are_renamed_or_removed_let_go_only_after_the_run() {
    let world = World::five_on_any_server().await;
    let one = json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"name": "all", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
    world.apply("app", one).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    assert_eq!(
        clusters_with(&world, "nginx:1").await,
        set(&["c4", "c5"]),
        "kept until their step is reached"
    );
    assert!(world.decision("app-all").await.is_some());
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    assert!(world.decision("app-all").await.is_none());
    assert_eq!(clusters_with(&world, "nginx:2").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_the_new_run_does_not_place_on_is_cleaned_after_it_succeeded() {
    let world = World::on_any_server(&[("c1", "east"), ("c2", "east"), ("c3", "east"), ("c4", "west")]).await;
    world.apply("app", regions("nginx:1")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let east = json!({"components": web("nginx:2"), "workflow": {"steps": [
        region("east", "east", "100%"), {"name": "approve", "type": "suspend"}]}});
    world.apply("app", east).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    assert_eq!(
        clusters_with(&world, "nginx:1").await,
        set(&["c4"]),
        "not before the run has ended"
    );
    world.resume("app").await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.workflow.unwrap().status, Some(StepPhase::Succeeded));
    world.until_removed("app", "c4").await;
}
