//! `fieldSelector`: equality on the few fields Kubernetes can select each kind by.

use serde_json::Value;

use super::SelectorError;
use crate::{kinds::Resource, store::Key};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    path: Vec<String>,
    value: String,
    equal: bool,
}

/// A conjunction of (in)equalities on fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSelector(Vec<Term>);

impl FieldSelector {
    /// Reads a selector such as `metadata.name=a,status.phase!=Running`, for a kind that can be selected so.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, SelectorError> {
        let fail = |why: String| SelectorError {
            text: text.to_owned(),
            why,
        };
        let mut terms = vec![];
        for part in split_escaped(text).into_iter().filter(|p| !p.trim().is_empty()) {
            let (at, len, equal) =
                operator(&part).ok_or_else(|| fail(format!("{part:?} is no comparison")))?;
            let field = part.get(..at).unwrap_or_default().trim().to_owned();
            if !selectable(resource, &field) {
                return Err(fail(format!(
                    "{field:?} is not a known field selector of {}",
                    resource.kind
                )));
            }
            let value = unescape(part.get(at + len..).unwrap_or_default())
                .ok_or_else(|| fail("stray backslash".into()))?;
            terms.push(Term {
                path: resource
                    .conversion
                    .map_or_else(|| field.clone(), |c| (c.stored_field)(&field))
                    .split('.')
                    .map(str::to_owned)
                    .collect(),
                value,
                equal,
            });
        }
        Ok(Self(terms))
    }

    /// The one name that a selector of any kind is confined to (`metadata.name=x`): whoever asks for it asks for that
    /// object. What is no selector confines to nothing.
    pub(crate) fn exact_name(text: &str) -> Option<String> {
        split_escaped(text).into_iter().find_map(|part| {
            let (at, len, equal) = operator(&part)?;
            let named = equal && part.get(..at)?.trim() == "metadata.name";
            let name = unescape(part.get(at + len..)?)?;
            (named && !name.is_empty() && crate::names::path_segment(&name).is_empty()).then_some(name)
        })
    }

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the key alone decides.
    pub(crate) fn key_only(&self) -> bool {
        self.0.iter().all(
            |t| matches!(t.path.as_slice(), [m, n] if m == "metadata" && (n == "name" || n == "namespace")),
        )
    }

    /// Whether the object is selected; `object` is asked for only if the key does not decide.
    pub(crate) fn matches(&self, key: &Key, object: impl FnOnce() -> Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let object = if self.key_only() { Value::Null } else { object() };
        self.0.iter().all(|term| {
            let path: Vec<&str> = term.path.iter().map(String::as_str).collect();
            let have = match path.as_slice() {
                ["metadata", "name"] => key.name.to_string(),
                ["metadata", "namespace"] => key.namespace.to_string(),
                ["source"] => source(&object),
                ["status", "successful"] => value_at(&object, &["status", "succeeded"]),
                path => value_at(&object, path),
            };
            (have == term.value) == term.equal
        })
    }
}

fn value_at(object: &Value, path: &[&str]) -> String {
    let value = crate::object::at(object, path);
    value.map_or_else(|| default_of(path), scalar)
}

/// Who tells of an event: newer ones say it elsewhere.
fn source(event: &Value) -> String {
    match value_at(event, &["source", "component"]) {
        component if component.is_empty() => value_at(event, &["reportingComponent"]),
        component => component,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// What an absent field compares as: the zero value of its Go type.
fn default_of(path: &[&str]) -> String {
    match path {
        ["spec", "unschedulable" | "hostNetwork"] => "false".into(),
        ["status", "succeeded" | "replicas"] => "0".into(),
        _ => String::new(),
    }
}

/// From `AddFieldLabelConversionFunc` and `SelectableFields` of each kind in Kubernetes.
fn selectable(resource: &Resource, field: &str) -> bool {
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return true;
    }
    if let Some(custom) = &resource.custom {
        return custom.selectable.iter().any(|f| f == field);
    }
    let fields: &[&str] = match (&*resource.group, &*resource.kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", _) => &["spec.signerName"],
        _ => &[],
    };
    fields.contains(&field)
}

/// Splits at commas that no backslash escapes.
fn split_escaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// Position and length of the first operator, and whether it asks for equality.
fn operator(part: &str) -> Option<(usize, usize, bool)> {
    [("!=", false), ("==", true), ("=", true)]
        .into_iter()
        .filter_map(|(op, equal)| part.find(op).map(|at| (at, op.len(), equal)))
        .min_by_key(|(at, len, _)| (*at, usize::MAX - len))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => out.push(c),
                _ => return None,
            },
            ',' | '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    fn matches(kind: &str, text: &str, object: Value) -> Option<bool> {
        let resource = Registry::default().by_kind("v1", kind)?;
        let key = Key::new(&resource.table, "ns", "a");
        FieldSelector::parse(text, &resource)
            .ok()
            .map(|s| s.matches(&key, || object))
    }

    #[test]
    fn fields() {
        let pod = || json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        let table = [
            ("metadata.name=a", Some(true)),
            ("metadata.name!=a", Some(false)),
            ("metadata.name==a,spec.nodeName=n1", Some(true)),
            ("status.phase!=Running", Some(false)),
            ("spec.hostNetwork=false", Some(true)),
            ("spec.nodeName=n\\,1", Some(false)),
            ("spec.image=x", None),
            ("metadata.name", None),
            ("", Some(true)),
        ];
        for (text, want) in table {
            assert_eq!(matches("Pod", text, pod()), want, "{text}");
        }
        assert_eq!(matches("ConfigMap", "data.a=1", json!({})), None);
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}|[a-z.=!,\\\\]{0,30}") {
            let _ = matches("Pod", &text, json!({}));
        }
    }
}
