//! Overrides on their way to the clusters, those that cannot be applied, and kinds whose count a definition names.

use crate::world::{World, web};
use kube::{Api, api::PostParams};
use roundhouse_api::{application::ApplicationPhase, definition::ComponentDefinition};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn app(image: &str, overrides: &Value) -> Value {
    json!({"components": web(image), "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {
        "placement": [{"name": "east", "clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"name": "west", "clusterSelector": {"region": "west"}, "replicas": "30%"}],
        "overrides": overrides}}]}})
}

/// Cluster -> replicas, image and the annotation `at` of the pods.
async fn delivered(world: &World) -> BTreeMap<String, (u64, String, Value)> {
    let mut all = BTreeMap::new();
    for (cluster, (replicas, image)) in world.dispatched("app").await {
        let bundle = world.bundle(&cluster, "app").await.unwrap();
        let manifests = &bundle.spec.workload.manifests;
        let deployment = manifests.iter().find(|m| m["kind"] == "Deployment").unwrap();
        let at = deployment
            .pointer("/spec/template/metadata/annotations/at")
            .cloned();
        all.insert(cluster, (replicas, image, at.unwrap_or_default()));
    }
    all
}

fn images(all: &BTreeMap<String, (u64, String, Value)>) -> Vec<String> {
    all.iter()
        .map(|(cluster, (_, image, _))| format!("{cluster} {image}"))
        .collect()
}

/// Waits until the decision names an error of an override, and everything rests.
async fn until_error(world: &World) {
    world
        .until("app", "the decision names the error", async |world: &World| {
            let decision = world.decision("app-all").await?;
            (!decision.spec.override_errors.is_empty()).then_some(())
        })
        .await;
    world.rest().await;
}

#[tokio::test(start_paused = true)]
async fn overrides_reach_their_clusters_and_follow_labels() {
    let world = World::new(&[("c1", "east"), ("c2", "east"), ("c3", "west")]).await;
    for (cluster, mirror) in [("c1", "one"), ("c2", "two")] {
        world.label_cluster(cluster, json!({"mirror": mirror})).await;
    }
    let target = json!({"kind": "Deployment", "name": "web"});
    let image = "/spec/template/spec/containers/0/image";
    let overrides = json!([
        {"rule": "east", "target": target, "jsonPatch": [{"op": "replace", "path": image, "value": "${cluster.labels.mirror}.io/nginx:1"}]},
        {"target": target, "patch": {"spec": {"template": {"metadata": {"annotations": {"at": "${cluster.name}"}}}}}}]);
    world.apply("app", app("nginx:1", &overrides)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let all = delivered(&world).await;
    assert_eq!(
        images(&all),
        ["c1 one.io/nginx:1", "c2 two.io/nginx:1", "c3 nginx:1"]
    );
    assert!(all.iter().all(|(cluster, (_, _, at))| at == cluster));
    assert_eq!(
        all.values().map(|(replicas, ..)| replicas).sum::<u64>(),
        10,
        "the counts are placement's"
    );
    let decision = world.decision("app-all").await.unwrap();
    assert_eq!(
        json!(decision.spec.cluster_labels),
        json!({"c1": {"mirror": "one"}, "c2": {"mirror": "two"}})
    );

    // A label that an override names changes what the cluster runs, through a new decision.
    world.label_cluster("c2", json!({"mirror": "three"})).await;
    world
        .until("app", "the new label is delivered", async |world: &World| {
            let all = delivered(world).await;
            (images(&all) == ["c1 one.io/nginx:1", "c2 three.io/nginx:1", "c3 nginx:1"]).then_some(())
        })
        .await;
    let now = world.decision("app-all").await.unwrap();
    assert_ne!(now.spec.hash, decision.spec.hash);
    world.rest().await;
    let writes = world.server().counter().total_stored();
    world.label_cluster("c3", json!({"mirror": "four"})).await;
    world.rest().await;
    assert_eq!(
        world.server().counter().total_stored(),
        writes + 1,
        "c3 has no override that names the label"
    );
}

#[tokio::test(start_paused = true)]
async fn an_override_that_cannot_be_applied_holds_what_runs() {
    let world = World::new(&[("c1", "east"), ("c3", "west")]).await;
    world.apply("app", app("nginx:1", &json!([]))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = delivered(&world).await;

    let target = json!({"kind": "Deployment", "name": "web"});
    let path = "/spec/template/spec/containers/0/env/0/value";
    let wrong = json!([{"rule": "west", "target": target, "jsonPatch": [{"op": "replace", "path": path, "value": "x"}]}]);
    let absent =
        json!([{"target": {"kind": "Deployment", "name": "api"}, "patch": {"spec": {"paused": true}}}]);
    let unlabelled =
        json!([{"target": target, "patch": {"metadata": {"annotations": {"a": "${cluster.labels.tier}"}}}}]);
    for (overrides, message) in [
        (
            wrong,
            "overrides[0] of Deployment default/web at /spec/template/spec/containers/0/env/0/value on cluster c3: operation 0 \
             does not apply: the object has no such field: use add to make it, or correct the path",
        ),
        (
            absent,
            "overrides[0] of Deployment api: the application has no such object: correct target.kind and target.name, or \
             remove the override",
        ),
        (
            unlabelled.clone(),
            "overrides[0] of Deployment web at /metadata/annotations/a on cluster c1 and 1 more: the cluster has no label \
             tier, which ${cluster.labels.tier} stands for: label it, or restrict the override to clusters that have the label",
        ),
    ] {
        world.apply("app", app("nginx:2", &overrides)).await;
        let status = world
            .until("app", "the step says why", async |world: &World| {
                let status = world.status("app").await;
                let step = status.workflow.as_ref()?.steps.first()?;
                step.message.as_ref()?.contains(message).then_some(status)
            })
            .await;
        assert_eq!(status.phase, Some(ApplicationPhase::RunningWorkflow));
        world.rest().await;
        assert_eq!(delivered(&world).await, before, "no cluster has half of it");
        let decision = world.decision("app-all").await.unwrap().spec;
        assert_eq!((decision.override_errors.len(), decision.satisfied), (1, false));
        assert_eq!(decision.reasons, [message]);
        assert_eq!(
            (decision.placed, decision.cluster_count),
            (10, 2),
            "what is in force is still there to read"
        );
    }

    // Put right on the fleet's side, it goes on by itself.
    for cluster in ["c1", "c3"] {
        world.label_cluster(cluster, json!({"tier": "gold"})).await;
    }
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(images(&delivered(&world).await), ["c1 nginx:2", "c3 nginx:2"]);
    let decision = world.decision("app-all").await.unwrap().spec;
    assert!(decision.override_errors.is_empty() && decision.satisfied);

    // A label that goes while nothing is under way holds what runs as well.
    world.label_cluster("c3", json!({"tier": null})).await;
    until_error(&world).await;
    assert_eq!(images(&delivered(&world).await), ["c1 nginx:2", "c3 nginx:2"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_delivery_with_a_wrong_override_places_nothing() {
    let world = World::new(&[("c1", "east"), ("c3", "west")]).await;
    let wrong = json!([{"target": {"kind": "Deployment", "name": "web"}, "jsonPatch": [{"op": "remove", "path": "/spec/strategy"}]}]);
    world.apply("app", app("nginx:1", &wrong)).await;
    until_error(&world).await;
    assert!(world.dispatched("app").await.is_empty());
    let error = world
        .decision("app-all")
        .await
        .unwrap()
        .spec
        .override_errors
        .remove(0);
    assert_eq!((error.cluster.as_deref(), error.more_clusters), (Some("c1"), 1));
    world.apply("app", app("nginx:1", &json!([]))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.dispatched("app").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_divided_as_soon_as_a_definition_says_where_its_count_lives() {
    let world = World::new(&[("c1", "east"), ("c3", "west")]).await;
    let server = json!({"apiVersion": "games.io/v1", "kind": "Server", "metadata": {"name": "s"}, "spec": {"size": 10}});
    let spec = json!({"components": [{"name": "s", "type": "k8s-objects", "properties": {"objects": [server]}}],
        "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"clusterSelector": {"region": "west"}, "replicas": "30%"}]}}]}});
    let sizes = async |world: &World| -> Vec<Value> {
        let mut sizes = Vec::new();
        for cluster in ["c1", "c3"] {
            let bundle = world.bundle(cluster, "app").await;
            sizes.push(bundle.map_or(Value::Null, |b| {
                b.spec.workload.manifests[0]["spec"]["size"].clone()
            }));
        }
        sizes
    };
    world.apply("app", spec).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(sizes(&world).await, [json!(10), json!(10)], "it is not divided");

    let definition = json!({"workload": {"definition": {"apiVersion": "games.io/v1", "kind": "Server"}}, "replicasPath": "spec.size"});
    let definition = ComponentDefinition::new("server", serde_json::from_value(definition).unwrap());
    let definitions: Api<ComponentDefinition> = Api::namespaced(world.client.clone(), "default");
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    world
        .until("app", "it is divided", async |world: &World| {
            (sizes(world).await == [json!(7), json!(3)]).then_some(())
        })
        .await;
}

/// Two placing steps that divide ten replicas, and an override policy that changes traits in the east.
fn two_regions(traits: &Value) -> Value {
    let mut components = web("nginx:1");
    components[0]["properties"]["ports"] = json!([]);
    components[0]["traits"] = json!([{"type": "env", "properties": {"env": {"LEVEL": "info"}}}]);
    let share = |region: &str, replicas: &str| {
        json!({"name": region, "type": "placement", "properties": {"placement": [
        {"name": region, "clusterSelector": {"region": region}, "replicas": replicas}]}})
    };
    let mut east = share("east", "70%");
    let target = json!({"kind": "Service", "name": "web"});
    if traits != &json!([]) {
        // Of what only the override brings.
        east["properties"]["overrides"] =
            json!([{"target": target, "patch": {"metadata": {"annotations": {"at": "${cluster.name}"}}}}]);
    }
    json!({"components": components, "policies": [east, share("west", "30%"),
            {"name": "debug", "type": "override", "properties": {"components": [
                {"name": "web", "properties": {}, "traits": traits}]}}],
        "workflow": {"steps": [
            {"name": "east", "type": "deploy", "properties": {"policies": ["east", "debug"]}},
            {"name": "west", "type": "deploy", "properties": {"policies": ["west"]}}]}})
}

/// Cluster -> replicas, containers, variables of the first, and the annotation `at` of the Service.
async fn pods(world: &World) -> BTreeMap<String, (u64, Vec<String>, Vec<String>, Option<String>)> {
    let mut all = BTreeMap::new();
    for (cluster, (replicas, _)) in world.dispatched("app").await {
        let bundle = world.bundle(&cluster, "app").await.unwrap();
        let of = |kind: &str| {
            let mut manifests = bundle.spec.workload.manifests.iter();
            manifests.find(|m| m["kind"] == kind).cloned()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = of("Deployment").unwrap()["spec"]["template"]["spec"]["containers"].clone();
        let containers = containers.as_array().unwrap();
        let names = containers.iter().map(|container| text(&container["name"]));
        let variables = containers[0]["env"].as_array().into_iter().flatten();
        let variables =
            variables.map(|variable| format!("{}={}", text(&variable["name"]), text(&variable["value"])));
        let service = of("Service").map(|service| text(&service["metadata"]["annotations"]["at"]));
        all.insert(cluster, (replicas, names.collect(), variables.collect(), service));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn traits_of_an_override_reach_the_clusters_of_its_step_only() {
    let mut world = World::new(&[("c1", "east"), ("c3", "west")]).await;
    let traits = json!([
        {"type": "env", "properties": {"env": {"MODE": "debug"}}},
        {"type": "sidecar", "properties": {"name": "log", "image": "fluentd:1"}},
        {"type": "expose", "properties": {"port": [80]}}]);
    world.apply("app", two_regions(&traits)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let plain = |replicas: u64| (replicas, strings(&["web"]), strings(&["LEVEL=info"]), None);
    let changed = (
        7,
        strings(&["web", "log"]),
        strings(&["LEVEL=info", "MODE=debug"]),
        Some("c1".to_owned()),
    );
    let expected = BTreeMap::from([("c1".to_owned(), changed), ("c3".to_owned(), plain(3))]);
    assert_eq!(pods(&world).await, expected);
    let before = world.rest().await;
    world.stop_hub().await;
    world.start_hub();
    assert_eq!(world.rest().await, before, "rendered again it is the same");

    // Without it the east is as the west.
    world.apply("app", two_regions(&json!([]))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let expected = BTreeMap::from([("c1".to_owned(), plain(7)), ("c3".to_owned(), plain(3))]);
    assert_eq!(pods(&world).await, expected);
}
