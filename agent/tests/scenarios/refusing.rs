//! What the member refuses, for good or for now.

use crate::world::{
    HUB_ID, Pass, Side, World, bundle, config_map, dispatched, eventually, eventually_with, pass_time,
    reason, spec,
};
use parking_lot::Mutex;
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::bundle::BundleStatus;
use roundhouse_api::condition;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio::time::Instant;

fn failure(status: &BundleStatus) -> (String, String) {
    let condition = &status.resource_status.as_ref().unwrap().manifests[0].conditions[0];
    (condition.reason.clone(), condition.message.clone())
}

/// A10: given an applied RoleBinding, when its roleRef changes, which no API server allows, then that manifest fails with
/// the field's name, its siblings go on, and it recovers when the change is taken back.
#[tokio::test(start_paused = true)]
async fn a_role_ref_that_may_not_change_fails_alone_and_recovers() {
    let world = World::new().await;
    let agent = world.agent();
    let rbac = "rbac.authorization.k8s.io";
    let binding = |role: &str| {
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "web", "namespace": "default"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}]})
    };
    let content = |role: &str, value: &str| spec(&[binding(role), config_map("beside", value)]);
    let first = world.bundle("plain", content("view", "1")).await;
    world.reported("plain", first, Ready).await;
    let uid = world.live(Side::Member, &binding("")).await.unwrap()["metadata"]["uid"].clone();
    let second = world.bundle("plain", content("edit", "2")).await;
    let status = world.reported("plain", second, Failed).await;
    assert_eq!(status.counts.as_ref().unwrap().applied, 1);
    let (_, message) = failure(&status);
    assert!(message.contains("roleRef"), "{message}");
    let beside = world.live(Side::Member, &config_map("beside", "")).await.unwrap();
    assert_eq!(beside["data"]["key"], "2");
    pass_time(700).await;
    let live = world.live(Side::Member, &binding("")).await.unwrap();
    assert_eq!(
        (&live["roleRef"]["name"], &live["metadata"]["uid"]),
        (&json!("view"), &uid)
    );
    let third = world.bundle("plain", content("view", "3")).await;
    let status = world.reported("plain", third, Ready).await;
    assert_eq!(status.resource_status, None, "nothing of the failure is left");
    agent.stop().await;
}

/// Given an admission webhook that denies one kind, when a bundle is applied, then its objects fail with what the webhook
/// says, the others are applied, and when it relents they are applied with nobody's help.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_denies_one_object_does_not_stop_the_others() {
    let world = World::new().await;
    let answer = Arc::new(AtomicU16::new(403));
    let answers = Arc::clone(&answer);
    let member = world.gated(Side::Member, move |method, path| {
        match answers.load(Ordering::Acquire) {
            code @ 300.. if method == http::Method::POST && path.ends_with("/secrets") => Pass::Refused(code),
            _ => Pass::Through,
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "stringData": {"password": "hunter2"}});
    let (before, after) = (config_map("before", "1"), config_map("after", "1"));
    let generation = world
        .bundle("plain", spec(&[before.clone(), secret.clone(), after.clone()]))
        .await;
    let status = world.reported("plain", generation, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.applied, counts.failed), (2, 1));
    let (why, message) = failure(&status);
    assert_eq!(why, "Forbidden");
    assert!(
        message.contains("gate.example.com") && !message.contains("hunter2"),
        "{message}"
    );
    for object in [&before, &after] {
        assert!(world.live(Side::Member, object).await.is_some());
    }
    // A webhook that is down is waited out: that is no failure of the bundle.
    answer.store(500, Ordering::Release);
    pass_time(300).await;
    let status = world.reported("plain", generation, Progressing).await;
    assert_eq!(failure(&status).0, "ServerError");
    answer.store(200, Ordering::Release);
    pass_time(200).await;
    world.reported("plain", generation, Ready).await;
    assert!(world.live(Side::Member, &secret).await.is_some());
    agent.stop().await;
}

/// A29: given an object that the member goes on refusing, when time passes, then it is tried after 1, 2, 4 … 64 and from
/// then on 120 seconds (each up to 30 % more or less, and besides at the resync), and a new generation begins with 1 again.
#[tokio::test(start_paused = true)]
async fn the_back_off_doubles_from_one_second_to_two_minutes() {
    let world = World::embedded().await;
    let tries: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let log = Arc::clone(&tries);
    let member = world.gated(Side::Member, move |method, path| {
        if method == http::Method::POST && path.ends_with("/configmaps") {
            log.lock().push(Instant::now());
            return Pass::Refused(500);
        }
        Pass::Through
    });
    let mut config = World::config();
    config.resync = Duration::from_secs(1_000_000);
    let agent = world.agent_between(config, world.hub_client.clone(), member);
    for value in ["1", "2"] {
        tries.lock().clear();
        world.bundle("plain", spec(&[config_map("a", value)])).await;
        pass_time(900).await;
        let tries = tries.lock().clone();
        let gaps: Vec<f64> = tries
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .collect();
        let expected = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0, 120.0, 120.0];
        assert!(gaps.len() >= expected.len(), "{gaps:?}");
        for (gap, expected) in gaps.iter().zip(expected) {
            // What a pass takes itself comes on top: the settling of events, and moments of the paused clock.
            assert!(
                (expected * 0.7..=expected * 1.3 + 0.2).contains(gap),
                "{expected}: {gaps:?}"
            );
        }
    }
    agent.stop().await;
}

/// Given a bundle whose ledger the member does not take, as its name would be too long, then nothing is applied, and the bundle
/// says why.
#[tokio::test(start_paused = true)]
async fn a_bundle_whose_ledger_is_refused_says_so() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let name = ["n".repeat(62), "n".repeat(62), "n".repeat(62), "n".repeat(61)].join(".");
    assert_eq!(name.len(), 250);
    let generation = world.bundle(&name, spec(&[map.clone()])).await;
    let status = world.reported(&name, generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "LedgerRefused");
    let said = condition::get(&status.conditions, "Applied").unwrap();
    assert!(said.message.contains("metadata.name"), "{}", said.message);
    pass_time(600).await;
    assert!(world.live(Side::Member, &map).await.is_none());
    agent.stop().await;
}

/// Given a namespace that is not the application's, when it is missing, then the object says so, its siblings go on, and
/// it is applied when the namespace is there.
#[tokio::test(start_paused = true)]
async fn a_foreign_namespace_is_waited_for_and_not_made() {
    let world = World::new().await;
    let agent = world.agent();
    let mut inside = config_map("inside", "1");
    inside["metadata"]["namespace"] = json!("elsewhere");
    let beside = config_map("beside", "1");
    let content = dispatched(&[inside.clone(), beside.clone()], "app-v1", 1);
    let generation = world.bundle("default.app", content).await;
    let status = world.reported("default.app", generation, Failed).await;
    let (why, message) = failure(&status);
    assert_eq!(why, "NamespaceNotFound");
    assert!(message.contains("elsewhere"), "{message}");
    assert!(world.live(Side::Member, &beside).await.is_some());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    pass_time(600).await;
    assert!(world.live(Side::Member, &namespace).await.is_none());
    world.create(Side::Member, namespace).await;
    pass_time(200).await;
    world.reported("default.app", generation, Ready).await;
    assert!(world.live(Side::Member, &inside).await.is_some());
    agent.stop().await;
}

/// Given the application's namespace on its way out, when the bundle is applied, then the object waits and says for what,
/// and when the namespace is gone both are made again.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_waited_out() {
    let world = World::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let uid = world.create(Side::Member, namespace.clone()).await["metadata"]["uid"].clone();
    let mut lingers = config_map("lingers", "1");
    lingers["metadata"]["namespace"] = json!("shop");
    lingers["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(Side::Member, lingers.clone()).await;
    world.delete(Side::Member, &namespace).await;
    let agent = world.agent();
    let mut map = config_map("a", "1");
    map["metadata"]["namespace"] = json!("shop");
    let mut content = dispatched(&[map.clone(), config_map("beside", "1")], "app-v1", 1);
    content["applicationRef"]["namespace"] = json!("shop");
    let generation = world.bundle("shop.app", content).await;
    let status = world.reported("shop.app", generation, Progressing).await;
    assert_eq!(
        status.counts.as_ref().unwrap().applied,
        1,
        "its sibling is applied"
    );
    let (why, message) = failure(&status);
    assert_eq!(why, "NamespaceTerminating");
    assert!(message.contains("shop"), "{message}");
    pass_time(600).await;
    assert!(world.live(Side::Member, &map).await.is_none());
    world
        .merge(Side::Member, &lingers, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(300).await;
    world.reported("shop.app", generation, Ready).await;
    assert!(world.live(Side::Member, &map).await.is_some());
    assert_ne!(
        world.live(Side::Member, &namespace).await.unwrap()["metadata"]["uid"],
        uid
    );
    agent.stop().await;
}

/// Given an object of ours on its way out by somebody else's hand, when its bundle is applied, then it is waited for and
/// made again when it is gone.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_being_deleted_is_made_again_when_it_is_gone() {
    let world = World::new().await;
    let agent = world.agent();
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", first, Ready).await;
    let uid = world.live(Side::Member, &map).await.unwrap()["metadata"]["uid"].clone();
    world.delete(Side::Member, &map).await;
    let mut changed = map.clone();
    changed["data"]["key"] = json!("2");
    let second = world.bundle("plain", spec(&[changed])).await;
    let status = world.reported("plain", second, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "BeingDeleted");
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    world
        .merge(Side::Member, &map, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(200).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"]["key"], "2");
    assert_ne!(live["metadata"]["uid"], uid);
    agent.stop().await;
}

/// B17, C06: given objects of one hub, when the agent starts for another one with a bundle of the same name, then they stay
/// as they are: the new bundle is refused them, naming both hubs, and nothing is deleted.
#[tokio::test(start_paused = true)]
async fn another_hub_leaves_the_objects_of_the_former_one_alone() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("default.app", dispatched(&[a.clone(), b.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    agent.stop().await;
    let before = (
        world.live(Side::Member, &a).await,
        world.live(Side::Member, &b).await,
    );
    let former = world.ledger("default.app").await.unwrap();
    // The hub is installed anew: its Bundles have the same names, and this one has less in it.
    world.delete(Side::Hub, &bundle("default.app")).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "agent", "namespace": crate::world::NAMESPACE}});
    let annotations = json!({"metadata": {"annotations": {"roundhouse.dev/hub-id": "fedcba9876"}}});
    world.merge(Side::Hub, &lease, annotations).await;
    let second = world
        .bundle("default.app", dispatched(&[config_map("a", "2")], "app-v1", 1))
        .await;
    let agent = world.agent();
    let status = world.reported("default.app", second, Failed).await;
    let (why, message) = failure(&status);
    assert_eq!(why, "OwnedByAnotherBundle");
    assert!(
        message.contains(HUB_ID) && message.contains("fedcba9876"),
        "{message}"
    );
    pass_time(700).await;
    let after = (
        world.live(Side::Member, &a).await,
        world.live(Side::Member, &b).await,
    );
    assert_eq!(after, before);
    assert_eq!(world.ledger("default.app").await.unwrap(), former);
    agent.stop().await;
}

/// Given a bundle that dispatch wrote, when it is deleted without its evidence and held by its finalizer, then nothing
/// goes, the report says why, and the objects go once the evidence is written.
#[tokio::test(start_paused = true)]
async fn a_deletion_without_evidence_is_held_until_the_evidence_comes() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let finalizer = json!({"metadata": {"finalizers": ["roundhouse.dev/dispatch"]}});
    world.merge(Side::Hub, &bundle("default.app"), finalizer).await;
    world.delete(Side::Hub, &bundle("default.app")).await;
    eventually_with(
        "it says why",
        || world.status("default.app"),
        |status| reason(status, "Progressing") == "DeletionNotConfirmed",
    )
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    let evidence =
        json!({"spec": {"deletion": {"revision": "app-v1", "confirmedBy": "application-deleted"}}});
    world.merge(Side::Hub, &bundle("default.app"), evidence).await;
    eventually("it goes", || async {
        world.live(Side::Member, &a).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given a hand-written bundle that is paused, when it is deleted, then nothing goes.
#[tokio::test(start_paused = true)]
async fn a_paused_bundle_that_is_deleted_leaves_its_objects() {
    let world = World::new().await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world.bundle("plain", spec(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    world.bundle("plain", json!({"paused": true})).await;
    eventually_with(
        "it says so",
        || world.status("plain"),
        |status| reason(status, "Progressing") == "Paused",
    )
    .await;
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("the ledger says so", || async {
        let ledger: Option<Value> = world.ledger("plain").await;
        ledger.is_some_and(|ledger| ledger["spec"]["state"] == "Orphaned")
    })
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    agent.stop().await;
}

/// Given a dispatched bundle with objects, when it comes without manifests and without evidence, then its objects are held
/// and the report says what to do; with its manifests it goes on, with evidence its objects go.
#[tokio::test(start_paused = true)]
async fn a_dispatched_bundle_without_manifests_is_held_until_the_evidence_comes() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world
        .bundle("default.app", dispatched(&[map.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", first, Ready).await;
    let mut empty = dispatched(&[], "app-v2", 1);
    world.bundle("default.app", empty.clone()).await;
    let status = eventually_with(
        "it is held",
        || world.status("default.app"),
        |status| reason(status, "Progressing") == "EmptyNotConfirmed",
    )
    .await;
    assert_eq!(
        status.observed_generation,
        Some(first),
        "nothing is said of the new one"
    );
    pass_time(700).await;
    assert!(world.live(Side::Member, &map).await.is_some());
    let back = world
        .bundle("default.app", dispatched(&[map.clone()], "app-v3", 1))
        .await;
    world.reported("default.app", back, Ready).await;
    empty["deletion"] = json!({"revision": "app-v2", "confirmedBy": "garbage-collection"});
    world.bundle("default.app", empty).await;
    eventually("it goes", || async {
        world.live(Side::Member, &map).await.is_none()
    })
    .await;
    agent.stop().await;
}
