//! What tests of the pipeline name.

use crate::object::ObjectKey;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};

/// An object of the core group, without a namespace.
pub(super) fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey {
        kind: kind.into(),
        name: name.into(),
        ..ObjectKey::default()
    }
}

/// The entry of a ConfigMap.
pub(super) fn entry(name: &str, outcome: LedgerOutcome, uid: Option<&str>) -> LedgerEntry {
    LedgerEntry {
        kind: "ConfigMap".into(),
        name: name.into(),
        uid: uid.map(str::to_owned),
        outcome,
        ..LedgerEntry::default()
    }
}
