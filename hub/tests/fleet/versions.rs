//! A hub and agents that are a version apart. `bundle.json` and `report.json` are what hubs and agents of 0.1.0 write; they stay
//! as they are when later ones write more. What a later one writes beside it is passed over. It stays where the definitions name it,
//! as they do when the hub is the later one; those of an earlier hub do not, and an API server drops it.

use crate::{apply, options, until_all_run};
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    application::Application,
    bundle::{Bundle, BundlePhase, BundleStatus},
};
use roundhouse_hub::simulate::Fleet;
use serde_json::{Value, json};
use std::time::Duration;

const BUNDLE: &str = include_str!("versions/bundle.json");
const REPORT: &str = include_str!("versions/report.json");

/// Nothing here takes longer.
const DEADLINE: Duration = Duration::from_secs(30);

async fn of_one_cluster() -> Fleet {
    let mut options = options([("c1".to_owned(), vec![("region", "east".to_owned())])].into_iter());
    // Strict servers refuse the fields that they would drop.
    options.strict = false;
    let fleet = Fleet::start(options).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    fleet
}

fn bundles(fleet: &Fleet) -> Api<Bundle> {
    Api::namespaced(fleet.hub_client(), "cluster-c1")
}

/// Waits until the cluster has a Bundle of which this holds.
async fn until_bundle(fleet: &Fleet, holds: impl Fn(&Bundle) -> bool) -> Bundle {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let all = bundles(fleet).list(&Default::default()).await.unwrap();
        if let Some(bundle) = all.items.iter().find(|bundle| holds(bundle)) {
            return bundle.clone();
        }
        assert!(tokio::time::Instant::now() < end, "{:?}", all.items);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a later version would write, beside what this one knows.
fn with_more(mut object: Value, at: &str) -> Value {
    object.pointer_mut(at).unwrap()["ofALaterVersion"] = json!({"some": ["thing"]});
    object
}

#[tokio::test(start_paused = true)]
async fn a_bundle_of_another_version_of_the_hub_is_applied_and_reported() {
    let recorded: Value = serde_json::from_str(BUNDLE).unwrap();
    for object in [recorded.clone(), with_more(recorded, "/spec")] {
        let fleet = of_one_cluster().await;
        let path = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles";
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&object).unwrap());
        fleet
            .hub_client()
            .request::<Value>(request.unwrap())
            .await
            .unwrap();
        let ready = |status: &BundleStatus| {
            status.phase == Some(BundlePhase::Ready) && status.observed_generation == Some(1)
        };
        until_bundle(&fleet, |bundle| bundle.status.as_ref().is_some_and(ready)).await;
        let deployments: Api<Deployment> = Api::namespaced(fleet.member_client("c1").unwrap(), "default");
        let web = deployments.get("web").await.unwrap();
        assert_eq!(web.spec.unwrap().replicas, Some(2));
        fleet.stop().await;
    }
}

/// The definition of Bundles names what a later version writes in this part of them: an upgrade installs it before anybody writes it.
async fn define(fleet: &Fleet, part: &str) {
    let definitions = Api::<CustomResourceDefinition>::all(fleet.hub_client());
    let present = definitions.get("bundles.roundhouse.dev").await.unwrap();
    let mut present = serde_json::to_value(present).unwrap();
    let at = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{part}/properties");
    present.pointer_mut(&at).unwrap()["ofALaterVersion"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let later: CustomResourceDefinition = serde_json::from_value(present).unwrap();
    let name = "bundles.roundhouse.dev";
    definitions
        .replace(name, &PostParams::default(), &later)
        .await
        .unwrap();
}

/// What a later version has written in this part of the Bundle.
async fn of_later(fleet: &Fleet, name: &str, part: &str) -> Option<Value> {
    let path = format!("/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles/{name}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let bundle: Value = fleet.hub_client().request(request).await.unwrap();
    bundle.pointer(&format!("/{part}/ofALaterVersion")).cloned()
}

#[tokio::test(start_paused = true)]
async fn what_one_side_of_a_later_version_has_written_the_other_side_keeps() {
    let mut fleet = of_one_cluster().await;
    for part in ["spec", "status"] {
        define(&fleet, part).await;
    }
    let everywhere = json!({"name": "all", "type": "deploy", "properties": {"placement": [
        {"clusterSelector": {"region": "east"}, "replicas": 2}]}});
    apply(&fleet, "web", 2, &[everywhere]).await;
    let reported = |generation: i64| {
        move |bundle: &Bundle| {
            let status = bundle.status.as_ref();
            status.is_some_and(|status| status.observed_generation == Some(generation))
        }
    };
    let name = until_bundle(&fleet, reported(1)).await.metadata.name.unwrap();
    let (more, params) = (json!({"some": ["thing"]}), PatchParams::default());
    let written = |part: &str| Patch::Merge(json!({part: {"ofALaterVersion": more}}));

    // The hub is a later one, and this agent reports.
    bundles(&fleet)
        .patch(&name, &params, &written("spec"))
        .await
        .unwrap();
    until_bundle(&fleet, reported(2)).await;
    assert_eq!(of_later(&fleet, &name, "spec").await, Some(more.clone()));

    // The agent is a later one, and this hub writes.
    fleet.stop_agent("c1").await.unwrap();
    let status = written("status");
    bundles(&fleet)
        .patch_status(&name, &params, &status)
        .await
        .unwrap();
    let components =
        json!([{"name": "web", "type": "worker", "properties": {"image": "nginx:2", "replicas": 2}}]);
    let changed = Patch::Merge(json!({"spec": {"components": components}}));
    let applications = Api::<Application>::namespaced(fleet.hub_client(), "default");
    applications.patch("web", &params, &changed).await.unwrap();
    until_bundle(&fleet, |bundle| bundle.metadata.generation > Some(2)).await;
    assert_eq!(of_later(&fleet, &name, "status").await, Some(more));
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_of_another_version_of_the_agent_is_evidence() {
    let recorded: Value = serde_json::from_str(REPORT).unwrap();
    for report in [recorded.clone(), with_more(recorded, "")] {
        let mut fleet = of_one_cluster().await;
        // Its Lease holds for longer than this takes.
        fleet.stop_agent("c1").await.unwrap();
        let everywhere = json!({"name": "all", "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": 2}]}});
        apply(&fleet, "web", 2, &[everywhere]).await;
        let bundle = until_bundle(&fleet, |bundle| bundle.spec.application_ref.is_some()).await;
        let mut report = report;
        report["hash"] = json!(bundle.spec.hash);
        report["observedGeneration"] = json!(bundle.metadata.generation);
        report["epoch"] = json!(bundle.spec.epoch);
        let patch = Patch::Merge(json!({"status": report}));
        let name = bundle.metadata.name.unwrap();
        bundles(&fleet)
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        until_all_run(&fleet, Duration::from_millis(100), DEADLINE).await;
        fleet.stop().await;
    }
}
