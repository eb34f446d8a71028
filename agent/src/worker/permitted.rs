//! What the executor of a bundle lacks, asked and said by its worker.

use super::{Worker, account_of};
use crate::apply::decode::Decoded;
use crate::executor::Account;
use crate::preflight;
use crate::report;
use jiff::Timestamp;
use roundhouse_api::bundle::{BundleSpec, BundleStatus, EXECUTOR_PERMITTED};
use roundhouse_api::condition::{self, Status, Verdict};
use std::sync::Arc;

impl Worker {
    /// Asks what the executor lacks: of new content, and again until it lacks nothing.
    pub(super) async fn ask_rights(&mut self, spec: &BundleSpec, decoded: &Decoded, anew: bool) {
        let account = spec.executor.as_ref().map(Account::of);
        let (Some(Ok(account)), Some(named)) = (account, account_of(spec)) else {
            self.permitted = None;
            return;
        };
        let has_all = |known: &Verdict| known.status == Status::True;
        if !anew && self.permitted.as_ref().is_some_and(has_all) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut resources = preflight::Resources::new();
        for manifest in &decoded.manifests {
            // A kind that is not served is told of its object.
            let named = manifest.key.gvk(&manifest.version);
            if let Ok(Some(kind)) = shared.engine.kinds.resolve(&named).await {
                preflight::need(&mut resources, spec, &kind, &kind.names(&manifest.key));
            }
        }
        let (client, timeout) = (shared.engine.member.client(), shared.config.call_timeout);
        match preflight::ask(client, timeout, (&account, named), &resources).await {
            Ok(mut verdict) => {
                verdict.message = report::cut(&verdict.message);
                self.permitted = Some(verdict);
            }
            // It is asked again with the next pass.
            Err(error) => tracing::debug!(
                bundle = self.name,
                error = error.message(),
                "the rights of the executor were not asked"
            ),
        }
    }

    /// Puts what is known of it into a report.
    pub(super) fn say_rights(&self, status: &mut BundleStatus, generation: i64, now: Timestamp) {
        match self.permitted.clone() {
            Some(verdict) => condition::set(&mut status.conditions, verdict, Some(generation), now),
            None => status
                .conditions
                .retain(|condition| condition.type_ != EXECUTOR_PERMITTED),
        }
    }
}
