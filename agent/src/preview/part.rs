//! One Bundle: which objects are looked at, and why nothing of it may be applied at all.

use crate::apply::decide::Terms;
use crate::apply::decode::{Decoded, decode};
use crate::apply::fence::check_hash;
use crate::apply::intent::{Intent, Sight, intent};
use crate::apply::prune::{Fate, Inventory, Removal, fate};
use crate::object::ObjectKey;
use crate::preview::object::Forecast;
use crate::preview::{Action, Held, Part, Setting};
use roundhouse_api::bundle::ManifestConfig;
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry};
use std::collections::{BTreeMap, BTreeSet};

/// A Bundle, taken apart.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) decoded: Decoded,
    pub(crate) terms: Terms,
    pub(crate) part: Part,
    entries: BTreeMap<ObjectKey, LedgerEntry>,
    pub(crate) held: Option<Held>,
    /// The bundle is going, and its objects with it.
    going: bool,
}

/// Takes a Bundle apart; `ledger` is what the member knows of it.
pub(crate) fn open(mut part: Part, ledger: &AppliedBundleSpec, setting: &Setting) -> Opened {
    let intent = intent(
        Sight::Present {
            uid: &part.uid,
            generation: part.generation,
            deleting: part.deleting,
            spec: &part.spec,
        },
        ledger,
    );
    let going = intent == Intent::Remove;
    let manifests = std::mem::take(&mut part.spec.workload.manifests);
    let fenced = check_hash(part.spec.hash.as_deref(), &manifests).err();
    let why = match intent {
        Intent::Hold { reason, message } => Some((reason, message)),
        Intent::Ignore(fenced) => Some((fenced.reason(), fenced.to_string())),
        _ => fenced.map(|fenced| (fenced.reason(), fenced.to_string())),
    };

    let held = why.map(|(reason, message)| Held {
        bundle: part.name.clone(),
        reason: reason.to_owned(),
        message,
    });
    let entries = ledger.objects.iter();
    Opened {
        name: part.name.clone(),
        decoded: if going {
            Decoded::default()
        } else {
            decode(manifests)
        },
        terms: Terms::of(&part.spec, &part.name, &setting.hub_id, setting.apply_once),
        entries: entries
            .map(|entry| (ObjectKey::of_entry(entry), entry.clone()))
            .collect(),
        part,
        held,
        going,
    }
}

impl Opened {
    pub(crate) fn configs(&self) -> &[ManifestConfig] {
        &self.part.spec.manifest_configs
    }

    pub(crate) fn entry(&self, key: &ObjectKey) -> Option<&LedgerEntry> {
        self.entries.get(key)
    }

    /// The objects of the ledger that the bundle no longer has. `others` are those of the other parts.
    pub(crate) fn surplus<'a>(
        &'a self,
        others: BTreeSet<ObjectKey>,
        unknown_kinds: BTreeSet<(&'a str, &'a str)>,
    ) -> Vec<(&'a ObjectKey, &'a LedgerEntry)> {
        let inventory = Inventory {
            wanted: self
                .decoded
                .manifests
                .iter()
                .map(|manifest| &manifest.key)
                .collect(),
            undecodable: self
                .decoded
                .failed
                .iter()
                .map(|failed| &failed.identity)
                .collect(),
            unknown_kinds,
            moved: others,
        };
        let entries = self.entries.iter();
        entries
            .filter(|(key, _)| self.going || fate(key, &inventory) == Fate::Surplus)
            .collect()
    }
}

/// What is said about an object that is no longer in the bundle.
pub(crate) fn farewell(removal: &Removal) -> Forecast {
    match removal {
        Removal::Delete { .. } => Forecast::of(Action::Delete, "Pruned", "it is no longer in the bundle"),
        Removal::Release => {
            let message = "it is no longer in the bundle and stays, without our marker";
            Forecast::of(Action::Release, "Orphaned", message)
        }
        Removal::Gone => Forecast::of(Action::Forget, "Gone", "it is no longer in the bundle, and gone"),
        Removal::NotOurs => {
            let message = "it is no longer in the bundle, and not the object that was applied: it stays";
            Forecast::of(Action::Forget, "NotOurs", message)
        }
        Removal::Waiting { finalizers } => {
            let message = format!("it is being deleted; its finalizers hold it: {finalizers}");
            Forecast::of(Action::Wait, "BeingDeleted", message)
        }
    }
}
