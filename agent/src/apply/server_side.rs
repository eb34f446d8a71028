//! Server-side apply: the configuration that is sent, whether it is sent at all, and what a conflict says; pure.
//!
//! Removal of a field by leaving it out is the server's. What an earlier three-way apply of ours wrote is handed to the
//! field manager before its first apply, or the two would own the same fields: the one would conflict with the other,
//! and a field left out would stay, because the other still owns it.

mod owned;
mod send;

use crate::apply::decode::Manifest;
use crate::apply::desired::stamped;
use crate::apply::exempt::Exempt;
use crate::apply::strategy::Treatment;
use crate::object::{self, ObjectKey};
use crate::path::by_place;
use kube::core::Status;
use roundhouse_api::bundle::ServerSideApply;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_patch::managed::{Entry, Operation, owners_at, read_entries, write_entries};
use serde_json::{Value, json};

pub(crate) use owned::holds;
pub(crate) use send::Sent;

/// The manager that the API server makes up for what an object had before its first apply.
const BEFORE_FIRST: &str = "before-first-apply";
/// The fields that a message names, at most.
const MAX_FIELDS: usize = 5;

/// In which manner objects are applied on the server side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manner {
    /// The field manager.
    pub(crate) manager: String,
    /// Whether fields of other managers are taken over.
    pub(crate) force: bool,
}

/// The manner of a treatment.
pub(crate) fn manner(treatment: Treatment<'_>) -> Manner {
    Manner {
        manager: manager(treatment).to_owned(),
        force: applying(treatment).is_some_and(|apply| apply.force),
    }
}

/// The field manager of a treatment.
pub(crate) fn manager(treatment: Treatment<'_>) -> &str {
    let named = applying(treatment).map(|apply| apply.field_manager.as_str());
    named
        .filter(|named| !named.is_empty())
        .unwrap_or(AGENT_FIELD_MANAGER)
}

fn applying(treatment: Treatment<'_>) -> Option<&ServerSideApply> {
    let strategy = treatment.config?.update_strategy.as_ref()?;
    strategy.server_side_apply.as_ref()
}

/// The live object that a configuration is applied to, and what of it is left as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Over<'a> {
    pub(crate) live: &'a Value,
    pub(crate) entry: Option<&'a LedgerEntry>,
    pub(crate) exempt: Exempt<'a>,
}

/// The configuration that is applied: the manifest with our stamps, and with the live values of what is exempt. What is
/// kept so and owned by others alone is left out, so that it stays theirs; what we own is sent, or the server would
/// remove it.
pub(crate) fn configuration(
    manifest: &Manifest,
    marker: &str,
    over: Option<Over<'_>>,
    manager: &str,
) -> Value {
    let mut config = stamped(manifest, marker);
    let Some(Over { live, entry, exempt }) = over else {
        return config;
    };
    let rendered = config.clone();
    let mut locations: Vec<String> = exempt
        .lay(manifest, live, entry, &mut config)
        .into_iter()
        .collect();
    if !locations.is_empty() {
        // The managed fields find elements of lists by their keys, which the configuration has too.
        let mut owned = config.clone();
        owned["metadata"]["managedFields"] = live
            .pointer("/metadata/managedFields")
            .cloned()
            .unwrap_or_default();
        // The last one first: what is taken out of a list moves what is behind it.
        locations.sort_by(|one, other| by_place(other, one));
        for location in &locations {
            let owners = owners_at(&owned, location);
            let ours = |owner: &roundhouse_patch::managed::Owner| owner.manager == manager;
            if !owners.is_empty() && !owners.iter().any(ours) {
                leave_out(&mut config, location, &rendered);
            }
        }
    }
    if let Some(version) = object::resource_version(live) {
        // The server refuses the apply if the object changed since it was looked at.
        config["metadata"]["resourceVersion"] = json!(version);
    }
    config
}

/// Removes what is at a location, and the objects above it that are empty then and that the manifest does not have.
fn leave_out(config: &mut Value, location: &str, rendered: &Value) {
    let Some((parent, token)) = location.rsplit_once('/') else {
        return;
    };
    let token = token.replace("~1", "/").replace("~0", "~");
    match config.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&token);
            if fields.is_empty() && rendered.pointer(parent).is_none() {
                leave_out(config, parent, rendered);
            }
        }
        Some(Value::Array(items)) => {
            if let Some(place) = token.parse().ok().filter(|place| *place < items.len()) {
                items.remove(place);
            }
        }
        _ => {}
    }
}

/// The managed fields with what we own by other writes, or applied under our own name, handed to `manager`; `None` if
/// there is nothing to hand over, or the fields do not read.
pub(crate) fn taken_over(live: &Value, manager: &str) -> Option<Value> {
    let entries = read_entries(live.pointer("/metadata/managedFields")?).ok()?;
    let ours = |entry: &Entry| {
        let writes = entry.manager == manager || entry.manager == AGENT_FIELD_MANAGER;
        let applies = entry.operation == Operation::Apply && entry.manager == manager;
        entry.subresource.is_empty() && writes && !applies
    };
    let (written, mut others): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(ours);
    let first = written.first()?;
    let mut applied = Entry {
        manager: manager.to_owned(),
        operation: Operation::Apply,
        ..first.clone()
    };
    for entry in written {
        // Fields of another version may not be fields of this one: they are let go.
        if entry.api_version == applied.api_version {
            applied.fields = applied.fields.union(entry.fields);
        }
    }
    if let Some(at) = others.iter().position(|have| have.same_manager(&applied)) {
        let have = others.swap_remove(at);
        if have.api_version == applied.api_version {
            applied.fields = applied.fields.union(have.fields);
        } else {
            applied = have;
        }
    }
    others.push(applied);
    Some(write_entries(others))
}

/// A field that the server does not let us change, because somebody else owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    manager: String,
    field: String,
}

/// What a refused apply says of conflicts; empty if it was refused for another reason.
pub(crate) fn conflicts(status: &Status) -> Vec<Conflict> {
    let causes = status
        .details
        .as_ref()
        .map_or(&[][..], |details| details.causes.as_slice());
    let conflicts = causes
        .iter()
        .filter(|cause| status.code == 409 && cause.reason == "FieldManagerConflict");
    conflicts
        .map(|cause| Conflict {
            // conflict with "hpa" with subresource "scale" using apps/v1
            manager: cause
                .message
                .split('"')
                .nth(1)
                .unwrap_or(&cause.message)
                .to_owned(),
            field: cause.field.clone(),
        })
        .collect()
}

/// Whether nobody stands behind the conflicts: the object had no managed fields, and the server made up an owner.
pub(crate) fn are_nobodys(conflicts: &[Conflict]) -> bool {
    !conflicts.is_empty() && conflicts.iter().all(|conflict| conflict.manager == BEFORE_FIRST)
}

/// What a person should know about conflicts.
pub(crate) fn conflict_message(key: &ObjectKey, conflicts: &[Conflict]) -> String {
    let shown: Vec<String> = conflicts
        .iter()
        .take(MAX_FIELDS)
        .map(|conflict| format!("{} (of {})", conflict.field, conflict.manager))
        .collect();
    let more = match conflicts.len().saturating_sub(MAX_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{key}: other field managers own {}{more}: set updateStrategy.serverSideApply.force to take the fields over, \
         leave them out of the manifest, or list them in ignoreFields",
        shown.join(", ")
    )
}

#[cfg(test)]
mod tests;
