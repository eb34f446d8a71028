//! What stays when a removal is refused, and what goes although one is.

use crate::world::{
    Side, World, config_map, deployment, dispatched, eventually, eventually_with, pass_time, reason,
};
use roundhouse_api::bundle::DEGRADED;
use serde_json::{Value, json};

const APP: &str = "default.app";

fn of_component(mut object: Value, component: &str) -> Value {
    object["metadata"]["labels"] = json!({"app.oam.dev/name": "app", "app.oam.dev/component": component});
    object
}

fn namespace(name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    of_component(namespace, "spaces")
}

fn once(manifests: &[Value]) -> Value {
    let mut spec = dispatched(manifests, "app-v1", 1);
    spec["applyOnce"] = json!("Once");
    spec["deleteOption"] = json!({"propagationPolicy": "Foreground"});
    spec
}

/// Given a workload that still has replicas, other components and two namespaces, when all of them left the bundle under
/// apply-once, then the workload and the namespace that it lives in stay until it is scaled to 0, and the rest goes.
#[tokio::test(start_paused = true)]
async fn what_is_refused_holds_up_its_namespace_and_nothing_else() {
    let world = World::new().await;
    let agent = world.agent();
    let (inside, outside) = (namespace("inside"), namespace("outside"));
    let mut web = of_component(deployment("web", "i:1", 2), "web");
    web["metadata"]["namespace"] = json!("inside");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "inside"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let service = of_component(service, "web");
    let other = of_component(config_map("other", "1"), "other");
    let stays = of_component(config_map("stays", "1"), "stays");
    let all = [&inside, &outside, &web, &service, &other, &stays].map(Clone::clone);
    let first = world.bundle(APP, once(&all)).await;
    let applied = |status: &roundhouse_api::bundle::BundleStatus| {
        let counts = status.counts.unwrap_or_default();
        status.observed_generation == Some(first) && counts.applied == counts.total
    };
    eventually_with("all is applied", || world.status(APP), applied).await;
    world.bundle(APP, once(&[stays.clone()])).await;
    for object in [&other, &outside] {
        eventually("what has nothing to do with it goes", || async {
            world.live(Side::Member, object).await.is_none()
        })
        .await;
    }
    pass_time(130).await;
    for object in [&web, &service, &inside] {
        let live = world.live(Side::Member, object).await.unwrap();
        assert_eq!(live["metadata"].get("deletionTimestamp"), None, "{live}");
    }
    let status = world.status(APP).await;
    assert_eq!(reason(&status, DEGRADED), "RemovalRefused");
    let said = format!("{:?}", status.resource_status);
    for part in [
        "waits for Deployment.apps inside/web, which would go with it",
        "stays with Deployment.apps inside/web",
    ] {
        assert!(said.contains(part), "{said}");
    }
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 0}}))
        .await;
    for object in [&web, &service, &inside] {
        eventually("it goes in the end", || async {
            world.live(Side::Member, object).await.is_none()
        })
        .await;
    }
    assert!(world.live(Side::Member, &stays).await.is_some());
    agent.stop().await;
}
