//! Steps pass on their own evidence only.

use crate::{
    agents::Script,
    world::{World, regions, seed},
};
use roundhouse_api::application::{ApplicationPhase, StepPhase};

#[tokio::test(start_paused = true)]
async fn an_old_report_never_satisfies_a_new_wait_also_from_a_to_b_to_a() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:a")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let first = world.bundle("c1", "app").await.unwrap();
    world.agents.script("c1", Script::Silent).await;

    world.apply("app", seed("nginx:b")).await;
    world
        .until("app", "b on c1", async |world: &World| {
            (world.dispatched("app").await["c1"].1 == "nginx:b").then_some(())
        })
        .await;
    world.apply("app", seed("nginx:a")).await;
    world
        .until("app", "a on c1", async |world: &World| {
            (world.dispatched("app").await["c1"].1 == "nginx:a").then_some(())
        })
        .await;
    world.rest().await;
    // The report of the first time is still there, with the very hash that is wanted now.
    let now = world.bundle("c1", "app").await.unwrap();
    assert_eq!(now.spec.hash, first.spec.hash);
    assert_eq!(now.status, first.status);
    let status = world.status("app").await;
    assert_eq!(status.phase, Some(ApplicationPhase::RunningWorkflow));
    let message = status.workflow.unwrap().message.unwrap();
    assert_eq!(
        message,
        "waiting for 1 of 5 clusters: c1 (the agent has not reported on this content)"
    );

    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_names_the_clusters() {
    let world = World::five_on_any_server().await;
    world.agents.script("c4", Script::Silent).await;
    world.agents.script("c5", Script::Applied).await;
    world.agents.script("c1", Script::Failed).await;
    world.available("c4", false).await;
    world.apply("app", regions("nginx:1")).await;
    world.agents.script("c1", Script::Ready).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    // c4 was out of reach before anything was placed: it gets nothing, and what it would have got has no place.
    let status = world
        .until("app", "west waits", async |world: &World| {
            let status = world.status("app").await;
            status
                .workflow
                .as_ref()?
                .message
                .as_ref()?
                .contains("c5")
                .then_some(status)
        })
        .await;
    let message = status.workflow.unwrap().message.unwrap();
    assert!(message.contains("c5 (2/3 ready)"), "{message}");
    world.rest().await;
    assert_eq!(
        world.status("app").await.phase,
        Some(ApplicationPhase::RunningWorkflow)
    );
    world.agents.script("c5", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_makes_the_step_wait_gets_the_revision_and_loses_nothing() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let replicas = world.replicas("app").await;
    world.agents.script("c4", Script::Silent).await;
    world.available("c4", false).await;
    let status = world.until_phase("app", ApplicationPhase::Unhealthy).await;
    let delivery = status.delivery.unwrap();
    assert_eq!(delivery.clusters_ready, "4/5");
    assert_eq!(
        (
            delivery.not_ready[0].cluster.as_str(),
            delivery.not_ready[0].phase.as_str()
        ),
        ("c4", "Unreachable")
    );

    world.apply("app", seed("nginx:2")).await;
    let status = world
        .until("app", "the message", async |world: &World| {
            let status = world.status("app").await;
            status
                .workflow
                .as_ref()?
                .message
                .as_ref()?
                .contains("1 of 5")
                .then_some(status)
        })
        .await;
    let message = status.workflow.unwrap().message.unwrap();
    assert!(
        message.starts_with("waiting for 1 of 5 clusters: c4 (agent unreachable since 2026-01-01T"),
        "{message}"
    );
    world.rest().await;
    assert_eq!(world.replicas("app").await, replicas, "nothing moved");
    assert_eq!(
        world.dispatched("app").await["c4"].1,
        "nginx:2",
        "it gets the revision when it returns"
    );
    assert_eq!(
        world.status("app").await.workflow.unwrap().steps[0].phase,
        StepPhase::Running
    );

    world.agents.script("c4", Script::Ready).await;
    world.available("c4", true).await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_report_wakes_the_step_at_once() {
    let world = World::five().await;
    world.agents.script("c1", Script::Applied).await;
    world.apply("app", seed("nginx:1")).await;
    world.rest().await;
    // Far into the back-off: the next look by the clock is up to a minute away.
    tokio::time::sleep(std::time::Duration::from_secs(1000)).await;
    let before = tokio::time::Instant::now();
    world.agents.script("c1", Script::Ready).await;
    while world.status("app").await.phase != Some(ApplicationPhase::Running) {
        assert!(before.elapsed().as_millis() < 100, "it waits for the clock");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_whose_deadline_is_exceeded_shows_in_the_application_with_its_reason() {
    let world = World::five_on_any_server().await;
    world.agents.script("c1", Script::Failed).await;
    world.apply("app", regions("nginx:1")).await;
    let says = "Deployment default/web: Failed: ProgressDeadlineExceeded: ReplicaSet web-1 has timed out";
    let status = world
        .until("app", "the failure shows", async |world: &World| {
            let status = world.status("app").await;
            let delivery = status.delivery.as_ref()?;
            let failed = delivery
                .not_ready
                .iter()
                .find(|c| c.cluster == "c1" && c.phase == "Failed")?;
            failed.message.contains(says).then_some(status)
        })
        .await;
    // A failed cluster neither passes nor ends the step: it may recover, and the step says whom it waits for.
    assert_eq!(status.phase, Some(ApplicationPhase::RunningWorkflow));
    let message = status.workflow.unwrap().message.unwrap();
    assert!(
        message.contains("c1 (1/2 objects failed: Deployment default/web"),
        "{message}"
    );
    world.agents.script("c1", Script::Ready).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
}
