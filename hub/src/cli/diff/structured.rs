//! The differences as JSON or YAML: all objects, those without a difference too.

use super::Subject;
use roundhouse_agent::preview::{Difference, ObjectPreview, Owner, Preview, Shown};
use serde_json::{Map, Value, json};

/// Values of Secrets are `{"sha256": …}`, ones that were not kept `{"notKept": true}`; what is absent has no field.
pub(super) fn value(preview: &Preview, subject: &Subject) -> Value {
    let held = preview.held.iter();
    let held =
        held.map(|held| json!({"bundle": held.bundle, "reason": held.reason, "message": held.message}));
    json!({
        "namespace": subject.namespace,
        "application": subject.application,
        "cluster": subject.cluster.as_str(),
        "held": held.collect::<Vec<_>>(),
        "objects": preview.objects.iter().map(object).collect::<Vec<_>>(),
    })
}

fn object(object: &ObjectPreview) -> Value {
    let api_version = match (object.group.as_str(), object.version.as_str()) {
        ("", version) => version.to_owned(),
        (group, "") => group.to_owned(),
        (group, version) => format!("{group}/{version}"),
    };
    let mut out = Map::new();
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            out.insert(name.to_owned(), json!(value));
        }
    };
    text("bundle", &object.bundle);
    text("apiVersion", &api_version);
    text("kind", &object.kind);
    text("namespace", &object.namespace);
    text("name", &object.name);
    text("action", object.action.word());
    text("reason", &object.reason);
    text("message", &object.message);
    if let Some(ordinal) = object.ordinal {
        out.insert("ordinal".to_owned(), json!(ordinal));
    }
    let differences = object.differences.iter().map(difference);
    out.insert("differences".to_owned(), Value::Array(differences.collect()));
    Value::Object(out)
}

fn difference(difference: &Difference) -> Value {
    let mut out = Map::new();
    out.insert("path".to_owned(), json!(difference.path));
    out.insert("verdict".to_owned(), json!(difference.verdict.word()));
    for (name, shown) in [
        ("lastApplied", &difference.last_applied),
        ("live", &difference.live),
        ("desired", &difference.desired),
    ] {
        let value = match shown {
            None => continue,
            Some(Shown::Value(value)) => value.clone(),
            Some(Shown::Digest(digest)) => json!({"sha256": digest}),
            Some(Shown::NotKept) => json!({"notKept": true}),
        };
        out.insert(name.to_owned(), value);
    }
    out.insert("owners".to_owned(), difference.owners.iter().map(owner).collect());
    Value::Object(out)
}

fn owner(owner: &Owner) -> Value {
    let mut out = json!({"manager": owner.manager, "operation": owner.operation});
    for (name, value) in [("subresource", &owner.subresource), ("time", &owner.time)] {
        if let (false, Some(out)) = (value.is_empty(), out.as_object_mut()) {
            out.insert(name.to_owned(), json!(value));
        }
    }
    out
}
