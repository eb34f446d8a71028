//! Decide: everything between a look at the live object and a write, as one pure function: adopt? once? drift?
//! three-way merge.

use crate::apply::adopt::{Adoption, Claim, Refused, adoption};
use crate::apply::decode::Manifest;
use crate::apply::desired::{Copy, desired, last_applied, weight_of_others};
use crate::apply::once::{Once, once, same_stamps};
use crate::apply::outcome::{Applied, Outcome};
use crate::object;
use roundhouse_api::bundle::{Adopt, ApplyOnce, Drift, UpdateStrategyType};
use roundhouse_api::hash;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::annotation;
use roundhouse_patch::{PatchType, three_way_merge};
use serde_json::{Value, json};

/// The paths that a refusal lists at most.
const MAX_PATHS: usize = 5;

/// On what terms the objects of a bundle are applied.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// `<hub id>/<bundle>`.
    pub(crate) marker: String,
    /// What to do with objects that are nobody's.
    pub(crate) adopt: Adopt,
    /// Whether a third party's controller may stand beside us.
    pub(crate) allow_co_ownership: bool,
    /// Apply-once mode.
    pub(crate) apply_once: ApplyOnce,
    /// What to do with later differences.
    pub(crate) drift: Drift,
}

/// What to do with one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing is sent.
    Done(Outcome),
    /// The object is made.
    Create { object: Value, copy: Copy },
    /// The object is changed.
    Patch { patch: Value, patch_type: PatchType, copy: Copy },
}

/// Decides for one manifest, on the live object as just read and on the ledger's entry.
pub(crate) fn decide(
    manifest: &Manifest,
    live: Option<&Value>,
    entry: Option<&LedgerEntry>,
    strategy: UpdateStrategyType,
    terms: &Terms,
) -> Step {
    let done = |applied| Step::Done(Outcome::Applied(applied));
    let Some(live) = live else {
        return match (strategy, once(terms.apply_once, manifest, None, entry)) {
            (UpdateStrategyType::ReadOnly, _) => Step::Done(Outcome::Delayed {
                reason: "NotFound",
                message: format!("{} does not exist and is read-only here", manifest.key),
            }),
            (_, Once::Finished) => done(Applied::Finished),
            _ => {
                let (object, copy) = desired(manifest, &terms.marker, 0);
                Step::Create { object, copy }
            }
        };
    };
    if strategy == UpdateStrategyType::ReadOnly {
        return done(Applied::Observed);
    }
    let claim = Claim {
        marker: &terms.marker,
        known_uid: entry.and_then(|entry| entry.uid.as_deref()),
        adopt: terms.adopt,
        allow_co_ownership: terms.allow_co_ownership,
    };
    let adoption = adoption(live, claim);
    match (&adoption, strategy) {
        // An object that somebody else made first is what CreateOnly asks for, whoever owns it.
        (Adoption::Ours, UpdateStrategyType::CreateOnly) => return done(Applied::Left),
        (_, UpdateStrategyType::CreateOnly) => return done(Applied::Observed),
        (Adoption::Refuse(refused), _) => return Step::Done(Outcome::Refused(refused.clone())),
        (Adoption::AdoptIfEqual, _) => {
            if let Err(outcome) = check_equal(manifest, live) {
                return Step::Done(outcome);
            }
        }
        (Adoption::Ours | Adoption::Adopt, _) => {}
    }
    if object::is_deleting(live) {
        return Step::Done(Outcome::Delayed {
            reason: "BeingDeleted",
            message: format!("{} is being deleted; it is made again when it is gone", manifest.key),
        });
    }
    if once(terms.apply_once, manifest, Some(live), entry) == Once::Leave {
        return done(Applied::Left);
    }
    match merge(manifest, live, entry, &terms.marker) {
        Err(outcome) => Step::Done(outcome),
        Ok(None) => done(Applied::Unchanged),
        Ok(Some(_)) if adoption == Adoption::Ours && terms.drift != Drift::Correct && same_stamps(manifest, live) => {
            done(if terms.drift == Drift::Report { Applied::Drifted } else { Applied::Left })
        }
        Ok(Some((patch, patch_type, copy))) => Step::Patch { patch, patch_type, copy },
    }
}

/// The three-way merge; `None` when there is nothing to send.
fn merge(
    manifest: &Manifest,
    live: &Value,
    entry: Option<&LedgerEntry>,
    marker: &str,
) -> Result<Option<(Value, PatchType, Copy)>, Outcome> {
    let (wanted, copy) = desired(manifest, marker, weight_of_others(manifest, live));
    let last = last_applied(manifest, live, entry);
    let merged = three_way_merge(last.as_ref(), &wanted, live).map_err(|error| Outcome::Failed {
        reason: "MergeFailed",
        message: format!("{}: {error}", manifest.key),
    })?;
    let mut patch = merged.patch;
    let stale_copy = matches!(copy, Copy::Ledger(_)) && object::annotation(live, annotation::LAST_APPLIED).is_some();
    if stale_copy {
        let drop_copy = json!({"metadata": {"annotations": {annotation::LAST_APPLIED: null}}});
        patch = overlay(patch, &drop_copy);
    }
    let nothing = patch.as_object().is_none_or(serde_json::Map::is_empty);
    Ok((!nothing).then_some((patch, merged.patch_type, copy)))
}

/// Lays `extra` over `patch`, object by object; both are patches, so that a null stays a null.
fn overlay(mut patch: Value, extra: &Value) -> Value {
    fn lay(patch: &mut Value, extra: &Value) {
        match (patch, extra) {
            (Value::Object(patch), Value::Object(extra)) => {
                for (key, value) in extra {
                    lay(patch.entry(key.clone()).or_insert_with(|| json!({})), value);
                }
            }
            (patch, extra) => *patch = extra.clone(),
        }
    }
    lay(&mut patch, extra);
    patch
}

/// Adoption of an object that is nobody's, without a change of what it does: only our own labels and annotations may be
/// new.
fn check_equal(manifest: &Manifest, live: &Value) -> Result<(), Outcome> {
    let mut plain = hash::without_stamps(&manifest.object);
    for field in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(map) = plain.pointer_mut(field).and_then(Value::as_object_mut) {
            map.retain(|key, _| !key.starts_with("app.oam.dev/") && !key.starts_with("roundhouse.dev/"));
        }
    }
    let merged = three_way_merge(None, &plain, live).map_err(|error| Outcome::Failed {
        reason: "MergeFailed",
        message: format!("{}: {error}", manifest.key),
    })?;
    if merged.is_empty() {
        return Ok(());
    }
    let mut paths = Vec::new();
    leaves(&merged.patch, String::new(), &mut paths);
    let more = paths.len().saturating_sub(MAX_PATHS);
    paths.truncate(MAX_PATHS);
    let mut paths = paths.join(", ");
    if more > 0 {
        paths = format!("{paths} and {more} more");
    }
    Err(Outcome::Refused(Refused::Differs { paths }))
}

/// The paths that a patch touches, without the values: they may be secret.
fn leaves(patch: &Value, path: String, out: &mut Vec<String>) {
    match patch {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map.iter().filter(|(key, _)| !key.starts_with('$')) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, path, out);
            }
        }
        _ => out.push(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;

    fn terms() -> Terms {
        Terms {
            marker: "h/b".into(),
            adopt: Adopt::IfNoDiff,
            allow_co_ownership: false,
            apply_once: ApplyOnce::Never,
            drift: Drift::Correct,
        }
    }

    fn deployment(image: &str, extra: Value) -> Manifest {
        let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "x"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        if let (Some(spec), Value::Object(extra)) = (value["spec"].as_object_mut(), extra) {
            spec.extend(extra);
        }
        decode(vec![value]).manifests.remove(0)
    }

    /// The object as the server has it after `manifest` was applied.
    fn applied(manifest: &Manifest) -> Value {
        let Step::Create { mut object, .. } = decide(manifest, None, None, UpdateStrategyType::Update, &terms()) else {
            panic!("not created")
        };
        object["metadata"]["uid"] = json!("u1");
        object
    }

    fn update(manifest: &Manifest, live: &Value, terms: &Terms) -> Step {
        decide(manifest, Some(live), None, UpdateStrategyType::Update, terms)
    }

    #[test]
    fn what_was_just_applied_sends_nothing() {
        let manifest = deployment("i:1", json!({"replicas": 2}));
        let live = applied(&manifest);
        assert_eq!(update(&manifest, &live, &terms()), Step::Done(Outcome::Applied(Applied::Unchanged)));
    }

    #[test]
    fn seed_a_field_left_out_is_removed_and_what_others_added_stays() {
        let before = deployment("i:1", json!({"replicas": 2, "minReadySeconds": 60}));
        let mut live = applied(&before);
        live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
        live["metadata"]["annotations"]["by-hand"] = json!("kept");
        let after = deployment("i:2", json!({"replicas": 2}));
        let Step::Patch { patch, patch_type, .. } = update(&after, &live, &terms()) else { panic!("no patch") };
        assert_eq!(patch_type, PatchType::Strategic);
        assert_eq!(patch["spec"]["minReadySeconds"], Value::Null);
        assert!(patch["spec"].as_object().unwrap().contains_key("minReadySeconds"));
        let result = roundhouse_patch::three_way_merge(None, &json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a"}}), &live).unwrap().result;
        assert_eq!(result["metadata"]["annotations"]["by-hand"], "kept");
        assert!(!patch.to_string().contains("by-hand") && !patch.to_string().contains("\"sidecar\",\"image\""));
    }

    #[test]
    fn drift_is_corrected_reported_or_ignored() {
        let manifest = deployment("i:1", json!({"replicas": 2}));
        let mut live = applied(&manifest);
        live["spec"]["replicas"] = json!(5);
        let with = |drift| Terms { drift, ..terms() };
        assert!(matches!(update(&manifest, &live, &with(Drift::Correct)), Step::Patch { .. }));
        for (drift, expected) in [(Drift::Report, Applied::Drifted), (Drift::Ignore, Applied::Left)] {
            assert_eq!(update(&manifest, &live, &with(drift)), Step::Done(Outcome::Applied(expected)));
            // A new revision is no drift.
            let next = deployment("i:2", json!({"replicas": 2}));
            assert!(matches!(update(&next, &live, &with(drift)), Step::Patch { .. }), "{drift:?}");
        }
    }

    #[test]
    fn scaled_by_hand_is_undone_in_never_and_kept_in_once() {
        let manifest = deployment("i:1", json!({"replicas": 2}));
        let mut live = applied(&manifest);
        live["spec"]["replicas"] = json!(5);
        let Step::Patch { patch, .. } = update(&manifest, &live, &terms()) else { panic!("no patch") };
        assert_eq!(patch, json!({"spec": {"replicas": 2}}));
        let once = Terms { apply_once: ApplyOnce::Once, ..terms() };
        assert_eq!(update(&manifest, &live, &once), Step::Done(Outcome::Applied(Applied::Left)));
    }

    #[test]
    fn adoption_without_difference_and_refusal_with_the_paths() {
        let manifest = deployment("i:1", json!({"replicas": 2}));
        let mut live = manifest.object.clone();
        live["metadata"]["uid"] = json!("u1");
        live["spec"]["paused"] = json!(true);
        assert!(matches!(update(&manifest, &live, &terms()), Step::Patch { .. }), "adopted by a patch of stamps");
        live["spec"]["replicas"] = json!(7);
        let Step::Done(Outcome::Refused(refused)) = update(&manifest, &live, &terms()) else { panic!("adopted") };
        assert!(refused.to_string().contains("spec.replicas"), "{refused}");
        let always = Terms { adopt: Adopt::Always, ..terms() };
        assert!(matches!(update(&manifest, &live, &always), Step::Patch { .. }));
    }

    #[test]
    fn strategies() {
        let manifest = deployment("i:2", json!({}));
        let live = applied(&deployment("i:1", json!({})));
        let foreign = json!({"metadata": {"uid": "x"}, "kind": "Deployment"});
        use UpdateStrategyType::{CreateOnly, ReadOnly};
        for (strategy, live, expected) in [
            (CreateOnly, Some(&live), Outcome::Applied(Applied::Left)),
            (CreateOnly, Some(&foreign), Outcome::Applied(Applied::Observed)),
            (ReadOnly, Some(&foreign), Outcome::Applied(Applied::Observed)),
        ] {
            assert_eq!(decide(&manifest, live, None, strategy, &terms()), Step::Done(expected), "{strategy:?}");
        }
        assert!(matches!(decide(&manifest, None, None, CreateOnly, &terms()), Step::Create { .. }));
        assert!(matches!(
            decide(&manifest, None, None, ReadOnly, &terms()),
            Step::Done(Outcome::Delayed { reason: "NotFound", .. })
        ));
    }

    #[test]
    fn an_object_that_is_going_is_waited_for() {
        let manifest = deployment("i:1", json!({}));
        let mut live = applied(&manifest);
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(matches!(
            update(&manifest, &live, &terms()),
            Step::Done(Outcome::Delayed { reason: "BeingDeleted", .. })
        ));
    }

    #[test]
    fn a_key_removed_from_a_secret_is_removed_live() {
        let secret = |data: Value| {
            decode(vec![json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})])
                .manifests
                .remove(0)
        };
        let before = secret(json!({"a": "YQ==", "b": "Yg=="}));
        let Step::Create { object, copy: Copy::Ledger(outline) } =
            decide(&before, None, None, UpdateStrategyType::Update, &terms())
        else {
            panic!("not created")
        };
        let entry = LedgerEntry { last_applied: Some(outline), ..LedgerEntry::default() };
        let after = secret(json!({"a": "YQ=="}));
        let step = decide(&after, Some(&object), Some(&entry), UpdateStrategyType::Update, &terms());
        let Step::Patch { patch, .. } = step else { panic!("no patch") };
        assert_eq!(patch["data"], json!({"b": null}));
    }

    #[test]
    fn a_copy_that_no_longer_fits_leaves_the_annotation() {
        let config = |text: &str| {
            decode(vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
                "data": {"x": text}})])
            .manifests
            .remove(0)
        };
        let live = applied(&config("small"));
        let Step::Patch { patch, copy, .. } = update(&config(&"y".repeat(300_000)), &live, &terms()) else {
            panic!("no patch")
        };
        assert!(matches!(copy, Copy::Ledger(_)));
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.get(annotation::LAST_APPLIED), Some(&Value::Null));
    }
}
