//! Kubernetes' rules for the schema of a CRD, as a pure function over its JSON.
//!
//! Source: the Kubernetes documentation ("Specifying a structural schema", "Merge strategy", "Defaulting", "Transition
//! rules") and what `apiextensions-apiserver` checks in `ValidateStructural` and in `ValidateCustomResourceDefinition`.

use crate::values;
use serde_json::{Map, Value};

/// Everything that may stand in a schema node.
const KEYWORDS: [&str; 34] = [
    "type",
    "format",
    "title",
    "description",
    "default",
    "nullable",
    "enum",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "externalDocs",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];
/// What a logical junctor may not say: it only restricts values that are described outside of it.
const NOT_IN_JUNCTORS: [&str; 14] = [
    "type",
    "default",
    "title",
    "description",
    "nullable",
    "externalDocs",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];
const STRING_FORMATS: [&str; 25] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "date-time",
];

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    root: bool,
    /// Whether the old value of this node can be found in an update: not so inside lists that are no maps.
    correlatable: bool,
}

/// All violations of a root schema, each with its path.
pub(crate) fn check(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let place = Place {
        root: true,
        correlatable: true,
    };
    node(schema, "", place, &mut found);
    found
}

fn node(schema: &Value, path: &str, place: Place, found: &mut Vec<String>) {
    let mut refuse = |reason: &str| found.push(format!("{path}: {reason}"));
    let Some(map) = schema.as_object() else {
        return refuse("a schema must be an object");
    };
    for key in map.keys() {
        if !KEYWORDS.contains(&key.as_str()) && key != "x-kubernetes-list-map-keys" {
            refuse(&format!("keyword {key} is not allowed"));
        }
    }
    let type_ = map.get("type").and_then(Value::as_str);
    let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
    let (preserve, int_or_string) = (
        flag("x-kubernetes-preserve-unknown-fields"),
        flag("x-kubernetes-int-or-string"),
    );
    match type_ {
        None if map.contains_key("type") => refuse("type must be one word"),
        None if !preserve && !int_or_string => refuse("type is missing"),
        Some("object" | "array" | "string" | "integer" | "number" | "boolean") | None => {}
        Some(other) => refuse(&format!("type {other} does not exist")),
    }
    if place.root && type_ != Some("object") {
        refuse("the root must be an object");
    }
    if int_or_string && (preserve || type_.is_some()) {
        refuse("int-or-string has neither type nor unknown fields");
    }
    if flag("x-kubernetes-embedded-resource")
        && (type_ != Some("object") || !(preserve || map.contains_key("properties")))
    {
        refuse("an embedded resource is an object with properties or unknown fields");
    }
    format(map, type_, &mut refuse);
    lists_and_maps(map, type_, &mut refuse);
    rules(map, place, &mut refuse);
    if let Some(pattern) = map.get("pattern") {
        // Kubernetes' patterns are those of Go, of which the syntax here has all that ours use.
        let compiles = pattern
            .as_str()
            .is_some_and(|pattern| regex::Regex::new(pattern).is_ok());
        if type_ != Some("string") || !compiles {
            refuse("a pattern is one that compiles, of a string");
        }
    }
    values::check(map, schema, &mut refuse);
    junctors(map, schema, int_or_string, path, found);
    children(map, path, place, found);
}

fn format(map: &Map<String, Value>, type_: Option<&str>, refuse: &mut impl FnMut(&str)) {
    let Some(format) = map.get("format") else { return };
    let format = format.as_str().unwrap_or_default();
    let known = match type_ {
        Some("integer") => ["int32", "int64"].contains(&format),
        Some("number") => ["float", "double"].contains(&format),
        Some("string") => STRING_FORMATS.contains(&format),
        _ => false,
    };
    if !known {
        refuse(&format!("format {format:?} is ignored for type {type_:?}"));
    }
}

fn lists_and_maps(map: &Map<String, Value>, type_: Option<&str>, refuse: &mut impl FnMut(&str)) {
    let has = |key: &str| map.contains_key(key);
    if type_ == Some("array") && !map.get("items").is_some_and(Value::is_object) {
        refuse("an array needs items, one schema for all");
    }
    if type_ != Some("array") && has("items") {
        refuse("items without type array");
    }
    if has("properties") && has("additionalProperties") {
        refuse("properties and additionalProperties exclude each other");
    }
    if map.get("additionalProperties").is_some_and(|a| !a.is_object()) {
        refuse("additionalProperties must be a schema");
    }
    if type_ != Some("object") && (has("properties") || has("additionalProperties") || has("required")) {
        refuse("fields without type object");
    }
    let list_type = map
        .get("x-kubernetes-list-type")
        .map(|t| t.as_str().unwrap_or_default());
    match list_type {
        Some(_) if type_ != Some("array") => refuse("list-type without type array"),
        Some("atomic" | "set" | "map") | None => {}
        Some(other) => refuse(&format!("list-type {other:?} does not exist")),
    }
    let keys = map.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    if (list_type == Some("map")) != keys.is_some_and(|keys| !keys.is_empty()) {
        refuse("list-map-keys belong to list-type map, and it needs them");
    }
    for key in keys.into_iter().flatten().filter_map(Value::as_str) {
        let items = map.get("items").unwrap_or(&Value::Null);
        let field = items.get("properties").and_then(|p| p.get(key));
        let scalar = field
            .and_then(|f| f.get("type"))
            .is_some_and(|t| t != "object" && t != "array");
        let required = items.get("required").and_then(Value::as_array);
        let required = required.is_some_and(|r| r.iter().any(|name| name == key));
        let defaulted = field.is_some_and(|f| f.get("default").is_some());
        if !scalar || !(required || defaulted) {
            refuse(&format!(
                "list-map-key {key} must be a scalar field that is required or has a default"
            ));
        }
    }
    if let Some(map_type) = map.get("x-kubernetes-map-type")
        && (type_ != Some("object") || !["atomic", "granular"].iter().any(|t| map_type == t))
    {
        refuse("map-type is atomic or granular, of an object");
    }
}

fn rules(map: &Map<String, Value>, place: Place, refuse: &mut impl FnMut(&str)) {
    let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
    for rule in rules.into_iter().flatten() {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("rule").trim().is_empty() || text("message").trim().is_empty() {
            refuse("a validation has a rule and a message");
        }
        if text("rule").contains("oldSelf") && !place.correlatable {
            refuse("a transition rule inside a list that is no map never finds the old value");
        }
    }
}

fn junctors(
    map: &Map<String, Value>,
    outside: &Value,
    int_or_string: bool,
    path: &str,
    found: &mut Vec<String>,
) {
    let either = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
    for key in ["allOf", "anyOf", "oneOf"] {
        let of_int_or_string = key == "anyOf" && int_or_string && map.get(key) == Some(&either);
        let branches = map
            .get(key)
            .and_then(Value::as_array)
            .filter(|_| !of_int_or_string);
        for (index, branch) in branches.into_iter().flatten().enumerate() {
            restriction(branch, outside, &format!("{path}.{key}[{index}]"), found);
        }
    }
    if let Some(not) = map.get("not") {
        restriction(not, outside, &format!("{path}.not"), found);
    }
}

/// A node inside a junctor: it describes nothing, and only restricts what is described outside.
fn restriction(schema: &Value, outside: &Value, path: &str, found: &mut Vec<String>) {
    for key in NOT_IN_JUNCTORS {
        if schema.get(key).is_some() {
            found.push(format!("{path}: {key} is not allowed inside a junctor"));
        }
    }
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = format!("{path}.{name}");
        match outside.get("properties").and_then(|p| p.get(name)) {
            Some(outside) => restriction(field, outside, &path, found),
            None => found.push(format!("{path}: is not described outside of the junctor")),
        }
    }
    if let Some(items) = schema.get("items") {
        restriction(
            items,
            outside.get("items").unwrap_or(&Value::Null),
            &format!("{path}[]"),
            found,
        );
    }
    if let Some(map) = schema.as_object() {
        junctors(map, outside, false, path, found);
    }
}

fn children(map: &Map<String, Value>, path: &str, place: Place, found: &mut Vec<String>) {
    let inside = |correlatable: bool| Place {
        root: false,
        correlatable: place.correlatable && correlatable,
    };
    for (name, field) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if place.root && name == "metadata" {
            // Its schema is Kubernetes' own.
            if field != &serde_json::json!({"type": "object"}) {
                found.push(format!(
                    "{path}.metadata: may only restrict name and generateName"
                ));
            }
            continue;
        }
        if place.root
            && ["kind", "apiVersion"].contains(&name.as_str())
            && field.get("type").is_none_or(|t| t != "string")
        {
            found.push(format!("{path}.{name}: must be a string"));
        }
        node(field, &format!("{path}.{name}"), inside(true), found);
    }
    if let Some(items) = map.get("items") {
        let is_map = map.get("x-kubernetes-list-type").is_some_and(|t| t == "map");
        node(items, &format!("{path}[]"), inside(is_map), found);
    }
    if let Some(values) = map.get("additionalProperties") {
        if place.root {
            found.push(format!("{path}: additionalProperties at the root"));
        }
        let atomic = map.get("x-kubernetes-map-type").is_some_and(|t| t == "atomic");
        node(values, &format!("{path}{{}}"), inside(!atomic), found);
    }
}
