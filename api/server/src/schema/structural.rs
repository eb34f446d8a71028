//! Whether a definition's schema is structural (Kubernetes: "Specifying a structural schema").

use serde_json::Value;

use super::{join, join_key};
use crate::error::Cause;

const MAX_DEPTH: usize = 60;
const MAX_CAUSES: usize = 32;

/// Everything that keeps `schema` from being structural.
pub(crate) fn check_structural(schema: &Value, path: &str) -> Vec<Cause> {
    let mut out = vec![];
    node(schema, path, 0, &mut out);
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        out.push(Cause::required(join(path, "type"), "must be object at the root"));
    }
    out.truncate(MAX_CAUSES);
    out
}

fn node(schema: &Value, path: &str, depth: usize, out: &mut Vec<Cause>) {
    if out.len() >= MAX_CAUSES {
        return;
    }
    if depth > MAX_DEPTH {
        out.push(Cause::forbidden(
            path,
            format!("nested deeper than {MAX_DEPTH} levels"),
        ));
        return;
    }
    let Some(map) = schema.as_object() else {
        out.push(Cause::invalid(path, "must be a schema object"));
        return;
    };
    let flag = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
    let ty = map.get("type").and_then(Value::as_str);
    let known = ["object", "array", "string", "integer", "number", "boolean"];
    match ty {
        Some(t) if !known.contains(&t) => {
            out.push(Cause::not_supported(
                join(path, "type"),
                format!("Unsupported value: {t:?}"),
            ));
        }
        None if !flag("x-kubernetes-int-or-string") && !flag("x-kubernetes-preserve-unknown-fields") => {
            out.push(Cause::required(
                join(path, "type"),
                "must not be empty for specified object fields",
            ));
        }
        _ => {}
    }
    for key in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "additionalItems",
        "id",
        "$schema",
    ] {
        if map.contains_key(key) {
            out.push(Cause::forbidden(
                join(path, key),
                format!("{key} is not supported"),
            ));
        }
    }
    if flag("uniqueItems") {
        out.push(Cause::forbidden(
            join(path, "uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if map.contains_key("properties")
        && map
            .get("additionalProperties")
            .is_some_and(|a| *a != Value::Bool(false))
    {
        out.push(Cause::forbidden(
            join(path, "additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if let Some(pattern) = map.get("pattern").and_then(Value::as_str)
        && let Err(error) = regex::Regex::new(pattern)
    {
        out.push(Cause::invalid(
            join(path, "pattern"),
            format!("must be a valid regular expression: {error}"),
        ));
    }
    if ty == Some("array") && !map.contains_key("items") {
        out.push(Cause::required(join(path, "items"), "must be specified"));
    }
    if map.get("items").is_some_and(Value::is_array) {
        out.push(Cause::forbidden(
            join(path, "items"),
            "items must be a schema object and not an array",
        ));
    } else if let Some(items) = map.get("items") {
        node(items, &join(path, "items"), depth + 1, out);
    }
    if let Some(additional @ Value::Object(_)) = map.get("additionalProperties") {
        node(additional, &join(path, "additionalProperties"), depth + 1, out);
    }
    if flag("x-kubernetes-embedded-resource") && ty != Some("object") {
        out.push(Cause::invalid(
            join(path, "type"),
            "must be object if x-kubernetes-embedded-resource is true",
        ));
    }
    for (key, child) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        node(child, &join_key(&join(path, "properties"), key), depth + 1, out);
    }
    junctors(map, path, depth, out);
}

/// Inside `allOf`, `anyOf`, `oneOf` and `not` only value constraints may stand.
fn junctors(map: &serde_json::Map<String, Value>, path: &str, depth: usize, out: &mut Vec<Cause>) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for (i, child) in map
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            value_node(child, &super::join_index(&join(path, key), i), depth + 1, out);
        }
    }
    if let Some(child) = map.get("not") {
        value_node(child, &join(path, "not"), depth + 1, out);
    }
}

fn value_node(schema: &Value, path: &str, depth: usize, out: &mut Vec<Cause>) {
    if out.len() >= MAX_CAUSES || depth > MAX_DEPTH {
        return;
    }
    let Some(map) = schema.as_object() else { return };
    for key in [
        "description",
        "type",
        "default",
        "additionalProperties",
        "nullable",
        "title",
    ] {
        // `anyOf: [{type: integer}, {type: string}]` is how x-kubernetes-int-or-string may be spelled out.
        let spelled_out =
            key == "type" && matches!(map.get(key).and_then(Value::as_str), Some("integer" | "string"));
        if map.contains_key(key) && !spelled_out {
            out.push(Cause::forbidden(
                join(path, key),
                "must be empty to be structural",
            ));
        }
    }
    for (key, child) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        value_node(child, &join_key(&join(path, "properties"), key), depth + 1, out);
    }
    if let Some(items @ Value::Object(_)) = map.get("items") {
        value_node(items, &join(path, "items"), depth + 1, out);
    }
    junctors(map, path, depth, out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structural_or_not() {
        let good = [
            json!({"type": "object"}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
        ];
        for schema in good {
            assert_eq!(check_structural(&schema, ""), vec![], "{schema}");
        }
        let bad = [
            json!({}),
            json!({"type": "string"}),
            json!({"type": "object", "properties": {"a": {}}}),
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "allOf": [{"description": "x"}]}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/x", "type": "object"}}}),
        ];
        for schema in bad {
            assert!(!check_structural(&schema, "").is_empty(), "{schema}");
        }
    }
}
