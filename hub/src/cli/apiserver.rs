//! `roundhouse apiserver`

use super::{Failure, signal, terminal};
use crate::{
    endpoint::{Endpoint, EndpointError, authority_in},
    simulate::workloads::{self, Model},
};
use kube::Client;
use roundhouse_api::clock::{SharedClock, SystemClock};
use roundhouse_apiserver::{Identity, Server};
use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Serve a bare Kubernetes API, without nodes
///
/// Writes D/admin.kubeconfig at each start. Objects are kept in memory until the durable store lands: they are gone
/// when the process ends. The certificate authority in D stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    listen: Listen,
    /// Play Deployments, StatefulSets, DaemonSets, Jobs and Pods, as a cluster with nodes would
    #[arg(long)]
    simulate_workloads: bool,
    /// Seed of the simulated delays
    #[arg(long, default_value_t = 0, requires = "simulate_workloads")]
    seed: u64,
}

/// Where an embedded API server keeps its certificates, and where it listens.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Listen {
    /// Directory of the certificate authority and of the kubeconfigs; created if absent
    #[arg(long, value_name = "D")]
    pub(super) data_dir: PathBuf,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "A", default_value = "127.0.0.1:6443")]
    pub(super) listen: SocketAddr,
    /// Further host name or address that clients use for it; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    pub(super) names: Vec<String>,
}

impl Listen {
    /// Opens the endpoint and writes `admin.kubeconfig`; its path is printed on stdout.
    pub(super) async fn open(
        &self,
        server: &Server,
        context: &str,
        clock: &SharedClock,
    ) -> Result<Endpoint, Failure> {
        let failed = |error: EndpointError| {
            let advice = match &error {
                EndpointError::Listen { .. } => "another address with --listen, such as 127.0.0.1:0",
                _ => "another directory with --data-dir",
            };
            Failure::new("E-LISTEN", "the API server did not start")
                .because(error)
                .advise(advice)
        };
        let authority = authority_in(&self.data_dir, clock).map_err(failed)?;
        let endpoint = Endpoint::open(server.clone(), self.listen, &self.names, authority, clock.clone())
            .await
            .map_err(failed)?;
        let path = self.data_dir.join("admin.kubeconfig");
        endpoint
            .write_kubeconfig(&path, context, &Identity::admin())
            .map_err(failed)?;
        terminal::print(&format!("{}\n", path.display()))?;
        eprintln!(
            "serving {} (objects are kept in memory until the durable store lands)",
            endpoint.url()
        );
        Ok(endpoint)
    }
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let told = signal::termination();
    let clock: SharedClock = Arc::new(SystemClock);
    let server = Server::builder().build();
    let endpoint = args.listen.open(&server, "roundhouse", &clock).await?;
    let stop = CancellationToken::new();
    let simulator = args.simulate_workloads.then(|| {
        let client = Client::new(server.service(), "default");
        let model = Model {
            seed: args.seed,
            ..Model::default()
        };
        tokio::spawn(workloads::run(client, model, clock.clone(), stop.clone()))
    });
    told.await;
    stop.cancel();
    if let Some(simulator) = simulator
        && let Err(error) = simulator.await
    {
        tracing::warn!(%error, "the workload simulator had failed");
    }
    let closed = endpoint.close().await;
    closed.map_err(|error| Failure::new("E-SERVE", "the API server failed while serving").because(error))?;
    Ok(ExitCode::SUCCESS)
}
