//! Keep: the fields of an object whose live value stays (rules of the policy `apply-once`); pure.
//!
//! | affect | new content is applied | drift is repaired |
//! | --- | --- | --- |
//! | `always` | the live value stays | the live value stays |
//! | `onUpdate` | the live value stays, and is recorded | the recorded value is restored; without one, the manifest's |
//! | `onStateKeep` | the manifest's value is set | the live value stays |
//!
//! A path that the live object does not have keeps nothing: the manifest's value is sent. The path `*` is the whole
//! object: mode `Once` for it, whatever `affect` says. The values of a Secret are recorded nowhere, so that `onUpdate`
//! is `always` for it. What was applied last is the manifest as rendered, whatever was kept.

use crate::apply::decode::Manifest;
use crate::apply::once::{recorded, same_stamps};
use crate::ledger::{NoRoom, Room, weight_of_kept};
use crate::object;
use crate::path::by_place;
use roundhouse_api::bundle::{Affect, ApplyOnce, ApplyOnceRule, ApplyOnceSelector};
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::label;
use roundhouse_patch::field::{FieldPath, FieldPathError, keep};
use roundhouse_patch::schema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values that `onUpdate` keeps of one object weigh at most this much in the ledger, in bytes of JSON.
pub(crate) const MAX_KEPT: usize = 64 * 1024;

/// The rules of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    all: Vec<Rule>,
    room: Arc<Room>,
}

/// One rule, its paths parsed.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    selector: Option<ApplyOnceSelector>,
    paths: Result<Vec<FieldPath>, FieldPathError>,
    affect: Affect,
}

/// Why a manifest cannot be applied under its rule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum BadRule {
    #[error("a rule of applyOnceRules does not read: {0}")]
    Path(#[from] FieldPathError),
    #[error(
        "the values that its apply-once rule keeps have {0} bytes, more than the limit of {MAX_KEPT}: use affect always, \
         or paths that select less"
    )]
    TooLarge(usize),
    #[error("{0}: use affect always, or paths that select less, or split the application")]
    NoRoom(#[from] NoRoom),
}

impl Rules {
    /// Takes the rules of a bundle in.
    pub(crate) fn new(rules: &[ApplyOnceRule]) -> Self {
        let parsed = rules.iter().map(|rule| Rule {
            selector: rule.selector.clone(),
            paths: rule
                .strategy
                .path
                .iter()
                .map(|path| FieldPath::parse(path))
                .collect(),
            affect: rule.strategy.affect,
        });
        Rules {
            all: parsed.collect(),
            room: Arc::default(),
        }
    }

    /// The same rules, for a bundle whose ledger has these entries: what they keep has to find room there.
    pub(crate) fn beside(self, entries: &[LedgerEntry]) -> Self {
        Rules {
            room: Arc::new(Room::of(entries)),
            ..self
        }
    }

    /// The first rule that matches an object, a manifest or a live one.
    ///
    /// # Errors
    /// [`BadRule::Path`] if one of its paths does not read.
    pub(crate) fn of(&self, object: &Value) -> Result<Option<Keeping<'_>>, BadRule> {
        let Some(rule) = self.all.iter().find(|rule| rule.selects(object)) else {
            return Ok(None);
        };
        let paths = rule.paths.as_ref().map_err(Clone::clone)?;
        let affect = match (rule.affect, is_secret(object)) {
            (Affect::OnUpdate, true) => Affect::Always,
            (affect, _) => affect,
        };
        let room = &self.room;
        Ok(Some(Keeping { paths, affect, room }))
    }

    /// The mode that counts for an object whose bundle has `mode`.
    pub(crate) fn mode(&self, mode: ApplyOnce, object: &Value) -> ApplyOnce {
        match self.of(object) {
            Ok(Some(keeping)) => keeping.mode(mode),
            Ok(None) | Err(_) => mode,
        }
    }

    /// Whether a rule is about whole objects.
    pub(crate) fn have_whole(&self) -> bool {
        let paths = self.all.iter().filter_map(|rule| rule.paths.as_ref().ok());
        paths.flatten().any(FieldPath::is_whole)
    }
}

impl Rule {
    /// The lists are ANDed, an empty one matches everything, one entry of a list suffices.
    fn selects(&self, object: &Value) -> bool {
        let Some(selector) = &self.selector else {
            return true;
        };
        let fits = |list: &[String], value: Option<&str>| {
            list.is_empty() || value.is_some_and(|value| list.iter().any(|entry| entry == value))
        };
        fits(&selector.component_names, object::label(object, label::COMPONENT))
            && fits(
                &selector.component_types,
                object::label(object, label::COMPONENT_TYPE),
            )
            && fits(&selector.trait_types, object::label(object, label::TRAIT_TYPE))
            && fits(&selector.resource_types, object::text(object, "/kind"))
            && fits(&selector.resource_names, object::text(object, "/metadata/name"))
    }
}

/// What is kept of one object, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeping<'a> {
    paths: &'a [FieldPath],
    affect: Affect,
    room: &'a Room,
}

/// Why an object is merged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// A new content is applied.
    Update,
    /// What is there differs from the content that was applied.
    Repair,
}

impl Keeping<'_> {
    /// The mode that counts for the object; a whole one is at least applied once.
    pub(crate) fn mode(&self, mode: ApplyOnce) -> ApplyOnce {
        match (mode, self.paths.iter().any(FieldPath::is_whole)) {
            (ApplyOnce::Never, true) => ApplyOnce::Once,
            (mode, _) => mode,
        }
    }

    /// Lays what is kept over `wanted`, the object as it would be sent; answers where it has live values now, as JSON
    /// pointers.
    pub(crate) fn lay(
        &self,
        manifest: &Manifest,
        live: &Value,
        entry: Option<&LedgerEntry>,
        wanted: &mut Value,
    ) -> Vec<String> {
        let occasion = occasion(self.affect, manifest, live, entry);
        match (self.affect, occasion) {
            (Affect::Always, _)
            | (Affect::OnUpdate, Occasion::Update)
            | (Affect::OnStateKeep, Occasion::Repair) => self.lay_live(live, wanted),
            (Affect::OnUpdate, Occasion::Repair) => {
                self.lay_recorded(entry, wanted);
                Vec::new()
            }
            (Affect::OnStateKeep, Occasion::Update) => Vec::new(),
        }
    }

    /// What the ledger is told after `manifest` was laid over `live`: the values that `onUpdate` kept; `None` leaves what
    /// it has.
    ///
    /// # Errors
    /// [`BadRule::TooLarge`], [`BadRule::NoRoom`].
    pub(crate) fn record(
        &self,
        manifest: &Manifest,
        live: &Value,
        entry: Option<&LedgerEntry>,
    ) -> Result<Option<BTreeMap<String, Value>>, BadRule> {
        if self.affect != Affect::OnUpdate {
            return Ok(Some(BTreeMap::new()));
        }
        if occasion(self.affect, manifest, live, entry) == Occasion::Repair {
            return Ok(None);
        }
        let mut wanted = manifest.object.clone();
        let pointers = self.lay_live(live, &mut wanted);
        let values = pointers.into_iter().filter_map(|pointer| {
            let value = wanted.pointer(&pointer)?.clone();
            Some((pointer, value))
        });
        let kept: BTreeMap<String, Value> = values.collect();
        let weight = weight_of_kept(&kept);
        if weight > MAX_KEPT {
            return Err(BadRule::TooLarge(weight));
        }
        self.room.take(&manifest.key, weight)?;
        Ok(Some(kept))
    }

    /// The pointers of what was kept, into `wanted`.
    fn lay_live(&self, live: &Value, wanted: &mut Value) -> Vec<String> {
        let mut pointers = Vec::new();
        let schema = schema_of(wanted);
        for path in self.paths.iter().filter(|path| !path.is_whole()) {
            let kept = keep(path, wanted, live, schema);
            pointers.extend(kept.overlaid);
            pointers.extend(kept.added);
        }
        pointers
    }

    /// Restores recorded values, as far as they are of a path that is still kept.
    fn lay_recorded(&self, entry: Option<&LedgerEntry>, wanted: &mut Value) {
        let mut kept: Vec<_> = entry.into_iter().flat_map(|entry| &entry.kept).collect();
        // Each element of a list takes the place behind the last one.
        kept.sort_by(|(one, _), (other, _)| by_place(one, other));
        for (pointer, value) in kept {
            let mut restored = wanted.clone();
            let set = set(&mut restored, pointer, value);
            if set && self.paths.iter().any(|path| path.covers(&restored, pointer)) {
                *wanted = restored;
            }
        }
    }
}

/// `onUpdate` has to be recorded before the next pass may call it drift: a pass that was killed in between goes on as an
/// update.
fn occasion(affect: Affect, manifest: &Manifest, live: &Value, entry: Option<&LedgerEntry>) -> Occasion {
    let unrecorded = affect == Affect::OnUpdate && !entry.is_some_and(|entry| recorded(manifest, entry));
    if unrecorded || !same_stamps(manifest, live) {
        Occasion::Update
    } else {
        Occasion::Repair
    }
}

fn schema_of(object: &Value) -> Option<&'static schema::Node> {
    schema::lookup(
        object::text(object, "/apiVersion")?,
        object::text(object, "/kind")?,
    )
}

fn is_secret(object: &Value) -> bool {
    object::text(object, "/apiVersion") == Some("v1") && object::text(object, "/kind") == Some("Secret")
}

/// Sets the value at a JSON pointer; objects on the way are made, of a list the next element. `false` if it has no place.
fn set(object: &mut Value, pointer: &str, value: &Value) -> bool {
    let Some(path) = pointer.strip_prefix('/') else {
        return false;
    };
    let mut at = object;
    let tokens: Vec<String> = path
        .split('/')
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect();
    for token in &tokens {
        at = match at {
            Value::Object(map) => map
                .entry(token.as_str())
                .or_insert_with(|| Value::Object(Map::new())),
            Value::Array(list) => {
                let Ok(index) = token.parse::<usize>() else {
                    return false;
                };
                if index == list.len() {
                    list.push(Value::Object(Map::new()));
                }
                let Some(element) = list.get_mut(index) else {
                    return false;
                };
                element
            }
            _ => return false,
        };
    }
    at.clone_from(value);
    true
}

#[cfg(test)]
mod tests;
