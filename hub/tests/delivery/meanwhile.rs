//! What a user does while the hub waits for an answer.

use crate::{
    agents::Script,
    world::{World, region, seed, web},
};
use roundhouse_api::{application::ApplicationPhase, condition};
use serde_json::json;
use std::time::Duration;

/// How long each answer takes: the watch is quicker.
const LATE: Duration = Duration::from_millis(300);
/// More statuses than a hub writes for a rollout of the seed.
const STATUSES: usize = 8;

const STATUS: &str = "/applications/app/status";

/// Waits until request number `at` is answered, and the hub does not know it yet; or for a while. How many were answered.
async fn until_answered(world: &World, at: usize) -> usize {
    for _ in 0..100 {
        tokio::time::sleep(LATE / 10).await;
        if world.asked.delayed() > at {
            break;
        }
    }
    world.asked.delayed()
}

/// The seed on its way, where a status is written, and which one of them.
async fn on_its_way(path: &'static str, at: usize) -> (World, usize) {
    let world = World::five().await;
    world.asked.delay(path, LATE);
    world.apply("app", seed("nginx:1")).await;
    let written = until_answered(&world, at).await;
    (world, written)
}

/// The spec that counts is the user's, whichever status was on its way, and no status says of it what was true of the one before.
#[tokio::test(start_paused = true)]
async fn a_spec_that_is_changed_before_an_answer_is_delivered_and_judged_by_itself() {
    let mut most = 0;
    for at in 0..STATUSES {
        let (world, written) = on_its_way(STATUS, at).await;
        most = most.max(written);
        world.apply("app", seed("nginx:2")).await;
        let generation = world.applications().get("app").await.unwrap().metadata.generation;
        let first = world
            .until("app", "a status of the new spec", async |world: &World| {
                let status = world.status("app").await;
                (status.observed_generation == generation).then_some(status)
            })
            .await;
        let run = first.workflow.as_ref().and_then(|run| run.generation);
        assert!(run.is_none() || run == generation, "{at}: {first:?}");
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(world.images("app").await, ["nginx:2"], "{at}");
    }
    assert!((3..STATUSES).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn an_application_that_is_deleted_before_an_answer_goes() {
    for at in 0..STATUSES {
        let (world, _) = on_its_way(STATUS, at).await;
        world.delete("app").await;
        world.until_gone("app").await;
        assert_eq!(world.dispatched("app").await, [].into(), "{at}");
    }
}

/// Nothing was on its way to anybody: what it is held by was only being put on.
#[tokio::test(start_paused = true)]
async fn an_application_that_is_deleted_before_it_is_held_is_not_delivered() {
    let (world, answered) = on_its_way("/applications/app", 0).await;
    assert_eq!(answered, 1);
    world.delete("app").await;
    world.until_gone("app").await;
    let asked = world.asked.take();
    let made = |line: &&String| line.starts_with("POST") && line.ends_with("/bundles");
    assert_eq!(asked.iter().find(made), None);
}

/// A command that was accepted is not undone by a step that rolls back: its pass did not know it.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_terminated_while_it_is_about_to_roll_back_stays_terminated() {
    let world = World::five().await;
    world
        .apply(
            "app",
            json!({"components": web("nginx:1"), "workflow": {"steps": [region("east", "east", "100%")]}}),
        )
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c1", Script::Failed).await;
    let mut east = region("east", "east", "100%");
    east["properties"]["maxFailedClusters"] = json!(0);
    let back = json!({"name": "back", "type": "rollback", "if": "status.east.failed"});
    world.asked.delay("/applicationrevisions/app-v1", LATE);
    world
        .apply(
            "app",
            json!({"components": web("nginx:2"), "workflow": {"steps": [east, back]}}),
        )
        .await;
    assert!(until_answered(&world, 0).await > 0);
    world.terminate("app").await;
    world
        .until_phase("app", ApplicationPhase::WorkflowTerminated)
        .await;
    world.rest().await;
    let app = world.applications().get("app").await.unwrap();
    assert_eq!(app.metadata.generation, Some(2));
    assert_eq!(app.data["spec"]["components"], web("nginx:2"));
}

/// Waits until the status says that what is wanted is not recorded, and why.
async fn until_not_recorded(world: &World, (observed, generation): (Option<i64>, Option<i64>)) {
    world
        .until("app", "it says why", async |world: &World| {
            let status = world.status("app").await;
            assert_eq!(status.observed_generation, observed, "{status:?}");
            let delivered = condition::get(&status.conditions, "Delivered")?;
            let says = delivered.reason == "NotRecorded" && delivered.observed_generation == generation;
            (says && delivered.message.contains("exceeded quota")).then_some(())
        })
        .await;
}

/// Nothing begins without the finalizer, and before anything has begun there is a reason to be seen.
#[tokio::test(start_paused = true)]
async fn an_application_that_cannot_be_held_says_so() {
    let world = World::five().await;
    world.asked.refuse(Some(
        "PATCH /apis/core.oam.dev/v1beta1/namespaces/default/applications/app",
    ));
    world.apply("app", seed("nginx:1")).await;
    until_not_recorded(&world, (None, Some(1))).await;
    world.asked.refuse(None);
    world.until_phase("app", ApplicationPhase::Running).await;
}

/// A refusal of the spec before stands as long as nothing is known of the next one.
#[tokio::test(start_paused = true)]
async fn what_follows_a_refusal_and_cannot_be_recorded_says_so() {
    let world = World::five().await;
    world
        .apply("app", json!({"components": [], "surprise": true}))
        .await;
    world.until_phase("app", ApplicationPhase::Rendering).await;
    world.asked.refuse(Some(
        "POST /apis/core.oam.dev/v1beta1/namespaces/default/applicationrevisions",
    ));
    world.apply("app", seed("nginx:1")).await;
    until_not_recorded(&world, (Some(1), Some(2))).await;
    let status = world.status("app").await;
    let accepted = condition::get(&status.conditions, "Accepted").unwrap();
    assert_eq!(
        (accepted.status.as_str(), accepted.observed_generation),
        ("False", Some(1))
    );
    world.asked.refuse(None);
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert!(condition::is_true(&status.conditions, "Accepted"));
}

/// What cannot be recorded has no run, and how the run before it went is not said of it.
#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_recorded_is_not_said_to_be_delivered() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let records = "POST /apis/core.oam.dev/v1beta1/namespaces/default/applicationrevisions";
    world.asked.refuse(Some(records));
    world.apply("app", seed("nginx:2")).await;
    until_not_recorded(&world, (Some(1), Some(2))).await;
    assert_eq!(world.images("app").await, ["nginx:1"]);
    world.asked.refuse(None);
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["nginx:2"]);
}
