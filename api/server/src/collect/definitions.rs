//! Definitions come and go: kinds are served at once, and go with their objects.

use std::sync::Arc;

use serde_json::Value;

use super::Note;
use crate::{
    crd,
    kinds::Resource,
    object::{self, Head},
    server::Core,
    store::{Key, Range},
    verbs::{self, DeleteOptions, Part},
};

impl Core {
    /// Serves what the stored definition at this place defines: nothing if there is none, or another one has its names. Notes
    /// which definitions are to be decided on again.
    pub(crate) fn follow_definition(&self, key: &Key) {
        let in_doubt = self.serve_definition(key);
        if in_doubt {
            self.notes.queue.lock().push_back(Note::NamesInDoubt(key.clone()));
        }
    }

    /// As [`Self::follow_definition`]; whether what the definition says of its names is not so.
    fn serve_definition(&self, key: &Key) -> bool {
        let (mut in_doubt, mut left) = (false, false);
        // The table of the objects goes by the name of their definition.
        self.registry.follow(&key.name, || {
            let had = self.registry.all().into_iter().find(|r| r.table == key.name);
            let stored = self.store.get(key).map(|record| object::decode(&record.bytes));
            let Some(definition) = stored else {
                left = true;
                return vec![];
            };
            left = had.is_some_and(|had| had.kind != kind_of(&definition));
            // Of two that were written at once each found the names free. This is done one by one.
            let free = self.name_conflict(&definition).is_none();
            let accepted = established(&definition);
            in_doubt = free != accepted;
            if free && accepted {
                crd::resources(&definition)
            } else {
                vec![]
            }
        });
        if left {
            self.note_refused_definitions(&key.name);
        }
        in_doubt
    }

    /// Notes the definitions whose names were refused, now that the definition of this table has left its own to others.
    fn note_refused_definitions(&self, table: &str) {
        let group = |table: &str| table.split_once('.').map(|(_, group)| group.to_owned());
        let others = self.definitions(|key| group(&key.name) == group(table));
        let refused = others
            .into_iter()
            .filter(|(_, definition)| !established(definition));
        let notes = refused.map(|(key, _)| Note::NamesInDoubt(key));
        self.notes.queue.lock().extend(notes);
    }

    /// The definitions at these places, the oldest first.
    pub(super) fn definitions(&self, at: impl Fn(&Key) -> bool) -> Vec<(Key, Value)> {
        let there = self.records(crd::TABLE, None).filter(|(key, _)| at(key));
        let mut found: Vec<_> = there
            .map(|(key, record)| (key, object::decode(&record.bytes)))
            .collect();
        found.sort_by_cached_key(|(_, definition)| object::meta(definition, "creationTimestamp").to_owned());
        found
    }

    /// Decides again on the names of a definition, if what it says of them is not so.
    pub(super) fn decide_names(&self, key: &Key) {
        while let Some(record) = self.store.get(key) {
            let definition = object::decode(&record.bytes);
            let free = self.name_conflict(&definition).is_none();
            // Every write of a definition decides on its names: one that changes nothing else, too.
            if free == established(&definition) || self.amend_as_read(key, &record, Part::Main, |_| {}) {
                break;
            }
        }
        // Not noted again if it still is in doubt: a write that was refused would be so without end.
        self.serve_definition(key);
    }

    /// What the objects of a definition are stored as that serves none.
    pub(super) fn unserved_resource(&self, table: &str) -> Option<Arc<Resource>> {
        let record = self.store.get(&definition_of(table))?;
        crd::stored_as(&object::decode(&record.bytes))
    }

    /// Whether a definition is there and not being deleted.
    fn definition_lives(&self, table: &str) -> bool {
        self.store
            .get(&definition_of(table))
            .is_some_and(|record| !Head::says_deleting(&record.bytes))
    }

    /// Removes a new custom object if its definition goes or is gone: who creates was given the kind before, and who emptied
    /// the definition has not seen this.
    pub(super) fn remove_if_too_late(&self, resource: &Resource, key: &Key, new: &Value) {
        if resource.custom.is_none() {
            return;
        }
        let served = self
            .registry
            .by_path(&resource.group, &resource.version, &resource.plural);
        // A version may cease to be served, and the definition stay.
        if served.is_some_and(|now| !now.terminating) || self.definition_lives(&key.table) {
            return;
        }
        self.remove_custom(resource, key, object::meta(new, "uid").to_owned());
    }

    fn remove_custom(&self, resource: &Resource, key: &Key, uid: String) {
        let options = DeleteOptions {
            uid: Some(uid),
            ..DeleteOptions::default()
        };
        if let Err(error) = verbs::remove(self, resource, key, &options) {
            self.note_refused(&error);
            tracing::debug!(%error, name = %key.name, "object of a deleted definition was not deleted");
        }
    }

    fn has_none(&self, table: &str) -> bool {
        let range = Range {
            limit: 1,
            ..Range::all(table, None)
        };
        self.store
            .list(&range)
            .is_ok_and(|listing| listing.records.is_empty())
    }

    /// Deletes every object of a definition that is being deleted, and the definition if that leaves none.
    pub(super) fn empty_definition(&self, key: &Key) {
        // Listed before the look at the definition: what is of one that is made again after it is not among this.
        let contents = self.records(&key.name, None);
        if self.definition_lives(&key.name) {
            return;
        }
        if let Some(resource) = self.resource_of(&key.name) {
            for (key, record) in contents {
                let head = Head::read(&record.bytes);
                if !head.is_deleting() {
                    self.remove_custom(&resource, &key, head.uid);
                }
            }
        }
        self.finish_definition(&key.name);
    }

    /// Lets a definition that is being deleted go, once no object of it is left.
    pub(super) fn finish_definition(&self, table: &str) {
        let key = definition_of(table);
        while let Some(record) = self.store.get(&key) {
            let ends = Head::says_deleting(&record.bytes) && self.has_none(table);
            let drop = |value: &mut Value| object::drop_finalizer(value, crd::CLEANUP);
            if !ends || self.amend_as_read(&key, &record, Part::Main, drop) {
                return;
            }
        }
    }

    /// Why the names of a definition cannot be accepted: another kind of the group has them.
    pub(crate) fn name_conflict(&self, definition: &Value) -> Option<String> {
        let text = |path: &[&str]| object::text(definition, path).unwrap_or_default();
        let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
        let kind = kind_of(definition);
        let mine = |table: &str| table == format!("{plural}.{group}");
        let taken = self
            .registry
            .all()
            .into_iter()
            .find(|r| r.group == group && r.kind == kind && !mine(&r.table));
        taken.map(|r| format!("{kind:?} is already in use by {}", r.table))
    }
}

/// The place of the definition of a table.
fn definition_of(table: &str) -> Key {
    Key::new(&crd::TABLE.into(), "", table)
}

fn kind_of(definition: &Value) -> &str {
    object::text(definition, &["spec", "names", "kind"]).unwrap_or_default()
}

fn established(definition: &Value) -> bool {
    object::holds(definition, "Established")
}
