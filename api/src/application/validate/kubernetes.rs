//! Checks values against the published schemas of Kubernetes types: environment variables, volumes, probes.
//!
//! The values themselves are kept as they were written, so that nothing is lost on the way to a member.

use super::node::{Node, unknown_field};
use k8s_openapi::api::core::v1::{EnvVar, HostAlias, Probe, Volume, VolumeMount};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;
use std::sync::LazyLock;

pub(super) static ENV: LazyLock<Value> = LazyLock::new(schema_of::<EnvVar>);
pub(super) static VOLUME: LazyLock<Value> = LazyLock::new(schema_of::<Volume>);
pub(super) static VOLUME_MOUNT: LazyLock<Value> = LazyLock::new(schema_of::<VolumeMount>);
pub(super) static PROBE: LazyLock<Value> = LazyLock::new(schema_of::<Probe>);
pub(super) static HOST_ALIAS: LazyLock<Value> = LazyLock::new(schema_of::<HostAlias>);

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Refuses what the schema does not know: unknown fields, wrong types, missing fields, at every level.
/// `null` is as good as absent, as in Kubernetes.
pub(super) fn check(node: &Node<'_>, schema: &Value) {
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    if flag("x-kubernetes-int-or-string") {
        if !(node.value.is_i64() || node.value.is_u64() || node.value.is_string()) {
            node.refuse(format!(
                "expected an integer or a string, found {}",
                super::node::shown(node.value)
            ));
        }
        return;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => {
            node.string();
        }
        Some("boolean") => {
            node.boolean();
        }
        Some("integer") => check_integer(node),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            for entry in node.list().unwrap_or_default() {
                check(&entry, items);
            }
        }
        Some("object") => check_object(node, schema),
        _ => {}
    }
}

fn check_integer(node: &Node<'_>) {
    if !(node.value.is_i64() || node.value.is_u64()) {
        let found = super::node::shown(node.value);
        node.refuse(format!("expected an integer, found {found}"));
    }
}

fn check_object(node: &Node<'_>, schema: &Value) {
    let Some(entries) = node.entries() else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let values = schema.get("additionalProperties").filter(|s| s.is_object());
    for (key, child) in &entries {
        match (properties.and_then(|p| p.get(*key)), values, properties) {
            (Some(schema), _, _) | (None, Some(schema), _) if !child.value.is_null() => check(child, schema),
            (None, None, Some(properties)) => {
                child.refuse(unknown_field(key, properties.keys().map(String::as_str)));
            }
            _ => {}
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let value = node.value.get(name);
        if value.is_none_or(Value::is_null) {
            node.child(name, &Value::Null).refuse("is required");
        }
    }
}
