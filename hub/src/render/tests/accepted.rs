//! What components and traits render to is what an API server takes, with strict validation of fields.

use super::{
    properties::{small, table},
    rendered,
    traits::of_objects,
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

async fn accepts(client: &Client, component: &Value) {
    for manifest in &rendered(&json!([component])).components[0].manifests {
        let text = |field: &str| manifest[field].as_str().unwrap();
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or(("", text("apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "shop", &resource);
        let params = PatchParams::apply("test").dry_run().validation_strict();
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let applied = api.patch(name, &params, &Patch::Apply(manifest)).await;
        assert!(applied.is_ok(), "{component}\n{manifest:#}\n{applied:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_rendered_passes_strict_validation() {
    let server = Server::builder().seed(1).build();
    let client = Client::new(server.service(), "default");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&Default::default(), &namespace).await.unwrap();
    for (type_, properties) in table() {
        let mut all = small(type_);
        for (name, value) in properties {
            let mut one = small(type_);
            one["properties"][name] = value.clone();
            accepts(&client, &one).await;
            // The two forms of volumes, and of ports, exclude each other.
            if name != "volumes" && name != "port" {
                all["properties"][name] = value;
            }
        }
        accepts(&client, &all).await;
    }
    for one in of_objects() {
        let mut component = small("worker");
        component["name"] = json!("main");
        component["properties"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        if one["properties"]["containers"].is_array() {
            continue;
        }
        component["traits"] = json!([one]);
        accepts(&client, &component).await;
    }
}
