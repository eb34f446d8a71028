//! What a user does while the hub has not heard yet that its status was written.

use crate::world::{World, seed};
use roundhouse_api::application::ApplicationPhase;
use std::time::Duration;

/// How long each answer takes: the watch is quicker.
const LATE: Duration = Duration::from_millis(300);
/// More statuses than a hub writes for a rollout of the seed.
const STATUSES: usize = 8;

/// The seed on its way: status number `at` is written, and the hub does not know it yet; or it has written all of them. How many
/// those are.
async fn on_its_way(at: usize) -> (World, usize) {
    let mut world = World::five().await;
    world.stop_hub().await;
    world.asked.delay("/applications/app/status", LATE);
    world.start_hub();
    world.apply("app", seed("nginx:1")).await;
    for _ in 0..100 {
        tokio::time::sleep(LATE / 10).await;
        if world.asked.delayed() > at {
            break;
        }
    }
    let written = world.asked.delayed();
    (world, written)
}

/// The spec that counts is the user's, whichever status was on its way, and no status says of it what was true of the one before.
#[tokio::test(start_paused = true)]
async fn a_spec_that_is_changed_before_an_answer_is_delivered_and_judged_by_itself() {
    let mut most = 0;
    for at in 0..STATUSES {
        let (world, written) = on_its_way(at).await;
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
        let (world, _) = on_its_way(at).await;
        world.delete("app").await;
        world
            .until("app", "it is gone", async |world: &World| {
                let app = world.applications().get_opt("app").await.unwrap();
                app.is_none().then_some(())
            })
            .await;
        assert_eq!(world.dispatched("app").await, [].into(), "{at}");
    }
}
