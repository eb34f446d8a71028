//! Agents that are away, and hub objects that vanish.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use roundhouse_api::{application::StepPhase, bundle::Bundle};
use roundhouse_e2e::world::{SEED, World, eventually, image};

#[tokio::test(start_paused = true)]
async fn a_stopped_agent_makes_the_step_wait_and_is_named_and_nothing_is_deleted() -> Result<()> {
    let mut world = World::five().await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    let before = world.replicas("web").await?;
    world.fleet.stop_agent("east-2").await?;
    world.until_available("east-2", false).await?;
    world.set_image("nginx:1.29").await?;

    let status = world.says("web", "east-2").await?;
    let run = status.workflow.context("workflow")?;
    assert!(!run.finished);
    assert_eq!(run.steps[0].phase, StepPhase::Running);
    // Long after, it waits still; the other clusters have the new revision and nobody lost a replica.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let status = world.says("web", "east-2").await?;
    assert!(!status.workflow.context("workflow")?.finished);
    let waiting = status.delivery.context("delivery")?.not_ready;
    assert_eq!(
        waiting.iter().map(|c| c.cluster.as_str()).collect::<Vec<_>>(),
        ["east-2"]
    );
    assert_eq!(world.replicas("web").await?, before);
    assert_eq!(
        image(&world.deployment("east-2", "web").await?, "web").as_deref(),
        Some("nginx:1.28")
    );
    assert_eq!(
        image(&world.deployment("east-1", "web").await?, "web").as_deref(),
        Some("nginx:1.29")
    );

    world.fleet.start_agent("east-2")?;
    world.delivered("web", "web-v2").await?;
    assert_eq!(
        image(&world.deployment("east-2", "web").await?, "web").as_deref(),
        Some("nginx:1.29")
    );
    assert_eq!(world.replicas("web").await?, before);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn removing_a_clusters_namespace_on_the_hub_deletes_nothing_on_the_member() -> Result<()> {
    let world = World::five().await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    let uid = world.deployment("west-1", "web").await?.metadata.uid;
    let old = world.bundle("west-1", "web").await?.metadata.uid;

    let namespaces: Api<Namespace> = Api::all(world.hub.clone());
    namespaces
        .delete("cluster-west-1", &DeleteParams::default())
        .await?;
    // A namespace only ends when its content does: a person who means it takes the finalizers away as well.
    let bundles: Api<Bundle> = Api::namespaced(world.hub.clone(), "cluster-west-1");
    let nothing = serde_json::json!({"metadata": {"finalizers": null}});
    let patch = kube::api::Patch::Merge(nothing);
    let _ = bundles
        .patch("default.web", &kube::api::PatchParams::default(), &patch)
        .await;

    // The hub makes the namespace and the Bundle again, and the agent attaches to what it holds.
    eventually("a new Bundle with its own evidence", async || {
        let bundle = world.bundle("west-1", "web").await?;
        let status = bundle.status.clone().unwrap_or_default();
        let new = bundle.metadata.uid != old && bundle.metadata.deletion_timestamp.is_none();
        let evidence =
            status.observed_generation == bundle.metadata.generation && status.hash == bundle.spec.hash;
        Ok(if new && evidence {
            Ok(())
        } else {
            Err(bundle.metadata)
        })
    })
    .await?;
    let deployment = world.deployment("west-1", "web").await?;
    assert_eq!(deployment.metadata.uid, uid, "the very same object");
    assert_eq!(deployment.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_application_is_cleaned_and_one_whose_agent_is_away_is_cleaned_when_it_returns()
-> Result<()> {
    let mut world = World::five().await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    world.fleet.stop_agent("west-2").await?;
    world.until_available("west-2", false).await?;
    let applications: Api<roundhouse_api::application::Application> =
        Api::namespaced(world.hub.clone(), "default");
    applications.delete("web", &DeleteParams::default()).await?;
    eventually("the reachable clusters to be clean", async || {
        let left = world.replicas("web").await?;
        Ok(if left.len() == 1 && left.contains_key("west-2") {
            Ok(())
        } else {
            Err(left)
        })
    })
    .await?;
    world.says("web", "west-2").await?;
    world.fleet.start_agent("west-2")?;
    eventually("the application to be gone", async || {
        let gone = applications.get_opt("web").await?.is_none();
        Ok(if gone { Ok(()) } else { Err("still there") })
    })
    .await?;
    assert!(world.replicas("web").await?.is_empty());
    Ok(())
}
