//! Bad input, fencing, and an agent that is killed.

use crate::world::{
    HUB_ID, Pass, Side, World, bundle, config_map, dispatched, eventually, eventually_with, pass_time,
    reason, spec,
};
use kube::Client;
use roundhouse_agent::AgentError;
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[tokio::test(start_paused = true)]
async fn one_bad_manifest_fails_alone_and_its_object_is_not_pruned() {
    let world = World::new().await;
    let agent = world.agent();
    let (good, other) = (config_map("good", "1"), config_map("other", "1"));
    let first = world.bundle("plain", spec(&[good.clone(), other.clone()])).await;
    world.reported("plain", first, Ready).await;
    let broken = json!({"kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"}});
    let second = world
        .bundle("plain", spec(&[config_map("good", "2"), broken, json!("text")]))
        .await;
    let status = world.reported("plain", second, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.total, counts.applied, counts.failed), (3, 1, 2));
    let failures = status.resource_status.unwrap().manifests;
    assert_eq!(
        failures
            .iter()
            .map(|f| f.resource_meta.ordinal)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(failures[0].conditions[0].reason, "DecodingFailed");
    assert_eq!(world.live(Side::Member, &good).await.unwrap()["data"]["key"], "2");
    assert!(world.live(Side::Member, &other).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_member_rejects_fails_alone_without_a_hot_loop() {
    let world = World::embedded().await;
    let mut definition = crate::applying::widget_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    world.create(Side::Member, definition).await;
    let widget = |size: serde_json::Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": size}})
    };
    let agent = world.agent();
    let map = config_map("beside", "1");
    let first = world
        .bundle("plain", spec(&[widget(json!("large")), map.clone()]))
        .await;
    let status = world.reported("plain", first, Failed).await;
    assert_eq!(reason(&status, "Applied"), "Invalid");
    assert!(world.live(Side::Member, &map).await.is_some());
    let (tried, writes) = (world.member.write_requests(), world.writes());
    pass_time(3600).await;
    let tries = world.member.write_requests() - tried;
    assert!(
        (20..=60).contains(&tries),
        "{tries} tries in an hour: {:#?}",
        world.member.counter().requests()
    );
    assert_eq!(world.writes(), writes);
    let second = world.bundle("plain", spec(&[widget(json!(3)), map])).await;
    world.reported("plain", second, Ready).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hash_mismatch_applies_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world
        .bundle("default.app", dispatched(&[map.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let mut tampered = dispatched(&[config_map("a", "2")], "app-v2", 1);
    tampered["hash"] = json!("0".repeat(64));
    let second = world.bundle("default.app", tampered).await;
    let status = world.reported("default.app", second, Failed).await;
    assert_eq!(reason(&status, "Applied"), "HashMismatch");
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_older_epoch_is_ignored() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world
        .bundle("default.app", dispatched(&[map.clone()], "app-v1", 7))
        .await;
    world.reported("default.app", first, Ready).await;
    agent.stop().await;
    // A newer leader was obeyed meanwhile.
    let ledger = world.ledger("default.app").await.unwrap();
    world
        .merge(Side::Member, &ledger, json!({"spec": {"epoch": 9}}))
        .await;
    world
        .bundle("default.app", dispatched(&[config_map("a", "2")], "app-v2", 8))
        .await;
    let agent = world.agent();
    let status = eventually_with(
        "it says so",
        || world.status("default.app"),
        |status| reason(status, "Progressing") == "OldEpoch",
    )
    .await;
    assert_eq!((status.epoch, status.observed_generation), (Some(9), Some(first)));
    pass_time(700).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_killed_between_ledger_and_writes_recovers_by_the_ledger() {
    let world = World::new().await;
    let is_write =
        |method: &http::Method, path: &str| method == http::Method::POST && path.contains("/configmaps");
    let (member, cut) = world.wire(Side::Member, is_write);
    cut.store(true, Ordering::Release);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    eventually("the ledger is written", || async {
        world.ledger("default.app").await.is_some()
    })
    .await;
    assert_eq!(
        world.ledger("default.app").await.unwrap()["spec"]["state"],
        "Applying"
    );
    assert!(world.live(Side::Member, &a).await.is_none());
    agent.kill().await;
    // Half of the work is done when the next one dies: the object is there, its uid is not in the ledger.
    let mut made = a.clone();
    made["metadata"]["annotations"] = json!({"roundhouse.dev/owned-by": format!("{HUB_ID}/default.app")});
    world.create(Side::Member, made).await;
    // And what was intended is no longer wanted.
    let next = world
        .bundle("default.app", dispatched(&[b.clone()], "app-v2", 1))
        .await;
    let agent = world.agent();
    world.reported("default.app", next, Ready).await;
    eventually("no orphan is left", || async {
        world.live(Side::Member, &a).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &b).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_waits_for_its_lease_and_gives_up_when_the_hub_is_another_one() {
    let world = World::without_lease().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    pass_time(60).await;
    assert!(world.live(Side::Member, &map).await.is_none());
    world.make_lease(HUB_ID).await;
    world.reported("plain", generation, Ready).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "agent", "namespace": crate::world::NAMESPACE}});
    let live = world.live(Side::Hub, &lease).await.unwrap();
    assert_eq!(live["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(live["spec"]["holderIdentity"], "roundhouse-agent");
    let report = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "ClusterReport",
        "metadata": {"name": "c1", "namespace": crate::world::NAMESPACE}});
    eventually("the facts are reported", || async {
        world.live(Side::Hub, &report).await.is_some()
    })
    .await;
    world
        .merge(
            Side::Hub,
            &lease,
            json!({"metadata": {"annotations": {"roundhouse.dev/hub-id": "another"}}}),
        )
        .await;
    assert!(matches!(agent.ended().await, Err(AgentError::HubChanged { .. })));
    assert!(world.live(Side::Member, &map).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_secret_holds_is_in_no_report_although_the_member_repeats_it() {
    let world = World::new().await;
    let agent = world.agent();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "default"},
        "data": {"password": "hunter2 is no base64"}});
    let generation = world
        .bundle("plain", spec(&[secret, config_map("beside", "1")]))
        .await;
    let status = world.reported("plain", generation, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.applied, counts.failed), (1, 1));
    let failure = &status.resource_status.as_ref().unwrap().manifests[0];
    assert_eq!(failure.resource_meta.kind, "Secret");
    assert!(failure.conditions[0].message.contains("left out"), "{failure:?}");
    let ledger = world.ledger("plain").await.unwrap();
    for said in [serde_json::to_string(&status).unwrap(), ledger.to_string()] {
        assert!(!said.contains("hunter2"), "{said}");
    }
    agent.stop().await;
}

/// Given an object that is ready, when something changes about it and the look at it fails once, then the report stands; when it
/// fails again, that is said, until a look goes through.
#[tokio::test(start_paused = true)]
async fn one_look_that_fails_is_no_word_on_an_object_that_was_ready() {
    let world = World::new().await;
    let fails = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&fails);
    let member = world.gated(Side::Member, move |_, path| {
        let fails = || left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        match path.ends_with("/configmaps/a") && fails().is_ok() {
            true => Pass::Lost,
            false => Pass::Through,
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    pass_time(5).await;
    let by_others_and_no_more = world.writes() + 1;
    fails.store(1, Ordering::Release);
    let by_others = |key: &str| json!({"metadata": {"labels": {(key): "theirs"}}});
    world.merge(Side::Member, &map, by_others("first")).await;
    pass_time(60).await;
    assert_eq!(fails.load(Ordering::Acquire), 0, "it was looked at");
    assert_eq!(world.writes(), by_others_and_no_more, "nothing was reported");
    fails.store(2, Ordering::Release);
    world.merge(Side::Member, &map, by_others("second")).await;
    let delayed = eventually_with(
        "it says so",
        || world.status("plain"),
        |status| status.phase == Some(Progressing),
    )
    .await;
    assert_ne!(reason(&delayed, "Applied"), "Applied");
    world.reported("plain", generation, Ready).await;
    // What is wanted anew was never there.
    fails.store(1, Ordering::Release);
    let generation = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    world.reported("plain", generation, Progressing).await;
    world.reported("plain", generation, Ready).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "2");
    agent.stop().await;
}

/// Given an agent that breaks over one object (here the test breaks it), when it works on the object's bundle, then the
/// bundle says so and is tried again with growing delays, the others go on, and when the trouble is over it is applied.
#[tokio::test(start_paused = true)]
async fn a_defect_that_one_bundle_meets_stays_its_own_and_is_tried_again() {
    let world = World::new().await;
    let (tries, whole) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (tried, is_whole) = (Arc::clone(&tries), Arc::clone(&whole));
    let member = world.gated(Side::Member, move |_, path| {
        if path.ends_with("/configmaps/defect") && !is_whole.load(Ordering::Acquire) {
            tried.fetch_add(1, Ordering::AcqRel);
            panic!("a defect, as the test plays it");
        }
        Pass::Through
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    world.bundle("broken", spec(&[config_map("defect", "1")])).await;
    eventually_with(
        "it says so",
        || world.status("broken"),
        |status| reason(status, "Progressing") == "AgentDefect",
    )
    .await;
    for value in ["1", "2"] {
        let beside = world.bundle("beside", spec(&[config_map("beside", value)])).await;
        world.reported("beside", beside, Ready).await;
    }
    pass_time(600).await;
    let (writes, before) = (world.writes(), tries.load(Ordering::Acquire));
    pass_time(1200).await;
    let more = tries.load(Ordering::Acquire) - before;
    assert!((3..=30).contains(&more), "{more} tries");
    assert_eq!(world.writes(), writes, "trying again writes nothing");
    whole.store(true, Ordering::Release);
    pass_time(200).await;
    let status = world.status("broken").await;
    assert_eq!(status.phase, Some(Ready), "{status:?}");
    assert_eq!(
        reason(&status, "Progressing"),
        reason(&world.status("beside").await, "Progressing")
    );
    agent.stop().await;
}

/// Given a hand-written Bundle, without epoch or hash, when the hub is restored to a state in which another content has
/// the same generation, then that content is applied.
#[tokio::test(start_paused = true)]
async fn a_restored_hub_may_give_a_generation_to_another_content() {
    let world = World::embedded().await;
    let restored = World::embedded().await;
    let map = config_map("a", "1");
    for (world, value) in [(&world, "1"), (&restored, "2")] {
        world.bundle("plain", spec(&[config_map("a", value)])).await;
    }
    let mut before = world.live(Side::Hub, &bundle("plain")).await.unwrap();
    let mut after = restored.live(Side::Hub, &bundle("plain")).await.unwrap();
    for field in ["uid", "generation"] {
        let (before, after) = (before["metadata"][field].take(), after["metadata"][field].take());
        assert_eq!(before, after, "the hubs differ in nothing but the content");
    }
    let is_restored = Arc::new(AtomicBool::new(false));
    let hubs = (world.hub_client.clone(), restored.hub_client.clone());
    let now = Arc::clone(&is_restored);
    let hub = tower::service_fn(move |request| {
        let hub = if now.load(Ordering::Acquire) {
            &hubs.1
        } else {
            &hubs.0
        };
        let hub = hub.clone();
        async move { hub.send(request).await }
    });
    let agent = world.agent_between(
        World::config(),
        Client::new(hub, "default"),
        world.member_client.clone(),
    );
    let value = || async { world.live(Side::Member, &map).await.unwrap_or_default()["data"]["key"].clone() };
    eventually("the first content is applied", || async { value().await == "1" }).await;
    world.reported("plain", 1, Ready).await;
    pass_time(5).await;
    // The restored hub has gone on for longer: a watch that is taken up there hears of the Bundle once more.
    let report = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "ClusterReport",
        "metadata": {"name": "c1", "namespace": crate::world::NAMESPACE}});
    let revision = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let latest = [
        world.live(Side::Hub, &bundle("plain")).await.unwrap(),
        world.live(Side::Hub, &report).await.unwrap(),
    ];
    let latest = latest.iter().map(revision).max().unwrap() + 100;
    for turn in 0.. {
        let label = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
        if revision(&restored.merge(Side::Hub, &bundle("plain"), label).await) > latest {
            break;
        }
    }
    is_restored.store(true, Ordering::Release);
    world.hub.close_watches();
    eventually("the other content is applied", || async { value().await == "2" }).await;
    let hash = roundhouse_api::hash::of_manifests(&[config_map("a", "2")]);
    eventually("and reported", || async {
        restored.status("plain").await.hash.as_ref() == Some(&hash)
    })
    .await;
    agent.stop().await;
}
