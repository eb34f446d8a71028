//! What users wrote as it is to be applied.

use roundhouse_api::application::{ComponentKind, ValidApplication};
use serde_json::Value;

/// The objects that every Bundle of an application has as they are written, the replicas aside, which are divided: those of its
/// `k8s-objects` components, but for Jobs, which are made once. None where a step takes one component only, or changes any.
pub(super) fn raw_objects(application: &ValidApplication) -> impl Iterator<Item = &Value> {
    let mut steps = application.all_steps().filter_map(|step| step.kind.deploy());
    let is_whole = steps.all(|step| step.components.is_none() && step.only.is_none());
    let components = application.components.iter().filter(move |_| is_whole);
    let raw = components.filter_map(|component| match &component.kind {
        ComponentKind::Objects(raw) => Some(&raw.objects),
        _ => None,
    });
    raw.flatten().filter(|object| object["kind"] != "Job")
}
