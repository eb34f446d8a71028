//! `DELETE`, of one object and of a collection.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Call, decode_stored, encode_stored,
    get::shaped,
    list,
    update::{TRIES, removable},
};
use crate::{
    clock::rfc3339,
    crd,
    error::ApiError,
    kinds::Resource,
    object::{self, meta, set_meta},
    request::{Propagation, Query, both_policies, parse_object, refuse, unsupported},
    server::Core,
    service::Reply,
    store::{Change, Expect, Key, Record, WriteError},
};

/// Held until dependents have lost their reference.
pub(crate) const ORPHAN: &str = "orphan";
/// Held until dependents that block are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Namespaces that may not be deleted (Kubernetes: admission plugin NamespaceLifecycle).
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) dry_run: bool,
    /// Whether dependents are to go by `orphanDependents: false`: who says it so is told where the object is held.
    pub(crate) asks_for_dependents: bool,
}

impl DeleteOptions {
    fn parse(call: &Call, body: &[u8]) -> Result<Self, ApiError> {
        let query: &Query = &call.query;
        let mut options = Self {
            propagation: query.propagation,
            grace_seconds: query.grace_period_seconds,
            dry_run: query.dry_run,
            ..Self::default()
        };
        if let Some(orphan) = query.orphan_dependents {
            options.orphan_dependents(orphan);
        }
        if body.is_empty() {
            return Ok(options);
        }
        let value = parse_object(&call.media, body)?.value;
        let kind = value
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(ApiError::bad_request(format!(
                "a delete takes DeleteOptions, not {kind}"
            )));
        }
        options.read(&value)?;
        Ok(options)
    }

    /// The options in an object.
    pub(super) fn of(value: &Value) -> Result<Self, ApiError> {
        let mut options = Self::default();
        options.read(value)?;
        Ok(options)
    }

    /// What was said before there were policies.
    fn orphan_dependents(&mut self, orphan: bool) {
        self.asks_for_dependents = !orphan;
        self.propagation = Some(match orphan {
            true => Propagation::Orphan,
            false => Propagation::Background,
        });
    }

    fn read(&mut self, value: &Value) -> Result<(), ApiError> {
        let text = |path: &[&str]| object::text(value, path).map(str::to_owned);
        self.uid = text(&["preconditions", "uid"]);
        self.revision = text(&["preconditions", "resourceVersion"]);
        let mut causes = vec![];
        if let Some(policy) = object::text(value, &["propagationPolicy"]) {
            match Propagation::parse(policy) {
                Ok(policy) => self.propagation = Some(policy),
                Err(cause) => causes.push(cause),
            }
            if value.get("orphanDependents").is_some_and(|o| !o.is_null()) {
                causes.push(both_policies());
            }
        } else if let Some(orphan) = value.get("orphanDependents").and_then(Value::as_bool) {
            self.orphan_dependents(orphan);
        }
        if let Some(seconds) = value.get("gracePeriodSeconds").and_then(Value::as_i64) {
            self.grace_seconds = Some(seconds);
        }
        let dry_run = value.get("dryRun").and_then(Value::as_array);
        for stage in dry_run.into_iter().flatten().filter_map(Value::as_str) {
            match stage {
                "All" => self.dry_run = true,
                other => causes.push(unsupported("dryRun", other, &["All"])),
            }
        }
        refuse("DeleteOptions", causes)
    }
}

/// What a delete came to.
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// Finalizers or a grace period hold it.
    Held(Value),
}

/// Deletes the object of the path.
pub(super) fn delete(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let options = DeleteOptions::parse(call, body)?;
    let resource = &call.resource;
    match remove(core, resource, &call.key(), &options)? {
        Deleted::Held(value) if options.asks_for_dependents => Ok(shaped(core, call, 202, value)),
        Deleted::Held(value) => Ok(shaped(core, call, 200, value)),
        Deleted::Gone(value) if resource.quirks.returns_deleted => Ok(shaped(core, call, 200, value)),
        Deleted::Gone(value) => {
            let mut details =
                json!({"name": call.name(), "kind": resource.plural, "uid": meta(&value, "uid")});
            if !resource.group.is_empty() {
                object::set(&mut details, "group", Some(resource.group.as_ref().into()));
            }
            Ok(Reply::ok(json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            })))
        }
    }
}

/// Deletes every object the request selects; answers with them.
pub(super) fn delete_collection(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let options = DeleteOptions::parse(call, body)?;
    let selected = list::select(core, call)?;
    for (key, _) in &selected.records {
        match remove(core, &call.resource, key, &options) {
            // Somebody else was faster.
            Err(error) if error.code == 404 => {}
            other => {
                other?;
            }
        }
    }
    Ok(list::reply(core, call, &selected))
}

/// Deletes an object: at once, or when nothing holds it any longer.
///
/// # Errors
/// 404 if it is not there, 409 if a precondition does not hold, 403 if it may never be deleted.
pub(crate) fn remove(
    core: &Core,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    if &*resource.table == "namespaces" && IMMORTAL.contains(&&*key.name) {
        return Err(resource.forbidden(&key.name, "this namespace may not be deleted"));
    }
    for _ in 0..TRIES {
        let record = core.store.get(key).ok_or_else(|| resource.not_found(&key.name))?;
        if let Some(deleted) = attempt(core, resource, key, options, &record)? {
            return Ok(deleted);
        }
    }
    Err(resource.conflict(&key.name))
}

/// One try; `None` if another write came between.
fn attempt(
    core: &Core,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
    record: &Record,
) -> Result<Option<Deleted>, ApiError> {
    let old = decode_stored(resource, &record.bytes);
    preconditions(resource, &key.name, options, &old)?;
    let mut new = old.clone();
    mark(core, resource, &mut new, options);
    let ends = removable(resource, &new);
    if options.dry_run || (!ends && object::same_but_version(&old, &new)) {
        return Ok(Some(if ends {
            Deleted::Gone(old)
        } else {
            Deleted::Held(new)
        }));
    }
    if ends {
        // The last state is the one before: deletion marks are only for objects that linger.
        new = old.clone();
    }
    let written = {
        let mut render = |revision: u64| encode_stored(resource, &mut new, revision);
        let change = if ends {
            Change::Remove(&mut render)
        } else {
            Change::Put(&mut render)
        };
        core.store.write(key, Expect::Revision(record.revision), change)
    };
    match written {
        Ok(_) => {}
        Err(WriteError::Unexpected) => return Ok(None),
        Err(error @ WriteError::Refused(_)) => return Err(ApiError::unavailable(error.to_string())),
    }
    core.counter.stored(key);
    core.after_write(resource, key, Some(&old), if ends { None } else { Some(&new) });
    Ok(Some(if ends {
        Deleted::Gone(new)
    } else {
        Deleted::Held(new)
    }))
}

fn preconditions(
    resource: &Resource,
    name: &str,
    options: &DeleteOptions,
    old: &Value,
) -> Result<(), ApiError> {
    let pairs = [
        (&options.uid, "uid", "UID"),
        (&options.revision, "resourceVersion", "ResourceVersion"),
    ];
    for (want, field, word) in pairs {
        let have = meta(old, field);
        if let Some(want) = want.as_ref().filter(|w| *w != have) {
            let why = format!(
                "the {word} in the precondition ({want}) does not match the {word} in record ({have}). The object might have been deleted and then recreated"
            );
            let mut error = resource.conflict_because(name, &why);
            // Kubernetes names the kind rather than the resource here.
            error.details.kind = resource.kind.to_string();
            return Err(error);
        }
    }
    Ok(())
}

/// Marks an object as being deleted, with what holds it.
fn mark(core: &Core, resource: &Resource, value: &mut Value, options: &DeleteOptions) {
    let propagation = options
        .propagation
        .or(resource.quirks.orphans.then_some(Propagation::Orphan));
    let policy_finalizer = match propagation {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        _ => None,
    };
    // What a finalizer says already stands against a kind's custom, but not against a request.
    let held = object::finalizers(value)
        .iter()
        .any(|f| *f == ORPHAN || *f == FOREGROUND);
    if options.propagation.is_some() || (propagation.is_some() && !held) {
        let mut finalizers = object::finalizers(value);
        finalizers.retain(|f| *f != ORPHAN && *f != FOREGROUND);
        finalizers.extend(policy_finalizer);
        let finalizers: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
        set_meta(
            value,
            "finalizers",
            (!finalizers.is_empty()).then(|| finalizers.into()),
        );
    }
    let grace = grace_seconds(resource, value, options);
    let was = object::is_deleting(value);
    if !was {
        let at = (core.clock)().as_second().saturating_add(grace);
        let at = jiff::Timestamp::from_second(at).unwrap_or_else(|_| (core.clock)());
        set_meta(value, "deletionTimestamp", Some(rfc3339(at).into()));
        if let generation @ 1.. = object::generation(value) {
            set_meta(value, "generation", Some(generation.saturating_add(1).into()));
        }
        if resource.kind == "Namespace" && resource.group.is_empty() {
            object::set(value, "status", Some(json!({"phase": "Terminating"})));
        }
        if &*resource.table == crd::TABLE {
            crd::terminate(value, &rfc3339((core.clock)()));
        }
    }
    let before = object::at(value, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    if before.is_none_or(|b| grace < b) {
        set_meta(
            value,
            "deletionGracePeriodSeconds",
            (resource.kind != "Namespace").then(|| grace.into()),
        );
    }
}

/// Only pods that run on a node are deleted gracefully: their kubelet ends it.
fn grace_seconds(resource: &Resource, value: &Value, options: &DeleteOptions) -> i64 {
    let scheduled = resource.kind == "Pod"
        && resource.group.is_empty()
        && !object::text(value, &["spec", "nodeName"])
            .unwrap_or_default()
            .is_empty()
        && !matches!(
            object::text(value, &["status", "phase"]),
            Some("Succeeded" | "Failed")
        );
    if !scheduled {
        return 0;
    }
    let own = object::at(value, &["spec", "terminationGracePeriodSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(30);
    options.grace_seconds.unwrap_or(own).max(0)
}
