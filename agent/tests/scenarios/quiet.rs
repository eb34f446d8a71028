//! Steady state writes nothing.

use crate::world::{Pass, Side, World, config_map, deployment, dispatched, eventually, pass_time, spec};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bundles of every sort, settled.
async fn settled(world: &World) {
    let web = deployment("web", "i:1", 2);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"a": "b"}});
    let first = world
        .bundle(
            "default.app",
            dispatched(&[web.clone(), service, secret], "app-v1", 1),
        )
        .await;
    eventually("the deployment is made", || async {
        world.live(Side::Member, &web).await.is_some()
    })
    .await;
    world.roll_out(&web).await;
    world.reported("default.app", first, Ready).await;
    let foreign = config_map("foreign", "theirs");
    world.create(Side::Member, foreign).await;
    let bad = [config_map("a", "1"), config_map("foreign", "ours"), json!("text")];
    let second = world.bundle("plain", spec(&bad)).await;
    world.reported("plain", second, Failed).await;
    pass_time(5).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_passes_over_settled_bundles_write_nothing() {
    let world = World::embedded().await;
    let mut config = World::config();
    config.resync = Duration::from_secs(10);
    let agent = world.agent_with(config);
    settled(&world).await;
    let (writes, requests) = (world.writes(), world.write_requests());
    let reads = world.member.counter().requests();
    pass_time(1100).await;
    let gets = |requests: &std::collections::BTreeMap<(&'static str, String), u64>| {
        requests
            .get(&("get", "configmaps".to_owned()))
            .copied()
            .unwrap_or(0)
    };
    let passes = gets(&world.member.counter().requests()) - gets(&reads);
    assert!(passes >= 100, "{passes} passes");
    assert_eq!(world.writes(), writes, "{:#?}", world.hub.counter().by_object());
    assert_eq!(
        world.write_requests(),
        requests,
        "not even a write that changes nothing is sent"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_over_settled_bundles_writes_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    settled(&world).await;
    agent.stop().await;
    let writes = world.writes();
    let agent = world.agent();
    pass_time(60).await;
    agent.kill().await;
    assert_eq!(
        world.writes(),
        writes,
        "{:#?} {:#?}",
        world.hub.counter().by_object(),
        world.member.counter().by_object()
    );
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_once_per_interval() {
    let world = World::embedded().await;
    let agent = world.agent();
    pass_time(5).await;
    let renewals = || {
        world
            .hub
            .counter()
            .stored_of("leases.coordination.k8s.io", crate::world::NAMESPACE, "agent")
    };
    let before = renewals();
    pass_time(100).await;
    let renewed = renewals() - before;
    assert!(
        (9..=11).contains(&renewed),
        "{renewed} renewals in 100 s at an interval of 10 s"
    );
    agent.stop().await;
}

/// Given a manifest that spells a value otherwise than the server does, when passes go by, then the patch that changes
/// nothing is not sent again and again.
#[tokio::test(start_paused = true)]
async fn a_value_that_the_server_spells_otherwise_is_sent_once() {
    let world = World::embedded().await;
    let mut config = World::config();
    config.resync = Duration::from_secs(10);
    // As kube-apiserver answers: quantities in canonical form.
    let member = world.gated(Side::Member, |_, path| {
        if path.ends_with("/deployments/web") {
            return Pass::Reworked(|deployment| {
                if let Some(limits) =
                    deployment.pointer_mut("/spec/template/spec/containers/0/resources/limits")
                {
                    *limits = json!({"cpu": "1"});
                }
            });
        }
        Pass::Through
    });
    let agent = world.agent_between(config, world.hub_client.clone(), member);
    let mut web = deployment("web", "i:1", 1);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    let generation = world.bundle("plain", spec(&[web.clone()])).await;
    world.reported("plain", generation, Progressing).await;
    pass_time(60).await;
    let requests = world.write_requests();
    pass_time(1100).await;
    assert_eq!(world.write_requests(), requests);
    agent.stop().await;
}

/// Given a hub that has too much to do for reports, when they are sent again, then nothing is read or written anew in the member for
/// that, and what is reported at last is what the member has by then.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_not_taken_is_sent_again_and_nothing_is_applied_again() {
    let world = World::embedded().await;
    let mut config = World::config();
    config.resync = Duration::from_secs(1_000_000);
    let (busy, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let (is_busy, tried) = (Arc::clone(&busy), Arc::clone(&tries));
    let hub = world.gated(Side::Hub, move |_, path| {
        if !path.ends_with("/bundles/plain/status") || !is_busy.load(Ordering::Acquire) {
            return Pass::Through;
        }
        tried.fetch_add(1, Ordering::AcqRel);
        Pass::Refused(429)
    });
    let agent = world.agent_between(config, hub, world.member_client.clone());
    let web = deployment("web", "i:1", 2);
    let objects = [web.clone(), config_map("a", "1"), config_map("b", "1")];
    let generation = world.bundle("plain", spec(&objects)).await;
    eventually("a report was tried", || async {
        tries.load(Ordering::Acquire) > 0
    })
    .await;
    let count = || {
        let requests = world.member.counter().requests();
        let of = |((verb, kind), count): (&(&'static str, String), &u64)| {
            let is_own = kind != "leases" && *verb != "watch";
            is_own.then_some(*count)
        };
        (
            requests.iter().filter_map(of).sum::<u64>(),
            world.member.write_requests(),
        )
    };
    let before = (count(), tries.load(Ordering::Acquire));
    pass_time(600).await;
    let after = (count(), tries.load(Ordering::Acquire));
    assert!(after.1 >= before.1 + 5, "{} tries", after.1 - before.1);
    assert_eq!(after.0, before.0, "{:#?}", world.member.counter().requests());
    // What comes about meanwhile is looked at, and told.
    world.roll_out(&web).await;
    pass_time(10).await;
    busy.store(false, Ordering::Release);
    pass_time(160).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
}
