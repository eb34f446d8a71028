//! Whether a definition's schema is structural (Kubernetes: "Specifying a structural schema").

use serde_json::{Map, Value, json};

use super::{Definitions, Schema, join, join_index, join_key, prune, validate};
use crate::error::Cause;

const MAX_DEPTH: usize = 60;
const MAX_CAUSES: usize = 32;

/// Everything that keeps `schema` from being structural.
pub(crate) fn check_structural(schema: &Value, path: &str) -> Vec<Cause> {
    let mut out = vec![];
    node(schema, path, 0, &mut out);
    root(schema, path, &mut out);
    out.truncate(MAX_CAUSES);
    out
}

/// What is asked of a whole object.
fn root(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        out.push(Cause::required(join(path, "type"), "must be object at the root"));
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        let why = "nullable cannot be true at the root";
        out.push(Cause::forbidden(join(path, "nullable"), why));
    }
    if schema
        .get("additionalProperties")
        .is_some_and(|any| !any.is_null())
    {
        let why = "must not be used at the root";
        out.push(Cause::forbidden(join(path, "additionalProperties"), why));
    }
    typed(schema, path, out);
    for key in ["apiVersion", "kind", "metadata"] {
        if let Some(below) = schema.get("properties").and_then(|all| all.get(key)) {
            let path = join_key(&join(path, "properties"), key);
            no_defaults(below, &path, key, out);
        }
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
}

/// What every object has is of the type it is of everywhere.
fn typed(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    for (key, ty) in [
        ("apiVersion", "string"),
        ("kind", "string"),
        ("metadata", "object"),
    ] {
        let below = schema.get("properties").and_then(|all| all.get(key));
        if below.is_some_and(|below| below.get("type").and_then(Value::as_str) != Some(ty)) {
            let path = join(&join_key(&join(path, "properties"), key), "type");
            out.push(Cause::invalid(path, format!("must be {ty}")));
        }
    }
}

/// What the server itself sets has no defaults.
fn no_defaults(schema: &Value, path: &str, of: &str, out: &mut Vec<Cause>) {
    if schema.get("default").is_some_and(|default| !default.is_null()) {
        let why = format!("must not be set in top-level {of}");
        out.push(Cause::forbidden(join(path, "default"), why));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, below) in properties.into_iter().flatten() {
        // Nothing below these is accepted at all.
        if matches!(key.as_str(), "name" | "generateName") {
            no_defaults(below, &join_key(&join(path, "properties"), key), of, out);
        }
    }
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
    let properties = map.get("properties").and_then(Value::as_object);
    let has_properties = properties.is_some_and(|properties| !properties.is_empty());
    let additional = map.get("additionalProperties");
    if has_properties && matches!(additional, Some(Value::Bool(false) | Value::Object(_))) {
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
    extensions(schema, path, out);
    for (key, child) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        node(child, &join_key(&join(path, "properties"), key), depth + 1, out);
    }
    list_type(map, path, out);
    rules(schema, path, out);
    default(schema, path, out);
    junctors(map, path, depth, IntOrString::of(schema), out);
    declared(schema, schema, path, depth, out);
}

/// What `x-kubernetes-…` says of values and objects fits.
fn extensions(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const EMBEDDED: &str = "x-kubernetes-embedded-resource";
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool);
    let word = |key: &str| schema.get(key).and_then(Value::as_str);
    let ty = word("type");
    if flag(PRESERVE) == Some(false) {
        out.push(Cause::invalid_value(
            join(path, PRESERVE),
            schema.get(PRESERVE),
            "must be true or undefined",
        ));
    }
    if flag("x-kubernetes-int-or-string") == Some(true) {
        for key in [PRESERVE, EMBEDDED] {
            if flag(key) == Some(true) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                out.push(Cause::invalid_value(join(path, key), schema.get(key), why));
            }
        }
    }
    if flag(EMBEDDED) == Some(true) {
        must_be_object(ty, "x-kubernetes-embedded-resource is true", path, out);
        if schema
            .get("additionalProperties")
            .is_some_and(|any| !any.is_null())
        {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            out.push(Cause::forbidden(join(path, "additionalProperties"), why));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        if flag(PRESERVE) != Some(true) && properties.is_none_or(Map::is_empty) {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            out.push(Cause::required(join(path, "properties"), why));
        }
        typed(schema, path, out);
    }
    if let Some(kind) = word("x-kubernetes-map-type") {
        must_be_object(ty, "x-kubernetes-map-type is specified", path, out);
        if !matches!(kind, "atomic" | "granular") {
            let why = format!("Unsupported value: {kind:?}: supported values: \"atomic\", \"granular\"");
            out.push(Cause::not_supported(join(path, "x-kubernetes-map-type"), why));
        }
    }
}

fn must_be_object(ty: Option<&str>, when: &str, path: &str, out: &mut Vec<Cause>) {
    let (path, why) = (join(path, "type"), format!("must be object if {when}"));
    match ty {
        Some("object") => {}
        Some(_) => out.push(Cause::invalid(path, why)),
        None => out.push(Cause::required(path, why)),
    }
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
    if kind != "atomic" && items.get("nullable") == Some(&Value::Bool(true)) {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        out.push(Cause::forbidden(field("items.nullable"), why));
    }
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
                if keys.iter().take(i).any(|before| before == key) {
                    out.push(Cause::duplicate(
                        join_index(&field("x-kubernetes-list-map-keys"), i),
                        format!("Duplicate value: {key:?}"),
                    ));
                    continue;
                }
                let at = join_key(&field("items.properties"), key);
                if matches!(
                    of_key.get("type").and_then(Value::as_str),
                    Some("array" | "object")
                ) {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    out.push(Cause::invalid(join(&at, "type"), why));
                }
                if of_key.get("nullable") == Some(&Value::Bool(true)) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    out.push(Cause::forbidden(join(&at, "nullable"), why));
                }
                let required = items.get("required").and_then(Value::as_array);
                let is_required = required
                    .into_iter()
                    .flatten()
                    .any(|name| name.as_str() == Some(key));
                if !is_required && of_key.get("default").is_none() {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    out.push(Cause::required(join(&at, "default"), why));
                }
            }
        }
        other => out.push(Cause::not_supported(
            field("x-kubernetes-list-type"),
            format!("Unsupported value: {other:?}: supported values: \"atomic\", \"map\", \"set\""),
        )),
    }
}

fn is_blank(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && text.trim().is_empty())
}

/// The schema of what a path such as `.spec['a-b'].c` names below `schema`; `None` if there is no such field. Items of lists
/// have no names.
pub(crate) fn named<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let (name, rest) = match path.strip_prefix("['") {
        Some(path) => path.split_once("']")?,
        None => {
            let path = path.strip_prefix('.')?;
            path.split_at(path.find(['.', '[']).unwrap_or(path.len()))
        }
    };
    let property = schema.get("properties").and_then(|all| all.get(name));
    let additional = || schema.get("additionalProperties").filter(|any| any.is_object());
    let below = property.or_else(additional)?;
    match rest {
        "" => Some(below),
        rest => named(below, rest),
    }
}

/// What a rule says beside its expression.
fn rules(schema: &Value, path: &str, out: &mut Vec<Cause>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let path = join_index(&join(path, "x-kubernetes-validations"), i);
        let word = |key: &str| rule.get(key).and_then(Value::as_str);
        let text = word("rule").unwrap_or_default().trim();
        let message = word("message");
        let has_lines = |text: &str| text.contains(['\n', '\r']);
        if text.is_empty() {
            out.push(Cause::required(join(&path, "rule"), "rule is not specified"));
        } else if is_blank(message) {
            let why = "message must be non-empty if specified";
            out.push(Cause::invalid_value(
                join(&path, "message"),
                rule.get("message"),
                why,
            ));
        } else if has_lines(message.unwrap_or_default().trim()) {
            let why = "message must not contain line breaks";
            out.push(Cause::invalid_value(
                join(&path, "message"),
                rule.get("message"),
                why,
            ));
        } else if has_lines(text) && message.unwrap_or_default().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            out.push(Cause::required(join(&path, "message"), why));
        }
        if is_blank(word("messageExpression")) {
            let why = "messageExpression must be non-empty if specified";
            out.push(Cause::required(join(&path, "messageExpression"), why));
        }
        if let Some(field) = word("fieldPath").filter(|field| !field.is_empty())
            && named(schema, field).is_none()
        {
            let why = "fieldPath must be a valid path";
            out.push(Cause::invalid_value(
                join(&path, "fieldPath"),
                rule.get("fieldPath"),
                why,
            ));
        }
        if rule.get("optionalOldSelf").is_some_and(Value::is_boolean) && !text.contains("oldSelf") {
            let why = "may not be set if oldSelf is not used in rule";
            out.push(Cause::invalid_value(
                join(&path, "optionalOldSelf"),
                rule.get("optionalOldSelf"),
                why,
            ));
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

/// Where `anyOf: [{type: integer}, {type: string}]` may stand: that is how `x-kubernetes-int-or-string` is spelled out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntOrString {
    /// Here.
    Here,
    /// In the first of `allOf`.
    First,
    Nowhere,
}

impl IntOrString {
    fn of(schema: &Value) -> Self {
        let first = schema.get("allOf").and_then(|all| all.get(0));
        if Self::is_spelled_out(schema) {
            Self::Here
        } else if first.is_some_and(Self::is_spelled_out) {
            Self::First
        } else {
            Self::Nowhere
        }
    }

    fn is_spelled_out(schema: &Value) -> bool {
        schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
    }
}

/// Inside `allOf`, `anyOf`, `oneOf` and `not` only value constraints may stand.
fn junctors(map: &Map<String, Value>, path: &str, depth: usize, types: IntOrString, out: &mut Vec<Cause>) {
    for key in ["allOf", "anyOf", "oneOf"] {
        if key == "anyOf" && types == IntOrString::Here {
            continue;
        }
        for (i, child) in map
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let types = match key == "allOf" && i == 0 && types == IntOrString::First {
                true => IntOrString::Here,
                false => IntOrString::Nowhere,
            };
            let path = join_index(&join(path, key), i);
            value_node(child, &path, depth + 1, types, out);
        }
    }
    if let Some(child) = map.get("not") {
        value_node(child, &join(path, "not"), depth + 1, IntOrString::Nowhere, out);
    }
}

fn value_node(schema: &Value, path: &str, depth: usize, types: IntOrString, out: &mut Vec<Cause>) {
    if out.len() >= MAX_CAUSES || depth > MAX_DEPTH {
        return;
    }
    let Some(map) = schema.as_object() else { return };
    for key in [
        "description",
        "type",
        "default",
        "additionalProperties",
        "externalDocs",
        "nullable",
        "title",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ] {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            // Whether there are further properties is a constraint either way.
            Value::Bool(is_on) => !is_on && key != "additionalProperties",
            Value::Array(list) => list.is_empty() && key != "default",
            Value::String(text) => text.is_empty() && key != "default",
            _ => false,
        };
        if map.get(key).is_some_and(|value| !is_empty(value)) {
            out.push(Cause::forbidden(
                join(path, key),
                "must be empty to be structural",
            ));
        }
    }
    if map
        .get("properties")
        .and_then(|all| all.get("metadata"))
        .is_some()
    {
        let path = join_key(&join(path, "properties"), "metadata");
        out.push(Cause::forbidden(
            path,
            "must not be specified in a nested context",
        ));
    }
    for (key, child) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = join_key(&join(path, "properties"), key);
        value_node(child, &path, depth + 1, IntOrString::Nowhere, out);
    }
    if let Some(items @ Value::Object(_)) = map.get("items") {
        value_node(items, &join(path, "items"), depth + 1, IntOrString::Nowhere, out);
    }
    junctors(map, path, depth, types, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(keys: &Value, items: &Value) -> Value {
        json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys, "items": items}}})
    }

    /// Kubernetes says no more and no less than this.
    #[test]
    fn what_is_wrong_is_named() {
        let with = |key: &str, value: Value| {
            let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            schema[key] = value;
            schema
        };
        let of = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        let rule = |rule: Value| {
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b-c": {"type": "string"}},
                "x-kubernetes-validations": [rule]}}})
        };
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let embedded = |rest: Value| {
            let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true});
            for (key, value) in rest.as_object().unwrap() {
                schema[key] = value.clone();
            }
            of(schema)
        };
        let branch = |value: Value| with("allOf", json!([{"properties": {"a": value}}]));
        let nested = "Forbidden allOf[0].properties[a].";
        let at = "properties[a].x-kubernetes-validations[0].";
        for (schema, wants) in [
            (
                of(
                    json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true}),
                ),
                "",
            ),
            (
                of(
                    json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": false}),
                ),
                "Forbidden properties[a].additionalProperties",
            ),
            (
                of(
                    json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
                ),
                "Forbidden properties[a].additionalProperties",
            ),
            (
                of(json!({"x-kubernetes-int-or-string": true, "anyOf": either})),
                "",
            ),
            (
                of(
                    json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"pattern": "a"}]}),
                ),
                "",
            ),
            (
                of(
                    json!({"x-kubernetes-int-or-string": true, "allOf": [{"pattern": "a"}, {"anyOf": either}]}),
                ),
                "Forbidden properties[a].allOf[1].anyOf[0].type, Forbidden properties[a].allOf[1].anyOf[1].type",
            ),
            (
                of(json!({"type": "string", "anyOf": [{"type": "string"}]})),
                "Forbidden properties[a].anyOf[0].type",
            ),
            (branch(json!({"nullable": false, "maxLength": 3})), ""),
            (branch(json!({"nullable": true})), &format!("{nested}nullable")),
            (
                branch(json!({"externalDocs": {"url": "x"}})),
                &format!("{nested}externalDocs"),
            ),
            (
                branch(json!({"x-kubernetes-validations": [{"rule": "true"}]})),
                &format!("{nested}x-kubernetes-validations"),
            ),
            (
                branch(json!({"x-kubernetes-preserve-unknown-fields": true})),
                &format!("{nested}x-kubernetes-preserve-unknown-fields"),
            ),
            (with("nullable", json!(true)), "Forbidden nullable"),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                "Forbidden additionalProperties",
            ),
            (
                with("properties", json!({"kind": {"type": "integer"}})),
                "Invalid properties[kind].type",
            ),
            (
                with(
                    "properties",
                    json!({"apiVersion": {"type": "string", "default": "x"}}),
                ),
                "Forbidden properties[apiVersion].default",
            ),
            (
                with("properties", json!({"metadata": {"type": "string"}})),
                "Invalid properties[metadata].type",
            ),
            (
                with(
                    "properties",
                    json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}),
                ),
                "Forbidden properties[metadata].properties[name].default",
            ),
            (
                of(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
                "Invalid properties[a].x-kubernetes-preserve-unknown-fields",
            ),
            (
                of(json!({"type": "object", "x-kubernetes-map-type": "granular"})),
                "",
            ),
            (
                of(json!({"type": "object", "x-kubernetes-map-type": "odd"})),
                "NotSupported properties[a].x-kubernetes-map-type",
            ),
            (
                of(json!({"type": "string", "x-kubernetes-map-type": "atomic"})),
                "Invalid properties[a].type",
            ),
            (
                of(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
                "Invalid properties[a].x-kubernetes-preserve-unknown-fields",
            ),
            (embedded(json!({})), ""),
            (
                embedded(json!({"x-kubernetes-preserve-unknown-fields": null})),
                "Required properties[a].properties",
            ),
            (
                embedded(json!({"properties": {"kind": {"type": "object"}}})),
                "Invalid properties[a].properties[kind].type",
            ),
            (
                keyed(
                    &json!(["k", "k"]),
                    &json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}),
                ),
                "Duplicate properties[a].x-kubernetes-list-map-keys[1]",
            ),
            (
                keyed(
                    &json!(["k"]),
                    &json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "object"}}}),
                ),
                "Invalid properties[a].items.properties[k].type",
            ),
            (
                keyed(
                    &json!(["k"]),
                    &json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "nullable": true}}}),
                ),
                "Forbidden properties[a].items.properties[k].nullable",
            ),
            (
                keyed(
                    &json!(["k"]),
                    &json!({"type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "string"}}}),
                ),
                "Forbidden properties[a].items.nullable",
            ),
            (
                of(
                    json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}}),
                ),
                "Forbidden properties[a].items.nullable",
            ),
            (
                rule(json!({"rule": "true", "message": "m", "fieldPath": "['b-c']"})),
                "",
            ),
            (rule(json!({"rule": "true\n || true", "message": "m"})), ""),
            (
                rule(json!({"rule": "true", "message": " "})),
                &format!("Invalid {at}message"),
            ),
            (
                rule(json!({"rule": "true", "message": "a\nb"})),
                &format!("Invalid {at}message"),
            ),
            (
                rule(json!({"rule": "true\n || true"})),
                &format!("Required {at}message"),
            ),
            (
                rule(json!({"rule": "true", "messageExpression": " "})),
                &format!("Required {at}messageExpression"),
            ),
            (
                rule(json!({"rule": "true", "fieldPath": " "})),
                &format!("Invalid {at}fieldPath"),
            ),
            (
                rule(json!({"rule": "true", "fieldPath": ".d"})),
                &format!("Invalid {at}fieldPath"),
            ),
            (
                rule(json!({"rule": "true", "optionalOldSelf": true})),
                &format!("Invalid {at}optionalOldSelf"),
            ),
            (
                rule(json!({"rule": "oldSelf.hasValue()", "optionalOldSelf": true})),
                "",
            ),
        ] {
            let causes = check_structural(&schema, "").into_iter();
            let causes = causes.map(|cause| {
                format!(
                    "{} {}",
                    cause.reason.trim_start_matches("FieldValue"),
                    cause.field
                )
            });
            assert_eq!(causes.collect::<Vec<_>>().join(", "), wants, "{schema}");
        }
        assert!(!check_structural(&with("allOf", json!([{"properties": {"metadata": {}}}])), "").is_empty());
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
