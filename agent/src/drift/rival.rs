//! Rival: who owns a field of a live object, as `metadata.managedFields` says.

use crate::path::FieldPath;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_patch::managed::{Operation, Owner, owners_at};
use serde_json::Value;

/// The field manager other than us that wrote the field last; `None` where nobody owns it, or the server keeps no
/// managedFields. We are the agent's own manager, and what is applied as `applies_as`; somebody else who updates under that
/// name is another one.
pub(crate) fn rival(live: &Value, path: &FieldPath, applies_as: &str) -> Option<String> {
    let owners = owners_at(live, &path.pointer(live)?).into_iter();
    let mut others = owners.filter(|owner| !owner.manager.is_empty() && !is_us(owner, applies_as));
    others.next().map(|owner| owner.manager)
}

/// Whether managedFields name us as the owner of a field, and nobody else. See [`rival`].
pub(crate) fn is_ours_alone(live: &Value, path: &FieldPath, applies_as: &str) -> bool {
    let owners = path.pointer(live).map(|pointer| owners_at(live, &pointer));
    let owners = owners.unwrap_or_default();
    !owners.is_empty() && owners.iter().all(|owner| is_us(owner, applies_as))
}

fn is_us(owner: &Owner, applies_as: &str) -> bool {
    owner.manager == AGENT_FIELD_MANAGER
        || (owner.manager == applies_as && owner.operation == Operation::Apply)
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
            rival(&live, &found[0].path, AGENT_FIELD_MANAGER)
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
        assert_eq!(rival(&bare, &FieldPath::default(), AGENT_FIELD_MANAGER), None);
    }

    #[test]
    fn the_manager_that_a_bundle_applies_as_is_no_rival_of_its_own() {
        let live = live();
        let patch = json!({"spec": {"replicas": 3, "template": {"spec": {"tolerations": [{"key": "a"}]}}}});
        let found = differences(&patch, &live);
        let rivals = |applies_as: &str| -> Vec<Option<String>> {
            let paths = found.iter().map(|found| &found.path);
            paths.map(|path| rival(&live, path, applies_as)).collect()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(rivals("setter"), [name("hpa"), None]);
        assert_eq!(
            rivals("hpa"),
            [name("hpa"), name("setter")],
            "it updates, which we never do under that name"
        );
    }

    #[test]
    fn a_field_is_ours_alone_where_nobody_else_is_named() {
        let object = |managers: &[(&str, &str)]| {
            let entry = |(manager, operation): &(&str, &str)| {
                json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:annotations": {"f:a": {}}}}})
            };
            let entries: Vec<Value> = managers.iter().map(entry).collect();
            json!({"metadata": {"annotations": {"a": "b"}, "managedFields": entries}})
        };
        let path = FieldPath::default()
            .field("metadata")
            .field("annotations")
            .field("a");
        for (managers, expected) in [
            (&[("roundhouse-agent", "Update")][..], true),
            (&[("roundhouse-agent", "Update"), ("web", "Apply")], true),
            (&[("roundhouse-agent", "Update"), ("web", "Update")], false),
            // Exported with its managedFields, and put back.
            (
                &[("roundhouse-agent", "Update"), ("kubectl-create", "Update")],
                false,
            ),
            (&[("kubectl-create", "Update")], false),
            // Nobody knows.
            (&[], false),
        ] {
            assert_eq!(
                is_ours_alone(&object(managers), &path, "web"),
                expected,
                "{managers:?}"
            );
        }
    }
}
