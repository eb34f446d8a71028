//! Steps with an object in clusters, and steps that wait for an object on the hub.

use crate::{
    agents::Script,
    world::{World, region, web},
};
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{ActionProperties, ApplicationPhase, StepPhase},
    bundle::{Bundle, UpdateStrategyType},
    condition,
};
use roundhouse_hub::{
    action::{Executor, Job, Outcome},
    application::ApplicationOptions,
    tenancy::Tenancy,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

pub(crate) const FLAGS: &str = "default.app.step.flags";

pub(crate) fn flags(clusters: &Value, value: &str) -> Value {
    json!({"name": "flags", "type": "apply-object", "properties": {"clusters": clusters, "value":
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}, "data": {"a": value}}}})
}

pub(crate) fn app(steps: &[Value]) -> Value {
    json!({"components": web("nginx:1"), "workflow": {"steps": steps}})
}

pub(crate) fn east() -> Value {
    region("east", "east", "100%")
}

/// Cluster → the Bundle of that name.
pub(crate) async fn named(world: &World, name: &str) -> BTreeMap<String, Bundle> {
    let all: Api<Bundle> = Api::all(world.client.clone());
    let all = all.list(&Default::default()).await.unwrap();
    let own = all.into_iter().filter(|bundle| bundle.name_any() == name);
    own.map(|bundle| (bundle.namespace().unwrap().replacen("cluster-", "", 1), bundle))
        .collect()
}

pub(crate) async fn clusters_of(world: &World, name: &str) -> Vec<String> {
    named(world, name).await.into_keys().collect()
}

/// Waits until these clusters, and no others, have the Bundle.
pub(crate) async fn until_on(world: &World, name: &str, clusters: &[&str]) {
    world
        .until(
            "app",
            &format!("{name} on {clusters:?}"),
            async |world: &World| (clusters_of(world, name).await == clusters).then_some(()),
        )
        .await;
}

pub(crate) async fn until_says(world: &World, text: &str) {
    world
        .until("app", text, async |world: &World| {
            let message = world.status("app").await.workflow?.message?;
            message.contains(text).then_some(())
        })
        .await;
}

pub(crate) fn object(bundle: &Bundle) -> &Value {
    &bundle.spec.workload.manifests[0]
}

#[tokio::test(start_paused = true)]
async fn an_object_is_applied_in_its_clusters_before_the_next_step_and_follows_the_fleet() {
    let world = World::five().await;
    world.agents.script("c2", Script::Applied).await;
    world
        .apply("app", app(&[flags(&json!({"region": "east"}), "1"), east()]))
        .await;
    until_says(&world, "waiting for 1 of 3 clusters: c2").await;
    assert_eq!(clusters_of(&world, FLAGS).await, ["c1", "c2", "c3"]);
    assert!(world.replicas("app").await.is_empty(), "the next step waits");
    let bundle = named(&world, FLAGS).await.remove("c1").unwrap();
    let made = object(&bundle);
    assert_eq!(made["data"], json!({"a": "1"}));
    assert_eq!(made["metadata"]["namespace"], "default");
    let labels = &made["metadata"]["labels"];
    assert_eq!(
        (&labels["app.oam.dev/name"], &labels["roundhouse.dev/step"]),
        (&json!("app"), &json!("flags"))
    );
    assert_eq!(
        bundle.spec.application_ref.as_ref().unwrap().name,
        "app",
        "it is the application's to remove"
    );
    world.agents.script("c2", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.replicas("app").await.len(), 3);
    let before = world.rest().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        world.rest().await,
        before,
        "nothing is written when nothing happens"
    );

    // One that fails there is the application's trouble.
    world.agents.script("c3", Script::Failed).await;
    world.until_phase("app", ApplicationPhase::Unhealthy).await;
    world.agents.script("c3", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;

    // A cluster that joins gets the object as it gets the application; one that leaves the region loses it.
    world.join("c6", &[("region", "east")]).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3", "c6"]).await;
    world.label_cluster("c6", json!({"region": "north"})).await;
    until_on(&world, FLAGS, &["c1", "c2", "c3"]).await;

    // Other content is another generation, and what is shown of the former one does not count.
    world.agents.script("c1", Script::Silent).await;
    world
        .apply("app", app(&[flags(&json!({"region": "east"}), "2"), east()]))
        .await;
    until_says(&world, "waiting for 1 of 3 clusters: c1").await;
    let bundle = named(&world, FLAGS).await.remove("c1").unwrap();
    assert_eq!(object(&bundle)["data"], json!({"a": "2"}));
    world.agents.script("c1", Script::Ready).await;
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn objects_go_after_a_run_that_no_longer_has_their_step_and_with_the_application() {
    let world = World::five().await;
    let ask = json!({"name": "ask", "type": "suspend"});
    world
        .apply("app", app(&[flags(&json!(["c1", "c4"]), "1"), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c1", "c4"]).await;
    // A step with an `if` that does not hold is as good as none.
    let mut off = flags(&json!(["c1", "c4"]), "1");
    off["if"] = json!("false");
    world.apply("app", app(&[off, east(), ask])).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    until_on(&world, FLAGS, &["c1", "c4"]).await;
    world
        .patch_status("app", json!({"workflow": {"suspend": false}}))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // Two of four clusters lose something: that is more than goes by itself.
    let hash = world
        .until("app", "the confirmation", async |world: &World| {
            let status = world.status("app").await;
            let held = condition::get(&status.conditions, "DeletesHeld")?;
            let (_, behind) = held.message.split_once("roundhouse.dev/confirm-deletes=")?;
            (held.status == "True").then(|| behind.split(' ').next().unwrap().to_owned())
        })
        .await;
    until_on(&world, FLAGS, &["c1", "c4"]).await;
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}}),
        )
        .await;
    until_on(&world, FLAGS, &[]).await;
    assert_eq!(world.replicas("app").await.len(), 3, "the application stays");

    world
        .apply("app", app(&[flags(&json!(["c1", "c4"]), "1"), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    until_on(&world, FLAGS, &["c1", "c4"]).await;
    world.delete("app").await;
    world.until_gone("app").await;
    assert_eq!(clusters_of(&world, FLAGS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn clusters_that_lose_the_application_are_counted_though_an_object_stays() {
    let world = World::five().await;
    world
        .apply(
            "app",
            app(&[flags(&json!({}), "1"), region("all", "east", "100%")]),
        )
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let west = app(&[flags(&json!({}), "1"), region("all", "west", "100%")]);
    world.apply("app", west).await;
    world
        .until("app", "the removal is held", async |world: &World| {
            let status = world.status("app").await;
            let held = condition::get(&status.conditions, "DeletesHeld")?;
            (held.status == "True"
                && held
                    .message
                    .contains("3 clusters would lose default/app: c1, c2, c3"))
            .then_some(())
        })
        .await;
    world.rest().await;
    assert_eq!(clusters_of(&world, FLAGS).await.len(), 5);
}

/// Given objects of a step that the workflow has no longer, when somebody deletes their Bundles before they are collected, then the
/// clusters are told all the same, and nothing is noted of them any more.
#[tokio::test(start_paused = true)]
async fn objects_of_a_former_step_go_although_somebody_deleted_their_bundles() {
    let world = World::five().await;
    world
        .apply("app", app(&[flags(&json!(["c1", "c4"]), "1"), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.apply("app", app(&[east()])).await;
    let asked = async |world: &World| {
        let held = world.status("app").await.held_deletes?;
        Some(held.hash)
    };
    world.until("app", "the removals are held", asked).await;
    for cluster in ["c1", "c4"] {
        world.delete_bundle(cluster, "app.step.flags").await;
    }
    until_on(&world, FLAGS, &[]).await;
    world.rest().await;
    assert_eq!(world.status("app").await.let_go.len(), 2);
    let hash = world.until("app", "they are asked about", asked).await;
    for cluster in ["c1", "c4"] {
        world.agents.script(cluster, Script::Silent).await;
    }
    let confirmed = json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
    world.patch("app", confirmed).await;
    until_on(&world, FLAGS, &["c1", "c4"]).await;
    world.rest().await;
    for bundle in named(&world, FLAGS).await.into_values() {
        assert_eq!(bundle.spec.deletion.unwrap().confirmed_by, hash);
        assert!(bundle.metadata.deletion_timestamp.is_some());
    }
    assert_eq!(world.status("app").await.let_go, []);
    for cluster in ["c1", "c4"] {
        world.agents.script(cluster, Script::Ready).await;
    }
    until_on(&world, FLAGS, &[]).await;
    assert_eq!(world.replicas("app").await.len(), 3, "the application stays");
}

/// Reads the flags of two clusters, and gives a value of them to an object in a third.
fn reading(clusters: &Value) -> Value {
    let mut told = flags(&json!(["c4"]), "none");
    told["inputs"] = json!([{"from": "seen", "parameterKey": "value.data.a"}]);
    app(&[
        json!({"name": "look", "type": "read-object", "outputs": [{"name": "seen", "valueFrom": "output.data.a"}],
            "properties": {"clusters": clusters, "apiVersion": "v1", "kind": "ConfigMap", "name": "gate"}}),
        told,
        east(),
    ])
}

#[tokio::test(start_paused = true)]
async fn what_clusters_report_of_an_object_has_to_agree_and_is_looked_at_anew_in_each_run() {
    const LOOK: &str = "default.app.step.look";
    let mut world = World::five().await;
    world.apply("app", reading(&json!(["c1", "c2"]))).await;
    until_says(&world, "waiting for output \"seen\": no value from c1, c2").await;
    let bundle = named(&world, LOOK).await.remove("c1").unwrap();
    let strategy = bundle.spec.manifest_configs[0].update_strategy.clone().unwrap();
    assert_eq!(strategy.type_, UpdateStrategyType::ReadOnly);
    assert_eq!(object(&bundle)["metadata"]["name"], "gate");
    assert!(object(&bundle).get("data").is_none(), "nothing is written");
    world.agents.say("c1", "seen", "1").await;
    world.agents.say("c2", "seen", "2").await;
    until_says(&world, "clusters c1 and c2 report different values").await;
    // A hub that is killed goes on where it was.
    world.stop_hub().await;
    world.start_hub();
    world.agents.say("c2", "seen", "1").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let told = named(&world, FLAGS).await.remove("c4").unwrap();
    assert_eq!(object(&told)["data"], json!({"a": "1"}));
    // What was read is no loss: it goes without a confirmation.
    until_on(&world, LOOK, &[]).await;
    let status = world.status("app").await;
    assert!(condition::get(&status.conditions, "DeletesHeld").is_none_or(|c| c.status == "False"));
    // What was said then says nothing now.
    for cluster in ["c1", "c2"] {
        world.agents.silence(cluster, "seen").await;
    }
    world
        .patch_status("app", json!({"workflow": {"restartFrom": "look"}}))
        .await;
    until_says(&world, "waiting for output \"seen\": no value from c1, c2").await;
    let again = named(&world, LOOK).await.remove("c1").unwrap();
    assert_ne!(again.spec.hash, bundle.spec.hash, "each run asks for itself");
    for cluster in ["c1", "c2"] {
        world.agents.say(cluster, "seen", "3").await;
    }
    world.until_phase("app", ApplicationPhase::Running).await;
    world
        .until("app", "the new value", async |world: &World| {
            let told = named(world, FLAGS).await.remove("c4")?;
            (object(&told)["data"] == json!({"a": "3"})).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn no_cluster_is_no_success_and_an_unreachable_one_is_waited_for() {
    let world = World::five().await;
    world
        .apply("app", app(&[flags(&json!({"region": "mars"}), "1"), east()]))
        .await;
    until_says(&world, "no cluster is chosen").await;
    world.join("c6", &[("region", "mars")]).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c6", Script::Silent).await;
    world.available("c6", false).await;
    world
        .apply("app", app(&[flags(&json!({"region": "mars"}), "2"), east()]))
        .await;
    until_says(&world, "c6 (agent unreachable since").await;
    let status = world.status("app").await;
    assert_eq!(status.workflow.unwrap().steps[0].phase, StepPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_of_an_object_that_is_taken_away_is_made_again() {
    let world = World::five().await;
    world
        .apply("app", app(&[flags(&json!(["c1"]), "1"), east()]))
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = named(&world, FLAGS).await.remove("c1").unwrap();
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), "cluster-c1");
    bundles
        .patch(
            FLAGS,
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"finalizers": null}})),
        )
        .await
        .unwrap();
    bundles.delete(FLAGS, &Default::default()).await.unwrap();
    world
        .until("app", "it is made again", async |world: &World| {
            let bundle = named(world, FLAGS).await.remove("c1")?;
            (bundle.uid() != before.uid() && bundle.spec.hash == before.spec.hash).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn tenancy_judges_the_objects_of_steps() {
    let options = ApplicationOptions {
        tenancy: Tenancy::Namespace,
        ..ApplicationOptions::default()
    };
    let world = World::with_options(&[("c1", "east")], options).await;
    let mut step = flags(&json!(["c1"]), "1");
    step["properties"]["value"]["metadata"]["namespace"] = json!("kube-system");
    world.apply("app", app(&[step, east()])).await;
    let message = world
        .until("app", "the refusal", async |world: &World| {
            let status = world.status("app").await;
            let accepted = condition::get(&status.conditions, "Accepted")?;
            (accepted.status == "False").then(|| accepted.message.clone())
        })
        .await;
    assert!(
        message.starts_with(
            "spec.workflow.steps[0].properties.value.metadata.namespace: ConfigMap flags is in namespace"
        ),
        "{message}"
    );
    assert_eq!(clusters_of(&world, FLAGS).await, [""; 0]);
}

/// An executor that shows one object on the hub, and counts the looks at it; it tells of changes when it is told to.
#[derive(Clone, Default)]
struct Shows(Arc<Mutex<(Value, usize)>>, Arc<Notify>);

impl Executor for Shows {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        assert!(
            matches!(job.action, ActionProperties::LookAt(_)),
            "{:?}",
            job.action
        );
        let mut shown = self.0.lock();
        shown.1 += 1;
        let output = shown.0.clone();
        Box::pin(async move { Outcome::Done { output } })
    }

    fn changes(&self, _: &Job) -> BoxStream<'static, ()> {
        let told = async |told: Arc<Notify>| {
            told.notified().await;
            Some(((), told))
        };
        Box::pin(stream::unfold(self.1.clone(), told))
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_object_on_the_hub_goes_on_when_it_is_as_wanted_and_backs_off_until_then() {
    let shows = Shows::default();
    let mut world = World::with_executor(Arc::new(shows.clone())).await;
    let gate = json!({"name": "gate", "type": "wait", "properties": {"until": "object.status.phase == 'Open'",
        "object": {"apiVersion": "example.org/v1", "kind": "Gate", "name": "release"}}});
    world.apply("app", app(&[gate, east()])).await;
    until_says(
        &world,
        "waiting until object.status.phase == 'Open': Gate release does not exist",
    )
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let looks = shows.0.lock().1;
    assert!((10..25).contains(&looks), "{looks} looks in 10 minutes");
    let gate = |version: &str, phase: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}, "status": {"phase": phase}});
    shows.0.lock().0 = gate("1", "Shut");
    until_says(&world, "Gate release is not so far").await;
    world.stop_hub().await;
    world.start_hub();
    assert!(world.replicas("app").await.is_empty());
    // It is looked at ever more rarely, but for a change that is told.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = shows.0.lock().1;
    shows.0.lock().0 = gate("2", "Open");
    let since = tokio::time::Instant::now();
    shows.1.notify_one();
    world.until_phase("app", ApplicationPhase::Running).await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(shows.0.lock().1, before + 1, "one look was enough");
    assert_eq!(world.replicas("app").await.len(), 3);
}
