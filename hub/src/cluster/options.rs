//! Settings of the cluster controller, and the hub's id.

use super::controller::BACKOFF;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use roundhouse_api::{
    cluster::{IdentityMethod, LONGEST_CERTIFICATE},
    names,
};
use std::time::Duration;

/// Settings of the cluster controller.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// How long a Lease may stay unchanged before its cluster is not available.
    pub lease_duration: Duration,
    /// What agents prove themselves by.
    pub identity: IdentityMethod,
    /// The longest life that an agent may ask for its certificate.
    pub longest_certificate: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            lease_duration: Duration::from_secs(40),
            identity: IdentityMethod::Certificate,
            longest_certificate: LONGEST_CERTIFICATE,
        }
    }
}

/// The hub's id, from the uid of its namespace `kube-system`.
///
/// # Errors
/// The namespace cannot be read, or has no uid.
pub async fn hub_id(client: &Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get("kube-system").await?;
    Ok(names::hub_id(&system.uid().unwrap_or_default()))
}

/// Tries until it is known.
pub(super) async fn wait_for_hub_id(client: &Client) -> String {
    let mut pause = BACKOFF.0;
    loop {
        match hub_id(client).await {
            Ok(id) => return id,
            Err(error) => {
                tracing::warn!(%error, "cannot read namespace kube-system of the hub, which its id comes from")
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}
