//! An application in several Bundles: objects that move between them stay.

use crate::world::{
    HUB_ID, Pass, Side, World, config_map, deployment, dispatched, eventually, job, pass_time, reason,
};
use roundhouse_api::bundle::BundlePhase::{Cleaned, Failed, Progressing, Ready};
use roundhouse_api::bundle::BundleStatus;
use roundhouse_api::{condition, hash};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all parts of a division are together, as the hub says it in each of them.
fn parts_hash(division: &[&[Value]]) -> String {
    let parts = division.iter().map(|manifests| hash::of_manifests(manifests));
    hash::of_value(&parts.collect())
}

async fn uid(world: &World, object: &Value) -> Option<Value> {
    let live = world.live(Side::Member, object).await?;
    Some(live["metadata"]["uid"].clone())
}

#[tokio::test(start_paused = true)]
async fn an_object_that_moved_to_another_part_survives_the_removal_of_its_former_one() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b, c) = (config_map("a", "1"), config_map("b", "1"), config_map("c", "1"));
    let one = world
        .bundle("default.app", dispatched(&[a.clone(), b.clone()], "app-v1", 1))
        .await;
    let two = world
        .bundle("default.app.2", dispatched(&[c.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Ready).await;
    let before = uid(&world, &c).await.unwrap();

    // Without b, all fit into one part: c moves, and the second part is removed on evidence.
    let one = world
        .bundle("default.app", dispatched(&[a.clone(), c.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", one, Ready).await;
    world.tombstone("default.app.2", "garbage-collection").await;
    eventually("the second part is clean", || async {
        world.status("default.app.2").await.phase == Some(Cleaned)
    })
    .await;
    world.release("default.app.2").await;
    pass_time(60).await;
    assert_eq!(uid(&world, &c).await, Some(before), "c was never deleted");
    assert_eq!(uid(&world, &b).await, None, "b is pruned");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_in_no_other_part_goes_with_its_own() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    for (name, object) in [("default.app", &a), ("default.app.2", &b)] {
        let generation = world
            .bundle(name, dispatched(&[object.clone()], "app-v1", 1))
            .await;
        world.reported(name, generation, Ready).await;
    }
    // The whole application goes, part by part.
    for name in ["default.app.2", "default.app"] {
        world.tombstone(name, "application-deleted").await;
    }
    for name in ["default.app.2", "default.app"] {
        eventually("both are clean", || async {
            world.status(name).await.phase == Some(Cleaned)
        })
        .await;
    }
    assert_eq!((uid(&world, &a).await, uid(&world, &b).await), (None, None));
    agent.stop().await;
}

/// Given two parts that share what is to be pruned, when only one of them is at the new revision, then nothing goes, for
/// the other may be about to have it; when the other is there too, what neither has goes.
#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_until_every_part_is_at_the_same_revision() {
    let world = World::new().await;
    let agent = world.agent();
    let (first, moves, goes, stays) = (
        config_map("first", "1"),
        config_map("moves", "1"),
        config_map("goes", "1"),
        config_map("stays", "1"),
    );
    let one = world
        .bundle(
            "default.app",
            dispatched(&[first.clone(), moves.clone(), goes.clone()], "app-v1", 1),
        )
        .await;
    let two = world
        .bundle("default.app.2", dispatched(&[stays.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Ready).await;
    let before = uid(&world, &moves).await.unwrap();
    // The hub writes part by part, and is away in between.
    let one = world
        .bundle("default.app", dispatched(&[first.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", one, Ready).await;
    pass_time(700).await;
    assert!(
        uid(&world, &goes).await.is_some(),
        "part 2 was not read at this revision yet"
    );
    let message = |status: BundleStatus| {
        let said = condition::get(&status.conditions, "Progressing").unwrap();
        said.message.clone()
    };
    assert_eq!(
        message(world.status("default.app").await),
        "2 objects that left it stay until part default.app.2 is read at the same revision and division"
    );
    assert!(uid(&world, &moves).await.is_some());
    let two = world
        .bundle(
            "default.app.2",
            dispatched(&[stays.clone(), moves.clone()], "app-v2", 1),
        )
        .await;
    world.reported("default.app.2", two, Ready).await;
    pass_time(300).await;
    assert_eq!(uid(&world, &goes).await, None);
    assert_eq!(message(world.status("default.app").await), "");
    assert_eq!(
        uid(&world, &moves).await,
        Some(before),
        "it moved: it was never deleted"
    );
    for part in ["default.app", "default.app.2"] {
        let ledger = world.ledger(part).await.unwrap();
        let names: Vec<_> = ledger["spec"]["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["name"].clone())
            .collect();
        let expected = if part == "default.app" {
            vec![json!("first")]
        } else {
            vec![json!("moves"), json!("stays")]
        };
        assert_eq!(names, expected, "{part}");
    }
    agent.stop().await;
}

/// Given an application in two parts that fits into one, when the removal of the second one is refused, as a workload of it still has
/// replicas under apply-once, then the first one is pruned all the same, in this revision and in the next.
#[tokio::test(start_paused = true)]
async fn a_part_whose_removal_is_refused_holds_up_no_other() {
    let world = World::new().await;
    let agent = world.agent();
    let [stays, goes, later] = ["stays", "goes", "later"].map(|name| config_map(name, "1"));
    let once = |manifests: &[Value], revision| {
        let mut content = dispatched(manifests, revision, 1);
        content["applyOnce"] = json!("Once");
        content
    };
    let all = [stays.clone(), goes.clone(), later.clone()];
    let one = world.bundle("default.app", once(&all, "app-v1")).await;
    let web = deployment("web", "i:1", 2);
    let two = world
        .bundle("default.app.2", once(&[web.clone()], "app-v1"))
        .await;
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Progressing).await;

    world.tombstone("default.app.2", "garbage-collection").await;
    eventually("its removal is refused", || async {
        reason(&world.status("default.app.2").await, "Degraded") == "RemovalRefused"
    })
    .await;
    let left = [stays.clone(), later.clone()];
    for (revision, left, gone) in [("app-v2", &left[..], &goes), ("app-v3", &left[..1], &later)] {
        let one = world.bundle("default.app", once(left, revision)).await;
        world.reported("default.app", one, Ready).await;
        eventually("what the first part has no more goes", || async {
            uid(&world, gone).await.is_none()
        })
        .await;
    }
    assert!(uid(&world, &web).await.is_some(), "nobody confirmed that");
    agent.stop().await;
}

/// Given two parts of one revision that are divided anew, as an override does it, and an object that moves from the later
/// part to the earlier one, when the later one is there and the earlier one is not for an hour, then the object stays, and
/// with it what neither part has; when both are there, only the latter goes.
#[tokio::test(start_paused = true)]
async fn what_moves_to_an_earlier_part_of_the_same_revision_stays() {
    let world = World::new().await;
    let agent = world.agent();
    let of = |part: usize, division: [&[Value]; 2]| {
        let mut content = dispatched(division[part], "app-v1", 1);
        content["partsHash"] = json!(parts_hash(&division));
        content
    };
    let [first, moves, goes, stays] = ["first", "moves", "goes", "stays"].map(|name| config_map(name, "1"));
    let (one, two) = ([first.clone()], [moves.clone(), goes.clone(), stays.clone()]);
    let divided: [&[Value]; 2] = [&one, &two];
    let (one, two) = ([first, moves.clone()], [stays]);
    let anew: [&[Value]; 2] = [&one, &two];
    let one = world.bundle("default.app", of(0, divided)).await;
    let two = world.bundle("default.app.2", of(1, divided)).await;
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Ready).await;
    let before = uid(&world, &moves).await.unwrap();

    let two = world.bundle("default.app.2", of(1, anew)).await;
    world.reported("default.app.2", two, Ready).await;
    pass_time(3600).await;
    assert_eq!(uid(&world, &moves).await.as_ref(), Some(&before));
    assert!(uid(&world, &goes).await.is_some(), "the other part may get it");

    let one = world.bundle("default.app", of(0, anew)).await;
    world.reported("default.app", one, Ready).await;
    eventually("what neither part has goes", || async {
        uid(&world, &goes).await.is_none()
    })
    .await;
    assert_eq!(uid(&world, &moves).await, Some(before), "it was never deleted");
    agent.stop().await;
}

/// Given an application of three parts that shrinks to two, whose third one is still on its way out when it grows again and an object
/// moves into the third, which is not written yet, then the object stays: the other two parts are not all of the division.
#[tokio::test(start_paused = true)]
async fn nothing_is_pruned_while_a_part_of_the_division_is_missing() {
    let world = World::new().await;
    let agent = world.agent();
    let [first, stays, moves, goes] = ["first", "stays", "moves", "goes"].map(|name| config_map(name, "1"));
    let mut held = config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let written = async |part: usize, division: &[&[Value]], revision: &str| {
        let name = ["default.app", "default.app.2", "default.app.3"][part];
        let mut content = dispatched(division[part], revision, 1);
        content["partsHash"] = json!(parts_hash(division));
        let generation = world.bundle(name, content).await;
        world.reported(name, generation, Ready).await;
    };
    let (one, two) = ([first], [stays.clone(), moves.clone(), goes.clone()]);
    let three: [&[Value]; 3] = [&one, &two, &[held.clone()]];
    for part in 0..3 {
        written(part, &three, "app-v1").await;
    }
    let before = uid(&world, &moves).await.unwrap();
    world.tombstone("default.app.3", "garbage-collection").await;
    for part in [1, 0] {
        written(part, &three[..2], "app-v2").await;
    }
    let grown: [&[Value]; 3] = [&one, &[stays], &[moves.clone()]];
    for part in [1, 0] {
        written(part, &grown, "app-v3").await;
    }
    pass_time(700).await;
    assert_eq!(uid(&world, &moves).await.as_ref(), Some(&before));
    assert!(uid(&world, &goes).await.is_some(), "the third part may get it");

    let free = json!({"metadata": {"finalizers": null}});
    world.merge(Side::Member, &held, free).await;
    eventually("the third part is clean", || async {
        world.status("default.app.3").await.phase == Some(Cleaned)
    })
    .await;
    world.release("default.app.3").await;
    written(2, &grown, "app-v3").await;
    eventually("what no part has goes", || async {
        uid(&world, &goes).await.is_none()
    })
    .await;
    assert_eq!(uid(&world, &moves).await, Some(before), "it was never deleted");
    agent.stop().await;
}

/// Given an object that moves to a part whose ledger cannot be written, when the agent dies meanwhile and the next revision has the
/// object no more, then it goes: its former part has answered for it.
#[tokio::test(start_paused = true)]
async fn a_part_answers_for_what_moved_until_the_ledger_of_the_other_one_has_it() {
    let world = World::new().await;
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let member = world.gated(Side::Member, move |method, path| {
        let is_it = *method == http::Method::PUT && path.ends_with(&format!("/{HUB_ID}.default.app"));
        match is_it && is_cut.load(Ordering::Acquire) {
            true => Pass::Lost,
            false => Pass::Through,
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let [first, moves, other] = ["first", "moves", "other"].map(|name| config_map(name, "1"));
    let written = async |name: &str, manifests: &[&Value], revision: &str| {
        let manifests: Vec<Value> = manifests.iter().copied().cloned().collect();
        world.bundle(name, dispatched(&manifests, revision, 1)).await
    };
    let one = written("default.app", &[&first], "app-v1").await;
    let two = written("default.app.2", &[&moves, &other], "app-v1").await;
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Ready).await;
    cut.store(true, Ordering::Release);
    written("default.app", &[&first, &moves], "app-v2").await;
    let two = written("default.app.2", &[&other], "app-v2").await;
    world.reported("default.app.2", two, Ready).await;
    pass_time(300).await;
    let ledger = world.ledger("default.app.2").await.unwrap();
    assert_eq!(ledger["spec"]["objects"][0]["name"], "moves", "{ledger}");
    agent.kill().await;

    let one = written("default.app", &[&first], "app-v3").await;
    let two = written("default.app.2", &[&other], "app-v3").await;
    let agent = world.agent();
    world.reported("default.app", one, Ready).await;
    world.reported("default.app.2", two, Ready).await;
    eventually("what no part has goes", || async {
        uid(&world, &moves).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// Given a Job that has ended and was taken away since, and a Secret, when both move to another part, and the Secret loses a key on the
/// way, then the Job does not run again and the key goes: what is known of an object moves with it.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_an_object_moves_with_it() {
    let world = World::new().await;
    let agent = world.agent();
    let [first, other] = ["first", "other"].map(|name| config_map(name, "1"));
    let secret = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "moves", "namespace": "default"},
            "data": data})
    };
    let written = async |name: &str, manifests: &[Value], revision: &str| {
        let mut content = dispatched(manifests, revision, 1);
        content["applyOnce"] = json!("Once");
        world.bundle(name, content).await
    };
    let both = secret(json!({"a": "b25l", "b": "dHdv"}));
    let one = written("default.app", &[first.clone()], "app-v1").await;
    let all = [job("i:1"), both.clone(), other.clone()];
    written("default.app.2", &all, "app-v1").await;
    world.reported("default.app", one, Ready).await;
    eventually("the Job is made", || async {
        uid(&world, &job("i:1")).await.is_some()
    })
    .await;
    let ended = json!({"conditions": [{"type": "Complete", "status": "True", "reason": "R",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    world.merge_status(Side::Member, &job("i:1"), ended).await;
    let has_ended = async |part: &str| {
        let ledger = world.ledger(part).await.unwrap();
        let mut objects = ledger["spec"]["objects"].as_array().unwrap().iter();
        objects.any(|entry| entry["outcome"] == "Completed")
    };
    eventually("the ledger knows", || has_ended("default.app.2")).await;
    world.delete(Side::Member, &job("i:1")).await;
    pass_time(60).await;

    let two = written("default.app.2", &[other], "app-v2").await;
    let all = [first, job("i:1"), secret(json!({"a": "b25l"}))];
    let one = written("default.app", &all, "app-v2").await;
    world.reported("default.app.2", two, Ready).await;
    world.reported("default.app", one, Ready).await;
    pass_time(60).await;
    assert_eq!(uid(&world, &job("i:1")).await, None, "it has run");
    let live = world.live(Side::Member, &both).await.unwrap();
    assert_eq!(live["data"], json!({"a": "b25l"}));
    assert!(has_ended("default.app").await && !has_ended("default.app.2").await);
    agent.stop().await;
}

/// Given an application in two parts, when an object is in one of them, then its marker names the application's first
/// part, whichever part has it.
#[tokio::test(start_paused = true)]
async fn the_parts_of_an_application_share_one_marker() {
    let world = World::new().await;
    let agent = world.agent();
    for (name, object) in [("default.app", "a"), ("default.app.2", "b")] {
        let map = config_map(object, "1");
        let generation = world.bundle(name, dispatched(&[map.clone()], "app-v1", 1)).await;
        world.reported(name, generation, Ready).await;
        let live = world.live(Side::Member, &map).await.unwrap();
        let marker = &live["metadata"]["annotations"]["roundhouse.dev/owned-by"];
        assert_eq!(*marker, "0123456789/default.app");
    }
    agent.stop().await;
}

/// The Bundle of a step's object is no part of the application: it is pruned, removed and marked by itself, whatever the
/// revision of the application's own Bundle.
#[tokio::test(start_paused = true)]
async fn the_bundle_of_a_steps_object_stands_alone() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b, flag) = (
        config_map("a", "1"),
        config_map("b", "1"),
        config_map("flag", "1"),
    );
    let step = "default.app.step.flags";
    let one = world
        .bundle("default.app", dispatched(&[a.clone(), b.clone()], "app-v1", 1))
        .await;
    let of_step = world.bundle(step, dispatched(&[flag.clone()], "app-v1", 1)).await;
    world.reported("default.app", one, Ready).await;
    world.reported(step, of_step, Ready).await;
    let marker = |live: Value| live["metadata"]["annotations"]["roundhouse.dev/owned-by"].clone();
    let marked = marker(world.live(Side::Member, &flag).await.unwrap());
    assert!(
        marked.as_str().unwrap().ends_with("/default.app.step.flags"),
        "{marked}"
    );

    // The application goes on without its step's Bundle, and is pruned.
    let one = world
        .bundle("default.app", dispatched(&[a.clone()], "app-v2", 1))
        .await;
    world.reported("default.app", one, Ready).await;
    eventually("b is pruned", || async { uid(&world, &b).await.is_none() }).await;

    // What the application itself has is not the step's to take.
    let of_step = world
        .bundle(step, dispatched(&[flag.clone(), a.clone()], "app-v2", 1))
        .await;
    let status = world.reported(step, of_step, Failed).await;
    let failures = status.resource_status.unwrap().manifests;
    assert_eq!(failures[0].conditions[0].reason, "OwnedByAnotherBundle");

    // It goes alone, with what is its own.
    world.tombstone(step, "garbage-collection").await;
    eventually("the step's Bundle is clean", || async {
        world.status(step).await.phase == Some(Cleaned)
    })
    .await;
    assert_eq!(uid(&world, &flag).await, None);
    assert!(uid(&world, &a).await.is_some(), "the application's object stays");
    agent.stop().await;
}
