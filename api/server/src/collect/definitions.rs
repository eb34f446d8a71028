//! Definitions come and go: kinds are served at once, and go with their objects.

use serde_json::Value;

use crate::{
    crd, object,
    server::Core,
    store::{Key, Range},
    verbs::{self, DeleteOptions},
};

impl Core {
    /// Serves what the stored definition at this place defines: nothing if there is none.
    pub(crate) fn follow_definition(&self, key: &Key) {
        // The table of the objects goes by the name of their definition.
        self.registry.follow(&key.name, || {
            let stored = self.store.get(key).map(|record| object::decode(&record.bytes));
            stored
                .filter(established)
                .map(|definition| crd::resources(&definition))
                .unwrap_or_default()
        });
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
        if let Some(resource) = self.resource_of(&key.name) {
            for (key, record) in self.records(&key.name, None) {
                if object::is_deleting(&object::decode(&record.bytes)) {
                    continue;
                }
                if let Err(error) = verbs::remove(self, &resource, &key, &DeleteOptions::default()) {
                    self.note_refused(&error);
                    tracing::debug!(%error, name = %key.name, "object of a deleted definition was not deleted");
                }
            }
        }
        self.finish_definition(&key.name);
    }

    /// Lets a definition that is being deleted go, once no object of it is left.
    pub(super) fn finish_definition(&self, table: &str) {
        let key = Key::new(&crd::TABLE.into(), "", table);
        let deleting = self
            .store
            .get(&key)
            .is_some_and(|r| object::is_deleting(&object::decode(&r.bytes)));
        if deleting && self.has_none(table) {
            self.drop_finalizer(&key, crd::CLEANUP);
        }
    }

    /// Why the names of a definition cannot be accepted: another kind of the group has them.
    pub(crate) fn name_conflict(&self, definition: &Value) -> Option<String> {
        let text = |path: &[&str]| object::text(definition, path).unwrap_or_default();
        let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
        let kind = text(&["spec", "names", "kind"]);
        let mine = |table: &str| table == format!("{plural}.{group}");
        let taken = self
            .registry
            .all()
            .into_iter()
            .find(|r| r.group == group && r.kind == kind && !mine(&r.table));
        taken.map(|r| format!("{kind:?} is already in use by {}", r.table))
    }
}

fn established(definition: &Value) -> bool {
    let conditions = object::at(definition, &["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| {
        c.get("type").and_then(Value::as_str) == Some("Established")
            && c.get("status").and_then(Value::as_str) == Some("True")
    })
}
