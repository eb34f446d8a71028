//! What is recorded about applications and kinds: Decisions, revisions, definitions.

use super::{Cache, State, older_object};
use crate::{
    application::Key,
    leader::{Term, is_newer},
    relist::{key_of, older},
    render::ReplicaPaths,
};
use kube::ResourceExt;
use roundhouse_api::{
    decision::Decision, definition::ComponentDefinition, names::decision_name, revision::ApplicationRevision,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

impl Cache {
    /// Takes in the answer to a write of a Decision. It may come later than the word that what was written is gone.
    pub(in crate::application) fn wrote_decision(&self, decision: Decision) {
        let key = key_of(&decision);
        let mut state = self.state.write();
        let held = state.decisions.get(&key);
        let is_gone = state.lost.contains_key(&key) && held.is_some_and(|held| held.uid() == decision.uid());
        if !is_gone {
            state.put_decision(decision);
        }
    }

    /// Takes in a Decision that was read, listed or watched: it is there, whatever was heard of it before.
    pub(in crate::application) fn put_decision(&self, decision: Decision) -> Option<Key> {
        self.state.write().put_decision(decision)
    }

    /// Takes in that a Decision does not exist any more. That is no word about what it says: while this hub leads it is kept,
    /// to be written again ([`Cache::lost_decisions`]), as long as its application is there. But for those that the hub lets go
    /// itself, those that no hub has written under that name, and those of a term that is still to come: nobody could write them
    /// anew, and deleting them is the way out.
    pub(in crate::application) fn lose_decision(&self, key: &Key) -> Option<Key> {
        let term = self.leading.term();
        let mut state = self.state.write();
        let let_go = state.let_go.remove(key);
        let decision = state.decisions.get(key)?.clone();
        let of = &decision.spec.application_ref;
        let application = (of.namespace.clone(), of.name.clone());
        let is_let_go = let_go.is_some() && let_go == decision.metadata.uid;
        let is_own = key.0 == of.namespace && key.1 == decision_name(&of.name, &decision.spec.step);
        let owner = state.applications.get(&application);
        let is_wanted = owner.is_some_and(|owner| owner.uid == of.uid && !owner.deleting);
        let readable = |term: &Term| !is_newer(Some(decision.spec.epoch), term.epoch);
        match term
            .filter(readable)
            .filter(|_| is_own && is_wanted && !is_let_go)
        {
            Some(term) => {
                state.lost.insert(key.clone(), term.epoch);
            }
            None => state.forget_decision(key),
        }
        Some(application)
    }

    /// A Decision is about to be deleted by this hub.
    pub(in crate::application) fn lets_decision_go(&self, key: &Key, decision: &Decision) {
        let uid = decision.uid().unwrap_or_default();
        self.state.write().let_go.insert(key.clone(), uid);
    }

    /// A Decision that is not wanted any more.
    pub(in crate::application) fn forget_decision(&self, key: &Key) {
        self.state.write().forget_decision(key);
    }

    /// The Decisions of an application that do not exist any more, as they were. What was lost in another term is forgotten: who led
    /// meanwhile may have deleted it. So is what is of an application of this name that was before it.
    pub(in crate::application) fn lost_decisions(&self, application: &Key, epoch: i64) -> Vec<Arc<Decision>> {
        if self.state.read().lost.is_empty() {
            return Vec::new();
        }
        let mut state = self.state.write();
        let uid = state
            .applications
            .get(application)
            .map(|stored| stored.uid.clone());
        let (mut known, mut others) = (Vec::new(), Vec::new());
        for key in state.lost_decisions_of(application) {
            let decision = state.decisions.get(key);
            let of = decision.filter(|decision| Some(&decision.spec.application_ref.uid) == uid.as_ref());
            match of.filter(|_| state.lost.get(key) == Some(&epoch)) {
                Some(decision) => known.push(decision.clone()),
                None => others.push(key.clone()),
            }
        }
        for key in others {
            state.forget_decision(&key);
        }
        known
    }

    /// A Decision that exists.
    pub(in crate::application) fn decision(&self, key: &Key) -> Option<Arc<Decision>> {
        self.state.read().existing_decision(key).cloned()
    }

    /// The Decisions of an application, by step; the ones that are lost among them.
    pub(in crate::application) fn decisions(&self, application: &Key) -> BTreeMap<String, Arc<Decision>> {
        let state = self.state.read();
        let own = state.decisions_of(application);
        own.map(|decision| (decision.spec.step.clone(), decision.clone()))
            .collect()
    }

    /// Takes a definition in; returns whether it says something else than before.
    pub(in crate::application) fn put_definition(&self, definition: &ComponentDefinition) -> bool {
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

    pub(in crate::application) fn remove_definition(&self, key: &Key) -> bool {
        self.state.write().definitions.remove(key).is_some()
    }

    /// Where the count of kinds lives, for the applications of a namespace.
    pub(in crate::application) fn replica_paths(&self, namespace: &str) -> ReplicaPaths {
        let state = self.state.read();
        ReplicaPaths::of(
            namespace,
            state.definitions.iter().map(|(key, (_, spec))| (key, spec)),
        )
    }

    pub(in crate::application) fn put_revision(&self, mut revision: ApplicationRevision) -> Option<Key> {
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

    pub(in crate::application) fn remove_revision(&self, key: &Key) -> Option<Key> {
        let held = self.state.write().revisions.remove(key)?;
        Some((key.0.clone(), held.spec.application_name.clone()))
    }

    /// The revisions of an application, by name.
    pub(in crate::application) fn revisions(&self, application: &Key) -> Vec<Arc<ApplicationRevision>> {
        let state = self.state.read();
        named_after(&state.revisions, application)
            .filter(|(_, revision)| revision.spec.application_name == application.1)
            .map(|(_, revision)| revision.clone())
            .collect()
    }
}

/// What has a name of the form `<application>-…`: all that is recorded of an application, and of those whose names go on like it.
fn named_after<'a, V>(
    records: &'a BTreeMap<Key, V>,
    application: &'a Key,
) -> impl Iterator<Item = (&'a Key, &'a V)> {
    let from = (application.0.clone(), format!("{}-", application.1));
    let in_range = records.range(from..);
    in_range
        .take_while(|((namespace, name), _)| *namespace == application.0 && name.starts_with(&application.1))
}

impl State {
    fn put_decision(&mut self, mut decision: Decision) -> Option<Key> {
        decision.metadata.managed_fields = None;
        let application = &decision.spec.application_ref;
        let application = (application.namespace.clone(), application.name.clone());
        let key = key_of(&decision);
        if older_object(self.decisions.get(&key), &decision) {
            return None;
        }
        self.lost.remove(&key);
        self.decisions.insert(key, Arc::new(decision));
        Some(application)
    }

    pub(super) fn existing_decision(&self, key: &Key) -> Option<&Arc<Decision>> {
        self.decisions.get(key).filter(|_| !self.lost.contains_key(key))
    }

    pub(super) fn forget_decision(&mut self, key: &Key) {
        self.lost.remove(key);
        self.decisions.remove(key);
    }

    pub(super) fn lost_decisions_of<'a>(&'a self, application: &'a Key) -> impl Iterator<Item = &'a Key> {
        let lost = named_after(&self.lost, application).map(|(key, _)| key);
        lost.filter(|key| {
            let of = self
                .decisions
                .get(*key)
                .map(|decision| &decision.spec.application_ref);
            of.is_some_and(|of| of.namespace == application.0 && of.name == application.1)
        })
    }

    /// The Decisions of an application. Those of one of its name that was deleted before are none of its own: they are there
    /// until the garbage collector has come to them.
    pub(super) fn decisions_of<'a>(
        &'a self,
        application: &'a Key,
    ) -> impl Iterator<Item = &'a Arc<Decision>> {
        let uid = self
            .applications
            .get(application)
            .map(|stored| stored.uid.as_str());
        let own = named_after(&self.decisions, application).map(|(_, decision)| decision);
        own.filter(move |decision| {
            let of = &decision.spec.application_ref;
            of.namespace == application.0 && of.name == application.1 && uid.is_none_or(|uid| uid == of.uid)
        })
    }
}
