//! The evidence rule: what a cluster has shown about the content that was dispatched to it.
//!
//! A report counts only if it is about the hash that is wanted and about the Bundle's present generation, of the same
//! Bundle uid. No times are compared. So an old revision's report never satisfies a new wait, also when the content
//! goes A → B → A: each write makes a new generation.

use super::{Observed, Wanted, plan::Todo};
use crate::workflow::{ClusterEvidence, ClusterState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use roundhouse_api::{
    bundle::{APPLIED, AVAILABLE, BundlePhase, BundleStatus},
    condition,
};

/// Messages are cut at this many characters.
const MAX_MESSAGE: usize = 160;

/// What `cluster` has shown about the Bundles that are wanted on it.
///
/// `unreachable` says why nothing can be known of it now, if so.
pub fn cluster_evidence(
    cluster: &str,
    wanted: &[Wanted],
    observed: &[Observed],
    unreachable: Option<&str>,
) -> ClusterEvidence {
    let judged = wanted.iter().map(|wanted| {
        let bundle = observed.iter().find(|b| b.name == wanted.name);
        judge(wanted, bundle)
    });
    // No part is no evidence.
    let worst = judged.min_by_key(|(state, _)| severity(*state));
    let (mut state, mut message) =
        worst.unwrap_or((ClusterState::Dispatching, "no bundle is written".to_owned()));
    if let Some(why) = unreachable
        && state != ClusterState::Dispatching
    {
        state = ClusterState::Unreachable;
        why.clone_into(&mut message);
    }
    ClusterEvidence {
        cluster: cluster.to_owned(),
        state,
        message,
    }
}

/// What the reports say of Bundles that stay as they are, whatever they hold.
pub fn held_evidence(cluster: &str, observed: &[Observed], unreachable: Option<&str>) -> ClusterEvidence {
    let living = observed.iter().filter(|b| !b.deleting);
    let worst = living.map(report).min_by_key(|(state, _)| severity(*state));
    let (state, message) = match (worst, unreachable) {
        (None, _) => (ClusterState::Dispatching, "no bundle is written".to_owned()),
        (Some(_), Some(why)) => (ClusterState::Unreachable, why.to_owned()),
        (Some(worst), None) => worst,
    };
    ClusterEvidence {
        cluster: cluster.to_owned(),
        state,
        message,
    }
}

/// The worst state speaks for a cluster with several parts; 0 is the worst.
fn severity(state: ClusterState) -> u8 {
    match state {
        ClusterState::Dispatching => 0,
        ClusterState::Failed => 1,
        ClusterState::Unreachable => 2,
        ClusterState::Waiting => 3,
        ClusterState::Progressing => 4,
        ClusterState::Applied => 5,
        ClusterState::Ready => 6,
    }
}

fn judge(wanted: &Wanted, observed: Option<&Observed>) -> (ClusterState, String) {
    let dispatching = |message: &str| (ClusterState::Dispatching, message.to_owned());
    match (wanted.todo, observed) {
        (Todo::AwaitRemoval, _) => dispatching("its former bundle is still being removed"),
        (Todo::Create | Todo::Replace, _) | (_, None) => dispatching("the bundle is not written yet"),
        (Todo::Nothing, Some(observed)) if observed.spec.hash.as_deref() != wanted.hash() => {
            dispatching("the bundle is not written yet")
        }
        (Todo::Nothing, Some(observed)) => report(observed),
    }
}

fn report(observed: &Observed) -> (ClusterState, String) {
    let Some(status) = observed.own_report() else {
        return (
            ClusterState::Waiting,
            "the agent has not reported on this content".to_owned(),
        );
    };
    match status.phase {
        Some(BundlePhase::Ready) => (ClusterState::Ready, String::new()),
        Some(BundlePhase::Failed) => (ClusterState::Failed, failure(status)),
        Some(BundlePhase::Progressing) | None => {
            let counts = status.counts.unwrap_or_default();
            let condition = condition::get(&status.conditions, APPLIED);
            let applied = match condition {
                Some(condition) => {
                    condition.status == "True"
                        && condition
                            .observed_generation
                            .is_none_or(|g| g == observed.generation)
                }
                None => counts.applied == counts.total,
            };
            match applied && status.phase.is_some() {
                true => (ClusterState::Applied, readiness(status)),
                false => (
                    ClusterState::Progressing,
                    format!("{}/{} applied", counts.applied, counts.total),
                ),
            }
        }
        Some(BundlePhase::Cleaned) => (
            ClusterState::Waiting,
            "the agent has removed what this bundle holds".to_owned(),
        ),
    }
}

/// `1/2 ready`: replicas where there are workloads, objects otherwise.
fn readiness(status: &BundleStatus) -> String {
    let desired: u64 = status.workloads.iter().map(|w| u64::from(w.desired)).sum();
    let ready: u64 = status
        .workloads
        .iter()
        .map(|w| u64::from(w.ready.min(w.desired)))
        .sum();
    let counts = status.counts.unwrap_or_default();
    match ready < desired {
        true => format!("{ready}/{desired} ready"),
        false => format!("{}/{} objects ready", counts.ready, counts.total),
    }
}

/// The first failure, by name.
fn failure(status: &BundleStatus) -> String {
    let counts = status.counts.unwrap_or_default();
    let manifests = status.resource_status.iter().flat_map(|r| &r.manifests);
    // A manifest may be listed for its feedback alone; what its rules say is in `Available` already.
    let broken = |c: &Condition| {
        c.status == "False" && [APPLIED, AVAILABLE].contains(&c.type_.as_str()) && c.reason != "Progressing"
    };
    let first = manifests
        .flat_map(|m| m.conditions.iter().map(move |c| (&m.resource_meta, c)))
        .find(|(_, c)| broken(c));
    let mut text = format!("{}/{} objects failed", counts.failed, counts.total);
    if let Some((meta, condition)) = first {
        let namespace = match meta.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let kind = if meta.kind.is_empty() {
            "manifest"
        } else {
            &meta.kind
        };
        let name = match meta.name.as_str() {
            "" => format!("#{}", meta.ordinal),
            name => name.to_owned(),
        };
        text = format!(
            "{text}: {kind} {namespace}{name}: {}: {}",
            condition.reason, condition.message
        );
    }
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
