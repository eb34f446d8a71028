//! The seed's controls.

use crate::{
    agents::Script,
    world::{World, regions, seed},
};
use roundhouse_api::application::{ApplicationPhase, StepPhase};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn suspend_resume_terminate_and_restart_by_the_status() {
    let world = World::five().await;
    world.agents.script("c1", Script::Silent).await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::RunningWorkflow).await;
    world.rest().await;

    world
        .patch_status("app", json!({"workflow": {"suspend": true}}))
        .await;
    let status = world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    assert_eq!(status.workflow.unwrap().steps[0].phase, StepPhase::Suspending);
    world.agents.script("c1", Script::Ready).await;
    world.rest().await;
    assert_eq!(
        world.status("app").await.phase,
        Some(ApplicationPhase::WorkflowSuspending),
        "paused is paused"
    );
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;

    // Restart: the seed's way.
    let before = world.status("app").await.workflow.unwrap();
    world.agents.script("c1", Script::Silent).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world
        .patch_status("app", json!({"phase": "runningWorkflow", "workflow": null}))
        .await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    let after = status.workflow.unwrap();
    assert_ne!(
        after.start_time, before.start_time,
        "a run of its own; what is delivered already is evidence"
    );
    assert_eq!(after.app_revision, before.app_revision);

    // Terminate.
    world.apply("app", regions("nginx:2")).await;
    world
        .until("app", "c1 is waited for", async |world: &World| {
            world
                .status("app")
                .await
                .workflow?
                .message?
                .contains("c1")
                .then_some(())
        })
        .await;
    world.terminate("app").await;
    let status = world
        .until_phase("app", ApplicationPhase::WorkflowTerminated)
        .await;
    let phases: Vec<_> = status.workflow.unwrap().steps.iter().map(|s| s.phase).collect();
    assert_eq!(
        phases,
        [StepPhase::Failed, StepPhase::Skipped, StepPhase::Skipped]
    );
    world.agents.script("c1", Script::Ready).await;
    world.rest().await;
    assert_eq!(
        world.status("app").await.phase,
        Some(ApplicationPhase::WorkflowTerminated)
    );
    // What it dispatched stays, what it did not reach stays.
    let images: Vec<_> = world
        .dispatched("app")
        .await
        .into_values()
        .map(|(_, image)| image)
        .collect();
    assert_eq!(images, ["nginx:2", "nginx:2", "nginx:2", "nginx:1", "nginx:1"]);

    // A new spec starts from the first step.
    world.apply("app", regions("nginx:3")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_also_where_a_step_suspends_the_run_for_a_time() {
    let world = World::five().await;
    let mut timed = regions("nginx:1");
    timed["workflow"]["steps"][1]["properties"] = json!({"duration": "8s"});
    world.apply("app", timed).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world
        .patch_status("app", json!({"workflow": {"suspend": true, "paused": true}}))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    world.rest().await;
    let status = world.status("app").await;
    assert_eq!(status.phase, Some(ApplicationPhase::WorkflowSuspending));
    let east = ["c1", "c2", "c3"];
    assert_eq!(world.dispatched("app").await.keys().collect::<Vec<_>>(), east);
    world
        .patch_status("app", json!({"workflow": {"suspend": false}}))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("app").await.len(), 5);
}
