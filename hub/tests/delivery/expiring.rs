//! C07: hand-written Bundles go some time after they are complete; C07 in the pure table has the other cases.

use crate::{
    agents::Script,
    world::{World, seed},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use roundhouse_api::{application::ApplicationPhase, bundle::Bundle};
use serde_json::{Value, json};
use std::time::Duration;

async fn write(world: &World, name: &str, delete_option: Value) {
    let bundles = bundles(world);
    let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
        "spec": {"workload": {"manifests": []}, "deleteOption": delete_option}});
    let bundle: Bundle = serde_json::from_value(bundle).unwrap();
    bundles.create(&PostParams::default(), &bundle).await.unwrap();
}

/// Plays the agent.
async fn report(world: &World, name: &str, complete: &str) {
    let bundle = bundles(world).get(name).await.unwrap();
    let generation = bundle.metadata.generation;
    let condition = json!({"type": "Complete", "status": complete, "reason": "ConditionRulesAggregated", "message": "",
        "observedGeneration": generation, "lastTransitionTime": world.clock.now()});
    let status = json!({"status": {"observedGeneration": generation, "conditions": [condition]}});
    bundles(world)
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

fn bundles(world: &World) -> Api<Bundle> {
    Api::namespaced(world.client.clone(), "cluster-c1")
}

async fn exists(world: &World, name: &str) -> bool {
    bundles(world).get_opt(name).await.unwrap().is_some()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn c07_a_complete_bundle_goes_after_its_ttl_and_no_other_does() {
    let world = World::new(&[("c1", "east")]).await;
    world.agents.script("c1", Script::Silent).await;
    for (name, option) in [
        ("set", json!({"ttlSecondsAfterFinished": 300})),
        ("unset", json!({"propagationPolicy": "Orphan"})),
        ("incomplete", json!({"ttlSecondsAfterFinished": 0})),
        ("zero", json!({"ttlSecondsAfterFinished": 0})),
    ] {
        write(&world, name, option).await;
        report(&world, name, if name == "incomplete" { "False" } else { "True" }).await;
    }
    pass(5).await;
    assert!(!exists(&world, "zero").await);
    for name in ["set", "unset", "incomplete"] {
        assert!(exists(&world, name).await, "{name}");
    }
    pass(280).await;
    assert!(exists(&world, "set").await, "285 s are not 300 s");
    pass(20).await;
    assert!(!exists(&world, "set").await);
    // What completes later goes later.
    report(&world, "incomplete", "True").await;
    pass(1).await;
    assert!(!exists(&world, "incomplete").await);
    let writes = world.rest().await;
    pass(5000).await;
    assert!(exists(&world, "unset").await);
    assert_eq!(world.rest().await, writes);
}

#[tokio::test(start_paused = true)]
async fn c07_a_bundle_made_again_under_the_name_starts_anew() {
    let world = World::new(&[("c1", "east")]).await;
    world.agents.script("c1", Script::Silent).await;
    for _ in 0..2 {
        write(&world, "job", json!({"ttlSecondsAfterFinished": 100})).await;
        report(&world, "job", "True").await;
        pass(90).await;
        assert!(exists(&world, "job").await);
        pass(20).await;
        assert!(!exists(&world, "job").await);
    }
}

#[tokio::test(start_paused = true)]
async fn c07_a_bundle_of_an_application_stays() {
    let world = World::new(&[("c1", "east"), ("c4", "west")]).await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let bundle = world.bundle("c1", "app").await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"deleteOption": {"ttlSecondsAfterFinished": 0}}}));
    bundles(&world)
        .patch("default.app", &PatchParams::default(), &patch)
        .await
        .unwrap();
    report(&world, "default.app", "True").await;
    pass(100).await;
    let after = world.bundle("c1", "app").await.unwrap();
    assert_eq!(after.metadata.uid, bundle.metadata.uid);
}
