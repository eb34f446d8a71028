//! An agent that starts while its hub is away heals what the hub sent last.

use crate::world::{
    HUB_ID, NAMESPACE, Pass, Side, World, bundle, config_map, dispatched, eventually, pass_time, spec,
};
use roundhouse_agent::{AgentError, Config};
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn config(home: &Path) -> Config {
    Config {
        bundles_dir: Some(home.to_owned()),
        ..World::config()
    }
}

/// A hub that can be cut off: every request then fails.
fn cuttable(world: &World) -> (kube::Client, Arc<AtomicBool>) {
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let hub = world.gated(Side::Hub, move |_, _| match is_cut.load(Ordering::Acquire) {
        true => Pass::Lost,
        false => Pass::Through,
    });
    (hub, cut)
}

async fn live(world: &World, object: &serde_json::Value) -> bool {
    world.live(Side::Member, object).await.is_some()
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_sent_last_is_healed_by_an_agent_that_starts_without_it() {
    let (world, home) = (World::embedded().await, tempfile::tempdir().unwrap());
    let (hub, cut) = cuttable(&world);
    let start = || world.agent_between(config(home.path()), hub.clone(), world.member_client.clone());
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let agent = start();
    let generation = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Ready).await;
    agent.stop().await;
    cut.store(true, Ordering::Release);
    world.delete(Side::Member, &a).await;
    let agent = start();
    eventually("it is healed", || live(&world, &a)).await;
    world.delete(Side::Member, &a).await;
    eventually("it is healed again", || live(&world, &a)).await;
    // What the hub says goes first as soon as it says it.
    let generation = world
        .bundle("default.app", dispatched(&[a.clone(), b.clone()], "app-v2", 1))
        .await;
    cut.store(false, Ordering::Release);
    pass_time(120).await;
    world.reported("default.app", generation, Ready).await;
    assert!(live(&world, &b).await);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_went_while_nobody_looked_is_held_and_not_healed_any_more() {
    let (world, home) = (World::embedded().await, tempfile::tempdir().unwrap());
    let (hub, cut) = cuttable(&world);
    let start = || world.agent_between(config(home.path()), hub.clone(), world.member_client.clone());
    let a = config_map("a", "1");
    let agent = start();
    let generation = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Ready).await;
    agent.stop().await;
    cut.store(true, Ordering::Release);
    world.delete(Side::Hub, &bundle("default.app")).await;
    world.delete(Side::Member, &a).await;
    let agent = start();
    eventually("it is healed while the hub is away", || live(&world, &a)).await;
    cut.store(false, Ordering::Release);
    world.held("default.app").await;
    world.delete(Side::Member, &a).await;
    pass_time(700).await;
    assert!(!live(&world, &a).await);
    agent.stop().await;
    // Nothing of it is kept for the next start.
    cut.store(true, Ordering::Release);
    let agent = start();
    pass_time(100).await;
    assert!(!live(&world, &a).await);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_of_a_hub_is_nothing_to_another_one() {
    let (world, home) = (World::embedded().await, tempfile::tempdir().unwrap());
    let (hub, cut) = cuttable(&world);
    let start = || world.agent_between(config(home.path()), hub.clone(), world.member_client.clone());
    let a = config_map("a", "1");
    let agent = start();
    let generation = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
    cut.store(true, Ordering::Release);
    let agent = start();
    pass_time(60).await;
    // It comes back as another hub, with a Bundle of the same name: what was applied for the old one stays.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "agent", "namespace": NAMESPACE}});
    let other = json!({"metadata": {"annotations": {"roundhouse.dev/hub-id": "9876543210"}}});
    world.merge(Side::Hub, &lease, other).await;
    world.bundle("plain", spec(&[config_map("a", "2")])).await;
    cut.store(false, Ordering::Release);
    assert!(matches!(agent.ended().await, Err(AgentError::HubChanged { .. })));
    assert_eq!(world.live(Side::Member, &a).await.unwrap()["data"]["key"], "1");
    let agent = start();
    pass_time(60).await;
    let marker =
        &world.live(Side::Member, &a).await.unwrap()["metadata"]["annotations"]["roundhouse.dev/owned-by"];
    assert_eq!(marker, &format!("{HUB_ID}/plain"));
    agent.stop().await;
}
