//! Which fields differ between two manifests.

use roundhouse_api::hash;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Hex digits of a digest that are shown.
const DIGITS: usize = 12;
/// Fields by which elements of lists are told apart, as Kubernetes merges them; the first that all elements have counts.
const KEYS: [&str; 6] = ["name", "mountPath", "containerPort", "port", "key", "ip"];
/// Objects nested deeper than this are compared as a whole.
const MAX_DEPTH: usize = 64;

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Path, elements of lists by their key: `spec.template.spec.containers[web].image`.
    pub path: String,
    /// Its value before; `None` if it was not there.
    pub before: Option<Shown>,
    /// Its value after; `None` if it is not there.
    pub after: Option<Shown>,
    /// Whether pods are restarted for it.
    pub restarts: bool,
}

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The value itself.
    Value(Value),
    /// Hex digits of a salted sha256: the value is a Secret's. Equal values have equal digests within one plan.
    Digest(String),
}

/// The fields that differ, in the order of their paths. `salt` goes into the digests of what a Secret holds.
pub fn changes(before: &Value, after: &Value, salt: &str) -> Vec<FieldChange> {
    let veil = Veil {
        secret: is_secret(before) || is_secret(after),
        salt,
    };
    let restarting = restarts_pods(after);
    let mut found = Vec::new();
    walk("", Some(before), Some(after), 0, &mut |path, before, after| {
        let show = |value: Option<&Value>| value.map(|value| veil.show(path, value));
        found.push(FieldChange {
            restarts: restarting && (path == "spec.template" || path.starts_with("spec.template.")),
            path: path.to_owned(),
            before: show(before),
            after: show(after),
        });
    });
    found
}

/// A manifest with digests in place of what a Secret holds.
pub fn veiled(manifest: &Value, salt: &str) -> Value {
    let mut manifest = manifest.clone();
    if !is_secret(&manifest) {
        return manifest;
    }
    let veil = Veil { secret: true, salt };
    for (field, value) in manifest.as_object_mut().into_iter().flatten() {
        if !Veil::is_open(field) {
            veil_leaves(value, field, &veil);
        }
    }
    manifest
}

fn veil_leaves(value: &mut Value, path: &str, veil: &Veil<'_>) {
    match value {
        Value::Object(map) => map
            .iter_mut()
            .for_each(|(key, value)| veil_leaves(value, &join(path, key), veil)),
        value => *value = Value::from(format!("sha256:{}", veil.digest(value))),
    }
}

/// Whether a manifest is a Secret.
pub fn is_secret(manifest: &Value) -> bool {
    manifest.get("kind") == Some(&Value::from("Secret"))
        && manifest.get("apiVersion") == Some(&Value::from("v1"))
}

/// Whether a change of the pod template replaces pods: not of a Job or ReplicaSet, whose pods stay.
fn restarts_pods(manifest: &Value) -> bool {
    let kind = manifest.get("kind").and_then(Value::as_str);
    matches!(
        kind,
        Some("Deployment" | "StatefulSet" | "DaemonSet" | "CloneSet")
    )
}

struct Veil<'a> {
    secret: bool,
    salt: &'a str,
}

impl Veil<'_> {
    /// What of a Secret may be seen: what it is, never what it holds.
    fn is_open(head: &str) -> bool {
        matches!(head, "apiVersion" | "kind" | "metadata" | "type" | "immutable")
    }

    fn show(&self, path: &str, value: &Value) -> Shown {
        let head = path.split(['.', '[']).next().unwrap_or_default();
        match self.secret && !Veil::is_open(head) {
            true => Shown::Digest(self.digest(value)),
            false => Shown::Value(value.clone()),
        }
    }

    fn digest(&self, value: &Value) -> String {
        let mut bytes = self.salt.as_bytes().to_vec();
        bytes.extend(hash::canonical(value));
        let mut digest = hash::sha256(&bytes);
        digest.truncate(DIGITS);
        digest
    }
}

type Found<'f> = &'f mut dyn FnMut(&str, Option<&Value>, Option<&Value>);

fn walk(path: &str, before: Option<&Value>, after: Option<&Value>, depth: usize, found: Found<'_>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) if depth < MAX_DEPTH => {
            walk_map(path, a, b, depth, found);
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if depth < MAX_DEPTH => {
            walk_list(path, a, b, depth, found);
        }
        _ => found(path, before, after),
    }
}

fn walk_map(path: &str, a: &Map<String, Value>, b: &Map<String, Value>, depth: usize, found: Found<'_>) {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for key in keys {
        walk(&join(path, key), a.get(key), b.get(key), depth + 1, found);
    }
}

fn walk_list(path: &str, a: &[Value], b: &[Value], depth: usize, found: Found<'_>) {
    if let Some(key) = KEYS
        .into_iter()
        .find(|key| tells_apart(a, key) && tells_apart(b, key))
    {
        let of = |list: &[Value], wanted: &str| {
            list.iter()
                .position(|item| key_of(item, key).as_deref() == Some(wanted))
        };
        let names: Vec<String> = a.iter().chain(b).filter_map(|item| key_of(item, key)).collect();
        let mut seen = BTreeSet::new();
        let mut differs = false;
        for name in names.iter().filter(|name| seen.insert(name.as_str())) {
            let item = |list: &'_ [Value]| of(list, name);
            let (before, after) = (item(a).and_then(|at| a.get(at)), item(b).and_then(|at| b.get(at)));
            differs |= before != after;
            walk(&format!("{path}[{name}]"), before, after, depth + 1, found);
        }
        if !differs {
            // The same elements in another order.
            found(path, Some(&Value::from(a)), Some(&Value::from(b)));
        }
        return;
    }
    if a.len() == b.len() && !a.is_empty() {
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            walk(&format!("{path}[{index}]"), Some(a), Some(b), depth + 1, found);
        }
        return;
    }
    found(path, Some(&Value::from(a)), Some(&Value::from(b)));
}

/// Whether every element is an object with its own value of `key`.
fn tells_apart(list: &[Value], key: &str) -> bool {
    let mut seen = BTreeSet::new();
    list.iter()
        .all(|item| key_of(item, key).is_some_and(|name| seen.insert(name)))
}

fn key_of(item: &Value, key: &str) -> Option<String> {
    match item.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// `a` and `b` → `a.b`; a key that is no plain word in brackets.
fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && !key.contains(['.', '/', '[', ']', ' ']);
    match (plain, path) {
        (true, "") => key.to_owned(),
        (true, path) => format!("{path}.{key}"),
        (false, path) => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(before: &Value, after: &Value) -> Vec<String> {
        let show = |shown: &Option<Shown>| match shown {
            None => "-".to_owned(),
            Some(Shown::Value(value)) => value.to_string(),
            Some(Shown::Digest(digest)) => format!("#{}", digest.len()),
        };
        let found = changes(before, after, "salt");
        let line = |field: &FieldChange| {
            let restarts = if field.restarts { " restarts" } else { "" };
            format!(
                "{} {} -> {}{restarts}",
                field.path,
                show(&field.before),
                show(&field.after)
            )
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn fields_are_named_as_people_name_them() {
        let deployment = |containers: Value, replicas: u32| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}})
        };
        let before = deployment(
            json!([{"name": "web", "image": "v1", "args": ["a", "b"]}, {"name": "old"}]),
            2,
        );
        let after = deployment(
            json!([{"name": "new"}, {"name": "web", "image": "v2", "args": ["a", "c"]}]),
            3,
        );
        assert_eq!(
            lines(&before, &after),
            [
                "spec.replicas 2 -> 3",
                "spec.template.spec.containers[web].args[1] \"b\" -> \"c\" restarts",
                "spec.template.spec.containers[web].image \"v1\" -> \"v2\" restarts",
                "spec.template.spec.containers[old] {\"name\":\"old\"} -> - restarts",
                "spec.template.spec.containers[new] - -> {\"name\":\"new\"} restarts",
            ]
        );
        assert_eq!(lines(&before, &before), [""; 0]);
    }

    #[test]
    fn lists_without_keys_go_by_place_or_whole() {
        for (before, after, expected) in [
            (json!({"a": [1, 2]}), json!({"a": [1, 3]}), "a[1] 2 -> 3"),
            (json!({"a": [1]}), json!({"a": [1, 3]}), "a [1] -> [1,3]"),
            (
                json!({"a": [{"name": "x"}, {"name": "y"}]}),
                json!({"a": [{"name": "y"}, {"name": "x"}]}),
                "a [{\"name\":\"x\"},{\"name\":\"y\"}] -> [{\"name\":\"y\"},{\"name\":\"x\"}]",
            ),
            (
                json!({"a": {"b.c/d": 1}}),
                json!({"a": {}}),
                "a[\"b.c/d\"] 1 -> -",
            ),
            (json!({"a": 1}), json!({"a": {"b": 1}}), "a 1 -> {\"b\":1}"),
            (json!({"a": null}), json!({}), "a null -> -"),
        ] {
            assert_eq!(lines(&before, &after), [expected]);
        }
    }

    #[test]
    fn what_a_secret_holds_is_never_shown() {
        let secret = |value: &str, note: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": note}, "type": "Opaque",
                "stringData": {"password": value}, "extra": {"deep": [value]}})
        };
        let (before, after) = (secret("hunter2", "a"), secret("correct horse", "b"));
        assert_eq!(
            lines(&before, &after),
            [
                "extra.deep[0] #12 -> #12",
                "metadata.name \"a\" -> \"b\"",
                "stringData.password #12 -> #12",
            ]
        );
        let shown = format!(
            "{:?} {}",
            changes(&before, &after, "salt"),
            veiled(&before, "salt")
        );
        assert!(!shown.contains("hunter2") && !shown.contains("horse"), "{shown}");
        assert_eq!(veiled(&before, "salt")["metadata"], before["metadata"]);
        let open = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        assert_eq!(veiled(&open, "salt"), open);
        let digest = |salt| veiled(&before, salt)["stringData"]["password"].clone();
        assert_eq!(digest("salt"), digest("salt"));
        assert_ne!(digest("salt"), digest("other"));
    }
}
