//! The status of a definition: names are accepted and the kind is established at once.

use serde_json::{Map, Value, json};

use crate::object;

/// Marks a definition that is being deleted, as Kubernetes does: it is kept until its objects are gone, and says so.
pub(crate) fn terminate(definition: &mut Value, now: &str) {
    let finalizers = object::finalizers(definition).into_iter();
    let mut finalizers: Vec<Value> = finalizers
        .filter(|f| *f != super::CLEANUP)
        .map(Value::from)
        .collect();
    finalizers.push(super::CLEANUP.into());
    object::set_meta(definition, "finalizers", Some(finalizers.into()));
    let Some(status) = definition
        .as_object_mut()
        .and_then(|map| object::child(map, "status"))
    else {
        return;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.push(json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": now,
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }));
    }
}

/// Fills in what Kubernetes defaults in a definition and sets its status as the API server's own controllers would.
/// `conflict` says why the names cannot be accepted, if they cannot.
pub(crate) fn establish(definition: &mut Value, conflict: Option<&str>, now: &str) {
    let text = |path: &[&str]| object::text(definition, path).unwrap_or_default().to_owned();
    let kind = text(&["spec", "names", "kind"]);
    let mut names = object::at(definition, &["spec", "names"])
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    names
        .entry("singular")
        .or_insert_with(|| kind.to_lowercase().into());
    names
        .entry("listKind")
        .or_insert_with(|| format!("{kind}List").into());
    let versions = object::at(definition, &["spec", "versions"]).and_then(Value::as_array);
    let is_stored = |v: &&Value| v.get("storage") == Some(&Value::Bool(true));
    let storage = versions
        .into_iter()
        .flatten()
        .find(is_stored)
        .and_then(|v| v.get("name"))
        .cloned();
    let mut stored: Vec<Value> = object::at(definition, &["status", "storedVersions"])
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if let Some(name) = storage.filter(|name| !stored.contains(name)) {
        stored.push(name);
    }
    let old = object::at(definition, &["status", "conditions"])
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let condition = |ty: &str, ok: bool, reason: &str, message: &str| {
        let status = if ok { "True" } else { "False" };
        let same = |c: &&Value| c.get("type") == Some(&ty.into()) && c.get("status") == Some(&status.into());
        let since = old
            .iter()
            .find(same)
            .and_then(|c| c.get("lastTransitionTime"))
            .cloned();
        let since = since.unwrap_or_else(|| now.into());
        json!({"type": ty, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    let conditions = match conflict {
        None => vec![
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                true,
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
        ],
        Some(why) => vec![
            condition("NamesAccepted", false, "PluralConflict", why),
            condition("Established", false, "NotAccepted", "not all names are accepted"),
        ],
    };
    // What else is said of it stays, such as that it is being deleted.
    let ours = |c: &&Value| conditions.iter().any(|own| own.get("type") == c.get("type"));
    let others: Vec<Value> = old.iter().filter(|c| !ours(c)).cloned().collect();
    let conditions = [conditions, others].concat();
    let accepted = if conflict.is_none() {
        names.clone()
    } else {
        Map::new()
    };
    let Some(map) = definition.as_object_mut() else {
        return;
    };
    if let Some(spec) = object::child(map, "spec") {
        spec.insert("names".into(), names.into());
        spec.entry("conversion")
            .or_insert_with(|| json!({"strategy": "None"}));
    }
    map.insert(
        "status".into(),
        json!({"acceptedNames": accepted, "storedVersions": stored, "conditions": conditions}),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_goes_says_so_until_it_is_gone() {
        let mut definition = json!({"metadata": {"name": "as.b.dev"}, "spec": {"names": {"kind": "A"},
            "versions": [{"name": "v1", "storage": true}]}});
        establish(&mut definition, None, "2026-01-01T00:00:00Z");
        assert!(object::finalizers(&definition).is_empty());
        terminate(&mut definition, "2026-01-01T00:00:01Z");
        // Somebody changes it meanwhile.
        establish(&mut definition, None, "2026-01-01T00:00:02Z");
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        let types: Vec<&str> = conditions.iter().filter_map(|c| c["type"].as_str()).collect();
        assert_eq!(types, ["NamesAccepted", "Established", "Terminating"]);
        assert_eq!(object::finalizers(&definition), [super::super::CLEANUP]);
    }
}
