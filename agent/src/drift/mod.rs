//! Drift: differences that appear on an object after it was applied.
//!
//! | module | what |
//! | --- | --- |
//! | `paths` | which fields differ, by name |
//! | `spelling` | which differences are none |
//! | `fight` | which fields somebody else rewrites again and again, and when to repair them |
//! | `rival` | who that is |
//!
//! A difference is drift when the content of the manifest is what was applied to this very object before; anything else
//! is new content, which always wins.

pub(crate) mod fight;
pub(crate) mod paths;
mod rival;
mod spelling;

pub(crate) use rival::is_ours_alone;

use crate::apply::decode::Manifest;
use crate::apply::once::{recorded, same_stamps};
use crate::object;
use crate::path::FieldPath;
use fight::{History, LONGEST, Verdict};
use paths::{Difference, differences};
use roundhouse_api::hash;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::annotation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The paths that a message lists at most.
const MAX_PATHS: usize = 5;
/// What a message says when the server itself decided otherwise: managedFields name us, not the webhook.
const ADMISSION: &str = "the cluster's admission (a webhook or policy), in the same request";

/// Whether this content was applied to this object before: its stamps say so, or, where somebody took them off, the
/// ledger does.
pub(crate) fn was_applied(manifest: &Manifest, live: &Value, entry: Option<&LedgerEntry>) -> bool {
    let stripped = object::annotation(live, annotation::DESIRED_HASH).is_none();
    let same_object = entry.is_some_and(|entry| entry.uid.as_deref() == object::uid(live));
    same_stamps(manifest, live)
        || (stripped && same_object && entry.is_some_and(|entry| recorded(manifest, entry)))
}

/// Whether a write of this content to this object is a repair, for the history of fights. Stamps prove nothing here: who
/// applies an old copy of the whole object again and again restores its old stamps too.
pub(crate) fn is_repair(manifest: &Manifest, live: &Value, entry: Option<&LedgerEntry>) -> bool {
    let same_object = |entry: &LedgerEntry| entry.uid.is_some() && entry.uid.as_deref() == object::uid(live);
    same_stamps(manifest, live) || entry.is_some_and(|entry| same_object(entry) && recorded(manifest, entry))
}

/// What is remembered of one object's differences between passes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Differences {
    /// Fields that differ and stay so, because the bundle says `drift: Report`.
    pub(crate) drifted: Vec<String>,
    /// Repairs, and the fields that are fought over.
    pub(crate) history: History,
    /// Fields that the server spells in its own way, or does not know, with a digest of our value and of its own: sending
    /// the same again would change nothing, for ever.
    settled: BTreeMap<FieldPath, String>,
}

/// What is to be done about a patch.
#[derive(Debug)]
pub(crate) enum Advice {
    /// The server has answered all of it before, without taking it up.
    Nothing,
    /// It is sent; these fields are repaired by it.
    Send { fields: Vec<FieldPath> },
    /// All of its fields are fought over, and the next repair is not due.
    Wait,
}

impl Differences {
    /// Whether nothing differs, and nothing is remembered that ends with time.
    pub(crate) fn is_none(&self) -> bool {
        self.drifted.is_empty() && self.history.is_empty() && self.settled.is_empty()
    }

    /// The object is as the bundle wants it, or left alone: fights come to their end.
    pub(crate) fn none(&mut self, look: Look<'_>) {
        self.drifted.clear();
        if !self.history.is_empty() {
            self.history.look(&look.content(), look.anew, &[], look.now);
        }
    }

    /// The object differs, and the bundle only wants to know.
    pub(crate) fn reported(&mut self, patch: &Value, live: &Value, look: Look<'_>) {
        let real = differences(patch, live).into_iter().filter(Difference::is_real);
        self.drifted = real
            .filter(|difference| !self.is_settled(difference))
            .map(|difference| difference.path.to_string())
            .collect();
        // Repairs stay remembered: stamps that somebody restores are put right under `Report` too.
        self.history.look(&look.content(), look.anew, &[], look.now);
    }

    /// Judges a patch before it is sent.
    pub(crate) fn advise(&mut self, patch: &Value, live: &Value, look: Look<'_>) -> Advice {
        self.drifted.clear();
        let all = differences(patch, live);
        // A patch without a path of its own (the order of a list) is judged as a whole.
        let whole = [Difference {
            path: FieldPath::default(),
            kind: None,
            ours: patch,
            theirs: None,
        }];
        let all = if all.is_empty() { &whole[..] } else { &all[..] };
        let fields: Vec<FieldPath> = all
            .iter()
            .filter(|difference| !self.is_settled(difference))
            .map(|difference| difference.path.clone())
            .collect();
        self.history.look(&look.content(), look.anew, &fields, look.now);
        if fields.is_empty() {
            return Advice::Nothing;
        }
        match self.history.verdict(&fields, look.now) {
            Verdict::Repair => Advice::Send { fields },
            Verdict::BackOff { .. } => {
                self.name_rivals(live, look.applies_as);
                Advice::Wait
            }
        }
    }

    /// The object is missing. It is made, unless somebody takes it away again and again.
    pub(crate) fn advise_creation(&mut self, look: Look<'_>) -> Advice {
        self.drifted.clear();
        let fields = vec![FieldPath::default()];
        self.history.look(&look.content(), look.anew, &fields, look.now);
        match self.history.verdict(&fields, look.now) {
            Verdict::Repair => Advice::Send { fields },
            Verdict::BackOff { .. } => Advice::Wait,
        }
    }

    /// The object was written, and `left` is what would still be sent after the server's answer.
    pub(crate) fn answered(&mut self, sent: &Written<'_>, left: Option<&Value>, after: &Value, now: Instant) {
        if sent.repair {
            self.history.repaired(sent.fields, now);
        }
        if let Some(before) = sent.before {
            self.name_rivals(before, sent.applies_as);
        }
        self.settled.clear();
        let Some(left) = left else { return };
        let all = differences(left, after);
        let unmoved = sent
            .before
            .is_some_and(|before| object::resource_version(before) == object::resource_version(after));
        if all.is_empty() && unmoved {
            self.settled.insert(FieldPath::default(), digest(left, None));
        }
        let (overruled, spelled): (Vec<_>, Vec<_>) = all.into_iter().partition(Difference::is_overruled);
        if sent.before.is_some() {
            // What a server drops when an object is made, it may take when the object is changed.
            self.settled
                .extend(spelled.iter().map(|d| (d.path.clone(), digest(d.ours, d.theirs))));
        }
        if !overruled.is_empty() {
            let paths: Vec<FieldPath> = overruled.into_iter().map(|difference| difference.path).collect();
            self.history.overruled(&paths, now);
            self.history.seen_rival(ADMISSION.to_owned());
        }
    }

    fn name_rivals(&mut self, live: &Value, applies_as: &str) {
        let fought: Vec<FieldPath> = self.history.fought().cloned().collect();
        for name in fought
            .iter()
            .filter_map(|path| rival::rival(live, path, applies_as))
        {
            self.history.seen_rival(format!("field manager {name}"));
        }
    }

    fn is_settled(&self, difference: &Difference<'_>) -> bool {
        let settled = self.settled.get(&difference.path);
        settled.is_some_and(|settled| *settled == digest(difference.ours, difference.theirs))
    }

    /// What a person should know about a fight; `None` while there is none. It says the same as long as the fight does
    /// not change: no times, no values.
    pub(crate) fn fighting(&self, object: &str) -> Option<String> {
        if !self.history.is_fought() {
            return None;
        }
        let paths: Vec<String> = self.history.fought().map(ToString::to_string).collect();
        let rivals: Vec<&str> = self.history.rivals().collect();
        let rivals = match rivals.as_slice() {
            [] => "an unknown writer".to_owned(),
            rivals => rivals.join(" and by "),
        };
        Some(format!(
            "{object}: {} is rewritten again and again by {rivals}; it is repaired ever more rarely, at last every {} min: \
             list the field in ignoreFields or keep it by an apply-once path, or stop the other writer",
            paths::list(paths.iter().map(String::as_str), MAX_PATHS),
            LONGEST.as_secs() / 60,
        ))
    }

    /// What a person should know about drift that is reported only; `None` without any.
    pub(crate) fn drift(&self, object: &str) -> Option<String> {
        if self.drifted.is_empty() {
            return None;
        }
        let paths = paths::list(self.drifted.iter().map(String::as_str), MAX_PATHS);
        Some(format!(
            "{object} differs from the bundle in {paths}; drift is Report"
        ))
    }
}

/// A write that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The fields that it was to change.
    pub(crate) fields: &'a [FieldPath],
    /// Whether it was a repair: new content is none.
    pub(crate) repair: bool,
    /// The object before; `None` if it was made.
    pub(crate) before: Option<&'a Value>,
    /// See [`Look::applies_as`].
    pub(crate) applies_as: &'a str,
}

/// One look at an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) manifest: &'a Manifest,
    /// Whether the Bundle was written since the look before.
    pub(crate) anew: bool,
    pub(crate) now: Instant,
    /// The field manager of the object's server-side applies: no rival of ours.
    pub(crate) applies_as: &'a str,
}

impl Look<'_> {
    /// Tells whether an object's content is still the same: a digest of the manifest with its stamps.
    fn content(&self) -> String {
        hash::of_value(&self.manifest.object)
    }
}

fn digest(ours: &Value, theirs: Option<&Value>) -> String {
    hash::of_value(&json!([ours, theirs]))
}
