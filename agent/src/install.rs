//! Installs the definition of AppliedBundle in the member.

use crate::error::{CallError, Fault};
use crate::member::{found, within};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use roundhouse_api::crds;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use serde_json::{Value, json};
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
        let value = |definition: &DynamicObject| json!({"metadata": {"labels": definition.metadata.labels}, "spec": definition.data.get("spec")});
        let wanted = value(&wanted);
        if !contains(&value(&live), &wanted) {
            let params = PatchParams {
                field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            within(timeout, api.patch(&name, &params, &Patch::Merge(&wanted))).await?;
        }
    }
    Ok(())
}

/// Whether `live` has everything that `wanted` says; a server adds defaults of its own.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| contains(live, value)) || value.is_null()),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(live, wanted))
        }
        // A server writes 1 for 1.0.
        (Value::Number(live), Value::Number(wanted)) => live == wanted || live.as_f64() == wanted.as_f64(),
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let wanted = json!({"a": 1, "list": [{"x": 1}], "absent": null});
        for (live, expected) in [
            (
                json!({"a": 1, "list": [{"x": 1, "default": true}], "more": 2}),
                true,
            ),
            (json!({"a": 2, "list": [{"x": 1}]}), false),
            (json!({"a": 1, "list": [{"x": 1}, {"x": 2}]}), false),
            (json!({"list": [{"x": 1}]}), false),
            (json!({"a": 1.0, "list": [{"x": 1}]}), true),
        ] {
            assert_eq!(contains(&live, &wanted), expected, "{live}");
        }
    }
}
