//! Request bodies: bounded in size and depth.

use http::{HeaderMap, header::CONTENT_TYPE};
use serde_json::Value;

use super::json::{self, Noted};
use crate::error::ApiError;

/// Largest body taken, as in Kubernetes.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// Deepest nesting taken; `serde_json` itself stops at 128.
pub(crate) const MAX_DEPTH: usize = 100;

/// The encoding of an object in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

/// The media type of the body, without parameters, in lower case; empty if not given.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let text = headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Reads JSON.
///
/// # Errors
/// 400 if it is malformed or nested too deeply.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Value, ApiError> {
    note_duplicates(bytes).map(|noted| noted.value)
}

/// Reads JSON and notes the fields that come twice.
///
/// # Errors
/// 400 if it is malformed or nested too deeply.
pub(crate) fn note_duplicates(bytes: &[u8]) -> Result<Noted, ApiError> {
    let noted = json::read(bytes)
        .map_err(|e| ApiError::bad_request(format!("error decoding the body of the request: {e}")))?;
    if too_deep(&noted.value, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!(
            "the body of the request is nested deeper than {MAX_DEPTH} levels"
        )));
    }
    Ok(noted)
}

/// Reads an object from a JSON, YAML or protobuf body; fields that come twice are noted, of which protobuf has none.
///
/// # Errors
/// 400 if it is malformed or no object, 415 if the media type is none of them.
pub(crate) fn parse_object(media: &str, bytes: &[u8]) -> Result<Noted, ApiError> {
    let format = match media {
        "" | "application/json" => BodyFormat::Json,
        "application/yaml" => BodyFormat::Yaml,
        super::protobuf::MEDIA => BodyFormat::Protobuf,
        other => {
            return Err(ApiError::unsupported_media_type(
                other,
                "application/json, application/yaml",
            ));
        }
    };
    let noted = match format {
        BodyFormat::Json => note_duplicates(bytes)?,
        BodyFormat::Yaml => crate::yaml::parse(bytes)?,
        BodyFormat::Protobuf => Noted {
            value: super::protobuf::parse(bytes)?,
            duplicates: vec![],
        },
    };
    if !noted.value.is_object() {
        return Err(ApiError::bad_request(
            "the body of the request is no object; send one with apiVersion, kind and metadata",
        ));
    }
    Ok(noted)
}

/// Whether a value is nested more than `left` levels deep.
pub(crate) fn too_deep(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(list) => left == 0 || list.iter().any(|v| too_deep(v, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|v| too_deep(v, left - 1)),
        _ => false,
    }
}
