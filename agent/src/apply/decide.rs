//! Decide: everything between a look at the live object and a write, as one pure function: adopt? once? drift?
//! three-way merge.

use crate::apply::adopt::{Adoption, Claim, Refused, adoption};
use crate::apply::decode::Manifest;
use crate::apply::desired::{Copy, desired, last_applied, weight_of_others};
use crate::apply::exempt::Exempt;
use crate::apply::ignore::{InvalidPath, ignored, recreate_fields};
use crate::apply::keep::{BadRule, Rules};
use crate::apply::once::{Once, once};
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::retain::only_retains;
use crate::apply::server_side::{Manner, Over, configuration, holds, manner, taken_over};
use crate::apply::strategy::Treatment;
use crate::bundle::owner;
use crate::drift::paths::{differences, list};
use crate::drift::was_applied;
use crate::object;
use roundhouse_api::bundle::{
    Adopt, ApplyOnce, BundleSpec, COMPLETE, ConditionRule, ConditionRuleType, Drift, UpdateStrategyType,
};
use roundhouse_api::hash;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use roundhouse_api::names::{annotation, is_bookkeeping, owner_marker};
use roundhouse_patch::{PatchType, schema, three_way_merge};
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
    /// Apply-once mode of objects for which no rule says otherwise.
    pub(crate) apply_once: ApplyOnce,
    /// Apply-once rules.
    pub(crate) rules: Rules,
    /// What to do with later differences.
    pub(crate) drift: Drift,
}

impl Terms {
    /// The terms of a bundle; `apply_once` is the agent's own mode, for a bundle that does not say.
    pub(crate) fn of(spec: &BundleSpec, bundle: &str, hub_id: &str, apply_once: ApplyOnce) -> Self {
        let application = spec.application_ref.as_ref();
        let owner = application.map(|application| owner(bundle, application));
        Terms {
            marker: owner_marker(hub_id, owner.as_deref().unwrap_or(bundle)),
            adopt: spec.adopt.unwrap_or_default(),
            allow_co_ownership: spec.allow_co_ownership.unwrap_or(false),
            apply_once: spec.apply_once.unwrap_or(apply_once),
            rules: Rules::new(&spec.apply_once_rules),
            drift: spec.drift.unwrap_or_default(),
        }
    }
}

/// What to do with one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing is sent.
    Done(Outcome),
    /// Nothing is sent, although this patch (or configuration) would make it as the bundle wants it: `drift: Report` only
    /// says so.
    Drifted { patch: Value },
    /// The object is made.
    Create { object: Value, copy: Copy },
    /// The object is changed.
    Patch {
        patch: Value,
        patch_type: PatchType,
        copy: Copy,
    },
    /// The object is applied on the server side, made if it is missing.
    Apply { config: Value, manner: Manner },
    /// What we wrote otherwise is handed to the field manager that applies, by a merge patch; then the object is looked
    /// at again.
    HandOver { patch: Value },
}

/// Decides for one manifest, on the live object as just read and on the ledger's entry.
pub(crate) fn decide(
    manifest: &Manifest,
    live: Option<&Value>,
    entry: Option<&LedgerEntry>,
    treatment: Treatment<'_>,
    terms: &Terms,
) -> Step {
    let strategy = treatment.type_;
    let keeping = match terms.rules.of(&manifest.object) {
        Ok(keeping) => keeping,
        Err(bad) => return Step::Done(bad_rule(manifest, &bad)),
    };
    let mode = keeping.map_or(terms.apply_once, |keeping| keeping.mode(terms.apply_once));
    let done = |applied| Step::Done(Outcome::Applied(applied));
    let ignored = match ignored(treatment) {
        Ok(ignored) => ignored,
        Err(invalid) => return Step::Done(invalid_path("InvalidIgnoreField", manifest, &invalid)),
    };
    if let Err(invalid) = recreate_fields(treatment) {
        return Step::Done(invalid_path("InvalidRecreateField", manifest, &invalid));
    }
    let Some(live) = live else {
        return match (strategy, once(mode, manifest, None, entry)) {
            (UpdateStrategyType::ReadOnly, _) => Step::Done(Outcome::Delayed {
                reason: "NotFound",
                message: format!("{} does not exist and is read-only here", manifest.key),
            }),
            (_, Once::Finished) => done(Applied::Finished),
            (_, Once::KeptDeleted) => done(Applied::KeptDeleted),
            _ if finished_by_rule(manifest, entry, treatment) => done(Applied::Finished),
            (UpdateStrategyType::ServerSideApply, _) => {
                let manner = manner(treatment);
                let config = configuration(manifest, &terms.marker, None, &manner.manager);
                Step::Apply { config, manner }
            }
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
    let ignored = ignored.paths(manifest, live);
    let exempt = Exempt {
        ignored: &ignored,
        keeping,
    };
    match (&adoption, strategy) {
        // An object that somebody else made first is what CreateOnly asks for, whoever owns it.
        (Adoption::Ours, UpdateStrategyType::CreateOnly) => return done(Applied::Left),
        (_, UpdateStrategyType::CreateOnly) => return done(Applied::Observed),
        (Adoption::Refuse(refused), _) => return Step::Done(Outcome::Refused(refused.clone())),
        (Adoption::AdoptIfEqual, _) => {
            // An apply on the server side removes nothing that somebody else applied.
            let last = match strategy {
                UpdateStrategyType::ServerSideApply => None,
                _ => last_applied(manifest, live, entry),
            };
            if let Err(outcome) = check_equal(manifest, live, entry, last.as_ref(), exempt) {
                return Step::Done(outcome);
            }
        }
        (Adoption::Ours | Adoption::Adopt, _) => {}
    }
    if object::is_deleting(live) {
        return Step::Done(Outcome::Delayed {
            reason: "BeingDeleted",
            message: format!(
                "{} is being deleted; whether it is made again is decided when it is gone",
                manifest.key
            ),
        });
    }
    if once(mode, manifest, Some(live), entry) == Once::Leave {
        return done(Applied::Left);
    }
    let drifts =
        adoption == Adoption::Ours && terms.drift != Drift::Correct && was_applied(manifest, live, entry);
    let drifted = |patch| match terms.drift {
        Drift::Report => Step::Drifted { patch },
        Drift::Correct | Drift::Ignore => done(Applied::Left),
    };
    if strategy == UpdateStrategyType::ServerSideApply {
        let over = Over { live, entry, exempt };
        let step = apply_on_server(manifest, over, manner(treatment), &terms.marker);
        // One that was last applied by a three-way merge has not drifted, it is handed over.
        let handed_over = object::annotation(live, annotation::LAST_APPLIED).is_none();
        return match step {
            Step::Apply { config, .. } if drifts && handed_over => drifted(config),
            step => step,
        };
    }
    match merge(manifest, live, entry, &terms.marker, exempt) {
        Err(outcome) => Step::Done(outcome),
        Ok(None) => done(Applied::Unchanged),
        Ok(Some((patch, ..))) if drifts => drifted(patch),
        Ok(Some((patch, patch_type, copy))) => Step::Patch {
            patch,
            patch_type,
            copy,
        },
    }
}

/// Server-side apply of an object that exists.
fn apply_on_server(manifest: &Manifest, over: Over<'_>, manner: Manner, marker: &str) -> Step {
    let checked = over.exempt.check(manifest, over.live, over.entry);
    if let Err(bad) = checked {
        return Step::Done(bad_rule(manifest, &bad));
    }
    if let Some(fields) = taken_over(over.live, &manner.manager) {
        return Step::HandOver {
            patch: json!({"metadata": {"managedFields": fields}}),
        };
    }
    let config = configuration(manifest, marker, Some(over), &manner.manager);
    if holds(&config, over.live, &manner.manager) {
        return Step::Done(Outcome::Applied(Applied::Unchanged));
    }
    Step::Apply { config, manner }
}

/// The outcome of a manifest whose treatment names a field path that is none.
fn invalid_path(reason: &'static str, manifest: &Manifest, invalid: &InvalidPath) -> Outcome {
    let message = format!("{}: {invalid}", manifest.key);
    Outcome::Failed { reason, message }
}

/// Whether the object came to its end by a rule with condition `Complete`: then it is not made again in any mode, as
/// long as the bundle wants the same of it (OCM: no re-apply after completion).
fn finished_by_rule(manifest: &Manifest, entry: Option<&LedgerEntry>, treatment: Treatment<'_>) -> bool {
    let rules = treatment
        .config
        .map(|config| config.condition_rules.as_slice())
        .unwrap_or_default();
    let completes = |rule: &ConditionRule| {
        let well_known = rule.type_ == ConditionRuleType::WellKnownConditions;
        rule.condition == COMPLETE || (well_known && rule.condition.is_empty())
    };
    rules.iter().any(completes)
        && entry.is_some_and(|entry| {
            entry.outcome == LedgerOutcome::Completed && entry.digest.as_deref() == Some(&manifest.digest)
        })
}

/// The three-way merge; `None` when there is nothing to send.
fn merge(
    manifest: &Manifest,
    live: &Value,
    entry: Option<&LedgerEntry>,
    marker: &str,
    exempt: Exempt<'_>,
) -> Result<Option<(Value, PatchType, Copy)>, Outcome> {
    let (mut wanted, copy) = desired(manifest, marker, weight_of_others(manifest, live));
    let checked = exempt.check(manifest, live, entry);
    checked.map_err(|bad| bad_rule(manifest, &bad))?;
    exempt.lay(manifest, live, entry, &mut wanted);
    place(&mut wanted, live);
    // The copy is what is sent again, and nothing is laid over it: it has nothing that could be removed, and stays unread.
    let unchanged = matches!(copy, Copy::Annotation)
        && object::annotation(live, annotation::LAST_APPLIED)
            == object::annotation(&wanted, annotation::LAST_APPLIED)
        && exempt.is_none();
    let last = if unchanged {
        None
    } else {
        last_applied(manifest, live, entry).map(|last| placed(last, live))
    };
    let merged = three_way_merge(last.as_ref(), &wanted, live).map_err(|error| Outcome::Failed {
        reason: "MergeFailed",
        message: format!("{}: {error}", manifest.key),
    })?;
    let mut patch = merged.patch;
    let stale_copy =
        matches!(copy, Copy::Ledger(_)) && object::annotation(live, annotation::LAST_APPLIED).is_some();
    if stale_copy {
        let drop_copy = json!({"metadata": {"annotations": {annotation::LAST_APPLIED: null}}});
        patch = overlay(patch, &drop_copy);
    }
    let nothing =
        patch.as_object().is_none_or(serde_json::Map::is_empty) || retains_alone(manifest, &patch, live);
    Ok((!nothing).then_some((patch, merged.patch_type, copy)))
}

/// Takes the namespace out of a cluster-scoped object, as the API server does: `live` is how it stands there.
fn place(object: &mut Value, live: &Value) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), None) = (metadata, live.pointer("/metadata/namespace")) {
        metadata.remove("namespace");
    }
}

fn placed(mut object: Value, live: &Value) -> Value {
    place(&mut object, live);
    object
}

/// See [`only_retains`].
fn retains_alone(manifest: &Manifest, patch: &Value, live: &Value) -> bool {
    schema::lookup(&manifest.api_version(), &manifest.key.kind)
        .is_some_and(|schema| only_retains(patch, live, schema))
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
/// new, and neither what is kept nor another spelling makes a difference. `last` is what the merge will take for applied
/// before: what it would remove is a change too.
fn check_equal(
    manifest: &Manifest,
    live: &Value,
    entry: Option<&LedgerEntry>,
    last: Option<&Value>,
    exempt: Exempt<'_>,
) -> Result<(), Outcome> {
    let mut plain = placed(without_bookkeeping(&manifest.object), live);
    let last = last.map(|last| placed(without_bookkeeping(last), live));
    exempt.lay(manifest, live, entry, &mut plain);
    let merged = three_way_merge(last.as_ref(), &plain, live).map_err(|error| Outcome::Failed {
        reason: "MergeFailed",
        message: format!("{}: {error}", manifest.key),
    })?;
    if merged.is_empty() || retains_alone(manifest, &merged.patch, live) {
        return Ok(());
    }
    let all = differences(&merged.patch, live);
    let real = all.iter().filter(|difference| difference.is_real());
    let paths: Vec<String> = real.map(|difference| difference.path.to_string()).collect();
    // The order of a list has no path of its own.
    if paths.is_empty() && !all.is_empty() {
        return Ok(());
    }
    let paths = list(paths.iter().map(String::as_str), MAX_PATHS);
    Err(Outcome::Refused(Refused::Differs { paths }))
}

/// A manifest without our own labels and annotations.
fn without_bookkeeping(manifest: &Value) -> Value {
    let mut plain = hash::without_stamps(manifest);
    if let Some(metadata) = plain.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["labels", "annotations"] {
            let map = metadata.get_mut(field).and_then(Value::as_object_mut);
            // A map that is empty without ours asks for nothing, not for an empty map.
            let emptied = map.is_some_and(|map| {
                map.retain(|key, _| !is_bookkeeping(key));
                map.is_empty()
            });
            if emptied {
                metadata.remove(field);
            }
        }
    }
    plain
}

fn bad_rule(manifest: &Manifest, bad: &BadRule) -> Outcome {
    Outcome::Failed {
        reason: "InvalidApplyOnceRule",
        message: format!("{}: {bad}", manifest.key),
    }
}

#[cfg(test)]
mod tests;
