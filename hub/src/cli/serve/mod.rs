//! `roundhouse serve`

mod leader;
mod metrics;

use super::{
    Failure,
    apiserver::{Listen, Opened, disk_failed},
    kubeconfig, signal,
};
use crate::{
    action::{Allowed, Egress},
    application::{ApplicationOptions, DEFAULT_REVISION_LIMIT, WRITES_AT_ONCE_IN_PROCESS},
    cluster::ClusterOptions,
    run::{self, HubError, HubOptions},
    tenancy::Tenancy,
    workflow::Limits,
};
use kube::{Client, Config};
use roundhouse_api::{
    clock::{SharedClock, SystemClock},
    cluster::IdentityMethod,
};
use roundhouse_apiserver::Identity;
use std::{
    cell::OnceCell,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// What agents prove themselves by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AgentIdentity {
    Certificate,
    Token,
}

/// Run the hub
///
/// With --embedded the hub brings its own API server: it writes D/admin.kubeconfig at each start and prints its path.
/// What was answered is kept in D/store, whatever becomes of the process. Who may do what there is said by Roles and their
/// bindings; writes and refused requests are recorded in D/audit.log (see `roundhouse apiserver --help`). Clusters are invited
/// by `roundhouse join`.
///
/// With --kubeconfig the hub works on the Kubernetes API server that the file points to, and with --in-cluster on that of the
/// cluster that it runs in as a pod, as the pod's service account. Several hubs may work on one API server: one of them is
/// elected and writes, see --leader-elect.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("hub_of").required(true).args(["embedded", "kubeconfig", "in_cluster"]))]
#[command(
    override_usage = "roundhouse serve --embedded --data-dir D [OPTIONS]\n       \
    roundhouse serve --kubeconfig F [OPTIONS]\n       \
    roundhouse serve --in-cluster [OPTIONS]"
)]
pub(super) struct Args {
    /// Serve an embedded API server and work on it
    #[arg(long, requires = "data_dir")]
    embedded: bool,
    /// Directory of the objects, the certificate authority and the kubeconfigs, for --embedded; created if absent
    #[arg(long, value_name = "D", requires = "embedded")]
    data_dir: Option<PathBuf>,
    /// Address that the embedded API server listens on; port 0 takes a free one
    #[arg(long, value_name = "A", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Further host name or address that clients use for the embedded API server; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Have the embedded API server refuse mistakes of clients that Kubernetes tolerates, see `roundhouse apiserver --help`
    #[arg(long, requires = "embedded")]
    strict: bool,
    /// Work on the API server of this kubeconfig
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
    /// Work on the API server of the cluster that this runs in, with the service account of its pod
    #[arg(long)]
    in_cluster: bool,
    /// Replace definitions of core.oam.dev that another product has installed, such as KubeVela
    #[arg(long)]
    take_over_core_oam: bool,
    /// What Applications may contain: objects in their own namespace, or everything [default: open with --embedded,
    /// namespace otherwise]
    ///
    /// With "namespace" whatever else an Application contains (other namespaces, kinds without one, custom kinds) is
    /// refused, unless the annotations roundhouse.dev/allow-kinds and roundhouse.dev/allow-namespaces of its Namespace on
    /// the hub name it.
    #[arg(long, value_enum, value_name = "T")]
    tenancy: Option<Tenancy>,
    /// What agents prove themselves by: client certificates, or tokens of service accounts where the API server's signer
    /// kubernetes.io/kube-apiserver-client signs nothing, as in some managed clusters
    #[arg(long, value_enum, value_name = "KIND", default_value = "certificate")]
    agent_identity: AgentIdentity,
    /// Let steps send requests here, too; may be repeated
    ///
    /// Steps of type request, webhook and notification reach any host, those of private networks too, but this machine,
    /// link-local, site-local, multicast, broadcast and reserved addresses, metadata services of clouds, and the hub's own API server. This widens it: by addresses (10.0.0.0/8, ::1), a host
    /// (hooks.example.org), or the hosts below a domain (*.example.org).
    #[arg(long = "egress-allow", value_name = "CIDR|HOST")]
    egress_allow: Vec<Allowed>,
    /// Revisions of an application that are kept beside those in use (KubeVela's flag of that name)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_REVISION_LIMIT)]
    application_revision_limit: usize,
    /// Longest wait between two looks at a step that waits, in seconds (KubeVela's flag of that name)
    ///
    /// The waits are 1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51 seconds and then this one, from the last progress on. An agent's
    /// report wakes the step at once, whatever the wait is.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_workflow_wait_backoff_time: u64,
    /// How often a step that fails is tried again before the run ends as failed (KubeVela's flag of that name)
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_workflow_step_error_retry_times: u32,
    /// Serve Prometheus metrics at http://A/metrics, and /healthz and /readyz beside them, without TLS and to whoever can
    /// connect; port 0 takes a free one
    ///
    /// It is ready when it has seen everything; the answer says whether it leads or follows. /fleet on the same port counts the
    /// Bundles of each cluster and application; it is answered to this machine only (`roundhouse top` reads both).
    #[arg(long, value_name = "A")]
    metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    leader: leader::LeaderArgs,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let told = signal::termination();
    let clock: SharedClock = Arc::new(SystemClock);
    let stop = CancellationToken::new();
    let mut options = HubOptions {
        take_over_core_oam: args.take_over_core_oam,
        application: ApplicationOptions {
            revision_limit: args.application_revision_limit,
            tenancy: args.tenancy.unwrap_or(match args.embedded {
                false => Tenancy::Namespace,
                true => Tenancy::Open,
            }),
            limits: Limits {
                max_wait: Duration::from_secs(args.max_workflow_wait_backoff_time),
                max_retries: args.max_workflow_step_error_retry_times,
            },
            ..ApplicationOptions::default()
        },
        // Of an embedded API server all of this machine's addresses are refused without being named.
        egress: Egress::new(args.egress_allow.clone(), Vec::new()),
        election: args
            .leader
            .election(args.in_cluster, std::env::var("HOSTNAME").ok())?,
        cluster: ClusterOptions {
            identity: match args.agent_identity {
                AgentIdentity::Certificate => IdentityMethod::Certificate,
                AgentIdentity::Token => IdentityMethod::Token,
            },
            ..ClusterOptions::default()
        },
        ..HubOptions::default()
    };
    let counted = match args.metrics_listen {
        Some(address) => Some(metrics::listen(address, &options, &stop).await?),
        None => None,
    };
    let counting = |client| match &counted {
        Some(metrics) => metrics.counting(client),
        None => client,
    };
    let standing = match (&args.kubeconfig, args.in_cluster) {
        (Some(file), _) => Some(client_of(file).await?),
        (None, true) => Some(client_of_pod()?),
        (None, false) => None,
    };
    match (standing, args.data_dir) {
        (Some((client, host)), _) => {
            let client = counting(client);
            // In a cluster its API server has a second address.
            let guarded = [host, std::env::var("KUBERNETES_SERVICE_HOST").ok()];
            options.egress = Egress::new(args.egress_allow, guarded.into_iter().flatten().collect());
            until_terminated(client, options, &clock, &stop, told).await?;
        }
        (None, Some(data_dir)) => {
            options.application.writes_at_once = WRITES_AT_ONCE_IN_PROCESS;
            let listen = Listen {
                data_dir: data_dir.clone(),
                listen: args.listen,
                names: args.names,
                strict: args.strict,
            };
            let Opened {
                server,
                store,
                authority,
            } = listen.server(&clock)?;
            // In the audit log the hub is told from the administrator.
            let hub = Identity::new("roundhouse:hub", ["system:masters"]);
            let client = counting(Client::new(server.service_as(Some(hub)), "default"));
            // The definitions are there before the kubeconfig is: who has read its path may use them.
            run::install(&client, &options).await.map_err(not_started)?;
            let endpoint = listen.open(&server, authority, "roundhouse", &clock).await?;
            // A disk that fails ends the hub like a signal does.
            let failed = OnceCell::new();
            let told = async {
                tokio::select! {
                    biased;
                    () = told => {}
                    failure = store.failed() => drop(failed.set(failure)),
                }
            };
            let ended = until_terminated(client, options, &clock, &stop, told).await;
            if let Some(failure) = failed.get() {
                return Err(disk_failed(failure));
            }
            ended?;
            let closed = endpoint.close().await;
            closed.map_err(|error| {
                Failure::new("E-SERVE", "the API server failed while serving").because(error)
            })?;
        }
        (None, None) => {
            return Err(Failure::new(
                "E-USAGE",
                "neither --embedded nor --kubeconfig nor --in-cluster is given",
            )
            .advise("roundhouse serve --embedded --data-dir ./hub"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the hub's controllers until the process is told to end.
async fn until_terminated(
    client: Client,
    options: HubOptions,
    clock: &SharedClock,
    stop: &CancellationToken,
    told: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let hub = run::run(client, options, clock.clone(), stop.clone());
    let told = async {
        told.await;
        stop.cancel();
    };
    tokio::pin!(hub, told);
    let ended = tokio::select! {
        biased;
        ended = &mut hub => ended,
        () = &mut told => hub.await,
    };
    // Whatever ended the hub ends what runs beside it.
    stop.cancel();
    ended.map_err(not_started)
}

fn not_started(error: HubError) -> Failure {
    let advice = match &error {
        HubError::ForeignDefinitions { .. } => "another cluster for the hub, or --take-over-core-oam",
        _ => "check that the API server answers, and that this user may write CustomResourceDefinitions",
    };
    Failure::new("E-HUB", "the hub did not start")
        .because(error)
        .advise(advice)
}

/// A client, and the host of its API server.
async fn client_of(file: &Path) -> Result<(Client, Option<String>), Failure> {
    let config = kubeconfig::config(Some(file)).await?;
    connect(config).map_err(|error| {
        Failure::new("E-KUBECONFIG", format!("{} cannot be used", file.display()))
            .because(error)
            .advise("kubectl --kubeconfig with this file, to see what it says")
    })
}

/// The same by the service account of the pod that this runs in.
fn client_of_pod() -> Result<(Client, Option<String>), Failure> {
    let failed = || {
        Failure::new("E-IN-CLUSTER", "the service account of this pod cannot be used")
            .advise("--in-cluster in a pod with automountServiceAccountToken, or --kubeconfig F elsewhere")
    };
    let config = Config::incluster().map_err(|error| failed().because(error))?;
    connect(config).map_err(|error| failed().because(error))
}

fn connect(mut config: Config) -> Result<(Client, Option<String>), kube::Error> {
    config.read_timeout = Some(crate::run::READ_TIMES_OUT);
    // The controllers repeat what fails, and have to know of every write that was not answered.
    config.default_retry = false;
    let host = config.cluster_url.host();
    let host = host.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned());
    Ok((Client::try_from(config)?, host))
}
