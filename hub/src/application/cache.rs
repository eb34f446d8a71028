//! What the hub knows: Applications as canonical bytes, the rest without manifests.
//!
//! Architecture Invariant: an object never goes back in time. Answers to our own writes are taken in at once, and an
//! event that is older than what is held, by resourceVersion, is passed over: no decision is made on an
//! older version than was seen.

mod bundles;
mod records;
mod seeing;
#[cfg(test)]
mod tests;

pub(super) use bundles::application_of;

use super::{
    Key,
    fleet::Fleet,
    placements::StoredPlacement,
    unanswered::{Making, Unanswered},
};
use crate::{
    dispatch::Observed,
    fleet::Counts,
    leader::Claims,
    leader::Leading,
    metrics::{Lag, Metrics},
    placement::Sight,
    relist::{Held, older},
    silence::Watched,
};
use kube::{ResourceExt, core::DynamicObject};
use parking_lot::{Mutex, RwLock};
use roundhouse_api::{
    application::{ApplicationStatus, ValidApplication, Violation, references, validate},
    decision::Decision,
    definition::ComponentDefinitionSpec,
    hash,
    revision::ApplicationRevision,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::Notify;

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
    /// What its spec says, found out by the first pass that looks at it, as long as a run is under way.
    understood: Arc<Mutex<Option<Understood>>>,
    /// Canonical JSON of the whole object, unknown fields included.
    pub(super) bytes: Arc<[u8]>,
}

/// A spec that was understood, or what is wrong with it.
type Understood = Result<Arc<ValidApplication>, Vec<Violation>>;

impl Stored {
    /// What its `spec` says.
    ///
    /// # Errors
    /// As [`validate()`].
    pub(super) fn understand(&self, spec: &Value) -> Result<Arc<ValidApplication>, Vec<Violation>> {
        let mut understood = self.understood.lock();
        understood
            .get_or_insert_with(|| validate(spec).map(Arc::new))
            .clone()
    }

    /// What is at rest is kept as bytes alone.
    pub(super) fn forget_at_rest(&self) {
        if self.status.workflow.as_ref().is_none_or(|run| run.finished) {
            *self.understood.lock() = None;
        }
    }

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
            understood: Arc::default(),
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
    /// A Bundle that its agent ignores changed.
    ignored: Notify,
    /// A Placement became stale.
    stale: Notify,
    /// Bundles between dispatch and ready.
    lag: Mutex<Lag>,
    metrics: Metrics,
    /// Writes of Bundles that nobody has answered.
    unanswered: Unanswered,
    /// What a hub sees that does not lead is counted by the one that does.
    leading: Leading,
}

#[derive(Debug, Default)]
struct State {
    listed: BTreeSet<Kind>,
    applications: BTreeMap<Key, Arc<Stored>>,
    bundles: HashMap<Key, Arc<Observed>>,
    by_application: BTreeMap<Key, BTreeSet<Key>>,
    /// Sums over the Bundles.
    counts: Counts,
    /// Hand-written Bundles that go some time after they are complete.
    expiring: BTreeSet<Key>,
    /// Bundles that their agents ignore for something later.
    ignored: BTreeSet<Key>,
    fleet: Arc<Fleet>,
    /// The resourceVersions of its clusters.
    clusters: BTreeMap<String, String>,
    /// Whether they cannot be listed or watched.
    blind: bool,
    /// What the placing steps of an application look at in a cluster, as far as a pass has found out.
    sights: HashMap<Key, Arc<Sight>>,
    placements: BTreeMap<Key, Arc<StoredPlacement>>,
    /// Placement -> the applications that refer to it.
    referring: BTreeMap<Key, BTreeSet<Key>>,
    /// Placements whose status has to be looked at.
    stale: BTreeSet<Key>,
    decisions: BTreeMap<Key, Arc<Decision>>,
    /// Those of them that somebody else has deleted, with the term of this hub in which that was seen.
    lost: BTreeMap<Key, i64>,
    /// The uids of those that this hub lets go: that they are deleted is as it should be.
    let_go: BTreeMap<Key, String>,
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

fn older_object<K: ResourceExt>(held: Option<&Arc<K>>, new: &K) -> bool {
    let held = held.and_then(|held| held.resource_version());
    older(
        &held.unwrap_or_default(),
        &new.resource_version().unwrap_or_default(),
    )
}

impl State {
    fn remove_application(&mut self, key: &Key) {
        self.applications.remove(key);
        self.sights.remove(key);
        let lost: Vec<Key> = self.lost_decisions_of(key).cloned().collect();
        for decision in lost {
            self.forget_decision(&decision);
        }
    }
}

impl Cache {
    /// A cache that says how long Bundles take from dispatch to ready, while its hub leads.
    pub(super) fn new(metrics: Metrics, leading: Leading) -> Cache {
        Cache {
            metrics,
            leading,
            ..Cache::default()
        }
    }

    /// One that shares what is to be made.
    pub(super) fn sharing(self, making: Making) -> Cache {
        let unanswered = Unanswered::sharing(making);
        Cache { unanswered, ..self }
    }

    /// Counts watches of this kind that break, or are given up.
    pub(super) fn watched(&self, kind: Kind) -> Watched {
        Watched::new(format!("{kind:?}"), &self.metrics)
    }

    /// Writes of Bundles that nobody has answered.
    pub(super) fn unanswered(&self) -> &Unanswered {
        &self.unanswered
    }

    /// A first list of this kind is complete. Returns whether all are, for the first time.
    pub(super) fn listed(&self, kind: Kind) -> bool {
        let mut state = self.state.write();
        state.listed.insert(kind) && state.listed.len() == KINDS
    }

    /// A list has shown one more object.
    pub(super) fn is_shown_one(&self) {
        self.leading.is_shown_one();
    }

    /// Whether every kind was listed once: before that, an object that is not here may still exist.
    pub(super) fn complete(&self) -> bool {
        self.state.read().listed.len() == KINDS
    }

    pub(super) fn put_application(&self, object: DynamicObject) -> Arc<Stored> {
        let mut stored = Stored::of(object);
        let mut state = self.state.write();
        let key = stored.key();
        if let Some(held) = state.applications.get(&key)
            && older(&held.resource_version, &stored.resource_version)
        {
            return held.clone();
        }
        if stored.deleting && stored.finalizers.is_empty() {
            // Its last state: the answer to our own release may come later than the word that it is gone.
            self.refer(&mut state, &key, None);
            state.remove_application(&key);
            return Arc::new(stored);
        }
        // A status, a label or an annotation that changed is no other spec.
        let held = state.applications.get(&key);
        let same = |held: &&Arc<Stored>| (&held.uid, held.generation) == (&stored.uid, stored.generation);
        if let Some(held) = held.filter(same) {
            stored.understood = held.understood.clone();
        }
        let stored = Arc::new(stored);
        self.refer(&mut state, &key, Some(&stored));
        state.applications.insert(key, stored.clone());
        stored
    }

    pub(super) fn remove_application(&self, key: &Key) {
        let mut state = self.state.write();
        self.refer(&mut state, key, None);
        state.remove_application(key);
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

    /// Whether what is held of an object is newer than `version`: then a deletion seen at `version` is another one's.
    pub(super) fn holds_newer(&self, kind: Kind, key: &Key, version: &str) -> bool {
        self.version(kind, key).is_some_and(|held| older(&held, version))
    }

    /// Whether exactly this version of an object is held: as the answer to a write of ours, which nobody has to look at again.
    pub(super) fn holds(&self, kind: Kind, key: &Key, version: &str) -> bool {
        !version.is_empty() && self.version(kind, key).is_some_and(|held| held == version)
    }

    fn version(&self, kind: Kind, key: &Key) -> Option<String> {
        let state = self.state.read();
        match kind {
            Kind::Application => state.applications.get(key).map(|o| o.resource_version.clone()),
            Kind::Bundle => state.bundles.get(key).map(|o| o.resource_version.clone()),
            Kind::Cluster => state.clusters.get(&key.1).cloned(),
            Kind::Placement => state.placements.get(key).map(|o| o.resource_version.clone()),
            Kind::Decision => state.existing_decision(key).and_then(|o| o.resource_version()),
            Kind::Definition => state.definitions.get(key).map(|(version, _)| version.clone()),
            Kind::Revision => state.revisions.get(key).and_then(|o| o.resource_version()),
        }
    }

    /// What is held of a kind, to find out after a new list what is gone.
    pub(super) fn held(&self, kind: Kind) -> Held {
        fn all<'a, O: 'a>(
            objects: impl IntoIterator<Item = (&'a Key, O)>,
            version: impl Fn(O) -> Option<String>,
        ) -> Held {
            let objects = objects.into_iter();
            objects
                .map(|(key, object)| (key.clone(), version(object).unwrap_or_default()))
                .collect()
        }
        let state = self.state.read();
        match kind {
            Kind::Application => all(&state.applications, |o| Some(o.resource_version.clone())),
            Kind::Bundle => all(&state.bundles, |o| Some(o.resource_version.clone())),
            Kind::Cluster => {
                let clusters = state.clusters.iter();
                clusters
                    .map(|(name, version)| ((String::new(), name.clone()), version.clone()))
                    .collect()
            }
            Kind::Decision => {
                let exist = state
                    .decisions
                    .iter()
                    .filter(|(key, _)| !state.lost.contains_key(*key));
                all(exist, |o| o.resource_version())
            }
            Kind::Placement => all(&state.placements, |o| Some(o.resource_version.clone())),
            Kind::Definition => all(&state.definitions, |(version, _)| Some(version.clone())),
            Kind::Revision => all(&state.revisions, |o| o.resource_version()),
        }
    }

    /// The fencing epochs that are stored.
    pub(super) fn epochs(&self) -> Claims {
        let state = self.state.read();
        let mut claims = Claims::default();
        for epoch in state.bundles.values().filter_map(|b| b.spec.epoch) {
            claims.trust(epoch);
        }
        for ((namespace, name), decision) in &state.decisions {
            claims.hear(decision.spec.epoch, || format!("Decision {namespace}/{name}"));
        }
        for stored in state.applications.values() {
            let epoch = stored.status.workflow.as_ref().and_then(|run| run.epoch);
            claims.hear(epoch.unwrap_or(0), || format!("Application {}", stored.title()));
        }
        claims
    }

    /// The highest fencing epoch that is stored, as far as it can be believed.
    pub(super) fn highest_epoch(&self) -> i64 {
        self.epochs().judge().0
    }
}
