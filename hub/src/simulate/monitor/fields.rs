//! Fields of objects, by path.

use crate::simulate::raw::name;
use roundhouse_api::{
    bundle::ResourceIdentifier,
    names::{annotation, is_bookkeeping},
};
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether an object says that an agent answers for it.
pub(super) fn is_marked(object: &Value) -> bool {
    annotation_of(object, annotation::OWNED_BY).is_some()
}

/// Whether a rule of a Bundle is about an object; `*` is about everything.
pub(super) fn names(of: &ResourceIdentifier, key: &Key) -> bool {
    let (resource, group) = key.table.split_once('.').unwrap_or((&key.table, ""));
    let places = [
        (of.group.as_str(), group),
        (&of.resource, resource),
        (&of.namespace, &key.namespace),
        (&of.name, &key.name),
    ];
    places
        .iter()
        .all(|(pattern, is)| *pattern == "*" || pattern == is)
}

/// An annotation of an object.
pub(super) fn annotation_of<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// The values of an object by their paths, without its status and what servers keep in its metadata. Elements of a list go by
/// their name where all have one; any other list is one value. Of our own annotations and labels nothing is promised.
pub(super) fn leaves(object: &Value) -> BTreeMap<String, &Value> {
    const OF_SERVERS: [&str; 7] = [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "uid",
    ];
    let mut found = BTreeMap::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            ("status" | "apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(all)) => {
                for (field, value) in all
                    .iter()
                    .filter(|(field, _)| !OF_SERVERS.contains(&field.as_str()))
                {
                    put(&mut found, format!("/metadata/{field}"), value);
                }
            }
            _ => put(&mut found, format!("/{field}"), value),
        }
    }
    found.retain(|path, _| {
        let own = ["/metadata/annotations/", "/metadata/labels/"]
            .iter()
            .find_map(|of| path.strip_prefix(of));
        !own.is_some_and(is_bookkeeping)
    });
    found
}

fn put<'a>(found: &mut BTreeMap<String, &'a Value>, path: String, value: &'a Value) {
    match value {
        Value::Object(all) if !all.is_empty() => {
            for (field, value) in all {
                put(found, format!("{path}/{field}"), value);
            }
        }
        Value::Array(all) if !all.is_empty() && all.iter().all(|element| name(element).is_some()) => {
            for element in all {
                let name = name(element).unwrap_or_default();
                put(found, format!("{path}/{name}"), element);
            }
        }
        value => drop(found.insert(path, value)),
    }
}

/// The paths whose value differs between two objects, or that only one of them has.
pub(super) fn differing(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (leaves(before), leaves(after));
    let all = before
        .keys()
        .chain(after.keys().filter(|path| !before.contains_key(*path)));
    let differs = |path: &&String| before.get(*path) != after.get(*path);
    all.filter(differs).cloned().collect()
}

/// Whether a path is one of these, lies below one, or has one below it.
pub(super) fn touches<'a>(path: &str, mut paths: impl Iterator<Item = &'a String>) -> bool {
    paths.any(|other| is_at_or_below(path, other) || is_at_or_below(other, path))
}

/// Whether a path is `above` or lies below it.
pub(super) fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_go_by_their_paths() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7",
                "annotations": {"x": "1", "roundhouse.dev/owned-by": "h/b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "args": ["a"]}], "empty": {}}, "status": {"n": 1}});
        let paths: Vec<String> = leaves(&object).into_keys().collect();
        assert_eq!(
            paths,
            [
                "/metadata/annotations/x",
                "/metadata/name",
                "/spec/containers/c/args",
                "/spec/containers/c/image",
                "/spec/containers/c/name",
                "/spec/empty"
            ]
        );
        let mut other = object.clone();
        other["spec"]["containers"][0]["image"] = json!("j");
        other["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(differing(&object, &other), ["/spec/containers/c/image"]);
        let paths = ["/a/b".to_owned()];
        for (path, expected) in [("/a/b", true), ("/a", true), ("/a/b/c", true), ("/a/bc", false)] {
            assert_eq!(touches(path, paths.iter()), expected, "{path}");
        }
    }
}
