//! Traits of a component: merged into its workload, or added beside it.

use super::{container, metadata};
use roundhouse_api::{
    application::{ValidTrait, merge_traits, workload_of},
    names::label,
};
use serde_json::{Value, json};

/// Merges all traits into the workload in one change, and adds the Services that they bring.
pub(super) fn apply(component: &str, traits: &[ValidTrait], manifests: &mut Vec<Value>) {
    if traits.is_empty() {
        return;
    }
    if let Ok(place) = workload_of(manifests)
        && let Some(workload) = manifests.get_mut(place)
    {
        // Validation has merged the same traits into the same workload.
        if let Err(error) = merge_traits(workload, traits) {
            tracing::error!(component, %error, "traits that were accepted cannot be merged; the workload is as it is without them");
        }
    }
    for one in traits {
        let Some(service) = &one.service else { continue };
        let ports: Vec<_> = service.ports.iter().collect();
        let mut manifest =
            container::service(component, service.expose_type, &json!(service.selector), &ports);
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            container::set_map(metadata, "annotations", &service.annotations);
            metadata::insert(metadata, "labels", &[(label::TRAIT_TYPE, one.type_)]);
        }
        manifests.push(manifest);
    }
}
