//! Apply-once (seed: apply-once-only): whether an object that was applied at this very content is left alone.

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

/// Decides for one manifest; `live` is `None` when the object is missing.
pub(crate) fn once(
    mode: ApplyOnce,
    manifest: &Manifest,
    live: Option<&Value>,
    entry: Option<&LedgerEntry>,
) -> Once {
    match (mode, live) {
        (ApplyOnce::Never, _) => Once::Apply,
        (ApplyOnce::Once | ApplyOnce::Force, Some(live)) if same_stamps(manifest, live) => Once::Leave,
        (ApplyOnce::Once | ApplyOnce::Force, Some(_)) => Once::Apply,
        (ApplyOnce::Once | ApplyOnce::Force, None) => {
            let finished = entry.is_some_and(|entry| {
                entry.outcome == LedgerOutcome::Completed && entry.digest.as_deref() == Some(&manifest.digest)
            });
            if finished { Once::Finished } else { Once::Apply }
        }
    }
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
}
