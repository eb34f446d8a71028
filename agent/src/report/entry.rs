//! The entries of `resourceStatus.manifests`: manifests that fail, objects on their way out, and manifests that rules are
//! about. Everything else is only counted.

use super::{Leaving, count, cut, difference};
use crate::apply::Observation;
use crate::observe::{Examined, Readiness, Synced};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use roundhouse_api::bundle::{
    BundleStatus, FeedbackValue, MAX_FAILURES, MAX_FEEDBACK, ManifestCondition, ResourceMeta, ResourceStatus,
    StatusFeedback,
};
use roundhouse_api::condition::Status;

/// Condition type of a single manifest: it is as the bundle wants it.
const APPLIED: &str = "Applied";
/// Condition type of a single manifest: it does what it is for.
const AVAILABLE: &str = "Available";
/// Condition type of a single manifest: all values that were asked for could be read.
const SYNCED: &str = "StatusFeedbackSynced";
/// Condition type of an object that is no longer in the bundle.
const REMOVED: &str = "Removed";
/// At most this many manifests that are fine are listed for what their rules say.
const MAX_EXAMINED: usize = 100;

/// What is said of one manifest.
pub(super) struct Entry<'a> {
    meta: &'a ResourceMeta,
    conditions: Vec<Says<'a>>,
    feedback: &'a [FeedbackValue],
    /// It is not as it should be: listed first.
    failing: bool,
}

pub(super) struct Says<'a> {
    type_: &'a str,
    status: Status,
    reason: &'a str,
    message: String,
}

pub(super) fn says<'a>(type_: &'a str, status: bool, reason: &'a str, message: &str) -> Says<'a> {
    Says {
        type_,
        status: status.into(),
        reason,
        message: cut(message),
    }
}

impl<'a> Entry<'a> {
    /// The entry of a manifest; `None` where there is nothing but good to say and no rule asks.
    pub(super) fn of(observation: &'a Observation) -> Option<Self> {
        let applied = observation.outcome.is_applied();
        let differs: Vec<Says<'_>> = difference::says_of(observation).collect();
        let broken = matches!(observation.readiness, Readiness::Failed { .. });
        let failing = !applied || broken || !differs.is_empty();
        let examined = observation.examined.as_deref();
        if !failing && examined.is_none() {
            return None;
        }
        let mut conditions = Vec::new();
        if !applied || examined.is_some() {
            let (reason, message) = (observation.outcome.reason(), observation.outcome.message());
            conditions.push(says(APPLIED, applied, reason, &message));
        }
        if applied {
            conditions.push(available(&observation.readiness));
        }
        conditions.extend(examined.into_iter().flat_map(by_rules));
        conditions.extend(differs);
        Some(Entry {
            meta: &observation.meta,
            conditions,
            feedback: examined.map_or(&[], |examined| &examined.feedback),
            failing,
        })
    }

    /// The entry of an object on its way out.
    pub(super) fn leaving(leaving: &'a Leaving) -> Self {
        Entry {
            meta: &leaving.meta,
            conditions: vec![says(REMOVED, false, leaving.reason(), &leaving.message)],
            feedback: &[],
            failing: true,
        }
    }
}

fn available(readiness: &Readiness) -> Says<'_> {
    match readiness {
        Readiness::Ready => says(AVAILABLE, true, "Ready", ""),
        Readiness::Progressing(message) => says(AVAILABLE, false, "Progressing", message),
        Readiness::Failed { reason, message } => {
            says(AVAILABLE, false, "Failed", &format!("{reason}: {message}"))
        }
    }
}

/// What the rules say; a rule with condition `Available` has decided that condition already.
fn by_rules(examined: &Examined) -> impl Iterator<Item = Says<'_>> {
    let synced = examined.synced.as_ref().map(|Synced(synced)| match synced {
        Ok(()) => says(SYNCED, true, "StatusFeedbackSynced", ""),
        Err(faults) => says(SYNCED, false, "StatusFeedbackSyncFailed", faults),
    });
    let rules = examined
        .conditions
        .iter()
        .filter(|condition| condition.type_ != AVAILABLE);
    synced.into_iter().chain(rules.map(|condition| Says {
        type_: &condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: cut(&condition.message),
    }))
}

/// The list, by ordinal and bounded: failures first in line, then what rules ask for, and values as long as they fit.
pub(super) fn listed(
    entries: Vec<Entry<'_>>,
    generation: i64,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> Option<ResourceStatus> {
    let (mut failing, mut fine): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.failing);
    for list in [&mut failing, &mut fine] {
        list.sort_by_key(|entry| entry.meta.ordinal);
    }
    let omitted = failing.len().saturating_sub(MAX_FAILURES);
    let unlisted = failing
        .iter()
        .skip(MAX_FAILURES)
        .chain(fine.iter().skip(MAX_EXAMINED));
    let mut truncated = unlisted.into_iter().any(|entry| !entry.feedback.is_empty());
    failing.truncate(MAX_FAILURES);
    fine.truncate(MAX_EXAMINED);
    let mut entries: Vec<_> = failing.into_iter().chain(fine).collect();
    entries.sort_by_key(|entry| entry.meta.ordinal);
    if entries.is_empty() {
        return None;
    }
    let mut left = MAX_FEEDBACK;
    let manifests = entries.iter().map(|entry| {
        let values = fitting(entry.feedback, &mut left);
        truncated |= values.len() < entry.feedback.len();
        ManifestCondition {
            resource_meta: entry.meta.clone(),
            conditions: conditions(entry, generation, before, now),
            status_feedback: (!values.is_empty()).then_some(StatusFeedback { values }),
        }
    });
    let manifests = manifests.collect();
    Some(ResourceStatus {
        manifests,
        omitted: (omitted > 0).then(|| count(omitted)),
        feedback_truncated: truncated,
    })
}

/// The values for which there is room.
fn fitting(values: &[FeedbackValue], left: &mut usize) -> Vec<FeedbackValue> {
    let fits = |value: &&FeedbackValue| {
        let weight = serde_json::to_vec(value).map_or(usize::MAX, |json| json.len());
        left.checked_sub(weight).inspect(|rest| *left = *rest).is_some()
    };
    values.iter().filter(fits).cloned().collect()
}

/// The conditions of an entry; the time of one moves only when its status changes.
fn conditions(
    entry: &Entry<'_>,
    generation: i64,
    before: Option<&BundleStatus>,
    now: Timestamp,
) -> Vec<Condition> {
    let before = before.and_then(|before| before.resource_status.as_ref());
    let before = before.and_then(|status| {
        status
            .manifests
            .iter()
            .find(|known| same_object(&known.resource_meta, entry.meta))
    });
    let since = |says: &Says<'_>| {
        let known = before?
            .conditions
            .iter()
            .find(|known| known.type_ == says.type_)?;
        (known.status == says.status.as_str()).then(|| known.last_transition_time.clone())
    };
    let conditions = entry.conditions.iter().map(|says| Condition {
        type_: says.type_.to_owned(),
        status: says.status.as_str().to_owned(),
        reason: says.reason.to_owned(),
        message: says.message.clone(),
        observed_generation: Some(generation),
        last_transition_time: since(says).unwrap_or(Time(now)),
    });
    conditions.collect()
}

/// Whether two entries are about the same object, wherever in the bundle its manifest is. Manifests that name no object
/// are told apart by their place.
fn same_object(a: &ResourceMeta, b: &ResourceMeta) -> bool {
    (&a.group, &a.kind, &a.namespace, &a.name) == (&b.group, &b.kind, &b.namespace, &b.name)
        && (!a.name.is_empty() || a.ordinal == b.ordinal)
}
