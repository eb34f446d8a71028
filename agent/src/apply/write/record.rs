//! Record: what is remembered of an attempt, and what the ledger is told of it.

use super::Ended;
use crate::apply::desired::Copy;
use crate::apply::once::same_stamps;
use crate::apply::outcome::{Applied, KIND_TAKES, Outcome, RECREATING};
use crate::apply::{Done, Observation, Order, Task};
use crate::kinds::Kind;
use crate::ledger::{Ours, Settled};
use crate::object::{self, ObjectKey};
use crate::observe::{Readiness, RuleSet, Sight, end, look};
use roundhouse_api::bundle::ResourceMeta;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use roundhouse_api::names::{annotation, label};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

/// The object is what it was: so is all there is to say of it, and the ledger has it already.
pub(super) fn again(task: Task<'_>, known: &Observation) -> Done {
    Done {
        key: task.manifest.key.clone(),
        ordinal: task.manifest.ordinal,
        observation: known.clone(),
        settled: None,
    }
}

/// Everything that is remembered of an attempt.
pub(super) fn done(
    task: Task<'_>,
    order: Order<'_>,
    kind: Option<Arc<Kind>>,
    target: Option<ObjectKey>,
    ended: Ended,
) -> Done {
    let manifest = task.manifest;
    let key = &manifest.key;
    let rules = kind
        .as_deref()
        .and_then(|kind| order.rules.of(kind, target.as_ref().unwrap_or(key)));
    let sight = sight(task, &ended, rules);
    let settled = settled(task, &ended, &sight, rules);
    let (outcome, no_kind_since) = patient(task, order.anew, ended.outcome, Instant::now());
    let observation = Observation {
        meta: ResourceMeta {
            ordinal: manifest.ordinal,
            group: key.group.clone(),
            version: manifest.version.clone(),
            kind: key.kind.clone(),
            resource: kind
                .as_ref()
                .map(|kind| kind.resource.plural.clone())
                .unwrap_or_default(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        target: Some(target.unwrap_or_else(|| key.clone())),
        kind,
        labelled: is_labelled(ended.live.as_ref().unwrap_or(&manifest.object)),
        outcome,
        no_kind_since,
        readiness: sight.readiness,
        workload: sight.workload,
        examined: rules.map(|_| Box::new(sight.examined)),
        seen: ended
            .live
            .as_ref()
            .and_then(object::resource_version)
            .map(str::to_owned),
        answer: ended.answer,
        differences: ended
            .differences
            .or_else(|| task.differences.cloned())
            .unwrap_or_default(),
        quiet: ended.quiet,
    };
    Done {
        key: key.clone(),
        ordinal: manifest.ordinal,
        observation,
        settled,
    }
}

/// Whether the shared watch of the kind shows it. The manifest tells only while there is no object: what somebody took the
/// label off is seen by that watch no more, and may stay so (apply-once, drift that is only reported).
fn is_labelled(object: &Value) -> bool {
    object::label(object, label::APP_NAME).is_some()
}

/// A kind that is missing is a failure only after a while; a Bundle that was written anew waits anew.
fn patient(task: Task<'_>, anew: bool, outcome: Outcome, now: Instant) -> (Outcome, Option<Instant>) {
    let Outcome::NoKind { message, .. } = outcome else {
        return (outcome, None);
    };
    let known = task.known.filter(|_| !anew);
    let since = known.and_then(|known| known.no_kind_since).unwrap_or(now);
    let lasting = now.saturating_duration_since(since) >= KIND_TAKES;
    (Outcome::NoKind { message, lasting }, Some(since))
}

/// What the attempt left to be seen.
fn sight(task: Task<'_>, ended: &Ended, rules: Option<&RuleSet>) -> Sight {
    let manifest = task.manifest;
    let unseen = |readiness, examined| Sight {
        readiness,
        workload: None,
        examined,
    };
    match (&ended.outcome, &ended.live) {
        (Outcome::Applied(Applied::Finished), _) => {
            let failure = task.entry.and_then(|entry| entry.failure.clone());
            let readiness = failure.map_or(Readiness::Ready, |message| Readiness::Failed {
                reason: "Failed".to_owned(),
                message,
            });
            unseen(
                readiness,
                rules.map(RuleSet::examine_finished).unwrap_or_default(),
            )
        }
        // Nothing is waited for that is not to come back; the report says which it is.
        (Outcome::Applied(Applied::KeptDeleted), _) => unseen(
            Readiness::Ready,
            rules
                .map(|rules| rules.unexamined("the object was deleted and stays so"))
                .unwrap_or_default(),
        ),
        (_, Some(live)) => {
            let same = task
                .entry
                .filter(|entry| entry.uid.as_deref() == object::uid(live));
            // One that carries this very content counts at whatever generation it is: after a backup of the member is
            // restored, that may be an earlier one than was written since.
            let written = same
                .filter(|_| !same_stamps(manifest, live))
                .and_then(|entry| entry.written_generation);
            let known = task.examined(object::resource_version(live));
            look(&manifest.key, &manifest.version, live, written, rules, known)
        }
        (outcome, None) => {
            // A member that does not answer has not undone what was complete.
            let known = task.entry.filter(|entry| {
                entry.outcome == LedgerOutcome::Completed && entry.digest.as_deref() == Some(&manifest.digest)
            });
            let examined = match (outcome, known) {
                (Outcome::Delayed { .. }, Some(_)) => rules.map(RuleSet::examine_finished),
                _ => rules.map(|rules| rules.unexamined("the object was not read")),
            };
            let readiness = Readiness::Progressing("not applied yet".to_owned());
            unseen(readiness, examined.unwrap_or_default())
        }
    }
}

/// What the ledger is told.
fn settled(task: Task<'_>, ended: &Ended, sight: &Sight, rules: Option<&RuleSet>) -> Option<Settled> {
    let end = ended.live.as_ref().and_then(|live| end(&task.manifest.key, live));
    // Of an object that its rules call complete no other is made, well or badly as it ended.
    let complete = rules.is_some_and(RuleSet::completes) && sight.examined.complete() == Some(true);
    match (&ended.outcome, &ended.live) {
        (
            Outcome::Delayed {
                reason: RECREATING, ..
            },
            _,
        ) => Some(Settled::Intended),
        // Its end is seen for the last time: it is on its way out before any pass recorded it.
        (Outcome::Delayed { .. }, Some(live)) if end.is_some() && ran(task, live) => {
            let failure = end.as_ref().and_then(failure);
            ours(task, ended, live, (true, failure))
        }
        (
            Outcome::Applied(Applied::Finished | Applied::KeptDeleted)
            | Outcome::Delayed { .. }
            | Outcome::Undecodable(_),
            _,
        ) => None,
        (Outcome::Applied(Applied::Observed), _) => Some(Settled::Observed),
        (Outcome::Refused(_), _) => Some(Settled::NotOurs),
        (Outcome::Applied(_), Some(live)) => {
            let failure = match &end {
                Some(end) if rules.is_none() => failure(end),
                None if !complete => None,
                // Rules may call a bad end a good one.
                _ => failure(&sight.readiness),
            };
            ours(task, ended, live, (end.is_some() || complete, failure))
        }
        (Outcome::Applied(_) | Outcome::NoKind { .. } | Outcome::Failed { .. }, _) => Some(Settled::Failed),
    }
}

/// Whether the live object is the one that the ledger has as applied, of this very content: its end is the end of what
/// the bundle wants. One that this agent itself takes away is none.
fn ran(task: Task<'_>, live: &Value) -> bool {
    let same = |entry: &LedgerEntry| {
        let was_applied = matches!(entry.outcome, LedgerOutcome::Applied | LedgerOutcome::Completed);
        was_applied && entry.uid.is_some() && entry.uid.as_deref() == object::uid(live)
    };
    task.entry.is_some_and(same)
        && object::annotation(live, annotation::DESIRED_HASH) == Some(task.manifest.digest.as_str())
}

/// What a bad end said.
fn failure(end: &Readiness) -> Option<String> {
    match end {
        Readiness::Failed { reason, message } => Some(format!("{reason}: {message:.256}")),
        Readiness::Ready | Readiness::Progressing(_) => None,
    }
}

/// The record of an object that is ours, and of whether and how it came to its end.
fn ours(
    task: Task<'_>,
    ended: &Ended,
    live: &Value,
    (completed, failure): (bool, Option<String>),
) -> Option<Settled> {
    let manifest = task.manifest;
    let written = matches!(
        ended.outcome,
        Outcome::Applied(Applied::Created | Applied::Changed)
    );
    Some(Settled::Ours(Box::new(Ours {
        version: manifest.version.clone(),
        uid: object::uid(live)?.to_owned(),
        digest: manifest.digest.clone(),
        revision: object::label(&manifest.object, label::REVISION).map(str::to_owned),
        application_generation: object::annotation(&manifest.object, annotation::GENERATION)
            .map(str::to_owned),
        generation: object::generation(live),
        written,
        completed,
        failure,
        copy: ended.copy.as_ref().map(|copy| match copy {
            Copy::Ledger(value) => Some(value.clone()),
            Copy::Annotation | Copy::OptedOut => None,
        }),
        kept: ended.kept.clone(),
    })))
}
