//! Finding a kind by path or by `apiVersion` and `kind`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use parking_lot::{Mutex, RwLock};

use super::{BUILTIN, Resource};

type Path = (String, String, String);

static BY_PATH: LazyLock<HashMap<Path, Arc<Resource>>> = LazyLock::new(|| {
    let key = |r: &Resource| (r.group.to_string(), r.version.to_string(), r.plural.to_string());
    BUILTIN.iter().map(|r| (key(r), r.clone())).collect()
});

/// The kinds of one server. Built-in ones are shared by the process; only custom ones cost memory here.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    custom: RwLock<BTreeMap<Path, Arc<Resource>>>,
    /// Held while a definition is read and taken over; who only looks a kind up does not wait for that.
    following: Mutex<()>,
}

impl Registry {
    /// The kind served at `/apis/{group}/{version}/…/{plural}`.
    pub(crate) fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let path = (group.to_owned(), version.to_owned(), plural.to_owned());
        BY_PATH
            .get(&path)
            .cloned()
            .or_else(|| self.custom.read().get(&path).cloned())
    }

    /// The kind named by an object's `apiVersion` and `kind`.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is = |r: &&Arc<Resource>| r.group == group && r.version == version && r.kind == kind;
        BUILTIN
            .iter()
            .find(is)
            .cloned()
            .or_else(|| self.custom.read().values().find(is).cloned())
    }

    /// Every kind: built-in ones first, custom ones by group, version and plural.
    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        BUILTIN
            .iter()
            .cloned()
            .chain(self.custom.read().values().cloned())
            .collect()
    }

    /// Replaces the versions served of a table; an empty list withdraws it. `read` gives those of now: it is called while
    /// nobody else replaces any, so that of two writes at once the later one is what stays.
    pub(crate) fn follow(&self, table: &str, read: impl FnOnce() -> Vec<Arc<Resource>>) {
        let _following = self.following.lock();
        let versions = read();
        let mut custom = self.custom.write();
        custom.retain(|_, r| &*r.table != table);
        for r in versions {
            custom.insert(
                (r.group.to_string(), r.version.to_string(), r.plural.to_string()),
                r,
            );
        }
    }
}
