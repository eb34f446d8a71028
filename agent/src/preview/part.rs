//! One Bundle: which objects are looked at, and why nothing of it may be applied at all.

use crate::apply::decide::Terms;
use crate::apply::decode::{Decoded, decode};
use crate::apply::fence::{Write, check_hash};
use crate::apply::intent::{self, Intent, intent};
use crate::apply::outcome::Outcome;
use crate::apply::prune::{Fate, Inventory, Removal, fate, is_confirmed};
use crate::apply::remove::{Farewell, Guard};
use crate::apply::strategy::treatment;
use crate::kinds::Kind;
use crate::object::ObjectKey;
use crate::preview::object::{Forecast, Sight, forecast};
use crate::preview::{Action, Held, ObjectPreview, Part, Setting};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A Bundle, taken apart.
#[derive(Debug)]
pub(crate) struct Opened {
    part: Part,
    pub(crate) decoded: Decoded,
    terms: Terms,
    entries: BTreeMap<ObjectKey, LedgerEntry>,
    pub(crate) held: Option<Held>,
    /// The bundle is going, and its objects with it.
    going: bool,
}

/// Takes a Bundle apart; `ledger` is what the member knows of it.
pub(crate) fn open(mut part: Part, ledger: &AppliedBundleSpec, setting: &Setting) -> Opened {
    let intent = intent(
        intent::Sight::Present {
            write: Write {
                uid: &part.uid,
                // Read a moment ago, or made up.
                version: "",
                epoch: part.spec.epoch,
                generation: part.generation,
                ignored: false,
            },
            deleting: part.deleting,
            // As far as a plan can know.
            confirmed: true,
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

/// The object that a manifest means, as found.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) kind: Arc<Kind>,
    pub(crate) target: ObjectKey,
    pub(crate) live: Option<Value>,
}

/// A look at the object of one manifest, or what stood in its way.
pub(crate) type Looked = Result<Look, Box<(ObjectKey, Outcome)>>;

/// A look at an object that is only in the ledger; `None` if the member no longer serves its kind.
pub(crate) type Remnant = Result<Option<Look>, Outcome>;

/// The objects of the other parts of an application.
pub(crate) fn others(parts: &[Opened], own: usize) -> BTreeSet<ObjectKey> {
    let others = parts.iter().enumerate().filter(|(at, _)| *at != own);
    let manifests = others.flat_map(|(_, other)| other.decoded.manifests.iter());
    manifests.map(|manifest| manifest.key.clone()).collect()
}

impl Opened {
    /// What is said of the manifests; `looked` is in the order of those that decode.
    pub(crate) fn manifests(&self, looked: Vec<Looked>, salt: &[u8]) -> Vec<ObjectPreview> {
        let mut objects = Vec::new();
        for (manifest, looked) in self.decoded.manifests.iter().zip(looked) {
            let (target, forecast) = match looked {
                Ok(look) => {
                    let forecast = forecast(Sight {
                        manifest,
                        live: look.live.as_ref(),
                        entry: self.entries.get(&manifest.key),
                        treatment: treatment(&self.part.spec.manifest_configs, &look.kind, &look.target),
                        terms: &self.terms,
                        salt,
                    });
                    (look.target, forecast)
                }
                Err(stopped) => (stopped.0, Forecast::of_outcome(&stopped.1)),
            };
            objects.push(self.said(Some(manifest.ordinal), &manifest.version, &target, forecast));
        }
        for failed in &self.decoded.failed {
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            let key = ObjectKey {
                group: text(&failed.identity.group),
                kind: text(&failed.identity.kind),
                namespace: text(&failed.identity.namespace),
                name: text(&failed.identity.name),
            };
            let forecast = Forecast::of_outcome(&Outcome::Undecodable(failed.error.clone()));
            objects.push(self.said(Some(failed.ordinal), "", &key, forecast));
        }
        objects.sort_by_key(|object| object.ordinal);
        objects
    }

    /// The objects of the ledger that the bundle no longer has. `others` are those of the other parts.
    pub(crate) fn surplus(
        &self,
        others: BTreeSet<ObjectKey>,
        looked: &[Looked],
    ) -> Vec<(&ObjectKey, &LedgerEntry)> {
        let unknown = self.decoded.manifests.iter().zip(looked);
        let unknown = unknown.filter(
            |(_, looked)| matches!(looked, Err(stopped) if matches!(stopped.1, Outcome::NoKind { .. })),
        );
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
            unknown_kinds: unknown
                .map(|(m, _)| (m.key.group.as_str(), m.key.kind.as_str()))
                .collect(),
            moved: others,
        };
        let entries = self.entries.iter();
        entries
            .filter(|(key, _)| self.going || fate(key, &inventory) == Fate::Surplus)
            .collect()
    }

    /// What is said of an object that is only in the ledger.
    pub(crate) fn leaving(&self, key: &ObjectKey, entry: &LedgerEntry, look: Remnant) -> ObjectPreview {
        let forecast = match look {
            Ok(Some(look)) => farewell(&self.removal(entry, &look)),
            Ok(None) => farewell(&Removal::Gone),
            Err(outcome) => Forecast::of_outcome(&outcome),
        };
        self.said(None, &entry.version, key, forecast)
    }

    fn removal(&self, entry: &LedgerEntry, look: &Look) -> Removal {
        let spec = &self.part.spec;
        let confirmed = self.going && is_confirmed(spec.application_ref.is_some(), spec.deletion.as_ref());
        let farewell = Farewell {
            marker: &self.terms.marker,
            delete_option: spec.delete_option.as_ref(),
            ordinal: 0,
            wanted: &BTreeSet::new(),
            guard: Guard::of(&self.terms).filter(|_| !confirmed),
        };
        farewell.removal(entry, look.live.as_ref(), &look.kind, &look.target)
    }

    fn said(
        &self,
        ordinal: Option<u32>,
        version: &str,
        key: &ObjectKey,
        forecast: Forecast,
    ) -> ObjectPreview {
        ObjectPreview {
            bundle: self.part.name.clone(),
            ordinal,
            group: key.group.clone(),
            version: version.to_owned(),
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            action: forecast.action,
            reason: forecast.reason,
            message: forecast.message,
            differences: forecast.differences,
        }
    }
}

/// What is said about an object that is no longer in the bundle.
fn farewell(removal: &Removal) -> Forecast {
    match removal {
        Removal::Delete => Forecast::of(Action::Delete, "Pruned", "it is no longer in the bundle"),
        Removal::Release => {
            let message = "it is no longer in the bundle and stays, without our marker";
            Forecast::of(Action::Release, "Orphaned", message)
        }
        Removal::Gone => Forecast::of(Action::Forget, "Gone", "it is no longer in the bundle, and gone"),
        Removal::NotOurs => {
            let message = "it is no longer in the bundle, and not the object that was applied: it stays";
            Forecast::of(Action::Forget, "NotOurs", message)
        }
        Removal::Refused(busy) => {
            let message = format!(
                "it is no longer in the bundle, but {busy}, and apply-once is on: it stays until its removal is confirmed"
            );
            Forecast::of(Action::Refuse, "RemovalRefused", message)
        }
        Removal::Waiting { finalizers } => {
            let message = format!("it is being deleted; its finalizers hold it: {finalizers}");
            Forecast::of(Action::Wait, "BeingDeleted", message)
        }
    }
}
