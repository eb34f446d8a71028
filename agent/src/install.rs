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
