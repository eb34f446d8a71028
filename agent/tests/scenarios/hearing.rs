//! The sign of life says whether the agent hears, too.

use crate::world::{
    HUB_ID, NAMESPACE, Pass, Side, World, deployment, eventually, eventually_with, pass_time, spec,
};
use roundhouse_api::bundle::BundlePhase;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "agent", "namespace": NAMESPACE}})
}

async fn seen(world: &World) -> Option<String> {
    let live = world.live(Side::Hub, &lease()).await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["roundhouse.dev/hub-id"], HUB_ID);
    let seen = &live["metadata"]["annotations"]["roundhouse.dev/seen"];
    seen.as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn each_renewal_says_what_the_watch_showed_last() {
    let world = World::embedded().await;
    let config = World::config();
    let health = config.health.clone();
    let agent = world.agent_between(
        config.clone(),
        world.hub_client.clone(),
        world.member_client.clone(),
    );
    let mut before = eventually_with(
        "the watch shows a renewal",
        || seen(&world),
        |seen| seen.as_deref().is_some_and(|seen| seen != "0"),
    )
    .await;
    for _ in 0..5 {
        pass_time(12).await;
        let now = seen(&world).await;
        assert_ne!(now, before, "the watch shows each renewal");
        assert_eq!(health.ready(&config), Ok(()));
        before = now;
    }
    // One write for a renewal, and what it says is in it.
    let writes = world
        .hub
        .counter()
        .stored_of("leases.coordination.k8s.io", NAMESPACE, "agent");
    pass_time(110).await;
    let written = world
        .hub
        .counter()
        .stored_of("leases.coordination.k8s.io", NAMESPACE, "agent")
        - writes;
    assert!((9..=13).contains(&written), "{written} writes in 110 s");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_watches_are_dead_says_the_same_with_each_renewal() {
    let world = World::embedded().await;
    let renewed = async || world.live(Side::Hub, &lease()).await.unwrap()["spec"]["renewTime"].clone();
    // Reads by name and writes go through; the watch, and the list that it begins with, are never answered.
    let hub = world.gated(Side::Hub, |method, path| match *method {
        http::Method::GET if path.ends_with("/leases") => Pass::Swallowed,
        _ => Pass::Through,
    });
    let config = World::config();
    let agent = world.agent_between(config.clone(), hub, world.member_client.clone());
    pass_time(60).await;
    let (time, said) = (renewed().await, seen(&world).await);
    pass_time(60).await;
    assert_ne!(renewed().await, time, "it renews");
    assert_eq!(seen(&world).await, said);
    assert_eq!(
        said.as_deref(),
        Some("0"),
        "that it has seen nothing is said, too"
    );
    let why = config.health.ready(&config).unwrap_err();
    assert!(why.contains("deaf"), "{why}");
    assert_eq!(config.health.alive(&config), Ok(()));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_cut_off_from_its_hub_for_an_hour_is_not_ready_and_lives() {
    let world = World::embedded().await;
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    // Whatever is asked is never answered, but for the watch: it would wait for ever here.
    let hub = world.gated(Side::Hub, move |method, path| {
        match (is_cut.load(Ordering::Relaxed), path.ends_with("/leases")) {
            (true, true) if *method == http::Method::GET => Pass::Refused(503),
            (true, _) => Pass::Swallowed,
            (false, _) => Pass::Through,
        }
    });
    let config = World::config();
    let agent = world.agent_between(config.clone(), hub, world.member_client.clone());
    let ready = async || config.health.ready(&config).is_ok();
    eventually("it is ready", ready).await;
    cut.store(true, Ordering::Relaxed);
    for _ in 0..360 {
        pass_time(10).await;
        assert_eq!(config.health.alive(&config), Ok(()));
    }
    assert!(!ready().await);
    cut.store(false, Ordering::Relaxed);
    pass_time(90).await;
    assert!(ready().await);
    agent.stop().await;
}

/// Given a hub that was away for ten minutes, when it is back and says for a while that it has too much to do, then the report
/// comes again soon, however long the agent has tried before.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_back_and_has_too_much_to_do_is_told_again_soon() {
    let world = World::embedded().await;
    // 0: it is there; 1: it is away; 2: it refuses reports.
    let state = Arc::new(AtomicU8::new(0));
    let is = Arc::clone(&state);
    let hub = world.gated(Side::Hub, move |method, path| match is.load(Ordering::Relaxed) {
        1 => Pass::Refused(503),
        2 if *method != http::Method::GET && path.ends_with("/status") => Pass::Refused(429),
        _ => Pass::Through,
    });
    let mut config = World::config();
    (config.retry_min, config.retry_max) = (Duration::from_secs(1), Duration::from_secs(120));
    let agent = world.agent_between(config, hub, world.member_client.clone());
    let web = deployment("web", "web:1", 1);
    let generation = world.bundle("app", spec(std::slice::from_ref(&web))).await;
    world.reported("app", generation, BundlePhase::Progressing).await;
    state.store(1, Ordering::Relaxed);
    world.roll_out(&web).await;
    pass_time(600).await;
    // So long everybody else comes first.
    state.store(2, Ordering::Relaxed);
    pass_time(20).await;
    assert_eq!(world.status("app").await.phase, Some(BundlePhase::Progressing));
    state.store(0, Ordering::Relaxed);
    pass_time(25).await;
    assert_eq!(world.status("app").await.phase, Some(BundlePhase::Ready));
    agent.stop().await;
}
