//! When the agents were heard last.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Error, ResourceExt, api::ListParams};
use roundhouse_api::names::{AGENT_LEASE, cluster_of_namespace};
use std::collections::BTreeMap;

/// When the agent of each cluster renewed its Lease last, by its own clock. The status of a Cluster does not say it: heartbeats
/// are no reason to write one.
///
/// # Errors
/// The hub refuses the list.
pub(in crate::cli) async fn heard(client: &Client) -> Result<BTreeMap<String, Timestamp>, Error> {
    let own = ListParams::default().fields(&format!("metadata.name={AGENT_LEASE}"));
    let leases = Api::<Lease>::all(client.clone()).list(&own).await?;
    let renewed = leases.items.into_iter().filter_map(|lease| {
        let cluster = cluster_of_namespace(&lease.namespace()?)?.to_owned();
        Some((cluster, lease.spec?.renew_time?.0))
    });
    Ok(renewed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use roundhouse_apiserver::Server;
    use serde_json::json;

    #[tokio::test]
    async fn the_leases_of_agents_are_told_from_others() {
        let client = Client::new(Server::builder().build().service(), "default");
        let params = PostParams::default();
        for (namespace, name, renewed) in [
            ("cluster-c1", "agent", Some("2026-03-01T11:59:50.000000Z")),
            ("cluster-c1", "other", Some("2026-03-01T12:00:00.000000Z")),
            ("cluster-c2", "agent", None),
            ("shop", "agent", Some("2026-03-01T12:00:00.000000Z")),
        ] {
            let home: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
            // The second Lease of a namespace finds it there.
            let _ = Api::all(client.clone()).create(&params, &home).await;
            let lease = json!({"metadata": {"name": name}, "spec": {"renewTime": renewed}});
            let lease: Lease = serde_json::from_value(lease).unwrap();
            let leases = Api::namespaced(client.clone(), namespace);
            leases.create(&params, &lease).await.unwrap();
        }
        let expected = ("c1".to_owned(), "2026-03-01T11:59:50Z".parse().unwrap());
        assert_eq!(heard(&client).await.unwrap(), BTreeMap::from([expected]));
    }
}
