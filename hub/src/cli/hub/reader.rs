//! Lists of a hub, page by page: every verb that asks a hub reads through here.

use super::unreadable;
use crate::cli::Failure;
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
    core::{ApiResource, NamespaceResourceScope},
};
use roundhouse_api::{
    application::Application, bundle::Bundle, cluster::Cluster, decision::Decision,
    definition::ComponentDefinition, placement::Placement, revision::ApplicationRevision,
};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Objects of one answer: Bundles are large, and only one copy of equal contents is kept.
const PAGE: u32 = 250;

/// Reads the lists of a hub. Namespaces and labels narrow a list; without them it is the whole hub's.
///
/// # Errors
/// A list is refused; the message names the kind.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Reader<'a>(pub(in crate::cli) &'a Client);

impl Reader<'_> {
    /// Every cluster.
    pub(in crate::cli) async fn clusters(self, take: impl FnMut(Cluster)) -> Result<(), Failure> {
        let api = Api::all(self.0.clone());
        pages(&api, "Clusters", None, take).await
    }

    /// Applications as they are written: one that is not understood is listed too.
    pub(in crate::cli) async fn applications(
        self,
        namespace: Option<&str>,
        take: impl FnMut(DynamicObject),
    ) -> Result<(), Failure> {
        let api = self.as_written::<Application>(namespace);
        pages(&api, "Applications", None, take).await
    }

    /// Placements as they are written.
    pub(in crate::cli) async fn placements(
        self,
        namespace: Option<&str>,
        take: impl FnMut(DynamicObject),
    ) -> Result<(), Failure> {
        let api = self.as_written::<Placement>(namespace);
        pages(&api, "Placements", None, take).await
    }

    /// ComponentDefinitions as they are written, of all namespaces, and those among them that read.
    pub(in crate::cli) async fn definitions(
        self,
        mut take: impl FnMut(DynamicObject, Option<ComponentDefinition>),
    ) -> Result<(), Failure> {
        let api = self.as_written::<ComponentDefinition>(None);
        pages(&api, "ComponentDefinitions", None, |written: DynamicObject| {
            // One that does not read is passed over by the controller too.
            let read = serde_json::to_value(&written).and_then(serde_json::from_value);
            take(written, read.ok());
        })
        .await
    }

    /// Decisions.
    pub(in crate::cli) async fn decisions(
        self,
        namespace: Option<&str>,
        take: impl FnMut(Decision),
    ) -> Result<(), Failure> {
        pages(&self.typed(namespace), "Decisions", None, take).await
    }

    /// Revisions of applications.
    pub(in crate::cli) async fn revisions(
        self,
        namespace: Option<&str>,
        labels: Option<&str>,
        take: impl FnMut(ApplicationRevision),
    ) -> Result<(), Failure> {
        pages(&self.typed(namespace), "ApplicationRevisions", labels, take).await
    }

    /// Bundles, of all clusters.
    pub(in crate::cli) async fn bundles(
        self,
        labels: Option<&str>,
        take: impl FnMut(Bundle),
    ) -> Result<(), Failure> {
        pages(&self.typed(None), "Bundles", labels, take).await
    }

    fn typed<K>(self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced(self.0.clone(), namespace),
            None => Api::all(self.0.clone()),
        }
    }

    fn as_written<K: Resource<DynamicType = ()>>(self, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource),
            None => Api::all_with(self.0.clone(), &resource),
        }
    }
}

/// Every object of a list, page by page.
async fn pages<K>(
    api: &Api<K>,
    what: &str,
    labels: Option<&str>,
    mut take: impl FnMut(K),
) -> Result<(), Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = labels.map(str::to_owned);
    loop {
        let list = api.list(&params).await.map_err(|error| unreadable(what, error))?;
        let more = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        list.items.into_iter().for_each(&mut take);
        match more {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
