//! Size: a ledger is one object of the member, and those are bounded; pure.

use roundhouse_api::ledger::AppliedBundleSpec;

/// Bytes of JSON that a ledger may have. etcd takes requests of 1.5 MiB by default; a third is left for metadata and for
/// stores with a narrower limit.
pub(crate) const MAX_LEDGER: usize = 1024 * 1024;
/// By how many bytes an entry grows when its object is applied: uid, digest, revision, generations, outcome.
const GROWTH: usize = 320;

/// The inventory of a bundle does not fit into one ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger for {objects} objects would weigh {bytes} bytes and may have {MAX_LEDGER}: split the bundle, \
     nothing of it is applied before"
)]
pub(crate) struct TooLarge {
    objects: usize,
    bytes: usize,
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
        }),
        false => Ok(()),
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
    use roundhouse_api::ledger::LedgerEntry;
    use serde_json::json;

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
