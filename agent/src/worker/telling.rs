//! What the worker of a bundle tells its hub.

use super::{Next, Worker};
use crate::apply::fence::{Fenced, check_order};
use crate::bundle::{Held, Presence};
use crate::error::CallError;
use crate::report::{self, Subject};
use roundhouse_api::bundle::BundleStatus;
use tokio::time::Instant;

impl Worker {
    /// The status on the hub, unless it is older than our last report: an event of before it comes late. One that was put back is
    /// no such event: the hub has to be told again, once.
    pub(super) fn note_status(&mut self, held: &Held) {
        let version = held.resource_version.parse::<u64>().ok();
        let older = matches!((version, self.report_version), (Some(seen), Some(ours)) if seen < ours);
        let is_put_back = held.put_back && self.put_back.as_ref() != Some(&held.resource_version);
        if is_put_back {
            self.put_back = Some(held.resource_version.clone());
        }
        if !older || is_put_back {
            self.reported.clone_from(&held.status);
        }
    }

    pub(super) async fn refuse(
        &mut self,
        held: &Held,
        hash: Option<&str>,
        epoch: Option<i64>,
        reason: &'static str,
        message: &str,
    ) -> Result<(), CallError> {
        self.applied = None;
        let subject = Subject {
            hash,
            generation: held.generation,
            epoch,
        };
        let now = self.shared.clock.now();
        let status = report::refused(subject, reason, message, self.reported.as_ref(), now);
        self.report(held, status).await
    }

    pub(super) async fn hold(
        &mut self,
        held: &Held,
        epoch: Option<i64>,
        reason: &'static str,
        message: &str,
    ) -> Result<(), CallError> {
        self.applied = None;
        let now = self.shared.clock.now();
        let status = report::held(
            held.generation,
            epoch,
            reason,
            message,
            self.reported.as_ref(),
            now,
        );
        self.report(held, status).await
    }

    /// Does nothing of what is older than what is obeyed, and says so: that is what tells an agent that is started later, see
    /// [`went_before`](crate::apply::fence::went_before).
    pub(super) async fn ignore(&mut self, held: &Held, fenced: &Fenced) -> Result<Next, CallError> {
        tracing::warn!(bundle = self.name, reason = fenced.reason(), "{fenced}");
        if matches!(fenced, Fenced::OldBundle { .. }) {
            self.ignored = Some(held.uid.clone());
        }
        let epoch = self.ledger.spec().epoch;
        self.hold(held, epoch, fenced.reason(), &fenced.to_string())
            .await?;
        Ok(Next::Resync)
    }

    /// Says that the agent broke over this bundle; what was reported stands. Of one that is ignored nothing but that is said.
    pub(super) async fn report_defect(&mut self) {
        let (Presence::Present(held), _) = self.inbox.take() else {
            return;
        };
        self.note_status(&held);
        // Without its ledger nobody knows; it is tried again.
        let looked = self.ledger.refresh().await;
        if looked.is_err() || check_order(self.write(&held), self.ledger.spec()).is_err() {
            return;
        }
        let message = "the agent broke while it worked on this bundle, which is a defect of the agent: it tries again, \
                       with growing delays; its log says where";
        if let Err(error) = self.hold(&held, held.epoch, "AgentDefect", message).await {
            let error = error.message();
            tracing::warn!(bundle = self.name, error, "that the agent broke is not reported");
        }
    }

    /// Sends a report if it says something new.
    pub(super) async fn report(&mut self, held: &Held, status: BundleStatus) -> Result<(), CallError> {
        let Some(before) = &self.reported else {
            return self.send(held, status).await;
        };
        if *before == status {
            self.report_due = None;
            return Ok(());
        }
        if report::differ_in_texts_only(before, &status) {
            let now = Instant::now();
            if now < self.texts_due {
                // A value that changes all the time is not worth a write each time.
                self.report_due = Some(self.texts_due);
                return Ok(());
            }
            self.texts_due = now + self.shared.config.report_interval;
        }
        self.send(held, status).await
    }

    pub(super) async fn send(&mut self, held: &Held, status: BundleStatus) -> Result<(), CallError> {
        self.report_due = None;
        // A report ends a pass: what others have to do in the member does not wait for the hub.
        self.place = None;
        let sent = report::send(
            &self.shared.hub_bundles,
            held,
            &status,
            self.shared.config.call_timeout,
        )
        .await;
        let unheard = sent.as_ref().is_err_and(CallError::is_unheard);
        self.inbox.unheard(unheard);
        if std::mem::replace(&mut self.unheard, unheard) && !unheard {
            // The hub is back. If it has too much to do for this one, that is another trouble, and passes sooner.
            self.failures = 0;
            self.retry_due = None;
        }
        if let Some(version) = sent? {
            self.report_version = version.parse().ok();
            self.reported = Some(status);
        }
        Ok(())
    }
}
