//! Fence: whether this content may be acted on at all. Two questions: is it what the hub wrote, and is it not older
//! than what was obeyed before.

use roundhouse_api::bundle::{OLD_EPOCH, OLD_GENERATION};
use roundhouse_api::hash;
use roundhouse_api::ledger::AppliedBundleSpec;
use serde_json::Value;

/// Why a bundle is not acted on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fenced {
    #[error(
        "spec.hash says {declared}, the manifests hash to {actual}: nothing is applied; the bundle was changed on its way or by hand"
    )]
    HashMismatch { declared: String, actual: String },
    #[error(
        "the bundle carries epoch {found}, but epoch {obeyed} was obeyed before: a hub wrote it that does not lead any more, and it is ignored; if the hub was restored from a backup, roundhouse restore --confirm lets it go on"
    )]
    OldEpoch { found: i64, obeyed: i64 },
    #[error(
        "the bundle has generation {found}, but generation {obeyed} was applied before: the hub went back in time, and it is ignored; if it was restored from a backup, roundhouse restore --confirm lets it go on"
    )]
    OldGeneration { found: i64, obeyed: i64 },
    #[error(
        "another bundle of this name, with uid {obeyed}, was made after it and was applied before: the hub showed an earlier state, and it is ignored; if the hub was restored from a backup, roundhouse restore --confirm lets it go on"
    )]
    OldBundle { obeyed: String },
}

/// Which write of which Bundle something is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) uid: &'a str,
    /// Its resource version.
    pub(crate) version: &'a str,
    pub(crate) epoch: Option<i64>,
    pub(crate) generation: i64,
    /// Whether it was ignored before, for something later.
    pub(crate) ignored: bool,
}

impl Fenced {
    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Fenced::HashMismatch { .. } => "HashMismatch",
            Fenced::OldEpoch { .. } => OLD_EPOCH,
            Fenced::OldGeneration { .. } | Fenced::OldBundle { .. } => OLD_GENERATION,
        }
    }
}

/// Checks the manifests against the hash that the hub declared; answers the actual hash.
pub(crate) fn check_hash(declared: Option<&str>, manifests: &[Value]) -> Result<String, Fenced> {
    let actual = hash::of_manifests(manifests);
    match declared {
        Some(declared) if declared != actual => Err(Fenced::HashMismatch {
            declared: declared.to_owned(),
            actual,
        }),
        _ => Ok(actual),
    }
}

/// Checks the order of writes: by epoch, and within one epoch by generation, or, of a Bundle that was made again and counts its
/// generations anew, by resource version. A newer epoch may come with lower numbers (the hub was restored and its administrator
/// confirmed it). One that was made by hand has no epoch: it is not judged by that of another.
pub(crate) fn check_order(write: Write<'_>, ledger: &AppliedBundleSpec) -> Result<(), Fenced> {
    let same = ledger.bundle_uid == write.uid;
    let earlier = went_before(write, ledger);
    if !same && write.epoch.is_none() {
        return earlier;
    }
    let (found, obeyed) = (write.epoch.unwrap_or(0), ledger.epoch.unwrap_or(0));
    if found < obeyed {
        return Err(Fenced::OldEpoch { found, obeyed });
    }
    if same && found == obeyed && write.generation < ledger.generation {
        return Err(Fenced::OldGeneration {
            found: write.generation,
            obeyed: ledger.generation,
        });
    }
    earlier
}

/// Checks that a Bundle did not go before the one of its name that is obeyed: a stale list may show it, and how it went. One of a
/// newer epoch did not, whatever its numbers.
///
/// On a hub that was restored it is really there, and whoever writes it gives it a later version: the agent's own report first
/// of all. So one that was ignored stays so, whatever its version, and whatever somebody changes in it: only a newer epoch
/// says that the hub went back on purpose.
fn went_before(write: Write<'_>, ledger: &AppliedBundleSpec) -> Result<(), Fenced> {
    let obeyed = &ledger.bundle_uid;
    let is_newer = write.epoch.unwrap_or(0) > ledger.epoch.unwrap_or(0);
    if obeyed.is_empty() || obeyed == write.uid || is_newer {
        return Ok(());
    }
    let number = |version: &str| version.parse::<u64>().ok();
    let known = ledger.bundle_version.as_deref().and_then(number);
    let is_older = number(write.version)
        .zip(known)
        .is_some_and(|(found, known)| found < known);
    if is_older || write.ignored {
        let obeyed = obeyed.clone();
        return Err(Fenced::OldBundle { obeyed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_different_hash_applies_nothing() {
        let manifests = [json!({"kind": "ConfigMap"})];
        let actual = hash::of_manifests(&manifests);
        assert_eq!(check_hash(None, &manifests), Ok(actual.clone()));
        assert_eq!(check_hash(Some(&actual), &manifests), Ok(actual));
        let refused = check_hash(Some("abc"), &manifests).unwrap_err();
        assert_eq!(refused.reason(), "HashMismatch");
    }

    #[test]
    fn older_writes_are_ignored() {
        let ledger = AppliedBundleSpec {
            bundle_uid: "u".into(),
            bundle_version: Some("100".into()),
            generation: 5,
            epoch: Some(7),
            ..AppliedBundleSpec::default()
        };
        let cases = [
            ("u", "200", Some(7), 5, None),
            ("u", "200", Some(7), 6, None),
            ("u", "200", Some(8), 1, None),
            ("u", "200", Some(6), 9, Some("OldEpoch")),
            ("u", "200", None, 9, Some("OldEpoch")),
            ("u", "200", Some(7), 4, Some("OldGeneration")),
            // Kept in a file, or of a hub whose data was put back: its generation tells.
            ("u", "1", Some(7), 5, None),
            ("other", "101", Some(7), 1, None),
            ("other", "200", Some(1), 9, Some("OldEpoch")),
            ("other", "200", None, 1, None),
            // It went before; as numbers, not as texts.
            ("other", "99", Some(7), 9, Some("OldGeneration")),
            ("other", "99", Some(8), 1, None),
            ("other", "99", None, 9, Some("OldGeneration")),
            // Nothing can be said of these.
            ("other", "opaque", Some(7), 1, None),
            ("other", "", None, 1, None),
        ];
        for (uid, version, epoch, generation, expected) in cases {
            let write = Write {
                uid,
                version,
                epoch,
                generation,
                ignored: false,
            };
            let got = check_order(write, &ledger).err().map(|fenced| fenced.reason());
            assert_eq!(got, expected, "{uid} {version} {epoch:?} {generation}");
        }
    }

    #[test]
    fn what_went_before_stays_ignored_until_a_newer_epoch() {
        let obeyed = |epoch, version: Option<&str>| AppliedBundleSpec {
            bundle_uid: "u".into(),
            bundle_version: version.map(Into::into),
            generation: 5,
            epoch,
            ..AppliedBundleSpec::default()
        };
        let write = |uid, version, epoch, ignored| Write {
            uid,
            version,
            epoch,
            generation: 9,
            ignored,
        };
        let old = Err(Fenced::OldBundle { obeyed: "u".into() });
        for (of_write, of_ledger) in [(Some(7), Some(7)), (None, Some(7)), (None, None)] {
            let ledger = obeyed(of_ledger, Some("100"));
            let check =
                |version, epoch, ignored| check_order(write("other", version, epoch, ignored), &ledger);
            // The same words each time: a report that says them again is not sent.
            assert_eq!(check("99", of_write, false), old);
            for version in ["99", "101", "9000", "opaque"] {
                assert_eq!(check(version, of_write, true), old, "{version}");
                assert_eq!(check(version, Some(8), true), Ok(()), "{version}");
            }
            // Made again since, it was not ignored.
            assert_eq!(check("101", of_write, false), Ok(()));
            let same = write("u", "101", of_ledger, true);
            assert_eq!(check_order(same, &ledger), Ok(()));
        }
        // A ledger of before versions were kept, and none.
        let other = write("other", "101", Some(7), true);
        assert_eq!(check_order(other, &obeyed(Some(7), None)), old);
        assert_eq!(check_order(other, &AppliedBundleSpec::default()), Ok(()));
    }
}
