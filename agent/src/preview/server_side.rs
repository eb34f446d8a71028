//! What a server-side apply would make of an object, without asking the server.

use crate::apply::decode::Manifest;
use crate::apply::server_side::Manner;
use roundhouse_patch::json_merge;
use roundhouse_patch::managed::{Apply, ApplyError, Conflicts, Scope, Write, apply, built_in, read_entries};
use serde_json::Value;

/// Why a server-side apply comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Others own fields that would get another value.
    Conflicts(Conflicts),
    /// The configuration does not fit the kind.
    Misfit(String),
}

/// The live object after `config` was applied. How lists of a custom kind merge only its definition tells: there the
/// configuration is laid over the live object, and what is left out of it stays.
pub(crate) fn applied(
    manifest: &Manifest,
    live: &Value,
    config: &Value,
    manner: &Manner,
) -> Result<Value, Refusal> {
    let api_version = manifest.api_version();
    let Some(topology) = built_in(&api_version, &manifest.key.kind) else {
        let mut after = live.clone();
        json_merge(&mut after, config);
        return Ok(after);
    };
    let mut bare = live.clone();
    let metadata = bare.get_mut("metadata").and_then(Value::as_object_mut);
    let managed = metadata.and_then(|metadata| metadata.remove("managedFields"));
    let entries = read_entries(&managed.unwrap_or_default());
    let entries = entries.map_err(|error| Refusal::Misfit(error.to_string()))?;
    let apply_of = Apply {
        write: Write {
            manager: &manner.manager,
            api_version: &api_version,
            subresource: "",
            // The time of the write is no part of what is compared.
            now: "1970-01-01T00:00:00Z",
        },
        force: manner.force,
    };
    match apply(Some(&bare), config, entries, &apply_of, topology, &Scope::all()) {
        Ok(applied) => Ok(applied.object),
        Err(ApplyError::Conflicts(conflicts)) => Err(Refusal::Conflicts(conflicts)),
        Err(error) => Err(Refusal::Misfit(error.to_string())),
    }
}
