//! Applying and reporting.

use crate::world::{Side, World, config_map, deployment, dispatched, eventually, pass_time, reason, spec};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::hash;
use serde_json::json;

/// A01: given a bundle of one ConfigMap, when it is made, then the object is there, ours, and the report says so.
#[tokio::test(start_paused = true)]
async fn a_hand_written_bundle_with_just_manifests_works() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    let status = world.reported("plain", generation, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"], json!({"key": "1"}));
    assert_eq!(
        live["metadata"]["annotations"]["roundhouse.dev/owned-by"],
        "0123456789/plain"
    );
    assert_eq!(
        live["metadata"]["annotations"]["roundhouse.dev/desired-hash"],
        hash::of_manifest(&map)
    );
    assert_eq!(status.hash, Some(hash::of_manifests(&[map])));
    assert_eq!(reason(&status, "Applied"), "Applied");
    assert_eq!(reason(&status, "Available"), "Ready");
    let ledger = world.ledger("plain").await.unwrap();
    assert_eq!(ledger["spec"]["state"], "Applied");
    assert_eq!(ledger["spec"]["objects"][0]["uid"], live["metadata"]["uid"]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_from_a_watch_and_counts_for_the_written_generation_only() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 3);
    let first = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    let status = world.reported("default.app", first, Progressing).await;
    assert_eq!(status.workloads[0].desired, 3);
    world.roll_out(&web).await;
    let status = world.reported("default.app", first, Ready).await;
    assert_eq!((status.workloads[0].updated, status.workloads[0].ready), (3, 3));
    // The next revision starts from a Deployment that still shows the old one as ready.
    let web = deployment("web", "i:2", 3);
    let second = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", second, Progressing).await;
    world.roll_out(&web).await;
    world.reported("default.app", second, Ready).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_carries_its_own_generation_also_from_a_to_b_and_back_to_a() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (deployment("web", "i:a", 1), deployment("web", "i:b", 1));
    let mut last = 0;
    for content in [&a, &b, &a] {
        let generation = world
            .bundle("default.app", dispatched(&[content.clone()], "app", 1))
            .await;
        assert!(generation > last);
        let status = world.reported("default.app", generation, Progressing).await;
        assert_eq!(status.hash, Some(hash::of_manifests(&[content.clone()])));
        assert!(
            status
                .conditions
                .iter()
                .all(|c| c.observed_generation == Some(generation))
        );
        world.roll_out(&a).await;
        world.reported("default.app", generation, Ready).await;
        last = generation;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn annotation_and_sidecar_added_by_hand_survive_the_next_revision() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 1);
    let first = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    let mut containers = live["spec"]["template"]["spec"]["containers"].clone();
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "sidecar", "image": "s:1"}));
    let by_hand = json!({"metadata": {"annotations": {"by-hand": "yes"}},
        "spec": {"template": {"spec": {"containers": containers}}}});
    world.merge(Side::Member, &web, by_hand).await;
    let web = deployment("web", "i:2", 1);
    let second = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", second, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["by-hand"], "yes");
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let mut images: Vec<&str> = containers.iter().map(|c| c["image"].as_str().unwrap()).collect();
    images.sort_unstable();
    assert_eq!(images, ["i:2", "s:1"]);
    assert!(
        live["spec"]["template"]["metadata"].get("annotations").is_none(),
        "no stamp in the pod template"
    );
    agent.stop().await;
}

/// A04: given a resource before its definition, when both come in one bundle, then both are applied.
#[tokio::test(start_paused = true)]
async fn a_definition_and_its_resources_in_one_bundle_are_applied_in_any_order() {
    let world = World::new().await;
    let agent = world.agent();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 1}});
    let generation = world
        .bundle("custom", spec(&[widget.clone(), widget_definition()]))
        .await;
    let status = world.reported("custom", generation, Ready).await;
    assert_eq!(status.counts.unwrap().ready, 2);
    assert_eq!(
        world.live(Side::Member, &widget).await.unwrap()["spec"]["size"],
        1
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_applied_when_its_definition_is_installed() {
    let world = World::new().await;
    let agent = world.agent();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}});
    let map = config_map("beside", "1");
    let generation = world.bundle("custom", spec(&[widget.clone(), map.clone()])).await;
    let status = world.reported("custom", generation, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "NoKind");
    assert!(world.live(Side::Member, &map).await.is_some(), "siblings go on");
    // An operator may be about to install it; after a while nobody is.
    pass_time(100).await;
    assert_eq!(world.status("custom").await.phase, Some(Progressing));
    pass_time(400).await;
    let status = world.reported("custom", generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "NoKind");
    pass_time(600).await;
    world.create(Side::Member, widget_definition()).await;
    world.reported("custom", generation, Ready).await;
    assert!(world.live(Side::Member, &widget).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_missing_namespace_of_the_application_is_made_and_never_pruned() {
    let world = World::new().await;
    let agent = world.agent();
    let mut map = config_map("a", "1");
    map["metadata"]["namespace"] = json!("shop");
    let mut content = dispatched(&[map.clone()], "app-v1", 1);
    content["applicationRef"]["namespace"] = json!("shop");
    let first = world.bundle("shop.app", content.clone()).await;
    world.reported("shop.app", first, Ready).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let live = world.live(Side::Member, &namespace).await.unwrap();
    assert_eq!(
        live["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "roundhouse"
    );
    content["deletion"] = json!({"revision": "app-v1", "confirmedBy": "application-deleted"});
    world.bundle("shop.app", content).await;
    world.delete(Side::Hub, &crate::world::bundle("shop.app")).await;
    eventually("the object goes", || async {
        world.live(Side::Member, &map).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &namespace).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_bundle_is_not_touched_until_it_goes_on() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", first, Ready).await;
    let mut paused = spec(&[config_map("a", "2")]);
    paused["paused"] = json!(true);
    world.bundle("plain", paused.clone()).await;
    crate::world::eventually_with(
        "it says so",
        || world.status("plain"),
        |s| reason(s, "Progressing") == "Paused",
    )
    .await;
    crate::world::pass_time(700).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    let status = world.status("plain").await;
    assert_eq!(
        status.observed_generation,
        Some(first),
        "a generation that was not applied is not reported"
    );
    paused["paused"] = json!(false);
    let on = world.bundle("plain", paused).await;
    world.reported("plain", on, Ready).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "2");
    agent.stop().await;
}

pub(crate) fn widget_definition() -> serde_json::Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}
