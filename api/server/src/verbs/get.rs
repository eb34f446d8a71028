//! `GET` of one object.

use bytes::BytesMut;
use serde_json::json;

use super::{Call, decode_stored, list, put_stored, stored::Stored, type_prefix};
use crate::{
    error::ApiError,
    object,
    output::metadata_only,
    request::Format,
    server::Core,
    service::Reply,
    store::Record,
    table::{Columns, table},
};

/// Answers with an object in the shape asked for.
pub(super) fn get(core: &Core, call: &Call) -> Result<Reply, ApiError> {
    list::check_reached(core, list::parse_version(&call.query.resource_version)?)?;
    let record = core.store.get(&call.key());
    let record = record.ok_or_else(|| call.resource.not_found(call.name()))?;
    Ok(match call.output.format {
        Format::Object | Format::Discovery if !call.output.yaml => copied(call, 200, &record),
        _ => shaped(core, call, 200, decode_stored(&call.resource, &record.bytes)),
    })
}

/// An object that was just written, in the shape asked for.
pub(super) fn written(core: &Core, call: &Call, code: u16, stored: Stored) -> Reply {
    match (call.output.format, &stored.record) {
        (Format::Object | Format::Discovery, Some(record)) if !call.output.yaml => copied(call, code, record),
        _ => shaped(core, call, code, stored.value),
    }
}

/// An object as it is stored.
fn copied(call: &Call, code: u16, record: &Record) -> Reply {
    let prefix = type_prefix(&call.resource);
    let mut out = BytesMut::with_capacity(prefix.len() + record.bytes.len());
    put_stored(&mut out, &call.resource, &prefix, record.revision, &record.bytes);
    Reply::json(code, out.freeze())
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
