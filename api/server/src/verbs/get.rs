//! `GET` of one object.

use bytes::{BufMut, BytesMut};
use serde_json::json;

use super::{Call, decode_stored, list, type_prefix};
use crate::{
    error::ApiError,
    object,
    output::metadata_only,
    request::Format,
    server::Core,
    service::Reply,
    table::{Columns, table},
};

/// Answers with an object in the shape asked for.
pub(super) fn get(core: &Core, call: &Call) -> Result<Reply, ApiError> {
    list::check_reached(core, list::parse_version(&call.query.resource_version)?)?;
    let record = core
        .store
        .get(&call.key())
        .ok_or_else(|| call.resource.not_found(call.name()))?;
    Ok(match call.output.format {
        Format::Object | Format::Discovery if !call.output.yaml => {
            let prefix = type_prefix(&call.resource);
            let mut out = BytesMut::with_capacity(prefix.len() + record.bytes.len());
            out.put_slice(prefix.as_bytes());
            out.put_slice(record.bytes.get(1..).unwrap_or_default());
            Reply::json(out.freeze())
        }
        _ => shaped(core, call, 200, decode_stored(&call.resource, &record.bytes)),
    })
}

/// An object in the shape asked for.
pub(super) fn shaped(core: &Core, call: &Call, code: u16, value: serde_json::Value) -> Reply {
    let value = match call.output.format {
        Format::Object | Format::Discovery => value,
        Format::Metadata => metadata_only(&value),
        Format::Table => {
            let meta = json!({"resourceVersion": object::meta(&value, "resourceVersion")});
            table(
                &Columns::of(call.resource.clone()),
                &[value],
                &meta,
                &call.query.include_object,
                (core.clock)(),
            )
        }
    };
    Reply::with(code, value)
}
