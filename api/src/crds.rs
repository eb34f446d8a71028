//! The CustomResourceDefinitions of every resource, generated from the types.

use crate::names::label;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The definitions that a hub needs, in the order in which they are created.
pub fn hub() -> Vec<CustomResourceDefinition> {
    vec![
        labelled(crate::application::Application::crd()),
        labelled(crate::revision::ApplicationRevision::crd()),
        labelled(crate::cluster::Cluster::crd()),
        labelled(crate::cluster::ClusterReport::crd()),
        labelled(crate::decision::Decision::crd()),
        labelled(crate::bundle::Bundle::crd()),
    ]
}

/// The definitions that a member needs.
pub fn member() -> Vec<CustomResourceDefinition> {
    vec![labelled(crate::ledger::AppliedBundle::crd())]
}

/// All definitions.
pub fn all() -> Vec<CustomResourceDefinition> {
    hub().into_iter().chain(member()).collect()
}

/// Our label tells our definitions from those of another installation (KubeVela's `core.oam.dev`).
fn labelled(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.metadata
        .labels
        .get_or_insert_default()
        .insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned());
    crd
}
