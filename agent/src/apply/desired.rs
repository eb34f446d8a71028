//! Desired: the object as it is sent, with the stamps of bookkeeping, and where its last-applied copy lives.
//!
//! Stamps go to the object's own metadata only, never into a pod template: bookkeeping must not restart pods.

use crate::apply::decode::Manifest;
use crate::object;
use roundhouse_api::hash;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::annotation;
use serde_json::{Value, json};

/// Kubernetes refuses annotations that weigh more than this together, in bytes of keys and values.
pub(crate) const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Where the last-applied copy of an object lives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Copy {
    /// In the annotation of the object.
    Annotation,
    /// In the ledger.
    Ledger(Value),
    /// Nowhere: the manifest opted out with `-` or `skip`.
    OptedOut,
}

/// Whether the manifest opts out of keeping a last-applied copy.
fn opted_out(manifest: &Value) -> bool {
    matches!(
        object::annotation(manifest, annotation::LAST_APPLIED),
        Some("-" | "skip")
    )
}

/// The object with the stamps of its owner and of its desired hash, and without a last-applied copy.
pub(crate) fn stamped(manifest: &Manifest, marker: &str) -> Value {
    let mut object = manifest.object.clone();
    stamp(&mut object, annotation::OWNED_BY, marker);
    stamp(&mut object, annotation::DESIRED_HASH, &manifest.digest);
    object
}

/// The object to send, stamped with owner, desired hash and (unless it lives elsewhere) its last-applied copy.
/// `others` is the weight of the annotations on the live object that we do not write.
pub(crate) fn desired(manifest: &Manifest, marker: &str, others: usize) -> (Value, Copy) {
    let mut object = stamped(manifest, marker);
    if opted_out(&manifest.object) {
        return (object, Copy::OptedOut);
    }
    if manifest.key.is("", "Secret") {
        return (object, Copy::Ledger(secret_outline(&manifest.object)));
    }
    let rendered = String::from_utf8(hash::canonical(&manifest.object)).unwrap_or_default();
    let weight = weight_of_annotations(&object) + annotation::LAST_APPLIED.len() + rendered.len() + others;
    if weight > MAX_ANNOTATIONS {
        return (object, Copy::Ledger(outline(&manifest.object)));
    }
    stamp(&mut object, annotation::LAST_APPLIED, &rendered);
    (object, Copy::Annotation)
}

/// Weight of the annotations of `live` that `manifest` and our stamps do not overwrite.
pub(crate) fn weight_of_others(manifest: &Manifest, live: &Value) -> usize {
    let ours = manifest
        .object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    let Some(theirs) = live.pointer("/metadata/annotations").and_then(Value::as_object) else {
        return 0;
    };
    theirs
        .iter()
        .filter(|(key, _)| {
            let stamped = [
                annotation::OWNED_BY,
                annotation::DESIRED_HASH,
                annotation::LAST_APPLIED,
            ];
            !stamped.contains(&key.as_str()) && !ours.is_some_and(|ours| ours.contains_key(*key))
        })
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

/// What was applied last, as the three-way merge wants it: our annotation, else the ledger's copy, else kubectl's own
/// annotation (on adoption). A copy that does not parse counts as none: nothing is removed then.
pub(crate) fn last_applied(manifest: &Manifest, live: &Value, entry: Option<&LedgerEntry>) -> Option<Value> {
    if opted_out(&manifest.object) {
        return None;
    }
    if let Some(text) = object::annotation(live, annotation::LAST_APPLIED) {
        return parse(text);
    }
    match entry.and_then(|entry| entry.last_applied.as_ref()) {
        Some(Value::String(text)) => parse(text),
        Some(Value::Object(outline)) => Some(Value::Object(outline.clone())),
        _ => object::annotation(live, annotation::KUBECTL_LAST_APPLIED).and_then(parse),
    }
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// What a Secret's last-applied copy needs in order to remove what the next manifest leaves out: every field that there
/// was, and of what it keeps (and of annotations, which may repeat that) the keys without their values.
fn secret_outline(secret: &Value) -> Value {
    let mut outline = outline(secret);
    for map in ["/data", "/metadata/annotations", "/metadata/labels"] {
        let Some(map) = outline.pointer_mut(map) else {
            continue;
        };
        match map {
            Value::Object(map) => map.values_mut().for_each(|value| *value = json!("")),
            other => *other = Value::Null,
        }
    }
    outline
}

/// A text longer than this is left out of a copy in the ledger, in bytes.
const MAX_COPIED_TEXT: usize = 256;

/// What a last-applied copy needs in order to remove what the next manifest leaves out: which fields there were. Long
/// texts are left out, so that a ledger holds the copies of large manifests; the merge never reads the former value of a
/// field, only the keys and items of lists, which are kept.
fn outline(manifest: &Value) -> Value {
    match manifest {
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), outline(value)));
            Value::Object(fields.collect())
        }
        Value::String(text) if text.len() > MAX_COPIED_TEXT => json!(""),
        other => other.clone(),
    }
}

fn stamp(object: &mut Value, key: &str, value: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(key.to_owned(), json!(value));
    }
}

fn weight_of_annotations(object: &Value) -> usize {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;

    fn manifest(value: Value) -> Manifest {
        decode(vec![value]).manifests.remove(0)
    }

    #[test]
    fn stamps_go_to_the_object_and_never_into_the_pod_template() {
        let manifest = manifest(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
        );
        let (object, copy) = desired(&manifest, "h/b", 0);
        assert_eq!(copy, Copy::Annotation);
        assert_eq!(object["spec"], manifest.object["spec"]);
        assert_eq!(object::annotation(&object, annotation::OWNED_BY), Some("h/b"));
        assert_eq!(
            object::annotation(&object, annotation::DESIRED_HASH),
            Some(manifest.digest.as_str())
        );
        assert_eq!(last_applied(&manifest, &object, None), Some(manifest.object));
    }

    #[test]
    fn a_secret_keeps_its_keys_in_the_ledger_and_its_values_nowhere() {
        let manifest = manifest(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": "hunter2"}}),
        );
        let (object, copy) = desired(&manifest, "h/b", 0);
        assert_eq!(object::annotation(&object, annotation::LAST_APPLIED), None);
        let Copy::Ledger(outline) = copy else {
            panic!("not in the ledger")
        };
        assert_eq!(outline["data"], json!({"password": ""}));
        let entry = LedgerEntry {
            last_applied: Some(outline.clone()),
            ..LedgerEntry::default()
        };
        assert_eq!(last_applied(&manifest, &object, Some(&entry)), Some(outline));
    }

    #[test]
    fn of_a_secret_every_field_is_remembered_and_no_value() {
        let manifest = manifest(
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "immutable": true,
            "metadata": {"name": "s", "namespace": "x", "finalizers": ["x.io/hold"], "labels": {"a": "one"},
                "annotations": {"note": "hunter2"}},
            "data": {"password": "aHVudGVyMg=="}}),
        );
        let (_, Copy::Ledger(outline)) = desired(&manifest, "h/b", 0) else {
            panic!("not in the ledger")
        };
        assert_eq!(
            outline,
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "immutable": true,
            "metadata": {"name": "s", "namespace": "x", "finalizers": ["x.io/hold"], "labels": {"a": ""},
                "annotations": {"note": ""}},
            "data": {"password": ""}})
        );
    }

    #[test]
    fn heavy_annotations_move_the_copy_to_the_ledger() {
        let manifest = manifest(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["z".repeat(300)]},
            "data": {"x": "y".repeat(1000), "short": "y"}}),
        );
        assert_eq!(desired(&manifest, "h/b", 0).1, Copy::Annotation);
        let (object, copy) = desired(&manifest, "h/b", MAX_ANNOTATIONS - 1000);
        let Copy::Ledger(text) = copy else {
            panic!("not in the ledger")
        };
        assert_eq!(object::annotation(&object, annotation::LAST_APPLIED), None);
        let entry = LedgerEntry {
            last_applied: Some(text),
            ..LedgerEntry::default()
        };
        let mut without_long_texts = manifest.object.clone();
        without_long_texts["data"]["x"] = json!("");
        assert_eq!(
            last_applied(&manifest, &object, Some(&entry)),
            Some(without_long_texts)
        );
    }

    #[test]
    fn annotations_of_others_count_and_ours_do_not() {
        let manifest = manifest(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
            "annotations": {"mine": "1"}}}),
        );
        let live = json!({"metadata": {"annotations": {"mine": "1234", "theirs": "1234",
            "roundhouse.dev/owned-by": "h/b"}}});
        assert_eq!(weight_of_others(&manifest, &live), "theirs".len() + 4);
    }

    #[test]
    fn the_words_that_opt_out_and_the_copies_that_do_not_parse() {
        let with = |value: &str| {
            manifest(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
                "annotations": {"app.oam.dev/last-applied-configuration": value}}}),
            )
        };
        for word in ["-", "skip"] {
            let (object, copy) = desired(&with(word), "h/b", 0);
            assert_eq!(copy, Copy::OptedOut);
            assert_eq!(last_applied(&with(word), &object, None), None);
        }
        let plain = manifest(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}));
        let live = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
        assert_eq!(
            last_applied(&plain, &live(annotation::LAST_APPLIED, "{"), None),
            None
        );
        assert_eq!(
            last_applied(
                &plain,
                &live(annotation::KUBECTL_LAST_APPLIED, r#"{"a":1}"#),
                None
            ),
            Some(json!({"a": 1}))
        );
    }
}
