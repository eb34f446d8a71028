//! Whether a configuration has the types of its kind, in the words of server-side apply
//! (`sigs.k8s.io/structured-merge-diff`, `typed/validate.go`): `.data.a: expected string, got …`.

use roundhouse_patch::managed::{Relation, Topology};
use serde_json::Value;

use super::{Definitions, Schema, Type};

/// The first value that is not of the type of its field; nulls and what any type may be are none.
pub(crate) fn misfit<T: Topology>(
    value: &Value,
    schema: &Schema,
    definitions: &Definitions,
    topology: T,
) -> Option<String> {
    walk(value, schema, definitions, topology, "")
}

fn walk<T: Topology>(
    value: &Value,
    schema: &Schema,
    definitions: &Definitions,
    topology: T,
    path: &str,
) -> Option<String> {
    let schema = schema.resolve(definitions);
    if let Some(wrong) = wrong(value, schema) {
        return Some(format!("{path}: {wrong}"));
    }
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let property = schema.property(name)?;
            let path = format!("{path}.{name}");
            walk(value, property, definitions, topology.child(name).node, &path)
        }),
        Value::Array(elements) => {
            let items = schema.items.as_deref()?;
            let relation = topology.relation(value);
            elements.iter().enumerate().find_map(|(index, element)| {
                let path = format!("{path}{}", place(topology, relation, element, index));
                walk(element, items, definitions, topology.element(), &path)
            })
        }
        _ => None,
    }
}

/// The element of a list: `[name="main"]`, `[="finalizer"]` or `[2]`.
fn place<T: Topology>(list: T, relation: Relation, element: &Value, index: usize) -> String {
    let mut keys = Vec::new();
    match relation {
        Relation::Keyed => list.key_fields(&mut |name, default| {
            let key = element.get(name).filter(|key| !key.is_null()).or(default);
            keys.extend(key.map(|key| format!("{name}={key}")));
        }),
        Relation::Set if !element.is_object() && !element.is_array() => keys.push(format!("={element}")),
        _ => {}
    }
    if keys.is_empty() {
        keys.push(index.to_string());
    }
    format!("[{}]", keys.join(","))
}

fn wrong(value: &Value, schema: &Schema) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let boxed = || format!("&{{{}}}", go(value));
    if schema.int_or_string || is_untyped(schema) {
        let scalar = !value.is_object() && !value.is_array();
        return (!scalar).then(|| format!("expected any scalar, got {}", boxed()));
    }
    match schema.ty {
        Type::String if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(value)
        )),
        Type::Integer | Type::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Type::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", boxed())),
        Type::Array if !value.is_array() => Some(format!("expected list, got {}", boxed())),
        Type::Object if !value.is_object() => Some(format!("expected map, got {}", boxed())),
        _ => None,
    }
}

/// Times are untyped scalars to server-side apply.
fn is_untyped(schema: &Schema) -> bool {
    let format = schema.checks.as_ref().and_then(|checks| checks.format.as_deref());
    schema.ty == Type::String && format == Some("date-time")
}

/// As Go prints a value with `%v`.
fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// As Go prints a value with `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("{}{{{}}}", go_type(value), items.join(", "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = (fields.into_iter())
                .map(|(name, value)| format!("{name:?}:{}", go_syntax(value)))
                .collect();
            format!("{}{{{}}}", go_type(value), fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use roundhouse_patch::managed::built_in;
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    fn check(api_version: &str, kind: &str, value: &Value) -> Option<String> {
        let known = builtin(api_version, kind).unwrap();
        misfit(
            value,
            &known.schema,
            &known.definitions,
            built_in(api_version, kind).unwrap(),
        )
    }

    #[test]
    fn the_words_of_kubernetes() {
        let container = |field: &str, value: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", field: value}]}}}});
        for (kind, value, expected) in [
            (
                "ConfigMap",
                json!({"data": {"a": 1}}),
                ".data.a: expected string, got &value.valueUnstructured{Value:1}",
            ),
            (
                "ConfigMap",
                json!({"data": {"a": true}}),
                ".data.a: expected string, got &value.valueUnstructured{Value:true}",
            ),
            (
                "ConfigMap",
                json!({"data": {"a": {"b": ["c", null]}}}),
                ".data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}\
                 {\"b\":[]interface {}{\"c\", interface {}(nil)}}}",
            ),
            (
                "ConfigMap",
                json!({"data": "text"}),
                ".data: expected map, got &{text}",
            ),
            (
                "ConfigMap",
                json!({"immutable": "yes"}),
                ".immutable: expected boolean, got &{yes}",
            ),
            (
                "Deployment",
                json!({"spec": {"replicas": "2"}}),
                ".spec.replicas: expected numeric (int or float), got string",
            ),
            (
                "Deployment",
                json!({"spec": {"template": {"spec": {"containers": {"name": "main", "image": "i"}}}}}),
                ".spec.template.spec.containers: expected list, got &{map[image:i name:main]}",
            ),
            (
                "Deployment",
                container("image", json!(1)),
                ".spec.template.spec.containers[name=\"main\"].image: expected string, got \
                 &value.valueUnstructured{Value:1}",
            ),
            (
                "Deployment",
                container("args", json!(["a", 2])),
                ".spec.template.spec.containers[name=\"main\"].args[1]: expected string, got \
                 &value.valueUnstructured{Value:2}",
            ),
            (
                "Deployment",
                container("resources", json!({"limits": {"cpu": ["1"]}})),
                ".spec.template.spec.containers[name=\"main\"].resources.limits.cpu: expected any scalar, got &{[1]}",
            ),
        ] {
            let api_version = if kind == "ConfigMap" { "v1" } else { "apps/v1" };
            assert_eq!(
                check(api_version, kind, &value).as_deref(),
                Some(expected),
                "{value}"
            );
        }
    }

    #[test]
    fn what_fits() {
        for (api_version, kind, value) in [
            (
                "v1",
                "ConfigMap",
                json!({"data": {"a": null, "b": "1"}, "bogus": 1}),
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"metadata": {"creationTimestamp": null}, "spec": {"replicas": 2,
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}}}),
            ),
        ] {
            assert_eq!(check(api_version, kind, &value), None, "{value}");
        }
    }
}
