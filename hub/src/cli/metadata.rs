//! `metadata` as users write it, which the definition of a kind says nothing about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use roundhouse_api::names;
use serde_json::{Map, Value};

/// What `metadata` has (`ObjectMeta`); API servers warn of, or refuse, anything else.
const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Whether a hub takes the metadata of an object; the first thing that it does not take, with its field.
pub(super) fn is_legal(object: &Value) -> Result<(), String> {
    let fields = match object.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(format!("metadata is {other}, not an object")),
    };
    if let Some(unknown) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        let known = FIELDS.join(", ");
        return Err(format!("it has no field metadata.{unknown} (known: {known})"));
    }
    for field in ["name", "namespace", "generateName"] {
        if let Some(other) = fields.get(field).filter(|value| !is_text(value)) {
            return Err(format!("metadata.{field} {}", no_text(other)));
        }
    }
    for (field, what) in [("labels", "label"), ("annotations", "annotation")] {
        let entries = fields.get(field).and_then(Value::as_object);
        for (key, value) in entries.into_iter().flatten() {
            entry_is_legal(what, key, value).map_err(|why| format!("metadata.{field}: {why}"))?;
        }
    }
    // One by one: an error of all of them would not name the field.
    for (field, value) in fields {
        let one = Map::from_iter([(field.clone(), value.clone())]);
        serde_json::from_value::<ObjectMeta>(Value::Object(one))
            .map_err(|error| format!("metadata.{field}: {error}"))?;
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

/// YAML reads `1`, `true` and an empty value as something else than a text.
pub(super) fn no_text(value: &Value) -> String {
    format!("is {value}, not a text: put it in quotes")
}

/// A hub takes no label that Kubernetes does not take.
fn entry_is_legal(what: &str, key: &str, value: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else {
        return Err(format!("{what} {key} {}", no_text(value)));
    };
    // Keys of annotations may have capitals before the slash.
    let is_legal = match what {
        "label" => names::is_qualified(key),
        _ => names::is_qualified(&key.to_lowercase()),
    };
    if !is_legal {
        let rule = names::QUALIFIED;
        return Err(format!("{what} {key:?} has no legal key: use {rule}"));
    }
    if what == "label" && !names::is_label_value(text) {
        let rule = names::LABEL_VALUE;
        return Err(format!("label {key} has no legal value, {text:?}: use {rule}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_legal_is_named_with_its_field() {
        for (metadata, expected) in [
            (
                json!({"bogus": 1}),
                "it has no field metadata.bogus (known: annotations, ",
            ),
            (
                json!({"label": {}}),
                "it has no field metadata.label (known: annotations, ",
            ),
            (
                json!({"name": 7}),
                "metadata.name is 7, not a text: put it in quotes",
            ),
            (
                json!({"namespace": true}),
                "metadata.namespace is true, not a text: put it in quotes",
            ),
            (
                json!({"labels": {"team": 7}}),
                "metadata.labels: label team is 7, not a text: put it in quotes",
            ),
            (
                json!({"labels": ["a"]}),
                "metadata.labels: invalid type: sequence, ",
            ),
            (
                json!({"annotations": {"a": null}}),
                "metadata.annotations: annotation a is null, not a text: put it in quotes",
            ),
            (
                json!({"finalizers": "a"}),
                "metadata.finalizers: invalid type: string",
            ),
            (
                json!({"generation": "a"}),
                "metadata.generation: invalid type: string",
            ),
            (json!([]), "metadata is [], not an object"),
        ] {
            let why = is_legal(&json!({"metadata": metadata})).unwrap_err();
            assert!(why.starts_with(expected), "{why}\n is not\n{expected}");
        }
        for metadata in [
            json!(null),
            json!({"name": "a", "namespace": null, "labels": {"a": ""}, "annotations": {"A.b/c": "any text!"},
                "creationTimestamp": null, "managedFields": [], "uid": "u", "resourceVersion": "1"}),
        ] {
            assert_eq!(is_legal(&json!({"metadata": metadata})), Ok(()), "{metadata}");
        }
    }
}
