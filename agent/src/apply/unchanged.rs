//! Unchanged: whether an object that was found as the bundle wants it has to be judged again; pure.
//!
//! The same answer of the member, byte for byte, with the same manifest on the same terms and with the same entry in the
//! ledger, is judged in the same way. Every pass reads the object; what is spared is to parse and merge it. A version
//! would not do: a member shows custom resources as their definition says now, and that changes without the object.

use crate::apply::decode::Manifest;
use crate::apply::once::recorded;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::{Observation, Order, Task};
use crate::kinds::Kind;
use crate::object::ObjectKey;
use roundhouse_api::hash;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};

/// An answer of the member, to be told from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of an object as the member sent it.
    pub(crate) fn of(text: &str) -> Fingerprint {
        Fingerprint(hash::digest(text.as_bytes()))
    }
}

/// What the last look found, and the answer that it holds for; `None` if there is something to be judged again whatever
/// the object is now.
pub(crate) fn unchanged<'a>(
    task: &Task<'a>,
    order: &Order<'_>,
    kind: &Kind,
    target: &ObjectKey,
) -> Option<(&'a Observation, Fingerprint)> {
    let known = task.known.filter(|_| !order.anew)?;
    task.entry.filter(|entry| is_settled(entry, task.manifest))?;
    let same = known.outcome == Outcome::Applied(Applied::Unchanged)
        && known.differences.is_none()
        && !known.is_postponed()
        && known.meta.ordinal == task.manifest.ordinal
        && known.kind.as_deref() == Some(kind)
        && known.target.as_ref() == Some(target);
    known.answer.filter(|_| same).map(|answer| (known, answer))
}

/// Whether the ledger says what it would be told again.
fn is_settled(entry: &LedgerEntry, manifest: &Manifest) -> bool {
    entry.uid.is_some()
        && recorded(manifest, entry)
        && matches!(entry.outcome, LedgerOutcome::Applied | LedgerOutcome::Completed)
}

#[cfg(test)]
mod tests;
