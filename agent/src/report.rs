//! Report: the one status of a Bundle, computed whole from what a pass found; pure. It is about the generation that the
//! pass applied and about no other.

mod difference;
mod send;
mod tally;

pub(crate) use send::send;

use crate::apply::Observation;
use crate::observe::Readiness;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use roundhouse_api::bundle::{
    APPLIED, AVAILABLE, BundlePhase, BundleStatus, Counts, DEGRADED, MAX_FAILURES, MAX_MESSAGE,
    MAX_WORKLOADS, ManifestCondition, PROGRESSING, REMOVAL_REFUSED, ResourceMeta, ResourceStatus,
};
use roundhouse_api::condition::{self, Status, Verdict};
use tally::Tally;

/// Condition type of a single manifest: it is as the bundle wants it.
const MANIFEST_APPLIED: &str = "Applied";
/// Condition type of a single manifest: it does what it is for.
const MANIFEST_AVAILABLE: &str = "Available";
/// Condition type of an object that is no longer in the bundle.
const REMOVED: &str = "Removed";

/// What a report is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Hash of the content; `None` leaves it out.
    pub(crate) hash: Option<&'a str>,
    /// Generation that was acted on.
    pub(crate) generation: i64,
    /// Epoch that is obeyed.
    pub(crate) epoch: Option<i64>,
}

/// An object on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) meta: ResourceMeta,
    /// What is waited for.
    pub(crate) message: String,
    /// It stays until somebody confirms its removal, or it asks for no replicas.
    pub(crate) refused: bool,
}

impl Leaving {
    fn reason(&self) -> &'static str {
        if self.refused { REMOVAL_REFUSED } else { "Removing" }
    }
}

/// The report of a bundle that was applied.
pub(crate) fn applied<'a>(
    subject: Subject<'_>,
    observations: impl Iterator<Item = &'a Observation>,
    leaving: &[Leaving],
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> BundleStatus {
    let mut tally = Tally::default();
    let mut workloads = Vec::new();
    let mut failures = Vec::new();
    for observation in observations {
        tally.count(observation);
        if let Some(workload) = &observation.workload
            && workloads.len() < MAX_WORKLOADS
        {
            workloads.push(workload.clone());
        }
        failures.extend(failure(observation, subject.generation, before, now));
    }
    failures.extend(leaving.iter().map(|leaving| {
        let verdict = Verdict {
            type_: REMOVED,
            status: Status::False,
            reason: leaving.reason(),
            message: cut(&leaving.message),
        };
        manifest_condition(&leaving.meta, vec![verdict], subject.generation, before, now)
    }));
    let phase = tally.phase();
    let mut status = base(subject, phase, before);
    status.counts = Some(tally.counts);
    status.workloads = workloads;
    status.resource_status = bounded(failures);
    for verdict in tally.verdicts(phase, leaving) {
        condition::set(&mut status.conditions, verdict, Some(subject.generation), now);
    }
    status
}

/// The report of a bundle of which nothing was applied, for a reason that is about the bundle as a whole.
pub(crate) fn refused(
    subject: Subject<'_>,
    reason: &'static str,
    message: &str,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> BundleStatus {
    let mut status = base(subject, BundlePhase::Failed, before);
    for (type_, holds) in [(APPLIED, false), (PROGRESSING, false), (DEGRADED, true)] {
        let verdict = Verdict {
            type_,
            status: holds.into(),
            reason,
            message: cut(message),
        };
        condition::set(&mut status.conditions, verdict, Some(subject.generation), now);
    }
    status
}

/// The report of a bundle that is not acted on: everything that was reported stands, and why nothing moves is said.
pub(crate) fn held(
    generation: i64,
    epoch: Option<i64>,
    reason: &'static str,
    message: &str,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> BundleStatus {
    let mut status = before.cloned().unwrap_or_default();
    status.epoch = epoch;
    let verdict = Verdict {
        type_: PROGRESSING,
        status: Status::False,
        reason,
        message: cut(message),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
    status
}

/// The report of a bundle that is being deleted.
pub(crate) fn removing(
    subject: Subject<'_>,
    leaving: &[Leaving],
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> BundleStatus {
    let phase = if leaving.is_empty() {
        BundlePhase::Cleaned
    } else {
        BundlePhase::Progressing
    };
    let mut status = base(subject, phase, before);
    status.counts = Some(Counts {
        total: count(leaving.len()),
        ..Counts::default()
    });
    let refused = leaving.iter().find(|leaving| leaving.refused);
    let (reason, message) = match refused.or(leaving.first()) {
        None => ("Cleaned", String::new()),
        Some(first) => {
            let message = format!(
                "{} objects are left, {}: {}",
                leaving.len(),
                first.meta.name,
                first.message
            );
            (first.reason(), cut(&message))
        }
    };
    status.resource_status = bounded(
        leaving
            .iter()
            .map(|leaving| {
                let message = cut(&leaving.message);
                let verdict = Verdict {
                    type_: REMOVED,
                    status: Status::False,
                    reason: leaving.reason(),
                    message,
                };
                manifest_condition(&leaving.meta, vec![verdict], subject.generation, before, now)
            })
            .collect(),
    );
    for (type_, holds) in [
        (APPLIED, false),
        (AVAILABLE, false),
        (PROGRESSING, !leaving.is_empty() && refused.is_none()),
        (DEGRADED, refused.is_some()),
    ] {
        let verdict = Verdict {
            type_,
            status: holds.into(),
            reason,
            message: message.clone(),
        };
        condition::set(&mut status.conditions, verdict, Some(subject.generation), now);
    }
    status
}

fn base(subject: Subject<'_>, phase: BundlePhase, before: Option<&BundleStatus>) -> BundleStatus {
    BundleStatus {
        hash: subject.hash.map(str::to_owned),
        observed_generation: Some(subject.generation),
        epoch: subject.epoch,
        phase: Some(phase),
        conditions: before.map(|before| before.conditions.clone()).unwrap_or_default(),
        ..BundleStatus::default()
    }
}

/// The entry of a manifest that is not as it should be; `None` for a healthy one and for one that is on its way.
fn failure(
    observation: &Observation,
    generation: i64,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> Option<ManifestCondition> {
    let verdicts: Vec<Verdict> = trouble(observation)
        .into_iter()
        .chain(difference::verdicts(observation))
        .collect();
    let meta = &observation.meta;
    (!verdicts.is_empty()).then(|| manifest_condition(meta, verdicts, generation, before, now))
}

/// What failed.
fn trouble(observation: &Observation) -> Option<Verdict> {
    if !observation.outcome.is_applied() {
        return Some(Verdict {
            type_: MANIFEST_APPLIED,
            status: Status::False,
            reason: observation.outcome.reason(),
            message: cut(&observation.outcome.message()),
        });
    }
    let Readiness::Failed { reason, message } = &observation.readiness else {
        return None;
    };
    Some(Verdict {
        type_: MANIFEST_AVAILABLE,
        status: Status::False,
        reason: "Failed",
        message: cut(&format!("{reason}: {message}")),
    })
}

fn manifest_condition(
    meta: &ResourceMeta,
    verdicts: Vec<Verdict>,
    generation: i64,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> ManifestCondition {
    let before = before
        .and_then(|before| before.resource_status.as_ref())
        .and_then(|status| {
            status
                .manifests
                .iter()
                .find(|entry| same_object(&entry.resource_meta, meta))
        });
    // Conditions that no longer hold are not carried over: a manifest lists its troubles only.
    let still = |condition: &&Condition| verdicts.iter().any(|verdict| verdict.type_ == condition.type_);
    let mut conditions: Vec<Condition> = before
        .map(|before| before.conditions.iter().filter(still).cloned().collect())
        .unwrap_or_default();
    for verdict in verdicts {
        condition::set(&mut conditions, verdict, Some(generation), now);
    }
    ManifestCondition {
        resource_meta: meta.clone(),
        conditions,
        status_feedback: None,
    }
}

/// Whether two entries are about the same object, wherever in the bundle its manifest is. Manifests that name no object
/// are told apart by their place.
fn same_object(a: &ResourceMeta, b: &ResourceMeta) -> bool {
    let identity = |meta: &ResourceMeta| {
        (
            meta.group.clone(),
            meta.kind.clone(),
            meta.namespace.clone(),
            meta.name.clone(),
        )
    };
    identity(a) == identity(b) && (!a.name.is_empty() || a.ordinal == b.ordinal)
}

fn bounded(mut failures: Vec<ManifestCondition>) -> Option<ResourceStatus> {
    if failures.is_empty() {
        return None;
    }
    failures.sort_by_key(|failure| failure.resource_meta.ordinal);
    let omitted = failures.len().saturating_sub(MAX_FAILURES);
    failures.truncate(MAX_FAILURES);
    Some(ResourceStatus {
        manifests: failures,
        omitted: (omitted > 0).then(|| count(omitted)),
        feedback_truncated: false,
    })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Cuts a message to [`MAX_MESSAGE`] bytes, at a character.
fn cut(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    const MORE: &str = "…";
    let mut end = MAX_MESSAGE - MORE.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MORE}", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
