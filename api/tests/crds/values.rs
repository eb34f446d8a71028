//! Values inside a schema: defaults, enumerations, names of required fields.

use serde_json::{Map, Value};

/// Defaults and enumerations must be values of the schema, without fields that it would prune.
pub(crate) fn check(map: &Map<String, Value>, schema: &Value, refuse: &mut impl FnMut(&str)) {
    if let Some(default) = map.get("default")
        && let Err(reason) = fits(default, schema)
    {
        refuse(&format!("default {default} does not fit: {reason}"));
    }
    let plain: Map<String, Value> = map
        .iter()
        .filter(|(k, _)| *k != "enum")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for value in map.get("enum").and_then(Value::as_array).into_iter().flatten() {
        if let Err(reason) = fits(value, &Value::Object(plain.clone())) {
            refuse(&format!("enum value {value} does not fit: {reason}"));
        }
    }
    let properties = map.get("properties").and_then(Value::as_object);
    for name in map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = name.as_str().unwrap_or_default();
        if properties.is_some_and(|p| !p.contains_key(name)) {
            refuse(&format!("required field {name} is not in properties"));
        }
    }
}

/// Whether a value has the type of a schema, without unknown fields.
fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    if value.is_null() {
        return if flag("nullable") {
            Ok(())
        } else {
            Err("null, but not nullable".to_owned())
        };
    }
    if schema
        .get("enum")
        .and_then(Value::as_array)
        .is_some_and(|allowed| !allowed.contains(value))
    {
        return Err(format!("{value} is not in enum"));
    }
    let right = match schema.get("type").and_then(Value::as_str) {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => !flag("x-kubernetes-int-or-string") || value.is_i64() || value.is_string(),
    };
    if !right {
        return Err(format!("{value} has another type"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(item, schema.get("items").unwrap_or(&Value::Null))?;
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        let known = schema
            .get("properties")
            .and_then(|p| p.get(key))
            .or_else(|| schema.get("additionalProperties"));
        match known {
            Some(known) => fits(field, known)?,
            None if flag("x-kubernetes-preserve-unknown-fields") => {}
            None => return Err(format!("field {key} would be pruned")),
        }
    }
    Ok(())
}
