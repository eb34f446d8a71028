//! What moved between two statuses of an Application, as people read it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use roundhouse_api::{
    application::{
        ACCEPTED, ApplicationPhase, ApplicationStatus, DELETES_HELD, DELIVERED, StepPhase, StepStatus,
        WAITS_FOR_CLUSTERS, WorkflowStatus,
    },
    condition,
};

/// Reasons of the condition `Delivered` that say what the hub could not do.
const STUCK: [&str; 2] = ["NotRecorded", "NotWritten"];

/// One thing that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    /// A CamelCase word, as events have it.
    pub(crate) reason: &'static str,
    /// One line.
    pub(crate) message: String,
    /// Whether a person should look at it.
    pub(crate) warning: bool,
}

impl Transition {
    /// An Application that its hub leaves alone.
    pub(in crate::application) fn fenced(message: String) -> Transition {
        Transition {
            reason: "Fenced",
            message,
            warning: true,
        }
    }

    fn normal(reason: &'static str, message: impl Into<String>) -> Transition {
        Transition {
            reason,
            message: message.into(),
            warning: false,
        }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Transition {
        Transition {
            warning: true,
            ..Transition::normal(reason, message)
        }
    }
}

/// What moved, in the order in which it is told: the spec, the run, its steps, how it ended, what is held.
pub(crate) fn transitions(before: &ApplicationStatus, after: &ApplicationStatus) -> Vec<Transition> {
    transitions_called(before, after, &str::to_owned)
}

/// The same, with steps as `call` calls them by their names.
pub(crate) fn transitions_called(
    before: &ApplicationStatus,
    after: &ApplicationStatus,
    call: &dyn Fn(&str) -> String,
) -> Vec<Transition> {
    let mut told = Vec::new();
    told.extend(judged(before, after));
    if let Some(run) = &after.workflow {
        run_moved(before.workflow.as_ref(), run, (after.phase, call), &mut told);
    }
    told.extend(health(before.phase, after.phase));
    told.extend(held(before, after));
    told.extend(stuck(before, after));
    if after.phase == Some(ApplicationPhase::Deleting) && before.phase != after.phase {
        let message = condition::get(&after.conditions, DELIVERED).map(|c| c.message.clone());
        told.push(Transition::normal("Deleting", message.unwrap_or_default()));
    }
    told
}

fn same_run(a: &WorkflowStatus, b: &WorkflowStatus) -> bool {
    (&a.app_revision, &a.generation, a.run) == (&b.app_revision, &b.generation, b.run)
}

/// Whether the spec was understood.
fn judged(before: &ApplicationStatus, after: &ApplicationStatus) -> Option<Transition> {
    let (was, is) = pair(before, after, ACCEPTED);
    let is = is?;
    match is.status.as_str() {
        "True" if was.is_none_or(|was| was.status != "True") => {
            Some(Transition::normal("Accepted", "the spec was understood"))
        }
        "False" if was.is_none_or(|was| was.status != "False" || was.message != is.message) => {
            Some(Transition::warning("Refused", &is.message))
        }
        _ => None,
    }
}

/// What a step is called.
type Called<'a> = &'a dyn Fn(&str) -> String;

fn run_moved(
    earlier: Option<&WorkflowStatus>,
    run: &WorkflowStatus,
    (phase, call): (Option<ApplicationPhase>, Called<'_>),
    told: &mut Vec<Transition>,
) {
    let revision = run.app_revision.as_deref().unwrap_or("the revision");
    let before = earlier.filter(|earlier| same_run(earlier, run));
    if before.is_none() {
        let steps = match run.steps.len() {
            1 => "1 step".to_owned(),
            count => format!("{count} steps"),
        };
        told.push(Transition::normal(
            "RunStarted",
            format!("delivering {revision} in {steps}"),
        ));
    }
    let was_suspended = before.is_some_and(|run| run.status == Some(StepPhase::Suspending));
    let is_suspended = run.status == Some(StepPhase::Suspending);
    // A person may pause what a step suspends already.
    let was_paused = before.is_some_and(|run| run.paused);
    if was_paused && !run.paused && is_suspended {
        let why = run.message.as_deref().unwrap_or("it waits for a person");
        told.push(Transition::normal(
            "Resumed",
            format!("the run of {revision} is paused no more, and suspended by a step: {why}"),
        ));
    }
    if was_suspended && !is_suspended && !run.terminated {
        told.push(Transition::normal(
            "Resumed",
            format!("the run of {revision} goes on"),
        ));
    }
    for step in run.all_steps() {
        // Of a run that was started again from a step, the steps before it are as they were.
        if earlier.and_then(|run| run.step(&step.name)) != Some(step) {
            let was = before.and_then(|run| run.step(&step.name));
            told.extend(step_moved(was, step, &call(&step.name)));
        }
    }
    if is_suspended && (!was_suspended || (run.paused && !was_paused)) {
        let why = run.message.as_deref().unwrap_or("it waits for a person");
        told.push(Transition::normal(
            "Suspended",
            format!("the run of {revision} is suspended: {why}"),
        ));
    }
    if run.finished && before.is_none_or(|run| !run.finished) {
        told.push(match (run.status, phase) {
            (Some(StepPhase::Succeeded), _) => {
                Transition::normal("RunSucceeded", format!("{revision} was delivered"))
            }
            (_, Some(ApplicationPhase::WorkflowTerminated)) => {
                let why = run
                    .message
                    .as_deref()
                    .filter(|_| !run.was_terminated_by_a_person());
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Transition::warning(
                    "RunTerminated",
                    format!("the run of {revision} was terminated{why}"),
                )
            }
            _ => {
                let why = run.message.as_deref().unwrap_or("a step failed");
                Transition::warning("RunFailed", format!("the run of {revision} failed: {why}"))
            }
        });
    }
}

/// What is told of a step: the phase that it came into, and once per execution what it waits for.
fn step_moved(before: Option<&StepStatus>, step: &StepStatus, name: &str) -> Option<Transition> {
    let was = before.map_or(StepPhase::Pending, |step| step.phase);
    let why = |text: &str| match step.message.as_deref() {
        Some(message) if !message.is_empty() => format!("{text}: {message}"),
        _ => text.to_owned(),
    };
    // One that was tried again and again fails for good without another phase.
    let gave_up =
        step.phase == StepPhase::Failed && step.is_over() && before.is_some_and(StepStatus::is_retried);
    if was != step.phase || gave_up {
        return match step.phase {
            StepPhase::Pending => None,
            StepPhase::Running if was == StepPhase::Suspending => None,
            StepPhase::Running => match &step.message {
                Some(_) => Some(Transition::normal("StepWaiting", why(&format!("step {name}")))),
                None => Some(Transition::normal("StepStarted", format!("step {name} started"))),
            },
            // The run says that it is suspended, and why.
            StepPhase::Suspending => None,
            StepPhase::Succeeded => Some(Transition::normal(
                "StepSucceeded",
                format!("step {name} succeeded"),
            )),
            StepPhase::Failed if step.is_retried() => Some(Transition::warning(
                "StepRetried",
                why(&format!("step {name} failed, and is tried again")),
            )),
            StepPhase::Failed => {
                let reason = step.reason.map(|reason| format!(" ({reason:?})"));
                let text = format!("step {name} failed{}", reason.unwrap_or_default());
                Some(Transition::warning("StepFailed", why(&text)))
            }
            StepPhase::Skipped => Some(Transition::normal(
                "StepSkipped",
                why(&format!("step {name} was skipped")),
            )),
        };
    }
    let first_word = step.phase == StepPhase::Running
        && step.message.is_some()
        && before.is_some_and(|b| b.message.is_none());
    first_word.then(|| Transition::normal("StepWaiting", why(&format!("step {name}"))))
}

fn health(before: Option<ApplicationPhase>, after: Option<ApplicationPhase>) -> Option<Transition> {
    use ApplicationPhase::{Running, Unhealthy};
    match (before, after) {
        (Some(Running), Some(Unhealthy)) => Some(Transition::warning(
            "Unhealthy",
            "what was delivered is not ready any more",
        )),
        (Some(Unhealthy), Some(Running)) => {
            Some(Transition::normal("Healthy", "what was delivered is ready again"))
        }
        _ => None,
    }
}

fn held(before: &ApplicationStatus, after: &ApplicationStatus) -> Option<Transition> {
    let (was, is) = pair(before, after, DELETES_HELD);
    let is = is?;
    match is.status.as_str() {
        "True" if was.is_none_or(|was| was.status != "True" || was.message != is.message) => {
            Some(Transition::warning("DeletesHeld", &is.message))
        }
        "True" => None,
        _ if was.is_some_and(|was| was.status == "True") => Some(Transition::normal(
            "DeletesReleased",
            "no removal waits for a confirmation any more",
        )),
        _ if is.reason == WAITS_FOR_CLUSTERS && was.is_none_or(|was| was.reason != is.reason) => {
            Some(Transition::normal("DeletesWait", &is.message))
        }
        _ => None,
    }
}

fn stuck(before: &ApplicationStatus, after: &ApplicationStatus) -> Option<Transition> {
    let (was, is) = pair(before, after, DELIVERED);
    let is = is?;
    let reason = STUCK.into_iter().find(|reason| is.reason == *reason)?;
    (was.is_none_or(|was| was.reason != is.reason || was.message != is.message))
        .then(|| Transition::warning(reason, &is.message))
}

fn pair<'a>(
    before: &'a ApplicationStatus,
    after: &'a ApplicationStatus,
    type_: &str,
) -> (Option<&'a Condition>, Option<&'a Condition>) {
    (
        condition::get(&before.conditions, type_),
        condition::get(&after.conditions, type_),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn status(value: Value) -> ApplicationStatus {
        serde_json::from_value(value).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    fn run(status: &str, more: Value, steps: Value) -> Value {
        let mut run = json!({"appRevision": "web-v2", "generation": 2, "startTime": "2026-01-01T00:00:00Z",
            "status": status, "steps": steps});
        run.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run
    }

    /// Every pair of neighbours, as the lines that are told.
    fn story(statuses: &[Value]) -> Vec<String> {
        let statuses: Vec<_> = statuses.iter().cloned().map(status).collect();
        let pairs = statuses.windows(2).map(|pair| transitions(&pair[0], &pair[1]));
        let line = |t: Transition| {
            let mark = if t.warning { "! " } else { "" };
            format!("{mark}{}: {}", t.reason, t.message)
        };
        pairs.flatten().map(line).collect()
    }

    #[test]
    fn a_run_is_told_from_its_start_to_its_end_and_nothing_twice() {
        let step = |phase: &str, message: Value| json!({"name": "east", "type": "deploy", "phase": phase, "message": message});
        let later = |phase: &str| json!({"name": "approve", "type": "suspend", "phase": phase});
        let running = |east: Value, approve: Value| json!({"phase": "runningWorkflow", "workflow": run("running", json!({}), json!([east, approve]))});
        let waits = "waiting for 1 of 3 clusters: c1 (applying)";
        let other = "waiting for 1 of 3 clusters: c1 (1/2 ready)";
        let suspended = json!({"phase": "workflowSuspending", "workflow": run("suspending",
            json!({"suspend": true, "message": "look at the graphs"}), json!([step("succeeded", Value::Null), later("suspending")]))});
        let mut asked = suspended.clone();
        asked["workflow"]["suspend"] = json!(false);
        let done = json!({"phase": "runningWorkflow", "workflow": run("succeeded", json!({"finished": true}),
            json!([step("succeeded", Value::Null), later("succeeded")]))});
        let mut at_rest = done.clone();
        at_rest["phase"] = json!("running");
        let mut ill = at_rest.clone();
        ill["phase"] = json!("unhealthy");
        let told = story(&[
            json!({}),
            json!({"conditions": [condition("Accepted", "True", "Valid", "")]}),
            running(step("running", Value::Null), later("pending")),
            running(step("running", json!(waits)), later("pending")),
            running(step("running", json!(other)), later("pending")),
            suspended.clone(),
            suspended,
            asked,
            done,
            at_rest.clone(),
            at_rest.clone(),
            ill,
            at_rest,
        ]);
        assert_eq!(
            told,
            [
                "Accepted: the spec was understood",
                "RunStarted: delivering web-v2 in 2 steps",
                "StepStarted: step east started",
                "StepWaiting: step east: waiting for 1 of 3 clusters: c1 (applying)",
                "StepSucceeded: step east succeeded",
                "Suspended: the run of web-v2 is suspended: look at the graphs",
                "Resumed: the run of web-v2 goes on",
                "StepSucceeded: step approve succeeded",
                "RunSucceeded: web-v2 was delivered",
                "! Unhealthy: what was delivered is not ready any more",
                "Healthy: what was delivered is ready again",
            ]
        );
    }

    #[test]
    fn a_step_that_is_tried_again_and_gives_up_is_told_twice() {
        let at = |reason: &str, retries: u32, message: &str| {
            json!({"phase": "runningWorkflow", "workflow": run("running", json!({}), json!([
                {"name": "east", "type": "deploy", "phase": "failed", "reason": reason, "retries": retries, "message": message},
                {"name": "tell", "type": "request", "phase": "pending"}]))})
        };
        let running = json!({"phase": "runningWorkflow", "workflow": run("running", json!({}), json!([
            {"name": "east", "type": "deploy", "phase": "running"}, {"name": "tell", "type": "request", "phase": "pending"}]))});
        let told = story(&[
            running,
            at("Execute", 1, "refused"),
            at("Execute", 2, "refused otherwise"),
            at("FailedAfterRetries", 10, "refused for good"),
            at("FailedAfterRetries", 10, "refused for good"),
        ]);
        assert_eq!(
            told,
            [
                "! StepRetried: step east failed, and is tried again: refused",
                "! StepFailed: step east failed (FailedAfterRetries): refused for good"
            ]
        );
    }

    #[test]
    fn a_break_says_why_it_ended_the_run() {
        let at = |phase: &str, more: Value, step: &str| {
            let steps = json!([{"name": "enough", "type": "break", "phase": step, "reason": "Terminate"}]);
            json!({"phase": phase, "workflow": run("failed", more, steps)})
        };
        let start = at("runningWorkflow", json!({"status": "running"}), "pending");
        let why =
            json!({"finished": true, "terminated": true, "message": "ended by step enough: no more today"});
        let told = story(&[start, at("workflowTerminated", why, "succeeded")]);
        assert_eq!(
            told.last().unwrap(),
            "! RunTerminated: the run of web-v2 was terminated: ended by step enough: no more today"
        );
    }

    #[test]
    fn a_pause_of_what_is_suspended_already_is_told_and_so_is_its_end() {
        let steps = json!([{"name": "approve", "type": "suspend", "phase": "suspending"}]);
        let at = |paused: bool, message: &str| {
            json!({"phase": "workflowSuspending", "workflow": run("suspending",
                json!({"suspend": true, "paused": paused, "message": message}), steps.clone())})
        };
        assert_eq!(
            story(&[
                at(false, "look"),
                at(true, "paused"),
                at(true, "paused"),
                at(false, "look")
            ]),
            [
                "Suspended: the run of web-v2 is suspended: paused",
                "Resumed: the run of web-v2 is paused no more, and suspended by a step: look"
            ]
        );
    }

    #[test]
    fn failures_are_warnings() {
        let steps = |east: &str, west: &str| {
            let reason = if east == "failed" {
                "FailedAfterRetries"
            } else {
                "Wait"
            };
            json!([
            {"name": "east", "type": "deploy", "phase": east, "reason": reason, "message": "step east: refused"},
            {"name": "west", "type": "deploy", "phase": west, "reason": "Skip"}])
        };
        let start = json!({"phase": "runningWorkflow", "workflow": run("running", json!({}), steps("running", "pending"))});
        let failed = json!({"phase": "workflowFailed", "workflow": run("failed",
            json!({"finished": true, "terminated": true, "message": "too often"}), steps("failed", "skipped"))});
        let terminated = json!({"phase": "workflowTerminated", "workflow": run("failed",
            json!({"finished": true, "terminated": true}), steps("failed", "skipped"))});
        let ended = [
            "! StepFailed: step east failed (FailedAfterRetries): step east: refused",
            "StepSkipped: step west was skipped",
        ];
        let told = story(&[start.clone(), failed]);
        assert_eq!(told[..2], ended);
        assert_eq!(told[2..], ["! RunFailed: the run of web-v2 failed: too often"]);
        let told = story(&[start, terminated]);
        assert_eq!(told[..2], ended);
        assert_eq!(told[2..], ["! RunTerminated: the run of web-v2 was terminated"]);
    }

    #[test]
    fn what_is_refused_held_or_stuck_is_told_once_for_each_reason() {
        let with = |condition: Value| json!({"conditions": [condition]});
        let refused = |message: &str| with(condition("Accepted", "False", "Invalid", message));
        assert_eq!(
            story(&[json!({}), refused("a"), refused("a"), refused("b")]),
            ["! Refused: a", "! Refused: b"]
        );
        let held = |status: &str, message: &str| with(condition("DeletesHeld", status, "R", message));
        assert_eq!(
            story(&[
                json!({}),
                held("True", "2 clusters"),
                held("True", "2 clusters"),
                held("False", ""),
                held("False", "")
            ]),
            [
                "! DeletesHeld: 2 clusters",
                "DeletesReleased: no removal waits for a confirmation any more"
            ]
        );
        let waits = |message: &str| with(condition("DeletesHeld", "False", "WaitsForClusters", message));
        assert_eq!(
            story(&[
                held("True", "2 clusters"),
                held("Unknown", ""),
                waits("for c1"),
                waits("for c2"),
                held("False", "")
            ]),
            [
                "DeletesReleased: no removal waits for a confirmation any more",
                "DeletesWait: for c1"
            ]
        );
        let stuck = |reason: &str| with(condition("Delivered", "False", reason, "disk full"));
        assert_eq!(
            story(&[
                json!({}),
                stuck("InProgress"),
                stuck("NotRecorded"),
                stuck("NotRecorded")
            ]),
            ["! NotRecorded: disk full"]
        );
        let deleting = json!({"phase": "deleting", "conditions": [condition("Delivered", "False", "Deleting", "waiting for c1")]});
        assert_eq!(
            story(&[json!({"phase": "running"}), deleting.clone(), deleting]),
            ["Deleting: waiting for c1"]
        );
    }

    #[test]
    fn a_second_run_of_the_same_revision_is_told_as_a_run() {
        let at = |time: &str| {
            let mut run = run(
                "running",
                json!({}),
                json!([{"name": "east", "type": "deploy", "phase": "running", "message": "waiting for c1", "firstExecuteTime": time}]),
            );
            run["run"] = json!(time.parse::<jiff::Timestamp>().unwrap().as_millisecond());
            json!({"phase": "runningWorkflow", "workflow": run})
        };
        assert_eq!(
            story(&[at("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:00Z")]),
            [
                "RunStarted: delivering web-v2 in 1 step",
                "StepWaiting: step east: waiting for c1"
            ]
        );
    }

    #[test]
    fn of_a_run_that_starts_again_from_a_step_only_that_step_is_told() {
        let at = |time: &str, west: &str| {
            let mut run = run(
                "running",
                json!({}),
                json!([
                {"name": "east", "type": "deploy", "phase": "succeeded", "firstExecuteTime": "2026-01-01T00:00:00Z"},
                {"name": "west", "type": "deploy", "phase": west}]),
            );
            run["run"] = json!(time.parse::<jiff::Timestamp>().unwrap().as_millisecond());
            json!({"phase": "runningWorkflow", "workflow": run})
        };
        assert_eq!(
            story(&[
                at("2026-01-01T00:00:00Z", "failed"),
                at("2026-01-01T00:01:00Z", "pending"),
                at("2026-01-01T00:01:00Z", "running")
            ]),
            [
                "RunStarted: delivering web-v2 in 2 steps",
                "StepStarted: step west started"
            ]
        );
    }

    #[test]
    fn the_steps_of_a_group_are_told() {
        let at = |phase: &str| {
            let steps = json!([{"name": "both", "type": "step-group", "phase": "running", "subSteps": [
                {"name": "east", "type": "deploy", "phase": phase}, {"name": "west", "type": "deploy", "phase": "running"}]}]);
            json!({"phase": "runningWorkflow", "workflow": run("running", json!({}), steps)})
        };
        assert_eq!(
            story(&[at("running"), at("succeeded")]),
            ["StepSucceeded: step east succeeded"]
        );
    }
}
