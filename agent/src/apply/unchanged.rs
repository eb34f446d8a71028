//! Unchanged: whether an object that was found as the bundle wants it has to be judged again; pure.
//!
//! The same version of the same object, with the same manifest on the same terms and with the same entry in the ledger,
//! is judged in the same way. Every pass reads the object; what is spared is to parse and merge it.

use crate::apply::decode::Manifest;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::{Observation, Order, Task};
use crate::kinds::Kind;
use crate::object::ObjectKey;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use roundhouse_patch::schema;
use serde::Deserialize;
use std::borrow::Cow;

/// Which state of which object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

impl<'a> Version<'a> {
    /// The version of an object as the member sent it; `None` if it has none, which is then nothing to rely on.
    pub(crate) fn of(text: &'a str) -> Option<Version<'a>> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Version<'a>,
        }
        let object: Object<'a> = serde_json::from_str(text).ok()?;
        Some(object.metadata)
    }
}

/// What the last look found, and the version of the object that it holds for; `None` if there is something to be judged
/// again whatever the object is now.
///
/// Custom resources are: a member shows them as their definition says now, and that changes without the object.
pub(crate) fn unchanged<'a>(
    task: &Task<'a>,
    order: &Order<'_>,
    kind: &Kind,
    target: &ObjectKey,
) -> Option<(&'a Observation, Version<'a>)> {
    let known = task.known.filter(|_| !order.anew)?;
    let entry = task.entry.filter(|entry| is_settled(entry, task.manifest))?;
    let same = known.outcome == Outcome::Applied(Applied::Unchanged)
        && known.differences.is_none()
        && known.meta.ordinal == task.manifest.ordinal
        && known.kind.as_deref() == Some(kind)
        && known.target.as_ref() == Some(target);
    let built_in = schema::lookup(&task.manifest.api_version(), &task.manifest.key.kind).is_some();
    let version = Version {
        uid: entry.uid.as_deref()?.into(),
        resource_version: known.seen.as_deref()?.into(),
    };
    (same && built_in).then_some((known, version))
}

/// Whether the ledger says what it would be told again.
fn is_settled(entry: &LedgerEntry, manifest: &Manifest) -> bool {
    entry.digest.as_deref() == Some(&manifest.digest)
        && matches!(entry.outcome, LedgerOutcome::Applied | LedgerOutcome::Completed)
}

#[cfg(test)]
mod tests;
