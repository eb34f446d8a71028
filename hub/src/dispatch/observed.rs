//! What the hub remembers of a Bundle: everything but its manifests.

use crate::render;
use kube::ResourceExt;
use roundhouse_api::{
    application::LetGo,
    bundle::{Bundle, BundleSpec, BundleStatus, Deletion, ManifestConfig, OLD_EPOCH, UpdateStrategyType},
    names::{annotation, cluster_of_namespace, label, step_of_bundle},
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A Bundle without its manifests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The cluster, from the namespace.
    pub cluster: String,
    /// Uid.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// The spec; its manifests are left out.
    pub spec: Arc<BundleSpec>,
    /// Replicas that its manifests ask for, over all workloads.
    pub replicas: u64,
    /// The agent's report.
    pub status: Option<Arc<BundleStatus>>,
}

impl Observed {
    /// What is noted of it before it is let go while its cluster keeps the objects.
    pub fn let_go(&self) -> LetGo {
        LetGo {
            cluster: self.cluster.clone(),
            bundle: self.name.clone(),
        }
    }

    /// Takes a Bundle in and drops its manifests. `None` if it is in no cluster's namespace.
    pub fn of(mut bundle: Bundle) -> Option<Observed> {
        let manifests = std::mem::take(&mut bundle.spec.workload.manifests);
        Observed::with_replicas(bundle, render::replicas_of(&manifests))
    }

    /// Takes a Bundle without manifests in, of which it is known how many replicas they asked for.
    pub(super) fn with_replicas(bundle: Bundle, replicas: u64) -> Option<Observed> {
        let namespace = bundle.namespace()?;
        Some(Observed {
            cluster: cluster_of_namespace(&namespace)?.to_owned(),
            name: bundle.name_any(),
            namespace,
            uid: bundle.metadata.uid.unwrap_or_default(),
            resource_version: bundle.metadata.resource_version.unwrap_or_default(),
            generation: bundle.metadata.generation.unwrap_or_default(),
            deleting: bundle.metadata.deletion_timestamp.is_some(),
            labels: bundle.metadata.labels.unwrap_or_default(),
            annotations: bundle.metadata.annotations.unwrap_or_default(),
            finalizers: bundle.metadata.finalizers.unwrap_or_default(),
            replicas,
            spec: Arc::new(bundle.spec),
            status: bundle.status.map(Arc::new),
        })
    }

    /// Namespace and name of the application that the labels name, for Bundles that dispatch wrote.
    pub fn application(&self) -> Option<(&str, &str)> {
        let namespace = self.labels.get(label::APP_NAMESPACE)?;
        let name = self.labels.get(label::APP_NAME)?;
        self.spec.application_ref.as_ref()?;
        Some((namespace, name))
    }

    /// The revision that a step brought to the cluster last, as far as this Bundle tells: it names the steps that place there where
    /// they are several, and otherwise the only one.
    pub fn revision_by(&self, step: &str) -> Option<String> {
        if let Some(revision) = self.steps().remove(step) {
            return Some(revision);
        }
        let is_last = self.labels.get(label::STEP).is_some_and(|last| last == step);
        self.spec.revision.clone().filter(|_| is_last)
    }

    /// The steps that place on the cluster, with the revision that each has brought, where they are several.
    pub fn steps(&self) -> BTreeMap<String, String> {
        let steps = self.annotations.get(annotation::STEPS);
        steps
            .and_then(|steps| serde_json::from_str(steps).ok())
            .unwrap_or_default()
    }

    /// The report, if it is about the present spec: same hash, same generation (and, being in the same object, the
    /// same uid). No times are compared.
    pub fn own_report(&self) -> Option<&BundleStatus> {
        let report = self.present_report()?;
        let own = self.spec.hash.is_some() && report.hash == self.spec.hash;
        own.then_some(report)
    }

    /// The report, if it is about the present generation, and that is not ignored for something later: then it tells of that.
    pub fn present_report(&self) -> Option<&BundleStatus> {
        let report = self.status.as_deref();
        report.filter(|report| report.is_about(self.generation))
    }

    /// Namespace and name.
    pub fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Whether its agent says, of this very generation, that it ignores it for something later that it has obeyed.
    pub fn is_ignored(&self) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| status.ignores(self.generation).is_some())
    }

    /// Whether its agent ignores it because it is of a term before the one that it obeys, and in the term of this epoch would not: a
    /// hub that does not lead any more has sent it, and it arrived late.
    pub fn is_of_an_earlier_term(&self, epoch: i64) -> bool {
        let Some(status) = &self.status else {
            return false;
        };
        let ignored = status.ignores(self.generation);
        let obeyed = status.epoch.unwrap_or(0);
        ignored.is_some_and(|why| why.reason == OLD_EPOCH)
            && self.spec.epoch.unwrap_or(0) < epoch
            && obeyed <= epoch
    }

    /// The step whose object it carries.
    pub fn carried_step(&self) -> Option<&str> {
        self.spec.application_ref.as_ref()?;
        step_of_bundle(&self.name)
    }

    /// The step that takes away what it carries, if one does.
    pub fn taken_by(&self) -> Option<&str> {
        self.spec.deletion.as_ref().and_then(Deletion::step)
    }

    /// Whether its objects are only looked at: then a cluster loses nothing with it.
    pub fn only_reads(&self) -> bool {
        let reads = |config: &ManifestConfig| {
            let strategy = config.update_strategy.as_ref();
            strategy.is_some_and(|strategy| strategy.type_ == UpdateStrategyType::ReadOnly)
        };
        let configs = &self.spec.manifest_configs;
        self.carried_step().is_some() && !configs.is_empty() && configs.iter().all(reads)
    }

    /// Whether the agent says that the manifests it reads are not those that the hash is of.
    pub fn hash_mismatch(&self) -> bool {
        let Some(status) = &self.status else {
            return false;
        };
        status.observed_generation == Some(self.generation)
            && status.conditions.iter().any(|c| c.reason == "HashMismatch")
    }
}
