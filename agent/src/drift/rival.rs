//! Rival: who owns a field of a live object, as `metadata.managedFields` says.

use crate::drift::paths::{FieldPath, Step};
use crate::object::text;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use serde_json::Value;

/// The field manager other than us that wrote the field last; `None` where nobody owns it, or the server keeps no
/// managedFields.
pub(crate) fn rival(live: &Value, path: &FieldPath) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let others = entries.iter().filter(|entry| {
        text(entry, "/manager").is_some_and(|manager| !manager.is_empty() && manager != AGENT_FIELD_MANAGER)
    });
    // Times are written in UTC to the second: as text they sort as times.
    let owner = others
        .filter(|entry| entry.get("fieldsV1").is_some_and(|fields| owns(fields, &path.0)))
        .max_by_key(|entry| text(entry, "/time").unwrap_or_default())?;
    text(owner, "/manager").map(str::to_owned)
}

/// Whether a set of fields has this field, or something below it.
fn owns(fields: &Value, path: &[Step]) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return true;
    };
    let child = match step {
        Step::Field(name) => fields.get(format!("f:{name}")),
        Step::Element { key, value } => fields.as_object().and_then(|fields| {
            // Keys of several fields name each of them: `k:{"containerPort":80,"protocol":"TCP"}`.
            let is_it = |id: &str| {
                let id = id
                    .strip_prefix("k:")
                    .and_then(|id| serde_json::from_str::<Value>(id).ok());
                id.and_then(|id| id.get(&**key).map(ToString::to_string))
                    .is_some_and(|id| *id == **value)
            };
            fields.iter().find(|(id, _)| is_it(id)).map(|(_, child)| child)
        }),
    };
    match child {
        Some(child) => owns(child, rest),
        // A list or an object that is replaced whole is owned whole.
        None => fields.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::paths::differences;
    use serde_json::json;

    fn live() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": [
            {"manager": "roundhouse-agent", "operation": "Update", "time": "2026-01-01T00:00:09Z", "fieldsV1": {
                "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}}}}},
            {"manager": "old-hpa", "operation": "Update", "time": "2026-01-01T00:00:01Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "hpa", "operation": "Update", "time": "2026-01-01T00:00:02Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "setter", "operation": "Apply", "time": "2026-01-01T00:00:03Z", "fieldsV1": {"f:spec": {
                "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}, "f:tolerations": {}}}}}}
        ]}, "spec": {"replicas": 1, "template": {"spec": {"tolerations": [], "containers": [{"name": "main"}]}}}})
    }

    #[test]
    fn the_last_manager_that_is_not_us_is_named() {
        let live = live();
        let owner = |patch: Value| {
            let found = differences(&patch, &live);
            rival(&live, &found[0].path)
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(owner(json!({"spec": {"replicas": 3}})), name("hpa"));
        let container = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        assert_eq!(owner(container("i")), name("setter"));
        assert_eq!(
            owner(json!({"spec": {"template": {"spec": {"tolerations": [{"key": "a"}]}}}})),
            name("setter")
        );
        assert_eq!(owner(json!({"spec": {"paused": true}})), None);
        let bare = json!({"metadata": {}});
        assert_eq!(rival(&bare, &FieldPath::default()), None);
    }
}
