//! When removals are judged, and what is said of those that wait.

use crate::{
    agents::Script,
    world::{World, web},
};
use futures::{StreamExt, stream::BoxStream};
use kube::{
    ResourceExt,
    api::{DynamicObject, WatchEvent, WatchParams},
};
use roundhouse_api::{
    application::{ApplicationPhase, ApplicationStatus, StepPhase},
    condition,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// All replicas on these clusters.
fn on(clusters: &[&str]) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {
        "placement": [{"clusters": clusters, "replicas": "100%"}]}}]}})
}

const ALL: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

type Writes = BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>;

/// Every status that is stored from now on.
async fn writes(world: &World) -> Writes {
    let api = world.applications();
    let version = api.get("app").await.unwrap().resource_version().unwrap();
    let only = WatchParams::default().fields("metadata.name=app");
    api.watch(&only, &version).await.unwrap().boxed()
}

/// The statuses in which the run of the present spec has succeeded, up to the first that says whether removals are held;
/// with the time between the first and the last.
async fn from_the_end_to_the_verdict(
    world: &World,
    writes: &mut Writes,
) -> (Vec<ApplicationStatus>, Duration) {
    let generation = world.applications().get("app").await.unwrap().metadata.generation;
    let (mut seen, mut ended) = (Vec::new(), None);
    loop {
        let next = tokio::time::timeout(Duration::from_secs(120), writes.next()).await;
        let Ok(Some(Ok(WatchEvent::Modified(object)))) = next else {
            panic!("no more writes: {next:?} after {seen:#?}")
        };
        let status: ApplicationStatus =
            serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let succeeded = status.workflow.as_ref().is_some_and(|run| {
            run.finished && run.status == Some(StepPhase::Succeeded) && run.generation == generation
        });
        if !succeeded {
            continue;
        }
        let since = *ended.get_or_insert_with(Instant::now);
        let judged = condition::get(&status.conditions, "DeletesHeld");
        let judged =
            judged.is_some_and(|held| held.status != "Unknown" && held.observed_generation == generation);
        seen.push(status);
        if judged {
            return (seen, since.elapsed());
        }
    }
}

fn verdict(status: &ApplicationStatus) -> Option<(&str, &str)> {
    let held = condition::get(&status.conditions, "DeletesHeld")?;
    Some((&held.status, &held.reason))
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_and_what_is_held_then_are_told_at_once() {
    let world = World::five().await;
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    for (clusters, expected) in [
        (&ALL[..1], ("True", "ConfirmationNeeded")),
        (&ALL[..], ("False", "NothingHeld")),
        (&ALL[..2], ("True", "ConfirmationNeeded")),
    ] {
        let mut stored = writes(&world).await;
        world.apply("app", on(clusters)).await;
        let (seen, took) = from_the_end_to_the_verdict(&world, &mut stored).await;
        assert_eq!(seen.last().and_then(verdict), Some(expected), "{clusters:?}");
        // Not after the time that lies between two writes of a status in which nothing moved.
        assert!(took < Duration::from_millis(500), "{took:?}");
        // Until then nobody is told what was found of another spec.
        for before in seen.iter().rev().skip(1) {
            assert_eq!(verdict(before), Some(("Unknown", "NotJudged")));
        }
        world.rest().await;
    }
}

/// The hash that a confirmation has to name.
async fn asked(world: &World) -> Option<String> {
    let status = world.status("app").await;
    let held = condition::get(&status.conditions, "DeletesHeld").filter(|held| held.status == "True")?;
    let (_, hash) = held.message.split_once("confirm-deletes=")?;
    Some(hash.split(' ').next()?.to_owned())
}

#[tokio::test(start_paused = true)]
async fn confirmed_removals_wait_for_what_replaces_them_and_say_so() {
    let world = World::five().await;
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", on(&ALL[..1])).await;
    let hash = world.until("app", "the removals are held", asked).await;
    world.agents.script("c1", Script::Applied).await;
    world.until_phase("app", ApplicationPhase::Unhealthy).await;
    world.rest().await;
    assert_eq!(asked(&world).await, Some(hash.clone()), "the question stays");
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}}),
        )
        .await;
    world.rest().await;
    let status = world.status("app").await;
    assert_eq!(verdict(&status), Some(("False", "WaitsForClusters")));
    assert_eq!(status.held_deletes, None, "nothing is asked any more");
    assert_eq!(
        condition::get(&status.conditions, "DeletesHeld").unwrap().message,
        "4 clusters keep default/app until what replaces it runs: c2, c3, c4, c5; waiting for c1"
    );
    assert_eq!(world.dispatched("app").await.len(), 5);
    world.agents.script("c1", Script::Ready).await;
    for cluster in &ALL[1..] {
        world.until_removed("app", cluster).await;
    }
    world.rest().await;
    assert_eq!(
        verdict(&world.status("app").await),
        Some(("False", "NothingHeld"))
    );
}

/// Given Bundles whose removal is held, when somebody deletes them by hand, then the clusters keep the objects, the question stays, and
/// its answer reaches them.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_by_hand_and_is_not_wanted_goes_with_the_confirmation() {
    let world = World::five().await;
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", on(&ALL[..1])).await;
    world.until("app", "the removals are held", asked).await;
    for cluster in &ALL[1..] {
        world.delete_bundle(cluster, "app").await;
    }
    world.rest().await;
    let status = world.status("app").await;
    let noted: Vec<&str> = status.let_go.iter().map(|note| note.cluster.as_str()).collect();
    assert_eq!(noted, &ALL[1..]);
    assert_eq!(world.dispatched("app").await.len(), 1);
    let hash = asked(&world).await.unwrap();
    let confirmed = json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
    for cluster in &ALL[1..] {
        world.agents.script(cluster, Script::Silent).await;
    }
    world.patch("app", confirmed).await;
    for cluster in &ALL[1..] {
        let by = world
            .until("app", &format!("{cluster} is told"), async |world: &World| {
                world.bundle(cluster, "app").await?.spec.deletion
            })
            .await
            .confirmed_by;
        assert_eq!(by, hash);
    }
    world.rest().await;
    assert_eq!(world.status("app").await.let_go, []);
    for cluster in &ALL[1..] {
        world.agents.script(cluster, Script::Ready).await;
        world.until_removed("app", cluster).await;
    }
    world.rest().await;
    assert_eq!(world.dispatched("app").await.len(), 1);
    assert_eq!(asked(&world).await, None);
}

/// Given a confirmation of which a hub has carried out a part when it is killed, when another one goes on, then it does the rest by the
/// same confirmation, and asks nothing anew.
#[tokio::test(start_paused = true)]
async fn a_confirmation_goes_on_after_the_hub() {
    let mut world = World::five().await;
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", on(&ALL[..1])).await;
    let hash = world.until("app", "the removals are held", asked).await;
    world.rest().await;
    world.stop_hub().await;
    let confirmed = json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
    world.patch("app", confirmed).await;
    for cluster in &ALL[1..3] {
        world.confirm_bundle(cluster, "app", &hash).await;
    }
    for cluster in &ALL[1..] {
        world.agents.script(cluster, Script::Silent).await;
    }
    let mut stored = writes(&world).await;
    world.start_hub();
    for cluster in &ALL[1..] {
        let by = world
            .until("app", &format!("{cluster} goes"), async |world: &World| {
                let bundle = world.bundle(cluster, "app").await?;
                bundle.metadata.deletion_timestamp.as_ref()?;
                bundle.spec.deletion
            })
            .await
            .confirmed_by;
        assert_eq!(by, hash, "{cluster}");
    }
    for cluster in &ALL[1..] {
        world.agents.script(cluster, Script::Ready).await;
        world.until_removed("app", cluster).await;
    }
    world.rest().await;
    assert_eq!(asked(&world).await, None);
    while let Ok(Some(Ok(event))) = tokio::time::timeout(Duration::from_secs(1), stored.next()).await {
        let WatchEvent::Modified(object) = event else {
            continue;
        };
        let held = object.data["status"].pointer("/heldDeletes/hash");
        assert!(held.is_none_or(|held| *held == json!(hash)), "{held:?}");
    }
}

/// Given a cluster that keeps its Bundle without replicas, when somebody deletes that, then its objects are held: the application still
/// has a place there.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_by_hand_where_a_share_is_nothing_is_held() {
    let world = World::five().await;
    let replicas = |count: u32| {
        json!({"components": web("nginx:1"), "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {
            "placement": [{"clusters": ALL, "replicas": count}]}}]}})
    };
    world.apply("app", replicas(5)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", replicas(2)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let shares = world.replicas("app").await;
    assert_eq!(shares.len(), 5);
    let none = shares.iter().find(|(_, count)| **count == 0).unwrap().0;
    world.delete_bundle(none, "app").await;
    world.rest().await;
    let status = world.status("app").await;
    assert_eq!(status.let_go.len(), 1, "{status:#?}");
    assert!(world.bundle(none, "app").await.is_none());
    assert_eq!(status.removals, None, "nothing counts as removed");
}

/// Given removals that were asked about, when they are no longer wanted before somebody confirms them, then that confirmation is of no
/// later question about the same Bundles.
#[tokio::test(start_paused = true)]
async fn a_confirmation_that_comes_too_late_confirms_nothing_later() {
    let world = World::five().await;
    let confirm = |hash: &str| json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", on(&ALL[..1])).await;
    let hash = world.until("app", "the removals are held", asked).await;
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    assert_eq!(asked(&world).await, None);
    world.patch("app", confirm(&hash)).await;
    world.rest().await;
    assert_eq!(world.status("app").await.spent_confirmation.as_ref(), Some(&hash));
    world.apply("app", on(&ALL[..1])).await;
    let second = world.until("app", "the removals are held once more", asked).await;
    assert_ne!(second, hash);
    world.rest().await;
    assert_eq!(world.dispatched("app").await.len(), 5);
    // What means nothing is not noted, and answers nothing.
    world.patch("app", confirm("yes")).await;
    world.rest().await;
    assert_eq!(asked(&world).await.as_ref(), Some(&second));
    world.patch("app", confirm(&second)).await;
    for cluster in &ALL[1..] {
        world.until_removed("app", cluster).await;
    }
    world.rest().await;
    assert_eq!(world.status("app").await.spent_confirmation, Some(second));
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_condition_over_the_fleet_holds_is_at_rest() {
    let east = ALL.map(|name| (name, "east"));
    let world = World::new(&east).await;
    world.agents.script("c3", Script::Applied).await;
    let steps = json!([{"name": "east", "type": "deploy", "properties": {
        "placement": [{"clusterSelector": {"region": "east"}}], "wait": {"until": "fleet.ready >= 2"}}}]);
    world
        .apply(
            "app",
            json!({"components": web("nginx:1"), "workflow": {"steps": steps}}),
        )
        .await;
    world.until_phase("app", ApplicationPhase::Unhealthy).await;
    world.label_cluster("c5", json!({"region": "north"})).await;
    world.until_removed("app", "c5").await;
    // Not while it does not hold.
    for cluster in ["c1", "c2"] {
        world.agents.script(cluster, Script::Applied).await;
    }
    world.rest().await;
    world.label_cluster("c4", json!({"region": "north"})).await;
    world.rest().await;
    assert!(world.bundle("c4", "app").await.is_some());
    let status = world.status("app").await;
    assert_eq!(verdict(&status), Some(("False", "WaitsForClusters")));
}
