//! The fleet and the Placements: who sees what of them.

use super::{Cache, State, Stored};
use crate::{
    application::{
        Key,
        fleet::{Change, Fleet},
        placements::StoredPlacement,
    },
    placement::{ClusterFacts, Sight},
    relist::older,
};
use kube::{ResourceExt, core::DynamicObject};
use roundhouse_api::{cluster::Cluster, decision::Decision, names::cluster_namespace};
use std::{collections::BTreeSet, sync::Arc};

impl Cache {
    /// Notes which Placements an application refers to now.
    pub(super) fn refer(&self, state: &mut State, key: &Key, after: Option<&Arc<Stored>>) {
        let before = state.applications.get(key).map(|held| held.references.clone());
        let before = before.unwrap_or_default();
        let none = BTreeSet::new();
        let after = after.map_or(&none, |stored| &stored.references);
        for name in before.symmetric_difference(after) {
            let placement = (key.0.clone(), name.clone());
            let referring = state.referring.entry(placement.clone()).or_default();
            match after.contains(name) {
                true => referring.insert(key.clone()),
                false => referring.remove(key),
            };
            if referring.is_empty() {
                state.referring.remove(&placement);
            }
            if state.placements.contains_key(&placement) {
                state.stale.insert(placement);
                self.stale.notify_one();
            }
        }
    }

    /// Takes a cluster in; returns the applications that can see what changed.
    pub(in crate::application) fn put_cluster(&self, cluster: &Cluster) -> BTreeSet<Key> {
        let (name, version) = (cluster.name_any(), cluster.resource_version().unwrap_or_default());
        let mut state = self.state.write();
        let held = state.clusters.get(&name);
        if held.is_some_and(|held| older(held, &version)) {
            return BTreeSet::new();
        }
        state.clusters.insert(name, version);
        let change = Arc::make_mut(&mut state.fleet).put(cluster);
        self.seen_by(&mut state, change)
    }

    /// Notes whether the clusters are seen as they are; returns the applications to which that is new: all, or none.
    pub(in crate::application) fn see_clusters(&self, are_seen: bool) -> BTreeSet<Key> {
        let mut state = self.state.write();
        match std::mem::replace(&mut state.blind, !are_seen) == are_seen {
            true => state.applications.keys().cloned().collect(),
            false => BTreeSet::new(),
        }
    }

    /// Whether the clusters are seen as they are.
    pub(in crate::application) fn sees_clusters(&self) -> bool {
        !self.state.read().blind
    }

    /// The same for a cluster that is gone.
    pub(in crate::application) fn remove_cluster(&self, name: &str) -> BTreeSet<Key> {
        let mut state = self.state.write();
        state.clusters.remove(name);
        let change = Arc::make_mut(&mut state.fleet).remove(name);
        self.seen_by(&mut state, change)
    }

    fn seen_by(&self, state: &mut State, change: Option<Change>) -> BTreeSet<Key> {
        let Some(change) = change else {
            return BTreeSet::new();
        };
        let (before, after) = change.facts();
        let inventory = &state.fleet.inventory;
        let stale = state
            .placements
            .iter()
            .filter(|(_, p)| p.sight.sees(false, before, after, inventory));
        let stale: Vec<Key> = stale.map(|(key, _)| key.clone()).collect();
        if !stale.is_empty() {
            state.stale.extend(stale);
            self.stale.notify_one();
        }
        let sees = |key: &&Key| {
            // One that no pass has understood yet may look at anything.
            let Some(sight) = state.sights.get(*key) else {
                return true;
            };
            let held = state.holds(key, &change.name);
            held && (change.shows() || state.filled_in(key, &change))
                || sight.sees(held, before, after, inventory)
        };
        state.applications.keys().filter(sees).cloned().collect()
    }

    /// The fleet as it is now.
    pub(in crate::application) fn fleet(&self) -> Arc<Fleet> {
        self.state.read().fleet.clone()
    }

    /// Whether a cluster leaves, as far as anybody in this hub knows.
    pub(in crate::application) fn is_leaving(&self, cluster: &str) -> bool {
        self.leading.is_letting_go(cluster) || self.state.read().fleet.is_leaving(cluster)
    }

    /// Notes what an application's placing steps look at; `None`: it is not known, and may be anything.
    pub(in crate::application) fn looks_at(&self, application: &Key, sight: Option<Sight>) {
        let mut state = self.state.write();
        match sight {
            // An application that vanished during its pass is not remembered.
            Some(sight) if state.applications.contains_key(application) => {
                state.sights.insert(application.clone(), Arc::new(sight));
            }
            _ => {
                state.sights.remove(application);
            }
        }
    }

    /// Takes a Placement in; returns the applications that refer to it.
    pub(in crate::application) fn put_placement(&self, object: DynamicObject) -> BTreeSet<Key> {
        let stored = Arc::new(StoredPlacement::of(object));
        let mut state = self.state.write();
        let key = stored.key();
        let held = state.placements.get(&key);
        if held.is_some_and(|held| older(&held.resource_version, &stored.resource_version)) {
            return BTreeSet::new();
        }
        // A status, or a label, is nothing to the applications.
        let same = held.is_some_and(|held| held.verdict == stored.verdict);
        state.stale.insert(key.clone());
        self.stale.notify_one();
        state.placements.insert(key.clone(), stored);
        match same {
            true => BTreeSet::new(),
            false => state.referring.get(&key).cloned().unwrap_or_default(),
        }
    }

    /// The same for one that is gone.
    pub(in crate::application) fn remove_placement(&self, key: &Key) -> BTreeSet<Key> {
        let mut state = self.state.write();
        match state.placements.remove(key) {
            Some(_) => state.referring.get(key).cloned().unwrap_or_default(),
            None => BTreeSet::new(),
        }
    }

    /// A Placement, with the number of the applications that refer to it.
    pub(in crate::application) fn placement(&self, key: &Key) -> Option<(Arc<StoredPlacement>, usize)> {
        let state = self.state.read();
        let applications = state.referring.get(key).map_or(0, BTreeSet::len);
        Some((state.placements.get(key)?.clone(), applications))
    }

    /// The Placements that became stale since this was asked last.
    pub(in crate::application) fn take_stale(&self) -> BTreeSet<Key> {
        std::mem::take(&mut self.state.write().stale)
    }

    /// Makes all Placements stale: for who begins to look at them.
    pub(in crate::application) fn make_stale(&self) {
        let mut state = self.state.write();
        state.stale = state.placements.keys().cloned().collect();
        self.stale.notify_one();
    }

    /// Waits until a Placement becomes stale.
    pub(in crate::application) async fn became_stale(&self) {
        self.stale.notified().await;
    }
}

impl State {
    /// Whether a label differs that overrides in force name in their variables: what a cluster holds is filled in with it,
    /// also where the spec no longer says so.
    fn filled_in(&self, application: &Key, change: &Change) -> bool {
        let (before, after) = change.facts();
        let mut filled = self.decisions_of(application).filter_map(|decision| {
            let labels = decision.spec.cluster_labels.get(&change.name)?;
            Some(labels.keys().any(|key| {
                let value =
                    |facts: Option<&ClusterFacts>| facts.and_then(|facts| facts.labels.get(key).cloned());
                value(before) != value(after)
            }))
        });
        filled.any(|differs| differs)
    }

    /// Whether a cluster is a member of an application, or holds a Bundle of it.
    fn holds(&self, application: &Key, cluster: &str) -> bool {
        let namespace = cluster_namespace(cluster);
        let bundles = self.by_application.get(application);
        let holds = bundles.is_some_and(|keys| {
            let from = (namespace.clone(), String::new());
            keys.range(from..).next().is_some_and(|key| key.0 == namespace)
        });
        let member = |decision: &Arc<Decision>| {
            let rows = decision.spec.workloads.iter().flat_map(|w| &w.clusters);
            decision.spec.clusters.iter().any(|name| name == cluster)
                || rows
                    .into_iter()
                    .any(|row| row.name == cluster && row.replicas > 0)
        };
        holds || self.decisions_of(application).any(member)
    }
}
