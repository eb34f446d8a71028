//! What a request asks for: path, query, accepted formats and body, parsed once at the edge.

mod accept;
mod body;
mod json;
mod options;
mod path;
mod protobuf;
mod query;

pub(crate) use accept::{Format, Output};
pub(crate) use body::{MAX_BODY, MAX_DEPTH, media_type, note_duplicates, parse_json, parse_object, too_deep};
pub(crate) use json::Noted;
pub(crate) use options::{APPLY, both_policies, check_options, refuse};
pub(crate) use path::{Path, ResourcePath};
pub(crate) use query::{
    FieldValidation, Propagation, Query, VersionMatch, parse_duration, percent_decode, unsupported,
};
