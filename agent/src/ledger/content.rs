//! What a ledger says; pure.

use crate::apply::fence::Write;
use crate::object::ObjectKey;
use roundhouse_api::bundle::{DeleteOption, ServiceAccountRef};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry, LedgerOutcome, LedgerState};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a pass is about to do.
#[derive(Debug, Clone)]
pub(crate) struct Intentions<'a> {
    pub(crate) bundle_uid: &'a str,
    /// Its resource version.
    pub(crate) bundle_version: &'a str,
    pub(crate) generation: i64,
    pub(crate) epoch: Option<i64>,
    pub(crate) revision: Option<&'a str>,
    pub(crate) dispatched: bool,
    /// On whose behalf the objects are written; `None`: on the agent's own.
    pub(crate) executor: Option<&'a ServiceAccountRef>,
    /// What becomes of objects that go.
    pub(crate) delete_option: Option<&'a DeleteOption>,
    /// Objects of the bundle and the API version of their manifests.
    pub(crate) wanted: BTreeMap<&'a ObjectKey, &'a str>,
    /// What the other parts of the application have on record of objects that are new here.
    pub(crate) elsewhere: BTreeMap<ObjectKey, LedgerEntry>,
    /// Objects that go.
    pub(crate) surplus: BTreeSet<ObjectKey>,
    /// Whether they go only without replicas, see [`LedgerOutcome::Unconfirmed`].
    pub(crate) guarded: bool,
    /// Objects that this ledger no longer answers for.
    pub(crate) forgotten: BTreeSet<ObjectKey>,
}

/// The ledger before the member is touched: the union of what there was and what is intended. Equal to `before` when
/// nothing new is intended, so that nothing is written then.
pub(crate) fn intend(before: &AppliedBundleSpec, intentions: &Intentions<'_>) -> AppliedBundleSpec {
    let mut after = before.clone();
    if before.bundle_uid != intentions.bundle_uid || before.epoch != intentions.epoch {
        after.bundle_version = None;
    }
    intentions.bundle_uid.clone_into(&mut after.bundle_uid);
    after.generation = intentions.generation;
    after.epoch = intentions.epoch;
    after.revision = intentions.revision.map(str::to_owned);
    after.dispatched = intentions.dispatched;
    after.executor = intentions.executor.cloned();
    after.delete_option = intentions.delete_option.cloned();
    let mut known = BTreeSet::new();
    after.objects.retain_mut(|entry| {
        let key = ObjectKey::of_entry(entry);
        if intentions.forgotten.contains(&key) {
            return false;
        }
        let goes = intentions.surplus.contains(&key);
        if goes && entry.outcome == LedgerOutcome::Observed {
            return false;
        }
        if goes {
            entry.outcome = on_its_way(intentions.guarded);
        } else if intentions.wanted.contains_key(&key) {
            wanted_again(entry);
        }
        known.insert(key);
        true
    });
    for (key, version) in &intentions.wanted {
        if known.contains(*key) {
            continue;
        }
        let entry = match intentions.elsewhere.get(*key) {
            Some(entry) => moved(entry),
            None => LedgerEntry {
                group: key.group.clone(),
                version: (*version).to_owned(),
                kind: key.kind.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                ..LedgerEntry::default()
            },
        };
        after.objects.push(entry);
    }
    after.objects.sort_by_cached_key(ObjectKey::of_entry);
    let undecided = before.state == LedgerState::Orphaned;
    if after != *before || undecided {
        after.state = LedgerState::Applying;
        // The first one that it had is behind everything of a later Bundle, and before nothing of an earlier one.
        let version = || intentions.bundle_version.to_owned();
        after.bundle_version.get_or_insert_with(version);
    }
    after
}

/// The entry of an object that another part of the application had until now.
fn moved(entry: &LedgerEntry) -> LedgerEntry {
    let mut entry = entry.clone();
    wanted_again(&mut entry);
    entry
}

/// Takes back that an object goes, as it is wanted again before that was confirmed.
fn wanted_again(entry: &mut LedgerEntry) {
    if is_leaving(entry.outcome) {
        entry.outcome = LedgerOutcome::Intended;
    }
}

/// The ledger with a note at each object that goes and that a request may still make (`may_make` says as which field manager): who
/// comes after an agent that dies between its removal and its record looks for it, too.
pub(crate) fn note_unanswered(
    mut ledger: AppliedBundleSpec,
    may_make: impl Fn(&ObjectKey) -> Option<String>,
) -> AppliedBundleSpec {
    let going = ledger
        .objects
        .iter_mut()
        .filter(|entry| is_leaving(entry.outcome));
    for entry in going.filter(|entry| entry.unanswered.is_none()) {
        entry.unanswered = may_make(&ObjectKey::of_entry(entry));
    }
    ledger
}

fn on_its_way(guarded: bool) -> LedgerOutcome {
    if guarded {
        LedgerOutcome::Unconfirmed
    } else {
        LedgerOutcome::Removing
    }
}

/// Whether an entry is of an object that goes.
pub(crate) fn is_leaving(outcome: LedgerOutcome) -> bool {
    matches!(outcome, LedgerOutcome::Removing | LedgerOutcome::Unconfirmed)
}

/// Whether a request about the object of an entry may be under way: one that makes it, or one that deletes it, by whether it has
/// been seen.
pub(crate) fn may_be_asked_for(outcome: LedgerOutcome) -> bool {
    outcome == LedgerOutcome::Intended || is_leaving(outcome)
}

/// What is recorded of an object that is ours.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ours {
    pub(crate) version: String,
    pub(crate) uid: String,
    pub(crate) digest: String,
    pub(crate) revision: Option<String>,
    pub(crate) application_generation: Option<String>,
    pub(crate) generation: i64,
    /// Whether this pass wrote the object.
    pub(crate) written: bool,
    /// It ran to its end.
    pub(crate) completed: bool,
    /// With `completed`: what it said if that end was a bad one.
    pub(crate) failure: Option<String>,
    /// Its last-applied copy, if it lives here: `None` leaves the copy as it is, `Some(None)` drops it.
    pub(crate) copy: Option<Option<Value>>,
    /// See [`LedgerEntry::kept`]; `None` leaves them as they are.
    pub(crate) kept: Option<BTreeMap<String, Value>>,
}

/// What became of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Settled {
    /// It is ours and as the bundle wants it.
    Ours(Box<Ours>),
    /// There is an object, but it is not ours.
    NotOurs,
    /// There is an object, and it is only looked at.
    Observed,
    /// The write was refused; what was ours stays ours.
    Failed,
    /// It is about to be deleted and made again.
    Intended,
    /// It is gone, and a request to make it may still arrive, applied as this field manager.
    Unanswered(String),
    /// It is gone, or survives without us.
    Released,
}

/// The ledger after a pass: each outcome is written to its entry; entries without one stay as they are.
pub(crate) fn settle(
    before: &AppliedBundleSpec,
    outcomes: &BTreeMap<ObjectKey, Settled>,
    whole: bool,
) -> AppliedBundleSpec {
    let mut after = before.clone();
    after
        .objects
        .retain_mut(|entry| match outcomes.get(&ObjectKey::of_entry(entry)) {
            Some(Settled::Released) => false,
            Some(answer @ (Settled::NotOurs | Settled::Observed)) => {
                entry.uid = None;
                entry.last_applied = None;
                entry.digest = None;
                entry.written_generation = None;
                entry.revision = None;
                entry.application_generation = None;
                entry.kept.clear();
                entry.outcome = if *answer == Settled::Observed {
                    LedgerOutcome::Observed
                } else {
                    LedgerOutcome::Failed
                };
                true
            }
            Some(Settled::Unanswered(applied_as)) => {
                entry.unanswered = Some(applied_as.clone());
                true
            }
            Some(Settled::Intended) => {
                entry.outcome = LedgerOutcome::Intended;
                true
            }
            Some(Settled::Failed) => {
                if entry.uid.is_none() {
                    entry.outcome = LedgerOutcome::Failed;
                }
                true
            }
            Some(Settled::Ours(ours)) => {
                record(entry, ours);
                true
            }
            None => true,
        });
    if whole {
        after.state = LedgerState::Applied;
    }
    after
}

fn record(entry: &mut LedgerEntry, ours: &Ours) {
    let new_content = entry.digest.as_ref() != Some(&ours.digest) || entry.uid.as_ref() != Some(&ours.uid);
    // A repaired drift is not worth a second write: the record is of the content, not of each repair.
    if ours.written && new_content {
        entry.written_generation = Some(ours.generation);
    }
    entry.version.clone_from(&ours.version);
    entry.uid = Some(ours.uid.clone());
    entry.digest = Some(ours.digest.clone());
    entry.revision.clone_from(&ours.revision);
    entry
        .application_generation
        .clone_from(&ours.application_generation);
    if let Some(copy) = &ours.copy {
        entry.last_applied.clone_from(copy);
    }
    if let Some(kept) = &ours.kept {
        entry.kept.clone_from(kept);
    }
    entry.failure.clone_from(&ours.failure);
    entry.unanswered = None;
    entry.outcome = if ours.completed {
        LedgerOutcome::Completed
    } else {
        LedgerOutcome::Applied
    };
}

/// The ledger of a bundle that vanished without evidence for deletion.
pub(crate) fn orphan(before: &AppliedBundleSpec) -> AppliedBundleSpec {
    AppliedBundleSpec {
        state: LedgerState::Orphaned,
        ..before.clone()
    }
}

/// The ledger of a bundle that is to be removed; `guarded`: workloads of it go only without replicas. Its objects go on
/// behalf of `executor`, as `delete_option` says.
pub(crate) fn remove_all(
    before: &AppliedBundleSpec,
    guarded: bool,
    executor: Option<&ServiceAccountRef>,
    delete_option: Option<&DeleteOption>,
) -> AppliedBundleSpec {
    let mut after = before.clone();
    after.executor = executor.cloned();
    after.delete_option = delete_option.cloned();
    after
        .objects
        .retain(|entry| entry.outcome != LedgerOutcome::Observed);
    for entry in &mut after.objects {
        entry.outcome = on_its_way(guarded);
    }
    if after != *before {
        after.state = LedgerState::Applying;
    }
    after
}

/// Obeys the write that asks for a removal like any other content: nothing from before it is obeyed any more, be it of another
/// Bundle of that name. `dispatched`: dispatch wrote it.
pub(crate) fn obey(ledger: &mut AppliedBundleSpec, evidence: Write<'_>, dispatched: bool) {
    let is_other = ledger.bundle_uid != evidence.uid;
    if is_other {
        evidence.uid.clone_into(&mut ledger.bundle_uid);
        ledger.dispatched = dispatched;
    }
    if is_other || ledger.epoch < evidence.epoch {
        ledger.bundle_version = Some(evidence.version.to_owned());
        ledger.epoch = evidence.epoch;
        ledger.generation = evidence.generation;
    }
    ledger.generation = ledger.generation.max(evidence.generation);
}

/// The ledger of a bundle that is paused: that is obeyed, and its objects are as they were. A removal that was begun on the word
/// of another Bundle of that name stays that one's.
pub(crate) fn pause(before: &AppliedBundleSpec, pausing: Write<'_>, dispatched: bool) -> AppliedBundleSpec {
    let mut after = before.clone();
    let is_begun = before.objects.iter().any(|entry| is_leaving(entry.outcome));
    if before.bundle_uid == pausing.uid || !is_begun {
        obey(&mut after, pausing, dispatched);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::bundle::PropagationPolicy;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            kind: "ConfigMap".into(),
            namespace: "x".into(),
            name: name.into(),
            ..ObjectKey::default()
        }
    }

    fn intentions<'a>(generation: i64, wanted: &'a [ObjectKey], surplus: &[ObjectKey]) -> Intentions<'a> {
        Intentions {
            bundle_uid: "u",
            bundle_version: "17",
            generation,
            epoch: Some(1),
            revision: None,
            dispatched: true,
            executor: None,
            delete_option: None,
            elsewhere: BTreeMap::new(),
            wanted: wanted.iter().map(|key| (key, "v1")).collect(),
            surplus: surplus.iter().cloned().collect(),
            guarded: false,
            forgotten: BTreeSet::new(),
        }
    }

    fn ours(uid: &str, digest: &str) -> Settled {
        Settled::Ours(Box::new(Ours {
            version: "v1".into(),
            uid: uid.into(),
            digest: digest.into(),
            revision: None,
            application_generation: Some("3".into()),
            generation: 4,
            written: true,
            completed: false,
            failure: None,
            copy: None,
            kept: None,
        }))
    }

    fn names(spec: &AppliedBundleSpec) -> Vec<(String, LedgerOutcome)> {
        spec.objects
            .iter()
            .map(|entry| (entry.name.clone(), entry.outcome))
            .collect()
    }

    #[test]
    fn the_inventory_is_a_union_until_removals_are_confirmed() {
        use LedgerOutcome::{Applied, Intended, Removing};
        let first = [key("a"), key("b")];
        let spec = intend(&AppliedBundleSpec::default(), &intentions(1, &first, &[]));
        assert_eq!(names(&spec), [("a".into(), Intended), ("b".into(), Intended)]);
        assert_eq!(spec.state, LedgerState::Applying);
        let outcomes = first.iter().map(|key| (key.clone(), ours("1", "d"))).collect();
        let spec = settle(&spec, &outcomes, true);
        assert_eq!(names(&spec), [("a".into(), Applied), ("b".into(), Applied)]);
        assert_eq!(spec.state, LedgerState::Applied);
        assert_eq!(spec.objects[0].written_generation, Some(4));
        assert_eq!(spec.objects[0].application_generation.as_deref(), Some("3"));

        let second = [key("b"), key("c")];
        let spec = intend(&spec, &intentions(2, &second, &[key("a")]));
        assert_eq!(
            names(&spec),
            [
                ("a".into(), Removing),
                ("b".into(), Applied),
                ("c".into(), Intended)
            ]
        );
        let spec = settle(&spec, &BTreeMap::from([(key("a"), Settled::Released)]), true);
        assert_eq!(names(&spec), [("b".into(), Applied), ("c".into(), Intended)]);
    }

    #[test]
    fn an_object_that_another_part_had_keeps_its_record() {
        let entry = |outcome| LedgerEntry {
            kind: key("moves").kind,
            namespace: key("moves").namespace,
            name: "moves".into(),
            uid: Some("1".into()),
            digest: Some("d".into()),
            outcome,
            ..LedgerEntry::default()
        };
        use LedgerOutcome::{Applied, Completed, Intended, Removing, Unconfirmed};
        for (there, here) in [
            (Applied, Applied),
            (Completed, Completed),
            (Removing, Intended),
            (Unconfirmed, Intended),
        ] {
            let wanted = [key("moves")];
            let mut intentions = intentions(1, &wanted, &[]);
            intentions.elsewhere =
                BTreeMap::from([(key("moves"), entry(there)), (key("stays"), entry(there))]);
            let spec = intend(&AppliedBundleSpec::default(), &intentions);
            assert_eq!(spec.objects, [entry(here)], "{there:?}");
            // Its own record goes before that of another part.
            let own = settle(&spec, &BTreeMap::from([(key("moves"), ours("2", "e"))]), true);
            assert_eq!(intend(&own, &intentions).objects, own.objects);
        }
    }

    #[test]
    fn a_pass_that_intends_and_finds_nothing_new_changes_nothing() {
        let wanted = [key("a")];
        let outcomes = BTreeMap::from([(key("a"), ours("1", "d"))]);
        let spec = settle(
            &intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[])),
            &outcomes,
            true,
        );
        let again = intend(&spec, &intentions(1, &wanted, &[]));
        assert_eq!(again, spec);
        assert_eq!(settle(&again, &outcomes, true), spec);
        let next = intend(&spec, &intentions(2, &wanted, &[]));
        assert_eq!(next.state, LedgerState::Applying);
    }

    #[test]
    fn a_request_that_may_still_make_what_goes_is_on_record_before_it_goes() {
        let wanted = [key("a"), key("b")];
        let before = intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[]));
        let may_make = |of: &ObjectKey| (*of == key("a")).then(|| "manager".to_owned());
        assert_eq!(note_unanswered(before.clone(), may_make), before, "nothing goes");
        let going = remove_all(&before, false, None, None);
        let noted = note_unanswered(going, may_make);
        let of = |ledger: &AppliedBundleSpec| -> Vec<Option<String>> {
            ledger
                .objects
                .iter()
                .map(|entry| entry.unanswered.clone())
                .collect()
        };
        assert_eq!(of(&noted), [Some("manager".to_owned()), None]);
        // Not taken back, nor written over, while it goes.
        assert_eq!(note_unanswered(noted.clone(), |_| None), noted);
        assert_eq!(
            note_unanswered(noted.clone(), |_| Some(String::new())).objects[0],
            noted.objects[0]
        );
    }

    #[test]
    fn what_is_wanted_again_is_no_longer_removed() {
        let wanted = [key("a")];
        let executor = ServiceAccountRef {
            namespace: "team".into(),
            name: "web".into(),
        };
        let mut intended = intentions(1, &wanted, &[]);
        intended.executor = Some(&executor);
        let before = intend(&AppliedBundleSpec::default(), &intended);
        assert_eq!(before.executor.as_ref(), Some(&executor));
        for (guarded, expected) in [
            (false, LedgerOutcome::Removing),
            (true, LedgerOutcome::Unconfirmed),
        ] {
            let stays = DeleteOption {
                propagation_policy: Some(PropagationPolicy::Orphan),
                ..DeleteOption::default()
            };
            let remove_all = |before| remove_all(before, guarded, Some(&executor), Some(&stays));
            let removing = remove_all(&before);
            assert_eq!(names(&removing), [("a".into(), expected)]);
            assert_eq!(removing.delete_option.as_ref(), Some(&stays));
            assert_eq!(remove_all(&removing), removing);
            let spec = intend(&removing, &intentions(2, &wanted, &[]));
            assert_eq!(names(&spec), [("a".into(), LedgerOutcome::Intended)]);
        }
    }

    #[test]
    fn evidence_is_obeyed_and_nothing_from_before_it() {
        let wanted = [key("a")];
        let before = intend(&AppliedBundleSpec::default(), &intentions(7, &wanted, &[]));
        let obeyed = |uid, epoch, generation| {
            let mut ledger = before.clone();
            let evidence = Write {
                uid,
                version: "23",
                epoch,
                generation,
                ignored: false,
            };
            obey(&mut ledger, evidence, epoch.is_some());
            let version = ledger.bundle_version.unwrap();
            (
                ledger.bundle_uid,
                version,
                ledger.epoch,
                ledger.generation,
                ledger.dispatched,
            )
        };
        let expected = |uid: &str, version: &str, epoch, generation, dispatched| {
            (uid.to_owned(), version.to_owned(), epoch, generation, dispatched)
        };
        assert_eq!(obeyed("u", Some(1), 9), expected("u", "17", Some(1), 9, true));
        // Its last state, as a list from before had it.
        assert_eq!(obeyed("u", Some(1), 6), expected("u", "17", Some(1), 7, true));
        // The hub was restored, and counts its generations again.
        assert_eq!(obeyed("u", Some(2), 3), expected("u", "23", Some(2), 3, true));
        // It was made again.
        assert_eq!(obeyed("v", Some(1), 3), expected("v", "23", Some(1), 3, true));
        assert_eq!(obeyed("v", None, 3), expected("v", "23", None, 3, false));
    }

    #[test]
    fn a_pause_is_obeyed_and_moves_no_object() {
        let wanted = [key("a")];
        let applied = settle(
            &intend(&AppliedBundleSpec::default(), &intentions(3, &wanted, &[])),
            &BTreeMap::from([(key("a"), ours("1", "d"))]),
            true,
        );
        let write = |uid, generation| Write {
            uid,
            version: "23",
            epoch: Some(1),
            generation,
            ignored: false,
        };
        let paused = pause(&applied, write("u", 4), true);
        assert_eq!((paused.generation, paused.state), (4, LedgerState::Applied));
        assert_eq!(paused.objects, applied.objects);
        assert_eq!(pause(&paused, write("u", 4), true), paused, "once");
        let next = intend(&paused, &intentions(5, &wanted, &[]));
        assert_eq!((next.generation, next.state), (5, LedgerState::Applying));
        // One that was made again.
        let other = pause(&applied, write("v", 1), false);
        let expected = ("v", Some("23"), 1, false);
        let version = other.bundle_version.as_deref();
        assert_eq!(
            (&*other.bundle_uid, version, other.generation, other.dispatched),
            expected
        );
        // Its predecessor's removal is none of its own.
        let leaving = remove_all(&applied, false, None, None);
        assert_eq!(pause(&leaving, write("v", 1), false), leaving);
        assert_eq!(pause(&leaving, write("u", 4), true).generation, 4);
    }

    #[test]
    fn a_failed_write_leaves_ours_ours_and_a_refusal_gives_it_up() {
        let wanted = [key("a")];
        let applied = settle(
            &intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[])),
            &BTreeMap::from([(key("a"), ours("1", "d"))]),
            true,
        );
        let failed = settle(&applied, &BTreeMap::from([(key("a"), Settled::Failed)]), true);
        assert_eq!(failed.objects[0].uid.as_deref(), Some("1"));
        let refused = settle(&applied, &BTreeMap::from([(key("a"), Settled::NotOurs)]), true);
        assert_eq!(refused.objects[0].uid, None);
    }

    #[test]
    fn what_is_only_looked_at_is_forgotten_and_never_removed() {
        let wanted = [key("a")];
        let spec = intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[]));
        let spec = settle(&spec, &BTreeMap::from([(key("a"), Settled::Observed)]), true);
        assert_eq!(names(&spec), [("a".into(), LedgerOutcome::Observed)]);
        assert_eq!(names(&intend(&spec, &intentions(2, &[], &[key("a")]))), []);
        assert_eq!(names(&remove_all(&spec, false, None, None)), []);
    }

    #[test]
    fn what_is_to_be_made_again_is_intended_and_keeps_its_uid() {
        let wanted = [key("a")];
        let spec = intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[]));
        let spec = settle(&spec, &BTreeMap::from([(key("a"), ours("1", "d"))]), true);
        let spec = settle(&spec, &BTreeMap::from([(key("a"), Settled::Intended)]), true);
        assert_eq!(names(&spec), [("a".into(), LedgerOutcome::Intended)]);
        assert_eq!(spec.objects[0].uid.as_deref(), Some("1"));
    }

    #[test]
    fn an_orphaned_ledger_re_attaches() {
        let wanted = [key("a")];
        let applied = settle(
            &intend(&AppliedBundleSpec::default(), &intentions(1, &wanted, &[])),
            &BTreeMap::from([(key("a"), ours("1", "d"))]),
            true,
        );
        let held = orphan(&applied);
        assert_eq!(held.state, LedgerState::Orphaned);
        assert_eq!(held.objects, applied.objects);
        assert_eq!(
            intend(&held, &intentions(1, &wanted, &[])).state,
            LedgerState::Applying
        );
    }
}
