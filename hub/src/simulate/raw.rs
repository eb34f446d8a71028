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

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::application::validate;
    use serde_json::json;

    #[test]
    fn what_no_step_changes_or_leaves_out_is_in_every_bundle() {
        let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
        let placement = json!([{"replicas": "100%"}]);
        let whole = json!({"type": "deploy", "properties": {"placement": placement}});
        let one = json!({"type": "apply-component", "properties": {"name": "raw", "placement": placement}});
        let changed = json!({"type": "deploy", "properties": {"policies": ["more"], "placement": placement}});
        let policies = json!([{"name": "more", "type": "override", "properties": {"components": [
            {"name": "app", "properties": {"image": "nginx:2"}}]}}]);
        for (step, expected) in [(whole, 1), (one, 0), (changed, 0)] {
            let spec = json!({"policies": policies, "workflow": {"steps": [step]}, "components": [
                {"name": "app", "type": "worker", "properties": {"image": "nginx:1"}},
                {"name": "raw", "type": "k8s-objects", "properties": {"objects": [object("ConfigMap"), object("Job")]}}]});
            let valid = validate(&spec).unwrap();
            let raw: Vec<&Value> = raw_objects(&valid).collect();
            assert_eq!(raw.len(), expected, "{spec}");
            assert!(raw.iter().all(|object| object["kind"] == "ConfigMap"));
        }
    }
}
