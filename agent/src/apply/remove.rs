//! Remove: one object of the ledger against the member. The shell around [`prune`](crate::apply::prune).

use crate::apply::Engine;
use crate::apply::order::{WAVES, waves};
use crate::apply::prune::{Removal, removal};
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::object::ObjectKey;
use crate::report::Leaving;
use futures::{FutureExt, StreamExt};
use roundhouse_api::bundle::{DeleteOption, ResourceMeta};
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::annotation;
use roundhouse_patch::PatchType;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was achieved: objects that the ledger may forget, and those that are still there.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) released: BTreeSet<ObjectKey>,
    pub(crate) leaving: Vec<Leaving>,
}

/// On what terms objects go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Farewell<'a> {
    pub(crate) marker: &'a str,
    pub(crate) delete_option: Option<&'a DeleteOption>,
    /// Ordinal of the first object in the report: after the last manifest.
    pub(crate) ordinal: u32,
    /// Objects that the bundle still has, as the member names them: an entry under another spelling of the same object
    /// is forgotten, not removed.
    pub(crate) wanted: &'a BTreeSet<ObjectKey>,
}

impl Engine {
    /// Removes objects, the last wave first; a wave is begun when those after it are gone.
    pub(crate) async fn remove(&self, entries: Vec<LedgerEntry>, farewell: Farewell<'_>) -> Removed {
        let keyed: Vec<_> = entries
            .into_iter()
            .map(|entry| (ObjectKey::of_entry(&entry), entry))
            .collect();
        let mut waves = waves(keyed, |(key, _)| key);
        let mut removed = Removed::default();
        let mut ordinal = farewell.ordinal;
        for index in (0..WAVES).rev() {
            let wave = waves.get_mut(index).map(std::mem::take).unwrap_or_default();
            if !removed.leaving.is_empty() {
                for (key, entry) in wave {
                    let message = "waits for objects that depend on it".to_owned();
                    removed.leaving.push(Leaving {
                        meta: meta(&key, &entry, None, ordinal),
                        message,
                    });
                    ordinal += 1;
                }
                continue;
            }
            let removals: Vec<_> = wave
                .into_iter()
                .map(|(key, entry)| {
                    let removal = async move {
                        let (kind, message) = self.remove_one(&key, &entry, farewell).await;
                        (key, entry, kind, message)
                    };
                    removal.boxed()
                })
                .collect();
            let mut results: Vec<_> = futures::stream::iter(removals)
                .buffer_unordered(self.concurrent.max(1))
                .collect()
                .await;
            results.sort_by(|a, b| a.0.cmp(&b.0));
            for (key, entry, kind, message) in results {
                match message {
                    None => {
                        removed.released.insert(key);
                    }
                    Some(message) => {
                        let meta = meta(&key, &entry, kind.as_deref(), ordinal);
                        removed.leaving.push(Leaving { meta, message });
                        ordinal += 1;
                    }
                }
            }
        }
        removed
    }

    /// Removes one object; `None` when the ledger may forget it, else what is waited for.
    async fn remove_one(
        &self,
        key: &ObjectKey,
        entry: &LedgerEntry,
        farewell: Farewell<'_>,
    ) -> (Option<Arc<Kind>>, Option<String>) {
        let kind = match self
            .kinds
            .resolve_any_version(&key.group, &key.kind, &entry.version)
            .await
        {
            Ok(Some(kind)) => kind,
            // No object outlives its definition.
            Ok(None) => return (None, None),
            Err(error) => return (None, Some(error.message())),
        };
        let mut target = key.clone();
        if !kind.namespaced {
            target.namespace.clear();
        }
        if farewell.wanted.contains(&target) {
            return (Some(kind), None);
        }
        let waiting = match self.take_away(&kind, &target, entry, farewell).await {
            Ok(waiting) => waiting,
            Err(error) if error.fault() == Fault::NotFound => None,
            Err(error) => Some(error.message()),
        };
        (Some(kind), waiting)
    }

    async fn take_away(
        &self,
        kind: &Kind,
        target: &ObjectKey,
        entry: &LedgerEntry,
        farewell: Farewell<'_>,
    ) -> Result<Option<String>, CallError> {
        let live = self.member.get(kind, target).await?;
        match removal(entry, live.as_ref(), farewell.marker, farewell.delete_option) {
            Removal::Gone | Removal::NotOurs => Ok(None),
            Removal::Waiting { finalizers } => Ok(Some(format!(
                "is being deleted; held by finalizers: {finalizers}"
            ))),
            Removal::Release => {
                let patch = json!({"metadata": {
                    "resourceVersion": live.as_ref().and_then(crate::object::resource_version),
                    "annotations": {annotation::OWNED_BY: null, annotation::DESIRED_HASH: null},
                }});
                self.member.patch(kind, target, &patch, PatchType::Merge).await?;
                Ok(None)
            }
            Removal::Delete { uid } => {
                self.member.delete(kind, target, &uid).await?;
                let left = self.member.get(kind, target).await?;
                let same = left.filter(|left| crate::object::uid(left) == Some(&uid));
                Ok(same.map(|_| "is being deleted".to_owned()))
            }
        }
    }
}

fn meta(key: &ObjectKey, entry: &LedgerEntry, kind: Option<&Kind>, ordinal: u32) -> ResourceMeta {
    ResourceMeta {
        ordinal,
        group: key.group.clone(),
        version: entry.version.clone(),
        kind: key.kind.clone(),
        resource: kind.map(|kind| kind.resource.plural.clone()).unwrap_or_default(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}
