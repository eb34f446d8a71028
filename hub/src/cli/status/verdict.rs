//! Where an application stands, in one of four states that scripts can tell apart. Pure.

use crate::words::{self, command};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::{
    application::{
        ACCEPTED, ApplicationPhase, ApplicationStatus, ClusterDelivery, DELETES_HELD, DELIVERED,
        ObjectDelivery, PLACED, StepPhase, StepStatus, Unresolved, WAITS_FOR_CLUSTERS, WorkflowStatus,
    },
    condition,
    names::step_bundle_name,
};
use std::{collections::BTreeMap, time::Duration};

/// What a script has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum State {
    /// Everything of the present spec is delivered and ready.
    Done,
    /// The hub or the clusters are at work; nobody has to do anything yet.
    InProgress,
    /// It goes no further by itself, because something went wrong.
    Failed,
    /// It goes no further until a person says so.
    Awaiting,
}

impl State {
    /// The exit status of `status` and `watch`.
    pub(in crate::cli) fn code(self) -> u8 {
        match self {
            State::Done => 0,
            State::InProgress => 2,
            State::Failed => 3,
            State::Awaiting => 5,
        }
    }

    /// As JSON has it.
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            State::Done => "done",
            State::InProgress => "inProgress",
            State::Failed => "failed",
            State::Awaiting => "awaiting",
        }
    }
}

/// Where an application stands, why, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Verdict {
    pub(in crate::cli) state: State,
    /// A word or two: `delivering`, `suspended`.
    pub(in crate::cli) headline: &'static str,
    /// What it waits for, or what went wrong.
    pub(in crate::cli) why: Option<String>,
    /// What to try, a command or a sentence each.
    pub(in crate::cli) advice: Vec<String>,
}

impl Verdict {
    fn new(state: State, headline: &'static str, why: Option<String>) -> Verdict {
        Verdict {
            state,
            headline,
            why: why.filter(|why| !why.is_empty()),
            advice: Vec::new(),
        }
    }

    fn try_(mut self, advice: impl Into<String>) -> Verdict {
        self.advice.push(advice.into());
        self
    }
}

/// What the verdict is about.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Stands<'a> {
    pub(in crate::cli) namespace: &'a str,
    pub(in crate::cli) name: &'a str,
    pub(in crate::cli) generation: Option<i64>,
    pub(in crate::cli) deleting: bool,
    pub(in crate::cli) status: &'a ApplicationStatus,
    /// Steps that suspend the run for a time only, by name.
    pub(in crate::cli) timers: &'a BTreeMap<String, Duration>,
    /// The hash of the removals that a person has confirmed last.
    pub(in crate::cli) confirmed: Option<&'a str>,
}

/// Judges an application. What a person has asked for and the hub has not taken up yet counts as in progress.
pub(in crate::cli) fn verdict(app: &Stands<'_>) -> Verdict {
    let status = app.status;
    let message = |type_: &str| condition::get(&status.conditions, type_).map(|c| c.message.clone());
    if app.deleting {
        let why = message(DELIVERED).filter(|_| status.phase == Some(ApplicationPhase::Deleting));
        return Verdict::new(State::InProgress, "deleting", why);
    }
    if status.observed_generation != app.generation {
        if let Some(why) = stuck(app) {
            return Verdict::new(State::InProgress, "changed", Some(why));
        }
        let why = "the hub has not looked at this spec yet".to_owned();
        return Verdict::new(State::InProgress, "changed", Some(why))
            .try_("if this lasts: is the hub running? roundhouse serve, or kubectl get leases -A");
    }
    if condition::get(&status.conditions, ACCEPTED).is_some_and(|c| c.status == "False") {
        return Verdict::new(State::Failed, "refused", message(ACCEPTED))
            .try_("correct the fields that are named, and roundhouse plan -f FILE before applying again");
    }
    let Some(run) = &status.workflow else {
        let why = stuck(app).unwrap_or_else(|| "the run starts".to_owned());
        return Verdict::new(State::InProgress, "starting", Some(why));
    };
    // The run is of the spec before, and none of this one can begin.
    if let Some(why) = stuck(app).filter(|_| run.generation != app.generation) {
        return Verdict::new(State::InProgress, "changed", Some(why));
    }
    if let Some(asked) = asked(run, status.phase) {
        return Verdict::new(State::InProgress, asked, Some("the hub takes it up".to_owned()));
    }
    let mut verdict = match (run.finished, run.status) {
        (true, Some(StepPhase::Succeeded)) => succeeded(app),
        (true, _) => ended(app, run),
        (false, Some(StepPhase::Suspending)) => suspended(app, run),
        (false, _) => running(app, run),
    };
    if let Some(note) = run.unknown_restart() {
        verdict.why = Some(match verdict.why.take() {
            Some(why) if why.contains(&note) => why,
            Some(why) => format!("{note}; {why}"),
            None => note,
        });
        let restart = command("restart", app.namespace, app.name);
        verdict = verdict.try_(format!("{restart} --step with one of its steps"));
    }
    verdict
}

/// A command of a person that the hub has not taken up.
fn asked(run: &WorkflowStatus, phase: Option<ApplicationPhase>) -> Option<&'static str> {
    if run.restart_from.is_some() && run.unknown_restart().is_none() {
        return Some("restarting");
    }
    if run.finished {
        return (phase == Some(ApplicationPhase::RunningWorkflow)).then_some("restarting");
    }
    if run.terminated {
        return Some("terminating");
    }
    match (run.suspend, run.status == Some(StepPhase::Suspending)) {
        (true, false) => Some("suspending"),
        (false, true) => Some("resuming"),
        _ => None,
    }
}

fn succeeded(app: &Stands<'_>) -> Verdict {
    let status = app.status;
    let of = |type_: &str| condition::get(&status.conditions, type_);
    // What was judged of an earlier spec says nothing of this one.
    let judged = of(DELETES_HELD)
        .filter(|judged| judged.observed_generation == app.generation && judged.status != "Unknown");
    let placed = of(PLACED).filter(|placed| placed.status == "False");
    // Where Placements cannot be used nothing is decided, and what was approved is not looked at.
    let undecided = placed.filter(|placed| Unresolved::REASONS.contains(&placed.reason.as_str()));
    if let Some(held) = judged.filter(|held| held.status == "True" && undecided.is_none()) {
        let asked = status.held_deletes.as_ref().map(|held| held.hash.as_str());
        if asked.is_some() && asked == app.confirmed {
            // What follows the fleet is decided step by step, and nothing goes before that.
            let why = match (stuck(app), waits(app)) {
                (Some(stuck), _) => format!("the removals are approved, and wait for this: {stuck}"),
                (None, Some(waits)) => {
                    format!("the removals are approved, and the hub takes that up; not ready yet: {waits}")
                }
                (None, None) => "the removals are approved, and the hub takes that up".to_owned(),
            };
            let verdict = Verdict::new(State::InProgress, "removing", Some(why));
            return clusters_advice(app, verdict);
        }
        let verdict = Verdict::new(State::Awaiting, "deletes held", Some(held.message.clone()));
        return match asked {
            Some(hash) => verdict.try_(command("approve", app.namespace, app.name) + " --hash " + hash),
            None => verdict,
        };
    }
    if let Some(placed) = placed {
        let mut why = format!("{}: {}", placed.reason, placed.message);
        if undecided.is_some() && status.held_deletes.is_some() {
            why.push_str("; until then no removal is judged, whether it is approved or not");
        }
        return Verdict::new(State::InProgress, "not as placed", Some(why)).try_(command(
            "explain",
            app.namespace,
            app.name,
        ));
    }
    let removals = judged.filter(|judged| judged.reason == WAITS_FOR_CLUSTERS);
    let removals = removals.map(|waits| waits.message.clone());
    match status.phase {
        Some(ApplicationPhase::Running) if judged.is_none() => {
            let why = "whether something is to be removed is not judged yet".to_owned();
            Verdict::new(State::InProgress, "delivered", Some(why))
        }
        Some(ApplicationPhase::Running) if removals.is_some() => {
            Verdict::new(State::InProgress, "delivered", removals)
        }
        Some(ApplicationPhase::Running) if condition::is_true(&status.conditions, DELIVERED) => {
            Verdict::new(State::Done, "delivered", None)
        }
        Some(ApplicationPhase::Unhealthy) => {
            let why: Vec<String> = stuck(app).into_iter().chain(waits(app)).chain(removals).collect();
            let verdict = Verdict::new(State::InProgress, "unhealthy", Some(why.join("; ")));
            clusters_advice(app, verdict)
        }
        _ => {
            let why = stuck(app).or_else(|| waits(app));
            Verdict::new(State::InProgress, "delivered", why)
        }
    }
}

fn ended(app: &Stands<'_>, run: &WorkflowStatus) -> Verdict {
    let (namespace, name) = (app.namespace, app.name);
    if app.status.phase == Some(ApplicationPhase::WorkflowTerminated) {
        let why = run.message.clone().filter(|_| !run.was_terminated_by_a_person());
        return Verdict::new(State::Failed, "terminated", why).try_(command("restart", namespace, name));
    }
    let failed = of_phase(run, &[StepPhase::Failed]);
    let why = match failed {
        Some(step) => Some(match &step.message {
            Some(message) => format!("step {}: {message}", step.name),
            None => format!("step {} failed", step.name),
        }),
        None => run.message.clone(),
    };
    let mut verdict = Verdict::new(State::Failed, "failed", why);
    if let Some(step) = failed {
        let restart = command("restart", namespace, name);
        verdict = verdict.try_(format!("{restart} --step {}, once the cause is gone", step.name));
    }
    verdict.try_(command("rollback", namespace, name))
}

fn suspended(app: &Stands<'_>, run: &WorkflowStatus) -> Verdict {
    let (namespace, name) = (app.namespace, app.name);
    // A person has paused it, whatever its steps say.
    let paused = run.message.clone().filter(|_| run.paused);
    let step = of_phase(run, &[StepPhase::Suspending]).filter(|_| paused.is_none());
    let why = step
        .and_then(|step| step.message.clone())
        .or_else(|| run.message.clone());
    let why = match (step, why) {
        (Some(step), Some(why)) => Some(format!("step {}: {why}", step.name)),
        (Some(step), None) => Some(format!("step {} waits for a person", step.name)),
        (None, why) => why,
    };
    if let Some(at) = goes_on(app, run) {
        let why = format!("{}; it goes on by itself at {at}", why.unwrap_or_default());
        return Verdict::new(State::InProgress, "suspended", Some(why)).try_(format!(
            "{}, to go on at once",
            command("resume", namespace, name)
        ));
    }
    Verdict::new(State::Awaiting, "suspended", why)
        .try_(command("resume", namespace, name))
        .try_(command("terminate", namespace, name))
}

/// When a run goes on without a person: every step that suspends it does so for a time. The latest of them.
fn goes_on(app: &Stands<'_>, run: &WorkflowStatus) -> Option<String> {
    if run.paused {
        return None;
    }
    let suspending = steps(run).filter(|step| step.phase == StepPhase::Suspending);
    let mut latest = None;
    for step in suspending {
        let timer = app.timers.get(&step.name)?;
        let since = step.first_execute_time.as_ref()?.0;
        latest = latest.max(Some(since.checked_add(*timer).ok()?));
    }
    written(&Time(latest?))
}

/// As the API writes times.
fn written(time: &Time) -> Option<String> {
    match serde_json::to_value(time) {
        Ok(serde_json::Value::String(text)) => Some(text),
        _ => None,
    }
}

fn running(app: &Stands<'_>, run: &WorkflowStatus) -> Verdict {
    let step = of_phase(run, &[StepPhase::Running, StepPhase::Failed]);
    let why = stuck(app)
        .or_else(|| {
            let step = step?;
            let tried = step.next_try.as_ref().and_then(|next| {
                let at = written(&next.at)?;
                Some(format!(
                    " is tried again, try {} of {} at {at}",
                    next.number, next.of
                ))
            });
            let tried = tried.unwrap_or_default();
            Some(format!("step {}{tried}: {}", step.name, step.message.as_deref()?))
        })
        .or_else(|| run.message.clone());
    let mut verdict = Verdict::new(State::InProgress, "delivering", why);
    if let Some(step) = step.filter(|step| step.is_retried()) {
        let restart = command("restart", app.namespace, app.name);
        verdict = verdict.try_(format!(
            "{restart} --step {}, to try at once when the cause is gone",
            step.name
        ));
    }
    clusters_advice(app, verdict)
}

/// What the hub itself could not do.
fn stuck(app: &Stands<'_>) -> Option<String> {
    let delivered = condition::get(&app.status.conditions, DELIVERED)?;
    let delivered = Some(delivered).filter(|delivered| delivered.observed_generation == app.generation)?;
    matches!(delivered.reason.as_str(), "NotRecorded" | "NotWritten").then(|| delivered.message.clone())
}

/// The first clusters that are not ready.
fn waits(app: &Stands<'_>) -> Option<String> {
    let delivery = app.status.delivery.as_ref()?;
    let first = |clusters: &[ClusterDelivery], omitted: Option<u32>| {
        let first = clusters.first()?;
        let all = clusters.len() + omitted.map_or(0, |n| usize::try_from(n).unwrap_or(0));
        let more = match all {
            0 | 1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        Some(format!(
            "cluster {} ({}: {}){more}",
            first.cluster, first.phase, first.message
        ))
    };
    let of_step = |object: &ObjectDelivery| {
        let first = first(&object.not_ready, object.omitted)?;
        Some(format!("step {}: {first}", object.step))
    };
    let of_components = first(&delivery.not_ready, delivery.omitted);
    of_components.or_else(|| delivery.objects.iter().find_map(of_step))
}

/// Where to look for the cause, by what the clusters that are not ready have in common.
fn clusters_advice(app: &Stands<'_>, verdict: Verdict) -> Verdict {
    let Some(delivery) = &app.status.delivery else {
        return verdict;
    };
    let mut verdict = verdict;
    let of = |phase: &str| delivery.not_ready.iter().find(|cluster| cluster.phase == phase);
    if let Some(failed) = of("Failed").or_else(|| of("Unhealthy")) {
        let cluster = &failed.cluster;
        verdict = verdict.try_(format!(
            "kubectl -n cluster-{cluster} get bundle {}.{} -o yaml, for what its agent reports",
            app.namespace, app.name
        ));
    }
    if let Some(away) = of("Unreachable") {
        verdict = verdict.try_(format!(
            "roundhouse clusters {}; it is caught up when it returns",
            away.cluster
        ));
    }
    let failed = |cluster: &&ClusterDelivery| matches!(cluster.phase.as_str(), "Failed" | "Unhealthy");
    let of_step = delivery
        .objects
        .iter()
        .find_map(|object| Some((object, object.not_ready.iter().find(failed)?)));
    if let Some((object, failed)) = of_step {
        let bundle = step_bundle_name(app.namespace, app.name, &object.step);
        verdict = verdict.try_(format!(
            "kubectl -n cluster-{} get bundle {bundle} -o yaml, for what its agent reports",
            failed.cluster
        ));
    }
    if delivery.unplaced > 0 {
        verdict = verdict.try_(format!(
            "{}, for the {} without a place",
            command("explain", app.namespace, app.name),
            words::count(delivery.unplaced, "replica", "replicas")
        ));
    }
    verdict
}

/// The first step in one of these phases, of a run that goes on only one that is not over; a group only if none of its own
/// is.
fn of_phase<'a>(run: &'a WorkflowStatus, phases: &[StepPhase]) -> Option<&'a StepStatus> {
    let found = |step: &&StepStatus| phases.contains(&step.phase) && (run.finished || !step.is_over());
    let mut alone = steps(run).filter(|step| step.sub_steps.is_empty());
    alone.find(found).or_else(|| steps(run).find(found))
}

/// All steps, each group before its own.
pub(in crate::cli) fn steps(run: &WorkflowStatus) -> impl Iterator<Item = &StepStatus> {
    run.all_steps()
}

/// Whether the run of the present spec has succeeded, ready or not.
pub(in crate::cli) fn is_delivered(app: &Stands<'_>) -> bool {
    let accepted = condition::get(&app.status.conditions, ACCEPTED);
    let refused = accepted.is_some_and(|accepted| accepted.status == "False");
    let run = app.status.workflow.as_ref();
    let succeeded = run.is_some_and(|run| {
        let is_over = run.finished && asked(run, app.status.phase).is_none();
        is_over && run.status == Some(StepPhase::Succeeded) && run.generation == app.generation
    });
    app.status.observed_generation == app.generation && !refused && !app.deleting && succeeded
}
