//! `PATCH`: JSON patch, JSON merge patch and strategic merge patch; server-side apply is in [`super::apply`].

use bytes::Bytes;
use roundhouse_patch::PatchError;
use serde_json::Value;

use super::{
    Call,
    create::place,
    decode_stored,
    get::written,
    update::{Part, Refusal, TRIES, check_name, check_version, store_update},
};
use crate::{
    admission::sanitize,
    error::{ApiError, Cause},
    kinds::Resource,
    object::{meta, set_meta},
    request::{APPLY, MAX_BODY, MAX_DEPTH, Noted, note_duplicates, parse_json, too_deep},
    server::Core,
    service::Reply,
};

/// Most operations in a JSON patch, as in Kubernetes.
const MAX_OPERATIONS: usize = 10_000;

/// Changes part of an object.
pub(super) fn patch(core: &Core, call: &Call, part: Part, body: &Bytes) -> Result<Reply, ApiError> {
    if call.media == APPLY {
        return super::apply::apply(core, call, part, body);
    }
    let resource = &call.resource;
    let apply = patcher(resource, &call.media, body);
    let key = call.key();
    let mut tries = 0;
    loop {
        tries += 1;
        // An absent object is reported before a malformed patch, an unsupported type before either.
        let patch = match &apply {
            Err(error) if error.code == 415 => return Err(error.clone()),
            other => other,
        };
        let record = core
            .store
            .get(&key)
            .ok_or_else(|| resource.not_found(call.name()))?;
        let patch = patch.as_ref().map_err(Clone::clone)?;
        let old = decode_stored(resource, &record.bytes);
        let (mut value, had) = (old.clone(), meta(&old, "resourceVersion").to_owned());
        patch.apply(&mut value)?;
        // Only what is added can make it too large; copies within a JSON patch add more than its own length.
        let may_grow = matches!(patch, Patch::Json(_)) || record.bytes.len() + body.len() > MAX_BODY;
        if may_grow && roundhouse_patch::weight(&value) > MAX_BODY {
            return Err(ApiError::too_large(MAX_BODY));
        }
        if too_deep(&value, MAX_DEPTH) {
            return Err(ApiError::bad_request(format!(
                "the patched object is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let warnings = sanitize(
            resource,
            &mut value,
            call.query.field_validation,
            patch.duplicates(),
        )
        .map_err(|e| misfit(&e))?;
        crate::admission::check_kind(resource, &mut value).map_err(|e| misfit(&e))?;
        check_name(call, &value)?;
        place(resource, &mut value, call.namespace())?;
        set_meta(&mut value, "name", Some(call.name().into()));
        let conditional =
            !matches!(meta(&value, "resourceVersion"), "" | "0") && meta(&value, "resourceVersion") != had;
        if matches!(meta(&value, "resourceVersion"), "" | "0") {
            set_meta(&mut value, "resourceVersion", Some(had.into()));
        }
        check_version(resource, &value, &record)?;
        match store_update(core, resource, &key, &record, old, value, &call.intent(part)) {
            Err(Refusal::Raced) if tries < TRIES && !conditional => {}
            Err(Refusal::Raced) => return Err(resource.conflict(call.name())),
            Err(Refusal::Error(error)) => return Err(error),
            Ok(stored) => return Ok(written(core, call, 200, stored).warn(warnings)),
        }
    }
}

/// The patch itself is fine, what it makes of the object is not: unprocessable, about no object, as in Kubernetes.
fn misfit(error: &ApiError) -> ApiError {
    let why = format!("Invalid value: {}", error.message);
    let mut out = ApiError::new(422, "Invalid", format!(" \"\" is invalid: patch: {why}"));
    out.details.causes = vec![Cause::invalid("patch", why)];
    out
}

/// A patch that has been read.
pub(super) enum Patch {
    Json(Value),
    Merge(Noted),
    Strategic(Noted, &'static roundhouse_patch::schema::Node),
}

/// Reads a patch of the given media type.
pub(super) fn patcher(resource: &Resource, media: &str, body: &[u8]) -> Result<Patch, ApiError> {
    let object = || {
        let noted = note_duplicates(body)?;
        if noted.value.is_object() {
            Ok(noted)
        } else {
            Err(ApiError::bad_request("the patch must be a JSON object"))
        }
    };
    match media {
        "application/json-patch+json" => {
            let value = parse_json(body)?;
            match value.as_array() {
                None => Err(ApiError::bad_request("a JSON patch must be a list of operations")),
                Some(list) if list.len() > MAX_OPERATIONS => {
                    let message = format!("a JSON patch may have at most {MAX_OPERATIONS} operations");
                    Err(ApiError::new(413, "RequestEntityTooLarge", message))
                }
                Some(list)
                    if !list
                        .iter()
                        .all(|operation| operation.is_object() || operation.is_null()) =>
                {
                    Err(ApiError::bad_request(
                        "the operations of a JSON patch must be objects",
                    ))
                }
                Some(_) => Ok(Patch::Json(value)),
            }
        }
        "application/merge-patch+json" => Ok(Patch::Merge(object()?)),
        "application/strategic-merge-patch+json" => {
            let node = roundhouse_patch::schema::lookup(&resource.api_version(), &resource.kind);
            match node.filter(|_| resource.custom.is_none()) {
                Some(node) => Ok(Patch::Strategic(object()?, node)),
                None => Err(unsupported(resource, media)),
            }
        }
        other => Err(unsupported(resource, other)),
    }
}

fn unsupported(resource: &Resource, media: &str) -> ApiError {
    let strategic = if resource.custom.is_none() {
        ", application/strategic-merge-patch+json"
    } else {
        ""
    };
    let accepted = format!("application/json-patch+json, application/merge-patch+json{strategic}, {APPLY}");
    ApiError::unsupported_media_type(media, &accepted)
}

impl Patch {
    /// The fields that come twice in it, if it is an object.
    fn duplicates(&self) -> &[String] {
        match self {
            Self::Json(_) => &[],
            Self::Merge(noted) | Self::Strategic(noted, _) => &noted.duplicates,
        }
    }

    /// Applies the patch.
    pub(super) fn apply(&self, value: &mut Value) -> Result<(), ApiError> {
        match self {
            // Well-formed operations that do not fit this object are unprocessable.
            Self::Json(patch) => roundhouse_patch::json_patch(value, patch)
                .map_err(|e| ApiError::new(422, "Invalid", e.to_string())),
            Self::Merge(patch) => {
                roundhouse_patch::json_merge(value, &patch.value);
                Ok(())
            }
            Self::Strategic(patch, node) => {
                roundhouse_patch::strategic_merge(value, &patch.value, node).map_err(|e| unmerged(&e))
            }
        }
    }
}

/// Why a strategic merge patch does not apply (`interpretStrategicMergePatchError`): only of directives of wrong form Kubernetes
/// says that the request is bad.
fn unmerged(error: &PatchError) -> ApiError {
    let message = error.to_string();
    match error {
        PatchError::BadDirective { .. } | PatchError::TooDeep { .. } => ApiError::bad_request(message),
        PatchError::NotRetained { .. } | PatchError::ListOfLists { .. } => {
            ApiError::new(422, "Invalid", message)
        }
        _ => ApiError::unclassified(message),
    }
}
