//! Identity of objects in a member, and the few fields of them that bookkeeping reads.

use kube::core::GroupVersionKind;
use roundhouse_api::ledger::LedgerEntry;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

/// Which object: the API version is no part of it, a change of version is no removal.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    /// API group, empty for the core group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of a ledger's entry.
    pub(crate) fn of_entry(entry: &LedgerEntry) -> Self {
        ObjectKey {
            group: entry.group.clone(),
            kind: entry.kind.clone(),
            namespace: entry.namespace.clone(),
            name: entry.name.clone(),
        }
    }

    /// Whether a ledger's entry is of this object.
    pub(crate) fn is_of(&self, entry: &LedgerEntry) -> bool {
        self.order_of(entry).is_eq()
    }

    /// Where a ledger's entry stands to this object: the order of keys.
    pub(crate) fn order_of(&self, entry: &LedgerEntry) -> Ordering {
        let theirs = (&entry.group, &entry.kind, &entry.namespace, &entry.name);
        theirs.cmp(&(&self.group, &self.kind, &self.namespace, &self.name))
    }

    /// The kind at one version.
    pub(crate) fn gvk(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, version, &self.kind)
    }

    /// Whether this key, as the member names the object, is what a manifest's key means: the namespace of a
    /// cluster-scoped object is nothing.
    pub(crate) fn is_meant_by(&self, manifest: &ObjectKey) -> bool {
        self.group == manifest.group
            && self.kind == manifest.kind
            && self.name == manifest.name
            && (self.namespace.is_empty() || self.namespace == manifest.namespace)
    }

    /// Whether this is the built-in kind `kind` of `group`.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Splits `apiVersion` into group and version; `None` if it has no version or too many parts.
pub(crate) fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let well_formed =
        !version.is_empty() && !version.contains('/') && (group.is_empty() != api_version.contains('/'));
    well_formed.then_some((group, version))
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// The whole number at a JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// An annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// A label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> Option<&str> {
    text(object, "/metadata/uid")
}

/// `metadata.resourceVersion`.
pub(crate) fn resource_version(object: &Value) -> Option<&str> {
    text(object, "/metadata/resourceVersion")
}

/// `metadata.generation`, 0 for kinds that have none.
pub(crate) fn generation(object: &Value) -> i64 {
    number(object, "/metadata/generation").unwrap_or(0)
}

/// Whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

/// The condition of a type, if the object has one.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(type_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_split() {
        assert_eq!(split_api_version("v1"), Some(("", "v1")));
        assert_eq!(split_api_version("apps/v1"), Some(("apps", "v1")));
        for bad in ["", "/", "/v1", "apps/", "a/b/c"] {
            assert_eq!(split_api_version(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn keys_read_as_kubectl_prints_them() {
        let key = |group: &str, namespace: &str| ObjectKey {
            group: group.into(),
            kind: "Thing".into(),
            namespace: namespace.into(),
            name: "a".into(),
        };
        assert_eq!(key("", "").to_string(), "Thing a");
        assert_eq!(key("x.io", "default").to_string(), "Thing.x.io default/a");
    }
}
