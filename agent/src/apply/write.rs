//! Write: one manifest against the member. The shell around [`decide`](crate::apply::decide): look, decide, send, and
//! look again if something changed meanwhile.
//!
//! | module | what |
//! | --- | --- |
//! | `make` | an object that is missing, and the namespace it may need |
//! | `change` | an object that is changed by a patch or by an apply on the server side |
//! | `record` | what is remembered of it, and what the ledger is told |

mod change;
mod make;
mod record;

pub(super) use change::quiet;

use crate::apply::decide::{Step, Terms, decide};
use crate::apply::desired::{Copy, desired, weight_of_others};
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::server_side::manager;
use crate::apply::strategy::{Treatment, treatment};
use crate::apply::target::{no_kind, target};
use crate::apply::unchanged::{Fingerprint, unchanged};
use crate::apply::{Done, Engine, Order, Task};
use crate::delay::backoff;
use crate::drift::{Differences, Look, Written};
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::member::Sighting;
use crate::object::{self, ObjectKey};
use record::{again, done};
use roundhouse_api::bundle::{Drift, UpdateStrategyType};
use roundhouse_api::names::annotation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often one manifest is tried in one pass against an object that changes meanwhile.
const TRIES: u32 = 5;
const CONFLICT_MIN: Duration = Duration::from_millis(10);
const CONFLICT_MAX: Duration = Duration::from_millis(500);

/// What an attempt ended with.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) live: Option<Value>,
    /// Where the last-applied copy went, if the object was written or looked at and found ours.
    pub(super) copy: Option<Copy>,
    /// What differs now; `None` if the object was not looked at.
    pub(super) differences: Option<Differences>,
    /// See [`Observation::answer`].
    pub(super) answer: Option<Fingerprint>,
    /// See [`Observation::quiet`].
    pub(super) quiet: Option<String>,
    /// What apply-once rules kept, for the ledger; see [`Settled::Ours`].
    pub(super) kept: Option<BTreeMap<String, Value>>,
}

impl Ended {
    pub(super) fn with(outcome: Outcome, live: Option<Value>) -> Self {
        Ended {
            outcome,
            live,
            copy: None,
            differences: None,
            answer: None,
            quiet: None,
            kept: None,
        }
    }

    pub(super) fn copied(self, copy: Copy) -> Self {
        Ended {
            copy: Some(copy),
            ..self
        }
    }

    pub(super) fn keeping(self, kept: Option<BTreeMap<String, Value>>) -> Self {
        Ended { kept, ..self }
    }

    pub(super) fn quieted(self, quiet: Option<String>) -> Self {
        Ended { quiet, ..self }
    }

    /// Remembers the answer that was judged, if the object is as wanted and still the version of that answer.
    fn judged(self, answer: Option<Fingerprint>, version: Option<&str>) -> Self {
        let same = self.live.as_ref().and_then(object::resource_version) == version;
        let unchanged = self.outcome == Outcome::Applied(Applied::Unchanged);
        Ended {
            answer: answer.filter(|_| same && unchanged),
            ..self
        }
    }

    pub(super) fn differing(self, differences: Differences) -> Self {
        Ended {
            differences: Some(differences),
            ..self
        }
    }
}

/// What a look at an object found.
type Read = Result<Sighting, CallError>;

/// One manifest and the object that it means, for one attempt.
#[derive(Debug, Clone, Copy)]
struct Attempt<'a> {
    task: Task<'a>,
    order: Order<'a>,
    kind: &'a Kind,
    target: &'a ObjectKey,
    treatment: Treatment<'a>,
    look: Look<'a>,
}

impl Engine {
    /// Applies one manifest.
    pub(crate) async fn apply_one(&self, task: Task<'_>, order: Order<'_>) -> Done {
        let manifest = task.manifest;
        let kind = match self.kinds.resolve(&manifest.key.gvk(&manifest.version)).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return done(task, order, None, None, Ended::with(no_kind(manifest), None)),
            Err(error) => return done(task, order, None, None, Ended::with(failed(&error), None)),
        };
        let target = match target(manifest, &kind) {
            Ok(target) => target,
            Err(outcome) => return done(task, order, Some(kind), None, Ended::with(outcome, None)),
        };
        let seen = match unchanged(&task, &order, &kind, &target) {
            Some((known, answer)) => match self.member.look(&kind, &target, Some(answer)).await {
                Ok(Sighting::Known) => return again(task, known),
                read => Some(read),
            },
            None => None,
        };
        let ended = self.attempt(task, order, (&kind, &target), seen).await;
        done(task, order, Some(kind), Some(target), ended)
    }

    /// Tries until something is settled; `seen` is what a look at the object just found, if there was one.
    async fn attempt(
        &self,
        task: Task<'_>,
        order: Order<'_>,
        (kind, target): (&Kind, &ObjectKey),
        mut seen: Option<Read>,
    ) -> Ended {
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(backoff(attempt - 1, CONFLICT_MIN, CONFLICT_MAX)).await;
            }
            let treatment = treatment(order.configs, kind, target);
            let attempt = Attempt {
                task,
                order,
                kind,
                target,
                treatment,
                look: Look {
                    manifest: task.manifest,
                    anew: order.anew,
                    now: Instant::now(),
                    applies_as: manager(treatment),
                },
            };
            match self.look_and_write(attempt, seen.take()).await {
                Ok(Some(ended)) => return ended,
                Ok(None) => {}
                Err(error) if matches!(error.fault(), Fault::Conflict | Fault::NotFound) => {}
                Err(error) if error.fault() == Fault::NotServed => {
                    return Ended::with(self.kind_is_gone(target), None);
                }
                Err(error) => return Ended::with(failed(&error), None),
            }
        }
        let message = format!("{target} changed during each of {TRIES} tries");
        Ended::with(
            Outcome::Delayed {
                reason: "Conflict",
                message,
            },
            None,
        )
    }

    /// Looks at the object, decides, and sends what was decided; `None` when it is to be looked at again.
    async fn look_and_write(
        &self,
        attempt: Attempt<'_>,
        seen: Option<Read>,
    ) -> Result<Option<Ended>, CallError> {
        let Attempt {
            task,
            order,
            treatment,
            look,
            ..
        } = attempt;
        let read = match seen {
            Some(read) => read,
            None => self.member.look(attempt.kind, attempt.target, None).await,
        };
        let (live, answer) = match read {
            Ok(Sighting::Live(live, answer)) => (Some(live), Some(answer)),
            Ok(Sighting::Missing) => (None, None),
            Ok(Sighting::Known) => return Ok(None),
            // Not the object is missing: whether it is there is not known.
            Err(error) if error.fault() == Fault::NotServed => {
                return Ok(Some(Ended::with(self.kind_is_gone(attempt.target), None)));
            }
            // Nothing was sent: there is nothing to try again at once.
            Err(error) => return Ok(Some(Ended::with(failed(&error), None))),
        };
        if let Some(live) = &live
            && self.outdates(attempt, live).await?
        {
            return Ok(None);
        }
        let version = live
            .as_ref()
            .and_then(object::resource_version)
            .map(str::to_owned);
        let mut differences = task.differences.cloned().unwrap_or_default();
        let step = decide(task.manifest, live.as_ref(), task.entry, treatment, order.terms);
        let ended = match (step, live) {
            (Step::Done(outcome), live) => {
                differences.none(look);
                let ended = looked_at(task, order, treatment, outcome, live);
                Some(ended.differing(differences))
            }
            (Step::Drifted { patch }, Some(live)) => {
                differences.reported(&patch, &live, look);
                let applied = match differences.drifted.is_empty() {
                    true => Applied::Unchanged,
                    false => Applied::Drifted,
                };
                let ended = looked_at(task, order, treatment, Outcome::Applied(applied), Some(live));
                Some(ended.differing(differences))
            }
            (Step::Create { object, copy }, _) => self.make(attempt, object, copy, differences).await?,
            (Step::Apply { config, manner }, live) => {
                self.apply_over(attempt, live, config, manner, differences)
                    .await?
            }
            (Step::HandOver { patch }, Some(live)) => self.hand_over(attempt, &live, patch).await?,
            (
                Step::Patch {
                    patch,
                    patch_type,
                    copy,
                },
                Some(live),
            ) => {
                let change = change::Change {
                    patch,
                    patch_type,
                    copy,
                };
                self.change(attempt, live, change, differences).await?
            }
            (Step::Drifted { .. } | Step::HandOver { .. } | Step::Patch { .. }, None) => None,
        };
        Ok(ended.map(|ended| ended.judged(answer, version.as_deref())))
    }

    /// Gives an object that is wanted another version if a deletion of earlier may still meet it; whether it has one now. Where the
    /// member does not let it have one, the object is as safe as it was, and nothing else waits for that.
    async fn outdates(&self, attempt: Attempt<'_>, live: &Value) -> Result<bool, CallError> {
        let deletions = self.member.deletions();
        // An earlier agent's are by the name in its ledger.
        let keys = [attempt.target, &attempt.task.manifest.key];
        if !keys.into_iter().any(|key| deletions.may_meet(key, live)) {
            return Ok(false);
        }
        match self.member.outdate(attempt.kind, attempt.target, live).await {
            Ok(true) => {
                keys.into_iter().for_each(|key| deletions.settled(key));
                Ok(true)
            }
            Err(error) if matches!(error.fault(), Fault::Lasting(_)) => {
                tracing::warn!(
                    object = %attempt.target, error = error.message(),
                    "is wanted again, and a deletion of it that was not answered may still arrive"
                );
                Ok(false)
            }
            answer => {
                if answer.as_ref().is_err_and(CallError::is_undecided) {
                    keys.into_iter().for_each(|key| deletions.outdating(key, live));
                }
                answer
            }
        }
    }
}

/// What the member made of a write: whether it took it up, or decided otherwise in the same request.
fn answered(attempt: Attempt<'_>, sent: Written<'_>, ended: Ended, mut differences: Differences) -> Ended {
    let Attempt {
        task,
        order,
        treatment,
        ..
    } = attempt;
    let Some(after) = &ended.live else {
        return ended.differing(differences);
    };
    let terms = Terms {
        drift: Drift::Correct,
        ..order.terms.clone()
    };
    let left = match decide(task.manifest, Some(after), task.entry, treatment, &terms) {
        Step::Patch { patch, .. } | Step::Apply { config: patch, .. } => Some(patch),
        Step::Done(_) | Step::Drifted { .. } | Step::Create { .. } | Step::HandOver { .. } => None,
    };
    differences.answered(&sent, left.as_ref(), after, Instant::now());
    ended.differing(differences)
}

/// A decision that sends nothing. An object found unchanged whose copy belongs into the ledger gets it there again, in
/// case the ledger was lost.
fn looked_at(
    task: Task<'_>,
    order: Order<'_>,
    treatment: Treatment<'_>,
    outcome: Outcome,
    live: Option<Value>,
) -> Ended {
    let copy = match (&outcome, &live) {
        (Outcome::Applied(Applied::Unchanged), _)
            if treatment.type_ == UpdateStrategyType::ServerSideApply =>
        {
            Some(Copy::OptedOut)
        }
        (Outcome::Applied(Applied::Unchanged), Some(live))
            if object::annotation(live, annotation::LAST_APPLIED).is_none() =>
        {
            Some(
                desired(
                    task.manifest,
                    &order.terms.marker,
                    weight_of_others(task.manifest, live),
                )
                .1,
            )
        }
        _ => None,
    };
    let kept = match (&outcome, &live) {
        (Outcome::Applied(_), Some(live)) => kept(task, order, live),
        _ => None,
    };
    Ended {
        copy,
        kept,
        ..Ended::with(outcome, live)
    }
}

/// What the ledger is told of values that a rule kept, on the live object as it was before.
pub(super) fn kept(task: Task<'_>, order: Order<'_>, live: &Value) -> Option<BTreeMap<String, Value>> {
    match order.terms.rules.of(&task.manifest.object) {
        Ok(Some(keeping)) => keeping.record(task.manifest, live, task.entry).ok()?,
        Ok(None) | Err(_) => Some(BTreeMap::new()),
    }
}

/// The outcome of a call that failed.
pub(crate) fn failed(error: &CallError) -> Outcome {
    let message = error.message();
    match error.fault() {
        Fault::Passing(reason) => Outcome::Delayed { reason, message },
        Fault::Conflict => Outcome::Delayed {
            reason: "Conflict",
            message,
        },
        Fault::NotFound | Fault::Gone => Outcome::Delayed {
            reason: "NotFound",
            message,
        },
        Fault::NotServed => Outcome::Delayed {
            reason: "NotServed",
            message,
        },
        Fault::Lasting(reason) => Outcome::Failed { reason, message },
    }
}
