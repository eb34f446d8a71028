//! Bad input: a clear message, and nothing lost.

use crate::world::{World, seed, web};
use roundhouse_api::{
    application::{ApplicationPhase, ApplicationStatus},
    condition,
};
use serde_json::{Value, json};

fn placed(placement: &Value) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": [
        {"type": "deploy", "properties": {"placement": placement}}]}})
}

async fn refused(world: &World, app: &str) -> (ApplicationStatus, String) {
    let status = world.until_phase(app, ApplicationPhase::Rendering).await;
    let accepted = condition::get(&status.conditions, "Accepted").unwrap().clone();
    assert_eq!(
        (accepted.status.as_str(), accepted.reason.as_str()),
        ("False", "Invalid")
    );
    (status, accepted.message)
}

#[tokio::test(start_paused = true)]
async fn is_refused_with_path_and_reason_and_dispatches_nothing() {
    let world = World::five().await;
    let mut unknown_field = seed("nginx:1");
    unknown_field["components"][0]["properties"]["imagee"] = json!("x");
    let mut unknown_type = seed("nginx:1");
    unknown_type["components"][0]["type"] = json!("webservise");
    let cases = [
        (
            "above",
            placed(&json!([{"replicas": "70%"}, {"replicas": "40%"}])),
            "110",
        ),
        (
            "malformed",
            placed(&json!([{"replicas": "70 %"}])),
            "placement[0].replicas",
        ),
        ("type", unknown_type, "webservise"),
        ("field", unknown_field, "imagee"),
    ];
    for (name, spec, part) in cases {
        world.apply(name, spec).await;
        let (_, message) = refused(&world, name).await;
        assert!(message.contains(part), "{name}: {message}");
    }
    world.rest().await;
    for name in ["above", "malformed", "type", "field"] {
        assert!(world.dispatched(name).await.is_empty(), "{name}");
        assert!(world.decision(&format!("{name}-step-0")).await.is_none());
    }
    // Put right, it is delivered.
    world.apply("field", seed("nginx:1")).await;
    world.until_phase("field", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn leaves_what_is_running_alone() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    let before = world.until_phase("app", ApplicationPhase::Running).await;
    let dispatched = world.dispatched("app").await;
    let mut broken = seed("nginx:2");
    broken["workflow"]["steps"][0]["type"] = json!("teleport");
    world.apply("app", broken).await;
    let (status, message) = refused(&world, "app").await;
    assert!(
        message.contains("spec.workflow.steps[0]") && message.contains("teleport"),
        "{message}"
    );
    world.rest().await;
    assert_eq!(world.dispatched("app").await, dispatched);
    assert_eq!(status.workflow, before.workflow);
    // Taking the mistake back is a new spec, though with the old content: a new run, and no bundle is written.
    let bundle = world.bundle("c1", "app").await.unwrap();
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(
        world.bundle("c1", "app").await.unwrap().metadata.resource_version,
        bundle.metadata.resource_version
    );
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_matches_nothing_waits_and_says_so() {
    let world = World::five().await;
    world
        .apply(
            "app",
            placed(&json!([{"clusterSelector": {"region": "mars"}, "replicas": "100%"}])),
        )
        .await;
    let status = world
        .until("app", "a message", async |world: &World| {
            let status = world.status("app").await;
            status.workflow.as_ref()?.message.as_ref()?;
            Some(status)
        })
        .await;
    let message = status.workflow.unwrap().message.unwrap();
    assert!(
        message.contains("no cluster is chosen") && message.contains("mars"),
        "{message}"
    );
    assert!(!condition::is_true(&status.conditions, "Placed"));
    world.rest().await;
    assert_eq!(
        world.status("app").await.phase,
        Some(ApplicationPhase::RunningWorkflow)
    );
    // A cluster may join.
    world.join("rover", &[("region", "mars")]).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.replicas("app").await["rover"], 10);
}

#[tokio::test(start_paused = true)]
async fn an_application_that_fails_does_not_hold_up_others() {
    let world = World::five().await;
    let mut big = seed("nginx:1");
    big["components"] = json!([{"name": "big", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x".repeat(1_100_000)}}]}}]);
    world.apply("big", big).await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let (_, message) = refused(&world, "big").await;
    assert!(
        message.contains("objects[0]") && message.contains("1048576"),
        "{message}"
    );
    assert!(world.dispatched("big").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_decision_of_another_application_is_not_overwritten() {
    let world = World::five().await;
    let named = |step: &str| {
        json!({"components": web("nginx:1"), "workflow": {"steps": [
            {"name": step, "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}})
    };
    world.apply("a-b", named("c")).await;
    world.until_phase("a-b", ApplicationPhase::Running).await;
    world.apply("a", named("b-c")).await;
    let status = world.until_phase("a", ApplicationPhase::WorkflowFailed).await;
    let message = status.workflow.unwrap().steps[0].message.clone().unwrap();
    assert!(
        message.contains("Decision a-b-c") && message.contains("belongs to application a-b"),
        "{message}"
    );
    assert_eq!(
        world.decision("a-b-c").await.unwrap().spec.application_ref.name,
        "a-b"
    );
    assert!(world.dispatched("a").await.is_empty());
}
