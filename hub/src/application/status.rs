//! What the Application's status says, and whether writing it is worth a write.

use super::{cache::Stored, error::PassError, fleet::Fleet, placing::Placed, removing::Judged};
use crate::{
    dispatch::{
        self, Observed, Plan, Share, Target,
        evidence::{AWAITS_TURN, cluster_evidence, held_evidence},
        removal::Held,
        rollup::{self, ready_replicas, trouble},
    },
    workflow::{ClusterEvidence, ClusterState, Evidence, StepEvidence},
};
use jiff::Timestamp;
use roundhouse_api::{
    application::{
        ACCEPTED, ApplicationPhase, ApplicationStatus, CLUSTERS_SEEN, DELETES_HELD, DELIVERED, Delivery,
        MAX_OBJECTS, OVERCOMMITTED, ObjectDelivery, PLACED, StepPhase, Unresolved, Violation,
        WAITS_FOR_CLUSTERS,
    },
    condition::{self, Verdict},
};
use std::{collections::BTreeMap, sync::Arc};

/// Messages of conditions are cut at this many characters.
const MAX_MESSAGE: usize = 1024;
/// At most this many clusters are named.
const MAX_CLUSTERS: usize = 5;
/// At most this many violations are listed.
const MAX_VIOLATIONS: usize = 10;

/// What every cluster with a target shows, by name; clusters that get nothing are left out.
pub(super) fn evidence_by_cluster(
    plan: &Plan,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    fleet: &Fleet,
) -> BTreeMap<String, Result<ClusterEvidence, String>> {
    let judge = |(cluster, target): (&String, &Target)| {
        let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
        let unreachable = fleet.unreachable(cluster);
        let evidence = match target {
            Target::Nothing => return None,
            Target::Refused(refusal) => Err(format!("cluster {cluster}: {refusal}")),
            Target::Bundles(wanted) => Ok(cluster_evidence(cluster, wanted, held, unreachable)),
            Target::Loading { revision } => Ok(ClusterEvidence {
                cluster: cluster.clone(),
                state: ClusterState::Dispatching,
                message: format!("revision {revision}, of which it keeps a part, is not read yet"),
            }),
            Target::Untouched | Target::Vanished { .. } => Ok(held_evidence(cluster, held, unreachable)),
        };
        Some((cluster.clone(), evidence))
    };
    plan.targets.iter().filter_map(judge).collect()
}

/// What a cluster shows that a step has not come to.
fn waits(cluster: &str, step: &Placed) -> ClusterEvidence {
    let message = match step.max_parallel {
        Some(_) => AWAITS_TURN,
        None => "was not written before the step stopped",
    };
    ClusterEvidence {
        cluster: cluster.to_owned(),
        state: ClusterState::Dispatching,
        message: message.to_owned(),
    }
}

/// Clusters that a step of the present run stopped before, and no other step has reached: what they run is of earlier.
pub(super) fn awaiting_turn(
    clusters: &mut BTreeMap<String, Result<ClusterEvidence, String>>,
    placed: &[Placed],
    shares: &BTreeMap<String, dispatch::Share>,
) {
    for step in placed.iter().filter(|placed| placed.reached && !placed.live) {
        for cluster in step.decision.waiting.iter().flat_map(|w| &w.clusters) {
            let reached = shares.get(cluster).is_some_and(|share| share.reached);
            if let Some(shown) = clusters.get_mut(cluster).filter(|_| !reached) {
                *shown = Ok(waits(cluster, step));
            }
        }
    }
}

/// The evidence of the steps that the run of this revision has reached; of clusters that have left there is none.
pub(super) fn evidence_by_step(
    placed: &[Placed],
    clusters: &BTreeMap<String, Result<ClusterEvidence, String>>,
    refused: &BTreeMap<String, String>,
    has_left: &impl Fn(&str) -> bool,
    revision: &str,
) -> Evidence {
    let of = |step: &Placed| {
        if let Some(message) = refused.get(&step.step) {
            return StepEvidence::Refused {
                message: message.clone(),
                clusters: Vec::new(),
            };
        }
        let (mut shown, mut refused) = (Vec::new(), None);
        for cluster in step.decision.clusters.iter().filter(|cluster| !has_left(cluster)) {
            // What others have given it is no evidence for this step.
            if !step.live && step.decision.waits(cluster).is_some() {
                shown.push(waits(cluster, step));
                continue;
            }
            match clusters.get(cluster) {
                Some(Ok(evidence)) => shown.push(evidence.clone()),
                Some(Err(message)) => {
                    refused.get_or_insert_with(|| message.clone());
                    shown.push(ClusterEvidence {
                        cluster: cluster.clone(),
                        state: ClusterState::Dispatching,
                        message: message.clone(),
                    });
                }
                None => {}
            }
        }
        let unsatisfied = unsatisfied(step.decision.satisfied, &step.decision.reasons);
        // What is decided but not stored yet was not carried out; nor is what cannot be, and clusters have something earlier.
        let is_former = step.held && step.decision.revision != revision;
        for cluster in &mut shown {
            let missing = match is_former {
                true => "what is decided for it cannot be carried out",
                false if step.write || step.turns.contains(&cluster.cluster) => {
                    "the decision is not stored yet"
                }
                false => continue,
            };
            cluster.state = ClusterState::Dispatching;
            missing.clone_into(&mut cluster.message);
        }
        if let Some(message) = refused {
            let clusters = shown;
            return StepEvidence::Refused { message, clusters };
        }
        if step.may_be_empty && step.decision.clusters.is_empty() && unsatisfied.is_empty() {
            return StepEvidence::AllowedEmpty;
        }
        StepEvidence::Placed {
            unsatisfied,
            clusters: shown,
        }
    };
    Evidence {
        steps: placed
            .iter()
            .filter(|p| p.reached)
            .map(|p| (p.step.clone(), of(p)))
            .collect(),
        ..Evidence::default()
    }
}

/// What these clusters show, those left out that get nothing.
///
/// # Errors
/// Why one of them cannot get what is wanted.
pub(super) fn shown_by(
    names: &[String],
    clusters: &BTreeMap<String, Result<ClusterEvidence, String>>,
) -> Result<Vec<ClusterEvidence>, String> {
    names
        .iter()
        .filter_map(|cluster| clusters.get(cluster).cloned())
        .collect()
}

/// Why a decision is not satisfied; nothing if it is.
pub(super) fn unsatisfied(satisfied: bool, reasons: &[String]) -> Vec<String> {
    match (satisfied, reasons.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec!["not every replica has a place".to_owned()],
        (false, false) => reasons.to_vec(),
    }
}

/// The roll-up over all clusters with a target.
pub(super) fn delivery(
    placed: &[Placed],
    plan_shares: &BTreeMap<String, dispatch::Share>,
    clusters: &BTreeMap<String, Result<ClusterEvidence, String>>,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    fleet: &Fleet,
) -> Delivery {
    let members: Vec<_> = clusters
        .iter()
        .map(|(cluster, evidence)| {
            let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
            let share = plan_shares.get(cluster);
            let replicas = share.map_or(0, Share::total);
            rollup::Member {
                region: fleet
                    .members
                    .get(cluster)
                    .map(|m| m.region.clone())
                    .unwrap_or_default(),
                evidence: evidence.clone().unwrap_or_else(|message| ClusterEvidence {
                    cluster: cluster.clone(),
                    state: ClusterState::Failed,
                    message,
                }),
                replicas,
                divided: share.map_or(0, |share| share.divided),
                ready: ready_replicas(held, replicas),
                trouble: trouble(held),
            }
        })
        .collect();
    let reached: Vec<_> = placed.iter().filter(|p| p.reached).collect();
    let reasons = reached.iter().flat_map(|p| {
        p.decision.workloads.iter().flat_map(move |w| {
            w.unplaced.iter().filter(|u| u.count > 0).map(move |u| {
                let rule = match &u.rule {
                    Some(rule) => format!("{}/{rule}", p.step),
                    None => "the remainder that no rule claims".to_owned(),
                };
                format!(
                    "{} of {} {}: {} ({rule})",
                    u.count, w.workload.kind, w.workload.name, u.reason
                )
            })
        })
    });
    let unplaced = rollup::Unplaced {
        count: reached.iter().map(|p| p.decision.unplaced).sum(),
        reasons: reasons.collect(),
    };
    rollup::roll_up(&members, unplaced)
}

/// The same with what the clusters show of the objects of steps, the first of them.
pub(super) fn with_objects(mut delivery: Delivery, objects: &[ObjectDelivery]) -> Delivery {
    let more = objects.len().saturating_sub(MAX_OBJECTS);
    delivery.objects = objects.iter().take(MAX_OBJECTS).cloned().collect();
    delivery.objects_omitted = (more > 0).then(|| u32::try_from(more).unwrap_or(u32::MAX));
    delivery
}

/// Sets the condition `Accepted`.
pub(super) fn accepted(
    status: &mut ApplicationStatus,
    violations: &[Violation],
    generation: i64,
    now: Timestamp,
) {
    let verdict = if violations.is_empty() {
        Verdict {
            type_: ACCEPTED,
            status: condition::Status::True,
            reason: "Valid",
            message: String::new(),
        }
    } else {
        let lines = violations.iter().take(MAX_VIOLATIONS).map(ToString::to_string);
        let mut message = lines.collect::<Vec<_>>().join("; ");
        if violations.len() > MAX_VIOLATIONS {
            message.push_str(&format!("; and {} more", violations.len() - MAX_VIOLATIONS));
        }
        Verdict {
            type_: ACCEPTED,
            status: condition::Status::False,
            reason: "Invalid",
            message: cut(message),
        }
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `Delivered` to why an application is not.
fn undelivered(
    status: &mut ApplicationStatus,
    reason: &'static str,
    message: String,
    generation: i64,
    now: Timestamp,
) {
    let verdict = Verdict {
        type_: DELIVERED,
        status: condition::Status::False,
        reason,
        message: cut(message),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `Delivered` for an application whose spec is refused: what runs is not of it.
pub(super) fn refused(status: &mut ApplicationStatus, generation: i64, now: Timestamp) {
    let message = "the spec is not accepted: what runs stays as it is";
    undelivered(status, "Refused", message.to_owned(), generation, now);
}

/// Sets `Overcommitted` where rules that the run has reached claim more than there is, and takes it back where it was said.
fn overcommitted(status: &mut ApplicationStatus, placed: &[Placed], generation: i64, now: Timestamp) {
    let workloads = placed.iter().filter(|p| p.reached).flat_map(|p| {
        let workloads = p.decision.workloads.iter();
        workloads.flat_map(move |workload| {
            workload
                .shrunk()
                .map(move |rule| (&p.step, &workload.workload, rule))
        })
    });
    let shrunk: Vec<String> = workloads
        .map(|(step, workload, rule)| {
            format!(
                "rule {step}/{} gets {} of {} replicas of {} {}/{}",
                rule.rule.as_deref().unwrap_or_default(),
                rule.total,
                rule.seats,
                workload.kind,
                workload.namespace,
                workload.name
            )
        })
        .collect();
    let verdict = match shrunk.is_empty() {
        true if condition::get(&status.conditions, OVERCOMMITTED).is_none() => return,
        true => Verdict {
            type_: OVERCOMMITTED,
            status: condition::Status::False,
            reason: "WithinReplicas",
            message: String::new(),
        },
        false => Verdict {
            type_: OVERCOMMITTED,
            status: condition::Status::True,
            reason: "RulesClaimMore",
            message: cut(format!("lower counts or percentages: {}", shrunk.join("; "))),
        },
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `ClustersSeen`: whether placements follow the clusters as they are.
pub(super) fn clusters_seen(status: &mut ApplicationStatus, are_seen: bool, generation: i64, now: Timestamp) {
    let verdict = match are_seen {
        true if condition::get(&status.conditions, CLUSTERS_SEEN).is_none() => return,
        true => Verdict {
            type_: CLUSTERS_SEEN,
            status: condition::Status::True,
            reason: "Watched",
            message: String::new(),
        },
        false => Verdict {
            type_: CLUSTERS_SEEN,
            status: condition::Status::False,
            reason: "ListFails",
            message: "the clusters cannot be listed: placements follow what was seen of them last, and nothing is removed \
                      for what they no longer show; check what the hub's log says of it, its rights, and its API server"
                .to_owned(),
        },
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `Placed`, `Overcommitted` and `Delivered`.
pub(super) fn progress(
    status: &mut ApplicationStatus,
    placed: &[Placed],
    placing_steps: usize,
    generation: i64,
    now: Timestamp,
) {
    let workflow = status.workflow.clone().unwrap_or_default();
    let unsatisfied: Vec<&Placed> = placed
        .iter()
        .filter(|p| p.reached && !p.decision.satisfied)
        .collect();
    let all_reached = placed.iter().filter(|p| p.reached).count() == placing_steps;
    let (verdict, reason, message) = match (unsatisfied.first(), all_reached) {
        (Some(step), _) => (
            condition::Status::False,
            "Unsatisfied",
            format!("step {}: {}", step.step, step.decision.reasons.join("; ")),
        ),
        (None, false) => (
            condition::Status::False,
            "InProgress",
            "not every placing step was reached".to_owned(),
        ),
        // What no rule claims is placed by nobody's wish, and worth knowing all the same.
        (None, true) => {
            let reasons: Vec<&str> = placed
                .iter()
                .flat_map(|p| &p.decision.reasons)
                .map(String::as_str)
                .collect();
            (condition::Status::True, "Satisfied", reasons.join("; "))
        }
    };
    let verdict = Verdict {
        type_: PLACED,
        status: verdict,
        reason,
        message: cut(message),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);

    overcommitted(status, placed, generation, now);

    let ready = status
        .delivery
        .as_ref()
        .map(|d| format!("{} clusters ready", d.clusters_ready));
    let (verdict, reason) = match (status.phase, workflow.status) {
        (Some(ApplicationPhase::Running), _) => (condition::Status::True, "Ready"),
        (Some(ApplicationPhase::Unhealthy), _) => (condition::Status::False, "NotReady"),
        (_, Some(StepPhase::Failed)) => (condition::Status::False, "Ended"),
        (_, Some(StepPhase::Suspending)) => (condition::Status::False, "Suspended"),
        _ => (condition::Status::False, "InProgress"),
    };
    let verdict = Verdict {
        type_: DELIVERED,
        status: verdict,
        reason,
        message: workflow.message.or(ready).map(cut).unwrap_or_default(),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `Placed` for an application whose Placements cannot be used: what runs stays.
pub(super) fn unresolved(
    status: &mut ApplicationStatus,
    unresolved: &Unresolved,
    generation: i64,
    now: Timestamp,
) {
    let verdict = Verdict {
        type_: PLACED,
        status: condition::Status::False,
        reason: unresolved.reason(),
        message: cut(unresolved.to_string()),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `DeletesHeld` once removals were judged, and what programs need to know of it.
pub(super) fn held(status: &mut ApplicationStatus, held: Option<Held>, generation: i64, now: Timestamp) {
    let (why, deletes) = held.map(|held| (held.message, held.deletes)).unzip();
    status.held_deletes = deletes;
    let verdict = match why {
        None => deletes_held(condition::Status::False, "NothingHeld", String::new()),
        Some(message) => deletes_held(condition::Status::True, "ConfirmationNeeded", message),
    };
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

/// Sets `DeletesHeld` where removals are judged and not carried out yet: nothing goes before what replaces it runs. A
/// question that was asked stays asked.
pub(super) fn waiting(
    status: &mut ApplicationStatus,
    judged: &Judged,
    blocking: &[String],
    app: &Stored,
    now: Timestamp,
) {
    let asked = condition::is_true(&status.conditions, DELETES_HELD);
    if asked && judged.held.is_some() || judged.waiting.is_empty() {
        return held(status, judged.held.clone(), app.generation, now);
    }
    let keep = match judged.waiting.len() {
        1 => "1 cluster keeps".to_owned(),
        count => format!("{count} clusters keep"),
    };
    let message = format!(
        "{keep} {} until what replaces it runs: {}; waiting for {}",
        app.title(),
        named(&judged.waiting),
        named(blocking)
    );
    // Nothing is asked.
    status.held_deletes = None;
    let verdict = deletes_held(condition::Status::False, WAITS_FOR_CLUSTERS, message);
    condition::set(&mut status.conditions, verdict, Some(app.generation), now);
}

/// Sets `DeletesHeld` for a run that has not succeeded: what an earlier one left to ask says nothing any more.
pub(super) fn unjudged(status: &mut ApplicationStatus, generation: i64, now: Timestamp) {
    status.held_deletes = None;
    if condition::get(&status.conditions, DELETES_HELD).is_none() {
        return;
    }
    let message = "removals are judged when the run has succeeded".to_owned();
    let verdict = deletes_held(condition::Status::Unknown, "NotJudged", message);
    condition::set(&mut status.conditions, verdict, Some(generation), now);
}

fn deletes_held(status: condition::Status, reason: &'static str, message: String) -> Verdict {
    Verdict {
        type_: DELETES_HELD,
        status,
        reason,
        message: cut(message),
    }
}

/// `c1, c2 … and 3 more`.
fn named(clusters: &[String]) -> String {
    let named = clusters.get(..MAX_CLUSTERS).unwrap_or(clusters);
    let more = match clusters.len() - named.len() {
        0 => String::new(),
        more => format!(" … and {more} more"),
    };
    named.join(", ") + &more
}

/// Sets `Delivered` for an application that is being deleted, of which no removal waits to be confirmed any more.
pub(super) fn deleting(status: &mut ApplicationStatus, message: String, generation: i64, now: Timestamp) {
    status.phase = Some(ApplicationPhase::Deleting);
    if condition::get(&status.conditions, DELETES_HELD).is_some() {
        held(status, None, generation, now);
    }
    undelivered(status, "Deleting", message, generation, now);
}

/// Sets `Delivered` for an application whose revision cannot be recorded, or what follows from it not be written.
pub(super) fn stuck(
    status: &mut ApplicationStatus,
    reason: &'static str,
    error: &PassError,
    generation: i64,
    now: Timestamp,
) {
    undelivered(status, reason, error.to_string(), generation, now);
}

/// Whether two statuses differ in more than bookkeeping.
pub(super) fn differs(stored: &ApplicationStatus, new: &ApplicationStatus) -> bool {
    let mut new = new.clone();
    if let (Some(new), Some(stored)) = (&mut new.workflow, &stored.workflow) {
        new.epoch = stored.epoch;
    }
    *stored != new
}

/// Whether a step, the run or the delete budget moved: such a change is written at once and before anything is dispatched.
pub(super) fn transition(stored: &ApplicationStatus, new: &ApplicationStatus) -> bool {
    // Whether something is held, and what. What removals wait for that nobody is asked about moves with every report.
    let held = |status: &ApplicationStatus| {
        let held = condition::get(&status.conditions, DELETES_HELD)?;
        let message = (held.status == "True").then(|| held.message.clone());
        Some((held.status.clone(), held.observed_generation, message))
    };
    let shape = |status: &ApplicationStatus| {
        let workflow = status.workflow.clone().unwrap_or_default();
        let steps: Vec<_> = workflow
            .all_steps()
            .map(|s| (s.phase, s.reason, s.attempt, s.values.clone(), s.output.clone()))
            .collect();
        (
            (workflow.generation, workflow.app_revision, workflow.run),
            (
                workflow.status,
                (workflow.suspend, workflow.paused),
                workflow.terminated,
                workflow.finished,
                workflow.restart_from,
            ),
            steps,
            (
                status.removals.clone(),
                status.spent_confirmation.clone(),
                status.let_go.clone(),
            ),
            held(status),
        )
    };
    shape(stored) != shape(new)
}

fn cut(message: String) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}
