//! Unrecorded: objects that carry a bundle's marker although its ledger does not have them. A ledger may be lost while
//! the agent is away; what it would have answered for is found again by the bundle's manifests.

use crate::apply::Engine;
use crate::apply::decode::{Manifest, decode};
use crate::apply::locate::locate;
use crate::error::CallError;
use crate::object::{self, ObjectKey};
use futures::{FutureExt, StreamExt, TryStreamExt};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry};
use roundhouse_api::names::annotation;
use serde_json::Value;
use std::collections::BTreeSet;

impl Engine {
    /// Ledger entries for the live objects that `manifests` name, that carry `marker`, and that `ledger` does not have.
    /// Objects of earlier revisions, which no manifest names, are not found.
    ///
    /// # Errors
    /// Whatever keeps the agent from seeing an object: nothing may be concluded then.
    pub(crate) async fn unrecorded(
        &self,
        manifests: &[Value],
        marker: &str,
        ledger: &AppliedBundleSpec,
    ) -> Result<Vec<LedgerEntry>, CallError> {
        let known: BTreeSet<ObjectKey> = ledger.objects.iter().map(ObjectKey::of_entry).collect();
        let decoded = decode(manifests.to_vec());
        let looks: Vec<_> = decoded
            .manifests
            .iter()
            .filter(|manifest| !known.contains(&manifest.key))
            .map(|manifest| self.ours(manifest, marker).boxed())
            .collect();
        let found: Vec<Option<LedgerEntry>> = futures::stream::iter(looks)
            .buffer_unordered(self.concurrent.max(1))
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn ours(&self, manifest: &Manifest, marker: &str) -> Result<Option<LedgerEntry>, CallError> {
        let key = &manifest.key;
        let located = locate(&self.member, &self.kinds, key, &manifest.version).await?;
        let live = located.and_then(|located| located.live);
        let ours = live.filter(|live| object::annotation(live, annotation::OWNED_BY) == Some(marker));
        Ok(ours.map(|live| LedgerEntry {
            group: key.group.clone(),
            version: manifest.version.clone(),
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: object::uid(&live).map(str::to_owned),
            ..LedgerEntry::default()
        }))
    }
}
