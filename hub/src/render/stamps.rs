//! Bookkeeping of a revision: it is in the metadata of an object, never in a pod template, so that it restarts no pod.

use super::{RenderedComponent, metadata};
use roundhouse_api::{
    hash,
    names::{annotation, label},
};
use serde_json::Value;

/// What an object is stamped with (seed: apply-once-only).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamps {
    /// Application revision, `<app>-v<N>`.
    pub app_revision: String,
    /// Component revision, `<component>-v<N>`.
    pub component_revision: String,
    /// `metadata.generation` of the Application.
    pub generation: i64,
}

/// Stamps a manifest. One without metadata is left as it is: it fails at the agent.
pub fn stamp(manifest: &mut Value, stamps: &Stamps) {
    let Some(map) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let labels = [
        (label::REVISION, stamps.component_revision.as_str()),
        (label::APP_REVISION, stamps.app_revision.as_str()),
    ];
    metadata::insert(map, "labels", &labels);
    metadata::insert(
        map,
        "annotations",
        &[(annotation::GENERATION, &stamps.generation.to_string())],
    );
}

/// Hex sha256 of a component's manifests, stamps excluded: a component revision `<component>-v<N>` counts up when it
/// changes.
pub fn component_hash(component: &RenderedComponent) -> String {
    hash::of_manifests(&component.manifests)
}
