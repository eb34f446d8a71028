//! Finding a kind by path or by `apiVersion` and `kind`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use parking_lot::RwLock;

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

    /// Replaces the versions served for one definition; an empty list withdraws it.
    pub(crate) fn set_custom(&self, group: &str, plural: &str, versions: Vec<Arc<Resource>>) {
        let mut custom = self.custom.write();
        custom.retain(|(g, _, p), _| g != group || p != plural);
        for r in versions {
            custom.insert(
                (r.group.to_string(), r.version.to_string(), r.plural.to_string()),
                r,
            );
        }
    }
}
