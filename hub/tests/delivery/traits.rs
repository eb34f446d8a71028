//! Traits from the Application to the members: one change of several traits is one revision and one rollout of pods.

use crate::world::{World, seed};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, ApplicationStatus},
    cluster::{AVAILABLE, Cluster},
    condition,
    names::ClusterName,
    revision::ApplicationRevision,
};
use roundhouse_hub::simulate::{Fleet, FleetOptions, MemberSpec, TokioClock};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

fn of(type_: &str, properties: &Value) -> Value {
    json!({"type": type_, "properties": properties})
}

/// The seed's application with these traits instead of replicas in its properties.
fn with(traits: &Value) -> Value {
    let mut spec = seed("nginx:1");
    let component = &mut spec["components"][0];
    component["properties"] = json!({"image": "nginx:1"});
    component["traits"] = traits.clone();
    spec
}

/// Hub, agents and members in one process.
struct Yard {
    fleet: Fleet,
    client: Client,
}

impl Yard {
    async fn new() -> Yard {
        let members = [("c1", "east"), ("c2", "west")].map(|(name, region)| MemberSpec {
            name: ClusterName::new(name).unwrap(),
            labels: [("region".to_owned(), region.to_owned())].into(),
        });
        let clock = TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let fleet = Fleet::start(FleetOptions::new(members.into(), Arc::new(clock)))
            .await
            .unwrap();
        let client = fleet.hub_client();
        // A Job is divided once per revision: its clusters have to be there.
        let clusters: Api<Cluster> = Api::all(client.clone());
        let all_available = async {
            for name in fleet.members() {
                let is_available = async || {
                    let status = clusters.get(&name).await.unwrap().status.unwrap_or_default();
                    condition::is_true(&status.conditions, AVAILABLE)
                };
                while !is_available().await {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(300), all_available)
            .await
            .unwrap();
        Yard { fleet, client }
    }

    fn applications(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Application>(&());
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    /// Applies a spec, waits until it is delivered, and says which revision that is.
    async fn deliver(&self, spec: Value) -> String {
        let api = self.applications();
        let generation = match api.get_opt("app").await.unwrap() {
            None => {
                let resource = ApiResource::erase::<Application>(&());
                let object = DynamicObject::new("app", &resource).data(json!({"spec": spec}));
                api.create(&PostParams::default(), &object)
                    .await
                    .unwrap()
                    .metadata
                    .generation
            }
            Some(_) => {
                let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
                let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
                let patched = api.patch("app", &PatchParams::default(), &patch).await.unwrap();
                patched.metadata.generation
            }
        };
        for _ in 0..3000 {
            let object = api.get("app").await.unwrap();
            let status: ApplicationStatus =
                serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
            if status.phase == Some(ApplicationPhase::Running) && status.observed_generation == generation {
                // What follows from the delivery settles.
                tokio::time::sleep(Duration::from_secs(30)).await;
                let status = api.get("app").await.unwrap().data["status"].clone();
                let status: ApplicationStatus = serde_json::from_value(status).unwrap();
                return status.latest_revision.unwrap().name;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "not delivered: {:#}",
            api.get("app").await.unwrap().data["status"]
        );
    }

    /// The Deployment of each member.
    async fn deployments(&self) -> BTreeMap<String, Deployment> {
        let mut all = BTreeMap::new();
        for name in self.fleet.members() {
            let api: Api<Deployment> = Api::namespaced(self.fleet.member_client(&name).unwrap(), "default");
            all.insert(name, api.get("web").await.unwrap());
        }
        all
    }

    async fn generations(&self) -> Vec<i64> {
        let all = self.deployments().await;
        all.into_values()
            .map(|deployment| deployment.metadata.generation.unwrap())
            .collect()
    }

    /// Pod template and replicas of c1.
    async fn of_c1(&self) -> (Value, i32) {
        let spec = self.deployments().await.remove("c1").unwrap().spec.unwrap();
        (
            serde_json::to_value(spec.template).unwrap(),
            spec.replicas.unwrap(),
        )
    }

    /// Component revision that the members' objects carry.
    async fn component_revision(&self) -> String {
        let deployment = self.deployments().await.remove("c1").unwrap();
        deployment.metadata.labels.unwrap()["app.oam.dev/revision"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn adding_three_traits_in_one_change_is_one_revision_and_one_rollout() {
    let yard = Yard::new().await;
    let scaler = of("scaler", &json!({"replicas": 10}));
    let (labels, selector, sidecar) = (
        of("labels", &json!({"team": "a"})),
        of("node-selector", &json!({"disktype": "ssd"})),
        of("sidecar", &json!({"name": "log", "image": "fluentd"})),
    );
    assert_eq!(yard.deliver(with(&json!([scaler]))).await, "app-v1");
    let (before, (plain, replicas)) = (yard.generations().await, yard.of_c1().await);
    assert_eq!(replicas, 7);

    let three = json!([scaler, labels, selector, sidecar]);
    assert_eq!(yard.deliver(with(&three)).await, "app-v2");
    let after = yard.generations().await;
    let once: Vec<i64> = before.iter().map(|generation| generation + 1).collect();
    assert_eq!(after, once, "one new generation each");
    let (template, replicas) = yard.of_c1().await;
    assert_eq!(replicas, 7);
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["spec"]["nodeSelector"], json!({"disktype": "ssd"}));
    let names: Vec<_> = template["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(names, ["web", "log"]);
    assert_eq!(yard.component_revision().await, "web-v2");

    // Another order is no other content: no rollout, no new revision of the component.
    let reversed = json!([sidecar, selector, labels, scaler]);
    yard.deliver(with(&reversed)).await;
    assert_eq!(yard.generations().await, after);
    assert_eq!(yard.of_c1().await.0, template);
    assert_eq!(yard.component_revision().await, "web-v2");

    // Replicas are no change of the pods.
    let twenty = json!([of("scaler", &json!({"replicas": 20})), labels, selector, sidecar]);
    yard.deliver(with(&twenty)).await;
    assert_eq!(yard.of_c1().await, (template, 14));

    // Without them the pods are as they were.
    yard.deliver(with(&json!([scaler]))).await;
    assert_eq!(yard.of_c1().await, (plain, 7));
    yard.fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_without_another_content_changes_no_pod_template() {
    let yard = Yard::new().await;
    let traits = json!([
        of("scaler", &json!({"replicas": 10})),
        of("labels", &json!({"team": "a"}))
    ]);
    yard.deliver(with(&traits)).await;
    let (generations, template) = (yard.generations().await, yard.of_c1().await.0);
    let mut waits = with(&traits);
    waits["workflow"]["steps"][0]["properties"]["wait"] = json!("applied");
    let revision = yard.deliver(waits).await;
    let status = &yard.applications().get("app").await.unwrap().data["status"];
    assert_eq!(revision, "app-v2", "{status:#}");
    assert_eq!(
        (yard.generations().await, yard.of_c1().await.0),
        (generations, template.clone())
    );
    let labels = template["metadata"]["labels"].as_object().unwrap();
    let keys: Vec<&String> = labels.keys().collect();
    assert_eq!(keys, ["app.oam.dev/component", "team"]);
    yard.fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_a_scaler_is_divided_and_recorded() {
    let world = World::five().await;
    let traits = |replicas: u32| {
        json!([
            of("scaler", &json!({"replicas": replicas})),
            of("expose", &json!({"port": [80]}))
        ])
    };
    world.apply("app", with(&traits(10))).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(world.replicas("app").await.values().sum::<u64>(), 9);
    world.apply("app", with(&traits(100))).await;
    let status = world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(status.delivery.unwrap().replicas_ready, "90/90");
    let decision = world.decision("app-step-0").await.unwrap();
    assert_eq!(decision.spec.workloads[0].replicas, 100);

    let revisions: Api<ApplicationRevision> = Api::namespaced(world.client.clone(), "default");
    let revision = revisions.get("app-v2").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "default");
    let map = maps.get(&revision.spec.resources_config_map.name).await.unwrap();
    let recorded: Value = serde_json::from_str(&map.data.unwrap()["web"]).unwrap();
    assert_eq!(recorded[0]["spec"]["replicas"], 100);
    assert_eq!(recorded[1]["metadata"]["labels"]["trait.oam.dev/type"], "expose");
    let all = revisions.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 2, "one revision per change");
}

#[tokio::test(start_paused = true)]
async fn traits_that_contradict_each_other_dispatch_nothing() {
    let world = World::five().await;
    let traits = json!([
        of("scaler", &json!({"replicas": 2})),
        of("scaler", &json!({"replicas": 3}))
    ]);
    world.apply("app", with(&traits)).await;
    let status = world.until_phase("app", ApplicationPhase::Rendering).await;
    let accepted = condition::get(&status.conditions, "Accepted").unwrap();
    assert_eq!(accepted.status, "False");
    assert!(
        accepted.message.contains(
            "spec.components[0].traits[1]: scaler sets spec.replicas to 3, and scaler (traits[0]) sets it to 2"
        ),
        "{}",
        accepted.message
    );
    assert!(world.dispatched("app").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_sample_with_traits_and_tasks_is_delivered() {
    let yard = Yard::new().await;
    let sample: Application =
        serde_saphyr::from_str(include_str!("../../../e2e/samples/04-traits.yaml")).unwrap();
    assert_eq!(
        yard.deliver(serde_json::to_value(&sample.spec).unwrap()).await,
        "app-v1"
    );
    let mut all = Vec::new();
    for name in yard.fleet.members() {
        let client = yard.fleet.member_client(&name).unwrap();
        for (api_version, kind, object) in [
            ("apps/v1", "Deployment", "orders"),
            ("v1", "Service", "orders"),
            ("batch/v1", "Job", "import"),
            ("batch/v1", "CronJob", "report"),
        ] {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
            all.push((
                name.clone(),
                kind,
                api.get(object).await.unwrap().data["spec"].clone(),
            ));
        }
    }
    let of = |kind: &str, pointer: &str| -> Vec<Value> {
        let specs = all.iter().filter(|(_, k, _)| *k == kind);
        specs
            .map(|(_, _, spec)| spec.pointer(pointer).cloned().unwrap_or_default())
            .collect()
    };
    assert_eq!(of("Deployment", "/replicas"), [3, 3]);
    assert_eq!(of("Job", "/completions"), [1, 1]);
    assert_eq!(of("CronJob", "/concurrencyPolicy"), ["Forbid", "Forbid"]);
    assert_eq!(
        of("Deployment", "/template/spec/containers/1/name"),
        ["tail", "tail"]
    );
    assert_eq!(
        of("Deployment", "/template/spec/containers/0/resources/limits"),
        [json!({"memory": "128Mi"}), json!({"memory": "128Mi"})]
    );
    yard.fleet.stop().await;
}
