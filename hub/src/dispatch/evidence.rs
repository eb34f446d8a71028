//! The evidence rule: what a cluster has shown about the content that was dispatched to it.
//!
//! A report counts only if it is about the hash that is wanted and about the Bundle's present generation, of the same
//! Bundle uid. No times are compared. So an old revision's report never satisfies a new wait, also when the content
//! goes A → B → A: each write makes a new generation.

use super::{Observed, Wanted, plan::Todo};
use crate::workflow::{ClusterEvidence, ClusterState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use roundhouse_api::{
    application::WaitFor,
    bundle::{APPLIED, AVAILABLE, BundlePhase, BundleStatus, PROGRESSING},
    condition,
};
use std::sync::Arc;

/// Messages are cut at this many characters.
const MAX_MESSAGE: usize = 160;
/// What is said of a cluster that a step has not come to.
pub const AWAITS_TURN: &str = "waits for its turn";

/// What `cluster` has shown about the Bundles that are wanted on it.
///
/// `unreachable` says why nothing can be known of it now, if so.
pub fn cluster_evidence(
    cluster: &str,
    wanted: &[Wanted],
    observed: &[Arc<Observed>],
    unreachable: Option<&str>,
) -> ClusterEvidence {
    let judged = wanted.iter().map(|wanted| {
        let bundle = observed.iter().find(|b| b.name == wanted.name);
        judge(wanted, bundle.map(Arc::as_ref))
    });
    // No part is no evidence.
    let (mut state, mut message) =
        worst(judged).unwrap_or((ClusterState::Dispatching, "no bundle is written".to_owned()));
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
pub fn held_evidence(
    cluster: &str,
    observed: &[Arc<Observed>],
    unreachable: Option<&str>,
) -> ClusterEvidence {
    let living = observed.iter().filter(|b| !b.deleting);
    let (state, message) = match (worst(living.map(|bundle| report(bundle))), unreachable) {
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

/// What the agent of a Bundle that is being removed says of that; nothing if it has not said anything yet.
pub fn removal_report(observed: &Observed) -> Option<(ClusterState, String)> {
    let own = observed.present_report();
    if let Some(status) = own.filter(|status| status.phase == Some(BundlePhase::Failed)) {
        return Some((ClusterState::Failed, failure(status)));
    }
    let left = || {
        let condition = condition::get(&own?.conditions, PROGRESSING)?;
        let message = condition.message.clone();
        (!message.is_empty()).then(|| cut(message))
    };
    let said = held_back(observed).or_else(left);
    said.map(|said| (ClusterState::Waiting, said))
}

/// The worst state speaks for a cluster with several parts.
pub fn worst(parts: impl Iterator<Item = (ClusterState, String)>) -> Option<(ClusterState, String)> {
    let mut all_applied = true;
    let parts = parts.inspect(|(state, _)| all_applied &= state.passes(WaitFor::Applied));
    let (state, message) = parts.min_by_key(|(state, _)| severity(*state))?;
    match state {
        // Of the cluster it cannot be said that all is applied.
        ClusterState::Unhealthy if !all_applied => Some((ClusterState::Failed, message)),
        state => Some((state, message)),
    }
}

/// 0 is the worst.
fn severity(state: ClusterState) -> u8 {
    match state {
        ClusterState::Dispatching => 0,
        ClusterState::Failed => 1,
        ClusterState::Unhealthy => 2,
        ClusterState::Unreachable => 3,
        ClusterState::Waiting => 4,
        ClusterState::Progressing => 5,
        ClusterState::Applied => 6,
        ClusterState::Ready => 7,
    }
}

fn judge(wanted: &Wanted, observed: Option<&Observed>) -> (ClusterState, String) {
    let dispatching = |message: &str| (ClusterState::Dispatching, message.to_owned());
    match (wanted.todo, observed) {
        (Todo::AwaitRemoval, _) => dispatching("its former bundle is still being removed"),
        (Todo::AwaitTurn, _) => dispatching(AWAITS_TURN),
        (Todo::Create | Todo::Replace, _) | (_, None) => dispatching("the bundle is not written yet"),
        (Todo::Nothing | Todo::Note, Some(observed)) if observed.spec.hash.as_deref() != wanted.hash() => {
            dispatching("the bundle is not written yet")
        }
        (Todo::Nothing | Todo::Note, Some(observed)) => report(observed),
    }
}

pub(super) fn report(observed: &Observed) -> (ClusterState, String) {
    let Some(status) = observed.own_report() else {
        let unknown = || "the agent has not reported on this content".to_owned();
        return (ClusterState::Waiting, held_back(observed).unwrap_or_else(unknown));
    };
    match status.phase {
        Some(BundlePhase::Ready) => (ClusterState::Ready, String::new()),
        Some(BundlePhase::Failed) => {
            let state = match is_applied(observed, status) {
                Some(true) => ClusterState::Unhealthy,
                _ => ClusterState::Failed,
            };
            (state, failure(status))
        }
        Some(BundlePhase::Progressing) | None => {
            let counts = status.counts.unwrap_or_default();
            let applied = is_applied(observed, status).unwrap_or(counts.applied == counts.total);
            match applied && status.phase.is_some() {
                true => (ClusterState::Applied, readiness(observed, status)),
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

/// Whether all of this generation is applied, if the agent says.
fn is_applied(observed: &Observed, status: &BundleStatus) -> Option<bool> {
    let condition = condition::get(&status.conditions, APPLIED)?;
    let own = condition
        .observed_generation
        .is_none_or(|generation| generation == observed.generation);
    Some(condition.status == "True" && own)
}

/// Why the agent does not act on the present generation, if it says so: paused, an older hub's, unreadable, ….
fn held_back(observed: &Observed) -> Option<String> {
    let status = observed.status.as_ref()?;
    let condition = condition::get(&status.conditions, PROGRESSING)?;
    let held = condition.status == "False"
        && condition.observed_generation == Some(observed.generation)
        && !["Ready", "Failed", "Cleaned"].contains(&condition.reason.as_str());
    held.then(|| cut(format!("{}: {}", condition.reason, condition.message)))
}

/// `1/2 ready`: replicas where there are workloads, objects otherwise, with what the agent waits for.
fn readiness(observed: &Observed, status: &BundleStatus) -> String {
    let omitted = status.omitted_workloads.unwrap_or_default();
    let desired: u64 = status.workloads.iter().map(|w| u64::from(w.desired)).sum();
    let desired = desired + omitted.desired;
    let ready = status.workloads.iter().map(|w| u64::from(w.ready.min(w.desired)));
    let ready = ready.sum::<u64>() + omitted.ready;
    let counts = status.counts.unwrap_or_default();
    match ready < desired {
        true => format!("{ready}/{desired} ready"),
        false => {
            let text = format!("{}/{} objects ready", counts.ready, counts.total);
            match awaited(observed, status) {
                Some(awaited) => cut(format!("{text}: {awaited}")),
                None => text,
            }
        }
    }
}

/// What of this generation the agent waits for: `Service w: the load balancer has no address yet`.
fn awaited<'a>(observed: &Observed, status: &'a BundleStatus) -> Option<&'a str> {
    let condition = condition::get(&status.conditions, PROGRESSING)?;
    let own = condition
        .observed_generation
        .is_none_or(|generation| generation == observed.generation);
    let says = condition.status == "True" && own && !condition.message.is_empty();
    says.then_some(condition.message.as_str())
}

/// The first failure, by name; of a bundle that was refused as a whole, why.
pub(crate) fn failure(status: &BundleStatus) -> String {
    let Some(counts) = status.counts else {
        let applied = condition::get(&status.conditions, APPLIED);
        let refused = applied.filter(|condition| condition.status == "False");
        return refused.map_or_else(
            || "the agent says that it failed, not why".to_owned(),
            |condition| cut(format!("{}: {}", condition.reason, condition.message)),
        );
    };
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
    cut(text)
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use roundhouse_api::bundle::{BundleSpec, Counts, OmittedWorkloads, WorkloadStatus};
    use roundhouse_api::condition::{Status, Verdict};

    /// A Bundle at generation 2 of which the agent reported generation `generation` so.
    fn observed(generation: i64, phase: BundlePhase, said: &[(&'static str, &'static str)]) -> Observed {
        let mut status = BundleStatus {
            hash: Some("h".to_owned()),
            observed_generation: Some(generation),
            phase: Some(phase),
            ..BundleStatus::default()
        };
        for (type_, reason) in said {
            let verdict = Verdict {
                type_,
                status: Status::False,
                reason,
                message: format!("why {reason}"),
            };
            condition::set(&mut status.conditions, verdict, Some(2), Timestamp::UNIX_EPOCH);
        }
        Observed {
            generation: 2,
            spec: Arc::new(BundleSpec {
                hash: Some("h".to_owned()),
                ..BundleSpec::default()
            }),
            status: Some(Arc::new(status)),
            ..Observed::default()
        }
    }

    fn said(observed: &Observed) -> String {
        let evidence = held_evidence("c1", &[Arc::new(observed.clone())], None);
        format!("{:?}: {}", evidence.state, evidence.message)
    }

    #[test]
    fn why_an_agent_does_not_act_is_said() {
        let silent = "Waiting: the agent has not reported on this content";
        for (generation, phase, conditions, expected) in [
            (1, BundlePhase::Ready, &[][..], silent),
            (
                1,
                BundlePhase::Ready,
                &[(PROGRESSING, "Paused")],
                "Waiting: Paused: why Paused",
            ),
            (
                1,
                BundlePhase::Failed,
                &[(PROGRESSING, "OldEpoch")],
                "Waiting: OldEpoch: why OldEpoch",
            ),
            // What else is said then is of what is obeyed instead.
            (
                2,
                BundlePhase::Ready,
                &[(PROGRESSING, "OldGeneration")],
                "Waiting: OldGeneration: why OldGeneration",
            ),
            (1, BundlePhase::Ready, &[(PROGRESSING, "Ready")], silent),
            (
                2,
                BundlePhase::Failed,
                &[(APPLIED, "LedgerTooLarge"), (PROGRESSING, "LedgerTooLarge")],
                "Failed: LedgerTooLarge: why LedgerTooLarge",
            ),
        ] {
            assert_eq!(said(&observed(generation, phase, conditions)), expected);
        }
        // A spec that this agent cannot read has no hash that it could repeat.
        let mut unread = observed(2, BundlePhase::Failed, &[(PROGRESSING, "InvalidSpec")]);
        if let Some(status) = &mut unread.status {
            Arc::make_mut(status).hash = None;
        }
        assert_eq!(said(&unread), "Waiting: InvalidSpec: why InvalidSpec");
        // What was said of an earlier generation is no news of this one.
        let mut later = observed(1, BundlePhase::Ready, &[(PROGRESSING, "Paused")]);
        later.generation = 3;
        assert_eq!(said(&later), silent);
    }

    #[test]
    fn what_is_applied_and_fails_is_unhealthy_where_all_of_the_cluster_is_applied() {
        let unhealthy = |generation| {
            let mut observed = observed(2, BundlePhase::Failed, &[]);
            let verdict = Verdict {
                type_: APPLIED,
                status: Status::True,
                reason: "Applied",
                message: String::new(),
            };
            let status = Arc::make_mut(observed.status.get_or_insert_default());
            status.counts = Some(Counts {
                total: 2,
                applied: 2,
                ready: 1,
                failed: 1,
            });
            condition::set(
                &mut status.conditions,
                verdict,
                Some(generation),
                Timestamp::UNIX_EPOCH,
            );
            observed
        };
        let state = |parts: [Observed; 2]| held_evidence("c1", &parts.map(Arc::new), None).state;
        assert_eq!(said(&unhealthy(2)), "Unhealthy: 1/2 objects failed");
        assert_eq!(said(&unhealthy(1)), "Failed: 1/2 objects failed");
        let ready = observed(2, BundlePhase::Ready, &[]);
        let progressing = observed(2, BundlePhase::Progressing, &[(APPLIED, "Waiting")]);
        assert_eq!(state([unhealthy(2), ready]), ClusterState::Unhealthy);
        assert_eq!(state([unhealthy(2), progressing]), ClusterState::Failed);
    }

    #[test]
    fn the_object_that_is_waited_for_is_named_with_its_reason() {
        let waiting = |generation, status, message: &str| {
            let mut observed = observed(2, BundlePhase::Progressing, &[]);
            let known = Arc::make_mut(observed.status.get_or_insert_default());
            known.counts = Some(Counts {
                total: 3,
                applied: 3,
                ready: 1,
                failed: 0,
            });
            let verdict = Verdict {
                type_: PROGRESSING,
                status,
                reason: "WaitingForObjects",
                message: message.to_owned(),
            };
            condition::set(
                &mut known.conditions,
                verdict,
                Some(generation),
                Timestamp::UNIX_EPOCH,
            );
            said(&observed)
        };
        let why = "Service w: the load balancer has no address yet";
        assert_eq!(
            waiting(2, Status::True, why),
            "Applied: 1/3 objects ready: Service w: the load balancer has no address yet"
        );
        for (generation, status, message) in [
            (1, Status::True, why),
            (2, Status::False, why),
            (2, Status::True, ""),
        ] {
            assert_eq!(waiting(generation, status, message), "Applied: 1/3 objects ready");
        }
        let long = waiting(2, Status::True, &"é".repeat(1_000));
        let text = long.strip_prefix("Applied: ").unwrap();
        assert_eq!(text.chars().count(), MAX_MESSAGE + 1, "{text}");
        assert!(text.ends_with("é…"), "{text}");
    }

    #[test]
    fn workloads_that_are_not_listed_count() {
        let mut observed = observed(2, BundlePhase::Progressing, &[]);
        let status = Arc::make_mut(observed.status.get_or_insert_default());
        status.counts = Some(Counts {
            total: 60,
            applied: 60,
            ready: 59,
            failed: 0,
        });
        status.workloads = vec![
            WorkloadStatus {
                desired: 2,
                updated: 2,
                ready: 2,
                ..WorkloadStatus::default()
            };
            50
        ];
        status.omitted_workloads = Some(OmittedWorkloads {
            count: 10,
            desired: 20,
            ready: 19,
        });
        assert_eq!(said(&observed), "Applied: 119/120 ready");
        assert_eq!(
            crate::dispatch::rollup::ready_replicas(&[Arc::new(observed)], 120),
            119
        );
    }
}
