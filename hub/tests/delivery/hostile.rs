//! What others put in the way of a delivery: named, survived, and never answered with a storm.

use crate::world::{World, regions, seed};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use roundhouse_api::{
    application::ApplicationPhase,
    bundle::{Bundle, BundleSpec},
    condition,
};
use serde_json::{Value, json};

fn bundles(world: &World, cluster: &str) -> Api<Bundle> {
    Api::namespaced(world.client.clone(), &format!("cluster-{cluster}"))
}

async fn delivered(world: &World, app: &str) -> Option<String> {
    let status = world.status(app).await;
    Some(condition::get(&status.conditions, "Delivered")?.message.clone())
}

/// A Bundle by hand that its API server takes, as no schema says what an entry of `ignoreFields` is, does not keep the hub from seeing
/// the others, also when it lists them.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_cannot_be_read_keeps_nobody_else_from_anything() {
    let mut world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let entries =
        json!([5, {"condition": "OnSpokeChanges", "jsonPaths": [".data.a"]}, {"jsonPaths": ".data.a"}]);
    let by_hand = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle", "metadata": {"name": "by-hand"},
        "spec": {"workload": {"manifests": []}, "manifestConfigs": [{"resourceIdentifier": {"name": "*"},
            "updateStrategy": {"type": "ServerSideApply", "ignoreFields": entries,
                "serverSideApply": {"ignoreFields": entries}}}]}});
    let path = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles";
    let create = http::Request::post(path)
        .header("content-type", "application/json")
        .body(by_hand.to_string().into_bytes());
    world.client.request::<Value>(create.unwrap()).await.unwrap();
    for image in ["nginx:2", "nginx:3"] {
        world.apply("app", seed(image)).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        assert_eq!(world.images("app").await, [image]);
        world.stop_hub().await;
        world.start_hub();
    }
}

/// A Decision that is refused is told with its name and why, and nothing is written by what is not stored.
#[tokio::test(start_paused = true)]
async fn a_decision_that_is_refused_is_told_and_nothing_goes_by_it() {
    let world = World::five().await;
    world.asked.refuse(Some(
        "POST /apis/roundhouse.dev/v1alpha1/namespaces/default/decisions",
    ));
    world.apply("app", seed("nginx:1")).await;
    let told = world
        .until("app", "it is told", async |world: &World| {
            let status = world.status("app").await;
            let delivered = condition::get(&status.conditions, "Delivered")?;
            (delivered.reason == "NotWritten").then(|| delivered.message.clone())
        })
        .await;
    assert!(told.contains("exceeded quota: small"), "{told}");
    assert!(told.to_lowercase().contains("decision"), "{told}");
    let before = world.server().counter().write_requests();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let sent = world.server().counter().write_requests() - before;
    assert!(sent < 5, "{sent} writes in ten minutes");
    assert!(world.bundle("c1", "app").await.is_none(), "nothing is decided");
    world.asked.refuse(None);
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_hashes_otherwise_causes_no_storm() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let bundle = world.bundle("c1", "app").await.unwrap();
    let status = json!({"status": {"hash": null, "phase": "Failed", "conditions": [{"type": "Applied",
        "status": "False", "reason": "HashMismatch", "message": "an agent of another age",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}], "observedGeneration": bundle.metadata.generation}});
    bundles(&world, "c1")
        .patch_status("default.app", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    world.rest().await;
    let before = world.server().counter().write_requests();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let sent = world.server().counter().write_requests() - before;
    assert!(sent < 50, "{sent} writes in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_somebody_else_holds_is_waited_for_and_not_written_again() {
    let world = World::five().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let bundle = world.bundle("c1", "app").await.unwrap();
    let own = bundle.metadata.finalizers.unwrap();
    let finalizers = |finalizers: &[String]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held: Vec<String> = own
        .iter()
        .cloned()
        .chain(["example.com/backup".to_owned()])
        .collect();
    let params = PatchParams::default();
    bundles(&world, "c1")
        .patch("default.app", &params, &finalizers(&held))
        .await
        .unwrap();
    world.delete("app").await;
    world.rest().await;
    let left = world.bundle("c1", "app").await.unwrap();
    assert_eq!(left.metadata.finalizers.unwrap(), ["example.com/backup"]);
    let before = world.server().counter().write_requests();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let sent = world.server().counter().write_requests() - before;
    assert!(sent < 5, "{sent} writes in ten minutes");
    bundles(&world, "c1")
        .patch("default.app", &params, &finalizers(&[]))
        .await
        .unwrap();
    world
        .until("app", "nothing is left", async |world: &World| {
            let app = world.applications().get_opt("app").await.unwrap();
            app.is_none().then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_written_bundle_with_copied_labels_is_nobodys_surplus() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let mut copy = Bundle::new("mine", BundleSpec::default());
    copy.metadata.labels = world.bundle("c1", "app").await.unwrap().metadata.labels;
    bundles(&world, "c1")
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();
    world.rest().await;
    let kept = bundles(&world, "c1").get_opt("mine").await.unwrap().unwrap();
    assert!(kept.spec.deletion.is_none() && kept.metadata.deletion_timestamp.is_none());
    // Nor does it go with the application, nor hold it up.
    world.delete("app").await;
    world.until_gone("app").await;
    assert!(bundles(&world, "c1").get_opt("mine").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_config_map_in_the_way_of_a_revision_is_named_in_the_status() {
    let world = World::five_on_any_server().await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("app-v1".to_owned());
    config_maps
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.apply("app", seed("nginx:1")).await;
    world
        .until("app", "it is named", async |world: &World| {
            let message = delivered(world, "app").await?;
            (message.contains("ConfigMap default/app-v1") && message.contains("rename or delete"))
                .then_some(())
        })
        .await;
    config_maps
        .delete("app-v1", &DeleteParams::default())
        .await
        .unwrap();
    world.until_phase("app", ApplicationPhase::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_record_of_one_cluster_does_not_hold_up_the_others() {
    let world = World::five_on_any_server().await;
    world.deliver_approved("app", regions("nginx:1")).await;
    // East gets a new revision, west keeps the former one; what west had vanishes, and its record with it.
    world.apply("app", regions("nginx:2")).await;
    world
        .until_phase("app", ApplicationPhase::WorkflowSuspending)
        .await;
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    config_maps
        .delete("app-v1", &DeleteParams::default())
        .await
        .unwrap();
    for cluster in ["c4", "c1"] {
        let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        bundles(&world, cluster)
            .patch("default.app", &PatchParams::default(), &strip)
            .await
            .unwrap();
        let _ = bundles(&world, cluster)
            .delete("default.app", &DeleteParams::default())
            .await;
    }
    world
        .until("app", "c1 gets its bundle again", async |world: &World| {
            world
                .bundle("c1", "app")
                .await
                .filter(|b| b.metadata.deletion_timestamp.is_none())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_is_good_for_one_removal() {
    let mut world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let held = async |world: &World| {
        let status = world.status("app").await;
        let held = condition::get(&status.conditions, "DeletesHeld")?;
        (held.status == "True").then(|| held.message.clone())
    };
    for round in 0..2 {
        world.stop_hub().await;
        for cluster in ["c1", "c4"] {
            world.label_cluster(cluster, json!({"region": "north"})).await;
        }
        world.start_hub();
        let message = world
            .until("app", &format!("deletes are held, round {round}"), held)
            .await;
        let hash = message
            .split("confirm-deletes=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned();
        world
            .patch(
                "app",
                json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}}),
            )
            .await;
        world
            .until("app", "they are removed", async |world: &World| {
                let (c1, c4) = (world.bundle("c1", "app").await, world.bundle("c4", "app").await);
                (c1.is_none() && c4.is_none()).then_some(())
            })
            .await;
        world.label_cluster("c1", json!({"region": "east"})).await;
        world.label_cluster("c4", json!({"region": "west"})).await;
        world
            .until("app", "both are back", async |world: &World| {
                Some((world.bundle("c1", "app").await?, world.bundle("c4", "app").await?))
            })
            .await;
        world.until_phase("app", ApplicationPhase::Running).await;
        world.rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_bundle_in_the_way_is_named_and_left_alone() {
    let world = World::five_on_any_server().await;
    let foreign = Bundle::new("default.app", BundleSpec::default());
    bundles(&world, "c1")
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.apply("app", seed("nginx:1")).await;
    world
        .until("app", "the status names the Bundle", async |world: &World| {
            let message = delivered(world, "app").await?;
            let named = message.contains("cluster-c1/default.app") && message.contains("rename or delete it");
            named.then_some(())
        })
        .await;
    let kept = bundles(&world, "c1").get("default.app").await.unwrap();
    assert_eq!(kept.spec, foreign.spec);
    assert!(world.bundle("c2", "app").await.is_some(), "the others are served");
}

#[tokio::test(start_paused = true)]
async fn secrets_are_recorded_in_secrets() {
    use k8s_openapi::api::core::v1::Secret;
    let mut world = World::five_on_any_server().await;
    let mut spec = seed("nginx:1");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"password": "hunter2"}});
    let keys = json!({"name": "keys", "type": "k8s-objects", "properties": {"objects": [secret]}});
    spec["components"].as_array_mut().unwrap().push(keys);
    world.apply("app", spec).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let map = maps.get("app-v1").await.unwrap().data.unwrap();
    assert_eq!(map.keys().map(String::as_str).collect::<Vec<_>>(), ["web"]);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let recorded = secrets.get("app-v1").await.unwrap();
    let text = String::from_utf8(recorded.data.unwrap()["keys"].0.clone()).unwrap();
    assert!(text.contains("hunter2"));

    // A Bundle that vanishes while an invalid spec is there is made again from the record.
    world.stop_hub().await;
    world.start_hub();
    let before = world.bundle("c1", "app").await.unwrap().spec.hash;
    bundles(&world, "c1")
        .delete("default.app", &DeleteParams::default())
        .await
        .unwrap();
    world
        .until("app", "the Bundle is there again", async |world: &World| {
            let bundle = world.bundle("c1", "app").await?;
            let living = bundle.metadata.deletion_timestamp.is_none();
            (living && bundle.spec.hash == before).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_later_part_is_written_before_an_earlier_one() {
    let world = World::five_on_any_server().await;
    let mut spec = seed("nginx:1");
    let objects: Vec<_> = (0..3)
        .map(|n| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("big-{n}")},
                "data": {"text": "x".repeat(300 * 1024)}})
        })
        .collect();
    let big = json!({"name": "big", "type": "k8s-objects", "properties": {"objects": objects}});
    spec["components"].as_array_mut().unwrap().push(big);
    let api = bundles(&world, "c1");
    let start = api
        .list(&Default::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let watch = api.watch(&WatchParams::default(), &start).await.unwrap();
    world.apply("app", spec).await;
    let names = watch.filter_map(async |event| match event.unwrap() {
        WatchEvent::Added(bundle) => bundle.metadata.name,
        _ => None,
    });
    let written: Vec<_> = names.take(3).collect().await;
    assert_eq!(written, ["default.app.3", "default.app.2", "default.app"]);
}
