//! Size: a ledger is one object of the member, and those are bounded; pure.

use crate::object::ObjectKey;
use parking_lot::Mutex;
use roundhouse_api::hash::canonical;
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of JSON that a ledger may have. etcd takes requests of 1.5 MiB by default; a third is left for metadata and for
/// stores with a narrower limit.
pub(crate) const MAX_LEDGER: usize = 1024 * 1024;
/// By how many bytes an entry grows when its object is applied: uid, digest, revision, generations, outcome.
const GROWTH: usize = 320;
/// Bytes of JSON that the values which apply-once rules keep (`onUpdate`) may have in one ledger, all together: the other
/// half is for the inventory, so that a bundle may still grow.
pub(crate) const MAX_KEPT_IN_ALL: usize = MAX_LEDGER / 2;

/// The inventory of a bundle does not fit into one ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger for {objects} objects would weigh {bytes} bytes, {kept} of them values that apply-once rules keep, and may \
     have {MAX_LEDGER}: split the bundle, nothing of it is applied before"
)]
pub(crate) struct TooLarge {
    objects: usize,
    bytes: usize,
    kept: usize,
}

/// Whether the inventory fits, last-applied copies aside, when all of it is applied.
pub(crate) fn check(spec: &AppliedBundleSpec) -> Result<(), TooLarge> {
    let copies: usize = spec.objects.iter().map(copy).sum();
    let unsettled = spec.objects.iter().filter(|entry| entry.digest.is_none()).count();
    let bytes = weight(spec).saturating_sub(copies) + unsettled * GROWTH;
    match bytes > MAX_LEDGER {
        true => Err(TooLarge {
            objects: spec.objects.len(),
            bytes,
            kept: spec.objects.iter().map(|entry| weight_of_kept(&entry.kept)).sum(),
        }),
        false => Ok(()),
    }
}

/// How many bytes of JSON kept values have.
pub(crate) fn weight_of_kept(kept: &BTreeMap<String, Value>) -> usize {
    match kept.is_empty() {
        true => 0,
        false => canonical(&json!(kept)).len(),
    }
}

/// The room that kept values have in one ledger, in the course of one pass: the objects of a bundle share it, first come
/// first served, and what an object has already counts as its own.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    taken: Mutex<BTreeMap<ObjectKey, usize>>,
}

/// Kept values find no room in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "with these {bytes} the values that apply-once rules keep would have {all} bytes in the ledger, and may have {limit}"
)]
pub(crate) struct NoRoom {
    bytes: usize,
    all: usize,
    limit: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            limit: MAX_KEPT_IN_ALL,
            taken: Mutex::default(),
        }
    }
}

impl Room {
    /// The room in a ledger of which these entries are known.
    pub(crate) fn of(entries: &[LedgerEntry]) -> Self {
        let taken = entries.iter().filter(|entry| !entry.kept.is_empty());
        let taken = taken.map(|entry| (ObjectKey::of_entry(entry), weight_of_kept(&entry.kept)));
        Room {
            taken: Mutex::new(taken.collect()),
            ..Room::default()
        }
    }

    /// Takes room for the values of one object, instead of what it had.
    ///
    /// # Errors
    /// [`NoRoom`]; it has what it had then.
    pub(crate) fn take(&self, key: &ObjectKey, bytes: usize) -> Result<(), NoRoom> {
        let mut taken = self.taken.lock();
        let had = taken.get(key).copied().unwrap_or_default();
        let others = taken.values().sum::<usize>() - had;
        let all = others + bytes;
        // One that shrinks is no reason to fail, whatever the others have.
        if all > self.limit && bytes > had {
            let limit = self.limit;
            return Err(NoRoom { bytes, all, limit });
        }
        taken.insert(key.clone(), bytes);
        Ok(())
    }
}

/// Drops last-applied copies, the largest first, until the ledger fits; answers how many. Without its copy, an object
/// keeps what the next content leaves out of it. The same ledger is always trimmed in the same way.
pub(crate) fn trim(spec: &mut AppliedBundleSpec) -> usize {
    // Ledgers without copies are most of them, and they were checked when the objects were entered.
    if spec.objects.iter().all(|entry| entry.last_applied.is_none()) {
        return 0;
    }
    let mut excess = weight(spec).saturating_sub(MAX_LEDGER);
    let mut dropped = 0;
    while excess > 0 {
        let largest = spec
            .objects
            .iter_mut()
            .filter(|entry| entry.last_applied.is_some());
        let Some(entry) = largest.max_by_key(|entry| copy(entry)) else {
            break;
        };
        excess = excess.saturating_sub(copy(entry));
        entry.last_applied = None;
        dropped += 1;
    }
    dropped
}

fn copy(entry: &roundhouse_api::ledger::LedgerEntry) -> usize {
    let field = "\"lastApplied\":,".len();
    let copy = entry.last_applied.as_ref();
    copy.map_or(0, |copy| roundhouse_api::hash::weight(copy) + field)
}

fn weight(spec: &AppliedBundleSpec) -> usize {
    // Writing to memory has no failing path.
    serde_json::to_vec(spec).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: String, copy: usize) -> LedgerEntry {
        LedgerEntry {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            name,
            last_applied: (copy > 0).then(|| json!({"data": "x".repeat(copy)})),
            ..LedgerEntry::default()
        }
    }

    #[test]
    fn a_thousand_objects_with_the_longest_names_fit_and_many_more_do_not() {
        let of = |objects: usize| AppliedBundleSpec {
            objects: (0..objects).map(|n| entry(format!("{n:0>253}"), 0)).collect(),
            ..AppliedBundleSpec::default()
        };
        assert_eq!(check(&of(1000)), Ok(()));
        let error = check(&of(4000)).unwrap_err();
        assert!(error.to_string().contains("4000 objects"), "{error}");
    }

    #[test]
    fn kept_values_of_all_objects_share_half_a_ledger() {
        let value = |bytes: usize| BTreeMap::from([("/data/k".to_owned(), json!("x".repeat(bytes)))]);
        let mut first = entry("a".into(), 0);
        first.kept = value(MAX_KEPT_IN_ALL / 2);
        let mut spec = AppliedBundleSpec {
            objects: vec![first, entry("b".into(), 0)],
            ..AppliedBundleSpec::default()
        };
        let room = Room::of(&spec.objects);
        let [a, b, c] = ["a", "b", "c"].map(|name| ObjectKey::of_entry(&entry(name.into(), 0)));
        assert!(
            room.take(&b, MAX_KEPT_IN_ALL / 2).is_err(),
            "the field's own name counts too"
        );
        assert_eq!(room.take(&b, MAX_KEPT_IN_ALL / 4), Ok(()));
        assert_eq!(
            room.take(&b, MAX_KEPT_IN_ALL / 4),
            Ok(()),
            "asked twice in one pass"
        );
        assert_eq!(
            room.take(&a, MAX_KEPT_IN_ALL / 4),
            Ok(()),
            "what it had is its own"
        );
        assert_eq!(room.take(&c, MAX_KEPT_IN_ALL / 2), Ok(()));
        let full = room.take(&b, MAX_KEPT_IN_ALL / 2).unwrap_err();
        assert!(full.to_string().contains(&MAX_KEPT_IN_ALL.to_string()), "{full}");
        assert_eq!(room.take(&b, 1), Ok(()));
        // A ledger that is full of them says what of it they are.
        spec.objects[1].kept = value(MAX_LEDGER);
        let error = check(&spec).unwrap_err().to_string();
        let kept: usize = spec.objects.iter().map(|entry| weight_of_kept(&entry.kept)).sum();
        assert!(error.contains(&format!("{kept} of them values")), "{error}");
    }

    #[test]
    fn the_largest_copies_are_dropped_until_it_fits() {
        let sizes = [400_000, 10, 500_000, 300_000];
        let mut spec = AppliedBundleSpec {
            objects: sizes
                .iter()
                .enumerate()
                .map(|(n, size)| entry(n.to_string(), *size))
                .collect(),
            ..AppliedBundleSpec::default()
        };
        let kept = |spec: &AppliedBundleSpec| -> Vec<bool> {
            spec.objects
                .iter()
                .map(|entry| entry.last_applied.is_some())
                .collect()
        };
        assert_eq!(check(&spec), Ok(()), "copies do not count");
        assert_eq!(trim(&mut spec), 1);
        assert_eq!(kept(&spec), [true, true, false, true]);
        assert_eq!(trim(&mut spec), 0);
        assert!(weight(&spec) <= MAX_LEDGER);
    }
}
