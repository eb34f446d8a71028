//! What counts in an answer.

use serde_json::{Map, Value, json};

const DROPPED: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "continue",
    "remainingItemCount",
];

/// The comparable part of the answer to a step.
pub fn observe(step: &Value, status: u16, body: &Value) -> Value {
    if step["compare"] == "status" {
        return json!({"status": status});
    }
    let fields = step["fields"].as_array();
    let picked = |v: &Value| -> Value {
        let paths = fields.into_iter().flatten().filter_map(Value::as_str);
        paths
            .map(|p| (p.to_owned(), pick(v, p)))
            .collect::<Map<_, _>>()
            .into()
    };
    if step.get("watch").is_some() {
        let Some(events) = body.as_array() else {
            return json!({"status": status, "body": object(body)});
        };
        let shown = |e: &Value| {
            let normal = object(&e["object"]);
            json!({"type": e["type"], "object": if fields.is_some() { picked(&normal) } else { normal }})
        };
        let events: Vec<Value> = events
            .iter()
            .filter(|e| e["type"] != "BOOKMARK")
            .map(shown)
            .collect();
        return json!({"status": status, "events": events});
    }
    let body = if fields.is_some() {
        picked(body)
    } else {
        object(body)
    };
    json!({"status": status, "body": body})
}

/// An object without what differs from run to run.
pub fn object(value: &Value) -> Value {
    let mut value = value.clone();
    let is_resource_list = value["kind"] == "APIResourceList";
    let Some(map) = value.as_object_mut() else {
        return value;
    };
    if map.get("kind") == Some(&json!("Status")) {
        return status(map);
    }
    if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.retain(|key, _| !DROPPED.contains(&key.as_str()));
        if let Some(prefix) = meta
            .get("generateName")
            .and_then(Value::as_str)
            .map(str::to_owned)
        {
            let generated = meta
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|n| n.starts_with(&prefix));
            if generated {
                meta.insert("name".into(), format!("{prefix}*").into());
            }
        }
        if meta.is_empty() {
            map.remove("metadata");
        }
    }
    for resource in map
        .get_mut("resources")
        .filter(|_| is_resource_list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(resource) = resource.as_object_mut() {
            resource.remove("storageVersionHash");
            if let Some(verbs) = resource.get_mut("verbs").and_then(Value::as_array_mut) {
                verbs.sort_by_key(ToString::to_string);
            }
        }
    }
    if let Some(items) = map.get_mut("items").and_then(Value::as_array_mut) {
        *items = items.iter().map(object).collect();
    }
    let conditions = map
        .get_mut("status")
        .and_then(|s| s.get_mut("conditions"))
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.retain(|key, _| key != "lastTransitionTime" && key != "message");
    }
    value
}

/// A `Status` by code, reason and details.
fn status(map: &Map<String, Value>) -> Value {
    let mut out = Map::new();
    for key in ["kind", "status", "code", "reason"] {
        if let Some(v) = map.get(key).filter(|v| !v.is_null()) {
            out.insert(key.into(), v.clone());
        }
    }
    let details = map.get("details").and_then(Value::as_object);
    let mut kept = Map::new();
    for key in ["name", "kind", "group"] {
        if let Some(v) = details.and_then(|d| d.get(key)).filter(|v| *v != "") {
            kept.insert(key.into(), v.clone());
        }
    }
    let causes = details.and_then(|d| d.get("causes")).and_then(Value::as_array);
    let causes: std::collections::BTreeSet<(&str, &str)> = causes
        .into_iter()
        .flatten()
        .map(|c| {
            (
                c["reason"].as_str().unwrap_or_default(),
                c["field"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    if !causes.is_empty() {
        kept.insert(
            "causes".into(),
            causes.into_iter().map(|(r, f)| json!([r, f])).collect(),
        );
    }
    if !kept.is_empty() && map.get("status") != Some(&json!("Success")) {
        out.insert("details".into(), kept.into());
    }
    out.into()
}

/// The value at a path such as `items/0/metadata/name`; `"<absent>"` if there is none.
pub fn pick(value: &Value, path: &str) -> Value {
    let found = path.split('/').try_fold(value, |v, part| match v {
        Value::Array(list) => part.parse::<usize>().ok().and_then(|i| list.get(i)),
        other => other.get(part),
    });
    found.cloned().unwrap_or_else(|| json!("<absent>"))
}

/// With `items` in an order of their own, so that lists compare as sets.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entry = |(key, v): (&String, &Value)| {
                let mut v = sorted(v);
                if let (true, Value::Array(items)) = (key == "items", &mut v) {
                    items.sort_by_key(ToString::to_string);
                }
                (key.clone(), v)
            };
            map.iter().map(entry).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
