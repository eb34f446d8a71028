//! The form objects are stored in: canonical bytes of the stored version without `apiVersion` and `kind`, which the table
//! implies.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use crate::{
    admission::prune_root,
    crd::CustomVersion,
    kinds::Resource,
    object,
    output::{METADATA_PREFIX, metadata_only},
    schema::{Definitions, apply_defaults},
    store::Record,
};

/// An object that was just written.
#[derive(Debug)]
pub(crate) struct Stored {
    /// As its kind, in the version it was written in.
    pub(crate) value: Value,
    /// As it is stored; absent if nothing was.
    pub(crate) record: Option<Record>,
}

impl Stored {
    /// What stays as it was, or would be written.
    pub(crate) fn unwritten(value: Value) -> Self {
        Self { value, record: None }
    }
}

/// A stored object as its kind, in the version asked for.
pub(crate) fn decode_stored(resource: &Resource, bytes: &[u8]) -> Value {
    let mut value = object::decode(bytes);
    if let Some(conversion) = &resource.conversion {
        conversion.serve(&mut value);
    }
    let revision = object::meta(&value, "resourceVersion").parse().unwrap_or(0);
    if let Some(custom) = unshaped(resource, revision) {
        prune_root(&mut value, &custom.schema);
        apply_defaults(&mut value, &custom.schema, &Definitions::new());
    }
    object::set(&mut value, "apiVersion", Some(resource.api_version().into()));
    object::set(&mut value, "kind", Some(resource.kind.as_ref().into()));
    value
}

/// The version whose shape an object of this revision may not have: it may lack defaults, and have fields that are unknown by
/// now, as it was stored before the definition was as it is.
fn unshaped(resource: &Resource, revision: u64) -> Option<&CustomVersion> {
    let custom = resource.custom.as_deref()?;
    (revision <= resource.shaped_since).then_some(custom)
}

/// Whether an object of this revision is stored in the version and shape that it is served in.
fn is_served_as_stored(resource: &Resource, revision: u64) -> bool {
    resource.conversion.is_none() && unshaped(resource, revision).is_none()
}

/// The bytes to store at a revision. Sets `metadata.resourceVersion` of `value` to it.
pub(crate) fn encode_stored(resource: &Resource, value: &mut Value, revision: u64) -> Bytes {
    object::set_meta(value, "resourceVersion", Some(revision.to_string().into()));
    let take = |value: &mut Value, key: &str| value.as_object_mut().and_then(|m| m.remove(key));
    let (api_version, kind) = (take(value, "apiVersion"), take(value, "kind"));
    let bytes = match &resource.conversion {
        Some(conversion) => object::encode(&conversion.stored(value)),
        None => object::encode(value),
    };
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

/// Writes a stored object as JSON: `prefix` (an opening brace, or [`type_prefix`]) and then its fields. Stored bytes are
/// copied, unless they are of another version or shape.
pub(crate) fn put_stored(
    out: &mut BytesMut,
    resource: &Resource,
    prefix: &str,
    revision: u64,
    bytes: &Bytes,
) {
    out.put_slice(prefix.as_bytes());
    if is_served_as_stored(resource, revision) {
        out.put_slice(bytes.get(1..).unwrap_or_default());
        return;
    }
    let mut value = decode_stored(resource, bytes);
    for key in ["apiVersion", "kind"] {
        object::set(&mut value, key, None);
    }
    out.put_slice(object::encode(&value).get(1..).unwrap_or_default());
}

/// Writes the `PartialObjectMetadata` of a stored object as JSON. Stored bytes are copied, unless they are of another version or
/// shape.
pub(crate) fn put_metadata(out: &mut BytesMut, resource: &Resource, revision: u64, bytes: &Bytes) {
    let as_stored = is_served_as_stored(resource, revision);
    match as_stored.then(|| object::slice(bytes, "metadata")).flatten() {
        Some(metadata) => {
            out.put_slice(METADATA_PREFIX.as_bytes());
            out.put_slice(metadata);
            out.put_slice(b"}");
        }
        None => out.put_slice(&object::encode(&metadata_only(&decode_stored(resource, bytes)))),
    }
}
