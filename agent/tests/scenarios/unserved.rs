//! API versions that are no longer served: nobody answers there, which says nothing about objects.

use crate::world::{
    Agent, Pass, Side, World, bundle, config_map, deployment, eventually, pass_time, reason, spec, treated,
};
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// A definition of Widgets that serves these of its versions.
fn definition(served: &[&str]) -> Value {
    let mut definition = crate::applying::widget_definition();
    let version = definition["spec"]["versions"][0].clone();
    let versions = ["v1alpha1", "v1"].map(|name| {
        let mut version = version.clone();
        version["name"] = json!(name);
        version["served"] = json!(served.contains(&name));
        version["storage"] = json!(name == "v1");
        version
    });
    definition["spec"]["versions"] = json!(versions);
    definition
}

fn widget(version: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}})
}

/// From now on the member serves these versions.
async fn serve(world: &World, versions: &[&str]) {
    let new = definition(versions);
    let patch = json!({"spec": {"versions": new["spec"]["versions"]}});
    world.merge(Side::Member, &new, patch).await;
    eventually("the versions are served", || async {
        for version in ["v1alpha1", "v1"] {
            let api = world.api(
                Side::Member,
                &format!("example.com/{version}"),
                "Widget",
                "default",
            );
            if api.list(&Default::default()).await.is_ok() != versions.contains(&version) {
                return false;
            }
        }
        true
    })
    .await;
}

/// A member whose Widget was applied, from a Bundle of this content, when `v1alpha1` was served.
async fn applied(content: Value) -> (World, Agent, Value) {
    let world = World::new().await;
    world.create(Side::Member, definition(&["v1alpha1"])).await;
    let agent = world.agent();
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    let live = world.live(Side::Member, &widget("v1alpha1")).await.unwrap();
    (world, agent, live["metadata"]["uid"].clone())
}

/// Given an object that was applied at a version that another one replaced since, when its manifest is left out, then the
/// object goes at the version that is served: that nobody answers at the old one is no sign that it is gone.
#[tokio::test(start_paused = true)]
async fn an_object_is_pruned_at_the_version_that_is_served_now() {
    let map = config_map("a", "1");
    let (world, agent, _) = applied(spec(&[widget("v1alpha1"), map.clone()])).await;
    serve(&world, &["v1"]).await;
    assert!(world.live(Side::Member, &widget("v1")).await.is_some());
    let second = world.bundle("plain", spec(&[map])).await;
    world.reported("plain", second, Ready).await;
    eventually("the object goes", || async {
        world.live(Side::Member, &widget("v1")).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given an object of whose definition no version is served, when its bundle is deleted, then the ledger answers for it
/// until it can be seen and removed.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_seen_is_not_taken_for_gone() {
    let (world, agent, uid) = applied(spec(&[widget("v1alpha1")])).await;
    serve(&world, &[]).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    pass_time(700).await;
    let ledger = world.ledger("plain").await.expect("it still answers for it");
    assert_eq!(ledger["spec"]["objects"][0]["uid"], uid);
    serve(&world, &["v1"]).await;
    // It is tried with back-off.
    pass_time(700).await;
    eventually("the object goes", || async {
        world.live(Side::Member, &widget("v1")).await.is_none()
    })
    .await;
    eventually("and the ledger", || async {
        world.ledger("plain").await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given an object whose bundle is deleted while no agent runs, when the first answer that the next one gets about the kind is a 404
/// of something in between, then that is no sign that the object is gone, and it goes.
#[tokio::test(start_paused = true)]
async fn a_404_of_discovery_says_nothing_about_objects() {
    for (object, discovery) in [
        (config_map("a", "1"), "/api/v1"),
        (deployment("web", "i:1", 1), "/apis/apps/v1"),
    ] {
        let world = World::new().await;
        let agent = world.agent();
        world.bundle("plain", spec(&[object.clone()])).await;
        eventually("it is applied", || async {
            let ledger = world.ledger("plain").await;
            ledger.is_some_and(|ledger| ledger["spec"]["objects"][0]["uid"].is_string())
        })
        .await;
        agent.kill().await;
        let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        world.merge(Side::Hub, &bundle("plain"), finalizer).await;
        world.delete(Side::Hub, &bundle("plain")).await;
        let refuses = AtomicBool::new(true);
        let member = world.gated(Side::Member, move |_, path| {
            match path == discovery && refuses.swap(false, Ordering::SeqCst) {
                true => Pass::Answered(404, "404 page not found"),
                false => Pass::Through,
            }
        });
        let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
        eventually("the ledger goes", || async {
            world.ledger("plain").await.is_none()
        })
        .await;
        assert!(
            world.live(Side::Member, &object).await.is_none(),
            "and not before the object: {discovery}"
        );
        agent.stop().await;
    }
}

/// Given an object that is only looked at, or that stays deleted where somebody deleted it, when its version is no longer
/// served, then neither is said of it that it does not exist nor that it was deleted.
#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_neither_missing_nor_deleted() {
    let mut forced = spec(&[widget("v1alpha1")]);
    forced["applyOnce"] = json!("Force");
    let observed = treated(&[widget("v1alpha1")], json!({"type": "ReadOnly"}));
    for content in [forced, observed] {
        let (world, agent, uid) = applied(spec(&[widget("v1alpha1")])).await;
        let generation = world.bundle("plain", content).await;
        world.reported("plain", generation, Ready).await;
        serve(&world, &["v1"]).await;
        pass_time(700).await;
        assert_eq!(reason(&world.status("plain").await, "Applied"), "NoKind");
        let live = world.live(Side::Member, &widget("v1")).await.unwrap();
        assert_eq!(live["metadata"]["uid"], uid);
        agent.stop().await;
    }
}
