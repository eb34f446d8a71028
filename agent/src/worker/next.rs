//! What is looked at next, and when: by the watches, or by the clock.

use super::{Next, Worker};
use crate::apply::Observation;
use crate::apply::outcome::Outcome;
use crate::drift::fight;
use crate::kinds::Kind;
use crate::object::ObjectKey;
use crate::watch::objects::Scope;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio::time::Instant;

impl Worker {
    /// When a repair that was put off is due, or a fight may be over.
    pub(super) fn note_fights(&mut self) {
        let now = Instant::now();
        let due = self
            .observations
            .values()
            .filter_map(|known| known.differences.history.due());
        // What is due already could not be looked at: the retry of failures has its own time.
        let due = due.map(|due| if due > now { due } else { now + fight::FIRST });
        self.fight_due = due.min();
    }

    /// Watches the kinds of this bundle, and says which versions of its objects are no news.
    pub(super) fn watch(&self, keys: &BTreeSet<ObjectKey>) {
        let mut found = BTreeMap::new();
        let mut scopes = BTreeMap::new();
        for observation in self.observations.values() {
            let Some(target) = &observation.target else {
                continue;
            };
            found.insert(target, observation.seen.as_deref());
            if let Some(kind) = &observation.kind {
                scopes.insert(Scope::of(target, kind, observation.labelled), Arc::clone(kind));
            }
        }
        let awaited = self.waited_for.iter();
        let awaited = awaited.map(|waited| (&waited.target, waited.seen.as_deref()));
        let registry = &self.shared.registry;
        registry.looked_at(&self.name, keys, &found, &awaited.collect());
        scopes.extend(self.scopes_of_ends());
        let waits_for_kind = self
            .observations
            .values()
            .any(|observation| matches!(observation.outcome, Outcome::NoKind { .. }));
        if waits_for_kind {
            scopes.insert(Scope::definitions(), Arc::clone(&self.shared.definitions));
        }
        self.shared.objects.want(&self.name, scopes);
    }

    /// What is to be watched for the objects on their way out.
    pub(super) fn scopes_of_ends(&self) -> BTreeMap<Scope, Arc<Kind>> {
        let waited_for = self.waited_for.iter();
        waited_for
            .map(|waited| {
                let scope = Scope::of(&waited.target, &waited.kind, waited.labelled);
                (scope, Arc::clone(&waited.kind))
            })
            .collect()
    }

    /// How soon to look again: failures and removals are waited out with back-off, readiness comes by the watches.
    pub(super) fn next(&mut self) -> Next {
        let mut known = self.observations.iter();
        let retry = known.any(|(ordinal, observation)| self.wants_retry(*ordinal, observation));
        let trouble = self.trouble_now();
        if trouble != self.trouble {
            self.trouble = trouble;
            self.failures = 0;
            self.retry_due = None;
        }
        // What is refused waits for somebody: its next change is news. A part that waits for others is woken by them.
        if retry || self.removal_retried {
            Next::Retry
        } else {
            Next::Resync
        }
    }

    /// Whether an object is looked at again soon, without any event.
    pub(super) fn wants_retry(&self, ordinal: u32, observation: &Observation) -> bool {
        observation.outcome.wants_retry() || observation.is_postponed() || self.unsure.contains(&ordinal)
    }

    /// A fingerprint of what fails and why; it only says whether the trouble is still the same.
    fn trouble_now(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (ordinal, observation) in &self.observations {
            if observation.outcome.wants_retry() {
                (ordinal, observation.outcome.reason()).hash(&mut hasher);
            }
        }
        self.leaving.len().hash(&mut hasher);
        hasher.finish()
    }
}
