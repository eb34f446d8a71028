//! How objects go (rows C01, C02, C03 and C05; C04 is among the deletions): what is orphaned, what is waited for, and in
//! which order.

use crate::world::{
    Pass, Side, World, bundle, config_map, deployment, eventually, eventually_with, pass_time, spec,
};
use roundhouse_api::bundle::BundlePhase::{Progressing, Ready};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const NAME: &str = "plain";

fn with_option(option: &Value, manifests: &[Value]) -> Value {
    let mut spec = spec(manifests);
    spec["deleteOption"] = option.clone();
    spec
}

/// Takes the option away, by a merge patch.
fn without_option(manifests: &[Value]) -> Value {
    with_option(&Value::Null, manifests)
}

fn orphan() -> Value {
    json!({"propagationPolicy": "Orphan"})
}

/// The ConfigMap of this name stays.
fn selectively(name: &str) -> Value {
    json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
        {"group": "", "resource": "configmaps", "namespace": "default", "name": name}]}})
}

async fn delivered(world: &World, spec: Value) {
    let generation = world.bundle(NAME, spec).await;
    world.reported(NAME, generation, Ready).await;
}

async fn is_gone(world: &World, object: &Value) {
    eventually(&format!("{} is gone", object["metadata"]["name"]), || async {
        world.live(Side::Member, object).await.is_none()
    })
    .await;
}

/// It is there, and nobody's.
async fn is_orphaned(world: &World, object: &Value) {
    eventually(&format!("{} is nobody's", object["metadata"]["name"]), || async {
        let live = world.live(Side::Member, object).await.expect("it stays");
        live["metadata"]["annotations"]
            .get("roundhouse.dev/owned-by")
            .is_none()
    })
    .await;
}

/// Deletes the Bundle, and waits until the agent has nothing to answer for.
async fn delete(world: &World) {
    world.delete(Side::Hub, &bundle(NAME)).await;
    eventually("the ledger is gone", || async {
        world.ledger(NAME).await.is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn c01_a_deleted_bundle_orphans_all_some_or_none_of_its_objects() {
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    for (option, a_stays, b_stays) in [
        (orphan(), true, true),
        (selectively("a"), true, false),
        (selectively("*"), true, true),
        (selectively("another"), false, false),
        (json!({"propagationPolicy": "Foreground"}), false, false),
    ] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, with_option(&option, &[a.clone(), b.clone()])).await;
        delete(&world).await;
        for (object, stays) in [(&a, a_stays), (&b, b_stays)] {
            match stays {
                true => is_orphaned(&world, object).await,
                false => is_gone(&world, object).await,
            }
        }
        agent.stop().await;
    }
}

/// A time to live says when the Bundle goes, and nothing of what becomes of its objects.
#[tokio::test(start_paused = true)]
async fn a_namespace_stays_where_the_option_has_a_time_to_live_and_no_policy() {
    let a = config_map("a", "1");
    let inside = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inside"}});
    for (option, stays) in [
        (json!({"ttlSecondsAfterFinished": 3600}), true),
        (
            json!({"ttlSecondsAfterFinished": 3600, "propagationPolicy": "Foreground"}),
            false,
        ),
    ] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, with_option(&option, &[a.clone(), inside.clone()])).await;
        delete(&world).await;
        is_gone(&world, &a).await;
        match stays {
            true => is_orphaned(&world, &inside).await,
            false => is_gone(&world, &inside).await,
        }
        agent.stop().await;
    }
}

/// What was to stay stays where the agent ends in the middle of it, and the Bundle is there no more when it begins again.
#[tokio::test(start_paused = true)]
async fn c01_an_agent_that_is_killed_while_it_orphans_goes_on_with_that() {
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    for (option, b_stays) in [(orphan(), true), (selectively("a"), false)] {
        let world = World::new().await;
        let refused = Arc::new(AtomicBool::new(true));
        let refuses = refused.clone();
        let member = world.gated(Side::Member, move |method, path| {
            let held = method == http::Method::PATCH && path.ends_with("/configmaps/a");
            match held && refuses.load(Ordering::Acquire) {
                true => Pass::Refused(403),
                false => Pass::Through,
            }
        });
        let agent = world.agent_between(World::config(), world.hub_client.clone(), member.clone());
        delivered(&world, with_option(&option, &[a.clone(), b.clone()])).await;
        world.delete(Side::Hub, &bundle(NAME)).await;
        match b_stays {
            true => is_orphaned(&world, &b).await,
            false => is_gone(&world, &b).await,
        }
        agent.kill().await;
        let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
        pass_time(600).await;
        assert!(
            world.live(Side::Member, &a).await.is_some(),
            "it may not be released yet"
        );
        refused.store(false, Ordering::Release);
        is_orphaned(&world, &a).await;
        assert_eq!(world.live(Side::Member, &b).await.is_some(), b_stays);
        eventually("the ledger is gone", || async {
            world.ledger(NAME).await.is_none()
        })
        .await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c01_a_manifest_removed_from_the_bundle_is_orphaned_by_the_same_rules() {
    let (a, b, c) = (config_map("a", "1"), config_map("b", "1"), config_map("c", "1"));
    for (option, b_stays) in [(orphan(), true), (selectively("a"), false)] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, with_option(&option, &[a.clone(), b.clone(), c.clone()])).await;
        delivered(&world, with_option(&option, &[c.clone()])).await;
        is_orphaned(&world, &a).await;
        match b_stays {
            true => is_orphaned(&world, &b).await,
            false => is_gone(&world, &b).await,
        }
        // The ledger no longer answers for what it orphaned: a later deletion leaves that alone.
        delivered(&world, without_option(&[c.clone()])).await;
        delete(&world).await;
        is_gone(&world, &c).await;
        is_orphaned(&world, &a).await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c01_orphan_turned_off_later_cleans_later() {
    let a = config_map("a", "1");
    for option in [orphan(), selectively("a")] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, with_option(&option, &[a.clone()])).await;
        delivered(&world, without_option(&[a.clone()])).await;
        delete(&world).await;
        is_gone(&world, &a).await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c02_a_finalizer_keeps_a_removed_manifest_listed_and_a_deleted_bundle_waiting() {
    let world = World::new().await;
    let agent = world.agent();
    let mut a = config_map("a", "1");
    a["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let b = config_map("b", "1");
    delivered(&world, spec(&[a.clone(), b.clone()])).await;
    delivered(&world, spec(&[b.clone()])).await;
    let status = eventually_with(
        "it is listed",
        || world.status(NAME),
        |status| status.resource_status.is_some(),
    )
    .await;
    let listed = &status.resource_status.unwrap().manifests[0];
    assert_eq!(listed.resource_meta.name, "a");
    let condition = &listed.conditions[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str()),
        ("Removed", "Removing")
    );
    pass_time(300).await;
    assert_eq!(
        world.ledger(NAME).await.unwrap()["spec"]["objects"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    world.delete(Side::Hub, &bundle(NAME)).await;
    is_gone(&world, &b).await;
    pass_time(300).await;
    assert!(
        world.ledger(NAME).await.is_some(),
        "the ledger waits with the object"
    );
    world
        .merge(Side::Member, &a, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(5).await;
    assert!(world.ledger(NAME).await.is_none() && world.live(Side::Member, &a).await.is_none());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn c03_an_object_of_another_uid_survives_the_deletion_of_the_bundle() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    delivered(&world, spec(&[a.clone(), b.clone()])).await;
    agent.stop().await;
    world.delete(Side::Member, &a).await;
    let theirs = world.create(Side::Member, a.clone()).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.merge(Side::Hub, &bundle(NAME), finalizer).await;
    world.delete(Side::Hub, &bundle(NAME)).await;
    let agent = world.agent();
    is_gone(&world, &b).await;
    pass_time(60).await;
    let live = world.live(Side::Member, &a).await.unwrap();
    assert_eq!(live["metadata"]["uid"], theirs["metadata"]["uid"]);
    assert!(world.ledger(NAME).await.is_none());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn c05_no_owner_of_an_object_blocks_its_removal_and_we_are_none() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, theirs) = (config_map("a", "1"), config_map("theirs", "1"));
    delivered(&world, spec(&[a.clone()])).await;
    let live = world.live(Side::Member, &a).await.unwrap();
    assert_eq!(
        live["metadata"].get("ownerReferences"),
        None,
        "ours is a ledger, not an owner"
    );
    // Somebody else becomes an owner and asks to be blocked on it.
    let owner = world.create(Side::Member, theirs.clone()).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true, "controller": false}]);
    world
        .merge(
            Side::Member,
            &a,
            json!({"metadata": {"ownerReferences": reference}}),
        )
        .await;
    delete(&world).await;
    is_gone(&world, &a).await;
    assert!(world.live(Side::Member, &theirs).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removal_runs_the_waves_backwards() {
    let world = World::new().await;
    let agent = world.agent();
    let settings = config_map("settings", "1");
    let mut web = deployment("web", "i:1", 1);
    web["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let generation = world.bundle(NAME, spec(&[settings.clone(), web.clone()])).await;
    world.reported(NAME, generation, Progressing).await;
    world.delete(Side::Hub, &bundle(NAME)).await;
    pass_time(300).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert!(live["metadata"]["deletionTimestamp"].is_string());
    assert!(
        world.live(Side::Member, &settings).await.is_some(),
        "what workloads use goes after them"
    );
    world
        .merge(Side::Member, &web, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(5).await;
    assert!(world.live(Side::Member, &settings).await.is_none());
    agent.stop().await;
}
