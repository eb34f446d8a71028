//! Placements that applications refer to.

use crate::world::{World, web};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::ApplicationPhase,
    condition,
    placement::{Placement, PlacementStatus},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn placements(world: &World) -> Api<DynamicObject> {
    Api::namespaced_with(
        world.client.clone(),
        "default",
        &ApiResource::erase::<Placement>(&()),
    )
}

/// Creates a Placement, or replaces its spec.
async fn place(world: &World, name: &str, spec: Value) {
    let api = placements(world);
    if api.get_opt(name).await.unwrap().is_some() {
        let patch =
            serde_json::from_value(json!([{"op": "replace", "path": "/spec", "value": spec}])).unwrap();
        api.patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await
            .unwrap();
        return;
    }
    let object = DynamicObject::new(name, &ApiResource::erase::<Placement>(&())).data(json!({"spec": spec}));
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn shares(east: &str, west: &str) -> Value {
    json!({"placement": [
        {"name": "east", "clusterSelector": {"region": "east"}, "replicas": east},
        {"name": "west", "clusterSelector": {"region": "west"}, "replicas": west}]})
}

fn referring(image: &str) -> Value {
    json!({"components": web(image), "workflow": {"steps": [
        {"name": "all", "type": "deploy", "properties": {"placementRef": {"name": "regions"}}}]}})
}

async fn placed(world: &World, app: &str) -> (String, String) {
    let status = world.status(app).await;
    let condition = condition::get(&status.conditions, "Placed").cloned();
    condition.map(|c| (c.reason, c.message)).unwrap_or_default()
}

async fn status_of(world: &World, name: &str) -> PlacementStatus {
    let object = placements(world).get(name).await.unwrap();
    serde_json::from_value(object.data["status"].clone()).unwrap_or_default()
}

async fn until_status(
    world: &World,
    what: &str,
    check: impl Fn(&PlacementStatus) -> bool,
) -> PlacementStatus {
    world
        .until("app", what, async |world: &World| {
            let status = status_of(world, "regions").await;
            check(&status).then_some(status)
        })
        .await
}

fn of(replicas: &BTreeMap<String, u64>, clusters: &[&str]) -> u64 {
    clusters.iter().filter_map(|c| replicas.get(*c)).sum()
}

const EAST: [&str; 3] = ["c1", "c2", "c3"];
const WEST: [&str; 2] = ["c4", "c5"];

#[tokio::test(start_paused = true)]
async fn a_change_of_a_placement_redecides_what_refers_to_it_without_a_new_run() {
    let world = World::five().await;
    place(&world, "regions", shares("70%", "20%")).await;
    world.apply("app", referring("nginx:1")).await;
    let before = world.until_phase("app", ApplicationPhase::Running).await;
    let replicas = world.replicas("app").await;
    assert_eq!((of(&replicas, &EAST), of(&replicas, &WEST)), (7, 2));
    place(&world, "regions", shares("50%", "50%")).await;
    world
        .until("app", "the new shares are there", async |world: &World| {
            let replicas = world.replicas("app").await;
            (of(&replicas, &EAST) == 5 && of(&replicas, &WEST) == 5).then_some(())
        })
        .await;
    let after = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(after.latest_revision, before.latest_revision);
    assert_eq!(
        after.workflow.unwrap().start_time,
        before.workflow.unwrap().start_time
    );
}

/// Replicas that a step places of a workload of this kind.
async fn divided(world: &World, step: &str, kind: &str) -> u32 {
    let decision = world.decision(&format!("app-{step}")).await.unwrap();
    let mut workloads = decision.spec.workloads.iter();
    workloads.find(|w| w.workload.kind == kind).unwrap().placed
}

/// East was placed with the old shares when they changed: west gets no more than east leaves, until the run is over. What
/// was divided of the Job stays so.
#[tokio::test(start_paused = true)]
async fn shares_that_change_during_a_run_place_no_more_than_there_is() {
    let world = World::five().await;
    let share = |region: &str, share: &str| json!({"placement": [{"name": region, "clusterSelector": {"region": region}, "replicas": share}]});
    place(&world, "a", share("east", "70%")).await;
    place(&world, "b", share("west", "30%")).await;
    let mut components = web("nginx:1");
    let import = json!({"name": "import", "type": "task", "properties": {"image": "import:1", "count": 10}});
    components.as_array_mut().unwrap().push(import);
    let deploy = |name: &str, placement: &str| json!({"name": name, "type": "deploy", "properties": {"placementRef": {"name": placement}}});
    let spec = json!({"components": components, "workflow": {"steps": [
        deploy("east", "a"), {"name": "look", "type": "suspend"},
        deploy("west", "b"), {"name": "again", "type": "suspend"}]}});
    world.apply("app", spec).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    place(&world, "a", share("east", "30%")).await;
    place(&world, "b", share("west", "70%")).await;
    world.rest().await;
    world.resume("app").await;
    world
        .until("app", "west is placed", async |world: &World| {
            let placed = world.decision("app-west").await.is_some();
            (placed && world.status("app").await.phase == Some(ApplicationPhase::WorkflowSuspending))
                .then_some(())
        })
        .await;
    for kind in ["Deployment", "Job"] {
        let both = (
            divided(&world, "east", kind).await,
            divided(&world, "west", kind).await,
        );
        assert_eq!(both, (7, 3), "{kind}");
    }
    let reasons = world.decision("app-west").await.unwrap().spec.reasons;
    let expected = |workload: &str, until: &str| {
        format!(
            "step east was divided before the placement changed and holds 7 of the 10 replicas of {workload}: rule west gets 3 of 7; {until}"
        )
    };
    let deployment = expected(
        "Deployment default/web",
        "all steps are divided anew when the run has succeeded",
    );
    let job = "rule west got 3 of its 7 replicas of Job default/import: the others were taken when it was divided, and a Job is \
               divided once per revision: change the Job to divide it anew";
    assert_eq!(reasons, [deployment.as_str(), job]);
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world
        .until("app", "all follow the shares", async |world: &World| {
            let replicas = world.replicas("app").await;
            (of(&replicas, &EAST) == 3 && of(&replicas, &WEST) == 7).then_some(())
        })
        .await;
    world.rest().await;
    assert_eq!(
        (
            divided(&world, "east", "Job").await,
            divided(&world, "west", "Job").await
        ),
        (7, 3)
    );
    assert_eq!(world.decision("app-west").await.unwrap().spec.reasons, [job]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_placement_is_waited_for() {
    let world = World::five().await;
    world.apply("app", referring("nginx:1")).await;
    world.rest().await;
    let message = "spec.workflow.steps[0].properties.placementRef: there is no Placement \"regions\" in the application's \
                   namespace: create it, or name another one; nothing is placed anew until then";
    let status = world.status("app").await;
    assert!(condition::is_true(&status.conditions, "Accepted"));
    assert_eq!(status.workflow.unwrap().message.as_deref(), Some(message));
    assert_eq!(
        placed(&world, "app").await,
        ("PlacementMissing".to_owned(), message.to_owned())
    );
    assert!(world.decision("app-all").await.is_none() && world.replicas("app").await.is_empty());
    place(&world, "regions", shares("70%", "30%")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(placed(&world, "app").await.0, "Satisfied");
}

/// Nothing had been decided when it was stopped, so nothing is until it goes on.
#[tokio::test(start_paused = true)]
async fn a_placement_that_comes_when_its_run_was_stopped_starts_nothing() {
    for stop in ["terminated", "suspend"] {
        let world = World::five().await;
        world.apply("app", referring("nginx:1")).await;
        world.rest().await;
        world.patch_status("app", json!({"workflow": {stop: true}})).await;
        world.rest().await;
        place(&world, "regions", shares("70%", "30%")).await;
        world.rest().await;
        assert!(world.decision("app-all").await.is_none(), "{stop}");
        assert!(world.replicas("app").await.is_empty(), "{stop}");
        match stop {
            "suspend" => world.resume("app").await,
            _ => {
                let anew = json!({"phase": "runningWorkflow", "workflow": null});
                world.patch_status("app", anew).await;
            }
        }
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(world.replicas("app").await.len(), 5, "{stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_stays_when_its_placement_is_deleted_or_refused() {
    let world = World::five().await;
    place(&world, "regions", shares("70%", "30%")).await;
    world.apply("app", referring("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let (bundles, decision) = (world.dispatched("app").await, world.decision("app-all").await);

    // A field that the schema does not have arrives, and is refused by name instead of giving everybody everything.
    place(&world, "regions", json!({"placement": [{"replica": "70%"}]})).await;
    world
        .until("app", "it is said", async |world: &World| {
            (placed(world, "app").await.0 == "PlacementNotAccepted").then_some(())
        })
        .await;
    let (_, message) = placed(&world, "app").await;
    assert!(
        message.starts_with(
            "spec.workflow.steps[0].properties.placementRef: Placement \"regions\" is not accepted \
             (spec.placement[0].replica: unknown field: did you mean \"replicas\"?"
        ),
        "{message}"
    );
    placements(&world)
        .delete("regions", &DeleteParams::default())
        .await
        .unwrap();
    world
        .until("app", "it is said", async |world: &World| {
            (placed(world, "app").await.0 == "PlacementMissing").then_some(())
        })
        .await;
    // A cluster that leaves the rules meanwhile keeps its place, and nothing is removed.
    world.label_cluster("c1", json!({"region": "west"})).await;
    world.rest().await;
    assert_eq!(world.dispatched("app").await, bundles);
    let kept = world.decision("app-all").await;
    assert_eq!(kept.map(|d| d.spec), decision.map(|d| d.spec));
    assert_eq!(world.status("app").await.phase, Some(ApplicationPhase::Running));

    // A new revision waits as well, with the old one in place.
    world.apply("app", referring("nginx:2")).await;
    world.rest().await;
    assert_eq!(world.dispatched("app").await, bundles);
    let status = world.status("app").await;
    assert_eq!(status.phase, Some(ApplicationPhase::RunningWorkflow));
    assert!(
        status
            .workflow
            .unwrap()
            .message
            .unwrap()
            .contains("there is no Placement \"regions\"")
    );

    place(&world, "regions", shares("70%", "30%")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.images("app").await, ["nginx:2"]);
}

#[tokio::test(start_paused = true)]
async fn percentages_that_are_too_much_only_together_are_waited_out() {
    let world = World::five().await;
    place(&world, "regions", shares("60%", "30%")).await;
    let mut spec = referring("nginx:1");
    spec["workflow"]["steps"].as_array_mut().unwrap().push(
        json!({"name": "more", "type": "deploy", "properties": {"placement": [{"clusters": ["c5"], "replicas": "11%"}]}}),
    );
    world.apply("app", spec).await;
    world.rest().await;
    assert_eq!(
        placed(&world, "app").await,
        (
            "PlacementsConflict".to_owned(),
            "spec.workflow.steps: the percentages of all placing steps add up to 101% (60% in all/east, 30% in all/west, 11% \
             in more/rule-0): at most 100% can be claimed; nothing is placed anew until then"
                .to_owned()
        )
    );
    assert!(world.replicas("app").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_placement_is_kept_true_and_written_only_when_it_differs() {
    let world = World::five().await;
    place(&world, "regions", shares("70%", "30%")).await;
    let status = until_status(&world, "its status is there", |s| s.satisfied.is_some()).await;
    assert_eq!(
        (status.satisfied, status.observed_generation),
        (Some(true), Some(1))
    );
    assert_eq!(
        (
            status.counts.matched,
            status.counts.eligible,
            status.counts.applications
        ),
        (5, 5, 0)
    );
    assert!(status.counts.excluded.is_empty() && status.reasons.is_empty());
    assert!(condition::is_true(&status.conditions, "Accepted"));

    world.apply("app", referring("nginx:1")).await;
    world.apply("other", referring("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_status(&world, "it is referred to", |s| s.counts.applications == 2).await;

    world
        .taint_cluster("c4", json!([{"key": "gpu", "effect": "NoSchedule"}]))
        .await;
    world.label_cluster("c5", json!({"region": "north"})).await;
    let status = until_status(&world, "west is gone", |s| s.satisfied == Some(false)).await;
    assert_eq!((status.counts.matched, status.counts.eligible), (4, 3));
    let excluded: Vec<_> = status
        .counts
        .excluded
        .iter()
        .map(|e| (e.reason.as_str(), e.count))
        .collect();
    assert_eq!(excluded, [("Tainted", 1)]);
    assert_eq!(status.reasons.len(), 1, "{:?}", status.reasons);

    // Nothing happens: nothing is written, by a restart of the hub neither.
    let before = world.rest().await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.server().counter().total_stored(), before);

    place(&world, "regions", json!({"placement": []})).await;
    let status = until_status(&world, "it is refused", |s| s.observed_generation == Some(2)).await;
    let accepted = condition::get(&status.conditions, "Accepted").unwrap();
    assert_eq!(
        (
            accepted.status.as_str(),
            accepted.reason.as_str(),
            accepted.message.as_str()
        ),
        (
            "False",
            "Invalid",
            "spec.placement: is empty: list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}]"
        )
    );
    assert_eq!(status.satisfied, None);
    world.delete("other").await;
    until_status(&world, "one is left", |s| s.counts.applications == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_starts_anew_rewrites_no_placement() {
    let mut world = World::five().await;
    place(&world, "regions", shares("70%", "30%")).await;
    world.apply("app", referring("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    assert_eq!(world.rest().await, before);
}

#[tokio::test(start_paused = true)]
async fn overrides_of_components_reach_the_clusters_of_their_step_and_survive_a_lost_bundle() {
    let mut world = World::five().await;
    let spec = |base: &str, canary: &str| {
        json!({"components": web(base), "policies": [
            {"name": "one", "type": "topology", "properties": {"clusters": ["c1"]}},
            {"name": "canary", "type": "override", "properties": {"components": [
                {"name": "web", "properties": {"image": canary, "labels": {"tier": ""}}}]}}],
          "workflow": {"steps": [
            {"name": "first", "type": "deploy", "properties": {"policies": ["one", "canary"]}},
            {"name": "look", "type": "suspend"},
            {"name": "west", "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": "west"}, "replicas": "100%"}]}}]}})
    };
    world.apply("app", spec("nginx:1", "nginx:1-canary")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let images = async |world: &World| -> BTreeMap<String, String> {
        let all = world.dispatched("app").await;
        all.into_iter()
            .map(|(cluster, (_, image))| (cluster, image))
            .collect()
    };
    let expected = |c1: &str, west: &str| -> BTreeMap<String, String> {
        [("c1", c1), ("c4", west), ("c5", west)]
            .map(|(c, i)| (c.to_owned(), i.to_owned()))
            .into()
    };
    assert_eq!(images(&world).await, expected("nginx:1-canary", "nginx:1"));
    let manifests = world.bundle("c1", "app").await.unwrap().spec.workload.manifests;
    assert_eq!(
        manifests[0]["metadata"]["labels"]["tier"], "",
        "an explicit empty value"
    );

    // Only the canary changes; a bundle of the former revision that is lost comes back as it was, from the record.
    world.apply("app", spec("nginx:2", "nginx:2-canary")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    assert_eq!(images(&world).await, expected("nginx:2-canary", "nginx:1"));
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(images(&world).await, expected("nginx:2-canary", "nginx:2"));
    let before = world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    assert_eq!(world.rest().await, before, "rendered again it is the same");

    // A run that waits before the canary: its bundle is made again from the record of the former revision.
    let mut held = spec("nginx:3", "nginx:3-canary");
    held["workflow"]["steps"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "hold", "type": "suspend"}));
    world.apply("app", held).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    let lost = world.bundle("c1", "app").await.unwrap();
    let bundles: Api<roundhouse_api::bundle::Bundle> = Api::namespaced(world.client.clone(), "cluster-c1");
    bundles
        .delete("default.app", &DeleteParams::default())
        .await
        .unwrap();
    let again = world
        .until("app", "it is made again", async |world: &World| {
            let bundle = world.bundle("c1", "app").await?;
            (bundle.metadata.uid != lost.metadata.uid).then_some(bundle)
        })
        .await;
    assert_eq!(again.spec.hash, lost.spec.hash);
    assert_eq!(images(&world).await, expected("nginx:2-canary", "nginx:2"));
}
