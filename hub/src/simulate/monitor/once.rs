//! P3: dispatched at least once, with one effect. Epochs and generations go up, and one generation of a Bundle changes an
//! object once, unless somebody else changes it in between.

use super::{
    commit::Commit,
    fields::{annotation_of, is_marked},
    model::{BUNDLES, LEDGERS, Model},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::names::annotation;
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What an agent did to an object last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effect {
    /// Uid and generation of the Bundle that it worked on, and the epoch of that.
    of: (String, i64, i64),
    /// The generation of the application that the object carries.
    carries: Option<i64>,
    /// Somebody else has changed the object since.
    touched: bool,
    /// It was given another version since, by the agent that runs.
    outdated: bool,
}

#[derive(Debug, Default)]
pub(super) struct Once {
    effects: BTreeMap<(Arc<str>, Key), Effect>,
    /// When a member was last put back to an earlier state.
    restored: BTreeMap<Arc<str>, Duration>,
}

/// What was sent before a member was restored may arrive so long after it.
const UNDER_WAY: Duration = Duration::from_secs(60);

impl Check for Once {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, BUNDLES) => rises(commit, ["/spec/epoch", "/metadata/generation"], found),
            (HUB, _) => {}
            (_, LEDGERS) => obeys(commit, model, found),
            _ => self.applied(commit, model, found),
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        if let Note::Restored(server) = note {
            self.restored.insert(server.clone(), found.at);
        }
        // One that is started anew does not know what an earlier one has seen to.
        if let Note::Started(server) = note {
            self.of(server).for_each(|effect| effect.outdated = false);
        }
        // Whatever was lost there is somebody else's doing.
        if let Note::Reopened { server, .. } | Note::Restored(server) = note {
            self.of(server).for_each(|effect| effect.touched = true);
        }
    }
}

/// Each of these numbers alone never goes down in an object.
fn rises(commit: &Commit, pointers: [&str; 2], found: &mut Found<'_>) {
    if !commit.is_change() {
        return;
    }
    found.judges(Promise::P3);
    for pointer in pointers {
        let number = |value: &Value| value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let (before, after) = (number(commit.before()), number(commit.after()));
        if after < before {
            let expected = format!("{pointer} at least {before}");
            found.broke(Promise::P3, commit.object(), expected, after.to_string());
        }
    }
}

/// A ledger follows one Bundle by epoch and generation, and one that is made again by epoch and the order in which they were made.
/// One by hand has no epoch.
fn obeys(commit: &Commit, model: &Model, found: &mut Found<'_>) {
    let (before, after) = (commit.before(), commit.after());
    let epoch = |value: &Value| value.pointer("/spec/epoch").and_then(Value::as_i64);
    let same = before.pointer("/spec/bundleUid") == after.pointer("/spec/bundleUid");
    let made = |value: &Value| {
        let uid = value.pointer("/spec/bundleUid").and_then(Value::as_str)?;
        model.by_uid(uid).map(|held| held.made)
    };
    if commit.is_change()
        && epoch(after) <= epoch(before)
        && let (Some(was), Some(is)) = (made(before), made(after))
        && is < was
    {
        let expected = "a Bundle that was made no earlier than the one that it followed";
        found.broke(Promise::P3, commit.object(), expected, "one that went before it");
    }
    if !commit.is_change() || !same && epoch(after).is_none() {
        return;
    }
    let order = |value: &Value| {
        let generation = value.pointer("/spec/generation").and_then(Value::as_i64);
        let generation = generation.filter(|_| same).unwrap_or(0);
        (epoch(value).unwrap_or(0), generation)
    };
    if order(after) < order(before) {
        let expected = format!("(epoch, generation) at least {:?}", order(before));
        found.broke(
            Promise::P3,
            commit.object(),
            expected,
            format!("{:?}", order(after)),
        );
    }
}

impl Once {
    /// What the agent of a member did last, to each of its objects.
    fn of(&mut self, server: &str) -> impl Iterator<Item = &mut Effect> {
        let own = self
            .effects
            .iter_mut()
            .filter(move |((of, _), _)| &**of == server);
        own.map(|(_, effect)| effect)
    }

    /// An agent writes what no ledger of its member lists: it would not know of it after a death.
    fn unlisted(&self, commit: &Commit, found: &mut Found<'_>) {
        let restored = self.restored.get(&commit.server);
        let under_way = restored.is_some_and(|at| commit.at.saturating_sub(*at) < UNDER_WAY);
        if commit.deletes() || under_way || !is_marked(commit.after()) {
            return;
        }
        found.judges(Promise::P3);
        let expected = "its ledger to list the object before it is written";
        found.broke(Promise::P3, commit.object(), expected, "none does");
    }

    fn touched(&mut self, place: &(Arc<str>, Key)) {
        if let Some(effect) = self.effects.get_mut(place) {
            effect.touched = true;
        }
    }

    fn applied(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let place = (commit.server.clone(), commit.key.clone());
        if commit.by().and_then(|who| who.agent()).is_none() {
            if !only_status(commit) {
                self.touched(&place);
            }
            return;
        }
        // What is let go loses our marker, by the word of a later generation; nothing of the content changes.
        if commit.is_change() && is_marked(commit.before()) && !is_marked(commit.after()) {
            self.effects.remove(&place);
            found.judges(Promise::P3);
            let stamps = &annotation::STAMPS;
            if rest(commit.before(), stamps) != rest(commit.after(), stamps) {
                let expected = "what is let go to stay as it is";
                found.broke(Promise::P3, commit.object(), expected, "its content changed");
            }
            return;
        }
        // Nothing is made of an object that only gets another version, so that no deletion finds it that comes late; once.
        if is_outdated(commit) {
            // Of what comes late, or once more, the agent may know nothing.
            let late = commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some());
            let effect = self.effects.get_mut(&place).filter(|_| !late);
            if effect.is_none_or(|effect| !std::mem::replace(&mut effect.outdated, true)) {
                return;
            }
        }
        let carries = annotation_of(commit.after(), annotation::GENERATION);
        let carries = carries.and_then(|generation| generation.parse().ok());
        // The network did that: the word of an earlier generation, on an object that nobody has changed since. A write that does
        // not say what it replaces has no such excuse.
        if commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some()) {
            let replaces = commit.before.as_ref().map(|record| record.revision);
            let named = commit.asked.as_ref().and_then(|asked| asked.names_version());
            if let Some(effect) = self.effects.get_mut(&place) {
                if named != replaces
                    && commit.is_change()
                    && let (Some(was), Some(is)) = (effect.carries, carries)
                    && is < was
                {
                    let expected = format!(
                        "{} at least {was}, or a write that names what it replaces",
                        annotation::GENERATION
                    );
                    found.broke(
                        Promise::P3,
                        commit.object(),
                        expected,
                        format!("{is}, long after it was sent"),
                    );
                }
                effect.touched = true;
            }
            return;
        }
        let Some((_, ledger)) = model.ledger_of(&commit.server, &commit.key) else {
            self.unlisted(commit, found);
            return;
        };
        let effect = Effect {
            of: (
                ledger.spec.bundle_uid.clone(),
                ledger.spec.generation,
                ledger.spec.epoch.unwrap_or(0),
            ),
            carries,
            touched: commit.after.is_none(),
            outdated: false,
        };
        let Some(before) = self.effects.insert(place, effect.clone()) else {
            return;
        };
        if before.of == effect.of && !before.touched && commit.is_change() && !commit.deletes() {
            let expected = format!("one change by generation {} of its Bundle", effect.of.1);
            found.broke(
                Promise::P3,
                commit.object(),
                expected,
                "a second one, with nobody else's in between",
            );
        }
        // Somebody has confirmed that agents go back by a later epoch.
        let goes_back = before.of.2 <= model.confirmed && effect.of.2 > model.confirmed;
        if before.of.0 == effect.of.0
            && !goes_back
            && let (Some(was), Some(is)) = (before.carries, effect.carries)
            && is < was
            && commit.is_change()
        {
            let expected = format!("{} at least {was}", annotation::GENERATION);
            found.broke(Promise::P3, commit.object(), expected, is.to_string());
        }
    }
}

/// Whether nothing differs but what controllers say of the object.
fn only_status(commit: &Commit) -> bool {
    commit.is_change() && rest(commit.before(), &[]) == rest(commit.after(), &[])
}

/// Whether an object only gets another version: the one that it had is noted, and nothing else is otherwise.
fn is_outdated(commit: &Commit) -> bool {
    let note = annotation_of(commit.after(), annotation::FENCED);
    let had = commit.before.as_ref().map(|record| record.revision.to_string());
    let left_out = [annotation::FENCED];
    commit.is_change()
        && note == had.as_deref()
        && rest(commit.before(), &left_out) == rest(commit.after(), &left_out)
}

/// An object without what controllers say of it, and without these annotations.
fn rest(value: &Value, left_out: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(all) = value.as_object_mut() {
        all.remove("status");
    }
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
        return value;
    };
    // Annotations of a Deployment count in its generation; what else counts there is compared by itself.
    for key in ["resourceVersion", "managedFields", "generation"] {
        metadata.remove(key);
    }
    if !left_out.is_empty()
        && let Some(mut annotations) = metadata.remove("annotations")
    {
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.retain(|key, _| !left_out.contains(&key.as_str()));
        }
        if annotations.as_object().is_some_and(|left| !left.is_empty()) {
            metadata.insert("annotations".to_owned(), annotations);
        }
    }
    value
}
