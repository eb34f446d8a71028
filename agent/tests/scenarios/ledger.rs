//! The ledger's own life: deleted, edited, lost and outgrown.

use crate::world::{
    HUB_ID, NAMESPACE, Pass, Side, World, bundle, config_map, dispatched, eventually, eventually_with,
    pass_time, reason, spec,
};
use roundhouse_api::bundle::BundlePhase::{Cleaned, Failed, Ready};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn identity(bundle: &str) -> Value {
    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "AppliedBundle",
        "metadata": {"name": format!("{HUB_ID}.{bundle}")}})
}

/// What a ledger says and holds, without what the server writes.
fn content(ledger: &Option<Value>) -> Option<(Value, Value)> {
    let ledger = ledger.as_ref()?;
    Some((ledger["spec"].clone(), ledger["metadata"]["finalizers"].clone()))
}

/// A bundle of one Secret and one ConfigMap that is applied, and its ledger.
async fn applied(world: &World) -> Option<(Value, Value)> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"a": "b"}});
    let generation = world.bundle("plain", spec(&[config_map("a", "1"), secret])).await;
    world.reported("plain", generation, Ready).await;
    pass_time(2).await;
    content(&world.ledger("plain").await)
}

/// Waits until the ledger is what it was, and stays so without another write.
async fn restored(world: &World, before: Option<(Value, Value)>) {
    assert!(before.is_some());
    eventually_with(
        "the ledger is as before",
        || world.ledger("plain"),
        |ledger| content(ledger) == before,
    )
    .await;
    pass_time(5).await;
    let writes = world.writes();
    pass_time(700).await;
    assert_eq!(world.writes(), writes, "and then nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_deleted_while_its_bundle_lives_is_made_again_within_seconds() {
    let world = World::new().await;
    let agent = world.agent();
    let before = applied(&world).await;
    let uid = world.ledger("plain").await.unwrap()["metadata"]["uid"].clone();
    world.delete(Side::Member, &identity("plain")).await;
    eventually_with(
        "another ledger is there",
        || world.ledger("plain"),
        |ledger| {
            ledger
                .as_ref()
                .is_some_and(|ledger| ledger["metadata"]["uid"] != uid)
        },
    )
    .await;
    restored(&world, before).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_stripped_of_its_finalizer_or_edited_is_as_before_within_seconds() {
    let world = World::new().await;
    let agent = world.agent();
    let before = applied(&world).await;
    for edit in [
        json!({"metadata": {"finalizers": null}}),
        json!({"spec": {"objects": [], "epoch": 99, "state": "Orphaned"}}),
    ] {
        world.merge(Side::Member, &identity("plain"), edit).await;
        restored(&world, before.clone()).await;
    }
    // Stripped and deleted: nothing of it is left but what the agent knows.
    let strip = json!({"metadata": {"finalizers": null}});
    world.merge(Side::Member, &identity("plain"), strip).await;
    world.delete(Side::Member, &identity("plain")).await;
    restored(&world, before).await;
    agent.stop().await;
}

/// Given the definition of ledgers that somebody deletes under a running agent, then it and the ledgers are made again, and what is
/// written meanwhile is applied.
#[tokio::test(start_paused = true)]
async fn a_definition_of_ledgers_that_is_deleted_is_made_again() {
    let world = World::new().await;
    let agent = world.agent();
    let before = applied(&world).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "appliedbundles.roundhouse.dev"}});
    let uid = world.live(Side::Member, &definition).await.unwrap()["metadata"]["uid"].clone();
    world.delete(Side::Member, &definition).await;
    pass_time(60).await;
    let map = config_map("a", "2");
    let second = world.bundle("other", spec(&[config_map("b", "1")])).await;
    world.reported("other", second, Ready).await;
    restored(&world, before).await;
    let live = world.live(Side::Member, &definition).await.unwrap();
    assert_ne!(live["metadata"]["uid"], uid, "it was gone");
    let third = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", third, Ready).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "2");
    agent.stop().await;
}

/// Given a ledger that somebody edits, when the look at it, or the write that puts it right, breaks off, then it is looked at
/// again soon, not at the next resync.
#[tokio::test(start_paused = true)]
async fn a_look_at_the_ledger_that_breaks_off_is_repeated() {
    for broken in [http::Method::GET, http::Method::PUT] {
        let world = World::new().await;
        let armed = Arc::new(AtomicBool::new(false));
        let (is_armed, what) = (Arc::clone(&armed), broken.clone());
        let member = world.gated(Side::Member, move |method, path| {
            let is_it = *method == what && path.ends_with(&format!("/appliedbundles/{HUB_ID}.plain"));
            match is_it && is_armed.swap(false, Ordering::SeqCst) {
                true => Pass::Lost,
                false => Pass::Through,
            }
        });
        let config = roundhouse_agent::Config {
            resync: std::time::Duration::from_secs(36_000),
            ..World::config()
        };
        let agent = world.agent_between(config, world.hub_client.clone(), member);
        let before = applied(&world).await;
        armed.store(true, Ordering::SeqCst);
        let edit = json!({"spec": {"objects": [], "generation": 0}});
        world.merge(Side::Member, &identity("plain"), edit).await;
        restored(&world, before).await;
        assert!(!armed.load(Ordering::SeqCst), "{broken} breaks off");
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_lost_while_its_bundle_lives_on_is_made_again_after_a_restart() {
    let world = World::new().await;
    let agent = world.agent();
    let before = applied(&world).await;
    agent.stop().await;
    lose(&world, "plain").await;
    let agent = world.agent();
    eventually("there is a ledger", || async {
        world.ledger("plain").await.is_some()
    })
    .await;
    pass_time(5).await;
    let known = |ledger: Option<(Value, Value)>| -> Vec<(Value, Value, Value)> {
        let (spec, _) = ledger.unwrap();
        let objects = spec["objects"].as_array().unwrap().clone();
        objects
            .into_iter()
            .map(|entry| {
                (
                    entry["name"].clone(),
                    entry["uid"].clone(),
                    entry["lastApplied"].clone(),
                )
            })
            .collect()
    };
    assert_eq!(known(content(&world.ledger("plain").await)), known(before));
    agent.stop().await;
}

/// What the agent reports of bundles that vanished.
async fn reported_held(world: &World) -> Vec<Value> {
    let report = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "ClusterReport",
        "metadata": {"name": "c1", "namespace": NAMESPACE}});
    let report = world.live(Side::Hub, &report).await.unwrap_or_default();
    report["spec"]["held"].as_array().cloned().unwrap_or_default()
}

/// An object as a backup has it.
fn backed_up(object: Option<Value>) -> Value {
    let mut object = object.unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for own in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
    ] {
        metadata.remove(own);
    }
    object
}

#[tokio::test(start_paused = true)]
async fn what_a_backup_brings_back_after_its_bundle_was_removed_is_held_and_reported_until_the_bundle_returns()
 {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let content = dispatched(&[map.clone()], "app-v1", 1);
    let generation = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", generation, Ready).await;
    let (object, ledger) = (
        backed_up(world.live(Side::Member, &map).await),
        backed_up(world.ledger("default.app").await),
    );
    let generation = world.tombstone("default.app", "application-deleted").await;
    world.reported("default.app", generation + 1, Cleaned).await;
    world.release("default.app").await;
    eventually("nothing is left of it", || async {
        world.ledger("default.app").await.is_none() && world.live(Side::Member, &map).await.is_none()
    })
    .await;
    pass_time(30).await;
    assert!(reported_held(&world).await.is_empty());

    world.create(Side::Member, object).await;
    world.create(Side::Member, ledger).await;
    world.held("default.app").await;
    eventually("it is reported", || async {
        reported_held(&world).await == ["default.app"]
    })
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &map).await.is_some());

    let generation = world.bundle("default.app", content).await;
    world.reported("default.app", generation, Ready).await;
    eventually("nothing is held any more", || async {
        reported_held(&world).await.is_empty()
    })
    .await;
    agent.stop().await;
}

/// Takes a ledger away without leave.
async fn lose(world: &World, bundle: &str) {
    let strip = json!({"metadata": {"finalizers": null}});
    world.merge(Side::Member, &identity(bundle), strip).await;
    world.delete(Side::Member, &identity(bundle)).await;
    assert!(world.ledger(bundle).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_bundle_whose_ledger_was_lost_is_cleaned_by_its_manifests() {
    let world = World::new().await;
    let agent = world.agent();
    let (ours, taken) = (config_map("ours", "1"), config_map("taken", "1"));
    let mut content = dispatched(&[ours.clone(), taken.clone()], "app-v1", 1);
    let generation = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", generation, Ready).await;
    agent.stop().await;
    lose(&world, "default.app").await;
    // One of the objects is somebody else's by now.
    world.delete(Side::Member, &taken).await;
    world.create(Side::Member, taken.clone()).await;
    let finalizer = json!({"metadata": {"finalizers": ["roundhouse.dev/dispatch"]}});
    world.merge(Side::Hub, &bundle("default.app"), finalizer).await;
    content["deletion"] = json!({"revision": "app-v1", "confirmedBy": "application-deleted"});
    world.bundle("default.app", content).await;
    world.delete(Side::Hub, &bundle("default.app")).await;
    let agent = world.agent();
    eventually_with(
        "cleaned",
        || world.status("default.app"),
        |status| status.phase == Some(Cleaned),
    )
    .await;
    assert!(
        world.live(Side::Member, &ours).await.is_none(),
        "Cleaned means removed"
    );
    assert!(world.live(Side::Member, &taken).await.is_some());
    assert!(world.ledger("default.app").await.is_none());
    // While dispatch takes its time, nothing more is written.
    let writes = world.writes();
    pass_time(1000).await;
    assert_eq!(world.writes(), writes);
    agent.stop().await;
}

/// Annotations so heavy that no last-applied copy fits beside them.
fn heavy(value: &str) -> Value {
    json!({"metadata": {"annotations": {"heavy": value}}})
}

#[tokio::test(start_paused = true)]
async fn a_thousand_objects_with_oversize_copies_fit_into_one_ledger() {
    let world = World::embedded().await;
    let agent = world.agent();
    let object = |n: usize| {
        let mut map = config_map(&format!("object-{n:0>100}"), "1");
        if n < 4 {
            // A text that a copy leaves out.
            map["data"]["large"] = json!("x".repeat(150_000));
            map["metadata"]["finalizers"] = json!([format!("example.com/{}", "f".repeat(40))]);
        }
        map
    };
    let manifests: Vec<Value> = (0..1000).map(object).collect();
    let generation = world.bundle("plain", spec(&manifests)).await;
    world.reported("plain", generation, Ready).await;
    for manifest in manifests.iter().take(4) {
        world
            .merge(Side::Member, manifest, heavy(&"h".repeat(100 * 1024)))
            .await;
    }
    // With the next content the copies no longer fit beside them, and move to the ledger.
    let next = |n: usize| {
        let mut map = object(n);
        map["data"]["another"] = json!("z".repeat(if n < 4 { 20_000 } else { 1 }));
        map
    };
    let manifests: Vec<Value> = (0..1000).map(next).collect();
    let generation = world.bundle("plain", spec(&manifests)).await;
    world.reported("plain", generation, Ready).await;
    pass_time(2).await;
    let ledger = world.ledger("plain").await.unwrap();
    let copies = |ledger: &Value| {
        let objects = ledger["spec"]["objects"].as_array().unwrap();
        objects
            .iter()
            .filter(|entry| entry.get("lastApplied").is_some())
            .count()
    };
    assert_eq!(
        (
            ledger["spec"]["objects"].as_array().unwrap().len(),
            copies(&ledger)
        ),
        (1000, 4)
    );
    let weight = ledger.to_string().len();
    assert!(weight < 1024 * 1024, "{weight} bytes");
    let manifests: Vec<Value> = (0..1000).map(object).collect();
    let generation = world.bundle("plain", spec(&manifests)).await;
    world.reported("plain", generation, Ready).await;
    let live = world.live(Side::Member, &object(0)).await.unwrap();
    assert!(
        live["data"].get("another").is_none(),
        "what is left out is removed by the copy"
    );
    assert_eq!(live["data"]["large"].as_str().unwrap().len(), 150_000);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_whose_ledger_would_be_too_large_is_refused_before_anything_is_applied() {
    let world = World::new().await;
    let agent = world.agent();
    let few = [config_map("first", "1")];
    let generation = world.bundle("plain", spec(&few)).await;
    world.reported("plain", generation, Ready).await;
    let many: Vec<Value> = (0..4000)
        .map(|n| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{n:0>60}"), "namespace": "default"}}))
        .collect();
    let generation = world.bundle("plain", spec(&many)).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "LedgerTooLarge");
    let said = roundhouse_api::condition::get(&status.conditions, "Applied").unwrap();
    assert!(
        said.message.contains("4001 objects") && said.message.contains("split"),
        "{}",
        said.message
    );
    assert!(world.live(Side::Member, &many[0]).await.is_none());
    assert!(
        world.live(Side::Member, &few[0]).await.is_some(),
        "nothing is removed either"
    );
    let writes = world.writes();
    pass_time(1000).await;
    assert_eq!(world.writes(), writes);
    agent.stop().await;
}

/// Given rules that keep more values of a bundle's objects than its ledger has room for, when a new content is applied, then
/// the objects that find no room stay as they are and say so, the others are applied, and a smaller value finds room.
#[tokio::test(start_paused = true)]
async fn values_that_rules_keep_share_the_room_of_a_ledger_and_what_finds_none_says_so() {
    let world = World::new().await;
    let agent = world.agent();
    let maps =
        |value: &str| -> Vec<Value> { (0..12).map(|n| config_map(&format!("m{n:02}"), value)).collect() };
    let content = |value: &str, revision: &str| {
        let mut content = dispatched(&maps(value), revision, 1);
        content["applyOnceRules"] = json!([{"selector": {"resourceTypes": ["ConfigMap"]},
            "strategy": {"path": ["data.key"], "affect": "onUpdate"}}]);
        content
    };
    let first = world.bundle("default.app", content("1", "app-v1")).await;
    world.reported("default.app", first, Ready).await;
    agent.stop().await;
    // Eight of them find room.
    let large = json!({"data": {"key": "x".repeat(60_000)}});
    for map in maps("") {
        world.merge(Side::Member, &map, large.clone()).await;
    }
    let second = world.bundle("default.app", content("2", "app-v2")).await;
    let agent = world.agent();
    let status = world.reported("default.app", second, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.applied, counts.failed), (8, 4), "{status:?}");
    let failing: Vec<_> = status.resource_status.unwrap().manifests;
    for failure in &failing {
        let (name, said) = (&failure.resource_meta.name, &failure.conditions[0].message);
        assert!(
            said.contains(name.as_str()) && said.contains("bytes in the ledger"),
            "{said}"
        );
    }
    assert_eq!(failing.len(), 4);
    let size = world.ledger("default.app").await.unwrap().to_string().len();
    assert!(size < 600_000, "{size} bytes");
    for failure in &failing {
        let map = config_map(&failure.resource_meta.name, "");
        world
            .merge(Side::Member, &map, json!({"data": {"key": "small"}}))
            .await;
    }
    world.reported("default.app", second, Ready).await;
    for map in maps("") {
        let value = world.live(Side::Member, &map).await.unwrap()["data"]["key"].clone();
        assert!(
            value == "small" || value.as_str().unwrap().len() == 60_000,
            "{value}"
        );
    }
    agent.stop().await;
}

/// Given a Secret whose copy lives in the ledger, when its manifest leaves out a field that is neither data nor a label nor
/// an annotation, then the live one loses it too.
#[tokio::test(start_paused = true)]
async fn a_field_that_a_secret_leaves_out_is_removed() {
    let world = World::new().await;
    let agent = world.agent();
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "finalizers": ["example.com/hold"]},
        "stringData": {"a": "b"}});
    let first = world.bundle("plain", spec(&[secret.clone()])).await;
    world.reported("plain", first, Ready).await;
    let theirs = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/theirs"]}});
    world.merge(Side::Member, &secret, theirs).await;
    secret["metadata"]["finalizers"] = json!([]);
    let second = world.bundle("plain", spec(&[secret.clone()])).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &secret).await.unwrap();
    assert_eq!(live["metadata"]["finalizers"], json!(["example.com/theirs"]));
    assert_eq!(live["data"], json!({"a": "Yg=="}));
    agent.stop().await;
}
