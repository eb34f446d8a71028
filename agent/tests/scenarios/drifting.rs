//! Drift and apply-once.

use crate::world::{Side, World, config_map, deployment, dispatched, eventually, pass_time, spec};
use roundhouse_api::bundle::BundlePhase::{Progressing, Ready};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn scaled_by_hand_is_undone_at_once_in_mode_never() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    eventually("replicas are 2 again", || async {
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"] == 2
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaled_by_hand_is_kept_in_mode_once_until_the_content_changes() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let once = |content: &serde_json::Value| {
        let mut spec = dispatched(&[content.clone()], "app-v1", 1);
        spec["applyOnce"] = json!("Once");
        spec
    };
    let generation = world.bundle("default.app", once(&web)).await;
    world.reported("default.app", generation, Progressing).await;
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    pass_time(700).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        9
    );
    // Divided anew: the same revision with another number is a change.
    let divided = deployment("web", "i:1", 3);
    let generation = world.bundle("default.app", once(&divided)).await;
    world.reported("default.app", generation, Progressing).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        3
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_made_again() {
    let world = World::new().await;
    let agent = world.agent();
    let (map, web) = (config_map("unlabelled", "1"), deployment("web", "i:1", 1));
    let generation = world.bundle("plain", spec(&[map.clone(), web.clone()])).await;
    world.reported("plain", generation, Progressing).await;
    for object in [&map, &web] {
        let before = world.live(Side::Member, object).await.unwrap();
        world.delete(Side::Member, object).await;
        crate::world::eventually_with(
            "it is back",
            || world.live(Side::Member, object),
            |live| {
                live.as_ref()
                    .is_some_and(|live| live["metadata"]["uid"] != before["metadata"]["uid"])
            },
        )
        .await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stripped_label_is_drift() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 1);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    let uid = world.live(Side::Member, &web).await.unwrap()["metadata"]["uid"].clone();
    world
        .merge(
            Side::Member,
            &web,
            json!({"metadata": {"labels": {"app.oam.dev/name": null}}}),
        )
        .await;
    let live = crate::world::eventually_with(
        "it is back",
        || world.live(Side::Member, &web),
        |live| live.as_ref().unwrap()["metadata"]["labels"]["app.oam.dev/name"] == "app",
    )
    .await;
    assert_eq!(live.unwrap()["metadata"]["uid"], uid);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_healed_while_the_hub_is_away() {
    let world = World::new().await;
    let (hub, cut) = world.wire(Side::Hub, |_, _| true);
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    cut.store(true, std::sync::atomic::Ordering::Release);
    pass_time(3600).await;
    assert!(
        world.live(Side::Member, &map).await.is_some(),
        "nothing is deleted"
    );
    world
        .merge(Side::Member, &map, json!({"data": {"key": "by hand"}}))
        .await;
    eventually("it is healed", || async {
        world.live(Side::Member, &map).await.unwrap()["data"]["key"] == "1"
    })
    .await;
    // Back again: only the difference is applied.
    let next = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    cut.store(false, std::sync::atomic::Ordering::Release);
    pass_time(60).await;
    world.reported("plain", next, Ready).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_report_says_so_and_writes_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let mut content = spec(&[map.clone()]);
    content["drift"] = json!("Report");
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    world
        .merge(Side::Member, &map, json!({"data": {"key": "by hand"}}))
        .await;
    crate::world::eventually_with(
        "it says so",
        || world.status("plain"),
        |status| crate::world::reason(status, "Applied") == "Drifted",
    )
    .await;
    assert_eq!(
        world.live(Side::Member, &map).await.unwrap()["data"]["key"],
        "by hand"
    );
    agent.stop().await;
}
