//! Spelling: whether a server only wrote our value in its own way. Kubernetes keeps quantities in canonical form, times
//! in UTC, fills defaults into the elements of lists, leaves out what is nothing, and has base64 in one line.
//!
//! `1.10` and `1.1` are one quantity and two texts: a difference that stands is called a spelling only where a built-in
//! kind is known to hold quantities or times. Elsewhere, and in custom kinds, the server has to prove it by its answer to
//! our own write.

use crate::path::{FieldPath, Step};
use jiff::Timestamp;
use roundhouse_patch::quantity;
use serde_json::Value;
use std::cmp::Ordering;

/// Where values may be spelled in several ways.
#[derive(Debug, Clone, Copy)]
enum Places<'a> {
    /// Where this built-in kind holds quantities and times; `None`: a custom kind, nowhere.
    Known(Option<&'a str>),
    /// Anywhere.
    Any,
}

/// Whether `theirs` says what `ours` says, of a built-in kind or (`None`) of a custom one.
pub(crate) fn same_meaning(kind: Option<&str>, path: &FieldPath, ours: &Value, theirs: &Value) -> bool {
    same_at(Places::Known(kind), path, ours, theirs)
}

/// Whether `theirs`, in the server's answer to the very write of `ours`, may be its spelling of it.
pub(crate) fn may_be_respelled(path: &FieldPath, ours: &Value, theirs: &Value) -> bool {
    same_at(Places::Any, path, ours, theirs)
}

/// Whether a server may have left `ours` out of what it stores, of a built-in kind or (`None`) of a custom one.
pub(crate) fn is_left_out(kind: Option<&str>, path: &FieldPath, ours: &Value) -> bool {
    is_empty(ours) || (!is_verbatim(path) && Places::Known(kind).leave_out(place(path), ours))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn same_at(places: Places<'_>, path: &FieldPath, ours: &Value, theirs: &Value) -> bool {
    if is_verbatim(path) {
        return ours == theirs;
    }
    places.same(place(path), ours, theirs)
}

/// Below `metadata` and `data` every value is text that no server respells.
fn is_verbatim(path: &FieldPath) -> bool {
    let verbatim = ["metadata", "data", "stringData", "binaryData"];
    verbatim.iter().any(|field| path.is_below(&[field]))
}

/// The names of a field and of the one above it, the latter first.
fn place(path: &FieldPath) -> (&str, &str) {
    let mut names = path.0.iter().rev().filter_map(|step| match step {
        Step::Field(name) => Some(&**name),
        Step::Element { .. } | Step::Item(_) => None,
    });
    let name = names.next().unwrap_or_default();
    let parent = names.next().unwrap_or_default();
    (parent, name)
}

impl Places<'_> {
    /// `place`: the names of the field and of the one above it.
    fn same(self, place: (&str, &str), ours: &Value, theirs: &Value) -> bool {
        match (ours, theirs) {
            (Value::Object(ours), Value::Object(theirs)) => ours
                .iter()
                .filter(|(name, _)| !name.starts_with('$'))
                .all(|(name, ours)| {
                    self.same((place.1, name), ours, theirs.get(name).unwrap_or(&Value::Null))
                }),
            (Value::Array(ours), Value::Array(theirs)) => {
                let mut pairs = ours.iter().zip(theirs);
                ours.len() == theirs.len() && pairs.all(|(ours, theirs)| self.same(place, ours, theirs))
            }
            (ours, Value::Null) if is_empty(ours) => true,
            (ours, theirs) => {
                ours == theirs
                    || (theirs.is_null() && self.leave_out(place, ours))
                    || (self.hold_quantity(place) && same_quantity(ours, theirs))
                    || (self.hold_time(place) && same_time(ours, theirs))
                    || (self.hold_base64(place) && same_base64(ours, theirs))
            }
        }
    }

    /// The fields of type `Quantity` in Kubernetes' API, by their names and where they are maps by the name of the map.
    fn hold_quantity(self, (parent, name): (&str, &str)) -> bool {
        let kind = match self {
            Places::Any => return true,
            Places::Known(None) => return false,
            Places::Known(Some(kind)) => kind,
        };
        match parent {
            "limits" | "requests" | "capacity" | "overhead" | "podFixed" => true,
            "hard" => kind == "ResourceQuota",
            "max" | "min" | "default" | "defaultRequest" | "maxLimitRequestRatio" => kind == "LimitRange",
            "emptyDir" => name == "sizeLimit",
            "resourceFieldRef" => name == "divisor",
            "target" => kind == "HorizontalPodAutoscaler" && matches!(name, "value" | "averageValue"),
            _ => false,
        }
    }

    /// Base64 outside of Secrets and ConfigMaps: certificates of webhooks, aggregated APIs and definitions.
    fn hold_base64(self, (_, name): (&str, &str)) -> bool {
        matches!(self, Places::Any | Places::Known(Some(_))) && name == "caBundle"
    }

    /// The fields of Kubernetes' API that are not stored where they are `false`, 0 or empty, and that mean just that where they
    /// are missing. Others are stored so, and without them something else holds: `automountServiceAccountToken: false`,
    /// `storageClassName: ""`, `ttlSecondsAfterFinished: 0`.
    fn leave_out(self, (parent, name): (&str, &str), ours: &Value) -> bool {
        if !matches!(self, Places::Any | Places::Known(Some(_))) {
            return false;
        }
        match ours {
            Value::Bool(false) => matches!(
                name,
                "deprecated"
                    | "globalDefault"
                    | "hostIPC"
                    | "hostNetwork"
                    | "hostPID"
                    | "paused"
                    | "preserveUnknownFields"
                    | "publishNotReadyAddresses"
                    | "readOnly"
                    | "stdin"
                    | "stdinOnce"
                    | "tty"
                    | "unschedulable"
            ),
            Value::Number(number) => {
                number.as_f64() == Some(0.0) && matches!(name, "hostPort" | "minReadySeconds")
            }
            Value::String(text) => {
                let is_known = match name {
                    "value" => parent == "env" || parent == "tolerations",
                    "key" | "effect" => parent == "tolerations",
                    "apiGroup" => parent == "subjects",
                    "medium" => parent == "emptyDir",
                    "fsType" | "hostIP" | "hostname" | "nodeName" | "priorityClassName" | "subPath"
                    | "subPathExpr" | "subdomain" | "workingDir" => true,
                    _ => false,
                };
                text.is_empty() && is_known
            }
            _ => false,
        }
    }

    fn hold_time(self, (_, name): (&str, &str)) -> bool {
        match self {
            Places::Any => true,
            Places::Known(None) => false,
            Places::Known(Some("Lease")) => matches!(name, "acquireTime" | "renewTime"),
            Places::Known(Some("Node")) => name == "timeAdded",
            Places::Known(Some(_)) => false,
        }
    }
}

fn same_quantity(ours: &Value, theirs: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let texts = text(ours).zip(text(theirs));
    texts.and_then(|(ours, theirs)| quantity::compare(&ours, &theirs)) == Some(Ordering::Equal)
}

/// An API server writes base64 in one line.
fn same_base64(ours: &Value, theirs: &Value) -> bool {
    let line = |value: &Value| value.as_str().map(|text| text.replace(['\r', '\n'], ""));
    line(ours).is_some_and(|ours| line(theirs) == Some(ours))
}

fn same_time(ours: &Value, theirs: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time(ours).is_some_and(|ours| time(theirs) == Some(ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> FieldPath {
        FieldPath(text.split('.').map(|name| Step::Field(name.into())).collect())
    }

    #[test]
    fn what_the_servers_answer_may_spell() {
        for (ours, theirs, expected) in [
            (json!("1000m"), json!("1"), true),
            (json!(1), json!("1"), true),
            (json!("1024Mi"), json!("1Gi"), true),
            (json!(0.5), json!("500m"), true),
            (json!("1"), json!("2"), false),
            (json!("100n"), json!("200n"), false),
            (json!("text"), json!("other"), false),
            (json!(""), json!("0"), false),
            (json!(true), json!("true"), false),
            (
                json!("2026-01-01T01:00:00+01:00"),
                json!("2026-01-01T00:00:00Z"),
                true,
            ),
            (
                json!([{"key": "a"}]),
                json!([{"key": "a", "operator": "Equal"}]),
                true,
            ),
            (json!([{"key": "a"}]), json!([{"key": "a"}, {"key": "b"}]), false),
            (json!([{"key": "a", "x": {}}]), json!([{"key": "a"}]), true),
            (json!([{"key": "a", "x": 1}]), json!([{"key": "a"}]), false),
            (
                json!([{"clientConfig": {"caBundle": "aGVs\nbG8=\n"}}]),
                json!([{"clientConfig": {"caBundle": "aGVsbG8="}}]),
                true,
            ),
            (
                json!([{"clientConfig": {"caBundle": "aGVs\nbG8=\n"}}]),
                json!([{"clientConfig": {"caBundle": "b3RoZXI="}}]),
                false,
            ),
            (json!("a\nb"), json!("ab"), false),
        ] {
            let same = may_be_respelled(&path("spec.field"), &ours, &theirs);
            assert_eq!(same, expected, "{ours} {theirs}");
        }
    }

    #[test]
    fn what_stands_is_a_spelling_only_where_quantities_are_known_to_be() {
        let resources = json!({"limits": {"cpu": "1000m"}, "requests": {"memory": "1024Mi"}});
        let canonical = json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}});
        for (kind, at, ours, theirs, expected) in [
            (
                Some("Deployment"),
                "spec.limits.cpu",
                json!("1000m"),
                json!("1"),
                true,
            ),
            (
                Some("Deployment"),
                "spec.limits.cpu",
                json!("1000m"),
                json!("2"),
                false,
            ),
            (
                Some("Deployment"),
                "spec.limits.cpu",
                json!("100n"),
                json!("200n"),
                false,
            ),
            (
                Some("Deployment"),
                "spec.containers",
                json!([{"name": "a", "resources": resources}]),
                json!([{"name": "a", "resources": canonical}]),
                true,
            ),
            (
                Some("Deployment"),
                "spec.env.value",
                json!("1000m"),
                json!("1"),
                false,
            ),
            (
                Some("Deployment"),
                "spec.env.value",
                json!("1.10"),
                json!("1.1"),
                false,
            ),
            (
                Some("Deployment"),
                "spec.max.cpu",
                json!("1000m"),
                json!("1"),
                false,
            ),
            (
                Some("LimitRange"),
                "spec.max.cpu",
                json!("1000m"),
                json!("1"),
                true,
            ),
            (
                Some("HorizontalPodAutoscaler"),
                "spec.metrics.resource.target.averageValue",
                json!("0.5"),
                json!("500m"),
                true,
            ),
            (
                Some("ValidatingWebhookConfiguration"),
                "webhooks.clientConfig.caBundle",
                json!("aGVs\nbG8=\n"),
                json!("aGVsbG8="),
                true,
            ),
            // The server leaves out what is nothing anyway.
            (
                Some("RoleBinding"),
                "subjects",
                json!([{"kind": "ServiceAccount", "name": "a", "apiGroup": ""}]),
                json!([{"kind": "ServiceAccount", "name": "a"}]),
                true,
            ),
            (
                Some("Deployment"),
                "spec.volumes",
                json!([{"name": "a", "persistentVolumeClaim": {"claimName": "b", "readOnly": false}}]),
                json!([{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]),
                true,
            ),
            // Nobody knows what a custom kind means by its fields.
            (
                None,
                "spec.volumes",
                json!([{"name": "a", "readOnly": false}]),
                json!([{"name": "a"}]),
                false,
            ),
            (
                None,
                "spec.caBundle",
                json!("aGVs\nbG8=\n"),
                json!("aGVsbG8="),
                false,
            ),
            (None, "spec.limits.cpu", json!("1000m"), json!("1"), false),
            (None, "spec.version", json!("1.10"), json!("1.1"), false),
            (None, "spec.list", json!([]), json!(null), true),
            (
                Some("Lease"),
                "spec.renewTime",
                json!("2026-01-01T01:00:00+01:00"),
                json!("2026-01-01T00:00:00Z"),
                true,
            ),
            (
                Some("Deployment"),
                "spec.env.value",
                json!("2026-01-01T01:00:00+01:00"),
                json!("2026-01-01T00:00:00Z"),
                false,
            ),
        ] {
            let same = same_meaning(kind, &path(at), &ours, &theirs);
            assert_eq!(same, expected, "{kind:?} {at} {ours} {theirs}");
        }
    }
}
