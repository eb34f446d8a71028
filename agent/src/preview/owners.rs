//! Owners: who set a field, by the managedFields of the live object (`FieldsV1` of Kubernetes).

use crate::object::text;
use crate::preview::path::{FieldPath, Step};
use roundhouse_api::names::AGENT_FIELD_MANAGER;
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

/// The managedFields of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    entries: &'a [Value],
    /// The field manager of this object's manifest, if it names one.
    own_manager: Option<&'a str>,
}

impl<'a> Owners<'a> {
    pub(crate) fn new(live: &'a Value, own_manager: Option<&'a str>) -> Self {
        let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
        Owners {
            entries: entries.map_or(&[], Vec::as_slice),
            own_manager,
        }
    }

    /// Whether the member keeps managedFields of this object.
    pub(crate) fn are_known(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Who owns the field at a path, or anything below it.
    pub(crate) fn of(&self, path: &FieldPath) -> Vec<Owner> {
        let owning = self.entries.iter().filter(|entry| {
            let fields = entry.get("fieldsV1");
            fields.is_some_and(|fields| owns(fields, &path.0))
        });
        owning.map(|entry| self.owner(entry)).collect()
    }

    fn owner(&self, entry: &Value) -> Owner {
        let read = |field: &str| text(entry, field).unwrap_or_default().to_owned();
        let manager = read("/manager");
        Owner {
            ours: manager == AGENT_FIELD_MANAGER || Some(manager.as_str()) == self.own_manager,
            manager,
            operation: read("/operation"),
            subresource: read("/subresource"),
            time: read("/time"),
        }
    }
}

/// Whether a set of fields has something at or below the steps. A member without anything below it is owned whole.
fn owns(fields: &Value, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    let Some(fields) = fields.as_object() else {
        return false;
    };
    fields.iter().any(|(member, below)| {
        let whole = below.as_object().is_none_or(serde_json::Map::is_empty);
        is_step(member, step) && (whole || owns(below, rest))
    })
}

/// Whether a member of `FieldsV1` is a step: `f:<name>`, `k:<keys as JSON>`, `v:<value as JSON>`.
fn is_step(member: &str, step: &Step) -> bool {
    let json = |prefix: &str| -> Option<Value> { serde_json::from_str(member.strip_prefix(prefix)?).ok() };
    match step {
        Step::Field(name) => member.strip_prefix("f:") == Some(name),
        Step::Element { key, value } => json("k:").is_some_and(|keys| keys.get(key) == Some(value)),
        Step::Item(item) => json("v:").as_ref() == Some(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_owns_what() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "roundhouse-agent", "operation": "Update", "fieldsV1": {"f:spec": {
                "f:replicas": {}, "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:args": {}}}}}},
            {"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {
                "f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}, "f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}});
        let owners = Owners::new(&live, None);
        let field = |name: &str| Step::Field(name.to_owned());
        let main = |name: &str| Step::Element {
            key: "name".to_owned(),
            value: json!(name),
        };
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
                vec![
                    field("spec"),
                    field("containers"),
                    main("main"),
                    field("args"),
                    field("x"),
                ],
                "roundhouse-agent",
            ),
            (
                vec![field("spec"), field("containers"), main("main")],
                "roundhouse-agent kubectl-edit",
            ),
            (vec![field("spec"), field("containers"), main("other")], ""),
            (
                vec![field("metadata"), field("finalizers"), Step::Item(json!("x"))],
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
