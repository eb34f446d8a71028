//! The resource types of Roundhouse, their CRDs and pure validation.
//!
//! Nothing in this crate does I/O. Every type that crosses the network is here, so that the hub, the agent and
//! the command line agree on one shape:
//!
//! | module | resources |
//! | --- | --- |
//! | [`application`] | `Application` (`core.oam.dev/v1beta1`), its status, and [`application::validate()`] |
//! | [`revision`] | `ApplicationRevision` (`core.oam.dev/v1beta1`) |
//! | [`placement`] | `Placement`, and what a placing step says: rules, shares, tolerations |
//! | [`decision`] | `Decision`: what placement answered |
//! | [`definition`] | `ComponentDefinition` (`core.oam.dev/v1beta1`): where the count of a kind lives |
//! | [`bundle`] | `Bundle`: what one application runs on one cluster |
//! | [`cluster`] | `Cluster`, `ClusterReport` |
//! | [`ledger`] | `AppliedBundle`: the agent's write-ahead ledger in the member |
//! | [`crds`] | the CustomResourceDefinitions of all of them |
//! | [`names`] | labels, annotations and the names derived from other names |
//! | [`quantity`] | Kubernetes quantities as exact numbers |
//! | [`hash`] | canonical JSON and content hashes |
//! | [`rights`] | what programs may ask of an API server |
//! | [`shared`] | text that many objects hold alike |
//! | [`clock`] | the injected clock |

pub mod application;
pub mod bundle;
pub mod clock;
pub mod cluster;
pub mod condition;
pub mod crds;
pub mod decision;
pub mod definition;
pub mod hash;
pub mod late;
pub mod ledger;
pub mod names;
pub mod placement;
pub mod revision;
pub mod rights;
pub mod shared;

pub use roundhouse_patch::quantity;

/// A schema node that keeps every field: an object whose shape the API server must not prune.
pub(crate) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A schema node without a type: any JSON value is kept as it is.
pub(crate) fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// A list without item types: one entry that is no object must not refuse the others.
pub(crate) fn any_values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"x-kubernetes-preserve-unknown-fields": true}
    })
}

/// A fencing epoch: it never decreases (checked by the API server's transition rule).
pub(crate) fn epoch(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "x-kubernetes-validations": [{
            "rule": "self >= oldSelf",
            "message": "the epoch may not decrease: a newer leader has written this object"
        }]
    })
}
