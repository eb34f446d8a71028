//! What people do by hand in a member.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use roundhouse_api::{application::Application, bundle::ApplyOnce, cluster::Cluster, condition};
use roundhouse_e2e::world::{SEED, World, annotation, eventually, image};
use serde_json::json;
use std::time::Duration;

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

/// The policy `apply-once` with one rule.
fn kept(path: &str, affect: &str) -> serde_json::Value {
    json!([{"name": "once", "type": "apply-once", "properties": {"enable": true, "rules": [
        {"selector": {"componentNames": ["web"], "resourceTypes": ["Deployment"]},
            "strategy": {"path": [path], "affect": affect}}]}}])
}

#[tokio::test(start_paused = true)]
async fn replicas_that_an_application_leaves_to_an_autoscaler_are_never_written() -> Result<()> {
    let world = two(ApplyOnce::Never).await?;
    let policy = kept("spec.replicas", "always");
    let add = json!([{"op": "add", "path": "/spec/policies", "value": policy}]);
    world.edit("web", add).await?;
    world.delivered("web", "web-v2").await?;
    for replicas in [9, 12, 8] {
        scale_by_hand(&world, replicas).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let settled = world.deployment("east-1", "web").await?;
        world.long_while().await;
        let later = world.deployment("east-1", "web").await?;
        assert_eq!(
            later.metadata.generation, settled.metadata.generation,
            "{replicas}"
        );
        assert_eq!(world.replicas("web").await?["east-1"], replicas);
    }
    // A new revision changes what the rule does not name.
    world.set_image("nginx:1.29").await?;
    world.delivered("web", "web-v3").await?;
    let deployment = world.deployment("east-1", "web").await?;
    assert_eq!(image(&deployment, "web").as_deref(), Some("nginx:1.29"));
    assert_eq!(world.replicas("web").await?["east-1"], 8);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deployment_deleted_by_hand_stays_deleted_where_the_application_asks_for_force() -> Result<()> {
    let world = two(ApplyOnce::Never).await?;
    let policy =
        json!([{"name": "once", "type": "apply-once", "properties": {"enable": true, "mode": "Force"}}]);
    let add = json!([{"op": "add", "path": "/spec/policies", "value": policy}]);
    world.edit("web", add).await?;
    world.delivered("web", "web-v2").await?;
    let deployments: Api<Deployment> = Api::namespaced(world.fleet.member_client("east-1")?, "default");
    deployments.delete("web", &DeleteParams::background()).await?;
    world.long_while().await;
    assert!(deployments.get_opt("web").await?.is_none());
    let bundle = world.bundle("east-1", "web").await?;
    let conditions = bundle.status.context("status")?.conditions;
    let applied = condition::get(&conditions, "Applied").context("Applied")?;
    assert_eq!(applied.reason, "KeptDeleted");
    assert!(applied.message.contains("Deployment web"), "{}", applied.message);
    // A new revision of the component brings it back.
    world.set_image("nginx:1.29").await?;
    world.delivered("web", "web-v3").await?;
    assert_eq!(world.replicas("web").await?["east-1"], 7);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_application_that_moves_away_under_apply_once_leaves_running_pods_until_it_is_deleted()
-> Result<()> {
    let world = two(ApplyOnce::Once).await?;
    let clusters: Api<Cluster> = Api::all(world.hub.clone());
    let north = Patch::Merge(json!({"metadata": {"labels": {"region": "north"}}}));
    clusters.patch("east-1", &PatchParams::default(), &north).await?;
    let refused = async || {
        let bundle = world.bundle("east-1", "web").await?;
        let conditions = bundle.status.unwrap_or_default().conditions;
        let reasons: Vec<String> = conditions.into_iter().map(|c| c.reason).collect();
        Ok(if reasons.iter().any(|r| r == "RemovalRefused") {
            Ok(())
        } else {
            Err(reasons)
        })
    };
    eventually("the agent refuses", refused).await?;
    world.long_while().await;
    assert_eq!(world.replicas("web").await?["east-1"], 7);
    let status = world.status("web").await?;
    let held = condition::get(&status.conditions, "DeletesHeld").context("DeletesHeld")?;
    assert!(held.message.contains("east-1"), "{}", held.message);

    let applications: Api<Application> = Api::namespaced(world.hub.clone(), "default");
    applications.delete("web", &DeleteParams::default()).await?;
    let deployments: Api<Deployment> = Api::namespaced(world.fleet.member_client("east-1")?, "default");
    eventually("it is cleaned", async || {
        let left = deployments.get_opt("web").await?;
        Ok(if left.is_none() {
            Ok(())
        } else {
            Err("the Deployment is there")
        })
    })
    .await
}
