//! The object of a step, in a Bundle of its own on each of its clusters.

use super::{
    Divided, Observed, Part, Plan, Refusal, Target, Wanted,
    content::title,
    plan::{Todo, todo},
};
use roundhouse_api::{
    bundle::{ApplicationRef, BundleSpec, MAX_MANIFEST_BYTES, ManifestConfig},
    hash,
    names::{cluster_namespace, step_bundle_name},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// All that the plan of a step's object depends on.
#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest<'a> {
    /// The application.
    pub application: &'a ApplicationRef,
    /// The step.
    pub step: &'a str,
    /// The object, as the clusters get it.
    pub manifest: &'a Value,
    /// How it is treated, and what agents report of it.
    pub config: &'a ManifestConfig,
    /// What else its Bundles say: apply-once, the revision, the epoch.
    pub spec: &'a BundleSpec,
    /// Its clusters.
    pub clusters: &'a [String],
    /// Its Bundles, by cluster.
    pub observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
}

/// Compares what is wanted with what is there.
pub fn object_plan(request: &ObjectRequest<'_>) -> Plan {
    let bytes = hash::weight(request.manifest);
    let application = request.application;
    let refusal = (bytes > MAX_MANIFEST_BYTES).then(|| Refusal::Manifest {
        application: format!("{}/{}", application.namespace, application.name),
        manifest: title(request.manifest),
        bytes,
    });
    let manifests = vec![request.manifest.clone()];
    let part = Part {
        hash: hash::of_manifests(&manifests),
        manifests,
    };
    let spec = BundleSpec {
        application_ref: Some(application.clone()),
        hash: Some(part.hash.clone()),
        manifest_configs: vec![request.config.clone()],
        ..request.spec.clone()
    };
    let divided = Arc::new(Divided { parts: vec![part] });
    let name = step_bundle_name(&application.namespace, &application.name, request.step);
    let target = |cluster: &String| {
        if let Some(refusal) = &refusal {
            return Target::Refused(refusal.clone());
        }
        let mut wanted = Wanted {
            namespace: cluster_namespace(cluster),
            name: name.clone(),
            step: request.step.to_owned(),
            steps: None,
            part: 0,
            divided: divided.clone(),
            spec: spec.clone(),
            todo: Todo::Create,
        };
        let held = request.observed.get(cluster).into_iter().flatten();
        if let Some(existing) = held.into_iter().find(|bundle| bundle.name == name) {
            wanted.todo = todo(&wanted, existing);
        }
        Target::Bundles(vec![wanted])
    };
    let elsewhere = request
        .observed
        .iter()
        .filter(|(cluster, _)| !request.clusters.contains(cluster));
    Plan {
        targets: request
            .clusters
            .iter()
            .map(|cluster| (cluster.clone(), target(cluster)))
            .collect(),
        surplus: elsewhere
            .flat_map(|(_, held)| held)
            .map(|bundle| (bundle.namespace.clone(), bundle.name.clone()))
            .collect(),
    }
}
