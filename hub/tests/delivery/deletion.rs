//! Deleting an application.

use crate::{
    agents::Script,
    world::{World, regions, seed},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    application::ApplicationPhase, bundle::Bundle, condition, decision::Decision,
    revision::ApplicationRevision,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test(start_paused = true)]
async fn cleans_what_it_can_reach_and_the_rest_when_it_returns() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c4", Script::Silent).await;
    world.available("c4", false).await;
    world.delete("app").await;
    world
        .until("app", "four clusters are clean", async |world: &World| {
            (world.dispatched("app").await.len() == 1).then_some(())
        })
        .await;
    world.rest().await;
    let status = world.status("app").await;
    assert_eq!(status.phase, Some(ApplicationPhase::Deleting));
    let message = condition::get(&status.conditions, "Delivered")
        .unwrap()
        .message
        .clone();
    assert!(
        message.contains("waiting for 1 cluster to be cleaned: c4 (agent unreachable since"),
        "{message}"
    );
    // The evidence was written before the deletion.
    let bundle = world.bundle("c4", "app").await.unwrap();
    let deletion = bundle.spec.deletion.clone().unwrap();
    assert_eq!(
        (deletion.confirmed_by.as_str(), deletion.revision.as_str()),
        ("application-deleted", "app-v1")
    );
    assert!(bundle.metadata.deletion_timestamp.is_some());

    world.available("c4", true).await;
    world.agents.script("c4", Script::Ready).await;
    world.until_gone("app").await;
    world.rest().await;
    assert!(world.dispatched("app").await.is_empty());
    // What it owned goes with it.
    assert!(world.decision("app-step-0").await.is_none());
    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    assert!(revisions.get_opt("app-v1").await.unwrap().is_none());
}

/// Whoever waits for it sees what is in the way: what an agent reports, and what the hub's own API server refuses.
#[tokio::test(start_paused = true)]
async fn says_what_is_in_its_way() {
    const EVIDENCE: &str = "PATCH /apis/roundhouse.dev/v1alpha1/namespaces/cluster-c2/bundles";
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.agents.script("c1", Script::Holds).await;
    world.asked.refuse(Some(EVIDENCE));
    world.delete("app").await;
    let told = async |world: &World| {
        let status = world.status("app").await;
        condition::get(&status.conditions, "Delivered")
            .unwrap()
            .message
            .clone()
    };
    let held = "c1 (Deployment.apps default/web: its finalizer example.org/hold is on it)";
    world
        .until("app", "it says what is in its way", async |world: &World| {
            let message = told(world).await;
            let counted = message.contains("waiting for 2 clusters to be cleaned");
            let refused =
                message.contains("exceeded quota") && message.contains("c2 (its removal is not written yet)");
            (counted && refused && message.contains(held)).then_some(())
        })
        .await;
    world.asked.refuse(None);
    world
        .until("app", "one cluster is left", async |world: &World| {
            let message = told(world).await;
            (message == format!("waiting for 1 cluster to be cleaned: {held}")).then_some(())
        })
        .await;
    world.agents.script("c1", Script::Ready).await;
    world.until_gone("app").await;
}

/// Nothing of it is left in the clusters: what keeps it is then in the hub's own API server.
#[tokio::test(start_paused = true)]
async fn says_what_keeps_an_application_of_which_nothing_is_left() {
    const OTHERS: &str = "example.org/hold";
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let app = world.applications().get("app").await.unwrap();
    let mut finalizers = app.finalizers().to_vec();
    finalizers.push(OTHERS.to_owned());
    let patch = json!({"metadata": {"finalizers": finalizers}});
    world.patch("app", patch).await;
    world.asked.refuse(Some(
        "PATCH /apis/core.oam.dev/v1beta1/namespaces/default/applications/app",
    ));
    world.delete("app").await;
    let until_told = async |part: &'static str| {
        world
            .until("app", part, async |world: &World| {
                let status = world.status("app").await;
                let told = condition::get(&status.conditions, "Delivered")?;
                told.message.contains(part).then_some(())
            })
            .await;
    };
    until_told("releasing it failed").await;
    let written = world.rest().await;
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!(
        world.rest().await,
        written,
        "what is said already is not said anew"
    );
    world.asked.refuse(None);
    until_told("all clusters are cleaned, and finalizers of others are on it: example.org/hold").await;
    world
        .patch("app", json!({"metadata": {"finalizers": null}}))
        .await;
    world.until_gone("app").await;
}

#[tokio::test(start_paused = true)]
async fn of_an_application_that_was_never_accepted_is_immediate() {
    let world = World::five_on_any_server().await;
    world
        .apply("app", serde_json::json!({"components": [], "surprise": true}))
        .await;
    world.until_phase("app", ApplicationPhase::Rendering).await;
    world.delete("app").await;
    world.until_gone("app").await;
}

#[tokio::test(start_paused = true)]
async fn bundles_of_an_application_that_vanished_are_held() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = world.dispatched("app").await;
    // Its finalizer is taken off by hand while the hub is down.
    world.stop_hub().await;
    world
        .patch("app", serde_json::json!({"metadata": {"finalizers": null}}))
        .await;
    world.delete("app").await;
    world.start_hub();
    world.rest().await;
    assert!(world.applications().get_opt("app").await.unwrap().is_none());
    assert_eq!(world.dispatched("app").await, before);
    let bundles: Api<Bundle> = Api::all(world.client.clone());
    for bundle in bundles.list(&Default::default()).await.unwrap() {
        assert!(
            bundle.spec.deletion.is_none() && bundle.metadata.deletion_timestamp.is_none(),
            "{}",
            bundle.name_any()
        );
    }
    // Made again, it takes them up where they are.
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("app").await, before);
}

/// Decisions go with their application when the garbage collector comes to them. Until then they are no steps that an application
/// of the same name, made meanwhile, has passed.
#[tokio::test(start_paused = true)]
async fn what_was_decided_for_an_application_of_before_brings_nothing_of_the_next_one_of_its_name() {
    let world = World::five().await;
    let spec = || regions("nginx:1");
    world.apply("app", spec()).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let decisions: Api<Decision> = Api::namespaced(world.client.clone(), "default");
    let hold = async |finalizers: Value| {
        for name in ["app-east", "app-west"] {
            let patch = json!({"metadata": {"finalizers": finalizers}});
            let patch = Patch::Merge(patch);
            decisions
                .patch(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    };
    hold(json!(["example.org/slow"])).await;
    world.delete("app").await;
    world.until_gone("app").await;
    let before = world.decision("app-west").await.unwrap();
    world.apply("app", spec()).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    world.rest().await;
    let brought = |all: BTreeMap<String, (u64, String)>| all.into_keys().collect::<Vec<_>>();
    assert_eq!(
        brought(world.dispatched("app").await),
        ["c1", "c2", "c3"],
        "step west has not begun"
    );
    let stays = world.decision("app-west").await.unwrap();
    assert_eq!(stays.spec.application_ref, before.spec.application_ref);

    hold(json!(null)).await;
    world.rest().await;
    let own = world.decision("app-east").await.unwrap();
    assert_ne!(own.spec.application_ref.uid, before.spec.application_ref.uid);
    assert!(world.decision("app-west").await.is_none());
    world.resume("app").await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("app").await.len(), 5);
}
