//! Owners: who set a field, by the managedFields of the live object (`FieldsV1` of Kubernetes).

use crate::path::FieldPath;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_patch::managed::owners_at;
use serde_json::Value;

/// Who set a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The field manager: `kubectl-edit`, `kube-controller-manager`, …
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource that was written: `scale`, `status`; empty for the object itself.
    pub subresource: String,
    /// When, as the member says.
    pub time: String,
    /// Whether it is the agent itself.
    pub ours: bool,
}

impl Owner {
    /// Somebody else who meant the field; what a controller writes beside a status is its own bookkeeping.
    pub(crate) fn is_author(&self) -> bool {
        !self.ours && self.subresource != "status"
    }
}

/// Who set the fields of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    live: &'a Value,
    /// The field manager of this object's manifest, if it names one.
    own_manager: Option<&'a str>,
}

impl<'a> Owners<'a> {
    pub(crate) fn new(live: &'a Value, own_manager: Option<&'a str>) -> Self {
        Owners { live, own_manager }
    }

    /// Whether the member keeps managedFields of this object.
    pub(crate) fn are_known(&self) -> bool {
        let entries = self
            .live
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array);
        entries.is_some_and(|entries| !entries.is_empty())
    }

    /// Who owns the field at a path, or anything below it; the latest first.
    pub(crate) fn of(&self, path: &FieldPath) -> Vec<Owner> {
        let Some(pointer) = path.pointer(self.live) else {
            return Vec::new();
        };
        let owners = owners_at(self.live, &pointer).into_iter();
        owners
            .map(|owner| Owner {
                ours: owner.manager == AGENT_FIELD_MANAGER
                    || Some(owner.manager.as_str()) == self.own_manager,
                operation: owner.operation.name().to_owned(),
                manager: owner.manager,
                subresource: owner.subresource,
                time: owner.time,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Step;
    use serde_json::json;

    #[test]
    fn who_owns_what() {
        let live = json!({"spec": {"replicas": 2, "paused": true,
            "containers": [{"name": "other"}, {"name": "main", "image": "i", "args": ["x"]}]},
            "metadata": {"finalizers": ["x"], "managedFields": [
            {"manager": "roundhouse-agent", "operation": "Update", "fieldsV1": {"f:spec": {
                "f:replicas": {}, "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:args": {}}}}}},
            {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {
                "f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}, "f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}});
        let owners = Owners::new(&live, None);
        let field = |name: &str| Step::Field(name.into());
        let main = |name: &str| Step::element("name", &json!(name));
        for (steps, expected) in [
            (
                vec![field("spec"), field("replicas")],
                "roundhouse-agent kube-controller-manager",
            ),
            (
                vec![field("spec"), field("containers"), main("main"), field("image")],
                "kubectl-edit",
            ),
            (
                vec![field("spec"), field("containers"), main("main"), field("args")],
                "roundhouse-agent",
            ),
            (
                vec![field("spec"), field("containers"), main("main")],
                "kubectl-edit roundhouse-agent",
            ),
            (vec![field("spec"), field("containers"), main("other")], ""),
            (
                vec![field("metadata"), field("finalizers"), Step::item(&json!("x"))],
                "kubectl-edit",
            ),
            (vec![field("spec"), field("paused")], ""),
        ] {
            let path = FieldPath(steps);
            let found: Vec<String> = owners.of(&path).into_iter().map(|owner| owner.manager).collect();
            assert_eq!(found.join(" "), expected, "{path}");
        }
        assert!(owners.are_known());
        assert!(!Owners::new(&json!({"metadata": {}}), None).are_known());
    }
}
