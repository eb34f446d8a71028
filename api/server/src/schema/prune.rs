//! Dropping what a custom resource's schema does not know.

use serde_json::Value;

use super::{Definitions, Schema, path::Path};

/// Fields every embedded resource has beside those of its schema.
const TYPE_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields below `path` and returns where they were.
/// `x-kubernetes-preserve-unknown-fields` keeps them, but known fields inside are still pruned.
pub(crate) fn prune(
    value: &mut Value,
    schema: &Schema,
    definitions: &Definitions,
    path: &str,
) -> Vec<String> {
    let mut dropped = vec![];
    walk(value, schema, definitions, Path::Root(path), false, &mut dropped);
    dropped
}

fn walk(
    value: &mut Value,
    schema: &Schema,
    definitions: &Definitions,
    path: Path<'_>,
    root: bool,
    dropped: &mut Vec<String>,
) {
    let schema = schema.resolve(definitions);
    match value {
        Value::Object(map) => {
            let meta = |key: &str| (root || schema.embedded) && TYPE_META.contains(&key);
            if !schema.preserve {
                map.retain(|key, _| {
                    let known = schema.property(key).is_some() || meta(key);
                    if !known {
                        dropped.push(Path::Field(&path, key).to_string());
                    }
                    known
                });
            }
            for (key, v) in map
                .iter_mut()
                .filter(|(k, _)| !meta(k) || schema.properties.contains_key(k.as_str()))
            {
                if let Some(property) = schema.properties.get(key.as_str()) {
                    walk(v, property, definitions, Path::Field(&path, key), false, dropped);
                } else if let Some(additional) = &schema.additional {
                    walk(v, additional, definitions, Path::Key(&path, key), false, dropped);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (i, v) in list.iter_mut().enumerate() {
                    walk(v, items, definitions, Path::Index(&path, i), false, dropped);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_unless_preserved() {
        let schema = Schema::compile(&json!({"type": "object", "properties": {
            "known": {"type": "object", "properties": {"x": {"type": "string"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"typed": {"type": "object", "properties": {"y": {"type": "string"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"z": {"type": "string"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "string"}}}},
            "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }}));
        let mut value = json!({
            "bogus": 1, "known": {"x": "1", "y": 2}, "free": {"any": [1], "typed": {"y": "1", "n": 1}},
            "map": {"k": {"z": "1", "n": 1}}, "list": [{"w": "1", "n": 1}],
            "raw": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "spec": {"n": 1}, "data": 1},
        });
        let mut dropped = prune(&mut value, &schema, &Definitions::new(), "");
        dropped.sort();
        assert_eq!(
            dropped,
            [
                "bogus",
                "free.typed.n",
                "known.y",
                "list[0].n",
                "map[k].n",
                "raw.data",
                "raw.spec.n"
            ]
        );
        let left = json!({
            "known": {"x": "1"}, "free": {"any": [1], "typed": {"y": "1"}}, "map": {"k": {"z": "1"}}, "list": [{"w": "1"}],
            "raw": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "spec": {}},
        });
        assert_eq!(value, left);
        assert!(prune(&mut value, &schema, &Definitions::new(), "").is_empty());
    }
}
