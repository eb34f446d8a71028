//! The resource definitions of a hub, installed as they should be.

use super::{HubError, HubOptions};
use crate::writes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        conditions::is_crd_established,
        wait::{Condition, await_condition},
    },
};
use roundhouse_api::{
    crds,
    names::{OAM_GROUP, annotation, label},
};
use serde_json::json;
use std::time::Duration;

/// The definition of Applications.
pub const APPLICATIONS: &str = "applications.core.oam.dev";
/// How long the API server may take to serve a new definition.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);

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
    let (mut names, mut later) = (Vec::new(), Vec::new());
    for (definition, existing) in due {
        let name = definition.name_any();
        if existing.as_ref().is_some_and(is_later) {
            later.push(name.clone());
        }
        let served = is_crd_established().matches_object(existing.as_ref());
        // What is there as it should be is waited for by nobody.
        if write(&api, definition, existing).await? || !served {
            names.push(name);
        }
    }
    if !later.is_empty() {
        tracing::warn!(
            definitions = later.join(", "),
            "these are of a later version of Roundhouse and stay as they are: this hub goes on with what it knows of them"
        );
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
pub(super) async fn due(client: &Client, options: &HubOptions) -> Result<Due, HubError> {
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
    definition: CustomResourceDefinition,
    existing: Option<CustomResourceDefinition>,
) -> Result<bool, HubError> {
    let name = definition.name_any();
    let post = writes::post();
    let answer = match existing {
        None => api.create(&post, &definition).await.map(drop),
        Some(existing) => match next(definition, &existing) {
            None => return Ok(false),
            Some(next) => api.replace(&name, &post, &next).await.map(drop),
        },
    };
    answer.map(|()| true).map_err(|source| failed(&name, source))
}

/// Whether a definition that is there is of a later version than this hub's.
fn is_later(there: &CustomResourceDefinition) -> bool {
    crds::version_of(&there.metadata) > crds::SCHEMA_VERSION
}

/// What is to be written over a definition that is there; `None` if it is as it should be. The schema of a later version
/// stays: the fields that it adds would be dropped from what is stored.
fn next(
    wanted: CustomResourceDefinition,
    there: &CustomResourceDefinition,
) -> Option<CustomResourceDefinition> {
    let mut next = wanted;
    if is_later(there) {
        next.spec = there.spec.clone();
        next.annotations_mut().remove(annotation::SCHEMA_VERSION);
    }
    let content = |definition: &CustomResourceDefinition| {
        json!({"metadata": {"labels": definition.labels(), "annotations": definition.annotations()},
            "spec": definition.spec})
    };
    if crds::contains(&content(there), &content(&next)) {
        return None;
    }
    // What others have written on it stays.
    let mut meta = there.metadata.clone();
    meta.managed_fields = None;
    meta.labels.get_or_insert_default().append(next.labels_mut());
    meta.annotations
        .get_or_insert_default()
        .append(next.annotations_mut());
    next.metadata = meta;
    Some(next)
}

fn failed(name: &str, source: kube::Error) -> HubError {
    HubError::Install {
        name: name.to_owned(),
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests;
