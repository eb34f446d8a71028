//! `metadata.generation`.

use serde_json::Value;

use crate::{
    kinds::{GenerationRule, Resource},
    object,
};

/// The generation of `new`, the successor of `old` (`None`: it is being created).
pub(crate) fn next_generation(resource: &Resource, old: Option<&Value>, new: &Value) -> Option<i64> {
    if resource.generation == GenerationRule::None {
        return None;
    }
    let Some(old) = old else { return Some(1) };
    let now = object::generation(old);
    Some(if counts(resource, old, new) {
        now.saturating_add(1)
    } else {
        now
    })
}

fn counts(resource: &Resource, old: &Value, new: &Value) -> bool {
    let differs = |key: &str| old.get(key) != new.get(key);
    match resource.generation {
        GenerationRule::None => false,
        GenerationRule::SpecAndAnnotations => {
            let annotations = |value| {
                let map = object::at(value, &["metadata", "annotations"]).and_then(Value::as_object);
                map.filter(|map| !map.is_empty())
            };
            differs("spec") || annotations(old) != annotations(new)
        }
        // Webhook configurations, EndpointSlices, PodTemplates and PriorityClasses have no spec: everything counts.
        GenerationRule::Spec if new.get("spec").or(old.get("spec")).is_some() => differs("spec"),
        GenerationRule::Spec | GenerationRule::AllButMeta => {
            let keys = |v: &Value| {
                v.as_object()
                    .into_iter()
                    .flatten()
                    .map(|(k, _)| k.clone())
                    .collect::<Vec<_>>()
            };
            let skip = |key: &str| {
                matches!(key, "metadata" | "apiVersion" | "kind") || (key == "status" && resource.status)
            };
            keys(old)
                .iter()
                .chain(&keys(new))
                .any(|key| !skip(key) && differs(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn what_raises_it() {
        let registry = Registry::default();
        let deployment = registry.by_kind("apps/v1", "Deployment").unwrap();
        let config = registry.by_kind("v1", "ConfigMap").unwrap();
        let old = json!({"metadata": {"generation": 3}, "spec": {"replicas": 1}, "status": {}});
        let with = |key: &str, v: Value| {
            let mut new = old.clone();
            new[key] = v;
            next_generation(&deployment, Some(&old), &new)
        };
        assert_eq!(next_generation(&deployment, None, &old), Some(1));
        assert_eq!(with("spec", json!({"replicas": 2})), Some(4));
        assert_eq!(with("spec", json!({"replicas": 1})), Some(3));
        assert_eq!(with("status", json!({"replicas": 2})), Some(3));
        assert_eq!(
            with("metadata", json!({"generation": 3, "labels": {"a": "b"}})),
            Some(3)
        );
        let annotated = json!({"generation": 3, "annotations": {"a": "b"}});
        assert_eq!(
            with("metadata", annotated.clone()),
            Some(4),
            "only of a Deployment"
        );
        let set = registry.by_kind("apps/v1", "StatefulSet").unwrap();
        let mut new = old.clone();
        new["metadata"] = annotated;
        assert_eq!(next_generation(&set, Some(&old), &new), Some(3));
        assert_eq!(next_generation(&config, None, &old), None);
    }
}
