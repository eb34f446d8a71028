//! The form objects are stored in: canonical bytes without `apiVersion` and `kind`, which the table implies.

use bytes::Bytes;
use serde_json::Value;

use crate::{kinds::Resource, object};

/// A stored object as its kind, in the version asked for.
pub(crate) fn decode_stored(resource: &Resource, bytes: &[u8]) -> Value {
    let mut value = object::decode(bytes);
    object::set(&mut value, "apiVersion", Some(resource.api_version().into()));
    object::set(&mut value, "kind", Some(resource.kind.as_ref().into()));
    value
}

/// The bytes to store at a revision. Sets `metadata.resourceVersion` of `value` to it.
pub(crate) fn encode_stored(value: &mut Value, revision: u64) -> Bytes {
    object::set_meta(value, "resourceVersion", Some(revision.to_string().into()));
    let take = |value: &mut Value, key: &str| value.as_object_mut().and_then(|m| m.remove(key));
    let (api_version, kind) = (take(value, "apiVersion"), take(value, "kind"));
    let bytes = object::encode(value);
    object::set(value, "apiVersion", api_version);
    object::set(value, "kind", kind);
    bytes
}

/// What stands before the stored bytes (without their opening brace) to make them a whole object.
pub(crate) fn type_prefix(resource: &Resource) -> String {
    let kind = Value::from(resource.kind.as_ref());
    let api_version = Value::from(resource.api_version());
    format!("{{\"apiVersion\":{api_version},\"kind\":{kind},")
}
