//! The namespace of a cluster on the hub, and the Lease that its agent renews.

use super::ClusterError;
use crate::writes;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Namespace,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::Patch};
use roundhouse_api::names::{AGENT_LEASE, ClusterName, annotation, label};
use serde_json::json;
use std::time::Duration;

/// Whether a namespace is the one that this hub made for that cluster.
pub(super) fn is_ours(namespace: &Namespace, cluster: &ClusterName) -> bool {
    let labels = namespace.labels();
    let has = |key: &str, value: &str| labels.get(key).is_some_and(|v| v == value);
    has(label::CLUSTER, cluster.as_str()) && has(label::MANAGED_BY, label::MANAGED_BY_VALUE)
}

/// The namespace of a cluster as it is created.
pub(super) fn namespace_of(cluster: &ClusterName) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(cluster.namespace()),
            labels: Some(labels(cluster)),
            ..Default::default()
        },
        ..Default::default()
    }
}

/// The Lease of a cluster as it is created: not held by anyone yet.
pub(super) fn lease_of(cluster: &ClusterName, hub_id: &str, duration: Duration) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(AGENT_LEASE.to_owned()),
            namespace: Some(cluster.namespace()),
            labels: Some(labels(cluster)),
            annotations: Some([(annotation::HUB_ID.to_owned(), hub_id.to_owned())].into()),
            ..Default::default()
        },
        spec: Some(LeaseSpec {
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            ..Default::default()
        }),
    }
}

fn labels(cluster: &ClusterName) -> std::collections::BTreeMap<String, String> {
    [
        (label::CLUSTER.to_owned(), cluster.as_str().to_owned()),
        (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
    ]
    .into()
}

/// Writes for one cluster.
pub(super) struct Provision<'a> {
    pub(super) client: &'a Client,
    pub(super) cluster: &'a ClusterName,
}

impl Provision<'_> {
    /// Reads the namespace, and creates it where there is none.
    pub(super) async fn namespace(&self) -> Result<Namespace, ClusterError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let name = self.cluster.namespace();
        if let Some(found) = api
            .get_opt(&name)
            .await
            .map_err(self.failed("reading its namespace"))?
        {
            return Ok(found);
        }
        api.create(&writes::post(), &namespace_of(self.cluster))
            .await
            .map_err(self.failed("creating its namespace"))
    }

    /// Creates the Lease, or writes the hub's id into the one that is there.
    pub(super) async fn lease(
        &self,
        found: Option<&Lease>,
        hub_id: &str,
        duration: Duration,
    ) -> Result<(), ClusterError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.cluster.namespace());
        let Some(found) = found else {
            return match api
                .create(&writes::post(), &lease_of(self.cluster, hub_id, duration))
                .await
            {
                // The agent was quicker; its Lease is seen by the watch and stamped then.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                Err(error) => Err(self.failed("creating its Lease")(error)),
                Ok(_) => Ok(()),
            };
        };
        if found
            .annotations()
            .get(annotation::HUB_ID)
            .is_some_and(|id| id == hub_id)
        {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "resourceVersion": found.resource_version(),
            "annotations": {annotation::HUB_ID: hub_id}}});
        api.patch(AGENT_LEASE, &writes::patch(), &Patch::Merge(&patch))
            .await
            .map(drop)
            .map_err(self.failed("writing the hub's id on its Lease"))
    }

    pub(super) fn failed(&self, action: &'static str) -> impl FnOnce(kube::Error) -> ClusterError {
        let cluster = self.cluster.to_string();
        move |source| ClusterError::Api {
            cluster,
            action,
            source: Box::new(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_with_both_labels_is_ours() {
        let cluster = ClusterName::new("c1").unwrap();
        let ours = namespace_of(&cluster);
        assert!(is_ours(&ours, &cluster));
        assert!(!is_ours(&ours, &ClusterName::new("c2").unwrap()));
        for missing in [label::CLUSTER, label::MANAGED_BY] {
            let mut foreign = ours.clone();
            foreign.labels_mut().remove(missing);
            assert!(!is_ours(&foreign, &cluster), "{missing}");
        }
        let lease = lease_of(&cluster, "0123456789", Duration::from_secs(40));
        assert_eq!(lease.annotations()[annotation::HUB_ID], "0123456789");
        assert_eq!(lease.spec.unwrap().renew_time, None);
    }
}
