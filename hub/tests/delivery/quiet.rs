//! In steady state nothing is written.

use crate::{
    agents::Script,
    world::{World, regions, seed},
};
use roundhouse_api::application::ApplicationPhase;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_hundred_no_op_passes_write_nothing() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("waits", regions("nginx:1")).await;
    world
        .until_phase("waits", ApplicationPhase::WorkflowSuspending)
        .await;
    let before = world.rest().await;
    let by_object = world.server().counter().by_object();
    // Each makes a pass; the write of the annotation is the only one that it causes.
    for n in 0..100 {
        for app in ["app", "waits"] {
            world
                .patch(
                    app,
                    json!({"metadata": {"annotations": {"touched": n.to_string()}}}),
                )
                .await;
        }
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
    let after = world.rest().await;
    let mut more = world.server().counter().by_object();
    more.retain(|object, count| by_object.get(object) != Some(&*count));
    assert_eq!(after - before, 200, "{more:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_hub_rewrites_nothing() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("waits", regions("nginx:1")).await;
    world
        .until_phase("waits", ApplicationPhase::WorkflowSuspending)
        .await;
    world.agents.script("c1", Script::Applied).await;
    world.apply("late", seed("nginx:1")).await;
    let before = world.rest().await;
    for _ in 0..5 {
        world.stop_hub().await;
        world.start_hub();
        assert_eq!(world.rest().await, before);
    }
    // And it goes on from there.
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("late", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_stopped_at_any_moment_delivers_in_the_end() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    for millis in 0..40 {
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        world.stop_hub().await;
        world.start_hub();
        if millis == 20 {
            world.apply("app", seed("nginx:2")).await;
        }
    }
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.delivery.unwrap().replicas_ready, "9/9");
    assert_eq!(world.images("app").await, ["nginx:2"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_writes_nothing() {
    let world = World::five().await;
    world.agents.script("c1", Script::Applied).await;
    world.apply("app", seed("nginx:1")).await;
    let before = world.rest().await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.server().counter().total_stored(), before);
}

/// Each pass reads the revision before, of which the cluster keeps a component: what is seen before that is no progress.
#[tokio::test(start_paused = true)]
async fn waiting_beside_a_component_of_the_revision_before_writes_nothing() {
    let world = World::five().await;
    let spec = |value: &str| {
        let component = |name: &str| {
            json!({"name": name, "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"is": value}}]}})
        };
        let step = |name: &str| {
            json!({"name": name, "type": "apply-component",
                "properties": {"component": name, "placement": [{"clusterSelector": {"region": "east"}}]}})
        };
        json!({"components": [component("a"), component("b")], "workflow": {"steps": [step("a"), step("b")]}})
    };
    world.apply("app", spec("1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c1", Script::Applied).await;
    world.apply("app", spec("2")).await;
    let before = world.rest().await;
    let manifests = world.bundle("c1", "app").await.unwrap().spec.workload.manifests;
    let values: Vec<_> = manifests.iter().map(|manifest| &manifest["data"]["is"]).collect();
    assert_eq!(values, ["2", "1"], "the second step waits for the first");
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.server().counter().total_stored(), before);
}
