//! Which kinds the member knows: discovery, cached, asked anew on a miss with back-off.

use crate::delay::backoff;
use crate::error::CallError;
use crate::member::{found, within};
use crate::object::ObjectKey;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How soon a group version that lacked a kind is asked again, at first and at most.
const MISS_MIN: Duration = Duration::from_millis(500);
const MISS_MAX: Duration = Duration::from_secs(60);

/// A kind that the member serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Group, version, kind and plural.
    pub(crate) resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
}

impl Kind {
    /// An object of this kind as the member names it: as for the API server, the namespace of a cluster-scoped object is
    /// nothing.
    pub(crate) fn names(&self, key: &ObjectKey) -> ObjectKey {
        let mut target = key.clone();
        if !self.namespaced {
            target.namespace.clear();
        }
        target
    }
}

/// One group version as last asked.
#[derive(Debug, Clone)]
struct Served {
    /// `None`: nobody answered, as with any path that is not served.
    kinds: Option<BTreeMap<String, Arc<Kind>>>,
    asked: Instant,
    misses: u32,
}

/// The kinds of one member.
pub(crate) struct Kinds {
    client: Client,
    timeout: Duration,
    served: Mutex<BTreeMap<(String, String), Served>>,
    /// One question at a time: a wave of objects of one missing kind asks once.
    asking: tokio::sync::Mutex<()>,
}

impl Kinds {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Kinds {
            client,
            timeout,
            served: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// A kind; `None` if the member does not serve it.
    pub(crate) async fn resolve(&self, gvk: &GroupVersionKind) -> Result<Option<Arc<Kind>>, CallError> {
        if let Some(known) = self.known(gvk) {
            return Ok(known);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(known) = self.known(gvk) {
            return Ok(known);
        }
        let kinds = self.ask(&gvk.group, &gvk.version).await?;
        let found = kinds.as_ref().and_then(|kinds| kinds.get(&gvk.kind)).cloned();
        let key = (gvk.group.clone(), gvk.version.clone());
        let mut served = self.served.lock();
        let misses = match (&found, served.get(&key)) {
            (Some(_), _) => 0,
            (None, before) => before.map_or(0, |before| before.misses.saturating_add(1)),
        };
        served.insert(
            key,
            Served {
                kinds,
                asked: Instant::now(),
                misses,
            },
        );
        Ok(found)
    }

    /// A kind at whatever version the member serves it, `version` first: for objects that were applied at a version
    /// that is no longer served. `None`: it has no definition, and no object outlives that.
    ///
    /// # Errors
    /// Whatever keeps the member from saying so, [`CallError::Undiscovered`] where nobody answers about a version that it serves,
    /// and [`CallError::Unserved`] while there is a definition of which no version is served: its objects are there all the same.
    pub(crate) async fn resolve_any_version(
        &self,
        group: &str,
        kind: &str,
        version: &str,
    ) -> Result<Option<Arc<Kind>>, CallError> {
        if let Some(found) = self.resolve(&GroupVersionKind::gvk(group, version, kind)).await? {
            return Ok(Some(found));
        }
        let versions = self.versions(group).await?;
        for other in &versions {
            if let Some(found) = self.resolve(&GroupVersionKind::gvk(group, other, kind)).await? {
                return Ok(Some(found));
            }
        }
        if let Some(version) = versions
            .into_iter()
            .find(|version| !self.is_listed(group, version))
        {
            return Err(CallError::Undiscovered {
                group: group.to_owned(),
                version,
            });
        }
        if self.is_defined(group, kind).await? {
            return Err(CallError::Unserved {
                group: group.to_owned(),
                kind: kind.to_owned(),
            });
        }
        Ok(None)
    }

    /// The versions of a group that the member serves.
    async fn versions(&self, group: &str) -> Result<Vec<String>, CallError> {
        if group.is_empty() {
            let core = within(self.timeout, self.client.list_core_api_versions()).await?;
            return Ok(core.versions);
        }
        let groups = within(self.timeout, self.client.list_api_groups()).await?;
        let versions = (groups.groups.into_iter())
            .filter(|g| g.name == group)
            .flat_map(|g| g.versions);
        Ok(versions.map(|v| v.version).collect())
    }

    /// Whether a definition has the kind, served or not. One that was never established never had an object.
    async fn is_defined(&self, group: &str, kind: &str) -> Result<bool, CallError> {
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let list = within(self.timeout, all.list_metadata(&ListParams::default())).await?;
        let names = list.items.into_iter().filter_map(|item| item.metadata.name);
        // A definition is named `<plural>.<group>`.
        let is_of_group = |name: &String| name.split_once('.').is_some_and(|(_, of)| of == group);
        for name in names.filter(is_of_group) {
            let definition = found(within(self.timeout, all.get(&name)).await)?;
            if definition.is_some_and(|definition| has_objects_of(&definition, kind)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Forgets one group version: nobody answers where it was served.
    pub(crate) fn forget_version(&self, kind: &Kind) {
        let key = (kind.resource.group.clone(), kind.resource.version.clone());
        self.served.lock().remove(&key);
    }

    /// Forgets what was missing: a definition came or went.
    pub(crate) fn forget(&self) {
        self.served.lock().retain(|(group, _), _| group.is_empty());
    }

    /// The cached answer: the kind, or that it is missing and was asked for lately.
    fn known(&self, gvk: &GroupVersionKind) -> Option<Option<Arc<Kind>>> {
        let served = self.served.lock();
        let entry = served.get(&(gvk.group.clone(), gvk.version.clone()))?;
        match entry.kinds.as_ref().and_then(|kinds| kinds.get(&gvk.kind)) {
            Some(kind) => Some(Some(Arc::clone(kind))),
            None if entry.asked.elapsed() < backoff(entry.misses, MISS_MIN, MISS_MAX) => Some(None),
            None => None,
        }
    }

    /// Whether the member listed the kinds of a group version when it was last asked.
    fn is_listed(&self, group: &str, version: &str) -> bool {
        let served = self.served.lock();
        let entry = served.get(&(group.to_owned(), version.to_owned()));
        entry.is_some_and(|entry| entry.kinds.is_some())
    }

    /// The kinds of a group version; `None` if nobody answers at its path.
    async fn ask(
        &self,
        group: &str,
        version: &str,
    ) -> Result<Option<BTreeMap<String, Arc<Kind>>>, CallError> {
        let answer = if group.is_empty() {
            within(self.timeout, self.client.list_core_api_resources(version)).await
        } else {
            within(
                self.timeout,
                self.client
                    .list_api_group_resources(&format!("{group}/{version}")),
            )
            .await
        };
        let resources = match answer {
            Ok(list) => list.resources,
            Err(error) if error.fault().is_404() => return Ok(None),
            Err(error) => return Err(error),
        };
        // Sub-resources are listed beside their resource, as `deployments/status`.
        let main = resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        let kinds = main
            .map(|found| {
                let gvk = GroupVersionKind::gvk(group, version, &found.kind);
                let resource = ApiResource::from_gvk_with_plural(&gvk, &found.name);
                (
                    found.kind,
                    Arc::new(Kind {
                        resource,
                        namespaced: found.namespaced,
                    }),
                )
            })
            .collect();
        Ok(Some(kinds))
    }
}

/// Whether there may be objects of a kind by this definition.
fn has_objects_of(definition: &CustomResourceDefinition, kind: &str) -> bool {
    let status = definition.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    definition.spec.names.kind == kind && conditions.any(|c| c.type_ == "Established" && c.status == "True")
}
