//! A running hub: its resource definitions, the application controller and the cluster controller.

use crate::{
    action::{Egress, Executor, Runner},
    application::{self, ApplicationOptions},
    cluster::{self, ClusterOptions},
    restored,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use roundhouse_api::{
    clock::SharedClock,
    crds, hash,
    names::{HUB_FIELD_MANAGER, OAM_GROUP, annotation, label},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Content hash of an installed definition: it is written again only when it differs.
const DEFINITION_HASH: &str = "roundhouse.dev/definition-hash";
/// The definition of Applications.
pub const APPLICATIONS: &str = "applications.core.oam.dev";
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

/// Installs what the hub needs and runs its controllers until `shutdown`.
///
/// # Errors
/// [`HubError`]: what the hub needs cannot be installed. Once started, nothing ends it but `shutdown`.
pub async fn run(
    client: Client,
    options: HubOptions,
    clock: SharedClock,
    shutdown: CancellationToken,
) -> Result<(), HubError> {
    let installing = Box::pin(install(&client, &options));
    match shutdown.run_until_cancelled(installing).await {
        None => return Ok(()),
        Some(installed) => installed?,
    }
    let Some(epoch) = shutdown
        .run_until_cancelled(restored::until_confirmed(&client))
        .await
    else {
        return Ok(());
    };
    let mut options = options;
    options.application.epoch_above = epoch;
    if options.application.executor.is_none() {
        let runner = Runner::new(client.clone(), options.egress, clock.clone());
        options.application.executor = Some(Arc::new(runner) as Arc<dyn Executor>);
    }
    let applications = application::run(
        client.clone(),
        options.application,
        clock.clone(),
        shutdown.clone(),
    );
    let clusters = cluster::run(client, options.cluster, clock, shutdown);
    tokio::join!(Box::pin(applications), Box::pin(clusters));
    Ok(())
}

/// Installs the definitions of the hub; one that is there as it should be is not written. That of Applications says what the
/// hub's tenancy is.
///
/// # Errors
/// [`HubError`]; nothing is written if definitions of `core.oam.dev` belong to somebody else.
pub async fn install(client: &Client, options: &HubOptions) -> Result<(), HubError> {
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
    if !foreign.is_empty() && !options.take_over_core_oam {
        return Err(HubError::ForeignDefinitions {
            names: foreign.join(", "),
        });
    }
    let mut names = Vec::new();
    for (definition, existing) in due {
        names.push(definition.name_any());
        write(&api, definition, existing).await?;
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

async fn write(
    api: &Api<CustomResourceDefinition>,
    mut definition: CustomResourceDefinition,
    existing: Option<CustomResourceDefinition>,
) -> Result<(), HubError> {
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
                return Ok(());
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
    answer.map_err(|source| failed(&name, source))
}

fn failed(name: &str, source: kube::Error) -> HubError {
    HubError::Install {
        name: name.to_owned(),
        source: Box::new(source),
    }
}
