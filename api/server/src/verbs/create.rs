//! `POST`.

use bytes::Bytes;
use serde_json::Value;

use super::{Call, Intent, Part, encode_stored, get::written, stored::Stored};
use crate::{
    admission::{
        check_agent, check_escalation, check_metadata, check_namespace, check_object, decode,
        next_generation, sanitize, set_defaults, stamp,
    },
    clock::rfc3339,
    crd, csr,
    error::{ApiError, Cause},
    kinds::Resource,
    managed::{self, Recorded, allocated},
    object::{self, meta, set_meta},
    request::Noted,
    schema::{Definitions, apply_defaults, validate},
    server::Core,
    service::Reply,
    store::{Change, Expect, Key, WriteError},
    strict,
};

/// How often a generated name may collide before the client is told.
const NAME_TRIES: usize = 8;

/// Creates the object in the body.
pub(super) fn create(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let resource = &call.resource;
    let Noted {
        mut value,
        duplicates,
    } = decode(resource, &call.media, body)?;
    let warnings = sanitize(resource, &mut value, call.query.field_validation, &duplicates)?;
    if core.strict {
        strict::check_new(resource, &value)?;
    }
    // What is no number is dropped, as the storage of Kubernetes does.
    if meta(&value, "resourceVersion")
        .parse::<u64>()
        .is_ok_and(|version| version != 0)
    {
        return Err(ApiError::unclassified(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let stored = store_new(core, resource, call.namespace(), &value, &call.intent(Part::Main))?;
    Ok(written(core, call, 201, stored).warn(warnings))
}

/// Admits and stores a new object, and returns it as stored.
///
/// # Errors
/// If it may not be created so, or is there already.
pub(crate) fn store_new(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    value: &Value,
    intent: &Intent,
) -> Result<Stored, ApiError> {
    let generated = meta(value, "name").is_empty() && !meta(value, "generateName").is_empty();
    let mut tries = 0;
    loop {
        tries += 1;
        match try_store(core, resource, namespace, value.clone(), intent) {
            Err(error) if generated && error.reason == "AlreadyExists" && tries < NAME_TRIES => {}
            result => return result,
        }
    }
}

fn try_store(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    mut value: Value,
    intent: &Intent,
) -> Result<Stored, ApiError> {
    if resource.terminating {
        return Err(resource.takes_nothing_new());
    }
    place(resource, &mut value, namespace)?;
    check_escalation(core, resource, namespace, None, &value, intent.author.as_ref())?;
    if &*resource.table == csr::TABLE {
        csr::admit(core, resource, &mut value, intent.author.as_ref())?;
    }
    let recorded = Recorded {
        resource,
        part: Part::Main,
        writer: &intent.writer,
        sent: managed::take(&mut value),
        now: &rfc3339((core.clock)()),
        allocated: allocated(resource, &value),
    };
    let now = (core.clock)();
    stamp(&mut value, &core.dice, now);
    let name = meta(&value, "name").to_owned();
    check_namespace(core, resource, namespace, &name)?;
    if resource.status && !resource.quirks.keeps_status_on_create {
        let without_status = |_: Option<&Value>, mut value: Value| {
            object::set(&mut value, "status", None);
            value
        };
        value = match &resource.conversion {
            Some(conversion) => conversion.confined(None, value, without_status),
            None => without_status(None, value),
        };
    }
    check_agent(core, resource, namespace, None, &value, intent.author.as_ref())?;
    let mut causes = complete(core, resource, &mut value, None);
    causes.splice(0..0, check_metadata(resource, &value));
    if !causes.is_empty() {
        return Err(resource.invalid(&name, causes));
    }
    if &*resource.table == crd::TABLE {
        let conflict = core.name_conflict(&value);
        crd::establish(&mut value, conflict.as_deref(), &rfc3339(now));
    }
    let generation = next_generation(resource, None, &value);
    set_meta(&mut value, "generation", generation.map(Value::from));
    recorded.record(None, &mut value);
    let key = Key::new(&resource.table, namespace, &name);
    if intent.dry_run {
        return if core.store.get(&key).is_some() {
            Err(resource.already_exists(&name))
        } else {
            Ok(Stored::unwritten(value))
        };
    }
    let put = Change::Put(&mut |revision| encode_stored(resource, &mut value, revision));
    let wrote = core.store.write(&key, Expect::Absent, put);
    let record = wrote.map_err(|error| match error {
        WriteError::Unexpected => resource.already_exists(&name),
        WriteError::Refused(_) => ApiError::unavailable(error.to_string()),
    })?;
    core.counter.stored(&key);
    core.after_write(resource, &key, None, Some(&value));
    Ok(Stored {
        value,
        record: Some(record),
    })
}

/// Puts the object into the namespace of the path.
pub(super) fn place(resource: &Resource, value: &mut Value, namespace: &str) -> Result<(), ApiError> {
    if !resource.namespaced {
        set_meta(value, "namespace", None);
        return Ok(());
    }
    let have = meta(value, "namespace");
    if !have.is_empty() && have != namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({have:?} is not {namespace:?})"
        )));
    }
    set_meta(value, "namespace", Some(namespace.into()));
    Ok(())
}

/// Applies defaults and collects everything that is wrong with the object itself.
pub(super) fn complete(
    core: &Core,
    resource: &Resource,
    value: &mut Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let Some(custom) = &resource.custom else {
        set_defaults(resource, value, old, || core.dice.next());
        return check_object(resource, value, old.is_none());
    };
    let none = Definitions::new();
    apply_defaults(value, &custom.schema, &none);
    let mut causes = validate(value, old, &custom.schema, &none, "");
    match &custom.rules {
        Some(_) if causes.iter().any(Cause::keeps_rules_from_being_checked) => causes.push(Cause::invalid(
            "",
            "Invalid value: null: some validation rules were not checked because the object was invalid; \
             correct the existing errors to complete validation",
        )),
        Some(rules) => causes.extend(rules.check(value, old)),
        None => {}
    }
    // What is said of no field, or of the whole object, Kubernetes says of this one.
    for cause in &mut causes {
        if cause.field.is_empty() {
            cause.field = "<nil>".to_owned();
        }
    }
    causes
}
