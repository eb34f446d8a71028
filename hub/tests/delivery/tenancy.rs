//! What a hub's tenancy refuses, and what an administrator lets in.

use crate::world::World;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    application::{ACCEPTED, ApplicationPhase},
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
    world.apply("wide", role("ClusterRole")).await;
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
    // Nobody touches the application.
    world.until_phase("wide", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("wide").await.len(), 1);
}
