//! Rival: who owns a field of a live object, as `metadata.managedFields` says.

use crate::path::FieldPath;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_patch::managed::owners_at;
use serde_json::Value;

/// The field manager other than us that wrote the field last; `None` where nobody owns it, or the server keeps no
/// managedFields.
pub(crate) fn rival(live: &Value, path: &FieldPath) -> Option<String> {
    let owners = owners_at(live, &path.pointer(live)?).into_iter();
    let mut others = owners
        .map(|owner| owner.manager)
        .filter(|manager| !manager.is_empty() && manager != AGENT_FIELD_MANAGER);
    others.next()
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
        ]}, "spec": {"replicas": 1, "template": {"spec": {"tolerations": [], "containers": [{"name": "main", "image": "theirs"}]}}}})
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
