//! Installs the definitions of the hub's resources.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use roundhouse_api::{
    hash,
    names::{HUB_FIELD_MANAGER, annotation, label},
};
use std::time::Duration;

/// How long a server may take to serve a definition.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// Why the definitions are not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A definition of that name is there and is not ours: KubeVela, for one, brings `applications.core.oam.dev`.
    #[error("definition {0} exists and was not made by Roundhouse")]
    Foreign(String),
    /// The server refused, or could not be reached.
    #[error("definition {name} cannot be installed: {source}")]
    Api {
        /// Which definition.
        name: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The server does not serve a definition.
    #[error("definition {name} is not served after {seconds} s")]
    NotServed {
        /// Which definition.
        name: String,
        /// How long was waited, in seconds.
        seconds: u64,
    },
}

/// What to do with definitions that are there and are not ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Foreign {
    /// Nothing is written, not even the definitions that are missing.
    #[default]
    Refuse,
    /// They are replaced by ours.
    TakeOver,
}

/// Creates the definitions that are missing, replaces those that differ, and waits until each is served. A second call
/// writes nothing.
///
/// # Errors
/// A foreign definition under [`Foreign::Refuse`]; a server that refuses a definition or does not serve it in time.
pub async fn install(
    client: &Client,
    definitions: Vec<CustomResourceDefinition>,
    foreign: Foreign,
) -> Result<(), InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for definition in definitions {
        let definition = stamped(definition);
        let name = definition.name_any();
        let live = api.get_opt(&name).await.map_err(failed(&name))?;
        if foreign == Foreign::Refuse && live.as_ref().is_some_and(|live| !is_ours(live)) {
            return Err(InstallError::Foreign(name));
        }
        found.push((definition, live));
    }
    let params = PostParams {
        field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
        ..Default::default()
    };
    for (mut definition, live) in found {
        let name = definition.name_any();
        match live {
            Some(live) if hash_of(&live) == hash_of(&definition) && is_ours(&live) => {}
            Some(live) => {
                definition.metadata.resource_version = live.metadata.resource_version;
                api.replace(&name, &params, &definition).await.map_err(failed(&name))?;
            }
            None => drop(api.create(&params, &definition).await.map_err(failed(&name))?),
        }
        let served = await_condition(api.clone(), &name, is_crd_established());
        if tokio::time::timeout(ESTABLISHED, served).await.is_err() {
            let seconds = ESTABLISHED.as_secs();
            return Err(InstallError::NotServed { name, seconds });
        }
    }
    Ok(())
}

/// Servers add defaults to a definition: whether it is the one that was sent is told by the hash of what was sent.
fn stamped(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let spec = serde_json::to_value(&definition.spec).unwrap_or_default();
    let annotations = definition.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::DESIRED_HASH.to_owned(), hash::of_value(&spec));
    definition
}

fn hash_of(definition: &CustomResourceDefinition) -> Option<&String> {
    definition.annotations().get(annotation::DESIRED_HASH)
}

fn is_ours(definition: &CustomResourceDefinition) -> bool {
    definition
        .labels()
        .get(label::MANAGED_BY)
        .is_some_and(|value| value == label::MANAGED_BY_VALUE)
}

fn failed(name: &str) -> impl FnOnce(kube::Error) -> InstallError {
    let name = name.to_owned();
    move |source| InstallError::Api {
        name,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::crds;
    use roundhouse_apiserver::Server;

    #[tokio::test]
    async fn a_second_installation_writes_nothing_and_a_changed_one_replaces() {
        let server = Server::builder().build();
        let client = Client::new(server.service(), "default");
        install(&client, crds::hub(), Foreign::Refuse).await.unwrap();
        let writes = server.counter().write_requests();
        install(&client, crds::hub(), Foreign::Refuse).await.unwrap();
        assert_eq!(server.counter().write_requests(), writes);

        let mut newer = crds::hub();
        newer[0].spec.names.short_names = Some(vec!["apps".into()]);
        install(&client, newer, Foreign::Refuse).await.unwrap();
        assert_eq!(server.counter().write_requests(), writes + 1);
    }

    #[tokio::test]
    async fn a_foreign_definition_is_refused_before_anything_is_written() {
        let server = Server::builder().build();
        let client = Client::new(server.service(), "default");
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut velas = crds::hub().remove(1);
        velas.metadata.labels = None;
        api.create(&PostParams::default(), &velas).await.unwrap();
        let writes = server.counter().write_requests();
        let refused = install(&client, crds::hub(), Foreign::Refuse).await;
        assert!(matches!(&refused, Err(InstallError::Foreign(name)) if *name == velas.name_any()), "{refused:?}");
        assert_eq!(server.counter().write_requests(), writes);
        install(&client, crds::hub(), Foreign::TakeOver).await.unwrap();
        assert!(is_ours(&api.get(&velas.name_any()).await.unwrap()));
    }
}
