//! What an application tells in Events.

use crate::world::{World, regions, seed};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use roundhouse_api::application::ApplicationPhase;
use serde_json::json;
use std::time::Duration;

/// The Events of an application, as kubectl describe selects them.
async fn events(world: &World, app: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let uid = world.applications().get(app).await.unwrap().metadata.uid.unwrap();
    let fields = format!(
        "involvedObject.kind=Application,involvedObject.name={app},involvedObject.namespace=default,involvedObject.uid={uid}"
    );
    api.list(&ListParams::default().fields(&fields))
        .await
        .unwrap()
        .items
}

/// `Type Reason count`, sorted; whom a step waits for depends on who reports first.
async fn told(world: &World, app: &str) -> Vec<String> {
    let line = |event: &Event| {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!(
            "{} {} {}: {}",
            text(&event.type_),
            text(&event.reason),
            event.count.unwrap_or_default(),
            text(&event.message)
        )
    };
    let events = events(world, app).await;
    let mut lines: Vec<_> = events
        .iter()
        .map(line)
        .filter(|line| !line.contains("StepWaiting"))
        .collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn a_delivery_tells_its_story_once_and_then_is_silent() {
    let world = World::five().await;
    world.deliver_approved("app", regions("nginx:1")).await;
    world.rest().await;
    let story = told(&world, "app").await;
    let suspended = story.iter().filter(|line| line.contains("Suspended")).count();
    assert_eq!(suspended, 1, "{story:#?}");
    let others: Vec<_> = story.iter().filter(|line| !line.contains("Suspended")).collect();
    assert_eq!(
        others,
        [
            "Normal Accepted 1: the spec was understood",
            "Normal Resumed 1: the run of app-v1 goes on",
            "Normal RunStarted 1: delivering app-v1 in 3 steps",
            "Normal RunSucceeded 1: app-v1 was delivered",
            "Normal StepStarted 1: step east started",
            "Normal StepStarted 1: step west started",
            "Normal StepSucceeded 1: step approve succeeded",
            "Normal StepSucceeded 1: step east succeeded",
            "Normal StepSucceeded 1: step west succeeded",
        ]
    );
    let before = world.rest().await;
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    assert_eq!(world.rest().await, before, "a steady state tells nothing");

    // The same again is the same events, counted.
    world
        .patch_status("app", json!({"phase": "runningWorkflow", "workflow": null}))
        .await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    let story = told(&world, "app").await;
    assert!(
        story.contains(&"Normal RunStarted 2: delivering app-v1 in 3 steps".to_owned()),
        "{story:#?}"
    );
    assert!(
        story.contains(&"Normal Accepted 1: the spec was understood".to_owned()),
        "{story:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_and_what_is_held_are_warnings() {
    let world = World::five().await;
    world.apply("app", json!({"components": [], "polices": []})).await;
    world
        .until("app", "the refusal is told", async |world: &World| {
            let told = told(world, "app").await;
            told.iter()
                .any(|line| line.starts_with("Warning Refused 1: ") && line.contains("polices"))
                .then_some(())
        })
        .await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let one = json!({"components": crate::world::web("nginx:1"), "workflow": {"steps": [
        {"name": "one", "type": "deploy", "properties": {"placement": [{"clusters": ["c1"], "replicas": "100%"}]}}]}});
    world.apply("app", one).await;
    world
        .until("app", "held removals are told", async |world: &World| {
            let told = told(world, "app").await;
            told.iter()
                .any(|line| line.starts_with("Warning DeletesHeld 1: 4 clusters would lose default/app"))
                .then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_hub_goes_on_counting() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    world.rest().await;
    world
        .patch_status("app", json!({"phase": "runningWorkflow", "workflow": null}))
        .await;
    world
        .until("app", "the second run is told", async |world: &World| {
            let told = told(world, "app").await;
            told.contains(&"Normal RunSucceeded 2: app-v1 was delivered".to_owned())
                .then_some(())
        })
        .await;
}
