//! Recreate: an object whose immutable field is to change is deleted and made again, where the bundle says so. The shell
//! around [`immutable`](crate::apply::immutable).
//!
//! It takes two looks: the first one writes into the ledger that the object is intended anew, the second one deletes
//! it, and the create follows as for any object that is missing. So a death in between leaves nothing deleted that the
//! next pass does not make again.

use crate::apply::desired::desired;
use crate::apply::ignore::recreate_fields;
use crate::apply::immutable::{Permit, may_recreate, message, refusals};
use crate::apply::outcome::{Outcome, RECREATING};
use crate::apply::strategy::Treatment;
use crate::apply::{Engine, Order, Task};
use crate::delay::backoff;
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::object::{self, ObjectKey};
use roundhouse_api::ledger::LedgerOutcome;
use serde_json::Value;
use std::time::Duration;

/// How long a pass waits for a deleted object to be gone; a later pass goes on from there.
const GONE_TRIES: u32 = 6;
const GONE_MIN: Duration = Duration::from_millis(50);
const GONE_MAX: Duration = Duration::from_secs(1);

/// A change that the member refused.
#[derive(Clone, Copy)]
pub(crate) struct Refused<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) target: &'a ObjectKey,
    pub(crate) live: &'a Value,
    /// The object as it was to become.
    pub(crate) wanted: &'a Value,
    pub(crate) treatment: Treatment<'a>,
}

/// What follows a refused change.
pub(crate) enum After {
    /// It was not about immutable fields.
    Other,
    /// The object is gone: it is looked at again, and made.
    Gone,
    /// The manifest ends so.
    Ends(Outcome),
}

impl Engine {
    /// Deletes the object if its immutable fields are why it was refused and it may be made again.
    pub(crate) async fn make_way(
        &self,
        error: &CallError,
        refused: Refused<'_>,
        task: Task<'_>,
        order: Order<'_>,
    ) -> Result<After, CallError> {
        let fields = error.status().map(refusals).unwrap_or_default();
        if fields.is_empty() {
            return Ok(After::Other);
        }
        let (key, strategy) = (&task.manifest.key, refused.treatment.type_);
        let fails =
            |reason: &'static str, message: String| Ok(After::Ends(Outcome::Failed { reason, message }));
        // The decision refused a list that does not parse.
        let listed = recreate_fields(refused.treatment).unwrap_or_default();
        let permit = Permit {
            strategy,
            fields: &listed,
        };
        let uid = object::uid(refused.live);
        let (Some(uid), true) = (
            uid,
            may_recreate(permit, key, &fields, refused.live, refused.wanted),
        ) else {
            return fails("Immutable", message(key, &fields, strategy));
        };
        let intended = task
            .entry
            .is_some_and(|entry| entry.outcome == LedgerOutcome::Intended);
        if !intended {
            return Ok(After::Ends(recreating(format!(
                "{key} is deleted and made again"
            ))));
        }
        if let Err(error) = self.check_create(refused, task, order).await {
            let message = format!(
                "{key} is not deleted to be made again, because the cluster would refuse the new one: {}",
                error.message()
            );
            return match error.fault() {
                Fault::Lasting(reason) => fails(reason, message),
                _ => Err(error),
            };
        }
        // What changed meanwhile is looked at again, as after any conflict.
        self.member
            .delete(refused.kind, refused.target, refused.live)
            .await?;
        self.wait_until_gone(refused, uid).await
    }

    /// Asks whether the new object would be accepted, without storing it: a deleted object does not come back.
    async fn check_create(
        &self,
        refused: Refused<'_>,
        task: Task<'_>,
        order: Order<'_>,
    ) -> Result<(), CallError> {
        let (mut object, _) = desired(task.manifest, &order.terms.marker, 0);
        if !refused.kind.namespaced
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        let answer = self
            .member
            .try_create(refused.kind, refused.target, &object)
            .await;
        match answer {
            Ok(()) => Ok(()),
            // All that stands against it is the object that is about to go.
            Err(error) if error.fault() == Fault::Conflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn wait_until_gone(&self, refused: Refused<'_>, uid: &str) -> Result<After, CallError> {
        for attempt in 0..GONE_TRIES {
            let left = self.member.get(refused.kind, refused.target).await?;
            if left.is_none_or(|left| object::uid(&left) != Some(uid)) {
                return Ok(After::Gone);
            }
            tokio::time::sleep(backoff(attempt, GONE_MIN, GONE_MAX)).await;
        }
        let message = format!(
            "{} is being deleted, and is made again when it is gone",
            refused.target
        );
        Ok(After::Ends(recreating(message)))
    }
}

fn recreating(message: String) -> Outcome {
    Outcome::Delayed {
        reason: RECREATING,
        message,
    }
}
