//! `kube::Client` against the in-process service.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

fn config(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": value}})).unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .expect("no answer within ten seconds")
}

#[tokio::test]
async fn create_read_change_delete() {
    let server = Server::builder().seed(1).build();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let made = maps
        .create(&PostParams::default(), &config("one", "1"))
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.resource_version.is_some());
    let before = server.counter().total_stored();
    let same = maps
        .patch(
            "one",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"a": "1"}})),
        )
        .await
        .unwrap();
    assert_eq!(same.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(
        server.counter().total_stored(),
        before,
        "a no-op patch stores nothing"
    );
    let changed = maps
        .patch(
            "one",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"b": "2"}})),
        )
        .await
        .unwrap();
    assert_eq!(changed.data.unwrap().len(), 2);
    let stale = maps
        .replace("one", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
    let spaces: Api<Namespace> = Api::all(client);
    assert_eq!(spaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
}

#[tokio::test]
async fn watch_and_watcher() {
    let server = Server::builder().build();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    maps.create(&PostParams::default(), &config("one", "1"))
        .await
        .unwrap();
    let mut raw = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(matches!(within(raw.next()).await, Some(Ok(WatchEvent::Added(_)))));
    for streaming in [false, true] {
        let config_of = if streaming {
            watcher::Config::default().streaming_lists()
        } else {
            watcher::Config::default()
        };
        let mut seen = watcher(maps.clone(), config_of).applied_objects().boxed();
        assert_eq!(
            within(seen.next())
                .await
                .unwrap()
                .unwrap()
                .metadata
                .name
                .as_deref(),
            Some("one")
        );
        let value = format!("streaming {streaming}");
        maps.patch(
            "one",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"a": value}})),
        )
        .await
        .unwrap();
        let next = within(seen.next()).await.unwrap().unwrap();
        assert_eq!(next.data.unwrap()["a"], value);
    }
    server.close_watches();
    assert!(matches!(
        within(raw.next()).await,
        Some(Ok(WatchEvent::Modified(_)))
    ));
}

#[tokio::test]
async fn custom_resources_with_status_and_transition_rules() {
    let server = Server::builder().build();
    let client = Client::new(server.service(), "default");
    let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definitions);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.dev"},
        "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"epoch": {"type": "integer",
                        "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "epoch may not fall"}]}}},
                    "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}}}}]}});
    definitions
        .create(
            &PostParams::default(),
            &serde_json::from_value(definition).unwrap(),
        )
        .await
        .unwrap();
    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("x.dev", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client, &widgets);
    let widget =
        json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"epoch": 5}});
    widgets
        .create(&PostParams::default(), &serde_json::from_value(widget).unwrap())
        .await
        .unwrap();
    let merge = |v| Patch::Merge(v);
    let params = PatchParams::default();
    let higher = widgets
        .patch("w", &params, &merge(json!({"spec": {"epoch": 6}})))
        .await
        .unwrap();
    assert_eq!(higher.metadata.generation, Some(2));
    let lower = widgets
        .patch("w", &params, &merge(json!({"spec": {"epoch": 4}})))
        .await
        .unwrap_err();
    assert!(matches!(lower, kube::Error::Api(status) if status.code == 422));
    let seen = widgets
        .patch_status(
            "w",
            &params,
            &merge(json!({"status": {"seen": 1}, "spec": {"epoch": 9}})),
        )
        .await
        .unwrap();
    assert_eq!(
        (&seen.data["status"]["seen"], &seen.data["spec"]["epoch"]),
        (&json!(1), &json!(6))
    );
    assert_eq!(seen.metadata.generation, Some(2));

    // A transition rule sees what was stored without a field as the default says that it is.
    let bare = json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "bare"}, "spec": {}});
    let bare: DynamicObject = serde_json::from_value(bare).unwrap();
    widgets.create(&PostParams::default(), &bare).await.unwrap();
    let default = json!([{"op": "add", "value": 3,
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/epoch/default"}]);
    let default: Patch<Value> = Patch::Json(serde_json::from_value(default).unwrap());
    definitions
        .patch("widgets.x.dev", &params, &default)
        .await
        .unwrap();
    let lower = widgets
        .patch("bare", &params, &merge(json!({"spec": {"epoch": 2}})))
        .await;
    assert!(matches!(lower, Err(kube::Error::Api(status)) if status.code == 422));
}
