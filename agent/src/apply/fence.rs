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
}

impl Fenced {
    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Fenced::HashMismatch { .. } => "HashMismatch",
            Fenced::OldEpoch { .. } => OLD_EPOCH,
            Fenced::OldGeneration { .. } => OLD_GENERATION,
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

/// Checks the order of writes: by epoch, and of one Bundle uid within one epoch by generation. A newer epoch may come with a
/// lower generation (the hub was restored and its administrator confirmed it). A Bundle that was made again has generations of
/// its own, and one that was made by hand has no epoch.
pub(crate) fn check_order(
    uid: &str,
    epoch: Option<i64>,
    generation: i64,
    ledger: &AppliedBundleSpec,
) -> Result<(), Fenced> {
    let same = ledger.bundle_uid == uid;
    if !same && epoch.is_none() {
        return Ok(());
    }
    let (found, obeyed) = (epoch.unwrap_or(0), ledger.epoch.unwrap_or(0));
    if found < obeyed {
        return Err(Fenced::OldEpoch { found, obeyed });
    }
    if same && found == obeyed && generation < ledger.generation {
        return Err(Fenced::OldGeneration {
            found: generation,
            obeyed: ledger.generation,
        });
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
            generation: 5,
            epoch: Some(7),
            ..AppliedBundleSpec::default()
        };
        let cases = [
            ("u", Some(7), 5, None),
            ("u", Some(7), 6, None),
            ("u", Some(8), 1, None),
            ("u", Some(6), 9, Some("OldEpoch")),
            ("u", None, 9, Some("OldEpoch")),
            ("u", Some(7), 4, Some("OldGeneration")),
            ("other", Some(7), 1, None),
            ("other", Some(1), 9, Some("OldEpoch")),
            ("other", None, 1, None),
        ];
        for (uid, epoch, generation, expected) in cases {
            let got = check_order(uid, epoch, generation, &ledger)
                .err()
                .map(|fenced| fenced.reason());
            assert_eq!(got, expected, "{uid} {epoch:?} {generation}");
        }
    }
}
