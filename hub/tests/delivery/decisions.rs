//! Decisions that somebody deletes, while the hub looks and while it does not run: what clusters have goes by them, and stays.

use crate::world::{World, web};
use kube::{Api, api::DeleteParams};
use roundhouse_api::{
    application::{ApplicationPhase, StepPhase},
    decision::Decision,
    names::{annotation, label},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ALL: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

/// A component of one ConfigMap.
fn config_map(name: &str, value: &str) -> Value {
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"is": value}}]}})
}

/// A step that brings a component to a region.
fn component_to(name: &str, region: &str) -> Value {
    json!({"name": format!("step-{name}"), "type": "apply-component",
        "properties": {"component": name, "placement": [{"clusterSelector": {"region": region}}]}})
}

/// A step that places so many replicas in a region.
fn count_to(name: &str, region: &str, replicas: u32) -> Value {
    let placement = json!([{"name": "r", "clusterSelector": {"region": region}, "replicas": replicas}]);
    json!({"name": name, "type": "deploy", "properties": {"placement": placement}})
}

fn gate() -> Value {
    json!({"name": "gate", "type": "suspend"})
}

/// Who sees Decisions go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    ByTheHub,
    ByNobody,
}

const WAYS: [Seen; 2] = [Seen::ByTheHub, Seen::ByNobody];

/// All Decisions of all applications are deleted.
async fn lose_decisions(world: &mut World, seen: Seen) {
    if seen == Seen::ByNobody {
        world.stop_hub().await;
    }
    decisions(world)
        .delete_collection(&DeleteParams::default(), &Default::default())
        .await
        .unwrap();
    if seen == Seen::ByNobody {
        world.start_hub();
    }
    world.rest().await;
}

fn decisions(world: &World) -> Api<Decision> {
    Api::namespaced(world.client.clone(), "default")
}

/// What Decisions say, by name.
async fn decided(world: &World) -> BTreeMap<String, String> {
    let all = decisions(world).list(&Default::default()).await.unwrap();
    let all = all.items.into_iter();
    all.map(|decision| (decision.metadata.name.unwrap(), json!(decision.spec).to_string()))
        .collect()
}

/// Generation and manifests of each Bundle of the application: what was written in between shows in the generation.
async fn contents(world: &World) -> BTreeMap<&'static str, String> {
    let mut all = BTreeMap::new();
    for cluster in ALL {
        if let Some(bundle) = world.bundle(cluster, "app").await {
            let manifests = json!(bundle.spec.workload.manifests);
            all.insert(cluster, format!("{:?} {manifests}", bundle.metadata.generation));
        }
    }
    all
}

/// The values of the ConfigMaps in a cluster's Bundle.
async fn values(world: &World, cluster: &str) -> Vec<String> {
    let bundle = world.bundle(cluster, "app").await;
    let manifests = bundle.map(|bundle| bundle.spec.workload.manifests);
    let manifests = manifests.unwrap_or_default();
    let value = |manifest: &Value| {
        let name = manifest["metadata"]["name"].as_str()?;
        Some(format!("{name}={}", manifest["data"]["is"].as_str()?))
    };
    manifests.iter().filter_map(value).collect()
}

/// Delivers a spec whose run waits at a gate, and comes to the gate with the next one.
async fn at_the_gate(first: &Value, next: &Value) -> World {
    let world = World::five().await;
    world.deliver_approved("app", first.clone()).await;
    world.rest().await;
    world.apply("app", next.clone()).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    world
}

/// After a run that placed, at every gate and before it: nothing is taken away, whoever sees the Decisions go.
#[tokio::test(start_paused = true)]
async fn what_is_delivered_stays_when_decisions_are_lost() {
    let maps = |steps: Vec<Value>| {
        move |value: &str| {
            let components = ["a", "b", "c"].map(|name| config_map(name, value));
            json!({"components": components, "workflow": {"steps": steps}})
        }
    };
    let counts = |steps: Vec<Value>| move |value: &str| json!({"components": web(&format!("nginx:{value}")), "workflow": {"steps": steps}});
    let (a, b, c) = ("a", "b", "c");
    let mut in_turns = count_to("all", "east", 6);
    in_turns["properties"]["maxParallel"] = json!(1);
    let mut b_in_turns = component_to(b, "east");
    b_in_turns["properties"]["maxParallel"] = json!(1);
    type Spec = Box<dyn Fn(&str) -> Value>;
    let specs: Vec<(&str, Spec)> = vec![
        (
            "own Bundles",
            Box::new(maps(vec![
                component_to(a, "east"),
                gate(),
                component_to(b, "west"),
            ])),
        ),
        (
            "shared Bundles",
            Box::new(maps(vec![
                component_to(a, "east"),
                gate(),
                component_to(b, "east"),
            ])),
        ),
        (
            "two behind the gate",
            Box::new(maps(vec![
                component_to(a, "east"),
                gate(),
                component_to(b, "east"),
                component_to(c, "east"),
            ])),
        ),
        (
            "two before the gate",
            Box::new(maps(vec![
                component_to(a, "east"),
                component_to(b, "east"),
                gate(),
                component_to(c, "east"),
            ])),
        ),
        (
            "in turns before the gate",
            Box::new(maps(vec![
                component_to(a, "east"),
                b_in_turns,
                gate(),
                component_to(c, "west"),
            ])),
        ),
        (
            "a canary",
            Box::new(counts(vec![
                count_to("canary", "east", 1),
                gate(),
                count_to("all", "east", 9),
            ])),
        ),
        (
            "a canary, and the others in turns",
            Box::new(counts(vec![
                count_to("canary", "east", 1),
                in_turns,
                gate(),
                count_to("tail", "west", 3),
            ])),
        ),
    ];
    for (what, spec) in specs {
        for seen in WAYS {
            let mut world = at_the_gate(&spec("1"), &spec("2")).await;
            let (before, were) = (contents(&world).await, decided(&world).await);
            lose_decisions(&mut world, seen).await;
            assert_eq!(contents(&world).await, before, "{what}: at the gate, {seen:?}");
            if seen == Seen::ByTheHub {
                assert_eq!(decided(&world).await, were, "{what}: written again as they were");
            }
            world.resume("app").await;
            world.until_phase("app", ApplicationPhase::Running).await;
            world.rest().await;
            let (before, were) = (contents(&world).await, decided(&world).await);
            assert!(
                before.values().all(|content| !content.contains("app-v1")),
                "{what}: all is of the new revision: {before:?}"
            );
            lose_decisions(&mut world, seen).await;
            assert_eq!(contents(&world).await, before, "{what}: after the run, {seen:?}");
            let are = decided(&world).await;
            assert!(are.keys().eq(were.keys()), "{what}: {are:?}");
        }
    }
}

/// The next revision comes where the Decisions of the one before are lost: what its first step brings is delivered, and the rest
/// stays until its turn comes.
#[tokio::test(start_paused = true)]
async fn a_revision_behind_lost_decisions_is_delivered_step_by_step() {
    for seen in WAYS {
        let spec = |value: &str| {
            json!({"components": [config_map("a", value), config_map("b", value)],
                "workflow": {"steps": [component_to("a", "east"), gate(), component_to("b", "east")]}})
        };
        let mut world = at_the_gate(&spec("1"), &spec("2")).await;
        let told = world.bundle("c1", "app").await.unwrap().metadata.annotations;
        let of_both = json!({"step-a": "app-v2", "step-b": "app-v1"}).to_string();
        assert_eq!(told.unwrap().get(annotation::STEPS), Some(&of_both));
        lose_decisions(&mut world, seen).await;
        world.apply("app", spec("3")).await;
        world
            .until("app", "the first step is delivered", async |world: &World| {
                (values(world, "c1").await == ["a=3", "b=1"]).then_some(())
            })
            .await;
        world
            .until_phase("app", ApplicationPhase::WorkflowSuspending)
            .await;
        lose_decisions(&mut world, seen).await;
        assert_eq!(values(&world, "c2").await, ["a=3", "b=1"]);
        world.resume("app").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(values(&world, "c1").await, ["a=3", "b=3"]);
    }
}

/// Of a step whose overrides fit nothing what was decided before stays in force, also where that is lost.
#[tokio::test(start_paused = true)]
async fn a_step_with_wrong_overrides_keeps_what_it_has_when_its_decision_is_lost() {
    for seen in WAYS {
        let spec = |value: &str| {
            json!({"components": [config_map("a", value), config_map("b", value)],
                "workflow": {"steps": [component_to("a", "east"), component_to("b", "east")]}})
        };
        let mut world = World::five().await;
        world.apply("app", spec("1")).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        let mut wrong = spec("2");
        wrong["workflow"]["steps"][1]["properties"]["overrides"] =
            json!([{"target": {"kind": "ConfigMap", "name": "none"}, "patch": {"data": null}}]);
        world.apply("app", wrong).await;
        world.until_step("step-a", StepPhase::Succeeded).await;
        world.rest().await;
        assert_eq!(values(&world, "c1").await, ["a=2", "b=1"]);
        let before = contents(&world).await;
        lose_decisions(&mut world, seen).await;
        assert_eq!(contents(&world).await, before, "{seen:?}");
        world.apply("app", spec("3")).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(values(&world, "c1").await, ["a=3", "b=3"]);
    }
}

/// Nobody knows how much the step gave a cluster that its placement does not choose any more: nothing changes there, and it is said.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_a_lost_decision_alone_knew_of_keeps_all_it_has() {
    let spec = |value: &str, late: &str| {
        json!({"components": [config_map("a", value), config_map("b", value)],
            "workflow": {"steps": [component_to("a", "east"), gate(), component_to("b", late)]}})
    };
    for seen in WAYS {
        let mut world = at_the_gate(&spec("1", "east"), &spec("2", "west")).await;
        let before = contents(&world).await;
        lose_decisions(&mut world, seen).await;
        assert_eq!(contents(&world).await, before);
        let why = "cluster c1: application default/app: the Decision of step step-b is lost, which has placed on it, and the step's \
                   placement does not say now what it is to have: the cluster keeps what it has until the run comes to the step; let \
                   the placement choose the cluster until then, or restore the Decision";
        let status = json!(world.status("app").await).to_string();
        assert_eq!(status.contains(why), seen == Seen::ByNobody, "{status}");
        world.resume("app").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.rest().await;
        assert_eq!(values(&world, "c1").await, ["a=2"]);
        assert_eq!(values(&world, "c4").await, ["b=2"]);
    }
}

/// A Decision of a step that is gone from the spec goes with the run that has succeeded without it, and one of an application that is
/// deleted with that: neither is written again.
#[tokio::test(start_paused = true)]
async fn what_the_hub_lets_go_is_not_written_again() {
    let world = World::five().await;
    let spec = |steps: &[Value]| json!({"components": web("nginx:1"), "workflow": {"steps": steps}});
    let (east, more) = (count_to("east", "east", 4), count_to("more", "east", 6));
    world.apply("app", spec(&[east.clone(), more])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", spec(std::slice::from_ref(&east))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world
        .until(
            "app",
            "the Decision of the step is gone",
            async |world: &World| decided(world).await.keys().eq(["app-east"]).then_some(()),
        )
        .await;
    world.rest().await;
    assert!(decided(&world).await.keys().eq(["app-east"]));
    world.delete("app").await;
    world.rest().await;
    assert_eq!(decided(&world).await, BTreeMap::new());
    // Another one of that name has its own.
    world.apply("app", spec(&[east])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    assert!(decided(&world).await.keys().eq(["app-east"]));
}

/// A Bundle that no step of the spec has brought is written anew, to say who has: a later step of that name has brought nothing.
#[tokio::test(start_paused = true)]
async fn a_step_that_has_the_name_of_an_earlier_one_has_brought_nothing() {
    let world = World::five().await;
    let spec = |steps: &[(&str, &str)]| {
        let step = |(name, region): &(&str, &str)| json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": region}}]}});
        let steps: Vec<Value> = steps.iter().map(step).collect();
        json!({"components": [config_map("a", "1")], "workflow": {"steps": steps}})
    };
    for steps in [
        &[("first", "east")][..],
        &[("second", "east")],
        &[("second", "east"), ("first", "west")],
    ] {
        world.apply("app", spec(steps)).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.rest().await;
        let labels = world.bundle("c1", "app").await.unwrap().metadata.labels.unwrap();
        assert_eq!(labels.get(label::STEP).map(String::as_str), Some(steps[0].0));
    }
    assert_eq!(values(&world, "c4").await, ["a=1"]);
}

/// A step of another name that brings the same writes each Bundle once, to say so: a later step of the old name has brought nothing, so
/// that nobody takes its Decision for lost, and nothing of it comes before its turn.
#[tokio::test(start_paused = true)]
async fn a_component_that_another_step_brings_is_told_once_and_its_former_step_may_come_back() {
    let step = |name: &str, component: &str, region: &str| {
        let mut step = component_to(component, region);
        step["name"] = json!(name);
        step
    };
    let spec = |late: &str, steps: &[Value]| {
        json!({"components": [config_map("a", "1"), config_map("b", "1"), config_map("late", late)],
            "workflow": {"steps": steps}})
    };
    let (a, c, d) = (
        step("a", "a", "east"),
        step("c", "b", "east"),
        step("d", "b", "east"),
    );
    let steps_of = async |world: &World| {
        let annotations = world.bundle("c1", "app").await.unwrap().metadata.annotations;
        let steps = annotations.and_then(|all| all.get(annotation::STEPS).cloned());
        let steps: BTreeMap<String, String> = serde_json::from_str(&steps.unwrap()).unwrap();
        steps.into_keys().collect::<Vec<_>>()
    };
    let generation = async |world: &World| {
        world
            .bundle("c1", "app")
            .await
            .unwrap()
            .metadata
            .generation
            .unwrap()
    };
    let deliver = async |world: &World, spec: Value| {
        world.apply("app", spec).await;
        world.until_phase("app", ApplicationPhase::Running).await;
    };
    let mut overridden = c.clone();
    overridden["properties"]["overrides"] =
        json!([{"target": {"kind": "ConfigMap", "name": "b"}, "patch": {"data": {"is": "9"}}}]);
    for last in [false, true] {
        let in_order = |b: &Value| match last {
            true => [a.clone(), b.clone()],
            false => [b.clone(), a.clone()],
        };
        let world = World::five().await;
        deliver(&world, spec("1", &in_order(&c))).await;
        world.rest().await;
        assert_eq!(steps_of(&world).await, ["a", "c"]);
        let before = generation(&world).await;
        deliver(&world, spec("1", &in_order(&d))).await;
        world.rest().await;
        assert_eq!(steps_of(&world).await, ["a", "d"]);
        assert_eq!(generation(&world).await, before + 1, "the last one: {last}");
        // The old name for something else, elsewhere.
        let elsewhere = step("c", "late", "west");
        let all = [in_order(&d).to_vec(), vec![elsewhere]].concat();
        deliver(&world, spec("2", &all)).await;
        assert_eq!(values(&world, "c1").await, ["a=1", "b=1"]);
        assert_eq!(values(&world, "c4").await, ["late=2"]);
        // And for the same again, in other ways, behind a gate.
        let world = World::five().await;
        deliver(&world, spec("1", &in_order(&c))).await;
        deliver(&world, spec("1", &in_order(&d))).await;
        world
            .apply("app", spec("2", &[a.clone(), gate(), overridden.clone()]))
            .await;
        world
            .until_phase("app", ApplicationPhase::WorkflowSuspending)
            .await;
        world.rest().await;
        assert_eq!(values(&world, "c1").await, ["a=1", "b=1"], "before its gate");
        world.resume("app").await;
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(values(&world, "c1").await, ["a=1", "b=9"]);
    }
}
