//! A Bundle that is there no more.

use super::{Next, Worker};
use crate::apply::fence::Write;
use crate::apply::intent::{Intent, Sight, asks_for_confirmation, intent};
use crate::bundle::Held;
use crate::error::CallError;
use crate::executor::executor_of;
use crate::ledger;
use roundhouse_api::bundle::BundleSpec;
use roundhouse_api::ledger::LedgerState;
use std::collections::BTreeMap;

impl Worker {
    /// The Bundle was deleted: its objects go if that is evidence.
    pub(super) async fn deleted(&mut self, held: &Held) -> Result<Next, CallError> {
        if self.ledger.spec().state == LedgerState::Orphaned {
            // Judged before, as no evidence: a namespace that came back meanwhile makes no evidence of it.
            return self.missing().await;
        }
        // What cannot be read is no evidence.
        let Ok(mut spec) = held.spec() else {
            return self.missing().await;
        };
        if self.engine(&spec).is_err() {
            spec.executor = self.remembered().executor;
        }
        let confirmed = asks_for_confirmation(&spec) && self.went_by_itself(held).await?;
        let write = self.write(held);
        let sight = Sight::Deleted {
            write,
            spec: &spec,
            confirmed,
        };
        let intent = intent(sight, self.ledger.spec());
        self.gone(intent, Some(write), &spec).await
    }

    /// There is no Bundle, and nobody saw it go.
    pub(super) async fn missing(&mut self) -> Result<Next, CallError> {
        let intent = intent(Sight::Missing, self.ledger.spec());
        self.gone(intent, None, &self.remembered()).await
    }

    /// What the ledger still says of a Bundle that cannot be read any more.
    fn remembered(&self) -> BundleSpec {
        BundleSpec {
            executor: self.ledger.spec().executor.clone().map(executor_of),
            delete_option: self.ledger.spec().delete_option.clone(),
            ..BundleSpec::default()
        }
    }

    async fn gone(
        &mut self,
        intent: Intent,
        evidence: Option<Write<'_>>,
        spec: &BundleSpec,
    ) -> Result<Next, CallError> {
        self.applied = None;
        self.reported = None;
        match intent {
            Intent::Remove => {
                self.shared.vanished.note(&self.name, false);
                self.remove(None, evidence, spec).await
            }
            Intent::Forget => {
                self.shared.vanished.note(&self.name, false);
                self.ledger.remove().await?;
                Ok(Next::End)
            }
            Intent::Orphan => {
                self.observations.clear();
                self.unsure.clear();
                self.shared.objects.want(&self.name, BTreeMap::new());
                let held = ledger::orphan(self.ledger.spec());
                tracing::warn!(
                    bundle = self.name,
                    objects = held.objects.len(),
                    "the Bundle vanished without spec.deletion: its objects are held"
                );
                self.ledger.write(held).await?;
                self.shared.vanished.note(&self.name, true);
                Ok(Next::Resync)
            }
            Intent::Apply | Intent::Hold { .. } | Intent::Ignore(_) => Ok(Next::Resync),
        }
    }
}
