//! Apply-once (seed: apply-once-only): whether an object that was applied at this very content is left alone, and
//! whether one that was deleted stays deleted.

use crate::apply::decode::Manifest;
use crate::object;
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use roundhouse_api::names::{annotation, label};
use serde_json::Value;

/// What apply-once says about one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Once {
    /// It is applied as in any other pass.
    Apply,
    /// It stays as it is, whatever differs.
    Leave,
    /// It ran to its end and is gone: it is not made again.
    Finished,
    /// Somebody deleted it, and it stays deleted until its revision changes.
    KeptDeleted,
}

/// Whether the live object carries the stamps of this very manifest: application generation, component revision and
/// desired hash. A re-division or an override changes the hash alone, and is a change too.
pub(crate) fn same_stamps(manifest: &Manifest, live: &Value) -> bool {
    let desired = &manifest.object;
    object::annotation(live, annotation::DESIRED_HASH) == Some(manifest.digest.as_str())
        && object::annotation(live, annotation::GENERATION)
            == object::annotation(desired, annotation::GENERATION)
        && object::label(live, label::REVISION) == object::label(desired, label::REVISION)
}

/// Whether the ledger says that this very content was applied: the same three stamps.
pub(crate) fn recorded(manifest: &Manifest, entry: &LedgerEntry) -> bool {
    was_applied(entry)
        && entry.digest.as_deref() == Some(manifest.digest.as_str())
        && same_generation(manifest, entry)
        && same_revision(manifest, entry)
}

/// Decides for one manifest; `live` is `None` when the member was asked for it and does not have it.
pub(crate) fn once(
    mode: ApplyOnce,
    manifest: &Manifest,
    live: Option<&Value>,
    entry: Option<&LedgerEntry>,
) -> Once {
    let finished = |entry: &LedgerEntry| {
        entry.outcome == LedgerOutcome::Completed && entry.digest.as_deref() == Some(manifest.digest.as_str())
    };
    match (mode, live, entry) {
        (ApplyOnce::Never, ..) => Once::Apply,
        (_, Some(live), _) if same_stamps(manifest, live) => Once::Leave,
        (_, None, Some(entry)) if finished(entry) => Once::Finished,
        (ApplyOnce::Force, None, Some(entry)) if stays_deleted(manifest, entry) => Once::KeptDeleted,
        _ => Once::Apply,
    }
}

/// Whether a missing object was applied before, at the revision that is wanted now. For a workload the component
/// revision counts alone, so that a division of its replicas does not bring it back; for a trait the application's
/// generation counts too. A manifest without a component revision (a hand-written bundle) is its own revision.
fn stays_deleted(manifest: &Manifest, entry: &LedgerEntry) -> bool {
    if object::label(&manifest.object, label::REVISION).is_none() {
        return recorded(manifest, entry);
    }
    let is_trait = object::label(&manifest.object, label::RESOURCE_TYPE) == Some(label::TRAIT);
    was_applied(entry) && same_revision(manifest, entry) && (!is_trait || same_generation(manifest, entry))
}

/// An object that this agent itself is removing, or that was only intended, was not deleted by anybody.
fn was_applied(entry: &LedgerEntry) -> bool {
    entry.uid.is_some() && matches!(entry.outcome, LedgerOutcome::Applied | LedgerOutcome::Completed)
}

fn same_revision(manifest: &Manifest, entry: &LedgerEntry) -> bool {
    entry.revision.as_deref() == object::label(&manifest.object, label::REVISION)
}

fn same_generation(manifest: &Manifest, entry: &LedgerEntry) -> bool {
    entry.application_generation.as_deref() == object::annotation(&manifest.object, annotation::GENERATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;
    use serde_json::json;

    fn manifest(generation: &str, revision: &str, replicas: u32) -> Manifest {
        let mut decoded = decode(vec![
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a",
            "annotations": {"app.oam.dev/generation": generation}, "labels": {"app.oam.dev/revision": revision}},
            "spec": {"replicas": replicas}}),
        ]);
        decoded.manifests.remove(0)
    }

    fn live_of(manifest: &Manifest) -> Value {
        let mut live = manifest.object.clone();
        live["metadata"]["annotations"][annotation::DESIRED_HASH] = json!(manifest.digest);
        live["spec"]["replicas"] = json!(99);
        live
    }

    #[test]
    fn an_object_applied_at_this_content_is_left_alone_in_mode_once_only() {
        let present = manifest("1", "a-v1", 2);
        let live = live_of(&present);
        for (mode, desired, live, expected) in [
            (ApplyOnce::Never, &present, Some(&live), Once::Apply),
            (ApplyOnce::Once, &present, Some(&live), Once::Leave),
            (ApplyOnce::Once, &present, None, Once::Apply),
            (
                ApplyOnce::Once,
                &manifest("2", "a-v1", 2),
                Some(&live),
                Once::Apply,
            ),
            (
                ApplyOnce::Once,
                &manifest("1", "a-v2", 2),
                Some(&live),
                Once::Apply,
            ),
            // Divided anew: neither generation nor revision moved.
            (
                ApplyOnce::Once,
                &manifest("1", "a-v1", 3),
                Some(&live),
                Once::Apply,
            ),
        ] {
            assert_eq!(
                once(mode, desired, live, None),
                expected,
                "{mode:?} {}",
                desired.object
            );
        }
    }

    #[test]
    fn a_finished_job_is_not_made_again() {
        let job = manifest("1", "a-v1", 1);
        let entry = |outcome, digest: &str| LedgerEntry {
            outcome,
            digest: Some(digest.to_owned()),
            ..LedgerEntry::default()
        };
        for (mode, outcome, digest, expected) in [
            (
                ApplyOnce::Once,
                LedgerOutcome::Completed,
                job.digest.as_str(),
                Once::Finished,
            ),
            (
                ApplyOnce::Never,
                LedgerOutcome::Completed,
                job.digest.as_str(),
                Once::Apply,
            ),
            (
                ApplyOnce::Once,
                LedgerOutcome::Applied,
                job.digest.as_str(),
                Once::Apply,
            ),
            (ApplyOnce::Once, LedgerOutcome::Completed, "another", Once::Apply),
        ] {
            assert_eq!(
                once(mode, &job, None, Some(&entry(outcome, digest))),
                expected,
                "{mode:?} {outcome:?}"
            );
        }
    }

    /// A manifest of a resource type, and the ledger's entry of an object applied at generation and revision.
    fn deleted(resource_type: &str, generation: &str, revision: &str) -> (Manifest, LedgerEntry) {
        let mut wanted = manifest("1", "a-v1", 2);
        wanted.object["metadata"]["labels"][label::RESOURCE_TYPE] = json!(resource_type);
        let entry = LedgerEntry {
            uid: Some("u".to_owned()),
            outcome: LedgerOutcome::Applied,
            revision: Some(revision.to_owned()),
            application_generation: Some(generation.to_owned()),
            ..LedgerEntry::default()
        };
        (wanted, entry)
    }

    #[test]
    fn force_keeps_a_deleted_object_deleted_at_the_same_revision() {
        use ApplyOnce::{Force, Never, Once as On};
        for (mode, resource_type, generation, revision, expected) in [
            (Force, "WORKLOAD", "1", "a-v1", Once::KeptDeleted),
            // A new generation of the application that leaves the component as it is.
            (Force, "WORKLOAD", "0", "a-v1", Once::KeptDeleted),
            (Force, "WORKLOAD", "1", "a-v0", Once::Apply),
            (Force, "TRAIT", "1", "a-v1", Once::KeptDeleted),
            (Force, "TRAIT", "0", "a-v1", Once::Apply),
            (Force, "TRAIT", "1", "a-v0", Once::Apply),
            (On, "WORKLOAD", "1", "a-v1", Once::Apply),
            (Never, "WORKLOAD", "1", "a-v1", Once::Apply),
        ] {
            let (wanted, entry) = deleted(resource_type, generation, revision);
            assert_eq!(
                once(mode, &wanted, None, Some(&entry)),
                expected,
                "{mode:?} {resource_type} {generation} {revision}"
            );
        }
    }

    #[test]
    fn force_makes_what_was_never_made_or_what_the_agent_itself_took_away() {
        let (wanted, applied) = deleted("WORKLOAD", "1", "a-v1");
        assert_eq!(once(ApplyOnce::Force, &wanted, None, None), Once::Apply);
        for (outcome, uid, expected) in [
            (LedgerOutcome::Applied, Some("u"), Once::KeptDeleted),
            (LedgerOutcome::Completed, Some("u"), Once::KeptDeleted),
            (LedgerOutcome::Applied, None, Once::Apply),
            (LedgerOutcome::Intended, Some("u"), Once::Apply),
            (LedgerOutcome::Removing, Some("u"), Once::Apply),
            (LedgerOutcome::Failed, None, Once::Apply),
        ] {
            let entry = LedgerEntry {
                outcome,
                uid: uid.map(str::to_owned),
                ..applied.clone()
            };
            assert_eq!(
                once(ApplyOnce::Force, &wanted, None, Some(&entry)),
                expected,
                "{outcome:?} {uid:?}"
            );
        }
    }

    #[test]
    fn a_manifest_without_a_revision_stays_deleted_until_its_content_changes() {
        let mut wanted = manifest("1", "a-v1", 2);
        wanted.object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("labels");
        wanted.object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        for (digest, expected) in [
            (wanted.digest.clone(), Once::KeptDeleted),
            ("another".to_owned(), Once::Apply),
        ] {
            let entry = LedgerEntry {
                uid: Some("u".to_owned()),
                outcome: LedgerOutcome::Applied,
                digest: Some(digest),
                ..LedgerEntry::default()
            };
            assert_eq!(once(ApplyOnce::Force, &wanted, None, Some(&entry)), expected);
        }
    }

    #[test]
    fn stamps_tampered_with_by_hand_make_a_difference() {
        let wanted = manifest("1", "a-v1", 2);
        let live = live_of(&wanted);
        for (pointer, key) in [
            ("/metadata/annotations", annotation::DESIRED_HASH),
            ("/metadata/annotations", annotation::GENERATION),
            ("/metadata/labels", label::REVISION),
        ] {
            for value in [json!("by hand"), Value::Null] {
                let mut live = live.clone();
                live.pointer_mut(pointer).unwrap()[key] = value;
                for mode in [ApplyOnce::Once, ApplyOnce::Force] {
                    assert_eq!(once(mode, &wanted, Some(&live), None), Once::Apply, "{key}");
                }
            }
        }
    }
}
