//! A running hub: its resource definitions, the application controller and the cluster controller.

mod definitions;

pub use definitions::{APPLICATIONS, install};

use crate::{
    action::{Answered, Egress, Executor, Outside, Runner},
    application::{self, ApplicationOptions},
    cluster::{self, ClusterOptions},
    leader::{Candidate, Election, Ended, Gate, Guarded, Held, Leading, Term},
    restored,
    steady::Steady,
};
use kube::Client;
use roundhouse_api::{clock::SharedClock, names::label};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long a hub's clients wait for the next byte of an answer: watches are quiet for minutes, and a dead connection is noticed by
/// the server's own timeout of a watch.
pub const READ_TIMES_OUT: Duration = Duration::from_secs(330);
/// How soon definitions that could not be installed are tried again.
const INSTALL_AGAIN: Duration = Duration::from_secs(2);

/// Settings of a hub.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// Replace definitions of `core.oam.dev` that another installation (KubeVela) has made.
    pub take_over_core_oam: bool,
    /// Where steps may send requests.
    pub egress: Egress,
    /// Settings of the application controller.
    pub application: ApplicationOptions,
    /// Settings of the cluster controller.
    pub cluster: ClusterOptions,
    /// Who answers the requests and messages of steps in place of the network.
    pub outside: Option<Outside>,
    /// Whether and where it stands for election.
    pub election: Election,
    /// Where it stands. Made anew for every hub.
    pub leading: Leading,
    /// What its writes pass. Made anew for every hub.
    pub gate: Gate,
}

/// Why a hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// KubeVela, or another installation, owns definitions that the hub needs.
    #[error(
        "the API server has {names} without the label {}={}: another installation (KubeVela?) uses them; remove it, or start with --take-over-core-oam",
        label::MANAGED_BY,
        label::MANAGED_BY_VALUE
    )]
    ForeignDefinitions {
        /// Names of the definitions.
        names: String,
    },
    /// A definition cannot be read or written.
    #[error("installing {name} failed: {source}; check that the hub may write CustomResourceDefinitions")]
    Install {
        /// Name of the definition.
        name: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// A definition is not served.
    #[error("{name} is not established after {seconds} s: look at its conditions")]
    NotEstablished {
        /// Name of the definition.
        name: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
}

/// Installs what the hub needs and runs its controllers until `shutdown`: at once, or whenever this hub leads.
///
/// # Errors
/// [`HubError`]: the API server refuses what the hub needs, or another product owns it. Nothing else ends it but `shutdown`.
pub async fn run(
    client: Client,
    options: HubOptions,
    clock: SharedClock,
    shutdown: CancellationToken,
) -> Result<(), HubError> {
    let refusing = Box::pin(refused(&client, &options));
    match shutdown.run_until_cancelled(refusing).await {
        None => return Ok(()),
        Some(refused) => refused?,
    }
    // Nobody is to stand for election who would only wait.
    let confirmed = restored::until_confirmed(&client);
    if shutdown.run_until_cancelled(confirmed).await.is_none() {
        return Ok(());
    }
    let (gate, leading) = (options.gate.clone(), options.leading.clone());
    let gated = gate.client(client.clone());
    let mut application = options.application.clone();
    if application.executor.is_none() {
        let runner = Runner::new(gated.clone(), options.egress.clone(), clock.clone());
        let executor = Answered {
            runner,
            outside: options.outside.clone(),
        };
        application.executor = Some(Arc::new(Guarded {
            executor,
            gate: gate.clone(),
        }) as Arc<dyn Executor>);
    }
    // Of this process: what an earlier one sent is not known to it.
    let making = application::Making::default();
    application.making = making.clone();
    let controllers = CancellationToken::new();
    // What they decide is by times that both store; a machine whose clock is put wrong decides nothing else for it.
    let steady = Steady::of(clock.clone());
    let applications = application::run(
        gated.clone(),
        application,
        leading.clone(),
        steady.clone(),
        controllers.clone(),
    );
    let clusters = cluster::run(
        gated.clone(),
        options.cluster.clone(),
        options.application.metrics.clone(),
        making,
        leading.clone(),
        steady.clone(),
        controllers.clone(),
    );
    let candidate = Candidate::new(client, options.election.clone(), steady.clone(), gate.clone());
    let terms = async {
        let ended = lead(&candidate, &gated, &options, &shutdown).await;
        controllers.cancel();
        ended
    };
    let ((), (), ended) = tokio::join!(Box::pin(applications), Box::pin(clusters), Box::pin(terms));
    ended
}

/// Leads whenever the Lease is ours, until `shutdown`; then others have it.
async fn lead(
    candidate: &Candidate,
    gated: &Client,
    options: &HubOptions,
    shutdown: &CancellationToken,
) -> Result<(), HubError> {
    while let Some(mut held) = shutdown.run_until_cancelled(candidate.acquire()).await {
        let ended = term(&mut held, candidate, gated, options, shutdown).await;
        options.leading.set(None);
        options.gate.close();
        match ended {
            Ok(Ended::Lost) => candidate.lost(),
            Ok(Ended::Stopped) => held.release().await,
            Err(error) => {
                held.release().await;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// One term, from the Lease to its end: the epoch is stored first, then the definitions are there, then the controllers write.
async fn term(
    held: &mut Held<'_>,
    candidate: &Candidate,
    gated: &Client,
    options: &HubOptions,
    shutdown: &CancellationToken,
) -> Result<Ended, HubError> {
    let began = async {
        // The API server may have been restored since this hub was started.
        let above = Box::pin(restored::until_confirmed(candidate.client()));
        let above = held.keep(above, shutdown).await?;
        let epoch = held.begin(above, &options.leading, shutdown).await?;
        let term = Term {
            epoch,
            // No epoch that was given to somebody is beyond it, whatever it says.
            confirmed: above.min(epoch - 1),
        };
        let installed = held
            .keep(Box::pin(install_at_last(gated, options)), shutdown)
            .await?;
        Ok::<_, Ended>(installed.map(|()| term))
    };
    let term = match Box::pin(began).await {
        Ok(installed) => installed?,
        Err(ended) => return Ok(ended),
    };
    options.leading.set(Some(term));
    let leading = held.keep(std::future::pending::<Infallible>(), shutdown);
    match leading.await {
        Ok(never) => match never {},
        Err(ended) => Ok(ended),
    }
}

/// Looks whether the API server has what this hub may not replace, before anybody stands for election; waits for a server
/// that does not answer, as the hub does ever after.
async fn refused(client: &Client, options: &HubOptions) -> Result<(), HubError> {
    loop {
        match definitions::due(client, options).await {
            Err(error) if error.passes() => {
                tracing::warn!(%error, "the API server does not say what is there; it is asked again");
                tokio::time::sleep(INSTALL_AGAIN).await;
            }
            looked => return looked.map(drop),
        }
    }
}

/// Installs, and tries again what passes by itself: a hub takes over just when its API server has trouble.
async fn install_at_last(client: &Client, options: &HubOptions) -> Result<(), HubError> {
    loop {
        match install(client, options).await {
            Err(error) if error.passes() => {
                tracing::warn!(%error, "the definitions are not there yet; it is tried again");
                tokio::time::sleep(INSTALL_AGAIN).await;
            }
            installed => return installed,
        }
    }
}

impl HubError {
    /// Whether the same may go well a moment later: everything but what the API server refuses or another product owns.
    fn passes(&self) -> bool {
        match self {
            HubError::ForeignDefinitions { .. } => false,
            HubError::NotEstablished { .. } => true,
            HubError::Install { source, .. } => match &**source {
                kube::Error::Api(status) => {
                    status.code >= 500 || matches!(status.code, 408 | 409 | 410 | 429)
                }
                _ => true,
            },
        }
    }
}
