//! Definitions come and go: kinds are served at once, and go with their objects.

use serde_json::Value;

use crate::{
    crd, object,
    server::Core,
    store::Range,
    verbs::{self, DeleteOptions},
};

impl Core {
    /// Serves what a stored definition defines.
    pub(crate) fn serve_definition(&self, definition: &Value) {
        let text = |path: &[&str]| object::text(definition, path).unwrap_or_default().to_owned();
        let versions = if established(definition) {
            crd::resources(definition)
        } else {
            vec![]
        };
        self.registry.set_custom(
            &text(&["spec", "group"]),
            &text(&["spec", "names", "plural"]),
            versions,
        );
    }

    /// Follows a write of a definition.
    pub(super) fn follow_definition(&self, old: Option<&Value>, new: Option<&Value>) {
        if let Some(new) = new {
            self.serve_definition(new);
            if object::is_deleting(new) {
                self.empty_definition(new);
            }
            return;
        }
        let Some(old) = old else { return };
        self.empty_definition(old);
        let text = |path: &[&str]| object::text(old, path).unwrap_or_default().to_owned();
        self.registry.set_custom(
            &text(&["spec", "group"]),
            &text(&["spec", "names", "plural"]),
            vec![],
        );
    }

    /// Deletes every object of a definition. Objects that finalizers hold stay until those let go.
    fn empty_definition(&self, definition: &Value) {
        let Some(resource) = crd::resources(definition).into_iter().next() else {
            return;
        };
        let range = Range {
            table: resource.table.clone(),
            namespace: None,
            after: None,
            limit: usize::MAX,
            revision: None,
        };
        for (key, record) in self.store.list(&range).map(|l| l.records).unwrap_or_default() {
            if object::is_deleting(&object::decode(&record.bytes)) {
                continue;
            }
            if let Err(error) = verbs::remove(self, &resource, &key, &DeleteOptions::default()) {
                tracing::debug!(%error, name = %key.name, "object of a deleted definition was not deleted");
            }
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
