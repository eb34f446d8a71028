//! What keeps the namespace of a cluster that leaves from going.

use crate::{cluster::ClusterError, writes};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, Client, Error, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use roundhouse_api::{
    cluster::{ClusterReport, Leave},
    names::ClusterName,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

/// Objects of a kind that are looked at in one pass: an agent has one of each.
const PAGE: u32 = 100;
/// Objects that are named, and the most that is shown of what an API server says of a namespace, in characters.
const NAMED: usize = 5;
const SHOWN: usize = 300;

/// The Leases and reports that a finalizer holds, as `lease agent`: the agent may write both. Of a cluster that is forgotten they
/// are let go.
pub(super) async fn held(
    client: &Client,
    cluster: &ClusterName,
    how: Leave,
) -> Result<Vec<String>, ClusterError> {
    let mut held = of::<Lease>(client, cluster, how).await?;
    held.extend(of::<ClusterReport>(client, cluster, how).await?);
    Ok(held)
}

async fn of<K>(client: &Client, cluster: &ClusterName, how: Leave) -> Result<Vec<String>, ClusterError>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace());
    let failed = |action| {
        move |source: Error| ClusterError::Api {
            cluster: cluster.to_string(),
            action,
            source: Box::new(source),
        }
    };
    let page = ListParams::default().limit(PAGE);
    let all = api.list_metadata(&page).await;
    let all = all.map_err(failed("looking what is left of it"))?;
    let mut held = Vec::new();
    for object in all.items.iter().filter(|object| !object.finalizers().is_empty()) {
        let name = object.name_any();
        if how == Leave::Forget {
            let patch = json!({"metadata": {
                "resourceVersion": object.resource_version(), "uid": object.uid(), "finalizers": null}});
            let patched = api
                .patch_metadata(&name, &writes::patch(), &Patch::Merge(patch))
                .await;
            super::gone_or(patched.map(drop)).map_err(failed("letting go of what is left of it"))?;
        }
        held.push(format!("{} {name}", K::kind(&()).to_lowercase()));
    }
    Ok(held)
}

/// What is left, for people: what is held, or else what the API server says of it.
pub(super) fn named(held: &[String], namespace: &Namespace) -> Option<String> {
    if !held.is_empty() {
        let more = held.len().saturating_sub(NAMED);
        let named = held.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        return Some(match more {
            0 => named,
            more => format!("{named} and {more} more"),
        });
    }
    let status = namespace.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let said = conditions
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message.as_deref());
    let said: Vec<&str> = said.collect();
    (!said.is_empty()).then(|| said.join("; ").chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_and_bounded() {
        let silent = Namespace::default();
        assert_eq!(named(&[], &silent), None);
        let many: Vec<String> = (0..7).map(|n| format!("lease l{n}")).collect();
        assert_eq!(named(&many[..1], &silent).unwrap(), "lease l0");
        assert!(named(&many, &silent).unwrap().ends_with("lease l4 and 2 more"));
        let condition =
            |status: &str, message: &str| json!({"type": "T", "status": status, "message": message});
        let said: Namespace = serde_json::from_value(json!({"status": {"conditions": [
            condition("False", "all is well"),
            condition("True", "Some resources are remaining: widgets. has 1 resource instances"),
            condition("True", &"x".repeat(1_000))]}}))
        .unwrap();
        let text = named(&[], &said).unwrap();
        assert!(
            text.starts_with("Some resources are remaining: widgets."),
            "{text}"
        );
        assert_eq!(text.chars().count(), SHOWN);
    }
}
