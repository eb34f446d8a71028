//! Objects that others own, made, control or share.

use crate::world::{
    Side, World, bundle, config_map, deployment, dispatched, eventually, eventually_with, pass_time, reason,
    spec,
};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::bundle::BundleStatus;
use serde_json::{Value, json};

const OWNED_BY: &str = "roundhouse.dev/owned-by";

fn message(status: &BundleStatus) -> String {
    status.resource_status.as_ref().unwrap().manifests[0].conditions[0]
        .message
        .clone()
}

fn owner(live: &Value) -> &Value {
    &live["metadata"]["annotations"][OWNED_BY]
}

/// An owner reference to an object that exists.
async fn owned(world: &World, by: &str, controller: bool, mut object: Value) -> Value {
    let owner = world.create(Side::Member, config_map(by, "theirs")).await;
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": by,
        "uid": owner["metadata"]["uid"], "controller": controller}]);
    object
}

/// B05, B15: given an object that is nobody's, when a bundle has it, then `Always` takes it, `IfNoDiff` takes it where
/// nothing that we render differs (whatever else is there) and names the paths, not the values, where something does,
/// and `Never` leaves it; what is refused is not touched, and what is taken keeps what others put there.
#[tokio::test(start_paused = true)]
async fn adoption_takes_what_the_bundle_says_and_nothing_else() {
    let world = World::new().await;
    let agent = world.agent();
    for (name, adopt, theirs, expected) in [
        ("always", Some("Always"), "theirs", "Applied"),
        ("equal", Some("IfNoDiff"), "ours", "Applied"),
        ("different", Some("IfNoDiff"), "theirs", "AdoptionDiffers"),
        ("default", None, "theirs", "AdoptionDiffers"),
        ("never", Some("Never"), "ours", "NotAdopted"),
    ] {
        let mut existing = config_map(name, theirs);
        existing["data"]["more"] = json!("from others");
        let before = world.create(Side::Member, existing.clone()).await;
        let mut content = spec(&[config_map(name, "ours")]);
        if let Some(adopt) = adopt {
            content["adopt"] = json!(adopt);
        }
        let generation = world.bundle(name, content).await;
        let is_taken = expected == "Applied";
        let status = world
            .reported(name, generation, if is_taken { Ready } else { Failed })
            .await;
        assert_eq!(reason(&status, "Applied"), expected, "{name}");
        let live = world.live(Side::Member, &existing).await.unwrap();
        assert_eq!(live["data"]["more"], "from others", "{name}");
        assert_eq!(live["metadata"]["uid"], before["metadata"]["uid"], "{name}");
        if is_taken {
            assert_eq!(live["data"]["key"], "ours", "{name}");
            assert_eq!(*owner(&live), format!("0123456789/{name}"));
        } else {
            assert_eq!(
                live["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
                "{name}"
            );
        }
        if expected == "AdoptionDiffers" {
            let message = message(&status);
            assert!(
                message.contains("data.key") && !message.contains("theirs"),
                "{message}"
            );
        }
    }
    // Nothing of what was refused goes with its bundle.
    world.delete(Side::Hub, &bundle("never")).await;
    eventually("the bundle is forgotten", || async {
        world.ledger("never").await.is_none()
    })
    .await;
    pass_time(60).await;
    assert!(world.live(Side::Member, &config_map("never", "")).await.is_some());
    agent.stop().await;
}

/// Given objects that are nobody's and that the server has in its own spelling, when a bundle says the same in another one, then
/// they are taken.
#[tokio::test(start_paused = true)]
async fn another_spelling_is_no_difference_to_adoption() {
    let world = World::new().await;
    let agent = world.agent();
    let limited = |cpu: &str, memory: &str| {
        let mut web = deployment("web", "i:1", 1);
        let main = &mut web["spec"]["template"]["spec"]["containers"][0];
        main["resources"] = json!({"limits": {"cpu": cpu, "memory": memory}});
        web
    };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"}, "rules": []});
    world.create(Side::Member, limited("1", "1Gi")).await;
    world.create(Side::Member, role.clone()).await;
    let mut named = role.clone();
    named["metadata"]["namespace"] = json!("default");
    let content = spec(&[limited("1000m", "1024Mi"), named]);
    let generation = world.bundle("plain", content).await;
    let status = world.reported("plain", generation, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "Applied", "{status:#?}");
    let live = world.live(Side::Member, &role).await.unwrap();
    assert_eq!(*owner(&live), "0123456789/plain");
    // Another amount is another thing.
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("it goes", || async {
        world.live(Side::Member, &role).await.is_none()
    })
    .await;
    world.create(Side::Member, limited("2", "1Gi")).await;
    let generation = world.bundle("other", spec(&[limited("1000m", "1024Mi")])).await;
    let status = world.reported("other", generation, Failed).await;
    let message = message(&status);
    assert!(
        message.contains("limits.cpu") && !message.contains("memory"),
        "{message}"
    );
    agent.stop().await;
}

/// A05: given a custom resource with somebody's annotation, label and finalizer, when it is taken over and changed twice,
/// then all three stay.
#[tokio::test(start_paused = true)]
async fn annotations_and_finalizers_of_others_stay() {
    let world = World::new().await;
    world
        .create(Side::Member, crate::applying::widget_definition())
        .await;
    let widget = |size: u32| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": size}})
    };
    let mut theirs = widget(0);
    theirs["metadata"]["annotations"] = json!({"example.com/note": "mine"});
    theirs["metadata"]["labels"] = json!({"example.com/team": "a"});
    theirs["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(Side::Member, theirs.clone()).await;
    let agent = world.agent();
    for size in [1, 2] {
        let mut content = spec(&[widget(size)]);
        content["adopt"] = json!("Always");
        let generation = world.bundle("plain", content).await;
        world.reported("plain", generation, Ready).await;
        let live = world.live(Side::Member, &theirs).await.unwrap();
        assert_eq!(live["spec"]["size"], size);
        assert_eq!(live["metadata"]["annotations"]["example.com/note"], "mine");
        assert_eq!(live["metadata"]["labels"], theirs["metadata"]["labels"]);
        assert_eq!(live["metadata"]["finalizers"], theirs["metadata"]["finalizers"]);
    }
    agent.stop().await;
}

/// B03: given an object of one bundle that another one was refused, when the first goes, then so does the object, and
/// the other bundle makes its own.
#[tokio::test(start_paused = true)]
async fn the_refused_bundle_has_its_turn_when_the_owner_goes() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("shared", "first");
    let first = world.bundle("first", spec(&[map.clone()])).await;
    world.reported("first", first, Ready).await;
    let uid = world.live(Side::Member, &map).await.unwrap()["metadata"]["uid"].clone();
    let second = world
        .bundle("second", spec(&[config_map("shared", "second")]))
        .await;
    world.reported("second", second, Failed).await;
    pass_time(700).await;
    assert_eq!(
        world.live(Side::Member, &map).await.unwrap()["data"]["key"],
        "first"
    );
    world.delete(Side::Hub, &bundle("first")).await;
    pass_time(200).await;
    world.reported("second", second, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(
        (&live["data"]["key"], owner(&live)),
        (&json!("second"), &json!("0123456789/second"))
    );
    assert_ne!(live["metadata"]["uid"], uid);
    agent.stop().await;
}

/// B01, B04: given two bundles for one object, when the refused one is deleted whole, then the object stays with its owner.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_refused_bundle_leaves_the_owners_object() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("shared", "1");
    let first = world.bundle("default.one", dispatched_by("one", &map)).await;
    world.reported("default.one", first, Ready).await;
    let mut theirs = dispatched_by("two", &config_map("shared", "2"));
    // Not even the mode that takes everything takes what another bundle has.
    theirs["adopt"] = json!("Always");
    let second = world.bundle("default.two", theirs.clone()).await;
    let status = world.reported("default.two", second, Failed).await;
    let message = message(&status);
    assert!(
        message.contains("0123456789/default.one") && message.contains("0123456789/default.two"),
        "{message}"
    );
    let before = world.live(Side::Member, &map).await.unwrap();
    theirs["deletion"] = json!({"revision": "app-v1", "confirmedBy": "application-deleted"});
    world.bundle("default.two", theirs).await;
    world.delete(Side::Hub, &bundle("default.two")).await;
    eventually("the second bundle is forgotten", || async {
        world.ledger("default.two").await.is_none()
    })
    .await;
    pass_time(60).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap(), before);
    agent.stop().await;
}

fn dispatched_by(application: &str, manifest: &Value) -> Value {
    let mut content = dispatched(&[manifest.clone()], "v1", 1);
    content["applicationRef"]["name"] = json!(application);
    content
}

/// B06: given an object that a third party's controller owns, when a bundle has it, then it is refused, naming both,
/// unless co-ownership is allowed; then it is applied, and the owner reference stays.
#[tokio::test(start_paused = true)]
async fn an_object_that_a_third_party_controls_needs_leave() {
    let world = World::new().await;
    let existing = owned(&world, "theirs", true, config_map("shared", "theirs")).await;
    let before = world.create(Side::Member, existing.clone()).await;
    let agent = world.agent();
    let mut content = spec(&[config_map("shared", "ours")]);
    content["adopt"] = json!("Always");
    let first = world.bundle("plain", content.clone()).await;
    let status = world.reported("plain", first, Failed).await;
    assert_eq!(reason(&status, "Applied"), "ControlledByThirdParty");
    let message = message(&status);
    assert!(
        message.contains("ConfigMap theirs") && message.contains("0123456789/plain"),
        "{message}"
    );
    assert_eq!(world.live(Side::Member, &existing).await.unwrap(), before);
    content["allowCoOwnership"] = json!(true);
    let second = world.bundle("plain", content).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &existing).await.unwrap();
    assert_eq!(live["data"]["key"], "ours");
    assert_eq!(
        live["metadata"]["ownerReferences"],
        before["metadata"]["ownerReferences"]
    );
    agent.stop().await;
}

/// B02: given an object of ours that somebody added an owner reference to, when its bundle goes, then it goes all the same.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_no_bundle_does_not_keep_our_object() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("ours", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    let owned = owned(&world, "theirs", false, map.clone()).await;
    let references = json!({"metadata": {"ownerReferences": owned["metadata"]["ownerReferences"]}});
    world.merge(Side::Member, &map, references).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("it goes", || async {
        world.live(Side::Member, &map).await.is_none()
    })
    .await;
    assert!(
        world
            .live(Side::Member, &config_map("theirs", ""))
            .await
            .is_some()
    );
    agent.stop().await;
}

/// Given an applied bundle, when its ledger is deleted, finalizer and all, while the agent is down, then the objects are
/// known by their marker: nothing is refused, nothing goes, and the ledger is there again.
#[tokio::test(start_paused = true)]
async fn a_lost_ledger_is_made_again_from_the_markers() {
    let world = World::new().await;
    let agent = world.agent();
    let (map, mut content) = (
        config_map("a", "1"),
        dispatched(&[config_map("a", "1")], "app-v1", 1),
    );
    content["adopt"] = json!("Never");
    let generation = world.bundle("default.app", content).await;
    world.reported("default.app", generation, Ready).await;
    let before = world.live(Side::Member, &map).await.unwrap();
    agent.stop().await;
    let ledger = world.ledger("default.app").await.unwrap();
    world
        .merge(Side::Member, &ledger, json!({"metadata": {"finalizers": null}}))
        .await;
    world.delete(Side::Member, &ledger).await;
    assert!(world.ledger("default.app").await.is_none());
    let agent = world.agent();
    let again = eventually_with(
        "the ledger is there again",
        || world.ledger("default.app"),
        |ledger| {
            ledger
                .as_ref()
                .is_some_and(|ledger| ledger["spec"]["state"] == "Applied")
        },
    )
    .await;
    assert_eq!(
        again.unwrap()["spec"]["objects"][0]["uid"],
        before["metadata"]["uid"]
    );
    assert_eq!(world.live(Side::Member, &map).await.unwrap(), before);
    agent.stop().await;
}

/// Given an applied bundle, when its ledger is deleted while the agent runs, then the ledger is made again.
#[tokio::test(start_paused = true)]
async fn a_ledger_deleted_while_its_bundle_lives_is_made_again() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    let before = world.live(Side::Member, &map).await.unwrap();
    let ledger = world.ledger("plain").await.unwrap();
    world.delete(Side::Member, &ledger).await;
    pass_time(700).await;
    let again = world.ledger("plain").await.unwrap();
    assert_ne!(again["metadata"]["uid"], ledger["metadata"]["uid"]);
    assert!(again["metadata"].get("deletionTimestamp").is_none());
    assert_eq!(again["spec"]["objects"], ledger["spec"]["objects"]);
    assert_eq!(world.live(Side::Member, &map).await.unwrap(), before);
    agent.stop().await;
}

/// Given an applied object that somebody deleted and made again as theirs, when the bundle may not adopt, then it is
/// refused: the name alone makes nothing ours.
#[tokio::test(start_paused = true)]
async fn an_object_made_again_by_someone_else_is_not_ours_by_its_name() {
    let world = World::new().await;
    let agent = world.agent();
    let mut content = spec(&[config_map("a", "ours")]);
    content["adopt"] = json!("Never");
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
    let theirs = config_map("a", "theirs");
    world.delete(Side::Member, &theirs).await;
    let before = world.create(Side::Member, theirs.clone()).await;
    let agent = world.agent();
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "NotAdopted");
    pass_time(700).await;
    assert_eq!(world.live(Side::Member, &theirs).await.unwrap(), before);
    agent.stop().await;
}

/// Given an object of ours whose marker somebody took off, when the bundle may not adopt, then it is known by its uid in
/// the ledger: it stays ours, and the marker is put back.
#[tokio::test(start_paused = true)]
async fn a_marker_that_was_taken_off_is_put_back() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let mut content = spec(&[map.clone()]);
    content["adopt"] = json!("Never");
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    let stripped = json!({"metadata": {"annotations": {OWNED_BY: null}}});
    world.merge(Side::Member, &map, stripped).await;
    eventually("the marker is back", || async {
        *owner(&world.live(Side::Member, &map).await.unwrap()) == "0123456789/plain"
    })
    .await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
}
