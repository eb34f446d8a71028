//! The stored ledger.

use crate::error::{CallError, Fault};
use crate::member::{found, within};
use crate::object::ObjectKey;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use roundhouse_api::ledger::{AppliedBundle, AppliedBundleSpec, LedgerEntry};
use roundhouse_api::names::{AGENT_FIELD_MANAGER, LEDGER_FINALIZER, ledger_name};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ledgers that one page of a list holds: they may be large.
const PAGE: u32 = 50;
/// How often a write is tried against a ledger that changes meanwhile.
const TRIES: usize = 4;

/// Reads the ledgers of one hub, by name of the bundle.
pub(crate) async fn list(
    client: &Client,
    hub_id: &str,
    timeout: Duration,
) -> Result<BTreeMap<String, AppliedBundle>, CallError> {
    let api: Api<AppliedBundle> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut ledgers = BTreeMap::new();
    loop {
        let page = within(timeout, api.list(&params)).await?;
        let ours = page
            .items
            .into_iter()
            .filter(|ledger| ledger.spec.hub_id == hub_id);
        ledgers.extend(ours.map(|ledger| (ledger.spec.bundle.clone(), ledger)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(ledgers),
        }
    }
}

/// The ledger of one bundle.
pub(crate) struct Ledger {
    api: Api<AppliedBundle>,
    timeout: Duration,
    name: String,
    empty: AppliedBundleSpec,
    stored: Option<AppliedBundle>,
}

impl Ledger {
    pub(crate) fn new(
        client: Client,
        hub_id: &str,
        bundle: &str,
        stored: Option<AppliedBundle>,
        timeout: Duration,
    ) -> Self {
        let empty = AppliedBundleSpec {
            hub_id: hub_id.to_owned(),
            bundle: bundle.to_owned(),
            ..AppliedBundleSpec::default()
        };
        Ledger {
            api: Api::all(client),
            timeout,
            name: ledger_name(hub_id, bundle),
            empty,
            stored,
        }
    }

    /// What it says; for a bundle without a ledger, nothing.
    pub(crate) fn spec(&self) -> &AppliedBundleSpec {
        self.stored.as_ref().map_or(&self.empty, |stored| &stored.spec)
    }

    /// Whether it is stored.
    pub(crate) fn exists(&self) -> bool {
        self.stored.is_some()
    }

    /// The entry of an object.
    pub(crate) fn entry(&self, key: &ObjectKey) -> Option<&LedgerEntry> {
        self.spec()
            .objects
            .iter()
            .find(|entry| ObjectKey::of_entry(entry) == *key)
    }

    /// Reads it again. A ledger that is being deleted is let go: the next write makes it again.
    pub(crate) async fn refresh(&mut self) -> Result<(), CallError> {
        let live = found(within(self.timeout, self.api.get(&self.name)).await)?;
        match live {
            Some(live) if live.metadata.deletion_timestamp.is_some() => {
                let spec = live.spec;
                self.let_go().await?;
                self.create(spec).await
            }
            Some(live) => {
                self.stored = Some(live);
                Ok(())
            }
            None => match self.stored.take() {
                Some(lost) => self.create(lost.spec).await,
                None => Ok(()),
            },
        }
    }

    /// Writes it, unless it already says so.
    pub(crate) async fn write(&mut self, spec: AppliedBundleSpec) -> Result<(), CallError> {
        let mut spec = spec;
        for _ in 0..TRIES {
            if *self.spec() == spec {
                return Ok(());
            }
            let Some(stored) = &self.stored else {
                match self.create(spec.clone()).await {
                    Err(error) if error.fault() == Fault::Conflict => {
                        self.read_back(&mut spec).await?;
                        continue;
                    }
                    done => return done,
                }
            };
            let mut next = stored.clone();
            next.spec = spec.clone();
            let params = write_params();
            match within(self.timeout, self.api.replace(&self.name, &params, &next)).await {
                Ok(written) => {
                    self.stored = Some(written);
                    return Ok(());
                }
                Err(error) if matches!(error.fault(), Fault::Conflict | Fault::NotFound) => {
                    self.read_back(&mut spec).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(CallError::Timeout(self.timeout))
    }

    /// Removes it: nothing of the bundle is left.
    pub(crate) async fn remove(&mut self) -> Result<(), CallError> {
        if self.stored.is_none() {
            return Ok(());
        }
        self.let_go().await?;
        let deleted = within(
            self.timeout,
            self.api.delete(&self.name, &DeleteParams::default()),
        )
        .await;
        found(deleted)?;
        self.stored = None;
        Ok(())
    }

    async fn let_go(&mut self) -> Result<(), CallError> {
        let patch = json!({"metadata": {"finalizers": null}});
        let params = PatchParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = within(
            self.timeout,
            self.api.patch(&self.name, &params, &Patch::Merge(&patch)),
        )
        .await;
        found(patched)?;
        Ok(())
    }

    async fn create(&mut self, spec: AppliedBundleSpec) -> Result<(), CallError> {
        let mut ledger = AppliedBundle::new(&self.name, spec);
        ledger.metadata.finalizers = Some(vec![LEDGER_FINALIZER.to_owned()]);
        let written = within(self.timeout, self.api.create(&write_params(), &ledger)).await?;
        self.stored = Some(written);
        Ok(())
    }

    /// Somebody wrote meanwhile: what they know of and we do not is kept, an inventory only grows by accident.
    async fn read_back(&mut self, spec: &mut AppliedBundleSpec) -> Result<(), CallError> {
        self.stored = found(within(self.timeout, self.api.get(&self.name)).await)?;
        if let Some(stored) = &self.stored {
            let known: BTreeSet<ObjectKey> = spec.objects.iter().map(ObjectKey::of_entry).collect();
            let missing = stored
                .spec
                .objects
                .iter()
                .filter(|entry| !known.contains(&ObjectKey::of_entry(entry)));
            spec.objects.extend(missing.cloned());
            spec.objects.sort_by_cached_key(ObjectKey::of_entry);
        }
        Ok(())
    }
}

fn write_params() -> PostParams {
    PostParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}
