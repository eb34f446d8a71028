//! The shape an answer is given in.

use serde_json::{Value, json};

/// `PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(value: &Value) -> Value {
    let metadata = value.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
