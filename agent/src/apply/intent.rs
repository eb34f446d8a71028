//! Intent: what is to happen with a bundle as a whole. Deleting needs positive evidence; everything else is held.

use crate::apply::fence::{self, Fenced, Write};
use crate::ledger::is_leaving;
use roundhouse_api::bundle::BundleSpec;
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry, LedgerOutcome};

/// What is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Its manifests are applied.
    Apply,
    /// Nothing moves; the reason and the message are reported.
    Hold { reason: &'static str, message: String },
    /// An older hub wrote it: it is not acted on.
    Ignore(Fenced),
    /// Its objects are removed.
    Remove,
    /// It vanished without evidence: its objects stay, the ledger says so.
    Orphan,
    /// It vanished and there is nothing to answer for.
    Forget,
}

/// The bundle, as far as this decision needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sight<'a> {
    /// It is on the hub. Of one that is being deleted, `confirmed` says that the hub was asked and its namespace stands.
    Present {
        write: Write<'a>,
        deleting: bool,
        confirmed: bool,
        spec: &'a BundleSpec,
    },
    /// The hub said that it was deleted; `write` is its last state, `confirmed` as above.
    Deleted {
        write: Write<'a>,
        spec: &'a BundleSpec,
        confirmed: bool,
    },
    /// It is not on the hub.
    Missing,
}

/// Decides.
pub(crate) fn intent(sight: Sight<'_>, ledger: &AppliedBundleSpec) -> Intent {
    match sight {
        Sight::Present {
            write,
            deleting,
            confirmed,
            spec,
        } => {
            if let Err(fenced) = fence::check_order(write, ledger) {
                Intent::Ignore(fenced)
            } else if spec.paused == Some(true) {
                let message = "spec.paused is true: nothing is applied, pruned or deleted".to_owned();
                Intent::Hold {
                    reason: "Paused",
                    message,
                }
            } else if !deleting
                && spec.workload.manifests.is_empty()
                && spec.application_ref.is_some()
                && spec.deletion.is_none()
                && answers(ledger)
            {
                let message = "the Bundle has no manifests any more, but spec.deletion was not written first: its \
                     objects are held on the cluster; give it its manifests back, or delete the Application to \
                     remove them";
                Intent::Hold {
                    reason: "EmptyNotConfirmed",
                    message: message.to_owned(),
                }
            } else if !deleting {
                Intent::Apply
            } else if has_evidence(spec, confirmed) {
                Intent::Remove
            } else {
                let message = match spec.application_ref {
                    Some(_) => {
                        "the Bundle is being deleted, but spec.deletion was not written first: \
                         its objects are held on the cluster"
                    }
                    None => {
                        "the Bundle is being deleted, and the namespace or the definition of Bundles seems to go with \
                         it, as the agent's Lease is not there: its objects are held on the cluster; write \
                         spec.deletion if they are to go"
                    }
                };
                Intent::Hold {
                    reason: "DeletionNotConfirmed",
                    message: message.to_owned(),
                }
            }
        }
        Sight::Deleted {
            write,
            spec,
            confirmed,
        } => {
            // How another one went that is not obeyed says nothing of the one that is.
            let of_this = ledger.bundle_uid == write.uid || fence::check_order(write, ledger).is_ok();
            if of_this && spec.paused != Some(true) && has_evidence(spec, confirmed) {
                match spec.workload.manifests.is_empty() {
                    true => gone(ledger, Intent::Remove),
                    // A ledger without objects may be one that was lost: the manifests tell what to look for.
                    false => Intent::Remove,
                }
            } else {
                missing(ledger)
            }
        }
        Sight::Missing => missing(ledger),
    }
}

/// A bundle that dispatch wrote goes only if dispatch said so first; a hand-written one goes when it is deleted, by itself.
fn has_evidence(spec: &BundleSpec, confirmed: bool) -> bool {
    spec.deletion.is_some() || (spec.application_ref.is_none() && confirmed)
}

/// Whether the hub has to be asked before a bundle that is being deleted, or was, is removed.
pub(crate) fn asks_for_confirmation(spec: &BundleSpec) -> bool {
    spec.application_ref.is_none() && spec.deletion.is_none() && spec.paused != Some(true)
}

/// Whether the ledger has objects that are not on their way out already.
fn answers(ledger: &AppliedBundleSpec) -> bool {
    let ours = |entry: &LedgerEntry| entry.outcome != LedgerOutcome::Observed && !is_leaving(entry.outcome);
    ledger.objects.iter().any(ours)
}

/// The evidence may have been seen by an earlier run: then every entry of the ledger says `Removing`.
fn missing(ledger: &AppliedBundleSpec) -> Intent {
    let removing = |outcome| outcome == LedgerOutcome::Removing;
    if ledger.objects.iter().all(|entry| removing(entry.outcome)) {
        gone(ledger, Intent::Remove)
    } else {
        Intent::Orphan
    }
}

fn gone(ledger: &AppliedBundleSpec, otherwise: Intent) -> Intent {
    if ledger.objects.is_empty() {
        Intent::Forget
    } else {
        otherwise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::bundle::{ApplicationRef, Deletion, ManifestsTemplate};

    fn spec(dispatched: bool, deletion: bool, paused: bool) -> BundleSpec {
        BundleSpec {
            workload: ManifestsTemplate {
                manifests: vec![serde_json::json!({"kind": "ConfigMap"})],
            },
            application_ref: dispatched.then(ApplicationRef::default),
            deletion: deletion.then(Deletion::default),
            paused: Some(paused),
            epoch: Some(3),
            ..BundleSpec::default()
        }
    }

    /// Of the epoch that [`spec`] has.
    fn write<'a>(uid: &'a str, version: &'a str, generation: i64) -> Write<'a> {
        Write {
            uid,
            version,
            epoch: Some(3),
            generation,
            ignored: false,
        }
    }

    fn ledger(outcomes: &[LedgerOutcome]) -> AppliedBundleSpec {
        AppliedBundleSpec {
            bundle_uid: "u".into(),
            generation: 5,
            epoch: Some(3),
            objects: outcomes
                .iter()
                .map(|&outcome| LedgerEntry {
                    outcome,
                    ..LedgerEntry::default()
                })
                .collect(),
            ..AppliedBundleSpec::default()
        }
    }

    fn word(intent: &Intent) -> &'static str {
        match intent {
            Intent::Apply => "apply",
            Intent::Hold { reason, .. } => reason,
            Intent::Ignore(fenced) => fenced.reason(),
            Intent::Remove => "remove",
            Intent::Orphan => "orphan",
            Intent::Forget => "forget",
        }
    }

    #[test]
    fn a_bundle_that_is_there() {
        for (dispatched, deletion, paused, deleting, confirmed, expected) in [
            (true, false, false, false, false, "apply"),
            (true, true, false, false, false, "apply"),
            (true, true, false, true, false, "remove"),
            (true, false, false, true, true, "DeletionNotConfirmed"),
            (false, false, false, true, true, "remove"),
            (false, false, false, true, false, "DeletionNotConfirmed"),
            (false, true, false, true, false, "remove"),
            (false, false, true, false, false, "Paused"),
            (true, true, true, true, true, "Paused"),
        ] {
            let spec = spec(dispatched, deletion, paused);
            let sight = Sight::Present {
                write: write("u", "20", 5),
                deleting,
                confirmed,
                spec: &spec,
            };
            let got = intent(sight, &ledger(&[LedgerOutcome::Applied]));
            let case = (dispatched, deletion, paused, deleting, confirmed);
            assert_eq!(word(&got), expected, "{case:?}");
        }
        let spec = spec(true, true, false);
        let old = Sight::Present {
            write: write("u", "20", 4),
            deleting: true,
            confirmed: true,
            spec: &spec,
        };
        assert_eq!(
            word(&intent(old, &ledger(&[LedgerOutcome::Applied]))),
            "OldGeneration"
        );
    }

    #[test]
    fn a_bundle_without_manifests_is_no_evidence_where_dispatch_writes_evidence() {
        use LedgerOutcome::{Applied, Completed, Intended, Observed, Removing, Unconfirmed};
        for (dispatched, deletion, outcomes, expected) in [
            (true, false, &[Applied][..], "EmptyNotConfirmed"),
            (true, false, &[Observed, Completed], "EmptyNotConfirmed"),
            (true, false, &[Intended], "EmptyNotConfirmed"),
            (true, true, &[Applied], "apply"),
            (false, false, &[Applied], "apply"),
            // Nothing of ours is there, or what is goes already.
            (true, false, &[], "apply"),
            (true, false, &[Observed, Removing, Unconfirmed], "apply"),
        ] {
            let mut spec = spec(dispatched, deletion, false);
            spec.workload.manifests.clear();
            let sight = Sight::Present {
                write: write("u", "20", 6),
                deleting: false,
                confirmed: false,
                spec: &spec,
            };
            let got = intent(sight, &ledger(outcomes));
            assert_eq!(word(&got), expected, "{dispatched} {deletion} {outcomes:?}");
        }
    }

    #[test]
    fn a_bundle_that_is_gone() {
        use LedgerOutcome::{Applied, Removing};
        for (dispatched, deletion, confirmed, outcomes, expected) in [
            (true, false, true, &[Applied][..], "orphan"),
            (true, true, false, &[Applied], "remove"),
            (true, true, false, &[], "forget"),
            (false, false, true, &[Applied], "remove"),
            (false, false, false, &[Applied], "orphan"),
            (false, true, false, &[Applied], "remove"),
            (true, false, true, &[Removing], "remove"),
            (true, false, true, &[], "forget"),
        ] {
            let mut spec = spec(dispatched, deletion, false);
            spec.workload.manifests.clear();
            let got = intent(
                Sight::Deleted {
                    write: write("u", "20", 5),
                    spec: &spec,
                    confirmed,
                },
                &ledger(outcomes),
            );
            assert_eq!(
                word(&got),
                expected,
                "{dispatched} {deletion} {confirmed} {outcomes:?}"
            );
        }
        // Another one of that name: it was there before the one that is obeyed, or a hub wrote it that does not lead any more.
        let spec = spec(true, true, false);
        for (uid, version, ignored, obeyed, expected) in [
            ("other", "20", false, 3, "remove"),
            ("other", "20", true, 3, "orphan"),
            ("other", "9", false, 3, "orphan"),
            ("other", "9", true, 2, "remove"),
            ("other", "20", false, 4, "orphan"),
            ("u", "9", false, 3, "remove"),
        ] {
            let mut ledger = ledger(&[Applied]);
            (ledger.bundle_version, ledger.epoch) = (Some("10".into()), Some(obeyed));
            let sight = Sight::Deleted {
                write: Write {
                    ignored,
                    ..write(uid, version, 1)
                },
                spec: &spec,
                confirmed: false,
            };
            let got = intent(sight, &ledger);
            assert_eq!(word(&got), expected, "{uid} {version} {ignored} {obeyed}");
        }
        for (outcomes, expected) in [
            (&[][..], "forget"),
            (&[Applied], "orphan"),
            (&[Removing, Applied], "orphan"),
            (&[Removing, Removing], "remove"),
        ] {
            assert_eq!(
                word(&intent(Sight::Missing, &ledger(outcomes))),
                expected,
                "{outcomes:?}"
            );
        }
    }
}
