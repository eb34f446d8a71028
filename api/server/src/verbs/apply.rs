//! `PATCH` with `application/apply-patch+yaml`: server-side apply.

use bytes::Bytes;
use roundhouse_patch::managed::{self, ApplyError, Scope, Write, read_entries};
use serde_json::{Value, json};

use super::{
    Call, Intent,
    create::{place, store_new},
    decode_stored,
    get::written,
    scale::{check_scale, set_at},
    stored::Stored,
    update::{Part, Refusal, TRIES, check_name, check_version, store_update},
};
use crate::{
    admission::{check_kind, mistyped, sanitize, unknown_fields},
    clock::rfc3339,
    error::{ApiError, Cause},
    kinds::{Resource, ScalePaths},
    managed::{Writer, scope, subresource, topology},
    object::{self, meta, set_meta},
    request::{FieldValidation, MAX_BODY, MAX_DEPTH, Noted, note_duplicates, too_deep},
    server::Core,
    service::Reply,
    store::Record,
};

/// Applies a Scale: its count, and nothing else, becomes this manager's. Answers with the object.
pub(super) fn apply_scale(
    core: &Core,
    call: &Call,
    paths: &ScalePaths,
    body: &Bytes,
) -> Result<Value, ApiError> {
    let scale = parse(body)?.value;
    check_scale(&scale)?;
    check_name(call, &scale)?;
    let resource = &call.resource;
    let mut config = json!({});
    if let Some(replicas) = object::at(&scale, &["spec", "replicas"]) {
        set_at(&mut config, &paths.spec, replicas.clone());
    }
    let (api_version, now) = (resource.api_version(), rfc3339((core.clock)()));
    let request = request(call, "scale", &api_version, &now);
    let key = call.key();
    for _ in 0..TRIES {
        let record = core
            .store
            .get(&key)
            .ok_or_else(|| resource.not_found(call.name()))?;
        let live = decode_stored(resource, &record.bytes);
        let (value, entries) = merged(call, &request, &Scope::all(), Some(&live), &config)?;
        let intent = Intent {
            writer: Writer::Applied(entries),
            ..call.intent(Part::Main)
        };
        match store_update(core, resource, &key, &record, live, value, &intent) {
            Err(Refusal::Raced) => {}
            Err(Refusal::Error(error)) => return Err(error),
            Ok(stored) => return Ok(stored.value),
        }
    }
    Err(resource.conflict(call.name()))
}

/// Applies the configuration in the body; creates the object if there is none.
pub(super) fn apply(core: &Core, call: &Call, part: Part, body: &Bytes) -> Result<Reply, ApiError> {
    let resource = &call.resource;
    let Noted {
        value: config,
        duplicates,
    } = configuration(resource, body)?;
    fits(call, &config)?;
    let warnings = complain(call.query.field_validation, &duplicates)?;
    let (api_version, now) = (resource.api_version(), rfc3339((core.clock)()));
    let request = request(call, subresource(part), &api_version, &now);
    let scope = scope(resource, part);
    let key = call.key();
    let mut tries = 0;
    loop {
        tries += 1;
        let record = core.store.get(&key);
        let live = record
            .as_ref()
            .map(|record| decode_stored(resource, &record.bytes));
        if live.is_none() && part != Part::Main {
            return Err(resource.not_found(call.name()));
        }
        let (mut value, entries) = merged(call, &request, &scope, live.as_ref(), &config)?;
        if roundhouse_patch::weight(&value) > MAX_BODY {
            return Err(ApiError::too_large(MAX_BODY));
        }
        if too_deep(&value, MAX_DEPTH) {
            return Err(ApiError::bad_request(format!(
                "the applied object is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        sanitize(resource, &mut value, FieldValidation::Ignore, &[])?;
        check_kind(resource, &mut value)?;
        check_name(call, &value)?;
        place(resource, &mut value, call.namespace())?;
        let intent = Intent {
            writer: Writer::Applied(entries),
            ..call.intent(part)
        };
        let (Some(record), Some(live)) = (record, live) else {
            return match create(core, call, &value, &intent) {
                // Somebody else created it in between: apply to that.
                Err(error) if error.reason == "AlreadyExists" && tries < TRIES => continue,
                stored => Ok(written(core, call, 201, stored?).warn(warnings)),
            };
        };
        let conditional = pin(resource, &mut value, &config, &record)?;
        match store_update(core, resource, &key, &record, live, value, &intent) {
            Err(Refusal::Raced) if tries < TRIES && !conditional => {}
            Err(Refusal::Raced) => return Err(resource.conflict(call.name())),
            Err(Refusal::Error(error)) => return Err(error),
            Ok(stored) => return Ok(written(core, call, 200, stored).warn(warnings)),
        }
    }
}

fn create(core: &Core, call: &Call, value: &Value, intent: &Intent) -> Result<Stored, ApiError> {
    let uid = meta(value, "uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(call.resource.conflict_because(call.name(), &why));
    }
    super::check_create(core, call)?;
    store_new(core, &call.resource, call.namespace(), value, intent)
}

/// Holds the object to the version the configuration asks for; whether it asks for one.
fn pin(resource: &Resource, value: &mut Value, config: &Value, record: &Record) -> Result<bool, ApiError> {
    let asked = !matches!(meta(config, "resourceVersion"), "" | "0");
    if !asked {
        set_meta(value, "resourceVersion", Some(record.revision.to_string().into()));
    }
    check_version(resource, value, record)?;
    Ok(asked)
}

/// Reads an object. JSON is tried first: kubectl sends it, and not all of it is YAML.
fn parse(body: &[u8]) -> Result<Noted, ApiError> {
    let config = match note_duplicates(body) {
        Ok(config) => config,
        Err(_) => crate::yaml::parse(body)?,
    };
    if !config.value.is_object() {
        return Err(ApiError::bad_request(
            "an applied configuration must be an object",
        ));
    }
    Ok(config)
}

/// Reads a configuration of this kind.
fn configuration(resource: &Resource, body: &[u8]) -> Result<Noted, ApiError> {
    let noted = parse(body)?;
    let config = &noted.value;
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != resource.kind {
        return Err(ApiError::bad_request(format!(
            "invalid object kind: {:?}; this path takes {}",
            text("kind"),
            resource.kind
        )));
    }
    if text("apiVersion") != resource.api_version() {
        return Err(ApiError::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {}, expected: {}",
            text("apiVersion"),
            resource.api_version()
        )));
    }
    if object::at(config, &["metadata", "managedFields"]).is_some_and(|m| !m.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(noted)
}

/// What a sender is warned of who has fields come twice, or why that is refused.
fn complain(validation: FieldValidation, duplicates: &[String]) -> Result<Vec<String>, ApiError> {
    let twice = duplicates
        .iter()
        .map(|field| format!("duplicate field {field:?}"));
    match validation {
        FieldValidation::Ignore => Ok(vec![]),
        FieldValidation::Strict if !duplicates.is_empty() => {
            let twice = twice.collect::<Vec<_>>().join(", ");
            Err(ApiError::bad_request(format!(
                "error strict decoding YAML: {twice}"
            )))
        }
        FieldValidation::Strict | FieldValidation::Warn => Ok(twice.collect()),
    }
}

/// The configuration must fit the kind as a whole: what it does not know cannot be owned.
fn fits(call: &Call, config: &Value) -> Result<(), ApiError> {
    if let Some(misfit) = mistyped(&call.resource, config) {
        return Err(untyped(call, &misfit));
    }
    let mut copy = config.clone();
    let unknown = unknown_fields(&call.resource, &mut copy).map_err(|error| untyped(call, &error.message))?;
    match unknown.first() {
        Some(field) => Err(untyped(call, &format!(".{field}: field not declared in schema"))),
        None => Ok(()),
    }
}

/// Kubernetes has no code for a configuration that does not fit its kind.
fn untyped(call: &Call, why: &str) -> ApiError {
    let resource = &call.resource;
    ApiError::unclassified(format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {why}",
        call.namespace(),
        call.name(),
        resource.group,
        resource.version,
        resource.kind
    ))
}

/// The request as an apply through this subresource.
fn request<'a>(
    call: &'a Call,
    subresource: &'a str,
    api_version: &'a str,
    now: &'a str,
) -> managed::Apply<'a> {
    managed::Apply {
        write: Write {
            manager: &call.manager,
            api_version,
            subresource,
            now,
        },
        force: call.query.force == Some(true),
    }
}

/// What the configuration makes of the live object, with the managed fields.
fn merged(
    call: &Call,
    request: &managed::Apply<'_>,
    scope: &Scope,
    live: Option<&Value>,
    config: &Value,
) -> Result<(Value, Vec<managed::Entry>), ApiError> {
    let resource = &call.resource;
    let recorded = live.and_then(|live| object::at(live, &["metadata", "managedFields"]));
    let entries = read_entries(recorded.unwrap_or(&Value::Null))
        .map_err(|error| ApiError::unclassified(format!("failed to decode managed fields: {error}")))?;
    match managed::apply(live, config, entries, request, topology(resource), scope) {
        Ok(applied) => Ok((applied.object, applied.entries)),
        Err(ApplyError::Conflicts(conflicts)) => {
            let causes = conflicts
                .0
                .iter()
                .map(|c| Cause::manager_conflict(c.field(), c.message()));
            let mut refused = ApiError::new(409, "Conflict", conflicts.to_string());
            refused.details.causes = causes.collect();
            Err(refused)
        }
        Err(error) => Err(untyped(call, &error.to_string())),
    }
}
