//! A pass that removes everything, on positive evidence.

use super::{Next, Worker, account_of};
use crate::apply::Engine;
use crate::apply::fence::Write;
use crate::apply::keep::Rules;
use crate::apply::prune::{is_confirmed, stays_guarded};
use crate::apply::remove::{Farewell, Guard};
use crate::bundle::{Held, owner, without_part};
use crate::error::CallError;
use crate::ledger::{note_unanswered, obey, remove_all, settle};
use crate::member::{found, within};
use crate::object::ObjectKey;
use crate::report::{self, Subject};
use crate::watch::registry::Siblings;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use roundhouse_api::bundle::{ApplyOnce, BundleSpec};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry, LedgerOutcome};
use roundhouse_api::names::{AGENT_LEASE, owner_marker};
use std::time::Duration;

/// A namespace that is being deleted loses its objects one kind after the other, within moments.
const SECOND_LOOK: Duration = Duration::from_secs(3);

impl Worker {
    /// Removes every object of the ledger; with a Bundle that still waits for it, reports how far that is. `evidence`: what asks
    /// for it, unless the ledger does.
    pub(super) async fn remove(
        &mut self,
        held: Option<&Held>,
        evidence: Option<Write<'_>>,
        spec: &BundleSpec,
    ) -> Result<Next, CallError> {
        let engine = match (self.engine(spec), held) {
            (Ok(engine), _) => engine,
            (Err(error), Some(held)) => {
                let message = error.to_string();
                self.refuse(held, spec.hash.as_deref(), spec.epoch, error.reason(), &message)
                    .await?;
                return Ok(Next::Resync);
            }
            (Err(error), None) => {
                tracing::warn!(bundle = self.name, "its objects stay: {error}");
                return Ok(Next::Resync);
            }
        };
        self.applied = None;
        self.observations.clear();
        self.unsure.clear();
        let rules = Rules::new(&spec.apply_once_rules);
        let guard = self.guard(spec, &rules);
        let owner = self.owner_of_ledger(spec);
        let marker = owner_marker(&self.shared.hub_id, &owner);
        let inventory = self.inventory(&engine, spec, &marker).await?;
        // The evidence is in the ledger from here on: the Bundle may vanish before the work is done.
        // Nothing to remove and nothing recorded: there is no evidence to keep either.
        if self.ledger.exists() || !inventory.objects.is_empty() {
            let mut leaving = remove_all(
                &inventory,
                guard.is_some(),
                account_of(spec),
                spec.delete_option.as_ref(),
            );
            if let Some(evidence) = evidence {
                obey(&mut leaving, evidence, spec.application_ref.is_some());
            }
            let leaving = self.with_unanswered(leaving);
            self.ledger.write(leaving).await?;
        }
        // What has moved to another part of the application stays with it.
        let wanted = match self.shared.registry.staying(&self.name, &owner) {
            Siblings::Read(theirs) => theirs,
            // Their news wakes this bundle.
            Siblings::NotYet(_) => return Ok(Next::Resync),
        };
        let farewell = Farewell {
            marker: &marker,
            delete_option: spec.delete_option.as_ref(),
            ordinal: 0,
            wanted: &wanted,
            guard,
        };
        let removed = engine.remove(self.ledger.spec().objects.clone(), farewell).await;
        let left = !removed.leaving.is_empty();
        let retry = removed.retry;
        self.waited_for = removed.waited_for;
        for waited in &self.waited_for {
            let registry = &self.shared.registry;
            registry.await_end(&self.name, &waited.target, waited.seen.as_deref());
        }
        self.shared.objects.want(&self.name, self.scopes_of_ends());
        self.cleaned = !left;
        if left {
            let next = settle(self.ledger.spec(), &removed.gone, false);
            self.ledger.write(next).await?;
        } else {
            self.ledger.remove().await?;
        }
        if let Some(held) = held {
            let subject = Subject {
                hash: spec.hash.as_deref(),
                generation: held.generation,
                epoch: spec.epoch,
            };
            let now = self.shared.clock.now();
            let status = report::removing(subject, &removed.leaving, self.reported.as_ref(), now);
            self.report(held, status).await?;
        } else if let Some(first) = removed.leaving.first() {
            tracing::warn!(
                bundle = self.name,
                left = removed.leaving.len(),
                kind = first.meta.kind,
                name = first.meta.name,
                waits_for = first.message,
                "the Bundle is gone, some of its objects are not"
            );
        }
        Ok(match (left, held) {
            (true, _) if retry => Next::Retry,
            // What is refused waits for somebody: its next change is news.
            (true, _) => Next::Resync,
            // The Bundle is dispatch's to finish; until it is gone there is nothing to do.
            (false, Some(_)) => Next::Resync,
            (false, None) => Next::End,
        })
    }

    /// The ledger, and what it should have: it may have been lost, and the manifests of the bundle tell what was in it.
    async fn inventory(
        &self,
        engine: &Engine,
        spec: &BundleSpec,
        marker: &str,
    ) -> Result<AppliedBundleSpec, CallError> {
        let mut inventory = self.ledger.spec().clone();
        if !self.cleaned {
            let manifests = &spec.workload.manifests;
            let found = engine.unrecorded(manifests, marker, &inventory).await?;
            inventory.objects.extend(found);
            inventory.objects.sort_by_cached_key(ObjectKey::of_entry);
        }
        Ok(inventory)
    }

    /// Apply-once, unless the removal of the whole bundle is confirmed. A Bundle that is gone leaves no spec: then it was
    /// judged before, and what was not confirmed is held, not removed.
    fn guard<'a>(&self, spec: &BundleSpec, rules: &'a Rules) -> Option<Guard<'a>> {
        let mut guard = Guard {
            mode: spec.apply_once.unwrap_or(self.shared.config.apply_once),
            rules,
        };
        if !guard.is_on() && stays_guarded(spec, self.ledger.spec()) {
            guard.mode = ApplyOnce::Once;
        }
        let confirmed = is_confirmed(spec.application_ref.is_some(), spec.deletion.as_ref());
        (guard.is_on() && !confirmed).then_some(guard)
    }

    /// A ledger that also says what of that which goes may be made yet by a request of this agent.
    pub(super) fn with_unanswered(&self, ledger: AppliedBundleSpec) -> AppliedBundleSpec {
        let unanswered = &self.shared.engine.unanswered;
        let may_make = |key: &ObjectKey| Some(unanswered.may_make(key)?.applied_as().to_owned());
        note_unanswered(ledger, may_make)
    }

    /// The owner in the marker of a bundle whose spec may be gone: the ledger's name of the Bundle tells, less the part.
    fn owner_of_ledger(&self, spec: &BundleSpec) -> String {
        match &spec.application_ref {
            Some(application) => owner(&self.name, application).into_owned(),
            None if self.ledger.spec().dispatched => without_part(&self.name).to_owned(),
            None => self.name.clone(),
        }
    }

    /// Whether a hand-written Bundle that is still there is being deleted by itself. What was confirmed stays so; what was not is
    /// asked for again.
    pub(super) async fn goes_by_itself(&mut self, held: &Held) -> Result<bool, CallError> {
        let ledger = self.ledger.spec();
        let removing = |entry: &LedgerEntry| entry.outcome == LedgerOutcome::Removing;
        // An earlier run has confirmed it.
        let begun = ledger.bundle_uid == held.uid
            && !ledger.objects.is_empty()
            && ledger.objects.iter().all(removing);
        if begun || self.goes == Some((held.uid.clone(), true)) {
            return Ok(true);
        }
        let goes = self.deletion_confirmed(&held.name, Some(&held.uid)).await?;
        self.goes = Some((held.uid.clone(), goes));
        Ok(goes)
    }

    /// Whether a hand-written Bundle that is gone was deleted by itself. One whose deletion was not confirmed while it waited for
    /// somebody's finalizer went with its namespace.
    pub(super) async fn went_by_itself(&mut self, held: &Held) -> Result<bool, CallError> {
        match &self.goes {
            Some((uid, goes)) if *uid == held.uid => Ok(*goes),
            _ => self.deletion_confirmed(&held.name, None).await,
        }
    }

    /// Whether the deletion of a Bundle is about it, not about its namespace, its definition or the whole hub: now and a moment
    /// later the hub still lists Bundles, the agent's Lease stands, and the Bundle (`uid`) goes, or is not there.
    async fn deletion_confirmed(&mut self, name: &str, uid: Option<&str>) -> Result<bool, CallError> {
        self.place = None;
        let confirmed = self.stays_without(name, uid).await;
        self.enter().await;
        confirmed
    }

    async fn stays_without(&self, name: &str, uid: Option<&str>) -> Result<bool, CallError> {
        if !self.hub_stands_without(name, uid).await? {
            return Ok(false);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        self.hub_stands_without(name, uid).await
    }

    async fn hub_stands_without(&self, name: &str, uid: Option<&str>) -> Result<bool, CallError> {
        let timeout = self.shared.config.call_timeout;
        let list = within(
            timeout,
            self.shared
                .hub_bundles
                .list_metadata(&ListParams::default().limit(1)),
        )
        .await;
        match list {
            Ok(_) => {}
            // The definition of Bundles went with it.
            Err(error) if error.fault().is_404() => return Ok(false),
            Err(error) => return Err(error),
        }
        let leases: Api<Lease> =
            Api::namespaced(self.shared.hub.clone(), &self.shared.config.cluster.namespace());
        let lease = found(within(timeout, leases.get(AGENT_LEASE)).await)?;
        let stands = lease.is_some_and(|lease| lease.metadata.deletion_timestamp.is_none());
        let bundle = found(within(timeout, self.shared.hub_bundles.get_metadata(name)).await)?;
        let goes = bundle.is_none_or(|bundle| {
            bundle.metadata.uid.as_deref() == uid && bundle.metadata.deletion_timestamp.is_some()
        });
        Ok(stands && goes)
    }
}
