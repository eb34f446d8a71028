//! `PUT`, and the common end of everything that changes an object.

use bytes::Bytes;
use roundhouse_patch::managed::FieldSet;
use serde_json::Value;

use super::{
    Call, Intent,
    create::{complete, place},
    decode_stored, encode_stored,
    get::written,
    stored::Stored,
};
use crate::{
    admission::{
        check_agent, check_escalation, check_immutable, check_metadata, check_metadata_update, decode,
        next_generation, sanitize,
    },
    clock::rfc3339,
    crd, csr,
    error::{ApiError, Cause},
    kinds::Resource,
    managed::{self, Recorded},
    object::{self, meta, set_meta},
    request::Noted,
    server::Core,
    service::Reply,
    store::{Change, Expect, Key, Record, WriteError},
    strict,
};

/// Times a write that gave no resourceVersion is tried again when another one came between.
pub(super) const TRIES: usize = 16;

/// Which part of an object a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, if that is a subresource.
    Main,
    /// The status.
    Status,
    /// The finalizers of a namespace's spec.
    Finalize,
    /// The conditions of a CertificateSigningRequest.
    Approval,
    /// The ephemeral containers of a Pod.
    Ephemeral,
    /// The resources of the containers of a Pod.
    Resize,
    /// The node of a Pod.
    Binding,
}

/// Replaces an object.
pub(super) fn update(core: &Core, call: &Call, part: Part, body: &Bytes) -> Result<Reply, ApiError> {
    let resource = &call.resource;
    let Noted {
        mut value,
        duplicates,
    } = decode(resource, &call.media, body)?;
    let warnings = sanitize(resource, &mut value, call.query.field_validation, &duplicates)?;
    check_name(call, &value)?;
    place(resource, &mut value, call.namespace())?;
    set_meta(&mut value, "name", Some(call.name().into()));
    let key = call.key();
    let mut tries = 0;
    loop {
        tries += 1;
        let Some(record) = core.store.get(&key) else {
            // Kubernetes holds what the sender believes against an object without a uid first.
            let uid = meta(&value, "uid");
            if !uid.is_empty() {
                return Err(resource.conflict_because(call.name(), &other_uid(uid, "")));
            }
            if resource.quirks.create_on_update && part == Part::Main {
                super::check_create(core, call)?;
                let stored = super::store_new(core, resource, call.namespace(), &value, &call.intent(part))?;
                return Ok(written(core, call, 201, stored).warn(warnings));
            }
            return Err(resource.not_found(call.name()));
        };
        let old = decode_stored(resource, &record.bytes);
        check_precondition(resource, &value, &old, &record)?;
        if core.strict {
            strict::check_replacement(&value)?;
        }
        let again = matches!(meta(&value, "resourceVersion"), "" | "0");
        let new = match again {
            true => value.clone(),
            false => std::mem::take(&mut value),
        };
        match store_update(core, resource, &key, &record, old, new, &call.intent(part)) {
            Err(Refusal::Raced) if tries < TRIES && again => {}
            Err(Refusal::Raced) => return Err(resource.conflict(call.name())),
            Err(Refusal::Error(error)) => return Err(error),
            Ok(stored) => return Ok(written(core, call, 200, stored).warn(warnings)),
        }
    }
}

/// The name in the body must be the one in the path.
pub(super) fn check_name(call: &Call, value: &Value) -> Result<(), ApiError> {
    let name = meta(value, "name");
    if name == call.name() {
        return Ok(());
    }
    if name.is_empty() {
        let message = format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        );
        return Err(ApiError::bad_request(message));
    }
    let message = format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        call.name()
    );
    Err(ApiError::bad_request(message))
}

/// What the sender believes about the stored object must be so.
pub(super) fn check_precondition(
    resource: &Resource,
    value: &Value,
    old: &Value,
    record: &Record,
) -> Result<(), ApiError> {
    let name = meta(value, "name");
    let version = meta(value, "resourceVersion");
    if matches!(version, "" | "0") && resource.quirks.version_required {
        let why = "Invalid value: 0: must be specified for an update";
        let mut error = resource.invalid(name, vec![Cause::invalid("metadata.resourceVersion", why)]);
        // Kubernetes names the resource rather than the kind here.
        error.details.kind = resource.plural.to_string();
        return Err(error);
    }
    check_version(resource, value, record)?;
    let uid = meta(value, "uid");
    if !uid.is_empty() {
        let have = meta(old, "uid");
        if have != uid {
            return Err(resource.conflict_because(name, &other_uid(uid, have)));
        }
    }
    Ok(())
}

fn other_uid(uid: &str, have: &str) -> String {
    format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {have}")
}

/// The version the sender changed, if it says so, must be the stored one.
pub(super) fn check_version(resource: &Resource, value: &Value, record: &Record) -> Result<(), ApiError> {
    match meta(value, "resourceVersion") {
        "" | "0" => Ok(()),
        version => match version.parse::<u64>() {
            Ok(version) if version == record.revision => Ok(()),
            Ok(_) => Err(resource.conflict(meta(value, "name"))),
            // As Kubernetes answers where its storage cannot read one.
            Err(_) => Err(ApiError::unclassified(format!(
                "metadata.resourceVersion: {version:?} is no version: send it as the server gave it"
            ))),
        },
    }
}

/// Why a change was not stored.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another write came between reading and writing.
    Raced,
    /// It may not be.
    Error(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

/// Admits and stores the successor of a stored object, which reads as `old`, and returns it as stored. One that leaves the
/// object as it was stores nothing; one that takes the last finalizer from an object being deleted removes it.
pub(crate) fn store_update(
    core: &Core,
    resource: &Resource,
    key: &Key,
    record: &Record,
    old: Value,
    mut new: Value,
    intent: &Intent,
) -> Result<Stored, Refusal> {
    let part = intent.part;
    let name = &key.name;
    let recorded = Recorded {
        resource,
        part,
        writer: &intent.writer,
        sent: managed::take(&mut new),
        now: &rfc3339((core.clock)()),
        allocated: FieldSet::default(),
    };
    if core.strict && intent.author.is_some() {
        strict::check_dropped(resource, part, &old, &new)?;
    }
    let mut new = match &resource.conversion {
        Some(conversion) => conversion.confined(Some(&old), new, |old, new| match old {
            Some(old) => confine(resource, old, new, part),
            None => new,
        }),
        None => confine(resource, &old, new, part),
    };
    check_escalation(
        core,
        resource,
        &key.namespace,
        Some(&old),
        &new,
        intent.author.as_ref(),
    )?;
    let asks = &*resource.table == csr::TABLE;
    if asks {
        csr::decide(core, resource, part, &old, &mut new, intent.author.as_ref())?;
    }
    let mut causes = check_metadata_update(&mut new, &old);
    causes.extend(complete(core, resource, &mut new, Some(&old)));
    if matches!(part, Part::Main | Part::Status) {
        causes.extend(check_metadata(resource, &new));
    }
    if part == Part::Main {
        causes.extend(check_immutable(resource, &old, &new));
    }
    if asks && part != Part::Main {
        causes.extend(csr::check_conditions_update(&old, &new, part == Part::Approval));
    }
    if part == Part::Ephemeral {
        causes.extend(super::pod::check_ephemeral(&old, &new));
    }
    if !causes.is_empty() {
        return Err(resource.invalid(name, causes).into());
    }
    if asks && part == Part::Approval && !intent.dry_run {
        csr::sign_if_approved(core, &mut new)?;
    }
    if &*resource.table == crd::TABLE && part == Part::Main {
        let conflict = core.name_conflict(&new);
        crd::establish(&mut new, conflict.as_deref(), &rfc3339((core.clock)()));
    }
    let generation = match part {
        Part::Status => object::at(&old, &["metadata", "generation"]).cloned(),
        _ => next_generation(resource, Some(&old), &new).map(Value::from),
    };
    set_meta(&mut new, "generation", generation);
    recorded.record(Some(&old), &mut new);
    set_meta(
        &mut new,
        "resourceVersion",
        Some(record.revision.to_string().into()),
    );
    check_agent(
        core,
        resource,
        &key.namespace,
        Some(&old),
        &new,
        intent.author.as_ref(),
    )?;
    let ends = object::is_deleting(&new) && removable(resource, &new);
    if !ends && object::same_but_version(&old, &new) {
        return Ok(Stored::unwritten(old));
    }
    if intent.dry_run {
        return Ok(Stored::unwritten(new));
    }
    let stored = {
        // Of an object that ends watchers are told as it was stored last, with what held it; the answer is what was sent.
        let mut last = ends.then(|| old.clone());
        let written = last.as_mut().unwrap_or(&mut new);
        let mut render = |revision: u64| encode_stored(resource, written, revision);
        let change = if ends {
            Change::Remove(&mut render)
        } else {
            Change::Put(&mut render)
        };
        core.store
            .write(key, Expect::Revision(record.revision), change)
            .map_err(|error| match error {
                WriteError::Unexpected => Refusal::Raced,
                WriteError::Refused(_) => ApiError::unavailable(error.to_string()).into(),
            })?
    };
    let holder = |lease| object::text(lease, &["spec", "holderIdentity"]).unwrap_or_default();
    if let Some(taken_over) = intent.author.as_ref().and_then(|a| a.taken_over.as_ref())
        && holder(&old) != holder(&new)
    {
        taken_over.store(true, std::sync::atomic::Ordering::Release);
    }
    core.counter.stored(key);
    core.after_write(resource, key, Some(&old), if ends { None } else { Some(&new) });
    Ok(Stored {
        value: new,
        record: (!ends).then_some(stored),
    })
}

/// Whether nothing holds an object that is being deleted any longer.
pub(super) fn removable(resource: &Resource, value: &Value) -> bool {
    let held = resource.kind == "Namespace"
        && resource.group.is_empty()
        && object::at(value, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|l| !l.is_empty());
    let graceful = object::at(value, &["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(0)
        > 0;
    object::finalizers(value).is_empty() && !held && !graceful
}

/// Keeps what this part of the object may not write as it was.
fn confine(resource: &Resource, old: &Value, mut new: Value, part: Part) -> Value {
    match part {
        Part::Main => {
            if resource.status {
                object::set(&mut new, "status", old.get("status").cloned());
            }
            if resource.kind == "Namespace" && resource.group.is_empty() {
                object::set(&mut new, "spec", old.get("spec").cloned());
            }
            new
        }
        Part::Status => {
            let mut kept = old.clone();
            object::set(&mut kept, "status", new.get("status").cloned());
            if let Some(keys) = resource.kept_with_status() {
                let metadata = new.as_object_mut().and_then(|new| new.remove("metadata"));
                object::set(&mut kept, "metadata", metadata);
                for key in keys {
                    set_meta(&mut kept, key, object::at(old, &["metadata", key]).cloned());
                }
            }
            kept
        }
        Part::Approval => {
            let conditions = object::at(&new, &["status", "conditions"]).cloned();
            let mut kept = old.clone();
            let status = kept.as_object_mut().and_then(|map| object::child(map, "status"));
            if let Some(status) = status {
                match conditions {
                    Some(conditions) => status.insert("conditions".to_owned(), conditions),
                    None => status.remove("conditions"),
                };
            }
            kept
        }
        Part::Finalize => {
            let mut kept = old.clone();
            object::set(&mut kept, "spec", new.get("spec").cloned());
            kept
        }
        Part::Ephemeral | Part::Resize => super::pod::confine(old, &new, part),
        // Only the server itself writes it, from a Binding.
        Part::Binding => new,
    }
}
