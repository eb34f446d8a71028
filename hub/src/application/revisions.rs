//! Which revision a spec is, and its record.

use super::{Key, error::PassError, placing::owner};
use crate::render::{self, Rendered};
use crate::writes;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, Resource, ResourceExt};
use roundhouse_api::{
    application::LatestRevision,
    bundle::ApplicationRef,
    names::{label, revision_name},
    revision::{ApplicationRevision, ApplicationRevisionSpec, RecordedResources},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

/// A revision that a spec is, or becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) latest: LatestRevision,
    /// Component → component revision.
    pub(super) components: BTreeMap<String, String>,
    /// Component → hash of its content.
    pub(super) hashes: BTreeMap<String, String>,
    /// Whether its object exists already.
    pub(super) exists: bool,
    /// Whether its record is of a hub that made something else of the same spec.
    pub(super) differs: bool,
}

/// Chooses the revision of a spec: the present one stays as long as the spec does, whatever another hub would make of it (what
/// was approved and asked for is not done again because the hub is a newer one); another one that is identical is reused;
/// otherwise the next number. A component whose content is that of an earlier revision keeps that component revision. `rendered`: all that is recorded,
/// variants included.
pub(super) fn choose(
    application: &ApplicationRef,
    existing: &[Arc<ApplicationRevision>],
    latest: Option<&LatestRevision>,
    spec: &Value,
    rendered: &Rendered,
) -> Choice {
    let hash = roundhouse_api::hash::of_value(spec);
    let hashes = render::component_hashes(rendered);
    let own = |revision: &&Arc<ApplicationRevision>| {
        revision
            .owner_references()
            .iter()
            .any(|o| o.uid == application.uid)
            && revision.metadata.deletion_timestamp.is_none()
    };
    let is_present =
        |revision: &Arc<ApplicationRevision>| latest.is_some_and(|latest| latest.name == revision.name_any());
    let identical = existing
        .iter()
        .filter(own)
        .filter(|r| r.spec.hash == hash && (is_present(r) || r.spec.component_hashes == hashes));
    let present = |revision: &Arc<ApplicationRevision>| (is_present(revision), revision.spec.revision);
    if let Some(revision) = identical.max_by_key(|revision| present(revision)) {
        return Choice {
            latest: LatestRevision {
                name: revision.name_any(),
                revision: revision.spec.revision,
                revision_hash: hash,
            },
            components: revision.spec.components.clone(),
            differs: revision.spec.component_hashes != hashes,
            hashes,
            exists: true,
        };
    }
    let highest = existing.iter().map(|r| r.spec.revision).max();
    // The record of the present revision is lost: it is written again. Another number would be another run.
    let lost = latest.filter(|latest| {
        let is_recorded = existing.iter().any(|r| r.name_any() == latest.name);
        latest.revision_hash == hash
            && !is_recorded
            && latest.name == revision_name(&application.name, latest.revision)
    });
    let number = match lost {
        Some(latest) => latest.revision,
        None => highest.max(latest.map(|l| l.revision)).unwrap_or(0) + 1,
    };
    let named = hashes.iter().map(|(component, hash)| {
        let revision = existing.iter().filter(own).find_map(|r| {
            let same = r.spec.component_hashes.get(component) == Some(hash);
            same.then(|| r.spec.components.get(component).cloned()).flatten()
        });
        let revision = revision.unwrap_or_else(|| format!("{component}-v{}", next_of(existing, component)));
        (component.clone(), revision)
    });
    Choice {
        components: named.collect(),
        latest: LatestRevision {
            name: revision_name(&application.name, number),
            revision: number,
            revision_hash: hash,
        },
        hashes,
        exists: false,
        differs: false,
    }
}

fn next_of(existing: &[Arc<ApplicationRevision>], component: &str) -> u64 {
    let numbers = existing.iter().filter_map(|r| {
        let name = r.spec.components.get(component)?;
        name.strip_prefix(component)?
            .strip_prefix("-v")?
            .parse::<u64>()
            .ok()
    });
    numbers.max().unwrap_or(0) + 1
}

/// Makes sure that the revision and its record exist: ConfigMaps, and Secrets for the components that contain Secrets. The revision comes first, so that it can own them; a crash in
/// between is made good by the next pass, because a run is not started before both are there.
///
/// # Errors
/// The API server refuses, or an object of that name is not the revision's.
pub(super) async fn ensure(
    client: &Client,
    key: &Key,
    application: &ApplicationRef,
    generation: i64,
    choice: &Choice,
    spec: &Value,
    rendered: &Rendered,
) -> Result<ApplicationRevision, PassError> {
    let (title, name) = (format!("{}/{}", key.0, key.1), &choice.latest.name);
    let api: Api<ApplicationRevision> = Api::namespaced(client.clone(), &key.0);
    let (open, secret) = render::split_secrets(rendered.clone());
    let open = render::to_config_map_data(&open);
    let secret = (!secret.components.is_empty()).then(|| render::to_config_map_data(&secret));
    let recorded = |parts: &Vec<_>| RecordedResources {
        name: name.clone(),
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
    };
    let failed = |error| PassError::api(&title, format!("writing revision {name}"), error);
    let revision = if choice.exists {
        api.get(name).await.map_err(failed)?
    } else {
        let mut revision = ApplicationRevision::new(
            name,
            ApplicationRevisionSpec {
                application_name: application.name.clone(),
                revision: choice.latest.revision,
                generation,
                hash: choice.latest.revision_hash.clone(),
                application: spec.clone(),
                components: choice.components.clone(),
                component_hashes: choice.hashes.clone(),
                resources_config_map: recorded(&open),
                resources_secret: secret.as_ref().map(recorded),
            },
        );
        revision.metadata.owner_references = Some(vec![owner(application)]);
        revision.metadata.labels = Some(labels(application));
        api.create(&writes::post(), &revision).await.map_err(failed)?
    };
    for (index, data) in open.into_iter().enumerate() {
        let object = ConfigMap {
            data: Some(data),
            immutable: Some(true),
            ..ConfigMap::default()
        };
        part(client, key, application, &revision, index, object).await?;
    }
    for (index, data) in secret.into_iter().flatten().enumerate() {
        let object = Secret {
            string_data: Some(data),
            immutable: Some(true),
            ..Secret::default()
        };
        part(client, key, application, &revision, index, object).await?;
    }
    Ok(revision)
}

/// One part of the record, a ConfigMap or a Secret, owned by the revision.
async fn part<K>(
    client: &Client,
    key: &Key,
    application: &ApplicationRef,
    revision: &ApplicationRevision,
    index: usize,
    mut object: K,
) -> Result<(), PassError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let (title, kind) = (format!("{}/{}", key.0, key.1), K::kind(&()));
    let name = part_name(&revision.name_any(), index);
    let api: Api<K> = Api::namespaced(client.clone(), &key.0);
    let failed = |error| PassError::api(&title, format!("writing {kind} {name}"), error);
    let uid = revision.uid().unwrap_or_default();
    if let Some(existing) = api.get_opt(&name).await.map_err(failed)? {
        return match existing
            .meta()
            .owner_references
            .iter()
            .flatten()
            .any(|o| o.uid == uid)
        {
            true => Ok(()),
            false => Err(PassError::Foreign {
                application: title,
                object: format!("{kind} {}/{name}", key.0),
            }),
        };
    }
    let metadata = object.meta_mut();
    metadata.name = Some(name.clone());
    metadata.labels = Some(labels(application));
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: ApplicationRevision::api_version(&()).into_owned(),
        kind: ApplicationRevision::kind(&()).into_owned(),
        name: revision.name_any(),
        uid,
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    api.create(&writes::post(), &object).await.map_err(failed)?;
    Ok(())
}

/// Reads what a revision rendered to back from its ConfigMaps and Secrets.
///
/// # Errors
/// The API server refuses, or the record does not read.
pub(super) async fn read(
    client: &Client,
    key: &Key,
    revision: &ApplicationRevision,
) -> Result<Rendered, PassError> {
    let title = format!("{}/{}", key.0, key.1);
    let failed =
        |kind: &str, name: &str, error| PassError::api(&title, format!("reading {kind} {name}"), error);
    let mut parts = Vec::new();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &key.0);
    for name in part_names(Some(&revision.spec.resources_config_map)) {
        let object = maps
            .get(&name)
            .await
            .map_err(|error| failed("ConfigMap", &name, error))?;
        parts.push(object.data.unwrap_or_default());
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &key.0);
    for name in part_names(revision.spec.resources_secret.as_ref()) {
        let object = secrets
            .get(&name)
            .await
            .map_err(|error| failed("Secret", &name, error))?;
        let texts = object.data.unwrap_or_default().into_iter();
        // Bytes that are no text are no record of ours: the component reads as malformed.
        parts.push(
            texts
                .map(|(component, bytes)| (component, String::from_utf8_lossy(&bytes.0).into_owned()))
                .collect(),
        );
    }
    // In the order of the spec: a bundle's hash depends on it. What differs for a step comes behind.
    let components = revision
        .spec
        .application
        .get("components")
        .and_then(Value::as_array);
    let names = components
        .into_iter()
        .flatten()
        .filter_map(|c| c.get("name")?.as_str());
    let differing: BTreeSet<&str> = parts
        .iter()
        .flat_map(BTreeMap::keys)
        .map(String::as_str)
        .filter(|name| name.contains('.'))
        .collect();
    render::from_config_map_data(names.chain(differing), &parts).map_err(|error| PassError::Unreadable {
        application: title,
        object: format!("revision {}", revision.name_any()),
        reason: error.to_string(),
    })
}

fn part_names(record: Option<&RecordedResources>) -> impl Iterator<Item = String> {
    let record = record.into_iter();
    record.flat_map(|record| {
        (0..record.parts).map(|index| part_name(&record.name, usize::try_from(index).unwrap_or(usize::MAX)))
    })
}

fn part_name(revision: &str, index: usize) -> String {
    match index {
        0 => revision.to_owned(),
        index => format!("{revision}-{}", index + 1),
    }
}

fn labels(application: &ApplicationRef) -> BTreeMap<String, String> {
    BTreeMap::from([
        (label::APP_NAME.to_owned(), application.name.clone()),
        (label::APP_NAMESPACE.to_owned(), application.namespace.clone()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::RenderedComponent;
    use serde_json::json;

    fn application() -> ApplicationRef {
        ApplicationRef {
            namespace: "default".to_owned(),
            name: "app".to_owned(),
            uid: "u1".to_owned(),
        }
    }

    fn rendered(contents: &[(&str, &str)]) -> Rendered {
        Rendered {
            components: contents
                .iter()
                .map(|(name, content)| RenderedComponent {
                    name: (*name).to_owned(),
                    manifests: vec![
                        json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": content}}),
                    ],
                })
                .collect(),
            ..Rendered::default()
        }
    }

    /// Runs a sequence of contents through the choice; gives revision and component revisions of each.
    fn history(contents: &[&[(&str, &str)]]) -> Vec<String> {
        let (mut existing, mut latest) = (Vec::new(), None);
        let mut shown = Vec::new();
        for content in contents {
            let spec = json!(content);
            let choice = choose(
                &application(),
                &existing,
                latest.as_ref(),
                &spec,
                &rendered(content),
            );
            let components: Vec<_> = choice.components.values().cloned().collect();
            shown.push(format!("{} {}", choice.latest.name, components.join(" ")));
            if !choice.exists {
                let mut revision = ApplicationRevision::new(
                    &choice.latest.name,
                    ApplicationRevisionSpec {
                        application_name: "app".to_owned(),
                        revision: choice.latest.revision,
                        hash: choice.latest.revision_hash.clone(),
                        components: choice.components.clone(),
                        component_hashes: choice.hashes.clone(),
                        ..ApplicationRevisionSpec::default()
                    },
                );
                revision.metadata.owner_references = Some(vec![owner(&application())]);
                existing.push(Arc::new(revision));
            }
            latest = Some(choice.latest);
        }
        shown
    }

    #[test]
    fn identical_revisions_are_reused_and_unchanged_components_keep_theirs() {
        let (a, b) = (("db", "1"), ("web", "1"));
        assert_eq!(
            history(&[
                &[a, b],
                &[a, b],
                &[a, ("web", "2")],
                &[a, b],
                &[("db", "2"), ("web", "2")],
                &[("db", "3"), ("web", "1")],
            ]),
            [
                "app-v1 db-v1 web-v1",
                "app-v1 db-v1 web-v1",
                "app-v2 db-v1 web-v2",
                "app-v1 db-v1 web-v1",
                "app-v3 db-v2 web-v2",
                "app-v4 db-v3 web-v1",
            ]
        );
    }

    #[test]
    fn a_namesake_of_an_earlier_life_is_not_reused_nor_overwritten() {
        let content = [("db", "1")];
        let mut earlier = ApplicationRevision::new(
            "app-v7",
            ApplicationRevisionSpec {
                revision: 7,
                hash: roundhouse_api::hash::of_value(&json!(content)),
                ..ApplicationRevisionSpec::default()
            },
        );
        earlier.metadata.owner_references = Some(vec![owner(&ApplicationRef {
            uid: "u0".to_owned(),
            ..application()
        })]);
        let choice = choose(
            &application(),
            &[Arc::new(earlier)],
            None,
            &json!(content),
            &rendered(&content),
        );
        assert_eq!((choice.latest.name.as_str(), choice.exists), ("app-v8", false));
    }
}
