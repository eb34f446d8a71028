//! From a body to an object of the kind the path asks for.

use std::collections::HashSet;

use roundhouse_patch::managed::BuiltIn;
use serde_json::{Number, Value};

use crate::{
    error::ApiError,
    kinds::Resource,
    managed::topology,
    object,
    request::{FieldValidation, Noted, parse_object},
    schema::{Definitions, TypeMismatch, builtin, misfit, normalize, object_meta, prune},
};

/// Reads an object of kind `resource` from a body.
///
/// # Errors
/// 400 if it is malformed or of another kind, 415 if it is neither JSON nor YAML.
pub(crate) fn decode(resource: &Resource, media: &str, body: &[u8]) -> Result<Noted, ApiError> {
    let mut noted = parse_object(media, body)?;
    check_kind(resource, &mut noted.value)?;
    Ok(noted)
}

/// Checks `apiVersion` and `kind`, and fills them in for built-in kinds, whose path says enough.
pub(crate) fn check_kind(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    for (key, want) in [
        ("apiVersion", resource.api_version()),
        ("kind", resource.kind.to_string()),
    ] {
        match value.get(key).and_then(Value::as_str).unwrap_or_default() {
            "" if resource.custom.is_none() => object::set(value, key, Some(want.into())),
            "" => {
                return Err(ApiError::bad_request(format!(
                    "Object '{key}' is missing; this path takes {want}"
                )));
            }
            have if have == want => {}
            have => {
                let message = format!(
                    "{have} cannot be handled as a {}: the {key} of this path is {want}",
                    resource.kind
                );
                return Err(ApiError::bad_request(message));
            }
        }
    }
    Ok(())
}

/// Drops what the kind does not know and checks the types of built-in kinds and of metadata. Returns warnings about
/// `duplicates` and what was dropped, if they are wanted.
///
/// # Errors
/// 400 if types do not fit or, under strict validation, if anything came twice or had to be dropped.
pub(crate) fn sanitize(
    resource: &Resource,
    value: &mut Value,
    validation: FieldValidation,
    duplicates: &[String],
) -> Result<Vec<String>, ApiError> {
    let dropped = unknown_fields(resource, value)?;
    object::meta_mut(value);
    let dedup = join_owners(value);
    let twice = duplicates
        .iter()
        .map(|field| format!("duplicate field {field:?}"));
    let unknown = dropped.iter().map(|field| format!("unknown field {field:?}"));
    let complaints: Vec<String> = twice.chain(unknown).collect();
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                resource.kind,
                resource.version,
                resource.kind,
                complaints.join(", ")
            );
            Err(ApiError::bad_request(message))
        }
        FieldValidation::Warn => Ok(complaints.into_iter().chain(dedup).collect()),
        _ => Ok(dedup.into_iter().collect()),
    }
}

/// Drops references to owners that are there already, and returns what Kubernetes warns with.
fn join_owners(value: &mut Value) -> Option<String> {
    let owners = object::meta_mut(value)?
        .get_mut("ownerReferences")?
        .as_array_mut()?;
    let (mut seen, mut twice) = (HashSet::new(), vec![]);
    owners.retain(|owner| {
        let is_new = seen.insert(owner.to_string());
        if !is_new {
            twice.push(
                owner
                    .get("uid")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        is_new
    });
    (!twice.is_empty()).then(|| {
        format!(
            "metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

/// Drops what the kind does not know, and returns where it was. Checks the types of built-in kinds and of metadata.
///
/// # Errors
/// 400 if types do not fit.
pub(crate) fn unknown_fields(resource: &Resource, value: &mut Value) -> Result<Vec<String>, ApiError> {
    let mismatch = |e: TypeMismatch| {
        ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled: {e}",
            resource.kind, resource.version
        ))
    };
    if value.get("metadata").is_some_and(Value::is_null) {
        object::set(value, "metadata", None);
    }
    let mut dropped = vec![];
    match &resource.custom {
        None => {
            if let Some(known) = builtin(&resource.api_version(), &resource.kind) {
                dropped.extend(normalize(value, &known.schema, &known.definitions, "").map_err(mismatch)?);
            }
        }
        Some(custom) => {
            if let (Some(meta), Some(known)) = (value.get_mut("metadata"), object_meta()) {
                if !meta.is_object() {
                    return Err(ApiError::bad_request("metadata must be an object"));
                }
                dropped.extend(
                    normalize(meta, &known.schema, &known.definitions, "metadata").map_err(mismatch)?,
                );
            }
            dropped.extend(prune_root(value, &custom.schema));
            write_whole(value);
        }
    }
    Ok(dropped)
}

/// Writes whole floats as Go does, without a point.
fn write_whole(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(write_whole),
        Value::Array(list) => list.iter_mut().for_each(write_whole),
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole;
            }
        }
        _ => {}
    }
}

/// A float that is an integer of 64 bits.
fn whole(float: f64) -> Option<Number> {
    let text = format!("{float:.0}");
    let signed = text.parse::<i64>().map(Number::from);
    let whole = signed.or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().filter(|_| float.fract() == 0.0)
}

/// The first value of a configuration that has not the type of its field, as server-side apply says it.
pub(crate) fn mistyped(resource: &Resource, config: &Value) -> Option<String> {
    match &resource.custom {
        None => {
            let known = builtin(&resource.api_version(), &resource.kind)?;
            misfit(config, &known.schema, &known.definitions, topology(resource))
        }
        Some(custom) => {
            let metadata = || {
                let metadata = config.get("metadata")?;
                let known = object_meta()?;
                misfit(metadata, &known.schema, &known.definitions, BuiltIn::metadata())
                    .map(|misfit| format!(".metadata{misfit}"))
            };
            misfit(config, &custom.schema, &Definitions::new(), topology(resource)).or_else(metadata)
        }
    }
}

/// Prunes a custom resource; its type and metadata are not the schema's business.
pub(crate) fn prune_root(value: &mut Value, schema: &crate::schema::Schema) -> Vec<String> {
    let Some(map) = value.as_object_mut() else {
        return vec![];
    };
    let kept: Vec<(&str, Option<Value>)> = ["apiVersion", "kind", "metadata"]
        .into_iter()
        .map(|key| (key, map.remove(key)))
        .collect();
    let dropped = prune(value, schema, &Definitions::new(), "");
    for (key, kept) in kept {
        if let Some(kept) = kept {
            object::set(value, key, Some(kept));
        }
    }
    dropped
}
