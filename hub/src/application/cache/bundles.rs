//! Bundles, by the application that they belong to.

use super::{Cache, KINDS, State};
use crate::{
    application::Key,
    dispatch::Observed,
    fleet::{Members, Summary, Tally, summary},
    relist::older,
};
use roundhouse_api::names::{bundle_name, label};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

impl Cache {
    /// Takes a Bundle in; returns the applications that it concerns: of its labels now, and before.
    pub(in crate::application) fn put_bundle(&self, observed: Observed) -> BTreeSet<Key> {
        let mut state = self.state.write();
        let key = (observed.namespace.clone(), observed.name.clone());
        let mut concerned = BTreeSet::new();
        let held = state.bundles.get(&key);
        if held.is_some_and(|held| older(&held.resource_version, &observed.resource_version)) {
            return concerned;
        }
        if observed.deleting && observed.finalizers.is_empty() {
            // Its last state: the answer to our own release may come later than the word that it is gone.
            concerned.extend(application_of(&observed));
            drop(state);
            concerned.extend(self.remove_bundle(&key));
            return concerned;
        }
        if let Some(held) = state.bundles.get(&key).cloned() {
            concerned.extend(state.unlink(&key, &held));
        }
        self.time(&state, &key, &observed);
        let application = application_of(&observed);
        let tally = Tally::of(&observed);
        state.counts.add(&observed.cluster, application.as_ref(), tally);
        if let Some(application) = application {
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
        if observed.is_ignored() {
            state.ignored.insert(key.clone());
            self.ignored.notify_one();
        } else {
            state.ignored.remove(&key);
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
        let took = self.lag.lock().seen(held, observed, Instant::now());
        if let Some(took) = took.filter(|_| self.leading.term().is_some()) {
            let member = state.fleet.members.get(&observed.cluster);
            self.metrics
                .ready(member.map_or("", |member| member.region.as_str()), took);
        }
    }

    /// How the fleet fares: out of the sums, however many Bundles there are.
    pub(in crate::application) fn summary(&self) -> Summary {
        let state = self.state.read();
        let member =
            |member: &super::super::fleet::Member| (member.region.clone(), member.unreachable.is_none());
        let members = state.fleet.members.iter();
        let members: Members = members.map(|(name, of)| (name.clone(), member(of))).collect();
        summary(&state.counts, &members)
    }

    /// Sums over all Bundles.
    pub(in crate::application) fn tally(&self) -> Tally {
        self.state.read().counts.all
    }

    /// How many clusters can be reached, and how many cannot.
    pub(in crate::application) fn reach(&self) -> (usize, usize) {
        let fleet = self.fleet();
        let reached = fleet
            .members
            .values()
            .filter(|member| member.unreachable.is_none());
        let reached = reached.count();
        (reached, fleet.members.len() - reached)
    }

    /// Hand-written Bundles that go some time after they are complete.
    pub(in crate::application) fn expiring(&self) -> Vec<Arc<Observed>> {
        let state = self.state.read();
        let bundles = state.expiring.iter().filter_map(|key| state.bundles.get(key));
        bundles.cloned().collect()
    }

    /// Waits until one of them changes.
    pub(in crate::application) async fn expiring_changed(&self) {
        self.expiring.notified().await;
    }

    /// Bundles that their agents ignore for something later.
    pub(in crate::application) fn ignored(&self) -> Vec<Arc<Observed>> {
        let state = self.state.read();
        let bundles = state.ignored.iter().filter_map(|key| state.bundles.get(key));
        bundles.cloned().collect()
    }

    /// Waits until one of them changes.
    pub(in crate::application) async fn ignored_changed(&self) {
        self.ignored.notified().await;
    }

    pub(in crate::application) fn remove_bundle(&self, key: &Key) -> Option<Key> {
        let mut state = self.state.write();
        state.expiring.remove(key);
        state.ignored.remove(key);
        self.lag.lock().gone(key);
        let held = state.bundles.remove(key)?;
        state.unlink(key, &held)
    }

    /// The Bundles of an application but for those of its steps' objects, by cluster.
    pub(in crate::application) fn bundles(&self, application: &Key) -> BTreeMap<String, Vec<Arc<Observed>>> {
        self.bundles_that(application, |bundle| bundle.carried_step().is_none())
    }

    /// All Bundles of an application, those of its steps' objects included, by cluster.
    pub(in crate::application) fn all_bundles(
        &self,
        application: &Key,
    ) -> BTreeMap<String, Vec<Arc<Observed>>> {
        self.bundles_that(application, |_| true)
    }

    /// The Bundles of the objects of an application's steps: step -> cluster -> Bundle.
    pub(in crate::application) fn step_bundles(
        &self,
        application: &Key,
    ) -> BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>> {
        let mut steps: BTreeMap<String, BTreeMap<String, Vec<Arc<Observed>>>> = BTreeMap::new();
        let all = self.bundles_that(application, |bundle| bundle.carried_step().is_some());
        for bundle in all.into_values().flatten() {
            let Some(step) = bundle.carried_step().map(str::to_owned) else {
                continue;
            };
            let of_step = steps.entry(step).or_default();
            of_step.entry(bundle.cluster.clone()).or_default().push(bundle);
        }
        steps
    }

    /// How many Bundles an application has.
    pub(in crate::application) fn count_of(&self, application: &Key) -> usize {
        self.state
            .read()
            .by_application
            .get(application)
            .map_or(0, BTreeSet::len)
    }

    fn bundles_that(
        &self,
        application: &Key,
        wanted: impl Fn(&Observed) -> bool,
    ) -> BTreeMap<String, Vec<Arc<Observed>>> {
        let state = self.state.read();
        let mut all: BTreeMap<String, Vec<Arc<Observed>>> = BTreeMap::new();
        for key in state.by_application.get(application).into_iter().flatten() {
            if let Some(bundle) = state.bundles.get(key).filter(|bundle| wanted(bundle)) {
                all.entry(bundle.cluster.clone())
                    .or_default()
                    .push(bundle.clone());
            }
        }
        all
    }
}

impl State {
    fn unlink(&mut self, key: &Key, held: &Observed) -> Option<Key> {
        let application = application_of(held);
        self.counts
            .remove(&held.cluster, application.as_ref(), Tally::of(held));
        let application = application?;
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
pub(in crate::application) fn application_of(observed: &Observed) -> Option<Key> {
    if let Some(reference) = &observed.spec.application_ref {
        return Some((reference.namespace.clone(), reference.name.clone()));
    }
    let labels = &observed.labels;
    let (namespace, name) = (labels.get(label::APP_NAMESPACE)?, labels.get(label::APP_NAME)?);
    let part = observed.name.strip_prefix(&bundle_name(namespace, name, 1))?;
    (part.is_empty() || part.starts_with('.')).then(|| (namespace.clone(), name.clone()))
}
