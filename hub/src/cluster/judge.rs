//! The decision: what the status of a Cluster says, given what was seen of it.

mod next;

use super::{facts, heartbeat::Heartbeat};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use roundhouse_api::{
    cluster::{
        AVAILABLE, AgentIdentity, Cluster, ClusterReportSpec, ClusterStatus, DEAF, JOINED, TAINT_UNAVAILABLE,
        TAINT_UNREACHABLE,
    },
    condition::{self, Status, Verdict},
    placement::{Taint, TaintEffect},
};
use std::time::Duration;

/// Reason of a Lease that is too old.
const NOT_RENEWED: &str = "LeaseNotRenewed";
/// What to look at when nothing is known that the agent waits for.
const CHECK: &str = ": check that it runs and reaches the hub";

/// All that the status of a Cluster depends on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The Cluster with its present status.
    pub cluster: &'a Cluster,
    /// Its namespace on the hub.
    pub home: Home,
    /// Its Lease.
    pub heartbeat: Option<Heartbeat>,
    /// What its agent reported.
    pub report: Option<&'a ClusterReportSpec>,
    /// Who its agent is, if it was invited.
    pub identity: Option<AgentIdentity>,
    /// What keeps its agent from joining that the hub itself meets.
    pub obstacle: Option<Obstacle>,
}

/// What keeps an agent from joining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// What the hub makes for the cluster could not be made.
    NotProvisioned(String),
    /// Its certificate is approved, and nobody signs it.
    NotSigned,
    /// Its request is denied: the reason, and the message.
    Denied(String, String),
}

/// Where the namespace of a cluster stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// The cluster is not accepted: nothing is made for it.
    NotAccepted,
    /// The name cannot be a cluster's; the text says why.
    InvalidName(String),
    /// A namespace of that name exists and is not ours.
    Foreign,
    /// It is being deleted and will be made again.
    Terminating,
    /// It could not be made or read: nothing is known of it.
    Unknown,
    /// It is there, and ours.
    Ready,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The status to be.
    pub status: ClusterStatus,
    /// When silence would change the status.
    pub recheck_at: Option<Timestamp>,
}

/// Whether two statuses differ in nothing but `lastSeen`: a heartbeat alone is no reason to write.
pub fn same_but_last_seen(a: &ClusterStatus, b: &ClusterStatus) -> bool {
    let (mut a, mut b) = (a.clone(), b.clone());
    a.last_seen = None;
    b.last_seen = None;
    a == b
}

/// Decides what the status of a Cluster says. `lease_duration` is how long a Lease may stay unchanged.
pub fn judge(observed: &Observed<'_>, lease_duration: Duration, now: Timestamp) -> Judgement {
    let previous = observed.cluster.status.clone().unwrap_or_default();
    let generation = observed.cluster.metadata.generation;
    let mut status = previous.clone();
    if observed.identity.is_some() {
        status.identity.clone_from(&observed.identity);
    }
    let refused = match observed.report {
        Some(report) => {
            let facts = facts::checked(report);
            status.kubernetes_version = facts.kubernetes_version;
            status.agent_version = facts.agent_version;
            status.capacity = facts.capacity;
            status.allocatable = facts.allocatable;
            status.nodes = report.nodes;
            facts.refused
        }
        None => Vec::new(),
    };
    if let Some(changed) = observed.heartbeat.and_then(|heartbeat| heartbeat.changed) {
        status.last_seen = Some(Time(changed));
    }

    let joined = joined(observed, &previous.conditions, &refused);
    let is_joined = joined.status == Status::True;
    let (available, recheck_at) = if is_joined {
        let (available, recheck_at) = available(
            observed.heartbeat,
            condition::get(&previous.conditions, AVAILABLE),
            lease_duration,
            now,
        );
        let next = next::beside(observed, status.identity.as_ref(), now);
        (with_next(available, next), recheck_at)
    } else {
        let waiting = verdict(
            AVAILABLE,
            Status::False,
            "NotJoined",
            "the cluster has not joined, see condition Joined".to_owned(),
        );
        (waiting, None)
    };
    let was_deaf = condition::is_true(&previous.conditions, DEAF);
    let (deaf, deaf_from) = deaf(observed.heartbeat, was_deaf, lease_duration, now);
    let is_deaf = deaf.as_ref().is_some_and(|deaf| deaf.status == Status::True);
    let available = match (&deaf, available.status) {
        (Some(deaf), Status::True) if is_deaf => {
            verdict(AVAILABLE, Status::False, "Deaf", deaf.message.clone())
        }
        _ => available,
    };
    let recheck_at = match available.status {
        Status::True => [recheck_at, deaf_from].into_iter().flatten().min(),
        Status::False | Status::Unknown => recheck_at,
    };
    let taint = match (is_joined, available.status) {
        (false, _) | (true, Status::False) => Some(TAINT_UNAVAILABLE),
        (true, Status::Unknown) => Some(TAINT_UNREACHABLE),
        (true, Status::True) => None,
    };
    condition::set(&mut status.conditions, joined, generation, now);
    condition::set(&mut status.conditions, available, generation, now);
    match deaf {
        Some(deaf) => condition::set(&mut status.conditions, deaf, generation, now),
        // An agent that echoes nothing: what one before it said is not known of it.
        None => status.conditions.retain(|condition| condition.type_ != DEAF),
    }

    let added = |key: &str| previous.taints.iter().find(|t| t.key == key).cloned();
    status.taints = taint
        .into_iter()
        .map(|key| {
            added(key).unwrap_or_else(|| Taint {
                key: key.to_owned(),
                value: None,
                effect: TaintEffect::NoSchedule,
                time_added: Some(Time(now)),
            })
        })
        .collect();
    status.taints_seen = taints_seen(&observed.cluster.spec.taints, &previous.taints_seen, now);
    Judgement { status, recheck_at }
}

/// When the `NoExecute` taints were first seen that do not say it themselves, as Kubernetes notes it on nodes.
fn taints_seen(taints: &[Taint], before: &[Taint], now: Timestamp) -> Vec<Taint> {
    let silent = |taint: &&Taint| taint.effect == TaintEffect::NoExecute && taint.time_added.is_none();
    let mut seen: Vec<Taint> = Vec::new();
    for taint in taints.iter().filter(silent) {
        if seen.iter().any(|known| known.is_same(taint)) {
            continue;
        }
        let known = before.iter().find(|known| known.is_same(taint)).cloned();
        seen.push(known.unwrap_or_else(|| Taint {
            time_added: Some(Time(now)),
            ..taint.clone()
        }));
    }
    seen
}

fn verdict(type_: &'static str, status: Status, reason: &'static str, message: String) -> Verdict {
    Verdict {
        type_,
        status,
        reason,
        message,
    }
}

fn joined(observed: &Observed<'_>, previous: &[Condition], refused: &[String]) -> Verdict {
    let name = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    let not = |reason, message| verdict(JOINED, Status::False, reason, message);
    match &observed.home {
        Home::InvalidName(why) => return not("InvalidName", why.clone()),
        Home::Foreign => {
            return not(
                "NamespaceConflict",
                format!(
                    "namespace cluster-{name} exists and was not made for this cluster: remove it, or give the cluster another name"
                ),
            );
        }
        Home::NotAccepted | Home::Terminating | Home::Unknown | Home::Ready => {}
    }
    // Joining is remembered: a report or a Lease that is gone does not undo it.
    let reported = observed.report.is_some() || observed.heartbeat.is_some_and(|h| h.renewed);
    if reported || condition::is_true(previous, JOINED) {
        let mut message = "the agent has reported".to_owned();
        if !refused.is_empty() {
            message = format!("{message}; facts not understood: {}", refused.join(", "));
        }
        if let Some(report) = observed.report {
            message.push_str(&lacking(report));
            message.push_str(&held(report));
        }
        return verdict(JOINED, Status::True, "AgentReported", message);
    }
    if let Some(waits) = next::waits(observed) {
        return not(waits.reason, waits.message);
    }
    if observed.home == Home::NotAccepted {
        return not(
            "NotAccepted",
            "set spec.accepted to true to let this cluster in".to_owned(),
        );
    }
    not(
        "WaitingForAgent",
        format!("no agent has reported yet: start roundhouse-agent for cluster {name}"),
    )
}

/// What is said of a Lease, with what the next agent of the cluster waits for: where that is why nobody renews it, it says so.
fn with_next(available: Verdict, next: Option<next::Waits>) -> Verdict {
    let Some(next) = next else {
        return available;
    };
    let reason = match available.status {
        Status::True => available.reason,
        Status::False | Status::Unknown => next.reason,
    };
    let said = available.message.trim_end_matches(CHECK);
    Verdict {
        reason,
        message: format!("{said}; {}", next.message),
        ..available
    }
}

/// What the agent lacks in its cluster, for people.
fn lacking(report: &ClusterReportSpec) -> String {
    if let Some(why) = &report.rights_unknown {
        return format!("; what it may there could not be told: {}", bounded(why));
    }
    match report.missing_rights.is_empty() {
        true => String::new(),
        false => format!(
            "; it lacks rights there: {}",
            some_of(&report.missing_rights, report.missing_rights.len())
        ),
    }
}

/// What the agent holds in its cluster that nobody asks for, for people.
fn held(report: &ClusterReportSpec) -> String {
    match report.held.is_empty() {
        true => String::new(),
        false => format!(
            "; it holds the objects of bundles that vanished without spec.deletion: {}: its AppliedBundles list them",
            some_of(
                &report.held,
                usize::try_from(report.held_count).unwrap_or(usize::MAX)
            )
        ),
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The first few, and how many more there are of `count` in all; one that is less than are named counts for nothing.
fn some_of(all: &[String], count: usize) -> String {
    const NAMED: usize = 5;
    let named: Vec<String> = all.iter().take(NAMED).map(|text| bounded(text)).collect();
    match count.max(all.len()).saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Whether the Lease is fresh, and until when. `previous` is what the status says now: a hub that has just started has
/// seen nothing itself, and lets the last word stand for one lease duration.
fn available(
    heartbeat: Option<Heartbeat>,
    previous: Option<&Condition>,
    lease_duration: Duration,
    now: Timestamp,
) -> (Verdict, Option<Timestamp>) {
    let duration = SignedDuration::try_from(lease_duration).unwrap_or(SignedDuration::MAX);
    let expiry = |seen: Timestamp| seen.checked_add(duration).unwrap_or(Timestamp::MAX);
    let was_available = previous.is_some_and(|c| c.status == Status::True.as_str());
    let fresh = || {
        verdict(
            AVAILABLE,
            Status::True,
            "LeaseRenewed",
            "the agent renews its Lease".to_owned(),
        )
    };
    let silent = || {
        verdict(
            AVAILABLE,
            Status::Unknown,
            NOT_RENEWED,
            format!(
                "the agent did not renew its Lease for {} s{CHECK}",
                lease_duration.as_secs()
            ),
        )
    };
    let last_sign = match heartbeat {
        Some(Heartbeat {
            changed: Some(changed),
            ..
        }) => Some(changed),
        Some(Heartbeat { first_seen, .. }) => was_available.then_some(first_seen),
        None => None,
    };
    match last_sign.map(expiry) {
        Some(until) if now < until => (fresh(), Some(until)),
        _ => (silent(), None),
    }
}

/// Whether what the hub sends arrives at an agent that renews its Lease, and from when on it would be taken not to. Nothing is
/// known of an agent that does not echo. One that was deaf is so until this hub has seen it hear: a start of the hub is no evidence.
fn deaf(
    heartbeat: Option<Heartbeat>,
    was_deaf: bool,
    lease_duration: Duration,
    now: Timestamp,
) -> (Option<Verdict>, Option<Timestamp>) {
    let Some((heartbeat, echo)) = heartbeat.and_then(|heartbeat| Some((heartbeat, heartbeat.echo?))) else {
        return (None, None);
    };
    let duration = SignedDuration::try_from(lease_duration).unwrap_or(SignedDuration::MAX);
    let until = echo.checked_add(duration).unwrap_or(Timestamp::MAX);
    let renewed_since = heartbeat.changed.is_some_and(|changed| changed > echo);
    if (now >= until && renewed_since) || (was_deaf && !heartbeat.heard) {
        let message = format!(
            "the agent renews its Lease, and for {} s nothing that the hub sent has arrived there: check what stands between them and cuts long-lived responses",
            lease_duration.as_secs()
        );
        return (Some(verdict(DEAF, Status::True, "NothingArrives", message)), None);
    }
    let hears = "what the hub sends arrives at the agent".to_owned();
    (Some(verdict(DEAF, Status::False, "Hears", hears)), Some(until))
}

#[cfg(test)]
mod tests;
