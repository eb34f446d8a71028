//! Installs the definition of AppliedBundle in the member.

use crate::error::{CallError, Fault};
use crate::member::{found, within};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use roundhouse_api::crds;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use serde_json::json;
use std::time::Duration;

/// Makes or updates the definitions that an agent needs; one that is as it should be is not written.
pub(crate) async fn definitions(client: &Client, timeout: Duration) -> Result<(), CallError> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    // As plain JSON: what the member has is compared, not understood.
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for definition in crds::member() {
        let name = definition.name_any();
        let mut wanted = DynamicObject::new(&name, &resource).data(json!({"spec": definition.spec}));
        wanted.metadata.labels = definition.metadata.labels;
        wanted.metadata.annotations = definition.metadata.annotations;
        let Some(live) = found(within(timeout, api.get(&name)).await)? else {
            let params = PostParams {
                field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            match within(timeout, api.create(&params, &wanted)).await {
                Err(error) if error.fault() != Fault::Conflict => return Err(error),
                _ => continue,
            }
        };
        // What a later agent has stored in its ledger would be dropped.
        if crds::version_of(&live.metadata) > crds::SCHEMA_VERSION {
            tracing::warn!(
                definition = name,
                "the definition is of a later version of Roundhouse and stays as it is"
            );
            continue;
        }
        let value = |definition: &DynamicObject| {
            let meta = &definition.metadata;
            json!({"metadata": {"labels": meta.labels, "annotations": meta.annotations},
                "spec": definition.data.get("spec")})
        };
        let wanted = value(&wanted);
        if !crds::contains(&value(&live), &wanted) {
            let params = PatchParams {
                field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            within(timeout, api.patch(&name, &params, &Patch::Merge(&wanted))).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::names::annotation;
    use roundhouse_apiserver::Server;
    use serde_json::Value;

    const LEDGERS: &str = "appliedbundles.roundhouse.dev";
    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_definition_is_brought_up_to_date_and_one_of_a_later_version_stays() {
        let client = Client::new(Server::builder().seed(1).strict().build().service(), "default");
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let fields = async || {
            let there = serde_json::to_value(api.get(LEDGERS).await.unwrap()).unwrap();
            there["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clone()
        };
        // Somebody, or another version, has taken a field away.
        let change = async |version: u32| {
            let key = annotation::SCHEMA_VERSION.replace('/', "~1");
            let operations = json!([
                {"op": "add", "path": format!("/metadata/annotations/{key}"), "value": version.to_string()},
                {"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/executor"}]);
            let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations).unwrap());
            api.patch(LEDGERS, &PatchParams::default(), &patch).await.unwrap();
        };
        definitions(&client, TIMEOUT).await.unwrap();
        let wanted = fields().await;
        for version in [0, crds::SCHEMA_VERSION] {
            change(version).await;
            assert_ne!(fields().await, wanted);
            definitions(&client, TIMEOUT).await.unwrap();
            assert_eq!(fields().await, wanted, "version {version}");
        }
        change(crds::SCHEMA_VERSION + 1).await;
        definitions(&client, TIMEOUT).await.unwrap();
        assert_ne!(fields().await, wanted, "a later one knows what it does");
    }
}
