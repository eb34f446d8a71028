//! The seed's example.

use crate::world::{World, seed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use roundhouse_api::{application::ApplicationPhase, condition, revision::ApplicationRevision};

#[tokio::test(start_paused = true)]
async fn seventy_and_twenty_percent_of_ten() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    let replicas = world.replicas("app").await;
    let sum = |clusters: &[&str]| clusters.iter().map(|c| replicas[*c]).sum::<u64>();
    assert_eq!(
        (sum(&["c1", "c2", "c3"]), sum(&["c4", "c5"])),
        (7, 2),
        "{status:?}"
    );
    let delivery = status.delivery.clone().unwrap();
    assert_eq!((delivery.placed, delivery.unplaced), (9, 1));
    assert_eq!(
        (delivery.clusters_ready.as_str(), delivery.replicas_ready.as_str()),
        ("5/5", "9/9")
    );
    assert_eq!(delivery.unplaced_reasons.len(), 1);
    assert!(
        delivery.unplaced_reasons[0].contains("Unclaimed"),
        "{:?}",
        delivery.unplaced_reasons
    );
    let regions: Vec<_> = delivery
        .regions
        .iter()
        .map(|r| (r.region.as_str(), r.clusters, r.ready, r.replicas))
        .collect();
    assert_eq!(regions, [("east", 3, 3, 7), ("west", 2, 2, 2)]);
    for type_ in ["Accepted", "Placed", "Delivered"] {
        assert!(
            condition::is_true(&status.conditions, type_),
            "{type_}: {:?}",
            status.conditions
        );
    }
    let decision = world.decision("app-step-0").await.unwrap();
    assert_eq!(
        (
            decision.spec.placed,
            decision.spec.unplaced,
            decision.spec.satisfied
        ),
        (9, 1, true)
    );

    // The record of the revision, owned so that it goes with the application.
    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let revision = revisions.get("app-v1").await.unwrap();
    assert_eq!(revision.spec.components["web"], "web-v1");
    assert_eq!(revision.owner_references()[0].name, "app");
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let map = maps.get(&revision.spec.resources_config_map.name).await.unwrap();
    assert!(map.data.unwrap()["web"].contains("nginx:1"));
    assert_eq!(map.metadata.owner_references.unwrap()[0].name, "app-v1");

    // A new image is a new revision that reaches every cluster.
    world.apply("app", seed("nginx:2")).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.latest_revision.unwrap().name, "app-v2");
    assert_eq!(world.images("app").await, ["nginx:2"]);
    assert_eq!(world.replicas("app").await, replicas, "nobody moved");
    // And the old one again is the old revision.
    world.apply("app", seed("nginx:1")).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.latest_revision.unwrap().name, "app-v1");
    assert!(
        world
            .dispatched("app")
            .await
            .values()
            .all(|(_, image)| image == "nginx:1")
    );
}
