//! Installs the definition of AppliedBundle in the member.

use crate::error::CallError;
use crate::member::{found, within};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt};
use roundhouse_api::crds;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use serde_json::json;
use std::time::Duration;

/// Makes or updates the definitions that an agent needs; one that is as it should be is not written. Whatever fails is to be
/// tried again: that somebody else was quicker to make one does not say that it is as it should be, nor that it stays.
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
            within(timeout, api.create(&params, &wanted)).await?;
            continue;
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
    use crate::error::Fault;
    use futures::FutureExt;
    use kube::client::Body;
    use parking_lot::Mutex;
    use roundhouse_api::names::annotation;
    use roundhouse_apiserver::Server;
    use serde_json::Value;
    use std::sync::Arc;

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
    /// Answers the first request that makes something with 409, and does nothing.
    fn conflicting(inner: Client) -> Client {
        let answered = Arc::new(Mutex::new(false));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let inner = inner.clone();
            let is_first =
                request.method() == http::Method::POST && !std::mem::replace(&mut *answered.lock(), true);
            async move {
                if !is_first {
                    return inner.send(request).await;
                }
                let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409,
                    "reason": "Conflict", "message": "changed meanwhile"});
                let body = Body::from(status.to_string().into_bytes());
                Ok(http::Response::builder().status(409).body(body).unwrap())
            }
            .boxed()
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_conflict_does_not_say_that_a_definition_is_there() {
        let server = Client::new(Server::builder().seed(1).strict().build().service(), "default");
        let api: Api<CustomResourceDefinition> = Api::all(server.clone());
        let client = conflicting(server);
        let first = definitions(&client, TIMEOUT).await;
        assert_eq!(first.map_err(|error| error.fault()), Err(Fault::Conflict));
        assert!(api.get_opt(LEDGERS).await.unwrap().is_none());
        definitions(&client, TIMEOUT).await.unwrap();
        assert!(api.get_opt(LEDGERS).await.unwrap().is_some());
    }
}
