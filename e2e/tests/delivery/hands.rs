//! What people do by hand in a member.

use anyhow::{Context, Result};
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_e2e::world::{SEED, World, annotation, eventually, image};
use serde_json::json;

async fn two(mode: ApplyOnce) -> Result<World> {
    let world = World::start(&[("east-1", "east"), ("west-1", "west")], mode).await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    assert_eq!(world.replicas("web").await?["east-1"], 7);
    Ok(world)
}

async fn scale_by_hand(world: &World, replicas: i32) -> Result<()> {
    world
        .patch_deployment("east-1", "web", json!({"spec": {"replicas": replicas}}))
        .await
}

#[tokio::test(start_paused = true)]
async fn a_scale_by_hand_is_undone_in_mode_off() -> Result<()> {
    let world = two(ApplyOnce::Never).await?;
    scale_by_hand(&world, 12).await?;
    eventually("7 replicas again", async || {
        let replicas = world.replicas("web").await?["east-1"];
        Ok(if replicas == 7 { Ok(()) } else { Err(replicas) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_scale_by_hand_stays_in_mode_on_until_the_next_revision() -> Result<()> {
    let world = two(ApplyOnce::Once).await?;
    scale_by_hand(&world, 12).await?;
    // An hour holds many passes of the slow resync.
    world.long_while().await;
    assert_eq!(world.replicas("web").await?["east-1"], 12);
    world.set_image("nginx:1.29").await?;
    world.delivered("web", "web-v2").await?;
    assert_eq!(
        world.replicas("web").await?["east-1"],
        7,
        "a new revision is applied whole"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_scale_by_hand_stays_where_the_application_asks_for_apply_once() -> Result<()> {
    let world = two(ApplyOnce::Never).await?;
    let policy = json!([{"name": "once", "type": "apply-once", "properties": {"enable": true}}]);
    world
        .edit(
            "web",
            json!([{"op": "add", "path": "/spec/policies", "value": policy}]),
        )
        .await?;
    world.delivered("web", "web-v2").await?;
    scale_by_hand(&world, 12).await?;
    world.long_while().await;
    assert_eq!(world.replicas("web").await?["east-1"], 12);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_annotation_and_a_sidecar_added_by_hand_survive_the_next_revision() -> Result<()> {
    let world = two(ApplyOnce::Never).await?;
    let sidecar = json!({
        "metadata": {"annotations": {"team": "payments"}},
        "spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "envoy:1"}]}}},
    });
    world.patch_deployment("east-1", "web", sidecar).await?;
    world.set_image("nginx:1.29").await?;
    world.delivered("web", "web-v2").await?;
    let deployment = world.deployment("east-1", "web").await?;
    assert_eq!(image(&deployment, "web").as_deref(), Some("nginx:1.29"));
    assert_eq!(image(&deployment, "proxy").as_deref(), Some("envoy:1"));
    assert_eq!(annotation(&deployment, "team").as_deref(), Some("payments"));
    let pod = deployment
        .spec
        .context("spec")?
        .template
        .metadata
        .unwrap_or_default();
    let stamps = pod.annotations.unwrap_or_default();
    assert!(
        stamps.is_empty(),
        "no stamp of ours is in the pod template: {stamps:?}"
    );
    Ok(())
}
