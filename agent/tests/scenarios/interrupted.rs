//! Agents, hubs and members that are away, at whatever moment.

use crate::world::{Pass, Side, World, bundle, config_map, dispatched, eventually, pass_time, reason, spec};
use roundhouse_api::bundle::BundlePhase::{Cleaned, Failed, Ready};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn is_write(method: &http::Method) -> bool {
    *method != http::Method::GET
}

/// Given an agent that is killed after it made an object and before it could record its uid, when the next one finds the
/// object no longer wanted, then it removes it: the intention was written first.
#[tokio::test(start_paused = true)]
async fn an_agent_killed_between_a_write_and_its_record_leaves_no_orphan() {
    let world = World::new().await;
    // The ledger is written once, ahead of the member; the record of the outcome never gets through.
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::PUT && path.contains("/appliedbundles/")
    });
    cut.store(true, Ordering::Release);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    eventually("the object is made", || async {
        world.live(Side::Member, &a).await.is_some()
    })
    .await;
    pass_time(5).await;
    agent.kill().await;
    let ledger = world.ledger("default.app").await.unwrap();
    assert_eq!(ledger["spec"]["state"], "Applying");
    assert_eq!(
        ledger["spec"]["objects"][0].get("uid"),
        None,
        "the record did not get through"
    );
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

/// Given a member that refuses the ledger, when a bundle is applied, then not one object is made: what is not written
/// down first is not done.
#[tokio::test(start_paused = true)]
async fn nothing_is_made_before_the_ledger_says_so() {
    let world = World::new().await;
    let is_open = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&is_open);
    let member = world.gated(Side::Member, move |method, path| {
        if is_write(method) && path.contains("/appliedbundles") && !open.load(Ordering::Acquire) {
            Pass::Refused(403)
        } else {
            Pass::Through
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &map).await.is_none());
    is_open.store(true, Ordering::Release);
    pass_time(200).await;
    world.reported("plain", generation, Ready).await;
    assert!(world.live(Side::Member, &map).await.is_some());
    agent.stop().await;
}

/// Given an agent that is down for an hour, in which the bundle changes twice, one object is edited, one deleted and one
/// left out, when it starts, then all is as the last generation says and the one in between was never applied.
#[tokio::test(start_paused = true)]
async fn an_agent_that_was_down_for_an_hour_catches_up_with_the_last_generation() {
    let world = World::new().await;
    let agent = world.agent();
    let [edited, deleted, dropped, same] =
        ["edited", "deleted", "dropped", "same"].map(|name| config_map(name, "1"));
    let first = world
        .bundle(
            "plain",
            spec(&[edited.clone(), deleted.clone(), dropped.clone(), same.clone()]),
        )
        .await;
    world.reported("plain", first, Ready).await;
    agent.stop().await;
    let untouched = world.live(Side::Member, &same).await.unwrap();
    let between = config_map("between", "1");
    world.bundle("plain", spec(&[between.clone()])).await;
    world
        .merge(Side::Member, &edited, json!({"data": {"key": "theirs"}}))
        .await;
    world.delete(Side::Member, &deleted).await;
    pass_time(3600).await;
    let last = world
        .bundle(
            "plain",
            spec(&[config_map("edited", "3"), deleted.clone(), same.clone()]),
        )
        .await;
    let agent = world.agent();
    world.reported("plain", last, Ready).await;
    assert_eq!(
        world.live(Side::Member, &edited).await.unwrap()["data"]["key"],
        "3"
    );
    assert!(world.live(Side::Member, &deleted).await.is_some());
    eventually("what was left out goes", || async {
        world.live(Side::Member, &dropped).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &between).await.is_none());
    assert_eq!(world.live(Side::Member, &same).await.unwrap(), untouched);
    agent.stop().await;
}

/// Given a member that does not answer for an hour, in which the bundle changes, when it answers again, then the change is
/// applied and nothing that only could not be seen was removed.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_is_brought_up_to_date() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |_, _| true);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let (kept, dropped) = (config_map("kept", "1"), config_map("dropped", "1"));
    let first = world
        .bundle("plain", spec(&[kept.clone(), dropped.clone()]))
        .await;
    world.reported("plain", first, Ready).await;
    let uid = world.live(Side::Member, &kept).await.unwrap()["metadata"]["uid"].clone();
    cut.store(true, Ordering::Release);
    pass_time(60).await;
    let second = world.bundle("plain", spec(&[config_map("kept", "2")])).await;
    pass_time(3600).await;
    assert_eq!(
        world.status("plain").await.observed_generation,
        Some(first),
        "nothing is claimed"
    );
    assert!(world.live(Side::Member, &dropped).await.is_some());
    cut.store(false, Ordering::Release);
    pass_time(300).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &kept).await.unwrap();
    assert_eq!(
        (&live["data"]["key"], &live["metadata"]["uid"]),
        (&json!("2"), &uid)
    );
    eventually("what was left out goes", || async {
        world.live(Side::Member, &dropped).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given a hub that answers every request with an error, and lists of nothing but errors, when hours pass and the agent
/// starts anew, then nothing is removed.
#[tokio::test(start_paused = true)]
async fn a_hub_of_errors_deletes_nothing() {
    let world = World::new().await;
    let code = Arc::new(std::sync::atomic::AtomicU16::new(200));
    let codes = Arc::clone(&code);
    let hub = world.gated(Side::Hub, move |_, path| match codes.load(Ordering::Acquire) {
        code @ 300.. if path.contains("/bundles") => Pass::Refused(code),
        _ => Pass::Through,
    });
    let map = config_map("a", "1");
    let agent = world.agent_between(World::config(), hub.clone(), world.member_client.clone());
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
    let before = world.live(Side::Member, &map).await.unwrap();
    for error in [500, 403, 404, 410, 401] {
        code.store(error, Ordering::Release);
        let agent = world.agent_between(World::config(), hub.clone(), world.member_client.clone());
        pass_time(3600).await;
        assert_eq!(world.live(Side::Member, &map).await.unwrap(), before, "{error}");
        assert_eq!(
            world.ledger("plain").await.unwrap()["spec"]["state"],
            "Applied",
            "{error}"
        );
        agent.stop().await;
    }
}

/// Given a removal on evidence that is under way when the agent is killed, when the Bundle is gone by the time the next one
/// starts, then the ledger has the evidence and the removal is finished.
#[tokio::test(start_paused = true)]
async fn a_removal_that_was_begun_is_finished_without_the_bundle() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::DELETE && path.contains("/configmaps/")
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let content = dispatched(&[map.clone()], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    cut.store(true, Ordering::Release);
    world.tombstone("default.app", "application-deleted").await;
    eventually("the ledger has the evidence", || async {
        let ledger = world.ledger("default.app").await.unwrap();
        ledger["spec"]["objects"][0]["outcome"] == "Removing"
    })
    .await;
    agent.kill().await;
    assert!(world.live(Side::Member, &map).await.is_some());
    world.release("default.app").await;
    let agent = world.agent();
    eventually("the removal is finished", || async {
        world.live(Side::Member, &map).await.is_none() && world.ledger("default.app").await.is_none()
    })
    .await;
    agent.stop().await;
}

/// B17, C06: given a bundle of dispatch that vanished, when it comes back with one object changed and one left out, then the
/// first is changed in place and the second goes.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_returns_changed_is_attached_and_applied() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("default.app", dispatched(&[a.clone(), b.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let uid = world.live(Side::Member, &a).await.unwrap()["metadata"]["uid"].clone();
    world.delete(Side::Hub, &bundle("default.app")).await;
    world.held("default.app").await;
    // Also over a restart.
    agent.stop().await;
    let agent = world.agent();
    pass_time(700).await;
    assert!(world.live(Side::Member, &b).await.is_some());
    let again = world
        .bundle("default.app", dispatched(&[config_map("a", "2")], "app-v2", 1))
        .await;
    world.reported("default.app", again, Ready).await;
    let live = world.live(Side::Member, &a).await.unwrap();
    assert_eq!(
        (&live["data"]["key"], &live["metadata"]["uid"]),
        (&json!("2"), &uid)
    );
    eventually("the other one goes", || async {
        world.live(Side::Member, &b).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given the definition of Bundles removed from the hub, and with it every Bundle, when hours pass, then all objects are
/// held, those of hand-written bundles too.
#[tokio::test(start_paused = true)]
async fn removing_the_definition_of_bundles_deletes_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let plain = world.bundle("plain", spec(&[b.clone()])).await;
    world.reported("plain", plain, Ready).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bundles.roundhouse.dev"}});
    world.delete(Side::Hub, &definition).await;
    pass_time(3600).await;
    for object in [&a, &b] {
        assert!(world.live(Side::Member, object).await.is_some());
    }
    agent.stop().await;
}

/// Given an object that changes at the very moment that it is patched, when the bundle is applied, then the patch is
/// computed anew on what is there: nothing that others wrote meanwhile is lost.
#[tokio::test(start_paused = true)]
async fn a_write_of_somebody_else_in_between_is_not_lost() {
    let world = World::new().await;
    let map = config_map("a", "1");
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::PATCH && path.ends_with("/configmaps/a")
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", first, Ready).await;
    cut.store(true, Ordering::Release);
    let second = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    // The agent has read the object and holds its patch.
    pass_time(5).await;
    let annotations =
        json!({"metadata": {"annotations": {"by-hand": "yes"}}, "data": {"key": "theirs", "more": "x"}});
    world.merge(Side::Member, &map, annotations).await;
    cut.store(false, Ordering::Release);
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"], json!({"key": "2", "more": "x"}));
    assert_eq!(live["metadata"]["annotations"]["by-hand"], "yes");
    agent.stop().await;
}

/// Given an object that is deleted and made again by somebody between the agent's look and its patch, when the patch comes
/// through, then the new object is not changed: a patch names the version that it was computed on.
#[tokio::test(start_paused = true)]
async fn a_patch_means_the_object_that_was_looked_at() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::PATCH && path.ends_with("/configmaps/a")
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let first = world.bundle("plain", spec(&[config_map("a", "1")])).await;
    world.reported("plain", first, Ready).await;
    cut.store(true, Ordering::Release);
    let second = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    // The agent has read the object and holds its patch.
    pass_time(5).await;
    let theirs = config_map("a", "theirs");
    world.delete(Side::Member, &theirs).await;
    let before = world.create(Side::Member, theirs.clone()).await;
    cut.store(false, Ordering::Release);
    pass_time(60).await;
    let status = world.reported("plain", second, Failed).await;
    assert_eq!(reason(&status, "Applied"), "AdoptionDiffers");
    assert_eq!(world.live(Side::Member, &theirs).await, Some(before));
    agent.stop().await;
}

/// Given an object that is deleted and made again by somebody between the agent's look and its deletion, when its manifest
/// is left out, then the new one survives: a deletion names the uid that it means.
#[tokio::test(start_paused = true)]
async fn a_deletion_means_the_object_that_was_looked_at() {
    let world = World::new().await;
    let map = config_map("a", "1");
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::DELETE && path.ends_with("/configmaps/a")
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", first, Ready).await;
    cut.store(true, Ordering::Release);
    let second = world.bundle("plain", spec(&[])).await;
    // The agent has read the object and holds its deletion.
    pass_time(5).await;
    world.delete(Side::Member, &map).await;
    let theirs = world.create(Side::Member, map.clone()).await;
    cut.store(false, Ordering::Release);
    world.reported("plain", second, Ready).await;
    pass_time(700).await;
    assert_eq!(world.live(Side::Member, &map).await, Some(theirs));
    agent.stop().await;
}

/// Given a Bundle on its way out that the agent has cleaned, when the agent starts again before dispatch takes its
/// finalizer off, then it still says so and writes nothing.
#[tokio::test(start_paused = true)]
async fn a_cleaned_bundle_stays_cleaned_over_a_restart() {
    let world = World::new().await;
    let agent = world.agent();
    let content = dispatched(&[config_map("a", "1")], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    world.tombstone("default.app", "application-deleted").await;
    let cleaned = || async { world.status("default.app").await.phase == Some(Cleaned) };
    eventually("it is clean", cleaned).await;
    pass_time(5).await;
    agent.stop().await;
    let writes = world.writes();
    let agent = world.agent();
    pass_time(700).await;
    assert_eq!(world.writes(), writes);
    assert!(cleaned().await);
    agent.stop().await;
}
