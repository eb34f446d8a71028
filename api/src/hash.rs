//! Canonical JSON and content hashes.
//!
//! Canonical means: object keys in byte order, no white space, numbers as `serde_json` writes them. `serde_json`'s
//! map is ordered by key in this workspace (the `preserve_order` feature is off), so its compact output is canonical.

use crate::names::{annotation, label};
pub use roundhouse_patch::weight;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Annotations that bookkeeping writes into a manifest and that are no part of what the user asked for.
pub const STAMP_ANNOTATIONS: [&str; 4] = [
    annotation::GENERATION,
    annotation::DESIRED_HASH,
    annotation::OWNED_BY,
    annotation::LAST_APPLIED,
];

/// Labels that bookkeeping writes into a manifest and that change with every revision.
pub const STAMP_LABELS: [&str; 2] = [label::REVISION, label::APP_REVISION];

/// The canonical bytes of a value.
pub fn canonical(value: &Value) -> Vec<u8> {
    // Writing a `Value` to memory has no failing path: keys are strings and the writer grows.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Lower-case hex sha256 of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&digest(bytes))
}

/// sha256 of bytes.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hex sha256 of the canonical form of a value.
pub fn of_value(value: &Value) -> String {
    sha256(&canonical(value))
}

/// The manifest without the stamps of bookkeeping: what [`of_manifest`] hashes.
pub fn without_stamps(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        for (field, stamps) in [
            ("annotations", &STAMP_ANNOTATIONS[..]),
            ("labels", &STAMP_LABELS[..]),
        ] {
            let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
                continue;
            };
            for stamp in stamps {
                map.remove(*stamp);
            }
            if map.is_empty() {
                metadata.remove(field);
            }
        }
    }
    manifest
}

/// A manifest that is written as [`without_stamps`] leaves it, without a copy of it.
#[derive(Clone, Copy)]
enum Unstamped<'a> {
    Manifest(&'a Value),
    Metadata(&'a Value),
    Stamped(&'a Value, &'static [&'static str]),
}

/// The stamps in a field of `metadata`.
fn stamps(field: &str) -> Option<&'static [&'static str]> {
    match field {
        "annotations" => Some(&STAMP_ANNOTATIONS),
        "labels" => Some(&STAMP_LABELS),
        _ => None,
    }
}

impl Serialize for Unstamped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Unstamped::Manifest(Value::Object(map)) => {
                serializer.collect_map(map.iter().map(|(key, value)| match key.as_str() {
                    "metadata" => (key, Field::Unstamped(Unstamped::Metadata(value))),
                    _ => (key, Field::Plain(value)),
                }))
            }
            Unstamped::Metadata(Value::Object(map)) => {
                serializer.collect_map(map.iter().filter_map(|(key, value)| {
                    let (Some(stamps), Some(fields)) = (stamps(key), value.as_object()) else {
                        return Some((key, Field::Plain(value)));
                    };
                    let rest = fields.keys().any(|field| !stamps.contains(&field.as_str()));
                    rest.then_some((key, Field::Unstamped(Unstamped::Stamped(value, stamps))))
                }))
            }
            Unstamped::Stamped(Value::Object(map), stamps) => {
                serializer.collect_map(map.iter().filter(|(key, _)| !stamps.contains(&key.as_str())))
            }
            Unstamped::Manifest(value) | Unstamped::Metadata(value) | Unstamped::Stamped(value, _) => {
                value.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Plain(&'a Value),
    Unstamped(Unstamped<'a>),
}

/// The canonical bytes of a manifest without its stamps: those of [`without_stamps`].
fn canonical_unstamped(manifest: &Value) -> Vec<u8> {
    // As in `canonical`, nothing can fail.
    serde_json::to_vec(&Unstamped::Manifest(manifest)).unwrap_or_default()
}

/// `roundhouse.dev/desired-hash`: hex sha256 of one manifest as divided and overridden for its cluster, stamps excluded.
pub fn of_manifest(manifest: &Value) -> String {
    sha256(&canonical_unstamped(manifest))
}

/// `Bundle.spec.hash`: hex sha256 over the canonical list of manifests, stamps excluded, in the order of the bundle.
pub fn of_manifests(manifests: &[Value]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"[");
    for (index, manifest) in manifests.iter().enumerate() {
        if index > 0 {
            hasher.update(b",");
        }
        hasher.update(canonical_unstamped(manifest));
    }
    hasher.update(b"]");
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_the_same_after_they_were_written_and_read() {
        // The first was found by fuzzing the merge: 17 digits, an integer that only a float can hold.
        for text in [
            "255555555555555555555",
            "0.30000000000000004",
            "2.5555555555555554e20",
            "7e-10",
        ] {
            let once: Value = serde_json::from_str(text).unwrap();
            let again: Value = serde_json::from_slice(&canonical(&once)).unwrap();
            assert_eq!(of_value(&again), of_value(&once), "{text}");
        }
    }

    #[test]
    fn key_order_does_not_matter_and_content_does() {
        let a: Value = serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":{"c":3,"d":2},"b":1}"#).unwrap();
        assert_eq!(of_value(&a), of_value(&b));
        assert_ne!(of_value(&a), of_value(&json!({"b": 1, "a": {"c": 3, "d": 3}})));
        assert_eq!(
            sha256(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn stamps_are_no_part_of_the_hash() {
        let plain = json!({"kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "b"}}});
        let stamped = json!({"kind": "ConfigMap", "metadata": {"name": "x",
            "annotations": {"app.oam.dev/generation": "7", "roundhouse.dev/owned-by": "h/b"},
            "labels": {"a": "b", "app.oam.dev/revision": "web-v2", "app.oam.dev/appRevision": "app-v2"}}});
        assert_eq!(of_manifest(&plain), of_manifest(&stamped));
        assert_eq!(
            of_manifests(std::slice::from_ref(&plain)),
            of_manifests(&[stamped])
        );
        assert_ne!(
            of_manifests(std::slice::from_ref(&plain)),
            of_manifests(&[plain.clone(), plain])
        );
    }

    #[test]
    fn what_is_hashed_is_the_manifest_without_its_stamps() {
        for manifest in [
            json!(null),
            json!("text"),
            json!([{"metadata": {"labels": {"app.oam.dev/revision": "v1"}}}]),
            json!({"metadata": null}),
            json!({"metadata": {"annotations": "no map", "labels": {}}}),
            json!({"metadata": {"annotations": {}, "labels": {"app.oam.dev/revision": "v1"}, "name": "a"}}),
            json!({"metadata": {"annotations": {"roundhouse.dev/owned-by": "h/b"},
                "labels": {"a": "b", "app.oam.dev/revision": {"metadata": 1}}},
                "spec": {"metadata": {"labels": {"app.oam.dev/revision": "stays"}}, "text": "\u{1}\"ü"}}),
        ] {
            let bytes = canonical(&without_stamps(&manifest));
            assert_eq!(canonical_unstamped(&manifest), bytes, "{manifest}");
            assert_eq!(of_manifest(&manifest), sha256(&bytes));
            assert_eq!(weight(&manifest), canonical(&manifest).len());
        }
    }

    #[test]
    fn a_list_hashes_as_its_canonical_json() {
        let list = [json!({"a": 1}), json!({"b": 2})];
        assert_eq!(of_manifests(&list), of_value(&json!(list)));
    }
}
