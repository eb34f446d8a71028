//! Kubeconfigs for the agents of accepted clusters.

use crate::endpoint::{Endpoint, make_private_directory};
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use roundhouse_api::{cluster::Cluster, names::ClusterName};
use roundhouse_apiserver::Identity;
use std::{collections::BTreeSet, path::PathBuf};
use tokio_util::sync::CancellationToken;

/// Writes `<directory>/<cluster>.kubeconfig` once for every Cluster that is accepted, until `stop`.
pub(super) async fn write_kubeconfigs(
    client: Client,
    endpoint: &Endpoint,
    directory: PathBuf,
    stop: CancellationToken,
) {
    if let Err(error) = make_private_directory(&directory) {
        tracing::error!(%error, "no kubeconfigs are written for agents");
        return;
    }
    let mut clusters = watcher(Api::<Cluster>::all(client), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    let mut written = BTreeSet::new();
    while let Some(Some(cluster)) = stop.run_until_cancelled(clusters.next()).await {
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                tracing::debug!(%error, "the watch of clusters broke off and starts over");
                continue;
            }
        };
        // Only a name that was checked becomes a file name.
        let Ok(name) = ClusterName::new(cluster.name_any()) else {
            continue;
        };
        if !cluster.spec.accepted || written.contains(&name) {
            continue;
        }
        let path = directory.join(format!("{name}.kubeconfig"));
        match endpoint.write_kubeconfig(&path, name.as_str(), &Identity::agent(name.as_str())) {
            Ok(()) => {
                tracing::info!(cluster = %name, path = %path.display(), "wrote the kubeconfig of an agent");
                written.insert(name);
            }
            Err(error) => {
                tracing::error!(cluster = %name, %error, "the kubeconfig of an agent was not written")
            }
        }
    }
}
