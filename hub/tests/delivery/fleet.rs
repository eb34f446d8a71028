//! Changes of the fleet outside a run.

use crate::{
    agents::Script,
    world::{World, region, seed, web},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use roundhouse_api::{application::ApplicationPhase, condition};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_or_changes_its_label_is_placed_on_without_a_new_run() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    let before = world.until_phase("app", ApplicationPhase::Running).await;
    world.join("c6", &[("region", "east")]).await;
    world.until_placed_on("app", "c6").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let replicas = world.replicas("app").await;
    assert_eq!(
        ["c1", "c2", "c3", "c6"].map(|c| replicas[c]).iter().sum::<u64>(),
        7
    );
    let after = world.status("app").await;
    assert_eq!(
        after.workflow.unwrap().start_time,
        before.workflow.unwrap().start_time,
        "no new run"
    );

    // From east to west: west gets it, east goes on without it, nothing is deleted.
    let uid = world.bundle("c6", "app").await.unwrap().uid();
    world.label_cluster("c6", json!({"region": "west"})).await;
    world
        .until("app", "c6 is of the west", async |world: &World| {
            let replicas = world.replicas("app").await;
            let east: u64 = ["c1", "c2", "c3"].map(|c| replicas[c]).iter().sum();
            (east == 7).then_some(())
        })
        .await;
    world.rest().await;
    let replicas = world.replicas("app").await;
    assert_eq!(["c4", "c5", "c6"].map(|c| replicas[c]).iter().sum::<u64>(), 2);
    assert_eq!(world.bundle("c6", "app").await.unwrap().uid(), uid);
    assert_eq!(world.status("app").await.phase, Some(ApplicationPhase::Running));
}

#[tokio::test(start_paused = true)]
async fn placing_steps_follow_the_fleet_one_after_the_other() {
    let world = World::five_on_any_server().await;
    let spec = json!({"components": web("nginx:1"), "workflow": {"steps": [
        region("east", "east", "50%"), region("west", "west", "50%")]}});
    world.apply("app", spec).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c6", Script::Silent).await;
    world.join("c6", &[("region", "east")]).await;
    world.join("c7", &[("region", "west")]).await;
    world
        .until("app", "east is refreshed", async |world: &World| {
            world.bundle("c6", "app").await
        })
        .await;
    world.rest().await;
    assert!(world.bundle("c7", "app").await.is_none(), "west waits for east");
    world.agents.script("c6", Script::Ready).await;
    world
        .until("app", "west is refreshed", async |world: &World| {
            world.bundle("c7", "app").await
        })
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn during_a_run_a_step_already_passed_is_refreshed_after_it() {
    let world = World::five_on_any_server().await;
    world.apply("app", crate::world::regions("nginx:1")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.join("c6", &[("region", "east")]).await;
    world.rest().await;
    assert!(world.bundle("c6", "app").await.is_none());
    world.resume("app").await;
    world
        .until("app", "east is refreshed", async |world: &World| {
            world.bundle("c6", "app").await
        })
        .await;
    assert!(world.status("app").await.workflow.unwrap().finished);
}

#[tokio::test(start_paused = true)]
async fn removals_beyond_the_budget_wait_for_a_confirmation_of_exactly_them() {
    let mut world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // Both at once: while the hub is down.
    world.stop_hub().await;
    for cluster in ["c1", "c4"] {
        world.label_cluster(cluster, json!({"region": "north"})).await;
    }
    world.start_hub();
    let held = async |world: &World| {
        let status = world.status("app").await;
        let held = condition::get(&status.conditions, "DeletesHeld")?;
        (held.status == "True").then(|| held.message.clone())
    };
    let message = world.until("app", "deletes are held", held).await;
    assert!(
        message.contains("c1, c4") && message.contains("roundhouse.dev/confirm-deletes="),
        "{message}"
    );
    world.rest().await;
    for cluster in ["c1", "c4"] {
        let bundle = world.bundle(cluster, "app").await.unwrap();
        assert!(bundle.spec.deletion.is_none() && bundle.metadata.deletion_timestamp.is_none());
    }
    // Additions went ahead.
    let replicas = world.replicas("app").await;
    assert_eq!((replicas["c2"] + replicas["c3"], replicas["c5"]), (7, 2));

    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": "0123"}}}),
        )
        .await;
    world.rest().await;
    assert!(
        world.bundle("c1", "app").await.is_some(),
        "a hash of something else confirms nothing"
    );
    let hash = message
        .split("confirm-deletes=")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}}),
        )
        .await;
    world
        .until("app", "they are removed", async |world: &World| {
            let (c1, c4) = (world.bundle("c1", "app").await, world.bundle("c4", "app").await);
            (c1.is_none() && c4.is_none()).then_some(())
        })
        .await;
    world.rest().await;
    let status = world.status("app").await;
    assert!(!condition::is_true(&status.conditions, "DeletesHeld"));
    assert_eq!(status.phase, Some(ApplicationPhase::Running));
}

#[tokio::test(start_paused = true)]
async fn removals_add_up_for_an_hour() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.label_cluster("c1", json!({"region": "north"})).await;
    world.until_removed("app", "c1").await;
    world.label_cluster("c4", json!({"region": "north"})).await;
    world.rest().await;
    assert!(world.bundle("c4", "app").await.unwrap().spec.deletion.is_none());
    assert!(condition::is_true(
        &world.status("app").await.conditions,
        "DeletesHeld"
    ));
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    world.until_removed("app", "c4").await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_vanishes_with_its_namespace_comes_back_with_it() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = world.bundle("c2", "app").await.unwrap();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces
        .delete("cluster-c2", &Default::default())
        .await
        .unwrap();
    world
        .until("app", "the namespace is gone", async |_: &World| {
            namespaces
                .get_opt("cluster-c2")
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    let status = world.until_phase("app", ApplicationPhase::Unhealthy).await;
    assert_eq!(status.delivery.unwrap().not_ready[0].cluster, "c2");
    world.namespace("c2").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let after = world.bundle("c2", "app").await.unwrap();
    assert_eq!(after.spec.hash, before.spec.hash);
    assert_ne!(after.uid(), before.uid());
    assert!(after.spec.deletion.is_none());
}
