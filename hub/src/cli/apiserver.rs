//! `roundhouse apiserver`

use super::{Failure, signal, terminal};
use crate::{
    endpoint::{
        Endpoint, EndpointError, authority_certificate, authority_in, guarded, make_private_directory,
    },
    simulate::workloads::{self, Model},
};
use kube::Client;
use roundhouse_api::clock::{SharedClock, SystemClock};
use roundhouse_apiserver::{Authority, DurableOptions, DurableStore, Folder, Identity, JournalError, Server};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Serve a bare Kubernetes API, without nodes
///
/// Writes D/admin.kubeconfig at each start. What was answered is kept in D/store, whatever becomes of the process: a
/// restart goes on from there, and watches resume. One process at a time has D.
///
/// Who may do what is said by Roles, ClusterRoles and their bindings, as in Kubernetes. Writes, and requests that were
/// refused, are recorded in D/audit.log. Certificates listed in the ConfigMap kube-system/roundhouse-revoked are not taken,
/// by entries such as "user roundhouse:agent:c1:1767225600 before 2026-01-31T12:00:00Z" (the number is spec.serial of the
/// Cluster) or "serial 0a1b2c". `roundhouse revoke` ends the identity of an agent without it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    listen: Listen,
    /// Play Deployments, StatefulSets, DaemonSets, Jobs and Pods, as a cluster with nodes would, addresses of load balancers and
    /// the counts of PodDisruptionBudgets; of one workload at most 10,000 replicas, and one that asks for more says so in its
    /// conditions. Images whose names contain :broken are never pulled: their replicas do not
    /// become ready
    #[arg(long)]
    simulate_workloads: bool,
    /// Seed of the simulated delays
    #[arg(long, default_value_t = 0, requires = "simulate_workloads")]
    seed: u64,
}

/// Where the objects are in a data directory.
pub(super) const STORE: &str = "store";

/// Where an embedded API server keeps its certificates, and where it listens.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Listen {
    /// Directory of the objects, the certificate authority and the kubeconfigs; created if absent
    #[arg(long, value_name = "D")]
    pub(super) data_dir: PathBuf,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "A", default_value = "127.0.0.1:6443")]
    pub(super) listen: SocketAddr,
    /// Further host name or address that clients use for it; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    pub(super) names: Vec<String>,
    /// Refuse mistakes of clients that Kubernetes tolerates
    ///
    /// Unknown parameters; unknown and duplicate fields whatever fieldValidation says; new objects with a status, or with
    /// metadata that only the server makes; updates without resourceVersion; changes of a status or a spec that would be
    /// dropped in silence.
    #[arg(long)]
    pub(super) strict: bool,
}

/// A server and what it is made of.
pub(super) struct Opened {
    pub(super) server: Server,
    pub(super) store: Arc<DurableStore>,
    pub(super) authority: Arc<Authority>,
}

impl Listen {
    /// The server whose objects are in the data directory, guarded by what else is there.
    pub(super) fn server(&self, clock: &SharedClock) -> Result<Opened, Failure> {
        let directory = self.data_dir.join(STORE);
        let certificate = authority_certificate(&self.data_dir);
        let known = certificate.exists();
        let stored = Folder::holds_store(&directory).map_err(|error| {
            Failure::new("E-STORE", format!("{} cannot be read", directory.display()))
                .because(error)
                .advise("another directory with --data-dir")
        })?;
        // What is not there was lost. To begin anew would tell agents that all is gone, or be refused by every one of them.
        if known && !stored {
            let cause = format!(
                "{} is there, but {} has no objects",
                certificate.display(),
                directory.display()
            );
            return Err(lost("what was stored in", cause));
        }
        make_private_directory(&self.data_dir).map_err(not_started)?;
        let store = DurableStore::open(&directory, DurableOptions::default());
        let store = Arc::new(store.map_err(|error| {
            let advice = match &error {
                JournalError::InUse { .. } => "stop the other process, or another directory with --data-dir",
                JournalError::Damaged { .. } | JournalError::Missing { .. } => {
                    "roundhouse restore, with a backup and an empty directory"
                }
                _ => "another directory with --data-dir",
            };
            Failure::new("E-STORE", "the objects in the data directory cannot be used")
                .because(error)
                .advise(advice)
        })?);
        // A first start that was interrupted has an empty store and no authority: it goes on.
        if !known && !store.is_new() {
            let cause = format!(
                "{} has objects, but {} is not there",
                directory.display(),
                certificate.display()
            );
            return Err(lost("the certificate authority of", cause));
        }
        let authority = Arc::new(authority_in(&self.data_dir, clock).map_err(not_started)?);
        let server = guarded(&self.data_dir, authority.clone()).map_err(not_started)?;
        let server = match self.strict {
            true => server.strict(),
            false => server,
        };
        Ok(Opened {
            server: server.store(store.clone()).build(),
            store,
            authority,
        })
    }

    /// Opens the endpoint and writes `admin.kubeconfig`; its path is printed on stdout.
    pub(super) async fn open(
        &self,
        server: &Server,
        authority: Arc<Authority>,
        context: &str,
        clock: &SharedClock,
    ) -> Result<Endpoint, Failure> {
        let endpoint = Endpoint::open(server.clone(), self.listen, &self.names, authority, clock.clone())
            .await
            .map_err(not_started)?;
        let path = self.data_dir.join("admin.kubeconfig");
        endpoint
            .write_kubeconfig(&path, context, &Identity::admin())
            .map_err(not_started)?;
        terminal::print(&format!("{}\n", path.display()))?;
        terminal::tell(format_args!("serving {}", endpoint.url()));
        Ok(endpoint)
    }
}

fn lost(what: &str, cause: String) -> Failure {
    let advice = "roundhouse restore, with a backup and a directory that is not there yet; or another --data-dir, to begin anew";
    Failure::new("E-STORE", format!("{what} the data directory is gone"))
        .because(cause)
        .advise(advice)
}

fn not_started(error: EndpointError) -> Failure {
    let advice = match &error {
        EndpointError::Listen { .. } => "another address with --listen, such as 127.0.0.1:0",
        EndpointError::KeyMissing { .. } => {
            "put the key back, from a backup (roundhouse restore) for example"
        }
        _ => "another directory with --data-dir",
    };
    Failure::new("E-LISTEN", "the API server did not start")
        .because(error)
        .advise(advice)
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let told = signal::termination();
    let clock: SharedClock = Arc::new(SystemClock);
    let Opened {
        server,
        store,
        authority,
    } = args.listen.server(&clock)?;
    let endpoint = args.listen.open(&server, authority, "roundhouse", &clock).await?;
    let stop = CancellationToken::new();
    let simulator = args.simulate_workloads.then(|| {
        let client = Client::new(server.service(), "default");
        let model = Model {
            seed: args.seed,
            ..Model::default()
        };
        tokio::spawn(workloads::run(client, model, clock.clone(), stop.clone()))
    });
    let failed = tokio::select! {
        biased;
        () = told => None,
        failure = store.failed() => Some(disk_failed(&failure)),
    };
    stop.cancel();
    if let Some(simulator) = simulator
        && let Err(error) = simulator.await
    {
        tracing::warn!(%error, "the workload simulator had failed");
    }
    let closed = endpoint.close().await;
    if let Some(failed) = failed {
        return Err(failed);
    }
    closed.map_err(|error| Failure::new("E-SERVE", "the API server failed while serving").because(error))?;
    Ok(ExitCode::SUCCESS)
}

/// The disk under the data directory failed.
pub(super) fn disk_failed(failure: &JournalError) -> Failure {
    Failure::new(
        "E-DISK",
        "the disk of the data directory failed; nothing was acknowledged after that",
    )
    .because(failure.to_string())
    .advise("starting again, once the disk is well: everything that was acknowledged is there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_lost_its_objects_or_its_key_is_not_begun_anew() {
        let home = tempfile::tempdir().unwrap();
        let listen = Listen {
            data_dir: home.path().join("hub/data"),
            listen: ([127, 0, 0, 1], 0).into(),
            names: vec![],
            strict: true,
        };
        let clock: SharedClock = Arc::new(SystemClock);
        let start = || {
            listen
                .server(&clock)
                .map(drop)
                .map_err(|failure| failure.to_string())
        };
        start().unwrap();
        start().unwrap();
        let (store, aside) = (listen.data_dir.join(STORE), home.path().join("aside"));
        std::fs::rename(&store, &aside).unwrap();
        for empty in [false, true] {
            if empty {
                // As an empty disk is mounted.
                std::fs::create_dir_all(store.join("lost+found")).unwrap();
            }
            let refused = start().unwrap_err();
            assert!(refused.contains("has no objects"), "{refused}");
            assert!(refused.contains("roundhouse restore"), "{refused}");
        }
        std::fs::remove_dir_all(&store).unwrap();
        std::fs::rename(&aside, &store).unwrap();
        start().unwrap();
        let (certificate, away) = (listen.data_dir.join("ca.crt"), home.path().join("ca.crt"));
        let key = std::fs::read(listen.data_dir.join("ca.key")).unwrap();
        std::fs::rename(&certificate, &away).unwrap();
        let refused = start().unwrap_err();
        assert!(refused.contains("ca.crt is not there"), "{refused}");
        assert_eq!(std::fs::read(listen.data_dir.join("ca.key")).unwrap(), key);
        std::fs::rename(&away, &certificate).unwrap();
        start().unwrap();
        std::fs::remove_file(listen.data_dir.join("ca.key")).unwrap();
        let refused = start().unwrap_err();
        assert!(refused.contains("ca.key is missing"), "{refused}");
        assert!(!listen.data_dir.join("ca.key").exists());
    }
}
