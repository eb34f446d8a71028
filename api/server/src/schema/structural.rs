//! Whether a definition's schema is structural (Kubernetes: "Specifying a structural schema").

use serde_json::Value;

use super::{Definitions, Schema, join, join_index, join_key, prune, validate};
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
    let own = schema
        .pointer("/properties/metadata/properties")
        .and_then(Value::as_object);
    if own.is_some_and(|own| {
        own.keys()
            .any(|key| !matches!(key.as_str(), "name" | "generateName"))
    }) {
        out.push(Cause::forbidden(
            join_key(&join(path, "properties"), "metadata"),
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
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
    list_type(map, path, out);
    rules(map, path, out);
    default(schema, path, out);
    junctors(map, path, depth, out);
    declared(schema, schema, path, depth, out);
}

/// `x-kubernetes-list-type` fits the list, and the keys of a map are fields that every item has.
fn list_type(map: &serde_json::Map<String, Value>, path: &str, out: &mut Vec<Cause>) {
    let field = |key: &str| join(path, key);
    let keys = map.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
    let kind = map.get("x-kubernetes-list-type").and_then(Value::as_str);
    if !keys.is_empty() && kind != Some("map") {
        out.push(Cause::invalid(
            field("x-kubernetes-list-type"),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        ));
    }
    let Some(kind) = kind else { return };
    if map.get("type").and_then(Value::as_str) != Some("array") {
        let why = "must be array if x-kubernetes-list-type is specified";
        out.push(Cause::invalid(field("type"), why));
    }
    let items = map.get("items").unwrap_or(&Value::Null);
    let word = |key: &str| items.get(key).and_then(Value::as_str);
    match kind {
        "atomic" => {}
        "set" => {
            let whole = match word("type") {
                Some("array") => word("x-kubernetes-list-type").is_none_or(|kind| kind == "atomic"),
                Some("object") => word("x-kubernetes-map-type") == Some("atomic"),
                _ => true,
            };
            if !whole {
                let why = "items of a list that is a set must be atomic";
                out.push(Cause::forbidden(field("items"), why));
            }
        }
        "map" => {
            if word("type").is_some_and(|ty| ty != "object") {
                let why = "must be object if the list is a map";
                out.push(Cause::invalid(field("items.type"), why));
            }
            if keys.is_empty() {
                let why = "must not be empty if x-kubernetes-list-type is map";
                out.push(Cause::required(field("x-kubernetes-list-map-keys"), why));
            }
            for (i, key) in keys.iter().enumerate() {
                let Some(of_key) = items.get("properties").and_then(|all| all.get(key)) else {
                    let why = "entries must all be names of item properties";
                    out.push(Cause::invalid(
                        join_index(&field("x-kubernetes-list-map-keys"), i),
                        why,
                    ));
                    continue;
                };
                let required = items.get("required").and_then(Value::as_array);
                let is_required = required
                    .into_iter()
                    .flatten()
                    .any(|name| name.as_str() == Some(key));
                if !is_required && of_key.get("default").is_none() {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    let of_key = join_key(&field("items.properties"), key);
                    out.push(Cause::required(join(&of_key, "default"), why));
                }
            }
        }
        other => out.push(Cause::not_supported(
            field("x-kubernetes-list-type"),
            format!("Unsupported value: {other:?}: supported values: \"atomic\", \"map\", \"set\""),
        )),
    }
}

/// What a rule says beside its expression.
fn rules(map: &serde_json::Map<String, Value>, path: &str, out: &mut Vec<Cause>) {
    let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let path = join_index(&join(path, "x-kubernetes-validations"), i);
        let word = |key: &str| rule.get(key).and_then(Value::as_str);
        if word("rule").unwrap_or_default().trim().is_empty() {
            out.push(Cause::required(join(&path, "rule"), "rule is not specified"));
        }
        let known = [
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ];
        if let Some(reason) = word("reason").filter(|reason| !known.contains(reason)) {
            let why = format!(
                "Unsupported value: {reason:?}: supported values: {}",
                known.join(", ")
            );
            out.push(Cause::not_supported(join(&path, "reason"), why));
        }
    }
}

/// A default has to be a value that the schema takes, without fields that it does not know.
fn default(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(default) = schema.get("default") else {
        return;
    };
    let (compiled, none) = (Schema::compile(schema), Definitions::new());
    let path = join(path, "default");
    if !prune(&mut default.clone(), &compiled, &none, "").is_empty() {
        out.push(Cause::invalid_value(
            &path,
            Some(default),
            "must not have unknown fields",
        ));
    }
    out.extend(validate(default, None, &compiled, &none, &path));
}

/// What a branch says of fields and items is of some that the schema around it declares.
fn declared(schema: &Value, around: &Value, path: &str, depth: usize, out: &mut Vec<Cause>) {
    if depth > MAX_DEPTH || out.len() >= MAX_CAUSES {
        return;
    }
    let all = ["allOf", "anyOf", "oneOf"].into_iter();
    let all = all.filter_map(|key| schema.get(key)?.as_array()).flatten();
    for branch in all.chain(schema.get("not")) {
        branch_declared(branch, around, path, depth + 1, out);
    }
}

fn branch_declared(branch: &Value, around: &Value, path: &str, depth: usize, out: &mut Vec<Cause>) {
    let properties = branch.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten().map(|(name, below)| {
        let declared = around.get("properties").and_then(|all| all.get(name));
        (join_key(&join(path, "properties"), name), below, declared)
    });
    let items = branch.get("items").filter(|items| items.is_object());
    let items = items.map(|below| (join(path, "items"), below, around.get("items")));
    for (path, below, declared) in properties.chain(items) {
        match declared {
            Some(around) if depth <= MAX_DEPTH => branch_declared(below, around, &path, depth + 1, out),
            Some(_) => {}
            None => out.push(Cause::required(
                path,
                "must be declared outside of allOf, anyOf, oneOf and not",
            )),
        }
    }
    declared(branch, around, path, depth, out);
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

    fn keyed(keys: &Value, items: &Value) -> Value {
        json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys, "items": items}}})
    }

    #[test]
    fn structural_or_not() {
        let good = [
            json!({"type": "object"}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "default": "x"}, "metadata": {"type": "object",
                "properties": {"name": {"type": "string", "maxLength": 9}}}}}),
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}, "default": {}}},
                "oneOf": [{"required": ["a"]}, {"properties": {"a": {"properties": {"b": {"minimum": 2}}}}}]}),
            keyed(
                &json!(["k"]),
                &json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}),
            ),
            keyed(
                &json!(["k"]),
                &json!({"type": "object", "properties": {"k": {"type": "string", "default": "x"}}}),
            ),
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}),
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
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "default": "y"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
            json!({"type": "object", "oneOf": [{"properties": {"a": {"minimum": 2}}}]}),
            json!({"type": "object", "x-kubernetes-validations": [{"rule": ""}]}),
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Odd"}]}),
            keyed(
                &json!([]),
                &json!({"type": "object", "properties": {"k": {"type": "string"}}}),
            ),
            keyed(
                &json!(["k"]),
                &json!({"type": "object", "properties": {"k": {"type": "string"}}}),
            ),
            keyed(
                &json!(["x"]),
                &json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}),
            ),
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "odd", "items": {"type": "string"}}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-list-type": "set"}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}}}),
        ];
        for schema in bad {
            assert!(!check_structural(&schema, "").is_empty(), "{schema}");
        }
    }
}
