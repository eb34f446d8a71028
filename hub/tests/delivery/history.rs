//! Which revisions are kept.

use crate::world::{World, regions};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt, api::ListParams};
use roundhouse_api::{application::ApplicationPhase, names::annotation, revision::ApplicationRevision};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A Deployment and a Secret, so that the record has parts of both kinds.
fn application(image: &str) -> Value {
    json!({"components": [{"name": "web", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 10,
                "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]}}}}]}},
        {"name": "key", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": image}}]}}],
        "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}})
}

/// Numbers of the revisions, of their ConfigMaps and of their Secrets.
async fn kept(world: &World) -> [BTreeSet<u64>; 3] {
    async fn names<K>(world: &World) -> BTreeSet<u64>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(world.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.unwrap();
        let number = |object: &K| object.name_any().strip_prefix("app-v")?.parse().ok();
        all.items.iter().filter_map(number).collect()
    }
    [
        names::<ApplicationRevision>(world).await,
        names::<ConfigMap>(world).await,
        names::<Secret>(world).await,
    ]
}

async fn delivered_at(world: &World, name: &str) -> Option<String> {
    let api: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let revision = api.get(name).await.unwrap();
    revision.annotations().get(annotation::DELIVERED).cloned()
}

#[tokio::test(start_paused = true)]
async fn revisions_beyond_the_limit_go_and_their_parts_with_them() {
    let mut world = World::five().await;
    for n in 1..=14 {
        world.apply("app", application(&format!("nginx:{n}"))).await;
        world.until_phase("app", ApplicationPhase::Running).await;
    }
    world.rest().await;
    // 14 is there, 13 is where a rollback would go; of the others the ten newest.
    let expected: BTreeSet<u64> = (3..=14).collect();
    assert_eq!(kept(&world).await, [expected.clone(), expected.clone(), expected]);
    let before = world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    assert_eq!(world.rest().await, before, "and nothing more is written");

    // Back to an old content: it is the revision of then, and the next number follows the highest.
    world.apply("app", application("nginx:3")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let latest = async || world.status("app").await.latest_revision.unwrap().name;
    assert_eq!(latest().await, "app-v3");
    world.apply("app", application("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(latest().await, "app-v15", "its record was gone");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_a_cluster_still_has_stays() {
    let world = World::five().await;
    world.deliver_approved("app", regions("nginx:1")).await;
    for n in 2..=15 {
        // West is never approved and stays on the first.
        world.apply("app", regions(&format!("nginx:{n}"))).await;
        world
            .until_phase("app", ApplicationPhase::WorkflowSuspending)
            .await;
    }
    world.rest().await;
    let [revisions, ..] = kept(&world).await;
    let expected: BTreeSet<u64> = std::iter::once(1).chain(5..=15).collect();
    assert_eq!(revisions, expected);
    assert!(delivered_at(&world, "app-v1").await.is_some());
    assert_eq!(delivered_at(&world, "app-v15").await, None, "it is under way");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_noted_on_its_revision_with_the_end_of_the_run() {
    let world = World::five().await;
    world.apply("app", application("nginx:1")).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let ended = status.workflow.unwrap().end_time.unwrap().0;
    assert_eq!(delivered_at(&world, "app-v1").await, Some(ended.to_string()));
}
