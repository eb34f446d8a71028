//! Objects in the protobuf encoding, which the typed clients of `kubectl create` and `kubectl auth` send.
//!
//! Only requests: every client that sends protobuf also takes JSON. A field that the table of [`messages`] does not know
//! is refused by name, so that nothing is lost silently.

mod messages;
mod wire;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use self::{
    messages::{Field, Kind, message},
    wire::{Part, Reader},
};
use crate::error::ApiError;

/// The media type.
pub(super) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads an object: the envelope `runtime.Unknown` with its `apiVersion` and `kind`, then the message of that kind.
///
/// # Errors
/// 400 if it is malformed, 415 if its kind or a field of it is not in the table.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    let body = bytes.strip_prefix(MAGIC).ok_or_else(malformed)?;
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for part in Reader(body) {
        match part.ok_or_else(malformed)? {
            (1, Part::Bytes(b)) => type_meta = b,
            (2, Part::Bytes(b)) => raw = b,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = ("", "");
    for part in Reader(type_meta) {
        match part.ok_or_else(malformed)? {
            (1, Part::Bytes(b)) => api_version = text(b)?,
            (2, Part::Bytes(b)) => kind = text(b)?,
            _ => {}
        }
    }
    let fields = message(kind).ok_or_else(|| unknown(&format!("kind {kind:?}")))?;
    let mut object = decode(kind, fields, raw)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(object.into())
}

fn malformed() -> ApiError {
    ApiError::bad_request("error decoding the body of the request: it is no Kubernetes protobuf message")
}

fn unknown(what: &str) -> ApiError {
    let got = format!("{MEDIA}, {what}");
    ApiError::unsupported_media_type(&got, "application/json, application/yaml")
}

fn text(bytes: &[u8]) -> Result<&str, ApiError> {
    std::str::from_utf8(bytes).map_err(|_| malformed())
}

fn decode(name: &str, fields: &[Field], bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let mut out = Map::new();
    for part in Reader(bytes) {
        let (number, part) = part.ok_or_else(malformed)?;
        let field = fields
            .iter()
            .find(|f| f.number == number)
            .ok_or_else(|| unknown(&format!("field {number} of {name}")))?;
        let value = read(&field.kind, part)?;
        match (&field.kind, field.repeated) {
            (Kind::TextMap | Kind::BytesMap | Kind::QuantityMap | Kind::ListMap, _) => {
                if let (Some(Value::Object(entry)), Some(map)) =
                    (value, crate::object::child(&mut out, field.name))
                {
                    map.extend(entry);
                }
            }
            (Kind::Message(_), false) if field.name == "." => {
                if let Some(Value::Object(inner)) = value {
                    out.extend(inner);
                }
            }
            (_, true) => {
                let list = out.entry(field.name).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(value.unwrap_or_else(|| json!({})));
                }
            }
            (_, false) => {
                // Go writes fields that are no pointers even if they are empty; JSON leaves them out.
                let empty = match &value {
                    None => true,
                    Some(Value::Object(map)) => map.is_empty() && !field.pointer,
                    Some(Value::String(s)) => s.is_empty() && !field.pointer,
                    Some(Value::Number(n)) => n.as_i64() == Some(0) && !field.pointer,
                    Some(Value::Bool(b)) => !b && !field.pointer,
                    Some(_) => false,
                };
                if let (Some(value), false) = (value, empty) {
                    out.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(out)
}

/// The value of a field; `None` is an absent time.
fn read(kind: &Kind, part: Part<'_>) -> Result<Option<Value>, ApiError> {
    Ok(match (kind, part) {
        (Kind::Text, Part::Bytes(b)) => Some(text(b)?.into()),
        // Negative numbers are sign-extended to 64 bits.
        (Kind::Int, Part::Number(n)) => Some(n.cast_signed().into()),
        (Kind::Bool, Part::Number(n)) => Some((n != 0).into()),
        (Kind::Message(name), Part::Bytes(b)) => {
            let fields = message(name).ok_or_else(|| unknown(name))?;
            Some(decode(name, fields, b)?.into())
        }
        (Kind::Time, Part::Bytes(b)) => time(b)?,
        (Kind::IntOrString, Part::Bytes(b)) => Some(int_or_string(b)?),
        (Kind::Json, Part::Bytes(b)) => Some(raw_json(b)?),
        (Kind::TextMap, Part::Bytes(b)) => Some(entry(b, |v| Ok(text(v)?.into()))?),
        (Kind::BytesMap, Part::Bytes(b)) => Some(entry(b, |v| Ok(STANDARD.encode(v).into()))?),
        (Kind::QuantityMap, Part::Bytes(b)) => Some(entry(b, quantity)?),
        (Kind::Bytes, Part::Bytes(b)) => Some(STANDARD.encode(b).into()),
        (Kind::ListMap, Part::Bytes(b)) => Some(entry(b, list)?),
        _ => return Err(malformed()),
    })
}

fn entry(bytes: &[u8], value_of: impl Fn(&[u8]) -> Result<Value, ApiError>) -> Result<Value, ApiError> {
    let (mut key, mut value): (&str, &[u8]) = ("", &[]);
    for part in Reader(bytes) {
        match part.ok_or_else(malformed)? {
            (1, Part::Bytes(b)) => key = text(b)?,
            (2, Part::Bytes(b)) => value = b,
            _ => return Err(malformed()),
        }
    }
    Ok(json!({key: value_of(value)?}))
}

fn quantity(bytes: &[u8]) -> Result<Value, ApiError> {
    let mut out = Value::from("0");
    for part in Reader(bytes) {
        if let (1, Part::Bytes(b)) = part.ok_or_else(malformed)? {
            out = text(b)?.into();
        }
    }
    Ok(out)
}

fn raw_json(bytes: &[u8]) -> Result<Value, ApiError> {
    for part in Reader(bytes) {
        if let (1, Part::Bytes(b)) = part.ok_or_else(malformed)? {
            return serde_json::from_slice(b).map_err(|_| malformed());
        }
    }
    Ok(json!({}))
}

fn time(bytes: &[u8]) -> Result<Option<Value>, ApiError> {
    let mut seconds = None;
    for part in Reader(bytes) {
        if let (1, Part::Number(n)) = part.ok_or_else(malformed)? {
            seconds = Some(n.cast_signed());
        }
    }
    let Some(seconds) = seconds else { return Ok(None) };
    let at = jiff::Timestamp::from_second(seconds).map_err(|_| malformed())?;
    Ok(Some(crate::clock::rfc3339(at).into()))
}

fn list(bytes: &[u8]) -> Result<Value, ApiError> {
    let mut out = vec![];
    for part in Reader(bytes) {
        match part.ok_or_else(malformed)? {
            (1, Part::Bytes(b)) => out.push(text(b)?.into()),
            _ => return Err(malformed()),
        }
    }
    Ok(Value::Array(out))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ApiError> {
    let (mut is_text, mut number, mut string) = (false, 0, "");
    for part in Reader(bytes) {
        match part.ok_or_else(malformed)? {
            (1, Part::Number(n)) => is_text = n == 1,
            (2, Part::Number(n)) => number = n.cast_signed(),
            (3, Part::Bytes(b)) => string = text(b)?,
            _ => return Err(malformed()),
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}

#[cfg(test)]
mod tests;
