//! Checking values against schemas, with the causes Kubernetes gives.

use serde_json::{Map, Value};

use super::{
    Definitions, Schema, Type, format,
    model::{Checks, ListType, same_item},
    path::Path,
};
use crate::{error::Cause, names};

/// More causes than this help nobody.
const MAX_CAUSES: usize = 64;

/// Everything that is wrong with `value`, at most [`MAX_CAUSES`] entries. What was so in `old` already is let pass
/// (Kubernetes: ratcheting of custom resources): a definition may have become stricter since.
pub(crate) fn validate(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    definitions: &Definitions,
    path: &str,
) -> Vec<Cause> {
    let found = wrong(value, schema, definitions, Path::Root(path));
    if found.is_empty() || old.is_none() {
        return found;
    }
    let mut out = vec![];
    walk(value, old, schema, definitions, Path::Root(path), &mut out);
    out.truncate(MAX_CAUSES);
    out
}

fn wrong(value: &Value, schema: &Schema, definitions: &Definitions, path: Path<'_>) -> Vec<Cause> {
    let mut out = vec![];
    walk(value, None, schema, definitions, path, &mut out);
    out.truncate(MAX_CAUSES);
    out
}

fn walk(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    definitions: &Definitions,
    path: Path<'_>,
    out: &mut Vec<Cause>,
) {
    if out.len() >= MAX_CAUSES || old == Some(value) {
        return;
    }
    let nullable = schema.nullable;
    let schema = schema.resolve(definitions);
    if value.is_null() && (nullable || schema.nullable) {
        return;
    }
    if !has_type(value, schema) {
        let want = if schema.int_or_string {
            "integer or string"
        } else {
            schema.ty.name()
        };
        out.push(Cause::type_invalid(
            path,
            format!(
                "Invalid value: {:?}: {path} in body must be of type {want}: {:?}",
                type_name(value),
                type_name(value)
            ),
        ));
    }
    if let Some(checks) = &schema.checks {
        check(value, checks, definitions, path, out);
    }
    match value {
        Value::Object(map) => {
            if schema.embedded {
                type_of_embedded(map, path, out);
            }
            for key in &schema.required {
                if !map.contains_key(&**key) {
                    out.push(Cause::required(Path::Field(&path, key), "Required value"));
                }
            }
            for (key, v) in map {
                let property = schema.properties.get(key.as_str());
                // Kubernetes writes the keys of maps as fields here, and in brackets where a rule does not hold.
                if let Some(schema) = property.or(schema.additional.as_deref()) {
                    let old = old.and_then(|old| old.get(key));
                    walk(v, old, schema, definitions, Path::Field(&path, key), out);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                let old = old.and_then(Value::as_array);
                let keys = match &schema.list {
                    ListType::Map(keys) => &keys[..],
                    ListType::Atomic | ListType::Set => &[],
                };
                for (i, v) in list.iter().enumerate() {
                    let old = old.and_then(|old| same_item(v, old, keys));
                    walk(v, old, items, definitions, Path::Index(&path, i), out);
                }
            }
            unique(list, &schema.list, path, out);
        }
        _ => {}
    }
}

/// What an embedded resource says it is (`validateEmbeddedResource` of Kubernetes).
fn type_of_embedded(map: &Map<String, Value>, path: Path<'_>, out: &mut Vec<Cause>) {
    let is_right = |key: &str, text: &str| match key {
        "apiVersion" => text.matches('/').count() <= 1,
        _ => names::dns_1035_label(&text.to_lowercase()).is_empty(),
    };
    for (key, why) in [
        ("apiVersion", "must be a group and a version"),
        (
            "kind",
            "may have mixed case, but should otherwise match a DNS label",
        ),
    ] {
        let path = Path::Field(&path, key);
        match map.get(key) {
            None => out.push(Cause::required(path, "Required value: must not be empty")),
            Some(Value::String(text)) if text.is_empty() => {
                out.push(Cause::invalid(path, "Invalid value: \"\": must not be empty"));
            }
            Some(Value::String(text)) if is_right(key, text) => {}
            Some(Value::String(_)) => out.push(Cause::invalid_value(path, map.get(key), why)),
            Some(other) => out.push(Cause::invalid_value(path, Some(other), "must be a string")),
        }
    }
}

fn has_type(value: &Value, schema: &Schema) -> bool {
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match schema.ty {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => is_integer(value),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
    }
}

/// Whole floats count as integers, as in Go's JSON schema library.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn unique(list: &[Value], rule: &ListType, path: Path<'_>, out: &mut Vec<Cause>) {
    let key_of = |v: &Value| -> Option<Value> {
        match rule {
            ListType::Atomic => None,
            ListType::Set => Some(v.clone()),
            ListType::Map(keys) => Some(
                keys.iter()
                    .map(|k| v.get(k).cloned().unwrap_or_default())
                    .collect(),
            ),
        }
    };
    let mut seen = std::collections::HashSet::new();
    for (i, v) in list.iter().enumerate() {
        if let Some(key) = key_of(v)
            && !seen.insert(key.to_string())
        {
            out.push(Cause::duplicate(
                Path::Index(&path, i),
                format!("Duplicate value: {key}"),
            ));
        }
    }
}

fn check(value: &Value, checks: &Checks, definitions: &Definitions, path: Path<'_>, out: &mut Vec<Cause>) {
    if !checks.enumeration.is_empty() && !checks.enumeration.contains(value) {
        let known: Vec<String> = checks.enumeration.iter().map(Value::to_string).collect();
        out.push(Cause::not_supported(
            path,
            format!(
                "Unsupported value: {value}: supported values: {}",
                known.join(", ")
            ),
        ));
    }
    let mut invalid = |why: String| {
        out.push(Cause::invalid(
            path,
            format!("Invalid value: {value}: {path} in body {why}"),
        ))
    };
    if let Some(n) = value.as_f64() {
        numbers(n, checks, &mut invalid);
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if checks.min_length.is_some_and(|min| length < min) {
            invalid(format!(
                "should be at least {} chars long",
                checks.min_length.unwrap_or(0)
            ));
        }
        if let Some(pattern) = checks.pattern.as_ref().filter(|p| !p.is_match(text)) {
            invalid(format!("should match '{pattern}'"));
        }
        if let Some(format) = checks.format.as_ref().filter(|f| !format::matches(f, text)) {
            invalid(format!("must be of type {format}: {text:?}"));
        }
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            out.push(Cause::too_long(
                path,
                format!("Too long: may not be more than {max} bytes"),
            ));
        }
    }
    let items = value
        .as_array()
        .map(|l| (l.len(), checks.min_items, checks.max_items, "items"));
    let entries = value.as_object().map(|m| {
        (
            m.len(),
            checks.min_properties,
            checks.max_properties,
            "properties",
        )
    });
    if let Some((count, min, max, what)) = items.or(entries) {
        if let Some(min) = min.filter(|min| (count as u64) < *min) {
            out.push(Cause::invalid(
                path,
                format!("Invalid value: {count}: {path} in body should have at least {min} {what}"),
            ));
        }
        if let Some(max) = max.filter(|max| count as u64 > *max) {
            out.push(Cause::too_many(
                path,
                format!("Too many: {count}: must have at most {max} {what}"),
            ));
        }
    }
    if checks.unique_items
        && let Some(list) = value.as_array()
    {
        unique(list, &ListType::Set, path, out);
    }
    combine(value, checks, definitions, path, out);
}

fn numbers(n: f64, checks: &Checks, invalid: &mut impl FnMut(String)) {
    if let Some(min) = checks.minimum
        && (n < min || (checks.exclusive_minimum && n <= min))
    {
        invalid(format!(
            "should be greater than{} {min}",
            if checks.exclusive_minimum {
                ""
            } else {
                " or equal to"
            }
        ));
    }
    if let Some(max) = checks.maximum
        && (n > max || (checks.exclusive_maximum && n >= max))
    {
        invalid(format!(
            "should be less than{} {max}",
            if checks.exclusive_maximum {
                ""
            } else {
                " or equal to"
            }
        ));
    }
    if let Some(step) = checks.multiple_of.filter(|step| *step != 0.0)
        && (n / step).fract() != 0.0
    {
        invalid(format!("should be a multiple of {step}"));
    }
}

fn combine(value: &Value, checks: &Checks, definitions: &Definitions, path: Path<'_>, out: &mut Vec<Cause>) {
    let wrong = |s: &Schema| wrong(value, s, definitions, path);
    // Kubernetes says of no field that a combination does not hold, only of those that are wrong by the branch that fits best.
    let fail = |out: &mut Vec<Cause>, why: &str| {
        out.push(Cause::invalid("", format!("Invalid value: {path} in body {why}")))
    };
    let all: Vec<Vec<Cause>> = checks.all_of.iter().map(wrong).collect();
    if all.iter().any(|causes| !causes.is_empty()) {
        out.extend(all.into_iter().flatten());
        fail(out, "must validate all the schemas (allOf)");
    }
    let any: Vec<Vec<Cause>> = checks.any_of.iter().map(wrong).collect();
    if !any.is_empty() && any.iter().all(|causes| !causes.is_empty()) {
        fail(out, "must validate at least one schema (anyOf)");
        out.extend(best(any));
    }
    let mut one: Vec<Vec<Cause>> = checks.one_of.iter().map(wrong).collect();
    if !one.is_empty() && one.iter().filter(|causes| causes.is_empty()).count() != 1 {
        fail(out, "must validate one and only one schema (oneOf)");
        let first = one.iter().position(Vec::is_empty).unwrap_or(one.len());
        one.truncate(first);
        out.extend(best(one));
    }
    if checks.not.as_ref().is_some_and(|schema| wrong(schema).is_empty()) {
        fail(out, "must not validate the schema (not)");
    }
}

/// What is wrong by the branch of which least is wrong, the first of several.
fn best(branches: Vec<Vec<Cause>>) -> Vec<Cause> {
    branches.into_iter().min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn causes(schema: &Value, value: &Value) -> Vec<(&'static str, String)> {
        let found = validate(value, None, &Schema::compile(schema), &Definitions::new(), "");
        found.into_iter().map(|c| (c.reason, c.field)).collect()
    }

    #[test]
    fn one_cause_per_violation() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "name": {"type": "string", "pattern": "^a+$", "maxLength": 3},
            "at": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 2, "items": {"type": "string"}},
            "pairs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "either": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let table = [
            (json!({"size": 1}), vec![]),
            (
                json!({"size": 2.0, "port": "x", "maybe": null, "at": "2026-01-01T00:00:00Z"}),
                vec![],
            ),
            (json!({}), vec![("FieldValueRequired", "size")]),
            (json!({"size": 0}), vec![("FieldValueInvalid", "size")]),
            (json!({"size": 10}), vec![("FieldValueInvalid", "size")]),
            (json!({"size": "big"}), vec![("FieldValueTypeInvalid", "size")]),
            (
                json!({"size": 1, "mode": "z"}),
                vec![("FieldValueNotSupported", "mode")],
            ),
            (
                json!({"size": 1, "name": "b"}),
                vec![("FieldValueInvalid", "name")],
            ),
            (
                json!({"size": 1, "name": "aaaa"}),
                vec![("FieldValueTooLong", "name")],
            ),
            (
                json!({"size": 1, "at": "soon"}),
                vec![("FieldValueInvalid", "at")],
            ),
            (
                json!({"size": 1, "port": true}),
                vec![("FieldValueTypeInvalid", "port")],
            ),
            (
                json!({"size": 1, "tags": ["a", "a"]}),
                vec![("FieldValueDuplicate", "tags[1]")],
            ),
            (
                json!({"size": 1, "tags": ["a", "b", "c"]}),
                vec![("FieldValueTooMany", "tags")],
            ),
            (
                json!({"size": 1, "pairs": [{"k": "a"}, {"k": "a"}]}),
                vec![("FieldValueDuplicate", "pairs[1]")],
            ),
            (
                json!({"size": 1, "either": {}}),
                vec![("FieldValueInvalid", ""), ("FieldValueRequired", "either.a")],
            ),
            (json!({"size": 1, "either": {"a": 1}}), vec![]),
        ];
        for (value, want) in table {
            let want: Vec<_> = want.into_iter().map(|(r, f)| (r, f.to_owned())).collect();
            assert_eq!(causes(&schema, &value), want, "{value}");
        }
    }

    #[test]
    fn combinations_name_the_fields_of_the_branch_that_fits_best() {
        let needs = |keys: &[&str]| json!({"required": keys});
        let of = |how: &str, branches: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, how: branches});
        let (none, a, b) = (
            ("FieldValueInvalid", ""),
            ("FieldValueRequired", "a"),
            ("FieldValueRequired", "b"),
        );
        for (schema, value, expected) in [
            (
                of("oneOf", json!([needs(&["a"]), needs(&["b"])])),
                json!({}),
                vec![none, a],
            ),
            (
                of("oneOf", json!([needs(&["a"]), needs(&["b"])])),
                json!({"a": 1, "b": 1}),
                vec![none],
            ),
            (
                of("oneOf", json!([needs(&["a"]), needs(&["b"])])),
                json!({"b": 1}),
                vec![],
            ),
            (
                of("anyOf", json!([needs(&["a", "c"]), needs(&["b"])])),
                json!({}),
                vec![none, b],
            ),
            (
                of("allOf", json!([needs(&["a"]), needs(&["b"])])),
                json!({}),
                vec![a, b, none],
            ),
            (
                of("allOf", json!([needs(&["a"]), needs(&["b"])])),
                json!({"b": 1}),
                vec![a, none],
            ),
            (of("not", needs(&["a"])), json!({"a": 1}), vec![none]),
            (of("not", needs(&["a"])), json!({}), vec![]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(reason, field)| (reason, field.to_owned()))
                .collect();
            assert_eq!(causes(&schema, &value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn what_was_so_before_is_let_pass_until_it_changes() {
        let small = json!({"type": "integer", "maximum": 3});
        let schema = json!({"type": "object", "required": ["must"], "properties": {
            "size": small, "sizes": {"type": "object", "additionalProperties": small},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": small}}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "properties": {"k": {"type": "string"}, "n": small, "m": {"type": "integer"}}}}}});
        let old = json!({"size": 9, "sizes": {"a": 9}, "list": [{"n": 9}], "keyed": [{"k": "a", "n": 9}]});
        let compiled = Schema::compile(&schema);
        let with = |key: &str, value: Value| {
            let mut new = old.clone();
            new[key] = value;
            let found = validate(&new, Some(&old), &compiled, &Definitions::new(), "");
            found.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(with("size", json!(9)), [""; 0]);
        assert_eq!(
            with("size", json!(8)),
            ["must", "size"],
            "the object changed, and lacks what it must have"
        );
        assert_eq!(with("sizes", json!({"a": 9, "b": 7})), ["must", "sizes.b"]);
        assert_eq!(
            with("list", json!([{"n": 9}, {"n": 1}])),
            ["must", "list[0].n"],
            "no item is another's successor"
        );
        assert_eq!(
            with("keyed", json!([{"k": "b"}, {"k": "a", "n": 9, "m": 1}])),
            ["must"]
        );
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z$/-]{0,12}|type|object|integer|pattern|[\\[(*]".prop_map(Value::from),
        ];
        let key = "type|properties|items|required|enum|minimum|pattern|default|additionalProperties|allOf|not|[a-c]";
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_schema_and_value_are_answered(schema in json_value(), mut value in json_value()) {
            let compiled = Schema::compile(&schema);
            let none = Definitions::new();
            let _ = validate(&value, Some(&value.clone()), &compiled, &none, "");
            let _ = validate(&value, None, &compiled, &none, "");
            super::super::prune(&mut value, &compiled, &none, "");
            super::super::apply_defaults(&mut value, &compiled, &none);
            prop_assert!(super::super::prune(&mut value.clone(), &Schema::any(), &none, "").len() < 100);
        }

        #[test]
        fn pruning_is_idempotent(schema in json_value(), mut value in json_value()) {
            let compiled = Schema::compile(&schema);
            let none = Definitions::new();
            super::super::prune(&mut value, &compiled, &none, "");
            let once = value.clone();
            prop_assert!(super::super::prune(&mut value, &compiled, &none, "").is_empty());
            prop_assert_eq!(once, value);
        }
    }
}
