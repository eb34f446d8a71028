//! Starting a hub.

use crate::world::{TestClock, World, seed};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use roundhouse_api::application::ApplicationPhase;
use roundhouse_apiserver::Server;
use roundhouse_hub::{
    run::{HubError, HubOptions, install, run},
    tenancy::Tenancy,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn installs_its_definitions_once() {
    let server = Server::builder().seed(1).build();
    let client = Client::new(server.service(), "default");
    install(&client, &HubOptions::default()).await.unwrap();
    let before = server.counter().total_stored();
    install(&client, &HubOptions::default()).await.unwrap();
    assert_eq!(server.counter().total_stored(), before);
    // Another tenancy is told to whoever plans.
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let tenancy = async || {
        let definition = api.get("applications.core.oam.dev").await.unwrap();
        definition.metadata.annotations.unwrap()["roundhouse.dev/tenancy"].clone()
    };
    assert_eq!(tenancy().await, "open");
    let mut strict = HubOptions::default();
    strict.application.tenancy = Tenancy::Namespace;
    install(&client, &strict).await.unwrap();
    assert_eq!(server.counter().total_stored(), before + 1);
    assert_eq!(tenancy().await, "namespace");
}

#[tokio::test(start_paused = true)]
async fn refuses_definitions_of_another_installation_unless_told() {
    let server = Server::builder().seed(1).build();
    let client = Client::new(server.service(), "default");
    install(&client, &HubOptions::default()).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let foreign = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}));
    api.patch("applications.core.oam.dev", &PatchParams::default(), &foreign)
        .await
        .unwrap();
    let before = server.counter().total_stored();
    let clock = TestClock::shared();
    let refused = run(
        client.clone(),
        HubOptions::default(),
        clock.clone(),
        CancellationToken::new(),
    )
    .await;
    let Err(error @ HubError::ForeignDefinitions { .. }) = refused else {
        panic!("{refused:?}")
    };
    let text = error.to_string();
    assert!(
        text.contains("applications.core.oam.dev") && text.contains("--take-over-core-oam"),
        "{text}"
    );
    assert_eq!(server.counter().total_stored(), before, "nothing was written");

    let stop = CancellationToken::new();
    let options = HubOptions {
        take_over_core_oam: true,
        ..HubOptions::default()
    };
    let running = tokio::spawn(run(client.clone(), options, clock, stop.clone()));
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let taken = api.get("applications.core.oam.dev").await.unwrap();
    assert_eq!(
        taken.metadata.labels.unwrap()["app.kubernetes.io/managed-by"],
        "roundhouse"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_a_newer_one_has_followed_writes_nothing_more() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    // A newer hub has taken over, and this one does not know it yet.
    world
        .patch_status("app", json!({"workflow": {"epoch": 40}}))
        .await;
    world.rest().await;
    let before = world.dispatched("app").await;
    world.apply("app", seed("nginx:2")).await;
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!(world.dispatched("app").await, before);
    assert_eq!(world.status("app").await.workflow.unwrap().epoch, Some(40));
    // The next one starts above it.
    world.stop_hub().await;
    world.start_hub();
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.workflow.unwrap().epoch, Some(41));
}
