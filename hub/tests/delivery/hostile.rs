//! What others put in the way of a delivery: named, survived, and never answered with a storm.

use crate::world::{World, regions, seed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    application::ApplicationPhase,
    bundle::{Bundle, BundleSpec},
    condition,
};
use serde_json::json;

fn bundles(world: &World, cluster: &str) -> Api<Bundle> {
    Api::namespaced(world.client.clone(), &format!("cluster-{cluster}"))
}

async fn delivered(world: &World, app: &str) -> Option<String> {
    let status = world.status(app).await;
    Some(condition::get(&status.conditions, "Delivered")?.message.clone())
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_hashes_otherwise_causes_no_storm() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let bundle = world.bundle("c1", "app").await.unwrap();
    let status = json!({"status": {"hash": null, "phase": "Failed", "conditions": [{"type": "Applied",
        "status": "False", "reason": "HashMismatch", "message": "an agent of another age",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}], "observedGeneration": bundle.metadata.generation}});
    bundles(&world, "c1")
        .patch_status("default.app", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    world.rest().await;
    let before = world.server.counter().write_requests();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let sent = world.server.counter().write_requests() - before;
    assert!(sent < 50, "{sent} writes in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_hand_written_bundle_with_copied_labels_is_nobodys_surplus() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let mut copy = Bundle::new("mine", BundleSpec::default());
    copy.metadata.labels = world.bundle("c1", "app").await.unwrap().metadata.labels;
    bundles(&world, "c1")
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();
    world.rest().await;
    let kept = bundles(&world, "c1").get_opt("mine").await.unwrap().unwrap();
    assert!(kept.spec.deletion.is_none() && kept.metadata.deletion_timestamp.is_none());
    // Nor does it go with the application, nor hold it up.
    world.delete("app").await;
    world
        .until("app", "the application is gone", async |world: &World| {
            world
                .applications()
                .get_opt("app")
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    assert!(bundles(&world, "c1").get_opt("mine").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_config_map_in_the_way_of_a_revision_is_named_in_the_status() {
    let world = World::five().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("app-v1".to_owned());
    config_maps
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.apply("app", seed("nginx:1")).await;
    world
        .until("app", "it is named", async |world: &World| {
            let message = delivered(world, "app").await?;
            (message.contains("ConfigMap default/app-v1") && message.contains("rename or delete"))
                .then_some(())
        })
        .await;
    config_maps
        .delete("app-v1", &DeleteParams::default())
        .await
        .unwrap();
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_record_of_one_cluster_does_not_hold_up_the_others() {
    let world = World::five().await;
    world.apply("app", regions("nginx:1")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world
        .patch_status("app", json!({"workflow": {"suspend": false}}))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // East gets a new revision, west keeps the former one; what west had vanishes, and its record with it.
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    config_maps
        .delete("app-v1", &DeleteParams::default())
        .await
        .unwrap();
    for cluster in ["c4", "c1"] {
        let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        bundles(&world, cluster)
            .patch("default.app", &PatchParams::default(), &strip)
            .await
            .unwrap();
        let _ = bundles(&world, cluster)
            .delete("default.app", &DeleteParams::default())
            .await;
    }
    world
        .until("app", "c1 gets its bundle again", async |world: &World| {
            world
                .bundle("c1", "app")
                .await
                .filter(|b| b.metadata.deletion_timestamp.is_none())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_good_for_one_removal() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let held = async |world: &World| {
        let status = world.status("app").await;
        let held = condition::get(&status.conditions, "DeletesHeld")?;
        (held.status == "True").then(|| held.message.clone())
    };
    for round in 0..2 {
        world.stop_hub().await;
        for cluster in ["c1", "c4"] {
            world.label_cluster(cluster, json!({"region": "north"})).await;
        }
        world.start_hub();
        let message = world
            .until("app", &format!("deletes are held, round {round}"), held)
            .await;
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
        world.label_cluster("c1", json!({"region": "east"})).await;
        world.label_cluster("c4", json!({"region": "west"})).await;
        world
            .until("app", "both are back", async |world: &World| {
                Some((world.bundle("c1", "app").await?, world.bundle("c4", "app").await?))
            })
            .await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.rest().await;
    }
}
