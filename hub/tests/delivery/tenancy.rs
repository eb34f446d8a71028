//! What a hub's tenancy refuses, and what an administrator lets in.

use crate::world::{World, web};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    application::{ACCEPTED, ApplicationPhase},
    bundle::ServiceAccountRef,
    condition,
};
use roundhouse_hub::{application::ApplicationOptions, tenancy::Tenancy};
use serde_json::{Value, json};

fn role(kind: &str) -> Value {
    json!({"components": [{"name": "role", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}, "rules": []}]}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}]})
}

#[tokio::test(start_paused = true)]
async fn what_has_no_namespace_is_refused_until_an_administrator_allows_it() {
    let options = ApplicationOptions {
        tenancy: Tenancy::Namespace,
        ..ApplicationOptions::default()
    };
    let world = World::with_options(&[("c1", "east")], options).await;
    world.apply("own", role("Role")).await;
    world.until_phase("own", ApplicationPhase::Running).await;
    // Whether an administrator allows it cannot be read.
    world.asked.refuse(Some("GET /api/v1/namespaces/default"));
    world.apply("wide", role("ClusterRole")).await;
    world
        .until("wide", "what is in its way", async |world: &World| {
            let status = world.status("wide").await;
            let told = condition::get(&status.conditions, "Delivered")?;
            (told.reason == "NotRecorded" && told.message.contains("reading Namespace default")).then_some(())
        })
        .await;
    world.asked.refuse(None);
    let message = world
        .until("wide", "the refusal", async |world: &World| {
            let status = world.status("wide").await;
            let accepted = condition::get(&status.conditions, ACCEPTED)?;
            (accepted.status == "False").then(|| accepted.message.clone())
        })
        .await;
    assert!(
        message.starts_with(
            "spec.components[0].properties.objects[0].kind: ClusterRole x is not known to have a namespace"
        ),
        "{message}"
    );
    assert_eq!(world.dispatched("wide").await.len(), 0);
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let allow = Patch::Merge(json!({"metadata": {"annotations": {
        "roundhouse.dev/allow-kinds": "ClusterRole.rbac.authorization.k8s.io"}}}));
    namespaces
        .patch("default", &PatchParams::default(), &allow)
        .await
        .unwrap();
    // Nobody touches the application. What is accepted now is not refused any more, also where it cannot be recorded.
    world.asked.refuse(Some(
        "POST /apis/core.oam.dev/v1beta1/namespaces/default/applicationrevisions",
    ));
    let status = world
        .until("wide", "it is accepted", async |world: &World| {
            let status = world.status("wide").await;
            let told = condition::get(&status.conditions, "Delivered")?;
            (told.reason == "NotRecorded").then_some(status)
        })
        .await;
    assert!(condition::is_true(&status.conditions, ACCEPTED));
    assert_eq!(status.phase, None, "it is not that of a refusal");
    world.asked.refuse(None);
    world.until_phase("wide", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("wide").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn bundles_name_the_executor_of_their_application_and_so_do_those_of_its_steps() {
    let options = ApplicationOptions {
        tenancy: Tenancy::Namespace,
        ..ApplicationOptions::default()
    };
    let world = World::with_options(&[("c1", "east")], options).await;
    let spec = |properties: Option<Value>| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let mut spec = json!({"components": web("nginx:1"), "policies": [
                {"name": "all", "type": "placement", "properties": {"placement": [{}]}}],
            "workflow": {"steps": [{"type": "deploy", "properties": {"policies": ["all"]}},
                {"name": "map", "type": "apply-object", "properties": {"clusters": {}, "value": object}}]}});
        if let Some(properties) = properties {
            let policy = json!({"name": "who", "type": "executor", "properties": properties});
            spec["policies"].as_array_mut().unwrap().push(policy);
        }
        spec
    };
    let executors = async |world: &World| -> Vec<Option<ServiceAccountRef>> {
        let mut found = Vec::new();
        for name in ["app", "app.step.map"] {
            let bundle = world.bundle("c1", name).await.unwrap();
            found.push(
                bundle
                    .spec
                    .executor
                    .and_then(|executor| executor.subject.service_account),
            );
        }
        found
    };
    let account = |name: &str| {
        Some(ServiceAccountRef {
            namespace: "default".to_owned(),
            name: name.to_owned(),
        })
    };
    for (properties, expected) in [
        (Some(json!({"serviceAccount": "deployer"})), account("deployer")),
        (Some(json!({"serviceAccount": "other"})), account("other")),
        (None, None),
    ] {
        world.apply("app", spec(properties)).await;
        let expected = vec![expected; 2];
        world
            .until("app", "its bundles name the executor", async |world: &World| {
                world.bundle("c1", "app.step.map").await?;
                (executors(world).await == expected).then_some(())
            })
            .await;
        world.until_phase("app", ApplicationPhase::Running).await;
    }
    let elsewhere = json!({"serviceAccount": "admin", "namespace": "kube-system"});
    world.apply("app", spec(Some(elsewhere))).await;
    world
        .until("app", "the refusal", async |world: &World| {
            let status = world.status("app").await;
            let accepted = condition::get(&status.conditions, ACCEPTED)?;
            (accepted.status == "False" && accepted.message.contains("service account admin")).then_some(())
        })
        .await;
    // Whoever waits for it to be delivered does not take what ran before for that.
    let status = world.status("app").await;
    let delivered = condition::get(&status.conditions, "Delivered").unwrap();
    assert_eq!(
        (delivered.status.as_str(), delivered.reason.as_str()),
        ("False", "Refused")
    );
    assert_eq!(delivered.observed_generation, status.observed_generation);
    assert_eq!(
        executors(&world).await,
        [None, None],
        "nothing of it was dispatched"
    );
}
