//! Whether a live object is as a configuration was applied: the server is not asked.

use serde_json::{Map, Value};

/// The fields of an applied configuration that nobody owns.
const UNTRACKED: [&str; 2] = ["apiVersion", "kind"];
const UNTRACKED_METADATA: [&str; 3] = ["name", "namespace", "resourceVersion"];

/// Whether the manager owns by apply exactly the fields of `config`, and each has its value in the live object: then an
/// apply of `config` changes nothing.
pub(crate) fn holds(config: &Value, live: &Value, manager: &str) -> bool {
    let Some(fields) = applied_fields(live, manager) else {
        return false;
    };
    let mut config = config.clone();
    if let Some(object) = config.as_object_mut() {
        object.retain(|name, _| !UNTRACKED.contains(&name.as_str()));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, _| !UNTRACKED_METADATA.contains(&name.as_str()));
        }
    }
    is_owned(fields, &config, live)
}

/// `fieldsV1` of what the manager applied last.
fn applied_fields<'l>(live: &'l Value, manager: &str) -> Option<&'l Value> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let ours = entries.iter().find(|entry| {
        text(entry, "manager").as_deref() == Some(manager)
            && text(entry, "operation").as_deref() == Some("Apply")
            && text(entry, "subresource").is_none_or(|subresource| subresource.is_empty())
    });
    ours?.get("fieldsV1")
}

fn is_owned(fields: &Value, config: &Value, live: &Value) -> bool {
    let below: Vec<(&String, &Value)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(step, _)| *step != ".")
        .collect();
    match (config, live) {
        // Owned as one thing, or without anything in it.
        (Value::Object(wanted), Value::Object(_)) if below.is_empty() => wanted.is_empty() || config == live,
        (Value::Array(_), Value::Array(_)) if below.is_empty() => config == live,
        (Value::Object(wanted), Value::Object(present)) => owns_fields(&below, wanted, present),
        (Value::Array(wanted), Value::Array(present)) => owns_elements(&below, wanted, present),
        _ => config == live,
    }
}

fn owns_fields(
    below: &[(&String, &Value)],
    wanted: &Map<String, Value>,
    present: &Map<String, Value>,
) -> bool {
    let field = |step: &str| {
        step.strip_prefix("f:")
            .is_some_and(|name| wanted.contains_key(name))
    };
    if !below.iter().all(|(step, _)| field(step)) {
        return false;
    }
    wanted
        .iter()
        .filter(|(_, value)| !value.is_null())
        .all(|(name, value)| {
            let owned = below
                .iter()
                .find(|(step, _)| step.strip_prefix("f:") == Some(name))
                .map(|(_, fields)| *fields);
            match (owned, present.get(name)) {
                (Some(fields), Some(present)) => is_owned(fields, value, present),
                _ => false,
            }
        })
}

fn owns_elements(below: &[(&String, &Value)], wanted: &[Value], present: &[Value]) -> bool {
    let mut left: Vec<&Value> = wanted.iter().collect();
    let mut there: Vec<&Value> = present.iter().collect();
    let place = |elements: &[&Value], step: &str| {
        // A key field with a default (`protocol`) may be left out.
        let found = |lenient| {
            elements
                .iter()
                .position(|element| leads_to(step, element, lenient))
        };
        found(false).or_else(|| found(true))
    };
    let all = below.iter().all(|(step, fields)| {
        let (ours, theirs) = (place(&left, step), place(&there, step));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => is_owned(fields, left.swap_remove(ours), there.swap_remove(theirs)),
            _ => false,
        }
    });
    all && left.is_empty()
}

/// Whether a step of `fieldsV1` (`k:{"name":"main"}`, `v:"finalizer"`) leads to an element; `lenient` lets key fields be
/// absent.
fn leads_to(step: &str, element: &Value, lenient: bool) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    if let Some(keys) = step.strip_prefix("k:") {
        let keys = parse(keys);
        return keys.as_object().is_some_and(|keys| {
            keys.iter().all(|(name, key)| match element.get(name) {
                Some(value) => value == key,
                None => lenient,
            })
        });
    }
    step.strip_prefix("v:")
        .is_some_and(|value| parse(value) == *element)
}
