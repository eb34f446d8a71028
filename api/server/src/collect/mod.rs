//! What follows from a write: custom kinds, dependents of deleted owners, contents of deleted namespaces.
//!
//! It runs on the writing task, right after the write: no task of its own, so that a thousand servers in one process
//! cost no task each, and a test that saw the answer sees the consequences.

mod cascade;
mod definitions;
mod namespaces;
mod owners;

pub(crate) use owners::Owners;

use serde_json::Value;

use crate::{crd, kinds::Resource, object, server::Core, store::Key};

impl Core {
    /// Follows up on a stored write. `new` is `None` if the object was removed.
    pub(crate) fn after_write(
        &self,
        resource: &Resource,
        key: &Key,
        old: Option<&Value>,
        new: Option<&Value>,
    ) {
        let refs = new.map(object::owners).unwrap_or_default();
        let had = old.map(object::owners).unwrap_or_default();
        if !refs.is_empty() || !had.is_empty() {
            self.owners.note(key, &refs);
        }
        if &*key.table == crd::TABLE {
            self.follow_definition(old, new);
        }
        if key.table.as_ref() == "namespaces"
            && let Some(new) = new.filter(|n| object::is_deleting(n))
        {
            self.empty_namespace(object::meta(new, "name"));
        }
        match new {
            None => {
                let uid = old.map(|o| object::meta(o, "uid")).unwrap_or_default();
                self.collect_dependents(uid);
                self.release_owners(&key.namespace, &had);
                if resource.namespaced {
                    self.finish_namespace(&key.namespace);
                }
            }
            Some(new) if object::is_deleting(new) => self.follow_deletion(key, new),
            Some(_) if !refs.is_empty() && refs != had => self.collect_if_ownerless(key, &refs),
            Some(_) => {}
        }
    }
}
