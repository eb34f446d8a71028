//! Strict mode: what Kubernetes tolerates although it is a mistake of the client is refused, so that tests find it.
//!
//! Fields that are unknown or come twice are refused as under `fieldValidation=Strict`, whatever a request asks for, so that
//! there is nothing left to warn of. The rest is here: parameters that nobody reads, and what would be dropped in silence.

use serde_json::Value;

use crate::{
    error::ApiError,
    kinds::Resource,
    object::{at, meta},
    request::{FieldValidation, Query},
    verbs::Part,
};

/// Metadata that the server makes and takes from nobody.
const SERVERS_OWN: [&str; 5] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "selfLink",
    "uid",
];

fn refused(why: &str) -> ApiError {
    ApiError::bad_request(format!("strict mode: {why}"))
}

/// Refuses parameters that this API has not, and has fields validated.
///
/// # Errors
/// 400 that names the first parameter.
pub(crate) fn check_query(query: &mut Query) -> Result<(), ApiError> {
    query.field_validation = FieldValidation::Strict;
    match query.unknown.first() {
        Some(name) => Err(refused(&format!(
            "parameter {name:?} is not known, and would be ignored"
        ))),
        None => Ok(()),
    }
}

/// Refuses a new object with what only the server says: a copy of a live one, or a status that would be dropped.
///
/// # Errors
/// 400 that names the field.
pub(crate) fn check_new(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    let set = |path: &[&str]| at(value, path).is_some_and(|value| !is_empty(value));
    if let Some(field) = SERVERS_OWN.iter().find(|field| set(&["metadata", field])) {
        return Err(refused(&format!(
            "metadata.{field} of a new object is the server's to say"
        )));
    }
    if resource.status && !resource.quirks.keeps_status_on_create && set(&["status"]) {
        return Err(refused(
            "the status of a new object is dropped; write it through its subresource",
        ));
    }
    Ok(())
}

/// Refuses to replace an object whatever somebody else has written meanwhile.
///
/// # Errors
/// 400.
pub(crate) fn check_replacement(value: &Value) -> Result<(), ApiError> {
    if matches!(meta(value, "resourceVersion"), "" | "0") {
        return Err(refused(
            "an update without metadata.resourceVersion overwrites what others have written",
        ));
    }
    Ok(())
}

/// Refuses a change of what this part of an object does not write: it would be dropped.
///
/// # Errors
/// 400 that names the field.
pub(crate) fn check_dropped(
    resource: &Resource,
    part: Part,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    let dropped = |field: &str| {
        let value = new.get(field);
        value.is_some_and(|value| !is_empty(value)) && value != old.get(field)
    };
    match part {
        Part::Main if resource.status && dropped("status") => Err(refused(
            "a change of the status is dropped here; write it through its subresource",
        )),
        Part::Status | Part::Approval if dropped("spec") => Err(refused(
            "a change of the spec is dropped here; write it to the object itself",
        )),
        _ => Ok(()),
    }
}

/// What a client's serializer leaves behind of a field that nobody has set.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Bool(on) => !on,
    }
}
