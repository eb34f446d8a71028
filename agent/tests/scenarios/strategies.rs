//! How single objects are written: update strategies, ignored fields, immutable fields.

mod applying_on_server;
mod ignoring;
mod recreating;
mod seeds;

use crate::world::{
    Side, World, config_map, deployment, eventually, eventually_with, pass_time, reason, spec, treated,
};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::bundle::{BundleStatus, ManifestCondition};
use serde_json::{Value, json};

/// What is reported of the manifest with this ordinal.
fn entry(status: &BundleStatus, ordinal: u32) -> Option<ManifestCondition> {
    let manifests = &status.resource_status.as_ref()?.manifests;
    manifests
        .iter()
        .find(|entry| entry.resource_meta.ordinal == ordinal)
        .cloned()
}

#[tokio::test(start_paused = true)]
async fn a12_create_only_is_made_and_never_changed() {
    let world = World::new().await;
    let agent = world.agent();
    let strategy = json!({"type": "CreateOnly"});
    let first = world
        .bundle("plain", treated(&[config_map("a", "1")], strategy.clone()))
        .await;
    world.reported("plain", first, Ready).await;
    let made = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    let second = world
        .bundle("plain", treated(&[config_map("a", "2")], strategy))
        .await;
    world.reported("plain", second, Ready).await;
    let by_hand = json!({"data": {"key": "by hand"}});
    world.merge(Side::Member, &config_map("a", ""), by_hand).await;
    pass_time(700).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"]["key"], "by hand");
    assert_eq!(live["metadata"]["uid"], made["metadata"]["uid"]);
    // Deleted, it is made again, from the content of now.
    world.delete(Side::Member, &config_map("a", "")).await;
    let back = eventually_with(
        "it is made again",
        || world.live(Side::Member, &made),
        Option::is_some,
    )
    .await;
    assert_eq!(back.unwrap()["data"]["key"], "2");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a13_read_only_is_read_and_never_written_nor_deleted() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "ours:1", 2);
    let strategy = json!({"type": "ReadOnly"});
    let first = world
        .bundle("plain", treated(&[web.clone()], strategy.clone()))
        .await;
    let status = world.reported("plain", first, Progressing).await;
    assert_eq!(entry(&status, 0).unwrap().conditions[0].reason, "NotFound");
    // Somebody else makes it, and its status is what is reported.
    world.create(Side::Member, deployment("web", "theirs:1", 3)).await;
    eventually_with(
        "it is seen",
        || world.status("plain"),
        |status| {
            status
                .workloads
                .first()
                .is_some_and(|workload| workload.desired == 3)
        },
    )
    .await;
    world.roll_out(&web).await;
    world.reported("plain", first, Ready).await;
    let before = world.live(Side::Member, &web).await.unwrap();
    let second = world
        .bundle("plain", treated(&[deployment("web", "ours:2", 5)], strategy))
        .await;
    world.reported("plain", second, Ready).await;
    let emptied = world.bundle("plain", spec(&[])).await;
    world.reported("plain", emptied, Ready).await;
    pass_time(700).await;
    assert_eq!(world.live(Side::Member, &web).await.unwrap(), before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a13_read_only_leaves_even_what_we_made_before() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world
        .bundle("plain", treated(&[map.clone()], json!({"type": "ReadOnly"})))
        .await;
    world.reported("plain", second, Ready).await;
    let emptied = world.bundle("plain", spec(&[])).await;
    world.reported("plain", emptied, Ready).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &map).await.is_some());
    let ledger = world.ledger("plain").await.unwrap();
    assert_eq!(ledger["spec"]["objects"], json!([]));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a18_nothing_changes_and_nothing_is_written_whatever_the_strategy() {
    let world = World::embedded().await;
    let agent = world.agent();
    let mut web = deployment("web", "i:1", 2);
    // The member fills in `rollingUpdate`, and a volume's `emptyDir`.
    web["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v"}]);
    for (name, type_) in [
        ("update", "Update"),
        ("create", "CreateOnly"),
        ("recreate", "Recreate"),
    ] {
        let mut named = web.clone();
        named["metadata"]["name"] = json!(name);
        let content = treated(
            &[named.clone()],
            json!({"type": type_, "ignoreFields": ["spec.replicas"]}),
        );
        world.bundle(name, content).await;
        eventually("it is made", || async {
            world.live(Side::Member, &named).await.is_some()
        })
        .await;
        world.roll_out(&named).await;
    }
    pass_time(5).await;
    let before = (world.writes(), world.write_requests());
    pass_time(3600).await;
    assert_eq!((world.writes(), world.write_requests()), before);
    agent.stop().await;
    // A new agent remembers nothing, and has nothing to say either: not even a patch that changes nothing.
    let sent = world.member.write_requests();
    let agent = world.agent();
    pass_time(60).await;
    assert_eq!(world.writes(), before.0);
    assert_eq!(world.member.write_requests(), sent);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a26_a_manifest_too_large_for_an_annotation_has_its_copy_in_the_ledger() {
    let world = World::new().await;
    let agent = world.agent();
    let large = |keys: &[&str]| {
        let mut map = config_map("large", "1");
        for key in keys {
            map["data"][key] = json!("x".repeat(150_000));
        }
        map
    };
    let annotation = |live: &Value| {
        live["metadata"]["annotations"]
            .get("app.oam.dev/last-applied-configuration")
            .is_some()
    };
    let first = world.bundle("plain", spec(&[large(&["a", "b"])])).await;
    world.reported("plain", first, Ready).await;
    let live = world.live(Side::Member, &large(&[])).await.unwrap();
    assert!(!annotation(&live));
    // A field left out is removed all the same, and what others added stays.
    world
        .merge(Side::Member, &large(&[]), json!({"data": {"theirs": "kept"}}))
        .await;
    let second = world.bundle("plain", spec(&[large(&["a", "c"])])).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &large(&[])).await.unwrap();
    let keys: Vec<&String> = live["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["a", "c", "key", "theirs"]);
    let before = world.writes();
    pass_time(1300).await;
    assert_eq!(world.writes(), before);
    // Small again, it lives where it belongs.
    let third = world.bundle("plain", spec(&[large(&[])])).await;
    world.reported("plain", third, Ready).await;
    let live = world.live(Side::Member, &large(&[])).await.unwrap();
    assert_eq!(live["data"], json!({"key": "1", "theirs": "kept"}));
    assert!(annotation(&live));
    agent.stop().await;
}
