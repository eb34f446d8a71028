//! A step that dispatches to few clusters at a time and stops on its way: what it has not come to stays as it was,
//! whatever happens next.

use crate::{
    agents::Script,
    world::{World, web},
};
use kube::{Api, api::PostParams};
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase},
    bundle::Bundle,
    decision::Decision,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const FOUR: [(&str, &str); 4] = [("c1", "east"), ("c2", "east"), ("c3", "east"), ("c4", "east")];

/// All clusters of a region, one after the other, none of which may fail.
fn careful(region: &str) -> Value {
    json!({"name": region, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": region}}],
        "maxParallel": 1, "maxFailedClusters": 0}})
}

fn approve() -> Value {
    json!({"name": "approve", "type": "suspend"})
}

fn app(image: &str, steps: &[Value]) -> Value {
    json!({"components": web(image), "workflow": {"steps": steps}})
}

/// Cluster -> hash of its Bundle.
async fn hashes(world: &World) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    for (cluster, _) in FOUR {
        if let Some(bundle) = world.bundle(cluster, "app").await {
            all.insert(cluster.to_owned(), bundle.spec.hash);
        }
    }
    all
}

/// `nginx:1` on all four, and `nginx:2` failed on the first of them.
async fn failed_at_the_first() -> World {
    let world = World::new(&FOUR).await;
    world.apply("app", app("nginx:1", &[careful("east")])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c1", Script::Failed).await;
    world.apply("app", app("nginx:2", &[careful("east")])).await;
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    world
}

#[tokio::test(start_paused = true)]
async fn clusters_that_a_failed_run_has_not_come_to_keep_what_they_have() {
    let mut world = failed_at_the_first().await;
    let images = world.dispatched("app").await;
    let expected = [
        ("c1", "nginx:2"),
        ("c2", "nginx:1"),
        ("c3", "nginx:1"),
        ("c4", "nginx:1"),
    ];
    for (cluster, image) in expected {
        assert_eq!(images[cluster].1, image, "{cluster}");
    }
    let before = hashes(&world).await;
    // A label of another cluster.
    world.label_cluster("c4", json!({"rack": "12"})).await;
    world.label_cluster("c1", json!({"region": "west"})).await;
    world.rest().await;
    world.label_cluster("c1", json!({"region": "east"})).await;
    world.join("c5", &[("region", "east")]).await;
    world.rest().await;
    assert_eq!(hashes(&world).await, before, "a label");
    // A hub that starts again.
    world.stop_hub().await;
    world.start_hub();
    world.rest().await;
    assert_eq!(hashes(&world).await, before, "a restart");
    // A report of an agent.
    for script in [Script::Ready, Script::Silent, Script::Failed] {
        world.agents.script("c1", script).await;
        world.agents.script("c3", script).await;
        world.rest().await;
        assert_eq!(hashes(&world).await, before, "a report, {script:?}");
    }
    assert!(world.bundle("c5", "app").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn clusters_that_never_had_a_bundle_get_none_while_the_next_run_waits_for_approval() {
    let mut world = World::new(&FOUR).await;
    world.agents.script("c1", Script::Failed).await;
    world.apply("app", app("nginx:1", &[careful("east")])).await;
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world
        .apply("app", app("nginx:2", &[approve(), careful("east")]))
        .await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    world.label_cluster("c4", json!({"rack": "12"})).await;
    world.rest().await;
    let dispatched = world.dispatched("app").await;
    assert_eq!(dispatched.keys().collect::<Vec<_>>(), ["c1"], "{dispatched:?}");
    // The same run once more, from the start: approval comes first.
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world
        .patch_status("app", json!({"phase": "runningWorkflow", "workflow": null}))
        .await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    let dispatched = world.dispatched("app").await;
    assert_eq!(dispatched.keys().collect::<Vec<_>>(), ["c1"], "{dispatched:?}");
    world.agents.script("c1", Script::Ready).await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["nginx:2"]);
    assert_eq!(world.dispatched("app").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_vanishes_is_made_again_of_the_revision_that_the_cluster_had() {
    let mut world = failed_at_the_first().await;
    let before = hashes(&world).await;
    for (n, restarted) in [false, true].into_iter().enumerate() {
        for cluster in ["c1", "c2"] {
            world.remove_bundle(cluster, "app").await;
        }
        if restarted {
            world.stop_hub().await;
            world.start_hub();
        }
        world
            .until("app", &format!("both are back, {n}"), async |world: &World| {
                (hashes(world).await.len() == 4).then_some(())
            })
            .await;
        world.rest().await;
        assert_eq!(hashes(&world).await, before);
        // Then the same in the run that follows, before it comes to the step.
        world
            .apply("app", app("nginx:3", &[approve(), careful("east")]))
            .await;
        world
            .until_phase("app", ApplicationPhase::WorkflowSuspending)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_gives_no_place_to_the_next_cluster_in_the_same_look() {
    let mut world = World::new(&FOUR).await;
    for cluster in ["c1", "c2"] {
        world.agents.script(cluster, Script::Silent).await;
    }
    let mut step = careful("east");
    step["properties"]["maxParallel"] = json!(2);
    world.apply("app", app("nginx:1", &[step])).await;
    world
        .until("app", "two are under way", async |world: &World| {
            (world.dispatched("app").await.len() == 2).then_some(())
        })
        .await;
    world.rest().await;
    // Both reports are seen at once.
    world.stop_hub().await;
    world.agents.script("c1", Script::Failed).await;
    world.agents.script("c2", Script::Ready).await;
    world.start_hub();
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    let dispatched = world.dispatched("app").await;
    assert_eq!(dispatched.keys().collect::<Vec<_>>(), ["c1", "c2"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_stopped_does_not_hold_up_another_one_on_the_same_clusters() {
    let world = World::new(&FOUR).await;
    world.agents.script("c1", Script::Failed).await;
    let all = json!({"name": "all", "type": "deploy", "if": "status.east.failed",
        "properties": {"placement": [{"clusterSelector": {"region": "east"}}], "wait": "none"}});
    world.apply("app", app("nginx:1", &[careful("east"), all])).await;
    world
        .until("app", "the second step is done", async |world: &World| {
            let workflow = world.status("app").await.workflow?;
            (workflow.step("all")?.phase == StepPhase::Succeeded).then_some(())
        })
        .await;
    assert_eq!(world.dispatched("app").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn few_clusters_are_under_way_also_while_an_earlier_step_is_refreshed() {
    let world = World::new(&[("c1", "east"), ("c2", "west")]).await;
    let steps = [careful("east"), careful("west")];
    world.apply("app", app("nginx:1", &steps)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    for cluster in ["c3", "c4", "c5"] {
        world.agents.script(cluster, Script::Silent).await;
        world.join(cluster, &[("region", "west")]).await;
    }
    world
        .until("app", "one of them is under way", async |world: &World| {
            (world.dispatched("app").await.len() == 3).then_some(())
        })
        .await;
    world.rest().await;
    world.join("c6", &[("region", "east")]).await;
    world
        .until("app", "the east is refreshed", async |world: &World| {
            world.bundle("c6", "app").await.map(drop)
        })
        .await;
    world.rest().await;
    assert_eq!(world.dispatched("app").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_step_without_its_input_dispatches_nothing() {
    let world = World::new(&FOUR).await;
    let step = json!({"name": "web", "type": "apply-component",
        "properties": {"component": "web", "placement": [{"clusterSelector": {"region": "east"}}]}});
    world
        .apply("app", app("nginx:1", std::slice::from_ref(&step)))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = hashes(&world).await;
    let mut lacking = step;
    lacking["properties"]["patch"] = json!({"to": {"field": "spec.minReadySeconds"}});
    lacking["inputs"] = json!([{"from": "context.nothing", "parameterKey": "patch.value"}]);
    world
        .apply("app", app("nginx:2", std::slice::from_ref(&lacking)))
        .await;
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    assert_eq!(hashes(&world).await, before);
    // Nor where nothing was decided before.
    world
        .apply("other", app("nginx:2", std::slice::from_ref(&lacking)))
        .await;
    world.until_phase("other", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    assert_eq!(world.dispatched("other").await.len(), 0);
}

/// Whoever was to write the Bundle of a cluster could not before the run was stopped: then the cluster has nothing new to expect, until
/// the run goes on.
#[tokio::test(start_paused = true)]
async fn what_was_decided_and_not_sent_before_a_run_stopped_is_not_sent() {
    let all = json!({"name": "east", "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}});
    let image_of = async |world: &World, cluster: &str| world.dispatched("app").await[cluster].1.clone();
    for terminated in [false, true] {
        let mut world = World::new(&FOUR).await;
        world
            .apply("app", app("nginx:1", std::slice::from_ref(&all)))
            .await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.asked.refuse(Some(SECOND));
        world
            .apply("app", app("nginx:2", std::slice::from_ref(&all)))
            .await;
        world
            .until("app", "the others have it", async |world: &World| {
                (image_of(world, "c4").await == "nginx:2").then_some(())
            })
            .await;
        assert_eq!(image_of(&world, "c2").await, "nginx:1");
        match terminated {
            false => world.suspend("app").await,
            true => {
                world.terminate("app").await;
                world
                    .until_phase("app", ApplicationPhase::WorkflowTerminated)
                    .await;
            }
        }
        world.asked.refuse(None);
        world.rest().await;
        world.label_cluster("c2", json!({"rack": "12"})).await;
        world.stop_hub().await;
        world.start_hub();
        world.rest().await;
        let expected = ["nginx:2", "nginx:1", "nginx:2", "nginx:2"];
        for ((cluster, _), image) in FOUR.into_iter().zip(expected) {
            assert_eq!(image_of(&world, cluster).await, image, "{cluster}, {terminated}");
        }
        let delivery = world.status("app").await.delivery.unwrap();
        let late: Vec<_> = delivery
            .not_ready
            .iter()
            .map(|one| one.cluster.as_str())
            .collect();
        assert_eq!(late, ["c2"], "{delivery:?}");
        let said = &delivery.not_ready[0].message;
        assert_eq!(said, "was not written before the step stopped", "{delivery:?}");
        assert_eq!(waiting(&world, "east").await, second_at_first());
        // What vanishes is made again of what it was.
        world.remove_bundle("c2", "app").await;
        world.rest().await;
        assert_eq!(image_of(&world, "c2").await, "nginx:1");
        match terminated {
            false => world.resume("app").await,
            true => {
                let restart = json!({"phase": "runningWorkflow", "workflow": null});
                world.patch_status("app", restart).await;
            }
        }
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(world.images("app").await, ["nginx:2"]);
    }
}

/// The Bundle of the second of four clusters.
const SECOND: &str = "PUT /apis/roundhouse.dev/v1alpha1/namespaces/cluster-c2/bundles";

/// A component of so many ConfigMaps `<name>-<n>` that say this, so large each.
fn maps(name: &str, (many, size): (usize, usize), value: &str) -> Value {
    let map = |n: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-{n}")},
            "data": {"is": value, "pad": "x".repeat(size)}})
    };
    let objects: Vec<Value> = (0..many).map(map).collect();
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": objects}})
}

/// Two components, each brought to all by a step of its own.
fn by_component(value: &str) -> Value {
    let step = |name: &str| {
        json!({"name": name, "type": "apply-component", "timeout": "30s",
            "properties": {"component": name, "placement": [{"clusterSelector": {"region": "east"}}]}})
    };
    let mut web = step("web");
    web["if"] = json!("always");
    json!({"components": [maps("db", (1, 1), value), maps("web", (1, 1), value)], "workflow": {"steps": [step("db"), approve(), web]}})
}

/// What the objects in the Bundles of a cluster say, in order; those that say the same once.
async fn says(world: &World, cluster: &str) -> Vec<String> {
    let mut all = Vec::new();
    for name in ["app", "app.2"] {
        let bundle = world.bundle(cluster, name).await;
        for manifest in bundle.iter().flat_map(|bundle| &bundle.spec.workload.manifests) {
            all.extend(manifest["data"]["is"].as_str().map(str::to_owned));
        }
        all.dedup();
    }
    all
}

/// Approves the run once it asks.
async fn approved(world: &World) {
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
}

/// Nothing is refused any more, and a hub that was not there before looks at what is left.
async fn look_anew(world: &mut World) {
    world.asked.refuse(None);
    world.stop_hub().await;
    world.start_hub();
    world.rest().await;
}

/// The second cluster waits, and has the first revision.
fn second_at_first() -> Vec<(Option<String>, Vec<String>)> {
    vec![(Some("app-v1".to_owned()), vec!["c2".to_owned()])]
}

/// What the Decision of a step notes of who waits: the clusters, by the revision that they have of it.
async fn waiting(world: &World, step: &str) -> Vec<(Option<String>, Vec<String>)> {
    let decisions: Api<Decision> = Api::namespaced(world.client.clone(), "default");
    let decision = decisions.get(&format!("app-{step}")).await.unwrap();
    let waiting = decision.spec.waiting.into_iter();
    waiting
        .map(|waiting| (waiting.revision, waiting.clusters))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_component_that_was_not_sent_before_its_step_stopped_is_not_sent_beside_another() {
    let until_step = async |world: &World, step: &'static str, phase: StepPhase| {
        let shows = async move |world: &World| {
            let workflow = world.status("app").await.workflow?;
            (workflow.step(step)?.phase == phase).then_some(())
        };
        world.until("app", step, shows).await;
    };
    // The second step is paused on its way, beside what the first has brought.
    let mut world = World::new(&FOUR).await;
    world.apply("app", by_component("1")).await;
    approved(&world).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", by_component("2")).await;
    until_step(&world, "approve", StepPhase::Suspending).await;
    world.asked.refuse(Some(SECOND));
    approved(&world).await;
    world
        .until("app", "the others have it", async |world: &World| {
            (says(world, "c4").await == ["2"]).then_some(())
        })
        .await;
    assert_eq!(says(&world, "c2").await, ["2", "1"]);
    world.suspend("app").await;
    world.rest().await;
    look_anew(&mut world).await;
    assert_eq!(says(&world, "c2").await, ["2", "1"]);
    assert_eq!(
        (waiting(&world, "db").await, waiting(&world, "web").await),
        (vec![], second_at_first())
    );
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(says(&world, "c2").await, ["2"]);
    assert_eq!(waiting(&world, "web").await, []);
    // The first step fails, and the second one goes on.
    world.asked.refuse(Some(SECOND));
    world.apply("app", by_component("3")).await;
    until_step(&world, "db", StepPhase::Failed).await;
    world.asked.refuse(None);
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    assert_eq!(says(&world, "c2").await, ["2", "3"]);
    assert_eq!(says(&world, "c1").await, ["3"]);
    let v2 = vec![(Some("app-v2".to_owned()), vec!["c2".to_owned()])];
    assert_eq!(
        (waiting(&world, "db").await, waiting(&world, "web").await),
        (v2, vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_written_in_part_when_a_run_stopped_is_finished() {
    let spec = |value: &str| {
        json!({"components": [maps("web", (2, 300 * 1024), value)], "workflow": {"steps": [
            {"name": "east", "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}}]}})
    };
    let mut world = World::new(&FOUR).await;
    world.apply("app", spec("1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.asked.refuse(Some(
        "PUT /apis/roundhouse.dev/v1alpha1/namespaces/cluster-c2/bundles/default.app$",
    ));
    world.apply("app", spec("2")).await;
    world
        .until("app", "a part of it is written", async |world: &World| {
            (says(world, "c2").await == ["1", "2"]).then_some(())
        })
        .await;
    world.suspend("app").await;
    world.rest().await;
    assert_eq!(says(&world, "c2").await, ["1", "2"]);
    look_anew(&mut world).await;
    assert_eq!(says(&world, "c2").await, ["2"]);
    assert_eq!(waiting(&world, "east").await, []);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_late_when_a_run_has_stopped_is_noted_no_longer() {
    let all = json!({"name": "east", "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}});
    let look = json!({"name": "look", "type": "wait", "properties": {"until": {"ready": "100%"}}});
    let steps = [all, look];
    for while_paused in [true, false] {
        let mut world = World::new(&FOUR).await;
        world.apply("app", app("nginx:1", &steps)).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.asked.refuse(Some(SECOND));
        world.apply("app", app("nginx:2", &steps)).await;
        world
            .until("app", "the others have it", async |world: &World| {
                let dispatched = world.dispatched("app").await;
                (dispatched["c4"].1 == "nginx:2").then_some(())
            })
            .await;
        world.suspend("app").await;
        world.rest().await;
        world.asked.refuse(None);
        world.label_cluster("c2", json!({"rack": "12"})).await;
        world.rest().await;
        assert_eq!(waiting(&world, "east").await, second_at_first());
        if !while_paused {
            world.stop_hub().await;
        }
        // As the hub would have written it.
        let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), "cluster-c2");
        let mut late = world.bundle("c2", "app").await.unwrap();
        let spec = world.bundle("c1", "app").await.unwrap().spec;
        late.spec = spec;
        bundles
            .replace("default.app", &PostParams::default(), &late)
            .await
            .unwrap();
        match while_paused {
            true => {
                world.rest().await;
                assert_eq!(waiting(&world, "east").await, []);
                world.resume("app").await;
            }
            // Nobody has looked before it goes on.
            false => {
                world.resume("app").await;
                world.start_hub();
            }
        }
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(waiting(&world, "east").await, [], "{while_paused}");
        assert_eq!(world.images("app").await, ["nginx:2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_component_that_is_the_same_in_both_revisions_is_not_noted_of_a_step_that_failed() {
    let world = World::new(&FOUR).await;
    let spec = |web: &str| {
        let mut spec = by_component("1");
        spec["components"][1] = maps("web", (1, 1), web);
        spec["workflow"]["steps"].as_array_mut().unwrap().remove(1);
        spec["workflow"]["steps"][0]["properties"]["maxFailedClusters"] = json!(0);
        spec
    };
    world.apply("app", spec("1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c3", Script::Failed).await;
    world.apply("app", spec("2")).await;
    world.until_phase("app", ApplicationPhase::WorkflowFailed).await;
    world.rest().await;
    for cluster in ["c1", "c2", "c4"] {
        assert_eq!(says(&world, cluster).await, ["1", "2"]);
    }
    assert_eq!(waiting(&world, "db").await, []);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_under_two_steps_keeps_what_the_one_brought_that_has_not_stopped() {
    let step = |name: &str, image: &str| {
        let target = json!({"kind": "Deployment", "name": "web"});
        let patch =
            json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]);
        json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "east"}}],
            "overrides": [{"target": target, "jsonPatch": patch}]}})
    };
    let spec = |image: &str, all: &str, replicas: u32| {
        let mut spec = app(image, &[step("canary", image), approve(), step("all", all)]);
        spec["components"][0]["properties"]["replicas"] = json!(replicas);
        spec
    };
    // Where they differ in what they say, and where only in how many there are to be.
    for all in [["all:1", "all:2"], ["nginx:1", "nginx:2"]] {
        let mut world = World::new(&FOUR).await;
        let of = async |world: &World, cluster: &str| world.dispatched("app").await[cluster].clone();
        world.apply("app", spec("nginx:1", all[0], 3)).await;
        approved(&world).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.apply("app", spec("nginx:2", all[1], 5)).await;
        world
            .until_phase("app", ApplicationPhase::WorkflowSuspending)
            .await;
        let before = of(&world, "c2").await;
        assert_eq!(before, (3, "nginx:2".to_owned()));
        world.asked.refuse(Some(SECOND));
        world.resume("app").await;
        world
            .until("app", "the others have it", async |world: &World| {
                (of(world, "c4").await == (5, all[1].to_owned())).then_some(())
            })
            .await;
        world.suspend("app").await;
        world.rest().await;
        look_anew(&mut world).await;
        assert_eq!(of(&world, "c2").await, before);
        assert_eq!(waiting(&world, "all").await, second_at_first());
        // One that is gone is made again.
        world.remove_bundle("c2", "app").await;
        world.rest().await;
        assert_eq!(of(&world, "c2").await.1, "nginx:2");
        world.resume("app").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        for (cluster, _) in FOUR {
            assert_eq!(of(&world, cluster).await, (5, all[1].to_owned()));
        }
        assert_eq!(waiting(&world, "all").await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_counts_nobody_to_whom_two_steps_that_stopped_have_not_come() {
    let mut spec = by_component("1");
    let look = json!({"name": "look", "type": "wait", "if": "always",
        "properties": {"until": {"ready": "100%"}, "steps": ["web"]}});
    spec["workflow"]["steps"][1] = spec["workflow"]["steps"][2].clone();
    spec["workflow"]["steps"][2] = look;
    let of = |value: &str| {
        let mut spec = spec.clone();
        spec["components"] = by_component(value)["components"].clone();
        spec
    };
    let world = World::new(&FOUR).await;
    world.apply("app", of("1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.asked.refuse(Some(SECOND));
    world.apply("app", of("2")).await;
    world
        .until("app", "the wait has begun", async |world: &World| {
            let workflow = world.status("app").await.workflow?;
            (workflow.step("look")?.phase == StepPhase::Running).then_some(())
        })
        .await;
    world.rest().await;
    world.asked.refuse(None);
    world.label_cluster("c2", json!({"rack": "12"})).await;
    world.rest().await;
    let workflow = world.status("app").await.workflow.unwrap();
    let look = workflow.step("look").unwrap();
    assert_eq!(
        look.message.as_deref(),
        Some("waiting until 100% of the clusters are ready: 3 of 4 are")
    );
    assert_eq!(says(&world, "c2").await, ["1"]);
    assert_eq!(
        (waiting(&world, "db").await, waiting(&world, "web").await),
        (second_at_first(), second_at_first())
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_lost_its_bundle_and_waits_for_a_place_gets_what_it_had() {
    let world = World::new(&FOUR).await;
    let mut careful = careful("east");
    careful["properties"]["maxFailedClusters"] = json!(3);
    let spec = |image: &str| app(image, std::slice::from_ref(&careful));
    world.apply("app", spec("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c2", Script::Silent).await;
    world.apply("app", spec("nginx:2")).await;
    world
        .until("app", "the second is under way", async |world: &World| {
            (world.dispatched("app").await["c2"].1 == "nginx:2").then_some(())
        })
        .await;
    world.rest().await;
    world.remove_bundle("c1", "app").await;
    world.rest().await;
    let waits = waiting(&world, "east").await;
    let revisions: Vec<_> = waits.iter().map(|(revision, _)| revision.as_deref()).collect();
    assert_eq!(revisions, [Some("app-v1"), Some("app-v2")], "{waits:?}");
    world.suspend("app").await;
    world.rest().await;
    assert_eq!(world.dispatched("app").await["c1"].1, "nginx:2");
}

#[tokio::test(start_paused = true)]
async fn two_steps_that_stop_at_once_send_nothing_of_what_either_had_decided() {
    let step = |name: &str| json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "east"}}]}});
    let spec = |image: &str| json!({"components": web(image), "workflow": {"mode": {"steps": "DAG"}, "steps": [step("a"), step("b")]}});
    let mut world = World::new(&FOUR).await;
    let image_of = async |world: &World, cluster: &str| world.dispatched("app").await[cluster].1.clone();
    world.apply("app", spec("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.asked.refuse(Some(SECOND));
    world.apply("app", spec("nginx:2")).await;
    world
        .until("app", "the others have it", async |world: &World| {
            (image_of(world, "c4").await == "nginx:2").then_some(())
        })
        .await;
    world.suspend("app").await;
    world.rest().await;
    look_anew(&mut world).await;
    assert_eq!(image_of(&world, "c2").await, "nginx:1");
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["nginx:2"]);
}
