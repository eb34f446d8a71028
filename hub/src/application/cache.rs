//! What the hub knows: Applications as canonical bytes, the rest without manifests.
//!
//! Architecture Invariant: an object never goes back in time. Answers to our own writes are taken in at once, and an
//! event that is older than what is held, by resourceVersion, is passed over: no decision is made on an
//! older version than was seen.

mod seeing;
#[cfg(test)]
mod tests;

use super::{Key, fleet::Fleet, placements::StoredPlacement};
use crate::{
    dispatch::Observed,
    metrics::{Lag, Metrics},
    placement::Sight,
    render::ReplicaPaths,
};
use kube::{ResourceExt, core::DynamicObject};
use parking_lot::{Mutex, RwLock};
use roundhouse_api::{
    application::{ApplicationStatus, references},
    decision::Decision,
    definition::{ComponentDefinition, ComponentDefinitionSpec},
    hash,
    names::{bundle_name, label},
    revision::ApplicationRevision,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::{sync::Notify, time::Instant};

/// An Application as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) status: ApplicationStatus,
    /// Placements of its namespace that it refers to.
    pub(super) references: BTreeSet<String>,
    /// Canonical JSON of the whole object, unknown fields included.
    pub(super) bytes: Arc<[u8]>,
}

impl Stored {
    pub(super) fn of(mut object: DynamicObject) -> Stored {
        object.metadata.managed_fields = None;
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        // The API server has checked it against the schema; what does not read counts as absent.
        let status = serde_json::from_value(status).unwrap_or_default();
        Stored {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizers: object.finalizers().to_vec(),
            annotations: object.annotations().clone(),
            status,
            references: object.data.get("spec").map(references).unwrap_or_default(),
            bytes: hash::canonical(&serde_json::to_value(&object).unwrap_or_default()).into(),
        }
    }

    pub(super) fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }

    /// `<namespace>/<name>`.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Application,
    Bundle,
    Cluster,
    Decision,
    Placement,
    Definition,
    Revision,
}

const KINDS: usize = 7;

/// Everything that is watched.
#[derive(Debug, Default)]
pub(super) struct Cache {
    state: RwLock<State>,
    /// A Bundle that may go by itself changed.
    expiring: Notify,
    /// A Placement became stale.
    stale: Notify,
    /// Bundles between dispatch and ready.
    lag: Mutex<Lag>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    listed: BTreeSet<Kind>,
    applications: BTreeMap<Key, Arc<Stored>>,
    bundles: HashMap<Key, Arc<Observed>>,
    by_application: BTreeMap<Key, BTreeSet<Key>>,
    /// Hand-written Bundles that go some time after they are complete.
    expiring: BTreeSet<Key>,
    fleet: Arc<Fleet>,
    /// What the placing steps of an application look at in a cluster, as far as a pass has found out.
    sights: HashMap<Key, Arc<Sight>>,
    placements: BTreeMap<Key, Arc<StoredPlacement>>,
    /// Placement -> the applications that refer to it.
    referring: BTreeMap<Key, BTreeSet<Key>>,
    /// Placements whose status has to be looked at.
    stale: BTreeSet<Key>,
    decisions: BTreeMap<Key, Arc<Decision>>,
    /// With resourceVersion.
    definitions: BTreeMap<Key, (String, ComponentDefinitionSpec)>,
    revisions: BTreeMap<Key, Arc<ApplicationRevision>>,
}

/// A phase as it is written in a status.
fn word(phase: impl serde::Serialize) -> String {
    match serde_json::to_value(phase) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Whether a resourceVersion is older than the one that is held. Versions of one kind are numbers that grow (Kubernetes
/// KEP-5504); where they are not, the later event counts.
fn older(held: &str, new: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    match (number(held), number(new)) {
        (Some(held), Some(new)) => new < held,
        _ => false,
    }
}

fn older_object<K: ResourceExt>(held: Option<&Arc<K>>, new: &K) -> bool {
    let held = held.and_then(|held| held.resource_version());
    older(
        &held.unwrap_or_default(),
        &new.resource_version().unwrap_or_default(),
    )
}

pub(super) fn key_of<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

impl Cache {
    /// A cache that says how long Bundles take from dispatch to ready.
    pub(super) fn new(metrics: Metrics) -> Cache {
        Cache {
            metrics,
            ..Cache::default()
        }
    }

    /// A first list of this kind is complete. Returns whether all are, for the first time.
    pub(super) fn listed(&self, kind: Kind) -> bool {
        let mut state = self.state.write();
        state.listed.insert(kind) && state.listed.len() == KINDS
    }

    /// Whether every kind was listed once: before that, an object that is not here may still exist.
    pub(super) fn complete(&self) -> bool {
        self.state.read().listed.len() == KINDS
    }

    pub(super) fn put_application(&self, object: DynamicObject) -> Arc<Stored> {
        let stored = Arc::new(Stored::of(object));
        let mut state = self.state.write();
        let key = stored.key();
        if let Some(held) = state.applications.get(&key)
            && older(&held.resource_version, &stored.resource_version)
        {
            return held.clone();
        }
        self.refer(&mut state, &key, Some(&stored));
        state.applications.insert(key, stored.clone());
        stored
    }

    pub(super) fn remove_application(&self, key: &Key) {
        let mut state = self.state.write();
        self.refer(&mut state, key, None);
        state.applications.remove(key);
        state.sights.remove(key);
    }

    pub(super) fn application(&self, key: &Key) -> Option<Arc<Stored>> {
        self.state.read().applications.get(key).cloned()
    }

    /// How many applications and steps are in which phase.
    pub(super) fn phases(&self) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
        let state = self.state.read();
        let (mut applications, mut steps) = (BTreeMap::new(), BTreeMap::new());
        for stored in state.applications.values() {
            let phase = stored.status.phase.map(word).unwrap_or_else(|| "new".to_owned());
            *applications.entry(phase).or_default() += 1;
            for step in stored.status.workflow.iter().flat_map(|run| run.all_steps()) {
                *steps.entry(word(step.phase)).or_default() += 1;
            }
        }
        (applications, steps)
    }

    pub(super) fn applications(&self) -> Vec<Key> {
        self.state.read().applications.keys().cloned().collect()
    }

    /// Takes a Bundle in; returns the applications that it concerns: of its labels now, and before.
    pub(super) fn put_bundle(&self, observed: Observed) -> BTreeSet<Key> {
        let mut state = self.state.write();
        let key = (observed.namespace.clone(), observed.name.clone());
        let mut concerned = BTreeSet::new();
        if let Some(held) = state.bundles.get(&key).cloned() {
            if older(&held.resource_version, &observed.resource_version) {
                return concerned;
            }
            concerned.extend(state.unlink(&key, &held));
        }
        self.time(&state, &key, &observed);
        if let Some(application) = application_of(&observed) {
            state
                .by_application
                .entry(application.clone())
                .or_default()
                .insert(key.clone());
            concerned.insert(application);
        }
        let delete_option = observed.spec.delete_option.as_ref();
        let ttl = delete_option.and_then(|option| option.ttl_seconds_after_finished);
        if ttl.is_some() && observed.spec.application_ref.is_none() {
            state.expiring.insert(key.clone());
            self.expiring.notify_one();
        } else {
            state.expiring.remove(&key);
        }
        state.bundles.insert(key, Arc::new(observed));
        concerned
    }

    /// Notes when a Bundle was dispatched, and how long it took once its agent reports ready. What the first lists bring
    /// was dispatched nobody knows when.
    fn time(&self, state: &State, key: &Key, observed: &Observed) {
        if state.listed.len() < KINDS || observed.spec.application_ref.is_none() {
            return;
        }
        let held = state.bundles.get(key).map(Arc::as_ref);
        if let Some(took) = self.lag.lock().seen(held, observed, Instant::now()) {
            let member = state.fleet.members.get(&observed.cluster);
            self.metrics
                .ready(member.map_or("", |member| member.region.as_str()), took);
        }
    }

    /// Hand-written Bundles that go some time after they are complete.
    pub(super) fn expiring(&self) -> Vec<Observed> {
        let state = self.state.read();
        let bundles = state.expiring.iter().filter_map(|key| state.bundles.get(key));
        bundles.map(|bundle| bundle.as_ref().clone()).collect()
    }

    /// Waits until one of them changes.
    pub(super) async fn expiring_changed(&self) {
        self.expiring.notified().await;
    }

    pub(super) fn remove_bundle(&self, key: &Key) -> Option<Key> {
        let mut state = self.state.write();
        state.expiring.remove(key);
        self.lag.lock().gone(key);
        let held = state.bundles.remove(key)?;
        state.unlink(key, &held)
    }

    /// The Bundles of an application, by cluster.
    pub(super) fn bundles(&self, application: &Key) -> BTreeMap<String, Vec<Observed>> {
        let state = self.state.read();
        let mut all: BTreeMap<String, Vec<Observed>> = BTreeMap::new();
        for key in state.by_application.get(application).into_iter().flatten() {
            if let Some(bundle) = state.bundles.get(key) {
                all.entry(bundle.cluster.clone())
                    .or_default()
                    .push(bundle.as_ref().clone());
            }
        }
        all
    }

    pub(super) fn put_decision(&self, mut decision: Decision) -> Option<Key> {
        decision.metadata.managed_fields = None;
        let application = &decision.spec.application_ref;
        let application = (application.namespace.clone(), application.name.clone());
        let mut state = self.state.write();
        let key = key_of(&decision);
        if older_object(state.decisions.get(&key), &decision) {
            return None;
        }
        state.decisions.insert(key, Arc::new(decision));
        Some(application)
    }

    pub(super) fn remove_decision(&self, key: &Key) -> Option<Key> {
        let held = self.state.write().decisions.remove(key)?;
        let application = &held.spec.application_ref;
        Some((application.namespace.clone(), application.name.clone()))
    }

    pub(super) fn decision(&self, key: &Key) -> Option<Arc<Decision>> {
        self.state.read().decisions.get(key).cloned()
    }

    /// The Decisions of an application, by step.
    pub(super) fn decisions(&self, application: &Key) -> BTreeMap<String, Arc<Decision>> {
        let state = self.state.read();
        let own = state.decisions_of(application);
        own.map(|decision| (decision.spec.step.clone(), decision.clone()))
            .collect()
    }

    /// Takes a definition in; returns whether it says something else than before.
    pub(super) fn put_definition(&self, definition: &ComponentDefinition) -> bool {
        let key = key_of(definition);
        let version = definition.resource_version().unwrap_or_default();
        let mut state = self.state.write();
        if state
            .definitions
            .get(&key)
            .is_some_and(|(held, _)| older(held, &version))
        {
            return false;
        }
        let before = state.definitions.insert(key, (version, definition.spec.clone()));
        before.is_none_or(|(_, spec)| spec != definition.spec)
    }

    pub(super) fn remove_definition(&self, key: &Key) -> bool {
        self.state.write().definitions.remove(key).is_some()
    }

    /// Where the count of kinds lives, for the applications of a namespace.
    pub(super) fn replica_paths(&self, namespace: &str) -> ReplicaPaths {
        let state = self.state.read();
        ReplicaPaths::of(
            namespace,
            state.definitions.iter().map(|(key, (_, spec))| (key, spec)),
        )
    }

    pub(super) fn put_revision(&self, mut revision: ApplicationRevision) -> Option<Key> {
        revision.metadata.managed_fields = None;
        // The record of the spec is read from the server when it is needed.
        revision.spec.application = Value::Null;
        let mut state = self.state.write();
        let key = key_of(&revision);
        if older_object(state.revisions.get(&key), &revision) {
            return None;
        }
        let application = (key.0.clone(), revision.spec.application_name.clone());
        state.revisions.insert(key, Arc::new(revision));
        Some(application)
    }

    pub(super) fn remove_revision(&self, key: &Key) -> Option<Key> {
        let held = self.state.write().revisions.remove(key)?;
        Some((key.0.clone(), held.spec.application_name.clone()))
    }

    /// The revisions of an application, by name.
    pub(super) fn revisions(&self, application: &Key) -> Vec<Arc<ApplicationRevision>> {
        let state = self.state.read();
        let from = (application.0.clone(), format!("{}-v", application.1));
        let in_range = state
            .revisions
            .range(from..)
            .take_while(|((namespace, name), _)| {
                *namespace == application.0 && name.starts_with(&application.1)
            });
        in_range
            .filter(|(_, revision)| revision.spec.application_name == application.1)
            .map(|(_, revision)| revision.clone())
            .collect()
    }

    /// Whether what is held of an object is newer than `version`: then a deletion seen at `version` is another one's.
    pub(super) fn holds_newer(&self, kind: Kind, key: &Key, version: &str) -> bool {
        let state = self.state.read();
        let held = match kind {
            Kind::Application => state.applications.get(key).map(|o| o.resource_version.clone()),
            Kind::Bundle => state.bundles.get(key).map(|o| o.resource_version.clone()),
            Kind::Cluster => None,
            Kind::Placement => state.placements.get(key).map(|o| o.resource_version.clone()),
            Kind::Decision => state.decisions.get(key).and_then(|o| o.resource_version()),
            Kind::Definition => state.definitions.get(key).map(|(version, _)| version.clone()),
            Kind::Revision => state.revisions.get(key).and_then(|o| o.resource_version()),
        };
        held.is_some_and(|held| older(&held, version))
    }

    /// Names of a kind that are held, to find out after a new list what is gone.
    pub(super) fn names(&self, kind: Kind) -> BTreeSet<Key> {
        let state = self.state.read();
        match kind {
            Kind::Application => state.applications.keys().cloned().collect(),
            Kind::Bundle => state.bundles.keys().cloned().collect(),
            Kind::Cluster => state
                .fleet
                .members
                .keys()
                .map(|name| (String::new(), name.clone()))
                .collect(),
            Kind::Decision => state.decisions.keys().cloned().collect(),
            Kind::Placement => state.placements.keys().cloned().collect(),
            Kind::Definition => state.definitions.keys().cloned().collect(),
            Kind::Revision => state.revisions.keys().cloned().collect(),
        }
    }

    /// The highest fencing epoch that is stored anywhere.
    pub(super) fn highest_epoch(&self) -> i64 {
        let state = self.state.read();
        let bundles = state.bundles.values().filter_map(|b| b.spec.epoch);
        let decisions = state.decisions.values().map(|d| d.spec.epoch);
        let runs = state
            .applications
            .values()
            .filter_map(|a| a.status.workflow.as_ref()?.epoch);
        bundles.chain(decisions).chain(runs).max().unwrap_or(0)
    }
}

impl State {
    fn decisions_of<'a>(&'a self, application: &'a Key) -> impl Iterator<Item = &'a Arc<Decision>> {
        let from = (application.0.clone(), format!("{}-", application.1));
        let in_range = self.decisions.range(from..).take_while(|((namespace, name), _)| {
            *namespace == application.0 && name.starts_with(&application.1)
        });
        in_range.map(|(_, decision)| decision).filter(|decision| {
            let of = &decision.spec.application_ref;
            of.namespace == application.0 && of.name == application.1
        })
    }

    fn unlink(&mut self, key: &Key, held: &Observed) -> Option<Key> {
        let application = application_of(held)?;
        if let Some(keys) = self.by_application.get_mut(&application) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_application.remove(&application);
            }
        }
        Some(application)
    }
}

/// The application that a Bundle belongs to: by its reference, which stays when somebody takes the labels off, or by its
/// labels if it has the name that dispatch gives: copied labels alone do not make a hand-written Bundle ours to remove.
pub(super) fn application_of(observed: &Observed) -> Option<Key> {
    if let Some(reference) = &observed.spec.application_ref {
        return Some((reference.namespace.clone(), reference.name.clone()));
    }
    let labels = &observed.labels;
    let (namespace, name) = (labels.get(label::APP_NAMESPACE)?, labels.get(label::APP_NAME)?);
    let part = observed.name.strip_prefix(&bundle_name(namespace, name, 1))?;
    (part.is_empty() || part.starts_with('.')).then(|| (namespace.clone(), name.clone()))
}
