//! What a revision changed against the one before it, in short. Pure.
//!
//! Values are shown only where they say something and hide nothing: images, counts and types. Everything else (environment,
//! contents of Secrets) is named by its path alone.

use serde_json::Value;
use std::collections::BTreeSet;

/// Keys whose values are shown.
const SHOWN: [&str; 6] = ["image", "replicas", "type", "schedule", "weight", "maxParallel"];
/// Characters of a value that are shown.
const VALUE: usize = 48;

/// What is different, a part each: `component web: image nginx:1.28 → nginx:1.29`. Sorted by where it stands in the spec.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    named(
        "component",
        before.get("components"),
        after.get("components"),
        &mut changes,
    );
    named(
        "policy",
        before.get("policies"),
        after.get("policies"),
        &mut changes,
    );
    let steps = |spec: &Value| spec.pointer("/workflow/steps").cloned();
    named(
        "step",
        steps(before).as_ref(),
        steps(after).as_ref(),
        &mut changes,
    );
    if changes.is_empty() && before != after {
        let mut paths = Vec::new();
        differences(before, after, "", &mut paths);
        changes.extend(paths);
    }
    changes
}

/// Entries of a list by their names: added, removed, changed; the order alone is a change too.
fn named(kind: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<String>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (list(before), list(after));
    let names = |list: &[Value]| -> Vec<String> {
        let name = |(at, entry): (usize, &Value)| match entry.get("name").and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            // As the hub names it.
            None if kind == "step" => format!("step-{at}"),
            None => format!("#{at}"),
        };
        list.iter().enumerate().map(name).collect()
    };
    let (old, new) = (names(&before), names(&after));
    for (name, entry) in new.iter().zip(&after) {
        match old
            .iter()
            .position(|other| other == name)
            .and_then(|at| before.get(at))
        {
            None => changes.push(format!("{kind} {name} added")),
            Some(earlier) if earlier == entry => {}
            Some(earlier) => {
                let mut paths = Vec::new();
                differences(earlier, entry, "", &mut paths);
                let more = paths.len().saturating_sub(2);
                let shown = paths.iter().take(2).cloned().collect::<Vec<_>>().join(", ");
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                changes.push(format!("{kind} {name}: {shown}{more}"));
            }
        }
    }
    for name in old.iter().filter(|name| !new.contains(name)) {
        changes.push(format!("{kind} {name} removed"));
    }
    let same_set = old.iter().collect::<BTreeSet<_>>() == new.iter().collect::<BTreeSet<_>>();
    if same_set && old != new {
        changes.push(format!("the order of {}", plural(kind)));
    }
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "component" => "components",
        "policy" => "policies",
        _ => "steps",
    }
}

/// Leaves that differ, by the last parts of their path.
fn differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let (old, new) = (
                    old.get(key).unwrap_or(&Value::Null),
                    new.get(key).unwrap_or(&Value::Null),
                );
                if old != new {
                    differences(old, new, &joined(path, key), found);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                if old != new {
                    let name = new.get("name").and_then(Value::as_str);
                    let key = name.map_or_else(|| at.to_string(), str::to_owned);
                    differences(old, new, &format!("{path}[{key}]"), found);
                }
            }
        }
        _ => found.push(leaf(path, before, after)),
    }
}

fn joined(path: &str, key: &str) -> String {
    match path {
        // Where most of it is; saying so each time says nothing.
        "" if key == "properties" => String::new(),
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn leaf(path: &str, before: &Value, after: &Value) -> String {
    let key = path.rsplit(['.', '[']).next().unwrap_or_default();
    let text = |value: &Value| match value {
        Value::Null => Some("absent".to_owned()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    };
    let path = if path.is_empty() { "properties" } else { path };
    match (text(before), text(after)) {
        (Some(before), Some(after)) if SHOWN.contains(&key) => {
            format!("{path} {} → {}", cut(&before), cut(&after))
        }
        _ if before.is_null() => format!("{path} added"),
        _ if after.is_null() => format!("{path} removed"),
        _ => format!("{path} changed"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_named_by_component_policy_and_step() {
        let web = |image: &str, password: &str| {
            json!({"name": "web", "type": "webservice", "properties": {
            "image": image, "env": [{"name": "PASSWORD", "value": password}]}})
        };
        let before = json!({"components": [web("nginx:1.28", "a"), {"name": "old", "type": "worker"}],
            "policies": [{"name": "p", "type": "placement", "properties": {"placement": [{"replicas": "70%"}]}}],
            "workflow": {"steps": [{"name": "east", "type": "deploy"}, {"name": "west", "type": "deploy"}]}});
        let after = json!({"components": [web("nginx:1.29", "b"), {"name": "new", "type": "worker"}],
            "policies": [{"name": "p", "type": "placement", "properties": {"placement": [{"replicas": "60%"}, {"replicas": "10%"}]}}],
            "workflow": {"steps": [{"name": "west", "type": "deploy"}, {"name": "east", "type": "deploy"}]}});
        assert_eq!(
            changes(&before, &after),
            [
                "component web: env[PASSWORD].value changed, image nginx:1.28 → nginx:1.29",
                "component new added",
                "component old removed",
                "policy p: placement changed",
                "the order of steps",
            ]
        );
        assert!(changes(&before, &before).is_empty());
    }

    #[test]
    fn a_step_without_a_name_is_called_as_the_hub_calls_it() {
        let with = |wait: &str| json!({"workflow": {"steps": [{"type": "suspend"}, {"type": "deploy", "properties": {"wait": wait}}]}});
        assert_eq!(
            changes(&with("ready"), &with("none")),
            ["step step-1: wait changed"]
        );
    }

    #[test]
    fn a_secret_is_not_told() {
        let with = |value: &str| {
            json!({"components": [{"name": "db", "type": "k8s-objects", "properties": {"objects": [
            {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}}]}}]})
        };
        let told = changes(&with("hunter2"), &with("hunter3")).join("\n");
        assert_eq!(told, "component db: objects[0].stringData.password changed");
    }

    #[test]
    fn many_changes_are_counted_and_what_is_elsewhere_is_found() {
        let with = |value: u32| {
            json!({"components": [{"name": "db", "type": "worker", "properties": {
            "a": value, "b": value, "c": value, "replicas": value}}]})
        };
        assert_eq!(
            changes(&with(1), &with(2)),
            ["component db: a changed, b changed and 2 more"]
        );
        let mode = |mode: &str| json!({"components": [], "workflow": {"mode": {"steps": mode}, "steps": []}});
        assert_eq!(
            changes(&mode("DAG"), &mode("StepByStep")),
            ["workflow.mode.steps changed"]
        );
    }
}
