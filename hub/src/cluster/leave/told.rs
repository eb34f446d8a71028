//! What a cluster that leaves has of Bundles that are not there any more: somebody deleted them, and the agent holds the objects. It
//! says so, and where the hub let the Bundle go the application does. A Bundle of that name tells the agent what becomes of them.

use crate::{cluster::ClusterError, leader};
use kube::{Api, Client, ResourceExt, api::DynamicObject};
use roundhouse_api::{
    application::{Application, LetGo, validate},
    bundle::{ApplicationRef, Bundle, BundleSpec, DeleteOption, Deletion, Executor, PropagationPolicy},
    cluster::{ClusterReport, Leave},
    names::{BUNDLE_FINALIZER, ClusterName, application_of_bundle, label},
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a cluster has whose Bundles are not there.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Holding {
    /// Name of the Bundle -> whose it was; `None`: somebody wrote it by hand.
    pub(super) bundles: BTreeMap<String, Option<Owner>>,
    /// How many more there are that its agent does not name.
    pub(super) more: u32,
}

/// The application whose Bundle it was.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Owner {
    application: ApplicationRef,
    /// On whose behalf the objects were written.
    executor: Option<Executor>,
}

/// Asks the API server, not a cache.
///
/// # Errors
/// It does not answer: then nothing is known, and the cluster stays.
pub(super) async fn holding(client: &Client, cluster: &ClusterName) -> Result<Holding, ClusterError> {
    let failed = |source: kube::Error| ClusterError::Api {
        cluster: cluster.to_string(),
        action: "looking what its agent holds",
        source: Box::new(source),
    };
    let reports: Api<ClusterReport> = Api::namespaced(client.clone(), &cluster.namespace());
    let report = reports.get_opt(cluster.as_str()).await.map_err(failed)?;
    let (held, count) = report.map_or_else(Default::default, |report| {
        (report.spec.held, report.spec.held_count)
    });
    let mut holding = Holding::of(held, count);
    let take = |application: DynamicObject| holding.take(&application, cluster.as_str());
    leader::each::<Application>(client, take).await.map_err(failed)?;
    Ok(holding)
}

impl Holding {
    /// What an agent says.
    fn of(held: Vec<String>, count: u32) -> Holding {
        let held: BTreeSet<String> = held.into_iter().collect();
        let named = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let owner = |name: &str| {
            let (namespace, name) = application_of_bundle(name)?;
            let application = ApplicationRef {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                // An agent is told nothing of applications because it names them.
                uid: String::new(),
            };
            Some(Owner {
                application,
                executor: None,
            })
        };
        Holding {
            bundles: held
                .into_iter()
                .map(|name| (name.clone(), owner(&name)))
                .collect(),
            more: count.saturating_sub(named),
        }
    }

    /// Adds what an application has noted, and what is known of it then. Whoever may write its status names no Bundle of another one there.
    fn take(&mut self, application: &DynamicObject, cluster: &str) {
        let (namespace, name) = (
            application.namespace().unwrap_or_default(),
            application.name_any(),
        );
        let is_own =
            |bundle: &str| application_of_bundle(bundle) == Some((namespace.as_str(), name.as_str()));
        let noted = application.data.pointer("/status/letGo");
        let noted = noted.and_then(|noted| Vec::<LetGo>::deserialize(noted).ok());
        let noted = noted.into_iter().flatten().filter(|note| note.cluster == cluster);
        let own = noted.map(|note| note.bundle).filter(|bundle| is_own(bundle));
        let own: Vec<String> = own.collect();
        if own.is_empty() {
            return;
        }
        let valid = application
            .data
            .get("spec")
            .and_then(|spec: &Value| validate(spec).ok());
        let owner = Owner {
            application: ApplicationRef {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: application.uid().unwrap_or_default(),
            },
            executor: valid.and_then(|valid| valid.executor(&namespace)),
        };
        let own = own.into_iter().map(|bundle| (bundle, Some(owner.clone())));
        self.bundles.extend(own);
    }
}

/// A Bundle that says nothing but what becomes of the objects.
pub(super) fn bundle(
    cluster: &ClusterName,
    name: &str,
    owner: Option<&Owner>,
    (how, epoch): (Leave, Option<i64>),
) -> Bundle {
    let orphans = how == Leave::Orphan;
    let spec = BundleSpec {
        application_ref: owner.map(|owner| owner.application.clone()),
        executor: owner.and_then(|owner| owner.executor.clone()),
        epoch,
        deletion: Some(Deletion {
            revision: String::new(),
            confirmed_by: Deletion::CLUSTER_LEFT.to_owned(),
        }),
        delete_option: orphans.then(|| DeleteOption {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteOption::default()
        }),
        ..BundleSpec::default()
    };
    let mut labels = BTreeMap::from([
        (label::CLUSTER.to_owned(), cluster.to_string()),
        (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
    ]);
    if let Some(owner) = owner {
        let application = owner.application.clone();
        labels.insert(label::APP_NAMESPACE.to_owned(), application.namespace);
        labels.insert(label::APP_NAME.to_owned(), application.name);
    }
    let mut bundle = Bundle::new(name, spec);
    bundle.metadata.labels = Some(labels);
    bundle.metadata.finalizers = Some(vec![BUNDLE_FINALIZER.to_owned()]);
    bundle
}

/// Whether it is such a one.
pub(super) fn is_bare(bundle: &Bundle) -> bool {
    let spec = &bundle.spec;
    spec.workload.manifests.is_empty() && spec.hash.is_none() && spec.revision.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_agents_hold_and_applications_note_is_taken_together() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut holding = Holding::of(names(&["by-hand", "default.web", "gone.app.2"]), 5);
        assert_eq!(holding.more, 2);
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {},
            "status": {"letGo": [
                {"cluster": "c1", "bundle": "default.web.2"}, {"cluster": "c2", "bundle": "default.web.3"},
                {"cluster": "c1", "bundle": "default.other"}]}});
        holding.take(&serde_json::from_value(application).unwrap(), "c1");
        let uids = holding.bundles.iter().map(|(name, owner)| {
            let uid = owner.as_ref().map(|owner| owner.application.uid.as_str());
            (name.as_str(), uid)
        });
        assert_eq!(
            uids.collect::<Vec<_>>(),
            [
                ("by-hand", None),
                ("default.web", Some("")),
                ("default.web.2", Some("u")),
                ("gone.app.2", Some("")),
            ]
        );
    }
}
