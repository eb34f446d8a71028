//! The shape an answer is given in.

use serde_json::{Value, json};

/// What stands before the metadata of an object to make it a `PartialObjectMetadata`, and is closed by a brace.
pub(crate) const METADATA_PREFIX: &str =
    r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":"#;

/// `PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(value: &Value) -> Value {
    let metadata = value.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
