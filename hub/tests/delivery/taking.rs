//! Steps that take an object away from clusters again.

use crate::{
    agents::Script,
    objects::{FLAGS, app, clusters_of, east, flags, named, object, until_on, until_says},
    world::World,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase},
    bundle::Bundle,
    cluster::Cluster,
    condition,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Takes the flags away.
pub(crate) fn take(clusters: &Value) -> Value {
    json!({"name": "away", "type": "delete-object",
        "properties": {"clusters": clusters, "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}})
}

fn in_the_east() -> Value {
    flags(&json!({"region": "east"}), "1")
}

fn ask() -> Value {
    json!({"name": "ask", "type": "suspend"})
}

async fn phase_of(world: &World, step: &str) -> StepPhase {
    let workflow = world.status("app").await.workflow.unwrap();
    workflow.step(step).unwrap().phase
}

/// Somebody takes a Bundle away by force.
async fn force_away(world: &World, cluster: &str) {
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), &format!("cluster-{cluster}"));
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bundles
        .patch(FLAGS, &PatchParams::default(), &patch)
        .await
        .unwrap();
    // One that was deleted goes with its finalizers.
    let _ = bundles.delete(FLAGS, &Default::default()).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_goes_from_the_clusters_that_are_named_outside_of_the_delete_budget_and_stays_away() {
    let world = World::five_on_any_server().await;
    world
        .apply("app", app(&[in_the_east(), take(&json!(["c1", "c2"])), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // Two of three clusters: a budget would ask for that.
    assert_eq!(clusters_of(&world, FLAGS).await, ["c3"]);
    let status = world.status("app").await;
    assert!(condition::get(&status.conditions, "DeletesHeld").is_none_or(|c| c.status == "False"));
    assert_eq!(status.removals, None, "nothing counts against the budget");
    let before = world.rest().await;
    world.long_while(Duration::from_secs(600)).await;
    assert_eq!(
        world.rest().await,
        before,
        "nothing is brought back, and nothing written"
    );

    // What follows the fleet keeps away from the clusters that the step names.
    world.join("c6", &[("region", "east")]).await;
    until_on(&world, FLAGS, &["c3", "c6"]).await;
    world.label_cluster("c1", json!({"tier": "gold"})).await;
    world.rest().await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c3", "c6"]);

    // A new revision applies it anew and takes it away again; one without the step leaves it there.
    let mut changed = in_the_east();
    changed["properties"]["value"]["data"]["a"] = json!("2");
    world
        .apply(
            "app",
            app(&[changed.clone(), ask(), take(&json!(["c1", "c2"])), east()]),
        )
        .await;
    world.until_step("ask", StepPhase::Suspending).await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c1", "c2", "c3", "c6"]);
    assert_eq!(
        object(named(&world, FLAGS).await.get("c1").unwrap())["data"],
        json!({"a": "2"})
    );
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c3", "c6"]);
    world.apply("app", app(&[changed, east()])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3", "c6"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_everywhere_leaves_the_application_healthy() {
    let world = World::five_on_any_server().await;
    world
        .apply("app", app(&[in_the_east(), take(&json!({})), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &[]).await;
    assert_eq!(world.replicas("app").await.len(), 3, "the application stays");
    world.delete("app").await;
    world.until_gone("app").await;
}

#[tokio::test(start_paused = true)]
async fn every_cluster_reports_that_it_is_gone_and_what_one_has_said_outlives_the_hub() {
    let mut world = World::five_on_any_server().await;
    let steps = [in_the_east(), ask(), take(&json!({"region": "east"})), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c2", Script::Silent).await;
    world.available("c2", false).await;
    world.resume("app").await;
    until_says(&world, "waiting for 1 of 3 clusters: c2 (agent unreachable since").await;
    // What c1 and c3 have reported stays for as long as it is needed.
    let held = named(&world, FLAGS).await;
    assert_eq!(held.len(), 3);
    let deletion = held["c1"].spec.deletion.clone().unwrap();
    assert_eq!(deletion.confirmed_by, "step away");
    assert!(held["c1"].metadata.deletion_timestamp.is_some());
    world.stop_hub().await;
    world.start_hub();
    world.rest().await;
    assert_eq!(phase_of(&world, "away").await, StepPhase::Running);
    assert!(world.replicas("app").await.is_empty());
    world.available("c2", true).await;
    world.agents.script("c2", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn absence_is_no_report() {
    let world = World::five_on_any_server().await;
    let steps = [in_the_east(), ask(), take(&json!({"region": "east"})), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    for cluster in ["c1", "c2"] {
        world.agents.script(cluster, Script::Silent).await;
    }
    world.resume("app").await;
    until_says(&world, "waiting for 2 of 3 clusters: c1").await;
    // c1 is there: its agent is asked. c2 is not, and nobody knows.
    world.available("c2", false).await;
    until_says(&world, "c2 (agent unreachable since").await;
    let before = named(&world, FLAGS).await;
    for cluster in ["c1", "c2"] {
        force_away(&world, cluster).await;
    }
    let asked = async |world: &World| {
        let bundle = named(world, FLAGS).await.remove("c1")?;
        (bundle.uid() != before["c1"].uid() && bundle.metadata.deletion_timestamp.is_some()).then_some(bundle)
    };
    let bundle = world.until("app", "c1 is asked", asked).await;
    assert!(bundle.spec.workload.manifests.is_empty() && bundle.spec.deletion.is_some());
    world.rest().await;
    assert_eq!(phase_of(&world, "away").await, StepPhase::Running);
    world.agents.script("c1", Script::Ready).await;
    world.rest().await;
    assert_eq!(phase_of(&world, "away").await, StepPhase::Running);
    let message = world.status("app").await.workflow.unwrap().message.unwrap();
    assert!(
        message.contains("c2 (") || message.contains("flags vanished from c2 "),
        "{message}"
    );
    world.agents.script("c2", Script::Ready).await;
    world.available("c2", true).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_from_the_step_has_every_cluster_report_anew() {
    let world = World::five_on_any_server().await;
    world
        .apply("app", app(&[in_the_east(), take(&json!(["c1"])), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c2", "c3"]).await;
    world.agents.script("c1", Script::Silent).await;
    world
        .patch_status("app", json!({"workflow": {"restartFrom": "away"}}))
        .await;
    until_says(
        &world,
        "waiting for 1 of 1 clusters: c1 (its agent has not reported",
    )
    .await;
    let asked = named(&world, FLAGS).await.remove("c1").unwrap();
    assert!(
        asked.spec.workload.manifests.is_empty(),
        "the object is not applied anew"
    );
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c2", "c3"]).await;
    // From the step that applies, both run again.
    world
        .patch_status("app", json!({"workflow": {"restartFrom": "flags"}}))
        .await;
    let restarted = async |world: &World| {
        let workflow = world.status("app").await.workflow?;
        (workflow.finished && workflow.restart_from.is_none()).then_some(())
    };
    world.until("app", "it has run again", restarted).await;
    until_on(&world, FLAGS, &["c2", "c3"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_earlier_revision_brings_the_object_back() {
    let world = World::five_on_any_server().await;
    world.apply("app", app(&[in_the_east(), east()])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let back = json!({"name": "back", "type": "rollback", "properties": {"to": "app-v1"}});
    world
        .apply("app", app(&[in_the_east(), take(&json!({})), back, east()]))
        .await;
    let returned = async |world: &World| {
        let status = world.status("app").await;
        (status.phase == Some(ApplicationPhase::Running)
            && status.delivered_revision? == "app-v1"
            && status.latest_revision?.name == "app-v1")
            .then_some(())
    };
    world.until("app", "it went back", returned).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_ends_in_the_middle_takes_no_more_away() {
    let world = World::five_on_any_server().await;
    let mut away = take(&json!({"region": "east"}));
    away["properties"]["maxParallel"] = json!(1);
    world
        .apply("app", app(&[in_the_east(), ask(), away, east()]))
        .await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c2", Script::Silent).await;
    world.resume("app").await;
    until_says(&world, "waits for its turn").await;
    world.rest().await;
    let held = named(&world, FLAGS).await;
    let going: Vec<bool> = held
        .values()
        .map(|b| b.metadata.deletion_timestamp.is_some())
        .collect();
    assert_eq!(going, [true, true, false], "one after the other");
    world.terminate("app").await;
    world
        .until_phase("app", ApplicationPhase::WorkflowTerminated)
        .await;
    // What was reported is needed no more; c2 has not reported, and c3 keeps the object.
    until_on(&world, FLAGS, &["c2", "c3"]).await;
    world.agents.script("c2", Script::Ready).await;
    until_on(&world, FLAGS, &["c3"]).await;
    world
        .patch_status("app", json!({"workflow": {"restartFrom": "flags"}}))
        .await;
    world.until_step("ask", StepPhase::Suspending).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3"]).await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_is_applied_in_few_clusters_at_a_time_and_where_taints_are_tolerated() {
    let world = World::five_on_any_server().await;
    let taint = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
    world.taint_cluster("c3", taint).await;
    world.agents.script("c1", Script::Applied).await;
    let mut step = in_the_east();
    step["properties"]["maxParallel"] = json!(1);
    world.apply("app", app(&[step.clone(), east()])).await;
    until_says(&world, "waiting for 2 of 2 clusters: c1").await;
    world.rest().await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c1"]);
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c1", "c2"]);
    step["properties"]["tolerations"] = json!([{"key": "maintenance", "operator": "Exists"}]);
    world.apply("app", app(&[step.clone(), east()])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3"]).await;
    // Taking away needs no toleration.
    world
        .apply("app", app(&[step, take(&json!(["c3"])), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c1", "c2"]).await;
}

/// `flags east 2/3 late c2 Unreachable` of each step that has an object.
async fn counted(world: &World) -> Vec<String> {
    let delivery = world.status("app").await.delivery.unwrap();
    let objects = delivery.objects.iter().map(|object| {
        let regions = object.regions.iter();
        let regions: Vec<String> = regions
            .map(|region| format!("{} {}/{}", region.region, region.ready, region.clusters))
            .collect();
        let late = object.not_ready.iter();
        let late: Vec<String> = late
            .map(|late| format!(", {} {}", late.cluster, late.phase))
            .collect();
        format!("{} {}{}", object.step, regions.join(" "), late.join(""))
    });
    objects.collect()
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_the_objects_of_steps_apart() {
    let world = World::five_on_any_server().await;
    world.agents.script("c2", Script::Failed).await;
    let steps = [
        flags(&json!({}), "1"),
        ask(),
        take(&json!({"region": "east"})),
        east(),
    ];
    world.apply("app", app(&steps)).await;
    world.until_step("flags", StepPhase::Running).await;
    world.rest().await;
    assert_eq!(counted(&world).await, ["flags east 2/3 west 2/2, c2 Failed"]);
    world.agents.script("c2", Script::Ready).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c3", Script::Silent).await;
    world.rest().await;
    // What is passed is shown as it is kept.
    assert_eq!(counted(&world).await, ["flags east 3/3 west 2/2"]);
    assert_eq!(world.status("app").await.delivery.unwrap().clusters_ready, "0/0");
    world.resume("app").await;
    world.until_step("away", StepPhase::Running).await;
    world.rest().await;
    assert_eq!(
        counted(&world).await,
        ["flags west 2/2", "away east 2/3, c3 Waiting"]
    );
    world.agents.script("c3", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    assert_eq!(counted(&world).await, ["flags west 2/2"]);
    assert_eq!(world.status("app").await.delivery.unwrap().clusters_ready, "3/3");
}

fn away_from(name: &str, clusters: &Value) -> Value {
    let mut step = take(clusters);
    step["name"] = json!(name);
    step
}

#[tokio::test(start_paused = true)]
async fn steps_that_take_from_different_clusters_do_not_wait_for_each_other() {
    let world = World::five_on_any_server().await;
    let (one, two) = (
        away_from("away1", &json!(["c1"])),
        away_from("away2", &json!(["c2"])),
    );
    world
        .apply("app", app(&[in_the_east(), one.clone(), two.clone(), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c3"]).await;
    // Side by side.
    let mut changed = in_the_east();
    changed["properties"]["value"]["data"]["a"] = json!("2");
    let both = json!({"name": "both", "type": "step-group", "subSteps": [one, two]});
    let steps = [changed, ask(), both, east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c2", Script::Silent).await;
    world.resume("app").await;
    world.until_step("away1", StepPhase::Succeeded).await;
    until_on(&world, FLAGS, &["c2", "c3"]).await;
    world.agents.script("c2", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c3"]).await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_are_not_named_do_not_hold_the_step_up() {
    let world = World::five_on_any_server().await;
    let steps = [in_the_east(), ask(), take(&json!(["c1"])), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c1", Script::Silent).await;
    world.resume("app").await;
    until_says(&world, "waiting for 1 of 1 clusters: c1").await;
    world.agents.script("c2", Script::Silent).await;
    force_away(&world, "c2").await;
    world.agents.script("c1", Script::Ready).await;
    world.until_step("away", StepPhase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn who_drops_out_of_the_selector_in_the_middle_still_has_to_report() {
    let world = World::five_on_any_server().await;
    let steps = [in_the_east(), ask(), take(&json!({"region": "east"})), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c1", Script::Silent).await;
    world.resume("app").await;
    until_says(&world, "waiting for 1 of 3 clusters: c1").await;
    world.label_cluster("c1", json!({"region": "north"})).await;
    world.rest().await;
    assert_eq!(phase_of(&world, "away").await, StepPhase::Running);
    until_says(&world, "waiting for 1 of 3 clusters: c1").await;
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_has_applied_stays_where_this_one_has_not_applied_it() {
    let world = World::five_on_any_server().await;
    let mut west = flags(&json!({"region": "west"}), "1");
    west["name"] = json!("flags-west");
    let both = [in_the_east(), west.clone(), east()];
    world.apply("app", app(&both)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let west_of = "default.app.step.flags-west";
    until_on(&world, west_of, &["c4", "c5"]).await;
    let stop = json!({"name": "no", "type": "fail", "properties": {"message": "no further"}});
    let mut away = take(&json!({}));
    away["if"] = json!("always");
    world
        .apply("app", app(&[in_the_east(), stop, west, away, east()]))
        .await;
    world.until_step("away", StepPhase::Succeeded).await;
    world.rest().await;
    until_on(&world, FLAGS, &[]).await;
    assert_eq!(clusters_of(&world, west_of).await, ["c4", "c5"]);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_there_nothing_is_waited_for_and_a_restart_forgets_who_has_left() {
    let world = World::five_on_any_server().await;
    let away = take(&json!({"region": "mars"}));
    world.apply("app", app(&[in_the_east(), away, east()])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c1", "c2", "c3"]);
    let steps = [in_the_east(), ask(), take(&json!(["c1"])), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    world.agents.script("c1", Script::Silent).await;
    world.resume("app").await;
    until_says(&world, "waiting for 1 of 1 clusters: c1").await;
    // The cluster leaves, and its Bundle with it.
    let clusters: Api<Cluster> = Api::all(world.client.clone());
    clusters.delete("c1", &Default::default()).await.unwrap();
    until_says(&world, "c1 (the cluster is not registered").await;
    force_away(&world, "c1").await;
    until_says(&world, "flags vanished from c1 before").await;
    world.rest().await;
    assert_eq!(phase_of(&world, "away").await, StepPhase::Running);
    world
        .patch_status("app", json!({"workflow": {"restartFrom": "away"}}))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c2", "c3"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_somebody_else_keeps_is_released_once() {
    let world = World::five().await;
    let steps = [in_the_east(), ask(), take(&json!(["c1", "c2"])), east()];
    world.apply("app", app(&steps)).await;
    world.until_step("ask", StepPhase::Suspending).await;
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), "cluster-c1");
    let mut kept = bundles.get(FLAGS).await.unwrap().metadata.finalizers.unwrap();
    kept.push("example.com/backup".to_owned());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": kept}}));
    bundles
        .patch(FLAGS, &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.agents.script("c2", Script::Silent).await;
    world.resume("app").await;
    until_says(&world, "waiting for 1 of 2 clusters: c2").await;
    world.terminate("app").await;
    world
        .until_phase("app", ApplicationPhase::WorkflowTerminated)
        .await;
    world.rest().await;
    let left = bundles.get(FLAGS).await.unwrap().metadata;
    assert_eq!(left.finalizers.unwrap(), ["example.com/backup"]);
    // Leases are renewed meanwhile.
    let asked = || {
        let all = world.server().counter().requests().into_iter();
        let of_bundles = all.filter(|((verb, table), _)| *verb == "patch" && table.starts_with("bundles."));
        of_bundles.map(|(_, count)| count).sum::<u64>()
    };
    let before = asked();
    // Something else makes it look again.
    for tier in ["gold", "silver", "iron"] {
        world.label_cluster("c5", json!({"tier": tier})).await;
        world.rest().await;
    }
    assert_eq!((asked(), before > 0), (before, true));
}
