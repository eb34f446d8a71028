//! Report: the one status of a Bundle, computed whole from what a pass found; pure. It is about the generation that the
//! pass applied and about no other.

mod difference;
mod entry;
mod rules;
mod send;
mod tally;

pub(crate) use send::send;

use crate::apply::Observation;
use entry::{Entry, listed};
use jiff::Timestamp;
use roundhouse_api::bundle::{
    APPLIED, AVAILABLE, BundlePhase, BundleStatus, Counts, DEGRADED, MAX_MESSAGE, MAX_WORKLOADS,
    OmittedWorkloads, PROGRESSING, REMOVAL_REFUSED, ResourceMeta, WorkloadStatus,
};
use roundhouse_api::condition::{self, Status, Verdict};
use tally::Tally;

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
    /// It stays until somebody confirms its removal, or it runs nothing any more.
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
    let mut omitted = None;
    let mut entries = Vec::new();
    let mut said = Vec::new();
    for observation in observations {
        tally.count(observation);
        match &observation.workload {
            Some(workload) if workloads.len() < MAX_WORKLOADS => workloads.push(workload.clone()),
            Some(workload) => omit(&mut omitted, workload),
            None => {}
        }
        entries.extend(Entry::of(observation));
        said.push(observation);
    }
    entries.extend(leaving.iter().map(Entry::leaving));
    let phase = tally.phase();
    let mut status = base(subject, phase, before);
    status.counts = Some(tally.counts);
    status.workloads = workloads;
    status.omitted_workloads = omitted;
    status.resource_status = listed(entries, subject.generation, before, now);
    for verdict in tally.verdicts(phase, leaving) {
        condition::set(&mut status.conditions, verdict, Some(subject.generation), now);
    }
    rules::aggregate(&mut status.conditions, &said, subject.generation, now);
    status
}

fn omit(omitted: &mut Option<OmittedWorkloads>, workload: &WorkloadStatus) {
    let omitted = omitted.get_or_insert_default();
    omitted.count += 1;
    omitted.desired += u64::from(workload.desired);
    omitted.ready += u64::from(workload.ready_replicas());
}

/// Says in a report what waits, beside what it says already.
pub(crate) fn say_waiting(status: &mut BundleStatus, message: &str) {
    let progressing = status
        .conditions
        .iter_mut()
        .find(|said| said.type_ == PROGRESSING);
    if let Some(said) = progressing {
        said.message = match said.message.as_str() {
            "" => cut(message),
            before => cut(&format!("{before}; {message}")),
        };
    }
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
    let entries = leaving.iter().map(Entry::leaving).collect();
    status.resource_status = listed(entries, subject.generation, before, now);
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

/// Whether two reports differ in nothing but texts and reported values: those may change all the time.
pub(crate) fn differ_in_texts_only(before: &BundleStatus, after: &BundleStatus) -> bool {
    let bare = |status: &BundleStatus| {
        let mut status = status.clone();
        let manifests = status
            .resource_status
            .iter_mut()
            .flat_map(|resources| &mut resources.manifests);
        let conditions = manifests.flat_map(|manifest| {
            manifest.status_feedback = None;
            &mut manifest.conditions
        });
        for condition in conditions.chain(&mut status.conditions) {
            condition.message.clear();
        }
        status
    };
    before != after && bare(before) == bare(after)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Cuts a message to [`MAX_MESSAGE`] bytes, at a character.
pub(crate) fn cut(message: &str) -> String {
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
