//! P3: dispatched at least once, with one effect. Epochs and generations go up, and one generation of a Bundle changes an
//! object once, unless somebody else changes it in between.

use super::{
    commit::Commit,
    model::{BUNDLES, LEDGERS, Model},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::names::annotation;
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// What an agent did to an object last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effect {
    /// Uid and generation of the Bundle that it worked on.
    of: (String, i64),
    /// The generation of the application that the object carries.
    carries: Option<i64>,
    /// Somebody else has changed the object since.
    touched: bool,
}

#[derive(Debug, Default)]
pub(super) struct Once {
    effects: BTreeMap<(Arc<str>, Key), Effect>,
}

impl Check for Once {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, BUNDLES) => rises(commit, ["/spec/epoch", "/metadata/generation"], found),
            (HUB, _) => {}
            (_, LEDGERS) => obeys(commit, found),
            _ => self.applied(commit, model, found),
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        // Whatever was lost there is somebody else's doing.
        if let Note::Reopened { server, .. } | Note::Restored(server) = note {
            let own = self.effects.iter_mut().filter(|((of, _), _)| of == server);
            own.for_each(|(_, effect)| effect.touched = true);
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

/// A ledger follows one Bundle by epoch and generation.
fn obeys(commit: &Commit, found: &mut Found<'_>) {
    let order = |value: &Value| {
        let number = |pointer| value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        (number("/spec/epoch"), number("/spec/generation"))
    };
    let of = |value: &Value| value.pointer("/spec/bundleUid").cloned();
    let (before, after) = (commit.before(), commit.after());
    if commit.is_change() && of(before) == of(after) && order(after) < order(before) {
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
        // The network did that: the word of an earlier generation, on an object that nobody has changed since.
        if commit.asked.as_ref().is_some_and(|asked| asked.overdue) {
            self.touched(&place);
            return;
        }
        // What is let go loses our marker, by the word of a later generation; nothing of the content changes.
        let marked = |value: &Value| {
            let annotations = value.pointer("/metadata/annotations");
            annotations.is_some_and(|all| all.get(annotation::OWNED_BY).is_some())
        };
        if marked(commit.before()) && !marked(commit.after()) {
            self.effects.remove(&place);
            return;
        }
        let Some((_, ledger)) = model.ledger_of(&commit.server, &commit.key) else {
            return;
        };
        let carries = commit.after().pointer("/metadata/annotations");
        let carries = carries.and_then(|all| all.get(annotation::GENERATION)?.as_str()?.parse().ok());
        let effect = Effect {
            of: (ledger.spec.bundle_uid.clone(), ledger.spec.generation),
            carries,
            touched: commit.after.is_none(),
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
        if before.of.0 == effect.of.0
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
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(all) = value.as_object_mut() {
            all.remove("status");
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        value
    };
    commit.is_change() && rest(commit.before()) == rest(commit.after())
}
