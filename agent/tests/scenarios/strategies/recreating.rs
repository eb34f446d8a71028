//! Fields that the member does not let change.

use super::*;
use crate::world::job;
use std::sync::atomic::Ordering;

fn image(job: &Value) -> &Value {
    &job["spec"]["template"]["spec"]["containers"][0]["image"]
}

#[tokio::test(start_paused = true)]
async fn an_immutable_field_is_reported_with_its_path_and_not_tried_again_and_again() {
    let world = World::embedded().await;
    let agent = world.agent();
    let first = world
        .bundle("plain", spec(&[job("i:1"), config_map("a", "1")]))
        .await;
    world.reported("plain", first, Progressing).await;
    let second = world
        .bundle("plain", spec(&[job("i:2"), config_map("a", "2")]))
        .await;
    let status = world.reported("plain", second, Failed).await;
    let failed = entry(&status, 0).unwrap();
    assert_eq!(failed.conditions[0].reason, "Immutable");
    let message = &failed.conditions[0].message;
    assert!(
        message.contains("spec.template") && message.contains("recreateFields"),
        "{message}"
    );
    assert_eq!(
        world.live(Side::Member, &config_map("a", "")).await.unwrap()["data"]["key"],
        "2",
        "siblings go on"
    );
    assert_eq!(image(&world.live(Side::Member, &job("")).await.unwrap()), "i:1");
    // The job goes on, and every step of it is news.
    let before = world.member.write_requests();
    for active in 1..=20 {
        world
            .merge_status(Side::Member, &job(""), json!({"active": active}))
            .await;
        pass_time(10).await;
    }
    let ours = world.member.write_requests() - before - 20;
    assert!(ours <= 1, "{ours} refused patches in 200 s");
    pass_time(1300).await;
    let ours = world.member.write_requests() - before - 20;
    assert!((4..=6).contains(&ours), "{ours}: the slow resync tries again");
    // Taken back, it is well.
    let third = world
        .bundle("plain", spec(&[job("i:1"), config_map("a", "2")]))
        .await;
    world.reported("plain", third, Progressing).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_with_fields_that_the_server_filled_in_is_applied_again_without_trouble() {
    let world = World::new().await;
    let agent = world.agent();
    let first = world.bundle("plain", spec(&[job("i:1")])).await;
    world.reported("plain", first, Progressing).await;
    let live = world.live(Side::Member, &job("")).await.unwrap();
    assert!(
        live["spec"]["selector"].is_object(),
        "the server fills it in: {live}"
    );
    let mut labelled = job("i:1");
    labelled["metadata"]["labels"] = json!({"new": "1"});
    labelled["spec"]["backoffLimit"] = json!(3);
    let second = world.bundle("plain", spec(&[labelled])).await;
    world.reported("plain", second, Progressing).await;
    let after = world.live(Side::Member, &job("")).await.unwrap();
    assert_eq!(after["metadata"]["uid"], live["metadata"]["uid"]);
    assert_eq!(
        (
            &after["metadata"]["labels"]["new"],
            &after["spec"]["backoffLimit"]
        ),
        (&json!("1"), &json!(3))
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_deletes_the_object_and_makes_it_again() {
    let world = World::new().await;
    let agent = world.agent();
    for (name, strategy, expected) in [
        ("strategy", json!({"type": "Recreate"}), true),
        (
            "listed",
            json!({"type": "Update", "recreateFields": [".spec.template"]}),
            true,
        ),
        (
            "narrow",
            json!({"recreateFields": ["spec.template.spec.containers[*].image"]}),
            true,
        ),
        ("another", json!({"recreateFields": ["spec.selector"]}), false),
    ] {
        let named = |image: &str| {
            let mut job = job(image);
            job["metadata"]["name"] = json!(name);
            job
        };
        let first = world
            .bundle(name, treated(&[named("i:1")], strategy.clone()))
            .await;
        world.reported(name, first, Progressing).await;
        let before = world.live(Side::Member, &named("")).await.unwrap();
        let second = world.bundle(name, treated(&[named("i:2")], strategy)).await;
        if expected {
            let status = eventually_with(
                "it is made again",
                || world.live(Side::Member, &before),
                |live| live.as_ref().is_some_and(|live| image(live) == "i:2"),
            );
            let live = status.await.unwrap();
            assert_ne!(live["metadata"]["uid"], before["metadata"]["uid"], "{name}");
            eventually_with(
                "it is in the ledger",
                || world.ledger(name),
                |ledger| ledger.as_ref().unwrap()["spec"]["objects"][0]["uid"] == live["metadata"]["uid"],
            )
            .await;
            world.reported(name, second, Progressing).await;
        } else {
            world.reported(name, second, Failed).await;
            assert_eq!(
                world.live(Side::Member, &named("")).await.unwrap(),
                before,
                "{name}"
            );
        }
    }
    pass_time(30).await;
    let before = world.writes();
    pass_time(500).await;
    assert_eq!(world.writes(), before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_does_not_touch_an_object_for_a_change_that_is_allowed() {
    let world = World::new().await;
    let agent = world.agent();
    let strategy = json!({"type": "Recreate"});
    let first = world
        .bundle("plain", treated(&[deployment("web", "i:1", 1)], strategy.clone()))
        .await;
    world.reported("plain", first, Progressing).await;
    let web = deployment("web", "i:1", 1);
    let before = world.live(Side::Member, &web).await.unwrap();
    let second = world
        .bundle("plain", treated(&[deployment("web", "i:2", 1)], strategy))
        .await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(live["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "i:2");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_member_would_refuse_as_a_new_object_too_is_not_deleted() {
    let world = World::new().await;
    let agent = world.agent();
    let strategy = json!({"type": "Recreate"});
    let first = world
        .bundle("plain", treated(&[job("i:1")], strategy.clone()))
        .await;
    world.reported("plain", first, Progressing).await;
    let before = world.live(Side::Member, &job("")).await.unwrap();
    // The selector of a Job is the server's: a change of it is refused as immutable, and its creation as invalid.
    let mut bad = job("i:2");
    bad["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let second = world.bundle("plain", treated(&[bad], strategy)).await;
    world.reported("plain", second, Failed).await;
    pass_time(60).await;
    assert_eq!(
        world.live(Side::Member, &job("")).await.unwrap()["metadata"]["uid"],
        before["metadata"]["uid"]
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_held_by_a_finalizer_is_made_again_when_it_is_gone() {
    let world = World::new().await;
    let agent = world.agent();
    let strategy = json!({"type": "Recreate"});
    let first = world
        .bundle("plain", treated(&[job("i:1")], strategy.clone()))
        .await;
    world.reported("plain", first, Progressing).await;
    world
        .merge(
            Side::Member,
            &job(""),
            json!({"metadata": {"finalizers": ["x.io/hold"]}}),
        )
        .await;
    let second = world.bundle("plain", treated(&[job("i:2")], strategy)).await;
    eventually("it is being deleted", || async {
        let live = world.live(Side::Member, &job("")).await.unwrap();
        live["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    pass_time(60).await;
    let status = world.reported("plain", second, Progressing).await;
    let waiting = &entry(&status, 0).unwrap().conditions[0];
    assert_eq!(waiting.reason, "BeingDeleted", "{waiting:?}");
    let once = job("");
    world
        .merge(Side::Member, &once, json!({"metadata": {"finalizers": null}}))
        .await;
    eventually_with(
        "it is made again",
        || world.live(Side::Member, &once),
        |live| live.as_ref().is_some_and(|live| image(live) == "i:2"),
    )
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn killed_between_delete_and_create_the_next_agent_makes_it() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |method, path| {
        method == http::Method::POST && path.ends_with("/jobs")
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let strategy = json!({"type": "Recreate"});
    // Even the mode that leaves deleted what was deleted.
    let content = |image: &str| {
        let mut content = treated(&[job(image)], strategy.clone());
        content["applyOnce"] = json!("Force");
        content
    };
    let first = world.bundle("plain", content("i:1")).await;
    world.reported("plain", first, Progressing).await;
    world.bundle("plain", content("i:2")).await;
    eventually_with(
        "it is intended anew",
        || world.ledger("plain"),
        |ledger| ledger.as_ref().unwrap()["spec"]["objects"][0]["outcome"] == "Intended",
    )
    .await;
    cut.store(true, Ordering::Release);
    pass_time(20).await;
    agent.kill().await;
    let agent = world.agent();
    let once = job("");
    eventually_with(
        "it is made again",
        || world.live(Side::Member, &once),
        |live| live.as_ref().is_some_and(|live| image(live) == "i:2"),
    )
    .await;
    agent.stop().await;
}
