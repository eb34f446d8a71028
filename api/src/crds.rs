//! The CustomResourceDefinitions of every resource, generated from the types.

use crate::names::{annotation, label};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::LazyLock;

/// Version of all schemas together, raised with each change of one of them: hub and agent leave a definition of a later
/// version as it is, or one of two that differ would drop the fields that the other has stored.
pub const SCHEMA_VERSION: u32 = 5;

/// The definitions that a hub needs, in the order in which they are created.
pub fn hub() -> Vec<CustomResourceDefinition> {
    static MADE: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(make_hub);
    MADE.clone()
}

fn make_hub() -> Vec<CustomResourceDefinition> {
    vec![
        definition(crate::application::Application::crd()),
        definition(crate::revision::ApplicationRevision::crd()),
        definition(crate::definition::ComponentDefinition::crd()),
        definition(crate::cluster::Cluster::crd()),
        definition(crate::cluster::ClusterReport::crd()),
        keep_unknown_fields(definition(crate::placement::Placement::crd())),
        definition(crate::decision::Decision::crd()),
        definition(crate::bundle::Bundle::crd()),
    ]
}

/// The definitions that a member needs.
pub fn member() -> Vec<CustomResourceDefinition> {
    static MADE: LazyLock<CustomResourceDefinition> =
        LazyLock::new(|| definition(crate::ledger::AppliedBundle::crd()));
    vec![MADE.clone()]
}

/// All definitions.
pub fn all() -> Vec<CustomResourceDefinition> {
    hub().into_iter().chain(member()).collect()
}

/// The version of the schema of a definition that is installed; 0 of one that does not say.
pub fn version_of(definition: &ObjectMeta) -> u32 {
    let annotations = definition.annotations.as_ref();
    let said = annotations.and_then(|annotations| annotations.get(annotation::SCHEMA_VERSION));
    said.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether `live` has everything that `wanted` says; a server adds defaults of its own.
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| contains(live, value)) || value.is_null()),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(live, wanted))
        }
        // A server writes 1 for 1.0.
        (Value::Number(live), Value::Number(wanted)) => live == wanted || live.as_f64() == wanted.as_f64(),
        _ => live == wanted,
    }
}

/// Our label tells our definitions from those of another installation (KubeVela's `core.oam.dev`).
fn definition(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.metadata
        .annotations
        .get_or_insert_default()
        .insert(annotation::SCHEMA_VERSION.to_owned(), SCHEMA_VERSION.to_string());
    crd.metadata
        .labels
        .get_or_insert_default()
        .insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned());
    for version in &mut crd.spec.versions {
        if let Some(root) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            use_kubernetes_formats(root);
        }
    }
    crd
}

/// Lets the API server keep what the spec's schema does not name, at every depth: a misspelt `replicas` that is dropped in
/// silence would give every cluster the full count. Validation refuses it by name instead.
fn keep_unknown_fields(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    fn keep(schema: &mut JSONSchemaProps) {
        if let Some(properties) = &mut schema.properties {
            schema.x_kubernetes_preserve_unknown_fields = Some(true);
            properties.values_mut().for_each(keep);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
            keep(items);
        }
    }
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut();
        let properties = root.and_then(|schema| schema.open_api_v3_schema.as_mut()?.properties.as_mut());
        if let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) {
            keep(spec);
        }
    }
    crd
}

/// Kubernetes knows the integer formats `int32` and `int64` and ignores others, those of Rust's unsigned integers among
/// them. Their bounds are written out instead: what the API server admits, our types can read.
fn use_kubernetes_formats(schema: &mut JSONSchemaProps) {
    let bounds = match schema.format.as_deref() {
        Some("uint8") => Some(("int32", Some(f64::from(u8::MAX)))),
        Some("uint16") => Some(("int32", Some(f64::from(u16::MAX)))),
        Some("uint32") => Some(("int64", Some(f64::from(u32::MAX)))),
        Some("uint64" | "uint") => Some(("int64", None)),
        _ => None,
    };
    if let Some((format, maximum)) = bounds {
        schema.format = Some(format.to_owned());
        schema.minimum = Some(schema.minimum.unwrap_or(0.0).max(0.0));
        schema.maximum = schema.maximum.or(maximum);
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|p| p.values_mut())
        .for_each(use_kubernetes_formats);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        use_kubernetes_formats(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        use_kubernetes_formats(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let wanted = json!({"a": 1, "list": [{"x": 1}], "absent": null});
        for (live, expected) in [
            (
                json!({"a": 1, "list": [{"x": 1, "default": true}], "more": 2}),
                true,
            ),
            (json!({"a": 2, "list": [{"x": 1}]}), false),
            (json!({"a": 1, "list": [{"x": 1}, {"x": 2}]}), false),
            (json!({"list": [{"x": 1}]}), false),
            (json!({"a": 1.0, "list": [{"x": 1}]}), true),
        ] {
            assert_eq!(contains(&live, &wanted), expected, "{live}");
        }
    }
}
