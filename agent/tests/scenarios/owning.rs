//! Whose an object is.

use crate::world::{Side, World, config_map, reason, spec};
use roundhouse_api::bundle::BundlePhase::{Failed, Ready};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn an_equal_object_is_adopted_and_a_different_one_refused() {
    let world = World::new().await;
    let (equal, different) = (config_map("equal", "1"), config_map("different", "theirs"));
    let uid = world.create(Side::Member, equal.clone()).await["metadata"]["uid"].clone();
    world.create(Side::Member, different.clone()).await;
    let agent = world.agent();
    let manifests = [equal.clone(), config_map("different", "ours")];
    let first = world.bundle("plain", spec(&manifests)).await;
    let status = world.reported("plain", first, Failed).await;
    assert_eq!(status.counts.unwrap().applied, 1);
    assert_eq!(reason(&status, "Applied"), "AdoptionDiffers");
    let live = world.live(Side::Member, &equal).await.unwrap();
    assert_eq!(live["metadata"]["uid"], uid);
    assert_eq!(
        live["metadata"]["annotations"]["roundhouse.dev/owned-by"],
        "0123456789/plain"
    );
    assert_eq!(
        world.live(Side::Member, &different).await.unwrap()["data"]["key"],
        "theirs"
    );
    // Told to take it.
    let mut always = spec(&manifests);
    always["adopt"] = json!("Always");
    let second = world.bundle("plain", always).await;
    world.reported("plain", second, Ready).await;
    assert_eq!(
        world.live(Side::Member, &different).await.unwrap()["data"]["key"],
        "ours"
    );
    agent.stop().await;
}

/// B01, B04: given an object of one bundle, when another has it too, then that one is refused, naming both, and
/// leaving it out there changes nothing.
#[tokio::test(start_paused = true)]
async fn a_second_bundle_for_the_same_object_is_refused_and_its_end_leaves_the_object() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("shared", "1");
    let first = world.bundle("first", spec(&[map.clone()])).await;
    world.reported("first", first, Ready).await;
    let second = world.bundle("second", spec(&[config_map("shared", "2")])).await;
    let status = world.reported("second", second, Failed).await;
    let failure = &status.resource_status.unwrap().manifests[0].conditions[0];
    assert_eq!(failure.reason, "OwnedByAnotherBundle");
    assert!(failure.message.contains("0123456789/first") && failure.message.contains("0123456789/second"));
    let emptied = world.bundle("second", spec(&[])).await;
    world.reported("second", emptied, Ready).await;
    crate::world::pass_time(60).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn create_only_is_never_changed_and_read_only_never_written_nor_removed() {
    let world = World::new().await;
    let theirs = config_map("theirs", "theirs");
    world.create(Side::Member, theirs.clone()).await;
    let agent = world.agent();
    let content = |value: &str| {
        let mut content = spec(&[config_map("once", value), config_map("theirs", value)]);
        let config = |name: &str, type_: &str| {
            json!({"resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": "*", "name": name},
                "updateStrategy": {"type": type_}})
        };
        content["manifestConfigs"] = json!([config("once", "CreateOnly"), config("theirs", "ReadOnly")]);
        content
    };
    for value in ["1", "2"] {
        let generation = world.bundle("plain", content(value)).await;
        world.reported("plain", generation, Ready).await;
        assert_eq!(
            world.live(Side::Member, &config_map("once", "")).await.unwrap()["data"]["key"],
            "1"
        );
        assert_eq!(
            world.live(Side::Member, &theirs).await.unwrap()["data"]["key"],
            "theirs"
        );
    }
    let emptied = world.bundle("plain", spec(&[])).await;
    world.reported("plain", emptied, Ready).await;
    crate::world::eventually("ours goes", || async {
        world.live(Side::Member, &config_map("once", "")).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &theirs).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_removed_from_a_secret_is_removed_and_no_value_is_in_the_ledger() {
    let world = World::new().await;
    let agent = world.agent();
    let secret = |data: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
            "stringData": data})
    };
    let first = world
        .bundle("plain", spec(&[secret(json!({"a": "hunter2", "b": "other"}))]))
        .await;
    world.reported("plain", first, Ready).await;
    let ledger = world.ledger("plain").await.unwrap().to_string();
    assert!(
        !ledger.contains("hunter2") && !ledger.contains("aHVudGVyMg=="),
        "{ledger}"
    );
    let live = world.live(Side::Member, &secret(json!({}))).await.unwrap();
    assert!(
        live["metadata"]["annotations"]
            .get("app.oam.dev/last-applied-configuration")
            .is_none()
    );
    let second = world
        .bundle("plain", spec(&[secret(json!({"a": "hunter2"}))]))
        .await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &secret(json!({}))).await.unwrap();
    assert_eq!(live["data"], json!({"a": "aHVudGVyMg=="}));
    agent.stop().await;
}
