//! A running hub: its resource definitions, the application controller and the cluster controller.

use crate::{
    action::{Answered, Egress, Executor, Outside, Runner},
    application::{self, ApplicationOptions},
    cluster::{self, ClusterOptions},
    leader::{Candidate, Election, Ended, Gate, Guarded, Held, Leading, Term},
    restored,
    steady::Steady,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{
        conditions::is_crd_established,
        wait::{Condition, await_condition},
    },
};
use roundhouse_api::{
    clock::SharedClock,
    crds, hash,
    names::{HUB_FIELD_MANAGER, OAM_GROUP, annotation, label},
};
use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Content hash of an installed definition: it is written again only when it differs.
const DEFINITION_HASH: &str = "roundhouse.dev/definition-hash";
/// The definition of Applications.
pub const APPLICATIONS: &str = "applications.core.oam.dev";
/// How long a hub's clients wait for the next byte of an answer: watches are quiet for minutes, and a dead connection is noticed by
/// the server's own timeout of a watch.
pub const READ_TIMES_OUT: Duration = Duration::from_secs(330);
/// How soon definitions that could not be installed are tried again.
const INSTALL_AGAIN: Duration = Duration::from_secs(2);
/// How long the API server may take to serve a new definition.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);

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
        leading.clone(),
        steady,
        controllers.clone(),
    );
    let candidate = Candidate::new(client, options.election.clone(), clock, gate.clone());
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
        let installed = held
            .keep(Box::pin(install_at_last(gated, options)), shutdown)
            .await?;
        Ok::<_, Ended>(installed.map(|()| epoch))
    };
    let epoch = match Box::pin(began).await {
        Ok(installed) => installed?,
        Err(ended) => return Ok(ended),
    };
    options.leading.set(Some(Term { epoch }));
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
        match due(client, options).await {
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
                kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 409 | 429),
                _ => true,
            },
        }
    }
}

/// The definitions of a hub as they are to be, with what is there.
type Due = Vec<(CustomResourceDefinition, Option<CustomResourceDefinition>)>;

/// Installs the definitions of the hub; one that is there as it should be is not written. That of Applications says what the
/// hub's tenancy is.
///
/// # Errors
/// [`HubError`]; nothing is written if definitions of `core.oam.dev` belong to somebody else.
pub async fn install(client: &Client, options: &HubOptions) -> Result<(), HubError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let due = due(client, options).await?;
    let mut names = Vec::new();
    for (definition, existing) in due {
        let name = definition.name_any();
        let served = is_crd_established().matches_object(existing.as_ref());
        // What is there as it should be is waited for by nobody.
        if write(&api, definition, existing).await? || !served {
            names.push(name);
        }
    }
    for name in names {
        let established = await_condition(api.clone(), &name, is_crd_established());
        match tokio::time::timeout(ESTABLISH_TIMEOUT, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => {
                return Err(HubError::NotEstablished {
                    name,
                    seconds: ESTABLISH_TIMEOUT.as_secs(),
                });
            }
        }
    }
    Ok(())
}

/// Reads what is there, and refuses what is somebody else's.
async fn due(client: &Client, options: &HubOptions) -> Result<Due, HubError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut due = Vec::new();
    let mut foreign = Vec::new();
    for mut definition in crds::hub() {
        let name = definition.name_any();
        if name == APPLICATIONS {
            let tenancy = options.application.tenancy.word().to_owned();
            definition
                .annotations_mut()
                .insert(annotation::TENANCY.to_owned(), tenancy);
        }
        let existing = api.get_opt(&name).await.map_err(|source| failed(&name, source))?;
        let owned = |crd: &CustomResourceDefinition| {
            crd.labels().get(label::MANAGED_BY).map(String::as_str) == Some(label::MANAGED_BY_VALUE)
        };
        if definition.spec.group == OAM_GROUP && existing.as_ref().is_some_and(|crd| !owned(crd)) {
            foreign.push(name);
        }
        due.push((definition, existing));
    }
    match foreign.is_empty() || options.take_over_core_oam {
        true => Ok(due),
        false => Err(HubError::ForeignDefinitions {
            names: foreign.join(", "),
        }),
    }
}

/// Writes a definition if it is not there as it should be; tells whether it was written.
async fn write(
    api: &Api<CustomResourceDefinition>,
    mut definition: CustomResourceDefinition,
    existing: Option<CustomResourceDefinition>,
) -> Result<bool, HubError> {
    let name = definition.name_any();
    let hash = hash::of_value(&serde_json::to_value(&definition.spec).unwrap_or_default());
    definition
        .annotations_mut()
        .insert(DEFINITION_HASH.to_owned(), hash);
    let post = PostParams {
        field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let answer = match existing {
        None => api.create(&post, &definition).await.map(drop),
        Some(existing) => {
            let has = |there: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
                wanted.iter().all(|(key, value)| there.get(key) == Some(value))
            };
            if has(existing.labels(), definition.labels())
                && has(existing.annotations(), definition.annotations())
            {
                return Ok(false);
            }
            definition
                .metadata
                .resource_version
                .clone_from(&existing.metadata.resource_version);
            definition
                .metadata
                .finalizers
                .clone_from(&existing.metadata.finalizers);
            api.replace(&name, &post, &definition).await.map(drop)
        }
    };
    answer.map(|()| true).map_err(|source| failed(&name, source))
}

fn failed(name: &str, source: kube::Error) -> HubError {
    HubError::Install {
        name: name.to_owned(),
        source: Box::new(source),
    }
}
