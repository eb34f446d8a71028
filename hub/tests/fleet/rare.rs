//! What hubs ask for now and then: what contains Secrets, steps that tell and ask, a Bundle in the way, an account that
//! somebody changed.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{application::Application, bundle::Bundle, names::JOIN_ACCOUNT};
use roundhouse_hub::simulate::Fleet;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const NAME: &str = "rare";

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// An application with a Secret, whose Bundle finds another one in its place, and whose steps tell its story and ask where they
/// may not.
pub(crate) async fn application(fleet: &Fleet) {
    let params = PostParams::default();
    let secrets: Api<Secret> = Api::namespaced(fleet.hub_client(), "default");
    let header = json!({"metadata": {"name": NAME}, "data": {"token": "dA=="}});
    secrets.create(&params, &of(header)).await.unwrap();
    // Of nobody's application: no cache of a hub has it.
    let bundles: Api<Bundle> = Api::namespaced(fleet.hub_client(), "cluster-c1");
    let name = format!("default.{NAME}");
    let in_the_way = json!({"metadata": {"name": name}, "spec": {"workload": {"manifests": []}}});
    bundles.create(&params, &of(in_the_way)).await.unwrap();

    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "carried"}, "data": {"a": "Yg=="}});
    let deploy = json!({"placement": [{"clusterSelector": {"number": "1"}}]});
    let ask = json!({"url": "https://127.0.0.1:9",
        "headers": {"Authorization": {"valueFrom": {"secretKeyRef": {"name": NAME, "key": "token"}}}}});
    let step = |name: &str, type_: &str, properties: &Value| json!({"name": name, "type": type_, "properties": properties});
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": NAME, "namespace": "default"}, "spec": {
            "components": [{"name": NAME, "type": "k8s-objects", "properties": {"objects": [secret]}}],
            "workflow": {"steps": [
                step("all", "deploy", &deploy), step("tell", "notification", &json!({})), step("ask", "request", &ask)]}}});
    let applications: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    applications.create(&params, &of(application)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    bundles.delete(&name, &DeleteParams::default()).await.unwrap();
    until(async || {
        let run = applications.get(NAME).await.unwrap().status?.workflow?;
        let asked = run.steps.iter().find(|step| step.name == "ask")?;
        asked
            .message
            .as_ref()
            .is_some_and(|said| said.contains("refused"))
            .then_some(())
    })
    .await;
    applications.delete(NAME, &DeleteParams::default()).await.unwrap();
    until(async || applications.get_opt(NAME).await.unwrap().is_none().then_some(())).await;
}

/// Somebody changes the account that invites to a cluster; it is put back when the rights are looked at again.
pub(crate) async fn account(fleet: &Fleet, cluster: &str) {
    let accounts: Api<ServiceAccount> = Api::namespaced(fleet.hub_client(), &format!("cluster-{cluster}"));
    let mounts = async || {
        let account = accounts.get(JOIN_ACCOUNT).await.unwrap();
        account.automount_service_account_token.unwrap()
    };
    let changed = Patch::Merge(json!({"automountServiceAccountToken": true}));
    accounts
        .patch(JOIN_ACCOUNT, &PatchParams::default(), &changed)
        .await
        .unwrap();
    assert!(mounts().await);
    until(async || (!mounts().await).then_some(())).await;
}

/// Waits, for at most twenty minutes of virtual time.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let mut looks = 0;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        looks += 1;
        assert!(looks < 1_200, "waited twenty minutes");
        sleep(Duration::from_secs(1)).await;
    }
}
