//! What may go, in which order, within which budget.

use super::Observed;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use roundhouse_api::{
    application::{HeldDeletes, MAX_NOT_READY, MAX_REMOVALS, Removals, Removed},
    bundle::{BundlePhase, Deletion, REMOVAL_REFUSED},
    hash,
    names::{BUNDLE_FINALIZER, annotation},
};
use std::collections::{BTreeMap, BTreeSet};

/// The length of what a confirmation names, in hexadecimal digits.
const HASH: usize = 16;
/// How long removals count against the budget.
pub(crate) const WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// More than this share of the clusters, in percent, waits for confirmation …
const MAX_PERCENT: u64 = 10;
/// … if it is at least this many clusters.
const MIN_CLUSTERS: u64 = 2;

/// The next thing to do about a Bundle that is on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Write the positive evidence first.
    Confirm,
    /// Delete it, with uid and resourceVersion as preconditions.
    Delete,
    /// The agent waits for nothing more: remove our finalizer.
    Release,
    /// The agent has not reported `Cleaned` yet.
    Await,
}

/// What is next for a Bundle that nothing wants; `evidence` is what there is for its removal now.
pub fn next(bundle: &Observed, evidence: Option<&Deletion>) -> Removal {
    match (&bundle.spec.deletion, bundle.deleting) {
        (None, _) => Removal::Confirm,
        (Some(written), _) if evidence.is_some_and(|evidence| confirms_more(evidence, written)) => {
            Removal::Confirm
        }
        (Some(_), false) => Removal::Delete,
        (Some(_), true) if cleaned(bundle) => Removal::Release,
        (Some(_), true) => Removal::Await,
    }
}

/// What is next for a Bundle that is wanted but is being deleted. Without `spec.deletion` (somebody deleted it or its
/// namespace by hand) the agent holds the objects, so that it may go at once and be made again.
pub fn next_of_wanted(bundle: &Observed) -> Option<Removal> {
    let ours = bundle.finalizers.iter().any(|f| f == BUNDLE_FINALIZER);
    match (&bundle.spec.deletion, bundle.deleting && ours) {
        (_, false) => None,
        (None, true) => Some(Removal::Release),
        (Some(_), true) => Some(next(bundle, None)),
    }
}

/// Whether somebody deleted it, or its namespace, by hand: no agent has to clean it, and it may be let go.
pub fn is_deleted_by_hand(bundle: &Observed) -> bool {
    bundle.spec.deletion.is_none() && next_of_wanted(bundle) == Some(Removal::Release)
}

/// An approval or the deletion of the application says more than garbage collection: agents let workloads go on it that
/// apply-once would keep (see [`Deletion`]).
fn confirms_more(evidence: &Deletion, written: &Deletion) -> bool {
    let collected = |deletion: &Deletion| deletion.confirmed_by == Deletion::GARBAGE_COLLECTION;
    collected(written) && !collected(evidence)
}

/// Whether the agent says, about this very generation, that apply-once keeps workloads of the Bundle until their removal is
/// confirmed.
pub fn is_refused(bundle: &Observed) -> bool {
    let conditions = bundle.status.iter().flat_map(|status| &status.conditions);
    let refused = |condition: &Condition| {
        condition.reason == REMOVAL_REFUSED && condition.observed_generation == Some(bundle.generation)
    };
    bundle.deleting && conditions.into_iter().any(refused)
}

/// The kinds of the workloads that an agent says it keeps so, as far as its report lists them.
pub fn refused_kinds(bundle: &Observed) -> BTreeSet<String> {
    let listed = bundle
        .status
        .iter()
        .filter_map(|status| status.resource_status.as_ref());
    let refused = listed.flat_map(|listed| &listed.manifests).filter(|manifest| {
        let mut conditions = manifest.conditions.iter();
        conditions.any(|condition| condition.reason == REMOVAL_REFUSED)
    });
    refused
        .map(|manifest| manifest.resource_meta.kind.clone())
        .collect()
}

/// What an approval of refused removals has to name, and what people are told; `None` if no removal is refused.
/// `refused`: the clusters, each with the uid of its Bundle; `kinds`: of the workloads that are kept, see [`refused_kinds`].
pub fn refusal(
    application: &str,
    refused: &BTreeMap<String, String>,
    kinds: &BTreeSet<String>,
) -> Option<(String, String)> {
    let named: Vec<_> = refused.keys().take(5).map(String::as_str).collect();
    let more = match refused.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let hash = confirmation_hash(application, refused, None);
    let message = format!(
        "{} should lose {application}, but workloads there still run and apply-once is on: {}{more}; {}annotate the application with {}={hash} to confirm",
        clusters(refused.len()),
        named.join(", "),
        ways(kinds),
        annotation::CONFIRM_DELETES
    );
    (!refused.is_empty()).then_some((hash, message))
}

/// How workloads of these kinds come to run nothing; with `or` behind each way.
fn ways(kinds: &BTreeSet<String>) -> String {
    // What a DaemonSet runs follows from the nodes.
    let (jobs, scaled): (Vec<&str>, Vec<&str>) = kinds
        .iter()
        .map(String::as_str)
        .filter(|kind| *kind != "DaemonSet")
        .partition(|kind| *kind == "Job");
    let scale = match (kinds.is_empty(), scaled.as_slice()) {
        (true, _) => "scale them to 0, or ".to_owned(),
        (false, []) => String::new(),
        (false, scaled) => format!("scale each {} to 0, or ", scaled.join(" and ")),
    };
    let end = if jobs.is_empty() {
        ""
    } else {
        "let each Job end or suspend it, or "
    };
    format!("{scale}{end}")
}

/// The agent says, about this very generation, that everything was removed.
fn cleaned(bundle: &Observed) -> bool {
    let report = bundle.present_report();
    report.is_some_and(|report| report.phase == Some(BundlePhase::Cleaned))
}

/// What the delete budget says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The removals may go ahead.
    Allowed {
        /// The budget after them.
        removals: Option<Removals>,
        /// What confirms them.
        confirmed_by: String,
        /// Clusters whose turn is the next time, when those that are counted now have the evidence.
        later: BTreeSet<String>,
    },
    /// They wait for a confirmation.
    Held {
        /// What a confirmation has to name.
        hash: String,
        /// For people.
        message: String,
        /// After this time earlier removals no longer count.
        again: Option<SignedDuration>,
    },
}

impl Verdict {
    /// Removals that a person has confirmed. They are the new base.
    pub fn confirmed(hash: String) -> Verdict {
        Verdict::Allowed {
            removals: None,
            confirmed_by: hash,
            later: BTreeSet::new(),
        }
    }
}

/// Removals that wait for a confirmation, for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// For people.
    pub message: String,
    /// What a confirmation has to name, and for which clusters.
    pub deletes: HeldDeletes,
}

impl Held {
    /// Removals of these clusters.
    pub fn of(hash: String, message: String, clusters: &BTreeMap<String, String>) -> Held {
        Held {
            message,
            deletes: HeldDeletes {
                hash,
                count: u32::try_from(clusters.len()).unwrap_or(u32::MAX),
                clusters: clusters.keys().take(MAX_NOT_READY).cloned().collect(),
            },
        }
    }
}

/// Clusters that would lose the application's bundle, against the clusters that hold one.
///
/// Asking again with the budget that came out changes nothing. `losing` are those whose removal is not confirmed yet, each with the uid of a Bundle that goes;
/// `holding` is how many hold a bundle now, those included.
/// `confirmation` is the value of the annotation on the Application, `spent` the last one that was seen when nothing waited for one.
pub fn budget(
    application: &str,
    removals: Option<&Removals>,
    losing: &BTreeMap<String, String>,
    holding: usize,
    (confirmation, spent): (Option<&str>, Option<&str>),
    now: Timestamp,
) -> Verdict {
    let mut current = recent(removals, now);
    if losing.is_empty() {
        return Verdict::Allowed {
            removals: removals.cloned(),
            confirmed_by: Deletion::GARBAGE_COLLECTION.to_owned(),
            later: BTreeSet::new(),
        };
    }
    if let Some(hash) = confirmed(application, losing, (confirmation, spent)) {
        return Verdict::confirmed(hash);
    }
    let hash = confirmation_hash(application, losing, spent);
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    // Counted before they are carried out, so that a repeated look counts nobody twice.
    let base = current
        .first()
        .map_or(count(holding), |first| u64::from(first.of));
    let counted = |cluster: &&String| current.iter().any(|moment| moment.clusters.contains(cluster));
    let mut more: Vec<String> = losing
        .keys()
        .filter(|cluster| !counted(cluster))
        .cloned()
        .collect();
    let before: u64 = current.iter().map(|moment| u64::from(moment.count)).sum();
    let lost = before + count(more.len());
    if lost >= MIN_CLUSTERS && lost * 100 > base * MAX_PERCENT {
        let named: Vec<_> = losing.keys().take(5).map(String::as_str).collect();
        let more = match losing.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let oldest = current.first().and_then(|moment| moment.at.as_ref());
        return Verdict::Held {
            message: format!(
                "{} would lose {application}: {}{more}; with what the last hour removed that is {lost} of {base}, more than {MAX_PERCENT} %: annotate the application with {}={hash} to confirm",
                clusters(losing.len()),
                named.join(", "),
                annotation::CONFIRM_DELETES
            ),
            hash,
            again: oldest.map(|at| WINDOW - now.duration_since(at.0)),
        };
    }
    // No more are counted, and go, at a time than can be named: nobody could say of the others later that they were.
    let later = more.split_off(make_room(&mut current, more.len(), losing));
    let removals = match more.is_empty() {
        true => removals.cloned(),
        false => Some(Removals {
            moments: with(current, more, holding, now),
        }),
    };
    Verdict::Allowed {
        removals,
        confirmed_by: Deletion::GARBAGE_COLLECTION.to_owned(),
        later: later.into_iter().collect(),
    }
}

/// Gives up the oldest names of clusters that have the evidence, as far as others need the room; for how many there is room then.
fn make_room(moments: &mut [Removed], wanted: usize, losing: &BTreeMap<String, String>) -> usize {
    let named: usize = moments.iter().map(|moment| moment.clusters.len()).sum();
    let mut lacking = (named + wanted).saturating_sub(MAX_NOT_READY);
    for moment in moments {
        moment.clusters.retain(|cluster| {
            let goes = lacking > 0 && !losing.contains_key(cluster);
            lacking -= usize::from(goes);
            !goes
        });
    }
    wanted.saturating_sub(lacking)
}

/// The removals that still count: those of the last hour.
fn recent(removals: Option<&Removals>, now: Timestamp) -> Vec<Removed> {
    let counts = |moment: &&Removed| {
        let at = moment.at.as_ref().map_or(Timestamp::MIN, |at| at.0);
        now.duration_since(at) < WINDOW
    };
    let moments = removals.map_or(&[][..], |removals| &removals.moments);
    moments.iter().filter(counts).cloned().collect()
}

/// The moments with one more, bounded: where there are too many, the two oldest count together until the later one is over.
fn with(mut moments: Vec<Removed>, lost: Vec<String>, holding: usize, now: Timestamp) -> Vec<Removed> {
    moments.push(Removed {
        at: Some(Time(now)),
        of: u32::try_from(holding).unwrap_or(u32::MAX),
        count: u32::try_from(lost.len()).unwrap_or(u32::MAX),
        clusters: lost,
    });
    while moments.len() > MAX_REMOVALS {
        let oldest = moments.remove(0);
        if let Some(next) = moments.first_mut() {
            next.of = oldest.of;
            next.count = next.count.saturating_add(oldest.count);
            next.clusters.extend(oldest.clusters);
            next.clusters.sort();
        }
    }
    moments
}

/// `1 cluster`, `2 clusters`.
fn clusters(count: usize) -> String {
    match count {
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    }
}

/// What a confirmation has to name: it stands for exactly these Bundles, and for this question. An annotation that stayed, or came
/// when nothing was asked any more (`spent`), confirms nothing when the same clusters are to lose the same Bundles later, or what
/// they got again.
pub fn confirmation_hash(
    application: &str,
    losing: &BTreeMap<String, String>,
    spent: Option<&str>,
) -> String {
    let names: Vec<_> = losing
        .iter()
        .map(|(cluster, uid)| format!("{cluster} {uid}"))
        .collect();
    let spent = spent.map(|spent| format!("\n\n{spent}")).unwrap_or_default();
    let question = format!("{application}\n{}{spent}", names.join("\n"));
    let mut hash = hash::sha256(question.as_bytes());
    hash.truncate(HASH);
    hash
}

/// What confirms the removal of exactly these: the value of the annotation, if that is about them.
pub fn confirmed(
    application: &str,
    losing: &BTreeMap<String, String>,
    (confirmation, spent): (Option<&str>, Option<&str>),
) -> Option<String> {
    let hash = confirmation_hash(application, losing, spent);
    (confirmation == Some(hash.as_str())).then_some(hash)
}

/// Whether it may be such a hash; what is none confirms nothing anyway.
pub fn is_confirmation(hash: &str) -> bool {
    hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The positive evidence that is written before a Bundle is deleted.
pub fn evidence(revision: &str, confirmed_by: &str) -> Deletion {
    Deletion {
        revision: revision.to_owned(),
        confirmed_by: confirmed_by.to_owned(),
    }
}
