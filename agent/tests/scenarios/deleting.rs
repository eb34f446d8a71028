//! Pruning, and the deletion rule: nothing goes without positive evidence.

use crate::world::{
    NAMESPACE, Pass, Side, World, bundle, config_map, dispatched, eventually, pass_time, spec,
};
use roundhouse_api::bundle::BundlePhase::{Cleaned, Progressing, Ready};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A02: given two objects, when one manifest is left out, then its object goes and the other stays.
#[tokio::test(start_paused = true)]
async fn a_manifest_missing_from_a_whole_bundle_is_pruned() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world.bundle("plain", spec(&[a.clone(), b.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world.bundle("plain", spec(&[b.clone()])).await;
    world.reported("plain", second, Ready).await;
    eventually("a goes", || async {
        world.live(Side::Member, &a).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &b).await.is_some());
    let ledger = world.ledger("plain").await.unwrap();
    assert_eq!(ledger["spec"]["objects"].as_array().unwrap().len(), 1);
    agent.stop().await;
}

/// C03: given an object that somebody made again, when its manifest is left out, then it survives.
#[tokio::test(start_paused = true)]
async fn an_object_made_again_by_someone_else_survives_the_prune() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    agent.stop().await;
    world.delete(Side::Member, &a).await;
    world.create(Side::Member, a.clone()).await;
    let second = world.bundle("plain", spec(&[])).await;
    let agent = world.agent();
    world.reported("plain", second, Ready).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    agent.stop().await;
}

/// C04: given a resource, when its manifest names another version of the same kind, then it is the same object.
#[tokio::test(start_paused = true)]
async fn a_change_of_api_version_is_no_removal() {
    let world = World::new().await;
    let mut definition = crate::applying::widget_definition();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(second);
    world.create(Side::Member, definition).await;
    let agent = world.agent();
    let widget = |version: &str| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"}})
    };
    let first = world.bundle("plain", spec(&[widget("v1")])).await;
    world.reported("plain", first, Ready).await;
    let uid = world.live(Side::Member, &widget("v1")).await.unwrap()["metadata"]["uid"].clone();
    let second = world.bundle("plain", spec(&[widget("v2")])).await;
    world.reported("plain", second, Ready).await;
    pass_time(60).await;
    assert_eq!(
        world.live(Side::Member, &widget("v1")).await.unwrap()["metadata"]["uid"],
        uid
    );
    agent.stop().await;
}

/// C02: given an object with a finalizer, when its bundle is deleted, then it is listed until it is gone.
#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_is_waited_for_and_listed() {
    let world = World::new().await;
    let agent = world.agent();
    let mut a = config_map("a", "1");
    a["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let content = dispatched(&[a.clone()], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    world.tombstone("default.app", "application-deleted").await;
    let status = crate::world::eventually_with(
        "it waits",
        || world.status("default.app"),
        |status| status.phase == Some(Progressing) && status.resource_status.is_some(),
    )
    .await;
    let failure = &status.resource_status.unwrap().manifests[0];
    assert_eq!(failure.resource_meta.name, "a");
    pass_time(600).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    world
        .merge(Side::Member, &a, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(200).await;
    assert_eq!(world.status("default.app").await.phase, Some(Cleaned));
    agent.stop().await;
}

/// A03: given an applied bundle of dispatch, when it is deleted with its evidence, then all goes and the report says so.
#[tokio::test(start_paused = true)]
async fn a_bundle_deleted_with_a_tombstone_is_cleaned_and_reported() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let content = dispatched(&[a.clone()], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    let generation = world.tombstone("default.app", "application-deleted").await;
    let status = crate::world::eventually_with(
        "cleaned",
        || world.status("default.app"),
        |status| status.phase == Some(Cleaned),
    )
    .await;
    assert!(status.observed_generation >= Some(generation));
    assert!(world.live(Side::Member, &a).await.is_none());
    assert!(world.ledger("default.app").await.is_none());
    // Dispatch takes its finalizer off; the application may come back later.
    world
        .merge(
            Side::Hub,
            &bundle("default.app"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    pass_time(10).await;
    let again = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", again, Ready).await;
    agent.stop().await;
}

/// B17, C06: given a bundle that vanished, when it returns unchanged, then it is attached to the same objects.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_vanishes_without_a_tombstone_leaves_its_objects_and_re_attaches() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let content = dispatched(&[a.clone()], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    let uid = world.live(Side::Member, &a).await.unwrap()["metadata"]["uid"].clone();
    world.delete(Side::Hub, &bundle("default.app")).await;
    world.held("default.app").await;
    pass_time(700).await;
    let again = world.bundle("default.app", content).await;
    world.reported("default.app", again, Ready).await;
    assert_eq!(
        world.live(Side::Member, &a).await.unwrap()["metadata"]["uid"],
        uid
    );
    assert_eq!(
        world.ledger("default.app").await.unwrap()["spec"]["state"],
        "Applied"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removing_the_bundles_namespace_on_the_hub_deletes_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let plain = world.bundle("plain", spec(&[b.clone()])).await;
    world.reported("plain", plain, Ready).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.delete(Side::Hub, &namespace).await;
    world.held("default.app").await;
    world.held("plain").await;
    // It comes back empty: that is no evidence either.
    world.create(Side::Hub, namespace).await;
    world.make_lease(crate::world::HUB_ID).await;
    pass_time(700).await;
    for object in [&a, &b] {
        assert!(world.live(Side::Member, object).await.is_some());
    }
    agent.stop().await;
}

/// C06: given an agent that is down, when its bundles vanish, then their objects are held.
#[tokio::test(start_paused = true)]
async fn what_vanished_while_the_agent_was_down_is_held() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let plain = world.bundle("plain", spec(&[b.clone()])).await;
    world.reported("plain", plain, Ready).await;
    agent.stop().await;
    for name in ["default.app", "plain"] {
        world.delete(Side::Hub, &bundle(name)).await;
    }
    let agent = world.agent();
    world.held("default.app").await;
    world.held("plain").await;
    for object in [&a, &b] {
        assert!(world.live(Side::Member, object).await.is_some());
    }
    agent.stop().await;
}

/// A03: given an applied bundle, when it is deleted, then its objects and its ledger go.
#[tokio::test(start_paused = true)]
async fn a_hand_written_bundle_is_cleaned_when_it_is_deleted() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("it is cleaned", || async {
        world.live(Side::Member, &a).await.is_none() && world.ledger("plain").await.is_none()
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphan_leaves_the_objects_without_our_marker() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let mut content = dispatched(&[a.clone()], "app-v1", 1);
    content["deleteOption"] = json!({"propagationPolicy": "Orphan"});
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    world.tombstone("default.app", "application-deleted").await;
    crate::world::eventually_with(
        "cleaned",
        || world.status("default.app"),
        |status| status.phase == Some(Cleaned),
    )
    .await;
    let live = world.live(Side::Member, &a).await.unwrap();
    assert!(
        live["metadata"]["annotations"]
            .get("roundhouse.dev/owned-by")
            .is_none()
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_claims_and_definitions_are_pruned_only_when_told() {
    let world = World::new().await;
    let agent = world.agent();
    let namespace = |name: &str, annotations: serde_json::Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}});
    let (kept, told) = (
        namespace("kept", json!({})),
        namespace("told", json!({"roundhouse.dev/prune": "true"})),
    );
    let first = world.bundle("plain", spec(&[kept.clone(), told.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world.bundle("plain", spec(&[])).await;
    world.reported("plain", second, Ready).await;
    eventually("the told one goes", || async {
        world.live(Side::Member, &told).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &kept).await.is_some());
    agent.stop().await;
}

/// Given an object that a finalizer holds in its removal, when it is wanted again before it is gone, then it is made again,
/// is ours, and goes when it is left out once more.
#[tokio::test(start_paused = true)]
async fn an_object_wanted_again_before_it_is_gone_is_made_again() {
    let world = World::new().await;
    let agent = world.agent();
    let mut a = config_map("a", "1");
    a["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    let former = world.live(Side::Member, &a).await.unwrap()["metadata"]["uid"].clone();
    world.bundle("plain", spec(&[])).await;
    eventually("it is being deleted", || async {
        let live = world.live(Side::Member, &a).await.unwrap();
        live["metadata"].get("deletionTimestamp").is_some()
    })
    .await;
    let plain = config_map("a", "1");
    let third = world.bundle("plain", spec(&[plain.clone()])).await;
    world.reported("plain", third, Progressing).await;
    world
        .merge(Side::Member, &a, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(200).await;
    world.reported("plain", third, Ready).await;
    pass_time(700).await;
    let live = world.live(Side::Member, &plain).await.unwrap();
    assert_ne!(live["metadata"]["uid"], former);
    let ledger = world.ledger("plain").await.unwrap();
    let entry = &ledger["spec"]["objects"][0];
    assert_eq!(
        (&entry["uid"], &entry["outcome"]),
        (&live["metadata"]["uid"], &json!("Applied"))
    );
    let last = world.bundle("plain", spec(&[])).await;
    world.reported("plain", last, Ready).await;
    eventually("it goes", || async {
        world.live(Side::Member, &plain).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given the hub's namespace losing its objects one after the other, a hand-written bundle before the Lease, when that is
/// noticed, then nothing is removed: it was no decision about this bundle.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_goes_moments_before_its_namespace_is_held() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "agent", "namespace": NAMESPACE}});
    world.delete(Side::Hub, &lease).await;
    world.held("plain").await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    agent.stop().await;
}

/// Given hand-written bundles that somebody's finalizer holds, when their namespace is deleted, then nothing is removed, neither while
/// they wait nor when they are gone; when one of them is deleted while its namespace stands, then its objects go.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_waits_for_a_finalizer_is_held_when_its_namespace_goes() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    for (name, object) in [("first", &a), ("second", &b)] {
        let made = world.bundle(name, spec(&[object.clone()])).await;
        world.reported(name, made, Ready).await;
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.merge(Side::Hub, &bundle(name), hold).await;
    }
    world.delete(Side::Hub, &bundle("first")).await;
    eventually("its object goes", || async {
        world.live(Side::Member, &a).await.is_none() && world.ledger("first").await.is_none()
    })
    .await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.delete(Side::Hub, &namespace).await;
    crate::world::eventually_with(
        "it says so",
        || world.status("second"),
        |status| crate::world::reason(status, "Progressing") == "DeletionNotConfirmed",
    )
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &b).await.is_some());
    for name in ["first", "second"] {
        let off = json!({"metadata": {"finalizers": null}});
        world.merge(Side::Hub, &bundle(name), off).await;
    }
    world.held("second").await;
    pass_time(60).await;
    world.create(Side::Hub, namespace).await;
    world.make_lease(crate::world::HUB_ID).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &b).await.is_some());
    agent.stop().await;
}

/// The clean bundle waits for dispatch's finalizer, which may take long.
#[tokio::test(start_paused = true)]
async fn a_cleaned_bundle_that_is_still_there_costs_no_writes() {
    let world = World::new().await;
    let agent = world.agent();
    let content = dispatched(&[config_map("a", "1")], "app-v1", 1);
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    world.tombstone("default.app", "application-deleted").await;
    eventually("it is clean", || async {
        world.status("default.app").await.phase == Some(Cleaned)
    })
    .await;
    pass_time(5).await;
    let writes = world.writes();
    pass_time(3600).await;
    assert_eq!(
        world.writes(),
        writes,
        "{:#?}",
        world.member.counter().by_object()
    );
    assert!(world.ledger("default.app").await.is_none());
    agent.stop().await;
}

/// A conflict says that the object has another uid by now. Where it has not, something between agent and API server answered
/// so: the deletion is asked for again, not taken as done.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_answered_with_a_conflict_is_asked_for_again() {
    let world = World::new().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let member = world.gated(Side::Member, move |method, path| {
        let conflict = method == http::Method::DELETE
            && path.ends_with("/configmaps/a")
            && count.fetch_add(1, Ordering::AcqRel) == 0;
        if conflict {
            Pass::Refused(409)
        } else {
            Pass::Through
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let a = config_map("a", "1");
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world.bundle("plain", spec(&[])).await;
    pass_time(60).await;
    world.reported("plain", second, Ready).await;
    assert!(world.live(Side::Member, &a).await.is_none());
    assert_eq!(asked.load(Ordering::Acquire), 2);
    agent.stop().await;
}
