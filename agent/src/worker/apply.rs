//! A pass that applies.

use super::{Extent, Next, Worker, account_of};
use crate::apply::decide::Terms;
use crate::apply::decode::{Decoded, Manifest, decode, decode_again};
use crate::apply::fence::check_hash;
use crate::apply::outcome::Outcome;
use crate::apply::prune::{Fate, Inventory, fate, stays_guarded};
use crate::apply::remove::{Farewell, Guard};
use crate::apply::target::first_of_each;
use crate::apply::{Done, Engine, Observation, Order, Task, undecodable};
use crate::bundle::{Content, Held};
use crate::error::{CallError, Fault};
use crate::ledger::{Intentions, Settled, check, entries, intend, is_leaving, settle};
use crate::object::ObjectKey;
use crate::observe;
use crate::report::{self, Subject};
use crate::watch::registry::Siblings;
use roundhouse_api::bundle::{ApplyOnce, BundleSpec, ManifestConfig};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is settled about the objects of the ledger before the member is touched.
#[derive(Debug, Default)]
struct Surplus {
    /// They go.
    going: BTreeSet<ObjectKey>,
    /// Another part has them.
    moved: BTreeSet<ObjectKey>,
    /// What could go, if the other parts were read at this revision.
    postponed: Option<Postponed>,
}

/// What cannot go, as another part of the application may be about to have it.
#[derive(Debug)]
pub(super) struct Postponed {
    /// The part that is waited for, if it is known.
    part: Option<String>,
    objects: usize,
}

impl Postponed {
    /// What there is to say of it.
    fn message(&self) -> Option<String> {
        let part = match &self.part {
            Some(part) => format!("part {part} is"),
            None => "the other parts are".to_owned(),
        };
        let objects = self.objects;
        (objects > 0).then(|| {
            format!("{objects} objects that left it stay until {part} read at the same revision and division")
        })
    }
}

impl Worker {
    /// Applies the whole bundle, or the part of it that `extent` names.
    pub(super) async fn apply(
        &mut self,
        held: &Held,
        mut spec: BundleSpec,
        content: Content,
        extent: Extent,
    ) -> Result<Next, CallError> {
        let stays_guarded = stays_guarded(&spec, self.ledger.spec());
        let manifests = std::mem::take(&mut spec.workload.manifests);
        let total = u32::try_from(manifests.len()).unwrap_or(u32::MAX);
        let anew = self.tried.as_ref() != Some(&content);
        // What was tried was checked.
        let hash = if anew {
            match check_hash(spec.hash.as_deref(), &manifests) {
                Ok(hash) => hash,
                Err(fenced) => {
                    let message = fenced.to_string();
                    self.refuse(held, spec.hash.as_deref(), spec.epoch, fenced.reason(), &message)
                        .await?;
                    return Ok(Next::Resync);
                }
            }
        } else {
            self.hash.clone()
        };
        let engine = match self.engine(&spec) {
            Ok(engine) => engine,
            Err(error) => {
                let message = error.to_string();
                self.refuse(held, spec.hash.as_deref(), spec.epoch, error.reason(), &message)
                    .await?;
                return Ok(Next::Resync);
            }
        };
        if anew || !self.rules.are_compiled() {
            self.rules = Arc::new(observe::Rules::compile(&spec.manifest_configs));
        }
        let mut decoded = if anew {
            decode(manifests)
        } else {
            decode_again(manifests, &self.digests)
        };
        first_of_each(&mut decoded, &self.shared.engine.kinds).await;
        let keys: BTreeSet<ObjectKey> = decoded
            .manifests
            .iter()
            .map(|manifest| manifest.key.clone())
            .collect();
        let mut terms = Terms::of(
            &spec,
            &self.name,
            &self.shared.hub_id,
            self.shared.config.apply_once,
        );
        if stays_guarded && Guard::of(&terms).is_none() {
            terms.apply_once = ApplyOnce::Once;
        }
        let mut surplus = if extent == Extent::Whole {
            self.shared.registry.declare(&self.name, &keys);
            self.observations.retain(|ordinal, _| *ordinal < total);
            self.unsure.retain(|ordinal| *ordinal < total);
            let surplus = self.surplus(&decoded);
            let elsewhere = self.elsewhere(&keys).await?;
            let ahead = self.ahead(held, &spec, &decoded, (&surplus, elsewhere), &terms);
            if let Err(too_large) = check(&ahead) {
                let message = too_large.to_string();
                self.refuse(held, spec.hash.as_deref(), spec.epoch, "LedgerTooLarge", &message)
                    .await?;
                return Ok(Next::Resync);
            }
            if let Err(error) = self.ledger.write(ahead).await {
                if !matches!(error.fault(), Fault::Lasting(_)) {
                    return Err(error);
                }
                let message = format!(
                    "nothing is applied without a ledger, and the cluster takes none of this bundle: {}",
                    error.message()
                );
                self.refuse(held, spec.hash.as_deref(), spec.epoch, "LedgerRefused", &message)
                    .await?;
                return Ok(Next::Retry);
            }
            self.shared.registry.answers_for(&self.name, held);
            surplus
        } else {
            Surplus::default()
        };
        terms.rules = terms.rules.beside(&self.ledger.spec().objects);
        self.cleaned = false;
        if anew {
            self.digests = decoded.digests();
        }
        self.tried = Some(content.clone());
        self.hash = hash;
        self.ask_rights(&spec, &decoded, anew).await;
        let outcomes = self
            .touch_member(&engine, &decoded, &spec, &terms, (&extent, anew))
            .await;
        self.remove_surplus(&engine, &spec, &terms, total).await;
        if extent == Extent::Whole {
            self.postponed = surplus.postponed.take();
        }
        self.settle(outcomes, extent == Extent::Whole && self.postponed.is_none())
            .await?;
        self.watch(&keys);
        self.applied = Some(content);
        let subject = Subject {
            hash: Some(&self.hash),
            generation: held.generation,
            epoch: spec.epoch,
        };
        let now = self.shared.clock.now();
        let before = self.reported.as_ref();
        let mut status = report::applied(subject, self.observations.values(), &self.leaving, before, now);
        self.say_rights(&mut status, held.generation, now);
        if let Some(message) = self.postponed.as_ref().and_then(Postponed::message) {
            report::say_waiting(&mut status, &message);
        }
        let reported = self.report(held, status).await;
        self.note_fights();
        let next = self.next();
        let Err(error) = reported else {
            return Ok(next);
        };
        // What the member has is known, and stays so: the report alone is made out and sent again.
        tracing::warn!(
            bundle = self.name,
            error = error.message(),
            "the report was not taken, trying again"
        );
        Ok(Next::Retry)
    }

    /// Sorts out what of the ledger is no longer in the bundle.
    fn surplus(&self, decoded: &Decoded) -> Surplus {
        let mut surplus = Surplus::default();
        let moved = match self.shared.registry.siblings(&self.name) {
            Siblings::Read(theirs) => theirs,
            Siblings::NotYet(part) => {
                surplus.postponed = Some(Postponed { part, objects: 0 });
                BTreeSet::new()
            }
        };
        let inventory = Inventory {
            wanted: decoded.manifests.iter().map(|manifest| &manifest.key).collect(),
            undecodable: decoded.failed.iter().map(|failed| &failed.identity).collect(),
            unknown_kinds: BTreeSet::new(),
            moved,
        };
        for entry in &self.ledger.spec().objects {
            let key = ObjectKey::of_entry(entry);
            match (fate(&key, &inventory), &mut surplus.postponed) {
                (Fate::Surplus, Some(postponed)) => postponed.objects += 1,
                (Fate::Surplus, None) => {
                    surplus.going.insert(key);
                }
                (Fate::Moved, _) => {
                    surplus.moved.insert(key);
                }
                (Fate::Wanted | Fate::Held, _) => {}
            }
        }
        surplus
    }

    /// What the other parts of the application have on record of objects that are new here. They keep it until this ledger has it.
    async fn elsewhere(
        &self,
        keys: &BTreeSet<ObjectKey>,
    ) -> Result<BTreeMap<ObjectKey, LedgerEntry>, CallError> {
        let is_new = |key: &ObjectKey| keys.contains(key) && self.ledger.entry(key).is_none();
        let mut found = BTreeMap::new();
        if !keys.iter().any(is_new) {
            return Ok(found);
        }
        let (shared, client) = (&self.shared, self.shared.engine.member.client());
        for part in shared.registry.parts_beside(&self.name) {
            let theirs = entries(client, &shared.hub_id, &part, shared.config.call_timeout).await?;
            let keyed = theirs
                .into_iter()
                .map(|entry| (ObjectKey::of_entry(&entry), entry));
            found.extend(keyed.filter(|(key, _)| is_new(key)));
        }
        Ok(found)
    }

    /// The ledger as it says what is about to happen, before it happens.
    fn ahead(
        &self,
        held: &Held,
        spec: &BundleSpec,
        decoded: &Decoded,
        (surplus, elsewhere): (&Surplus, BTreeMap<ObjectKey, LedgerEntry>),
        terms: &Terms,
    ) -> AppliedBundleSpec {
        let intentions = Intentions {
            bundle_uid: &held.uid,
            bundle_version: &held.resource_version,
            generation: held.generation,
            epoch: spec.epoch,
            revision: spec.revision.as_deref(),
            dispatched: spec.application_ref.is_some(),
            executor: account_of(spec),
            delete_option: spec.delete_option.as_ref(),
            wanted: decoded
                .manifests
                .iter()
                .map(|m| (&m.key, m.version.as_str()))
                .collect(),
            elsewhere,
            surplus: surplus.going.clone(),
            guarded: Guard::of(terms).is_some(),
            forgotten: surplus.moved.clone(),
        };
        self.with_unanswered(intend(self.ledger.spec(), &intentions))
    }

    /// Applies the manifests in question and remembers what was found.
    async fn touch_member(
        &mut self,
        engine: &Engine,
        decoded: &Decoded,
        spec: &BundleSpec,
        terms: &Terms,
        (extent, anew): (&Extent, bool),
    ) -> BTreeMap<ObjectKey, Settled> {
        let wanted = |manifest: &&Manifest| match extent {
            Extent::Whole => true,
            Extent::Some(keys) => {
                let known = self.observations.get(&manifest.ordinal);
                let target = known.and_then(|observation| observation.target.as_ref());
                keys.contains(target.unwrap_or(&manifest.key))
            }
        };
        let tasks: Vec<Task<'_>> = decoded
            .manifests
            .iter()
            .filter(wanted)
            .map(|manifest| {
                let known = self.known(manifest);
                let refused = known
                    .map(|known| &known.outcome)
                    .filter(|outcome| !outcome.is_applied());
                // What was refused is tried again by the slow resync.
                let again = refused.is_some() && *extent == Extent::Whole;
                Task {
                    manifest,
                    entry: self.ledger.entry(&manifest.key),
                    known,
                    differences: known.map(|known| &known.differences),
                    quiet: known.filter(|_| !again).and_then(|known| known.quiet.as_deref()),
                    refused,
                    // Of the same content the rules are the same.
                    examined: known.filter(|_| !anew).and_then(Observation::examined_at),
                }
            })
            .collect();
        self.rules.begin_pass();
        let configs: &[ManifestConfig] = &spec.manifest_configs;
        let app_namespace = spec.application_ref.as_ref().map(|app| app.namespace.as_str());
        let done = engine
            .apply(
                tasks,
                Order {
                    terms,
                    configs,
                    rules: &self.rules,
                    app_namespace,
                    anew,
                },
            )
            .await;
        for failed in &decoded.failed {
            self.observations.insert(failed.ordinal, undecodable(failed));
        }
        let mut outcomes = BTreeMap::new();
        for Done {
            key,
            ordinal,
            observation,
            settled,
        } in done
        {
            if let Some(settled) = settled {
                outcomes.insert(key, settled);
            }
            self.remember(ordinal, observation, anew);
        }
        outcomes
    }

    /// Remembers what was found. One try that something stood in the way of is no word on an object that was as it should be: the
    /// last one stands until the next try, which comes soon.
    fn remember(&mut self, ordinal: u32, found: Observation, anew: bool) {
        let before = self.observations.get_mut(&ordinal).filter(|before| {
            let is_delayed = matches!(found.outcome, Outcome::Delayed { .. });
            !anew && is_delayed && before.outcome.is_applied() && before.target == found.target
        });
        match before {
            Some(before) if self.unsure.insert(ordinal) => before.differences = found.differences,
            _ => {
                self.unsure.remove(&ordinal);
                self.observations.insert(ordinal, found);
            }
        }
    }

    /// What was found of the object of a manifest before, wherever in the bundle it was then.
    fn known(&self, manifest: &Manifest) -> Option<&Observation> {
        let is_it = |known: &&Observation| {
            let target = known.target.as_ref();
            target.is_some_and(|target| target.is_meant_by(&manifest.key))
        };
        let same_place = self.observations.get(&manifest.ordinal).filter(is_it);
        same_place.or_else(|| self.observations.values().find(is_it))
    }

    /// Removes what the ledger says is to go. A kind that is unknown now may hide what an entry is: it stays.
    async fn remove_surplus(&mut self, engine: &Engine, spec: &BundleSpec, terms: &Terms, total: u32) {
        let unknown: BTreeSet<(&str, &str)> = self
            .observations
            .values()
            .filter(|observation| matches!(observation.outcome, Outcome::NoKind { .. }))
            .map(|observation| (observation.meta.group.as_str(), observation.meta.kind.as_str()))
            .collect();
        let entries: Vec<_> = self
            .ledger
            .spec()
            .objects
            .iter()
            .filter(|entry| is_leaving(entry.outcome))
            .filter(|entry| !unknown.contains(&(entry.group.as_str(), entry.kind.as_str())))
            .cloned()
            .collect();
        let wanted: BTreeSet<ObjectKey> = self
            .observations
            .values()
            .filter_map(|observation| observation.target.clone())
            .collect();
        let farewell = Farewell {
            marker: &terms.marker,
            delete_option: spec.delete_option.as_ref(),
            ordinal: total,
            wanted: &wanted,
            guard: Guard::of(terms),
        };
        let removed = engine.remove(entries, farewell).await;
        self.gone = removed.gone;
        self.leaving = removed.leaving;
        self.removal_retried = removed.retry;
        self.waited_for = removed.waited_for;
    }

    async fn settle(
        &mut self,
        mut outcomes: BTreeMap<ObjectKey, Settled>,
        whole: bool,
    ) -> Result<(), CallError> {
        outcomes.append(&mut self.gone);
        let next = settle(self.ledger.spec(), &outcomes, whole);
        self.ledger.write(next).await
    }
}
