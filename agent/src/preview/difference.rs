//! Differences: last applied × live × desired, field by field, each with a verdict on what becomes of it.
//!
//! Lists are walked by the patch metadata of the kind: by merge key, as sets, or whole.

use crate::path::{FieldPath, Step};
use crate::preview::owners::{Owner, Owners};
use crate::preview::secret::Veil;
use roundhouse_api::names::{annotation, label};
use roundhouse_patch::schema::{Node, PLAIN};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What becomes of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The next pass sets or removes it.
    Change,
    /// It is somebody else's, we never rendered it, and it stays.
    Keep,
    /// We render it, and somebody else has changed it since: the next pass overwrites that, unless the object is refused.
    Conflict,
    /// We render it, and it differs and stays because the bundle says so: by apply-once, `ignoreFields`, `CreateOnly`, or
    /// `drift: Report` or `Ignore`.
    Once,
}

impl Verdict {
    /// The word for it: `CHANGE`, `KEEP`, `CONFLICT`, `ONCE`.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Change => "CHANGE",
            Verdict::Keep => "KEEP",
            Verdict::Conflict => "CONFLICT",
            Verdict::Once => "ONCE",
        }
    }
}

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The value itself.
    Value(Value),
    /// Hex digits of a salted sha256: the value is secret. Equal values have equal digests within one preview.
    Digest(String),
    /// The value is secret and was not kept.
    NotKept,
}

/// One place where last applied, live and desired part.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The field path; elements of lists by merge key: `spec.template.spec.containers[name=main].image`.
    pub path: String,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What was applied last; `None` if the field was not in it.
    pub last_applied: Option<Shown>,
    /// What is there; `None` if it is not.
    pub live: Option<Shown>,
    /// What the manifest says; `None` if it says nothing.
    pub desired: Option<Shown>,
    /// Who set the live value, by its managedFields; empty if the member does not tell.
    pub owners: Vec<Owner>,
}

impl Difference {
    /// Whether it is about something that we render or rendered.
    pub fn is_ours(&self) -> bool {
        self.desired.is_some() || self.last_applied.is_some()
    }
}

/// The four states of one field; `after` is the live one after the next pass.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Four<'a> {
    pub(crate) last: Option<&'a Value>,
    pub(crate) live: Option<&'a Value>,
    pub(crate) desired: Option<&'a Value>,
    pub(crate) after: Option<&'a Value>,
}

/// What is known about the last-applied values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// They are in the copy.
    Kept,
    /// The copy knows which fields there were, not their values; the manifest is the one that was applied last.
    SameContent,
    /// As [`Memory::SameContent`], of another manifest.
    OtherContent,
}

/// What is common to the fields of one object.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) owners: Owners<'a>,
    pub(crate) veil: Veil<'a>,
    pub(crate) memory: Memory,
    /// The object is refused: what differs is somebody else's word against ours.
    pub(crate) refused: bool,
}

impl Walk<'_> {
    /// The differences of an object.
    pub(crate) fn differences(&self, four: Four<'_>, schema: Option<&'static Node>) -> Vec<Difference> {
        let mut out = Vec::new();
        self.walk(&FieldPath::default(), four, schema.unwrap_or(&PLAIN), &mut out);
        out
    }

    fn walk(&self, path: &FieldPath, four: Four<'_>, schema: &'static Node, out: &mut Vec<Difference>) {
        if is_bookkeeping(path) {
            return;
        }
        let four = four.without_nulls();
        if four.live == four.after && four.live == four.desired {
            return;
        }
        // What is missing, what only others have, and what goes or is held as a whole, is shown in one line.
        let settled = four.desired.is_none() && (four.after.is_none() || four.after == four.live);
        let whole = (four.live.is_none() || settled) && !path.0.is_empty() && !is_map_of_many(path);
        if !whole && let Some(four) = four.objects() {
            for name in four.names() {
                let field = schema.field(name);
                let below = path.field(name);
                let child = field
                    .and_then(|field| field.child)
                    .or(schema.values)
                    .unwrap_or(&PLAIN);
                let states = four.field(name);
                match field.filter(|field| field.strategy.merges()) {
                    Some(field) => self.list(&below, states, (field.merge_key, child), out),
                    None => self.walk(&below, states, child, out),
                }
            }
            return;
        }
        out.extend(self.judge(path, four));
    }

    /// A list that merges, by key or as a set. One whose elements cannot be told apart is taken whole.
    fn list(
        &self,
        path: &FieldPath,
        four: Four<'_>,
        (key, child): (Option<&'static str>, &'static Node),
        out: &mut Vec<Difference>,
    ) {
        if is_bookkeeping(path) {
            return;
        }
        let Some((steps, states)) = four.without_nulls().elements(key) else {
            return self.walk(path, four, &PLAIN, out);
        };
        for (step, states) in steps.into_iter().zip(states) {
            self.walk(&path.then(step), states, child, out);
        }
    }

    /// The verdict on one field.
    fn judge(&self, path: &FieldPath, four: Four<'_>) -> Option<Difference> {
        let Four {
            last,
            live,
            desired,
            after,
        } = four;
        if live == desired {
            return None;
        }
        let mut owners = live.map(|_| self.owners.of(path)).unwrap_or_default();
        let foreign = owners.iter().any(|owner| !owner.ours);
        let forgotten = self.memory != Memory::Kept;
        let unchanged_wish = if forgotten {
            self.memory == Memory::SameContent
        } else {
            last == desired
        };
        // Nobody but us wrote this field, with this very value: the member spells it differently.
        if unchanged_wish && live.is_some() && !owners.is_empty() && !foreign {
            return None;
        }
        let verdict = if live != after {
            let changed_since = if forgotten {
                unchanged_wish
            } else {
                last.is_some() && last != live
            };
            if changed_since || (foreign && last != live) {
                Verdict::Conflict
            } else {
                Verdict::Change
            }
        } else if desired.is_some() || last.is_some() {
            if self.refused {
                Verdict::Conflict
            } else {
                Verdict::Once
            }
        } else {
            // What nobody else wrote is the member's own default, set when we wrote the object.
            owners.retain(Owner::is_author);
            if owners.is_empty() && self.owners.are_known() {
                return None;
            }
            Verdict::Keep
        };
        let show = |value: Option<&Value>| value.map(|value| self.veil.show(path, value));
        let last_applied = match last {
            Some(_) if forgotten => Some(Shown::NotKept),
            last => show(last),
        };
        Some(Difference {
            path: path.to_string(),
            verdict,
            last_applied,
            live: show(live),
            desired: show(desired),
            owners,
        })
    }
}

impl<'a> Four<'a> {
    fn map(self, take: impl Fn(&'a Value) -> Option<&'a Value>) -> Four<'a> {
        Four {
            last: self.last.and_then(&take),
            live: self.live.and_then(&take),
            desired: self.desired.and_then(&take),
            after: self.after.and_then(&take),
        }
    }

    fn field(self, name: &str) -> Four<'a> {
        self.map(|value| value.get(name))
    }

    /// A null in a manifest asks for absence.
    fn without_nulls(self) -> Four<'a> {
        self.map(|value| (!value.is_null()).then_some(value))
    }

    fn present(self) -> impl Iterator<Item = &'a Value> {
        [self.last, self.live, self.desired, self.after]
            .into_iter()
            .flatten()
    }

    /// Itself, if every state that is there is an object.
    fn objects(self) -> Option<Four<'a>> {
        self.present().all(Value::is_object).then_some(self)
    }

    fn names(self) -> BTreeSet<&'a str> {
        let names = self.present().filter_map(Value::as_object).flat_map(Map::keys);
        names.map(String::as_str).collect()
    }

    /// The elements of lists with their states: those of the manifest in its order, then the others. `None` if a state
    /// is no list, or has two elements with one key.
    fn elements(self, key: Option<&str>) -> Option<(Vec<Step>, Vec<Four<'a>>)> {
        let mut steps: Vec<Step> = Vec::new();
        let step = |element: &Value| match key {
            Some(key) => Some(Step::element(key, element.get(key)?)),
            None => (!element.is_object() && !element.is_array()).then(|| Step::item(element)),
        };
        for state in [self.desired, self.live, self.last, self.after]
            .into_iter()
            .flatten()
        {
            let mut own: Vec<Step> = Vec::new();
            for element in state.as_array()? {
                let step = step(element)?;
                if own.contains(&step) {
                    return None;
                }
                own.push(step);
            }
            for step in own {
                if !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
        let find = |state: Option<&'a Value>, wanted: &Step| {
            let elements = state.and_then(Value::as_array).into_iter().flatten();
            elements
                .into_iter()
                .find(|element| step(element).as_ref() == Some(wanted))
        };
        let states = steps.iter().map(|step| Four {
            last: find(self.last, step),
            live: find(self.live, step),
            desired: find(self.desired, step),
            after: find(self.after, step),
        });
        let states = states.collect();
        Some((steps, states))
    }
}

/// What the member keeps about an object, what we stamp on it, and what names it: no difference that a person looks for.
fn is_bookkeeping(path: &FieldPath) -> bool {
    const METADATA: [&str; 10] = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let Some(fields) = path.fields() else { return false };
    match fields.as_slice() {
        ["status" | "apiVersion" | "kind"] => true,
        ["metadata", field] => METADATA.contains(field),
        ["metadata", "annotations", key] => {
            annotation::STAMPS.contains(key) || *key == annotation::KUBECTL_LAST_APPLIED
        }
        ["metadata", "labels", key] => [label::REVISION, label::APP_REVISION].contains(key),
        _ => false,
    }
}

/// Maps in which many write side by side: their entries are shown one by one, whoever has them.
fn is_map_of_many(path: &FieldPath) -> bool {
    matches!(
        path.fields().as_deref(),
        Some(
            ["metadata"]
                | ["metadata", "annotations" | "labels"]
                | ["data" | "binaryData" | "stringData"]
                | ["spec"]
        )
    )
}
