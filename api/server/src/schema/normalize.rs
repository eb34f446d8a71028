//! What decoding into a Go struct does to a built-in object: unknown fields and nulls go, types must fit, and quantities are
//! written in canonical form.

use roundhouse_patch::quantity;
use serde_json::Value;

use super::{Definitions, Schema, Type, path::Path};

/// The finest power of ten that a quantity keeps.
const NANO: i32 = -9;

/// A value that does not fit the Go type of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode {got} into {path} of type {want}")]
pub(crate) struct TypeMismatch {
    path: String,
    want: &'static str,
    got: &'static str,
}

/// Brings a built-in object into the form it would have after decoding and encoding it in Go, and returns the
/// unknown fields that were dropped.
///
/// # Errors
/// If a value does not fit its field.
pub(crate) fn normalize(
    value: &mut Value,
    schema: &Schema,
    definitions: &Definitions,
    path: &str,
) -> Result<Vec<String>, TypeMismatch> {
    let mut dropped = vec![];
    walk(value, schema, definitions, Path::Root(path), &mut dropped)?;
    Ok(dropped)
}

fn walk(
    value: &mut Value,
    schema: &Schema,
    definitions: &Definitions,
    path: Path<'_>,
    dropped: &mut Vec<String>,
) -> Result<(), TypeMismatch> {
    let schema = schema.resolve(definitions);
    // Go decodes bytes past line breaks, and writes them without.
    if let Value::String(text) = value
        && format_of(schema) == "byte"
    {
        text.retain(|letter| !matches!(letter, '\r' | '\n'));
    }
    fits(value, schema, path)?;
    if schema.quantity {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), |text| text.trim().to_owned());
        if !value.is_null() {
            let canonical = quantity::canonical(&text, NANO).ok_or_else(|| TypeMismatch {
                path: path.to_string(),
                want: "quantity (a number with an optional suffix, such as 500m or 1.5Gi)",
                got: "string",
            })?;
            *value = Value::String(canonical);
        }
        return Ok(());
    }
    match value {
        Value::Object(map) if !schema.properties.is_empty() => {
            map.retain(|key, v| {
                let known = schema.properties.contains_key(key.as_str()) || schema.preserve;
                if !known {
                    dropped.push(Path::Field(&path, key).to_string());
                }
                known && !v.is_null()
            });
            for (key, v) in map.iter_mut() {
                if let Some(property) = schema.properties.get(key.as_str()) {
                    walk(v, property, definitions, Path::Field(&path, key), dropped)?;
                }
            }
            // Empty maps and lists carry `omitempty` unless the field is required.
            map.retain(|key, v| {
                let Some(property) = schema.properties.get(key.as_str()) else {
                    return true;
                };
                let property = property.resolve(definitions);
                let required = schema.required.iter().any(|r| **r == **key);
                required || !omitted_when_empty(v, property)
            });
        }
        Value::Object(map) => {
            if let Some(additional) = &schema.additional {
                // Go decodes a null of a map of strings as the empty string.
                for v in map.values_mut().filter(|v| v.is_null()) {
                    if additional.resolve(definitions).ty == Type::String {
                        *v = Value::String(String::new());
                    }
                }
                map.retain(|_, v| !v.is_null());
                for (key, v) in map.iter_mut() {
                    walk(v, additional, definitions, Path::Key(&path, key), dropped)?;
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (i, v) in list.iter_mut().enumerate() {
                    walk(v, items, definitions, Path::Index(&path, i), dropped)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn omitted_when_empty(value: &Value, schema: &Schema) -> bool {
    match value {
        // A field that holds any JSON, such as the default of a schema, is not a slice in Go.
        Value::Array(list) => list.is_empty() && schema.ty == Type::Array,
        Value::Object(map) => map.is_empty() && schema.ty == Type::Object && schema.additional.is_some(),
        _ => false,
    }
}

fn fits(value: &Value, schema: &Schema, path: Path<'_>) -> Result<(), TypeMismatch> {
    if value.is_null() || schema.preserve {
        return Ok(());
    }
    let (fits, want) = if schema.int_or_string {
        // A Quantity takes any number, an IntOrString whole ones; strings both.
        (value.is_string() || value.is_number(), "integer or string")
    } else {
        let fits = match schema.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.as_str().is_some_and(|text| decodes(schema, text)),
            Type::Integer if format_of(schema) == "int32" => {
                value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
            }
            Type::Integer => value.is_i64() || value.is_u64(),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        };
        (fits, schema.ty.name())
    };
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if fits {
        Ok(())
    } else {
        Err(TypeMismatch {
            path: path.to_string(),
            want,
            got,
        })
    }
}

fn format_of(schema: &Schema) -> &str {
    schema
        .checks
        .as_ref()
        .and_then(|c| c.format.as_deref())
        .unwrap_or_default()
}

/// Bytes and times are decoded by Go; other formats are only notes.
fn decodes(schema: &Schema, text: &str) -> bool {
    match format_of(schema) {
        format @ ("byte" | "date-time") => super::format::matches(format, text),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    #[test]
    fn as_go_would() {
        let known = builtin("v1", "ConfigMap").unwrap();
        let mut value = json!({"apiVersion": "v1", "kind": "ConfigMap", "bogus": 1, "data": {"a": "1", "n": null},
            "binaryData": {}, "immutable": null, "metadata": {"name": "a", "labels": {}, "finalizers": [], "extra": 1}});
        let dropped = normalize(&mut value, &known.schema, &known.definitions, "").unwrap();
        assert_eq!(dropped, ["bogus", "metadata.extra"]);
        assert_eq!(
            value,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "n": ""}, "metadata": {"name": "a"}})
        );
        let mut wrong = json!({"data": {"a": 1}});
        assert!(normalize(&mut wrong, &known.schema, &known.definitions, "").is_err());
        let mut wrong = json!({"binaryData": {"a": "***"}});
        assert!(normalize(&mut wrong, &known.schema, &known.definitions, "").is_err());
    }

    #[test]
    fn quantities_are_written_in_canonical_form() {
        let known = builtin("v1", "Pod").unwrap();
        let container =
            |cpu: Value| json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}});
        for (given, kept) in [
            (json!(0.5), "500m"),
            (json!(2), "2"),
            (json!("1000m"), "1"),
            (json!(" 1.5Gi "), "1536Mi"),
        ] {
            let mut value = container(given);
            normalize(&mut value, &known.schema, &known.definitions, "").unwrap();
            assert_eq!(value, container(kept.into()));
        }
        let refused = normalize(
            &mut container("lots".into()),
            &known.schema,
            &known.definitions,
            "",
        )
        .unwrap_err();
        let expected = "cannot decode string into spec.containers[0].resources.limits[cpu] of type quantity";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        // A port is a number or a name, and no quantity.
        let mut value = json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 8080}}}]}});
        let before = value.clone();
        normalize(&mut value, &known.schema, &known.definitions, "").unwrap();
        assert_eq!(value, before);
    }

    #[test]
    fn an_empty_list_stays_where_any_json_may_be() {
        let known = builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "array", "default": []}}});
        let mut value = json!({"spec": {"versions": [version]}});
        let before = value.clone();
        let dropped = normalize(&mut value, &known.schema, &known.definitions, "").unwrap();
        assert_eq!((dropped, value), (vec![], before));
    }

    #[test]
    fn empty_structs_stay() {
        let known = builtin("v1", "Pod").unwrap();
        let spec = json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {}, "securityContext": {}});
        let mut value = json!({"spec": spec});
        normalize(&mut value, &known.schema, &known.definitions, "").unwrap();
        assert_eq!(
            value["spec"],
            json!({"containers": [], "volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {}})
        );
    }
}
