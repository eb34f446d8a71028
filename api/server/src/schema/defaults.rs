//! Defaults of custom resources.

use serde_json::Value;

use super::{Definitions, Schema};

/// Fills in what the schema has defaults for, also inside of what it filled in; a null where null is not
/// accepted counts as absent. As `structuraldefaulting.Default` and `PruneNonNullableNullsWithoutDefaults`.
pub(crate) fn apply_defaults(value: &mut Value, schema: &Schema, definitions: &Definitions) {
    let schema = schema.resolve(definitions);
    match value {
        Value::Object(map) => {
            for (key, property) in &schema.properties {
                let absent = map.get(&**key).is_none_or(|v| v.is_null() && !property.nullable);
                if let (true, Some(default)) = (absent, &property.default) {
                    map.insert(key.to_string(), default.clone());
                }
            }
            map.retain(|key, v| !v.is_null() || schema.property(key).is_none_or(|s| s.nullable));
            for (key, v) in map.iter_mut() {
                if let Some(property) = schema.property(key) {
                    apply_defaults(v, property, definitions);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for v in list {
                    apply_defaults(v, items, definitions);
                }
            }
        }
        _ => {}
    }
}
