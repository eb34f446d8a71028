//! Apply-once (seed: apply-once-only): the modes, what is kept by rules, what was deleted, and what may be removed.

use crate::world::{
    Pass, Side, World, bundle, deployment, dispatched, eventually, eventually_with, pass_time, reason,
};
use roundhouse_agent::Config;
use roundhouse_api::bundle::{
    APPLIED, ApplyOnce, BundlePhase,
    BundlePhase::{Cleaned, Failed, Progressing, Ready},
    BundleStatus, DEGRADED,
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

const APP: &str = "default.app";

/// A Deployment as the hub stamps it: its image tells the component revision.
fn web(image: &str, replicas: u32, generation: u32) -> Value {
    stamped(deployment("web", image, replicas), "WORKLOAD", image, generation)
}

/// A ConfigMap as the hub stamps it.
fn settings(value: &str, generation: u32) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default",
        "labels": {"app.oam.dev/name": "app"}}, "data": {"key": value}});
    stamped(map, "TRAIT", "i:1", generation)
}

fn stamped(mut object: Value, resource_type: &str, image: &str, generation: u32) -> Value {
    let labels = &mut object["metadata"]["labels"];
    labels["app.oam.dev/component"] = json!("web");
    labels["app.oam.dev/resourceType"] = json!(resource_type);
    labels["app.oam.dev/revision"] = json!(format!("web-{}", image.replace(':', "-")));
    labels["workload.oam.dev/type"] = json!("webservice");
    object["metadata"]["annotations"] = json!({"app.oam.dev/generation": generation.to_string()});
    object
}

fn in_mode(mode: &str, manifests: &[Value]) -> Value {
    let mut spec = dispatched(manifests, "app-v1", 1);
    spec["applyOnce"] = json!(mode);
    spec
}

fn with_rule(path: &str, affect: &str, manifests: &[Value]) -> Value {
    let mut spec = dispatched(manifests, "app-v1", 1);
    spec["applyOnceRules"] = json!([{"selector": {"componentTypes": ["webservice"], "resourceTypes": ["Deployment"]},
        "strategy": {"path": [path], "affect": affect}}]);
    spec
}

/// Applies a spec whose Deployment then rolls out by itself.
async fn delivered(world: &World, spec: Value) -> i64 {
    let generation = world.bundle(APP, spec).await;
    applied(world, generation).await;
    generation
}

async fn applied(world: &World, generation: i64) -> BundleStatus {
    eventually_with(
        &format!("generation {generation} is applied"),
        || world.status(APP),
        |status| {
            let counts = status.counts.unwrap_or_default();
            status.observed_generation == Some(generation) && counts.applied == counts.total
        },
    )
    .await
}

async fn image(world: &World) -> String {
    let live = world.live(Side::Member, &web("", 0, 0)).await.unwrap();
    live["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn replicas(world: &World) -> i64 {
    let live = world.live(Side::Member, &web("", 0, 0)).await.unwrap();
    live["spec"]["replicas"].as_i64().unwrap()
}

async fn scale(world: &World, replicas: u32) {
    world
        .merge(
            Side::Member,
            &web("", 0, 0),
            json!({"spec": {"replicas": replicas}}),
        )
        .await;
}

async fn set_image(world: &World, image: &str) {
    let containers = json!([{"name": "main", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world.merge(Side::Member, &web("", 0, 0), patch).await;
}

/// Writes that the member has stored, whoever wrote.
fn member_writes(world: &World) -> u64 {
    world.member.counter().total_stored()
}

#[tokio::test(start_paused = true)]
async fn an_image_changed_by_hand_is_restored_under_off_and_kept_under_on_until_the_next_generation() {
    for (mode, after_a_while) in [("Never", "i:1"), ("Once", "by-hand"), ("Force", "by-hand")] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode(mode, &[web("i:1", 2, 1)])).await;
        set_image(&world, "by-hand").await;
        pass_time(700).await;
        assert_eq!(image(&world).await, after_a_while, "{mode}");
        // The application changed elsewhere: same revision of the component, a new generation.
        set_image(&world, "by-hand").await;
        delivered(&world, in_mode(mode, &[web("i:1", 2, 2)])).await;
        assert_eq!(
            image(&world).await,
            "i:1",
            "{mode}: replaced at the next generation"
        );
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_re_division_under_on_reaches_the_member() {
    for mode in ["Once", "Force"] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode(mode, &[web("i:1", 2, 1)])).await;
        scale(&world, 9).await;
        pass_time(700).await;
        assert_eq!(replicas(&world).await, 9, "{mode}");
        // Neither generation nor revision moved.
        delivered(&world, in_mode(mode, &[web("i:1", 3, 1)])).await;
        assert_eq!(replicas(&world).await, 3, "{mode}");
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stamps_changed_by_hand_count_as_a_change_and_are_put_right() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1)])).await;
    for stamps in [
        json!({"annotations": {"roundhouse.dev/desired-hash": "by hand"}}),
        json!({"annotations": {"app.oam.dev/generation": null}}),
        json!({"labels": {"app.oam.dev/revision": "by-hand"}}),
    ] {
        set_image(&world, "by-hand").await;
        pass_time(10).await;
        assert_eq!(image(&world).await, "by-hand");
        world
            .merge(Side::Member, &web("", 0, 0), json!({"metadata": stamps}))
            .await;
        eventually("the manifest is back, stamps and all", || async {
            let live = world.live(Side::Member, &web("", 0, 0)).await.unwrap();
            image(&world).await == "i:1"
                && live["metadata"]["annotations"]["app.oam.dev/generation"] == "1"
                && live["metadata"]["labels"]["app.oam.dev/revision"] == "web-i-1"
                && live["metadata"]["annotations"]["roundhouse.dev/desired-hash"] != "by hand"
        })
        .await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_workload_is_made_again_under_on() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1)])).await;
    world.delete(Side::Member, &web("", 0, 0)).await;
    eventually("it is back", || async {
        world.live(Side::Member, &web("", 0, 0)).await.is_some()
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_workload_stays_deleted_under_force_until_its_revision_changes() {
    let world = World::new().await;
    let agent = world.agent();
    let content = in_mode("Force", &[web("i:1", 2, 1), settings("a", 1)]);
    let generation = delivered(&world, content.clone()).await;
    assert_ne!(
        world.status(APP).await.phase,
        Some(Ready),
        "never created before: it was created"
    );
    world.delete(Side::Member, &web("", 0, 0)).await;

    // The report says what there is and what there is not, and nobody waits for it.
    let status = world.reported(APP, generation, Ready).await;
    let counts = status.counts.unwrap();
    assert_eq!(
        (counts.total, counts.applied, counts.ready, counts.failed),
        (2, 2, 2, 0)
    );
    assert_eq!(reason(&status, APPLIED), "KeptDeleted");
    for type_ in ["Applied", "Available"] {
        let message = &roundhouse_api::condition::get(&status.conditions, type_)
            .unwrap()
            .message;
        assert!(
            message.contains("kept so by apply-once Force") && message.contains("Deployment web"),
            "{type_}: {message}"
        );
    }
    assert!(status.workloads.is_empty(), "{:?}", status.workloads);

    // Passes, a new agent, a re-division and a new generation leave it so, and write nothing by themselves.
    let settled = world.writes();
    pass_time(3600).await;
    assert_eq!(world.writes(), settled);
    agent.stop().await;
    let agent = world.agent();
    pass_time(700).await;
    assert_eq!(world.writes(), settled, "a new agent reads the ledger");
    delivered(&world, in_mode("Force", &[web("i:1", 5, 1), settings("a", 1)])).await;
    delivered(&world, in_mode("Force", &[web("i:1", 5, 2), settings("a", 2)])).await;
    pass_time(60).await;
    assert!(world.live(Side::Member, &web("", 0, 0)).await.is_none());

    delivered(&world, in_mode("Force", &[web("i:2", 5, 3), settings("a", 3)])).await;
    assert_eq!((image(&world).await.as_str(), replicas(&world).await), ("i:2", 5));
    let status = world.status(APP).await;
    assert_eq!(reason(&status, APPLIED), "Applied");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_trait_comes_back_under_force_with_the_next_generation() {
    let world = World::new().await;
    let agent = world.agent();
    let generation = delivered(&world, in_mode("Force", &[settings("a", 1)])).await;
    world.reported(APP, generation, Ready).await;
    world.delete(Side::Member, &settings("", 0)).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &settings("", 0)).await.is_none());
    delivered(&world, in_mode("Force", &[settings("a", 2)])).await;
    assert!(world.live(Side::Member, &settings("", 0)).await.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_flag_of_the_agent_decides_where_the_bundle_does_not_say() {
    let world = World::new().await;
    let agent = world.agent_with(Config {
        apply_once: ApplyOnce::Force,
        ..World::config()
    });
    let content = dispatched(&[web("i:1", 2, 1)], "app-v1", 1);
    delivered(&world, content).await;
    world.delete(Side::Member, &web("", 0, 0)).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &web("", 0, 0)).await.is_none());
    delivered(&world, in_mode("Never", &[web("i:1", 2, 1)])).await;
    assert!(
        world.live(Side::Member, &web("", 0, 0)).await.is_some(),
        "a bundle that says so goes before the flag"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_label_stripped_under_force_is_no_deletion() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Force", &[web("i:1", 2, 1)])).await;
    let before = world.live(Side::Member, &web("", 0, 0)).await.unwrap();
    // To a watch by label this looks like a deletion; the object still answers to its name, with its uid.
    let strip = json!({"metadata": {"labels": {"app.oam.dev/name": null, "app.oam.dev/revision": null}}});
    world.merge(Side::Member, &web("", 0, 0), strip).await;
    let object = web("", 0, 0);
    let live = eventually_with(
        "the labels are back",
        || world.live(Side::Member, &object),
        |live| live.as_ref().unwrap()["metadata"]["labels"]["app.oam.dev/name"] == "app",
    )
    .await;
    assert_eq!(live.unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(reason(&world.status(APP).await, APPLIED), "KeptDeleted");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_by_somebody_else_under_force_is_adopted_or_refused_as_any_other() {
    for (replicas, expected) in [(2, "Applied"), (7, "AdoptionDiffers")] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode("Force", &[web("i:1", 2, 1)])).await;
        world.delete(Side::Member, &web("", 0, 0)).await;
        pass_time(60).await;
        let mut theirs = deployment("web", "i:1", replicas);
        theirs["metadata"]["labels"] = json!({});
        world.create(Side::Member, theirs).await;
        // Only the slow resync sees it: it carries no label of ours.
        pass_time(700).await;
        assert_eq!(reason(&world.status(APP).await, APPLIED), expected, "{replicas}");
        agent.stop().await;
    }
}

/// A Job as the hub stamps it.
fn task(image: &str) -> Value {
    stamped(
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "task", "namespace": "default", "labels": {"app.oam.dev/name": "app"}},
            "spec": {"ttlSecondsAfterFinished": 1, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "main", "image": image}]}}}}),
        "WORKLOAD",
        image,
        1,
    )
}

/// How a Job may end: its terminal condition, and the phase of its bundle from then on.
const ENDS: [(&str, BundlePhase); 2] = [("Complete", Ready), ("Failed", Failed)];

/// The Job comes to an end.
async fn ends(world: &World, end: &str) {
    let ended = json!({"conditions": [{"type": end, "status": "True", "reason": "BackoffLimitExceeded",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    world.merge_status(Side::Member, &task("i:1"), ended).await;
}

/// Waits until the ledger says that the Job came to its end.
async fn recorded(world: &World) {
    eventually("the ledger knows", || async {
        world.ledger(APP).await.unwrap()["spec"]["objects"][0]["outcome"] == "Completed"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_its_ttl_took_away_is_not_made_again_however_it_ended() {
    for (mode, (end, phase)) in ["Once", "Force"]
        .into_iter()
        .flat_map(|mode| ENDS.map(|end| (mode, end)))
    {
        let world = World::new().await;
        let agent = world.agent();
        let generation = delivered(&world, in_mode(mode, &[task("i:1")])).await;
        ends(&world, end).await;
        world.reported(APP, generation, phase).await;
        recorded(&world).await;
        world.delete(Side::Member, &task("i:1")).await;
        pass_time(700).await;
        assert!(
            world.live(Side::Member, &task("i:1")).await.is_none(),
            "{mode} {end}"
        );
        let status = world.status(APP).await;
        assert_eq!(status.phase, Some(phase), "{mode} {end}");
        if phase == Failed {
            let said = status.resource_status.unwrap().manifests[0].conditions[0]
                .message
                .clone();
            assert!(said.contains("BackoffLimitExceeded"), "{said}");
        }
        // A new revision is a new Job.
        delivered(&world, in_mode(mode, &[task("i:2")])).await;
        assert!(
            world.live(Side::Member, &task("i:2")).await.is_some(),
            "{mode} {end}"
        );
        agent.stop().await;
    }
}

/// With `ttlSecondsAfterFinished: 0` a Job is on its way out before any pass has seen its end.
#[tokio::test(start_paused = true)]
async fn a_job_taken_away_as_soon_as_it_ended_is_not_made_again() {
    for (end, phase) in ENDS {
        let world = World::new().await;
        let agent = world.agent();
        let generation = delivered(&world, in_mode("Once", &[task("i:1")])).await;
        pass_time(5).await;
        let hold = json!({"metadata": {"finalizers": ["example.com/pods"]}});
        world.merge(Side::Member, &task("i:1"), hold).await;
        pass_time(5).await;
        ends(&world, end).await;
        world.delete(Side::Member, &task("i:1")).await;
        recorded(&world).await;
        let gone = json!({"metadata": {"finalizers": null}});
        world.merge(Side::Member, &task("i:1"), gone).await;
        pass_time(700).await;
        assert!(world.live(Side::Member, &task("i:1")).await.is_none(), "{end}");
        world.reported(APP, generation, phase).await;
        agent.stop().await;
    }
}

/// An HPA for an hour: a new count every minute, and the Deployment's controller behind it.
async fn autoscale(world: &World) -> u64 {
    let mut theirs = 0;
    for minute in 0..60 {
        let before = member_writes(world);
        scale(world, 3 + minute % 5).await;
        theirs += member_writes(world) - before;
        pass_time(60).await;
        assert_eq!(
            replicas(world).await,
            i64::from(3 + minute % 5),
            "minute {minute}"
        );
    }
    theirs
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_under_a_rule_for_replicas_is_left_alone() {
    for affect in ["always", "onStateKeep"] {
        let world = World::embedded().await;
        let agent = world.agent();
        let settings = settings("a", 1);
        delivered(
            &world,
            with_rule("spec.replicas", affect, &[web("i:1", 2, 1), settings.clone()]),
        )
        .await;
        pass_time(60).await;
        let before = member_writes(&world);
        let theirs = autoscale(&world).await;
        assert_eq!(
            member_writes(&world) - before,
            theirs,
            "{affect}: the agent writes nothing"
        );
        assert_eq!(reason(&world.status(APP).await, APPLIED), "Applied");
        // What the rule does not name is repaired as ever.
        set_image(&world, "by-hand").await;
        world
            .merge(Side::Member, &settings, json!({"data": {"key": "by hand"}}))
            .await;
        eventually("image and settings are back", || async {
            let map = world.live(Side::Member, &settings).await.unwrap();
            image(&world).await == "i:1" && map["data"]["key"] == "a"
        })
        .await;
        assert_eq!(replicas(&world).await, 7, "{affect}");
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_at_a_new_revision_and_what_at_a_repair() {
    // Scaled to 7 by hand; after a repair, after a new revision, and after a scale to 9 that follows it.
    for (affect, repaired, updated, repaired_again) in [
        ("always", 7, 7, 9),
        ("onUpdate", 2, 7, 7),
        ("onStateKeep", 7, 2, 9),
    ] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, with_rule("spec.replicas", affect, &[web("i:1", 2, 1)])).await;
        scale(&world, 7).await;
        pass_time(60).await;
        assert_eq!(replicas(&world).await, repaired, "{affect}: repair");
        agent.stop().await;
        // While no agent looks, so that nothing is repaired before the revision comes.
        scale(&world, 7).await;
        let generation = world
            .bundle(APP, with_rule("spec.replicas", affect, &[web("i:2", 2, 2)]))
            .await;
        let agent = world.agent();
        applied(&world, generation).await;
        assert_eq!(
            (image(&world).await.as_str(), replicas(&world).await),
            ("i:2", updated),
            "{affect}: update"
        );
        pass_time(700).await;
        assert_eq!(
            replicas(&world).await,
            updated,
            "{affect}: the repair does not undo the update"
        );
        agent.stop().await;
        let agent = world.agent();
        scale(&world, 9).await;
        pass_time(700).await;
        assert_eq!(
            replicas(&world).await,
            repaired_again,
            "{affect}: repair by a new agent"
        );
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_live_object_does_not_have_is_sent() {
    let world = World::new().await;
    let agent = world.agent();
    let rule = |manifest: Value| with_rule("spec.minReadySeconds", "always", &[manifest]);
    delivered(&world, rule(web("i:1", 2, 1))).await;
    let mut second = web("i:1", 2, 1);
    second["spec"]["minReadySeconds"] = json!(30);
    delivered(&world, rule(second.clone())).await;
    let live = world.live(Side::Member, &second).await.unwrap();
    assert_eq!(live["spec"]["minReadySeconds"], 30);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_object_by_rule_is_applied_once() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(
        &world,
        with_rule("*", "always", &[web("i:1", 2, 1), settings("a", 1)]),
    )
    .await;
    set_image(&world, "by-hand").await;
    world
        .merge(
            Side::Member,
            &settings("", 0),
            json!({"data": {"key": "by hand"}}),
        )
        .await;
    pass_time(700).await;
    assert_eq!(image(&world).await, "by-hand");
    let map = world.live(Side::Member, &settings("", 0)).await.unwrap();
    assert_eq!(
        map["data"]["key"], "a",
        "the flag decides for what no rule matches"
    );
    agent.stop().await;
}

/// The condition that says why workloads are still there.
async fn refused(world: &World) -> String {
    let status = eventually_with(
        "the removal is refused",
        || world.status(APP),
        |status| reason(status, DEGRADED) == "RemovalRefused",
    )
    .await;
    let message = roundhouse_api::condition::get(&status.conditions, DEGRADED)
        .unwrap()
        .message
        .clone();
    assert!(
        message.contains("web still asks for 2 replicas") && message.contains("scale it to 0"),
        "{message}"
    );
    message
}

fn service() -> Value {
    stamped(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default",
            "labels": {"app.oam.dev/name": "app"}}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        "TRAIT",
        "i:1",
        1,
    )
}

/// Another component.
fn other() -> Value {
    let mut map = settings("a", 1);
    map["metadata"]["name"] = json!("other");
    map["metadata"]["labels"]["app.oam.dev/component"] = json!("other");
    map
}

#[tokio::test(start_paused = true)]
async fn a_workload_with_replicas_that_left_the_bundle_goes_only_at_0_or_when_told() {
    for (mode, way) in [("Once", "scaled"), ("Force", "scaled"), ("Once", "annotated")] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode(mode, &[web("i:1", 2, 1), service(), other()])).await;
        let generation = delivered(&world, in_mode(mode, &[other()])).await;
        refused(&world).await;
        // What is wanted is there; nothing waits for what is refused.
        let status = world.reported(APP, generation, Ready).await;
        let listed = status.resource_status.unwrap().manifests;
        assert!(
            listed
                .iter()
                .any(|m| m.conditions.iter().any(|c| c.reason == "RemovalRefused")),
            "{listed:?}"
        );
        pass_time(130).await;
        let settled = world.writes();
        pass_time(3600).await;
        assert_eq!(world.writes(), settled, "{mode}: refusing writes nothing");
        for object in [web("", 0, 0), service()] {
            assert!(world.live(Side::Member, &object).await.is_some(), "{mode}");
        }
        match way {
            "scaled" => scale(&world, 0).await,
            _ => {
                let told = json!({"metadata": {"annotations": {"roundhouse.dev/prune": "true"}}});
                world.merge(Side::Member, &web("", 0, 0), told).await;
            }
        }
        // Its change is news: no back-off is waited for.
        pass_time(5).await;
        for object in [web("", 0, 0), service()] {
            assert!(world.live(Side::Member, &object).await.is_none(), "{mode} {way}");
        }
        assert_eq!(reason(&world.status(APP).await, DEGRADED), "NoFailure");
        agent.stop().await;
    }
}

/// Given a workload at 0 that left the bundle, when somebody scales it up while its deletion is on its way, then it stays: what
/// was decided on other replicas takes nothing away.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_on_its_way_does_not_take_away_what_runs_by_then() {
    let world = World::new().await;
    let (asked, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (count, holds) = (Arc::clone(&asked), Arc::clone(&held));
    let member = world.gated(Side::Member, move |method, path| {
        if method != http::Method::DELETE || !path.ends_with("/deployments/web") {
            return Pass::Through;
        }
        if holds.load(Ordering::Acquire) {
            count.fetch_add(1, Ordering::AcqRel);
            return Pass::Held;
        }
        Pass::Through
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1), other()])).await;
    scale(&world, 0).await;
    world.bundle(APP, in_mode("Once", &[other()])).await;
    eventually("its deletion is on its way", || async {
        asked.load(Ordering::Acquire) > 0
    })
    .await;
    scale(&world, 2).await;
    held.store(false, Ordering::Release);
    refused(&world).await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &web("", 0, 0)).await.is_some());
    scale(&world, 0).await;
    pass_time(5).await;
    assert!(world.live(Side::Member, &web("", 0, 0)).await.is_none());
    agent.stop().await;
}

/// Given workloads without replicas of their own that left the bundle under apply-once, when they still run something,
/// then they stay; when the Job has ended and the DaemonSet is told, they go.
#[tokio::test(start_paused = true)]
async fn a_job_or_daemon_set_that_runs_goes_only_when_it_has_ended_or_when_told() {
    let world = World::new().await;
    let agent = world.agent();
    let pods = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]}});
    let labelled = |mut object: Value, component: &str| {
        object["metadata"]["labels"] = json!({"app.oam.dev/name": "app"});
        let mut object = stamped(object, "WORKLOAD", "i:1", 1);
        object["metadata"]["labels"]["app.oam.dev/component"] = json!(component);
        object
    };
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "default"},
        "spec": {"template": pods}});
    let mut daemons = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node", "namespace":
        "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pods}});
    daemons["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let (job, daemons) = (labelled(job, "once"), labelled(daemons, "node"));
    delivered(&world, in_mode("Once", &[job.clone(), daemons.clone(), other()])).await;
    world
        .merge_status(
            Side::Member,
            &job,
            json!({"active": 1, "startTime": "2026-01-01T00:00:00Z"}),
        )
        .await;
    let scheduled = json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0,
        "numberReady": 2});
    world.merge_status(Side::Member, &daemons, scheduled).await;
    delivered(&world, in_mode("Once", &[other()])).await;
    pass_time(700).await;
    let status = world.status(APP).await;
    assert_eq!(reason(&status, DEGRADED), "RemovalRefused");
    let said = format!("{:?}", status.resource_status);
    for part in ["once still runs 1 pods", "node still runs on 2 nodes"] {
        assert!(said.contains(part), "{said}");
    }
    let ended = json!({"active": null, "succeeded": 1});
    world.merge_status(Side::Member, &job, ended).await;
    pass_time(5).await;
    assert!(world.live(Side::Member, &job).await.is_none());
    assert!(world.live(Side::Member, &daemons).await.is_some());
    let told = json!({"metadata": {"annotations": {"roundhouse.dev/prune": "true"}}});
    world.merge(Side::Member, &daemons, told).await;
    pass_time(5).await;
    assert!(world.live(Side::Member, &daemons).await.is_none());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_left_the_bundle_goes_at_once_under_off() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Never", &[web("i:1", 2, 1), other()])).await;
    delivered(&world, in_mode("Never", &[other()])).await;
    eventually("it goes", || async {
        world.live(Side::Member, &web("", 0, 0)).await.is_none()
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_refused_and_wanted_again_is_simply_there() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1), other()])).await;
    let uid = world.live(Side::Member, &web("", 0, 0)).await.unwrap()["metadata"]["uid"].clone();
    delivered(&world, in_mode("Once", &[other()])).await;
    refused(&world).await;
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1), other()])).await;
    eventually("nothing is refused", || async {
        reason(&world.status(APP).await, DEGRADED) == "NoFailure"
    })
    .await;
    assert_eq!(
        world.live(Side::Member, &web("", 0, 0)).await.unwrap()["metadata"]["uid"],
        uid
    );
    agent.stop().await;
}

async fn phase(world: &World, phase: BundlePhase) -> BundleStatus {
    eventually_with(
        &format!("phase {phase:?}"),
        || world.status(APP),
        |status| status.phase == Some(phase),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn deleting_the_application_is_a_confirmation() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Force", &[web("i:1", 2, 1), service()])).await;
    world.tombstone(APP, "application-deleted").await;
    phase(&world, Cleaned).await;
    assert!(world.live(Side::Member, &web("", 0, 0)).await.is_none());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_moved_away_is_none_until_it_is_approved_or_scaled_to_0() {
    for way in ["approved", "scaled", "application-deleted"] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode("Once", &[web("i:1", 2, 1), service(), other()])).await;
        world.tombstone(APP, "garbage-collection").await;
        refused(&world).await;
        let status = phase(&world, Progressing).await;
        assert_eq!(reason(&status, "Progressing"), "RemovalRefused");
        pass_time(130).await;
        let settled = world.writes();
        pass_time(3600).await;
        assert_eq!(world.writes(), settled, "refusing writes nothing");
        for object in [web("", 0, 0), service()] {
            assert!(world.live(Side::Member, &object).await.is_some());
        }
        match way {
            "scaled" => scale(&world, 0).await,
            "approved" => drop(world.confirm(APP, "0123456789abcdef").await),
            by => drop(world.confirm(APP, by).await),
        }
        pass_time(5).await;
        assert_eq!(world.status(APP).await.phase, Some(Cleaned), "{way}");
        for object in [web("", 0, 0), service(), other()] {
            assert!(world.live(Side::Member, &object).await.is_none(), "{way}");
        }
        assert!(world.ledger(APP).await.is_none(), "{way}");
        agent.stop().await;
    }
}

/// Given a Bundle that was emptied as the placement moved away, and workloads of it that apply-once keeps, when it loses its mode with
/// its manifests, or is deleted then, they stay until somebody confirms it; one that carries manifests says that apply-once is off.
#[tokio::test(start_paused = true)]
async fn a_mode_that_was_lost_with_the_manifests_confirms_nothing() {
    for way in ["approved", "approved while it goes", "switched off"] {
        let world = World::new().await;
        let agent = world.agent();
        delivered(&world, in_mode("Once", &[web("i:1", 2, 1), service()])).await;
        let mut emptied = in_mode("Once", &[]);
        emptied["deletion"] = json!({"revision": "app-v2", "confirmedBy": "garbage-collection"});
        world.bundle(APP, emptied.clone()).await;
        refused(&world).await;
        emptied["applyOnce"] = Value::Null;
        let generation = world.bundle(APP, emptied).await;
        applied(&world, generation).await;
        if way == "approved while it goes" {
            world.tombstone(APP, "garbage-collection").await;
        }
        pass_time(130).await;
        refused(&world).await;
        for object in [web("", 0, 0), service()] {
            assert!(world.live(Side::Member, &object).await.is_some(), "{way}");
        }
        match way {
            "switched off" => {
                let mut off = dispatched(&[other()], "app-v3", 1);
                off["deletion"] = Value::Null;
                world.bundle(APP, off).await;
            }
            _ => drop(world.confirm(APP, "0123456789abcdef").await),
        }
        eventually("they go", || async {
            world.live(Side::Member, &web("", 0, 0)).await.is_none()
        })
        .await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_vanishes_while_its_removal_is_refused_is_held_and_taken_up_again() {
    let world = World::new().await;
    let agent = world.agent();
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1)])).await;
    let uid = world.live(Side::Member, &web("", 0, 0)).await.unwrap()["metadata"]["uid"].clone();
    world.tombstone(APP, "garbage-collection").await;
    refused(&world).await;
    // As after an agent that was down meanwhile: only the ledger tells.
    agent.stop().await;
    world.release(APP).await;
    let agent = world.agent();
    world.held(APP).await;
    pass_time(700).await;
    delivered(&world, in_mode("Once", &[web("i:1", 2, 1)])).await;
    let live = world.live(Side::Member, &web("", 0, 0)).await.unwrap();
    assert_eq!(live["metadata"]["uid"], uid);
    agent.stop().await;
}

/// Its removal was refused, it was wanted again and made anew, and its application was deleted: all that while no agent ran.
#[tokio::test(start_paused = true)]
async fn of_a_bundle_that_was_made_again_the_later_one_is_obeyed_when_it_goes() {
    let world = World::new().await;
    let agent = world.agent();
    let content = || in_mode("Once", &[web("i:1", 2, 1), service()]);
    delivered(&world, content()).await;
    world.tombstone(APP, "garbage-collection").await;
    refused(&world).await;
    agent.stop().await;
    world.release(APP).await;
    world.bundle(APP, content()).await;
    let generation = world.tombstone(APP, "application-deleted").await;
    let there = world.live(Side::Hub, &bundle(APP)).await.unwrap();
    let keeps = json!({"metadata": {"finalizers": ["example.com/keeps-it"]}});
    world.merge(Side::Member, &service(), keeps).await;
    let agent = world.agent();
    eventually("it goes", || async {
        world.live(Side::Member, &web("", 0, 0)).await.is_none()
    })
    .await;
    let ledger = world.ledger(APP).await.unwrap()["spec"].clone();
    assert_eq!(ledger["bundleUid"], there["metadata"]["uid"]);
    assert!(ledger["generation"].as_i64() > Some(generation));
    agent.stop().await;
}
