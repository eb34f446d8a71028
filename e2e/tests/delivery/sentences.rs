//! What users read about workflows, one test per sentence, the hub killed and started again in the middle of each.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase, WorkflowStatus},
    bundle::ApplyOnce,
};
use roundhouse_e2e::world::{World, eventually, image};
use serde_json::{Value, json};
use std::time::Duration;

const DATABASE: &str = include_str!("../../samples/workflows/database.yaml");

/// All clusters of a region.
fn region(name: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": name}}]}})
}

fn spec(image: &str, steps: &Value) -> Value {
    json!({
        "components": [{"name": "shop", "type": "worker", "properties": {"image": image, "replicas": 1}}],
        "workflow": {"steps": steps}})
}

/// An application that is delivered everywhere; then agents stop, and the next content comes.
async fn next_with_stopped(world: &mut World, stopped: &[&str], steps: &Value) -> Result<()> {
    let first = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": spec("nginx:1.28", &json!([{"type": "deploy", "properties": {"placement": [{}]}}]))});
    world.create_value(&first).await?;
    world.delivered("shop", "shop-v1").await?;
    for agent in stopped {
        world.fleet.stop_agent(agent).await?;
    }
    for agent in stopped {
        world.until_available(agent, false).await?;
    }
    let next = json!([{"op": "replace", "path": "/spec", "value": spec("nginx:1.29", steps)}]);
    world.edit("shop", next).await
}

/// The hub is killed, and another one starts.
async fn kill(world: &mut World) {
    world.fleet.stop_hub().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.fleet.start_hub();
    tokio::time::sleep(Duration::from_secs(5)).await;
}

async fn run(world: &World) -> Result<WorkflowStatus> {
    world.status("shop").await?.workflow.context("no run")
}

async fn until_step(world: &World, step: &str, phase: StepPhase) -> Result<()> {
    eventually(&format!("step {step} to be {phase:?}"), async || {
        let run = run(world).await?;
        let is = run.step(step).map(|step| step.phase);
        let of_the_next = run.app_revision.as_deref() == Some("shop-v2");
        Ok(if is == Some(phase) && of_the_next {
            Ok(())
        } else {
            Err(run)
        })
    })
    .await
}

async fn has(world: &World, member: &str, wanted: &str) -> Result<()> {
    eventually(&format!("{member} to have {wanted}"), async || {
        let found = image(&world.deployment(member, "shop").await?, "shop");
        Ok(if found.as_deref() == Some(wanted) {
            Ok(())
        } else {
            Err(found)
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_until_90_percent_of_its_clusters_are_ready() -> Result<()> {
    let names: Vec<String> = (0..10).map(|n| format!("east-{n}")).collect();
    let members: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "east")).collect();
    let mut world = World::start(&members, ApplyOnce::Never).await?;
    let mut step = region("east");
    step["properties"]["wait"] = json!({"until": {"ready": "90%"}});
    let steps = json!([step, {"name": "look", "type": "suspend"}]);
    next_with_stopped(&mut world, &["east-8", "east-9"], &steps).await?;
    let says = "waiting until 90% of the clusters are ready: 8 of 10 are";
    world.says("shop", says).await?;
    kill(&mut world).await;
    world.says("shop", says).await?;
    ensure!(run(&world).await?.step("east").context("east")?.phase == StepPhase::Running);
    world.fleet.start_agent("east-8")?;
    until_step(&world, "look", StepPhase::Suspending).await?;
    // The tenth is still away.
    ensure!(image(&world.deployment("east-9", "shop").await?, "shop").as_deref() == Some("nginx:1.28"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_step_that_always_runs_runs_after_a_failure() -> Result<()> {
    let mut world = World::five().await?;
    let mut west = region("west");
    west["if"] = json!("always");
    let mut skipped = region("east");
    skipped["name"] = json!("east-again");
    let steps = json!([region("east"), {"name": "broken", "type": "fail"}, skipped, west]);
    next_with_stopped(&mut world, &["west-1"], &steps).await?;
    until_step(&world, "west", StepPhase::Running).await?;
    kill(&mut world).await;
    until_step(&world, "west", StepPhase::Running).await?;
    world.fleet.start_agent("west-1")?;
    until_step(&world, "west", StepPhase::Succeeded).await?;
    for member in ["east-1", "west-1"] {
        has(&world, member, "nginx:1.29").await?;
    }
    eventually("the run to have failed", async || {
        let status = world.status("shop").await?;
        Ok(if status.phase == Some(ApplicationPhase::WorkflowFailed) {
            Ok(())
        } else {
            Err(status)
        })
    })
    .await?;
    until_step(&world, "east-again", StepPhase::Skipped).await
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_group_run_in_parallel() -> Result<()> {
    let mut world = World::five().await?;
    let steps = json!([{"name": "both", "type": "step-group", "subSteps": [region("east"), region("west")]}]);
    next_with_stopped(&mut world, &["east-1", "west-1"], &steps).await?;
    // Neither is done, and both are under way.
    for member in ["east-2", "west-2"] {
        has(&world, member, "nginx:1.29").await?;
    }
    kill(&mut world).await;
    for step in ["both", "east", "west"] {
        until_step(&world, step, StepPhase::Running).await?;
    }
    world.fleet.start_agent("west-1")?;
    until_step(&world, "west", StepPhase::Succeeded).await?;
    ensure!(run(&world).await?.step("east").context("east")?.phase == StepPhase::Running);
    world.fleet.start_agent("east-1")?;
    world.delivered("shop", "shop-v2").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_suspended_for_a_duration_and_goes_on_by_itself() -> Result<()> {
    let mut world = World::five().await?;
    // Where time is not paused the test has to end, too.
    let seconds: u64 = if world.is_real() { 20 } else { 900 };
    let nap = json!({"name": "nap", "type": "suspend", "properties": {"duration": format!("{seconds}s")}});
    next_with_stopped(&mut world, &[], &json!([region("east"), nap, region("west")])).await?;
    until_step(&world, "nap", StepPhase::Suspending).await?;
    let start = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds / 2)).await;
    kill(&mut world).await;
    ensure!(run(&world).await?.step("nap").context("nap")?.phase == StepPhase::Suspending);
    has(&world, "west-1", "nginx:1.28").await?;
    world.delivered("shop", "shop-v2").await?;
    let took = start.elapsed().as_secs();
    ensure!((seconds - 1..seconds + 60).contains(&took), "{took} s");
    has(&world, "west-1", "nginx:1.29").await
}

fn databases() -> Result<CustomResourceDefinition> {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "mysqlinstances.database.example.org"},
        "spec": {"group": "database.example.org", "scope": "Namespaced",
            "names": {"kind": "MySQLInstance", "plural": "mysqlinstances"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}}}]}}))?)
}

#[tokio::test(start_paused = true)]
async fn data_of_one_components_live_status_gets_into_anothers_manifest() -> Result<()> {
    let members = [("east-1", "east"), ("east-2", "east"), ("west-1", "west")];
    let mut world = World::start(&members, ApplyOnce::Never).await?;
    for member in ["east-1", "east-2"] {
        let definitions: Api<CustomResourceDefinition> = Api::all(world.fleet.member_client(member)?);
        definitions.create(&PostParams::default(), &databases()?).await?;
    }
    world.create(DATABASE).await?;
    world
        .says(
            "shop",
            "waiting for output \"connSecret\": no value from east-1, east-2",
        )
        .await?;
    kill(&mut world).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "database.example.org",
        "v1alpha1",
        "MySQLInstance",
    ));
    for (member, says) in [("east-1", "no value from east-2"), ("east-2", "")] {
        let client = world.fleet.member_client(member)?;
        let databases: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
        let status = Patch::Merge(json!({"status": {"connSecret": "my-db-conn"}}));
        databases
            .patch_status("my-db", &PatchParams::default(), &status)
            .await?;
        world.says("shop", says).await?;
    }
    world.delivered("shop", "shop-v1").await?;
    for member in ["east-1", "east-2"] {
        let deployment = world.deployment(member, "my-app").await?;
        let pod = deployment.spec.context("spec")?.template.spec.context("pod")?;
        let from = pod.containers[0].env_from.clone().context("envFrom")?;
        let secret = from[0].secret_ref.clone().context("secretRef")?;
        ensure!(secret.name == "my-db-conn", "{member}: {secret:?}");
    }
    Ok(())
}
