//! Whether a command makes sense where an application stands, and what is written for it. Pure.
//!
//! Commands are the seed's controls: fields of the status that a user may set (policies-and-workflow). All of them may be
//! repeated: what holds already is not written again.

use crate::cli::status::{Stands, verdict};
use roundhouse_api::{
    application::{ACCEPTED, ApplicationPhase, StepPhase, StepStatus, WorkflowStatus},
    condition,
    names::annotation,
};
use serde_json::{Value, json};

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Suspend,
    Resume,
    Terminate,
    Restart { step: Option<String> },
    Approve { hash: String },
}

/// What is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// A merge patch of the status.
    Status(Value),
    /// A merge patch of the metadata.
    Metadata(Value),
    /// Nothing: it is so already.
    Already(String),
    /// It makes no sense here.
    Refused { why: String, advice: Option<String> },
    /// It is not what it was when the command was given, and what the command would do now nobody has seen.
    Changed { why: String, advice: String },
}

impl Answer {
    fn already(what: &str) -> Answer {
        Answer::Already(what.to_owned())
    }

    fn refused(why: impl Into<String>, advice: impl Into<String>) -> Answer {
        Answer::Refused {
            why: why.into(),
            advice: Some(advice.into()),
        }
    }
}

impl Command {
    /// What is said when it was written, `run` being what was there before.
    pub(super) fn done(&self, run: Option<&WorkflowStatus>) -> String {
        let paused = run.filter(|run| run.paused);
        let suspending = |step: &&StepStatus| {
            step.phase == StepPhase::Suspending
                && step.type_ == "suspend"
                && step.first_execute_time.is_some()
        };
        let waits = paused.and_then(|run| run.all_steps().find(suspending));
        match self {
            Command::Suspend => "suspended".to_owned(),
            Command::Resume => match waits {
                Some(step) => format!(
                    "goes on where it was paused: step {} still waits for a resume of its own",
                    step.name
                ),
                None => "resumed".to_owned(),
            },
            Command::Terminate => "terminated".to_owned(),
            Command::Restart { step: None } => "restarted".to_owned(),
            Command::Restart { step: Some(step) } => format!("restarted from step {step}"),
            Command::Approve { hash } => format!("approved: the removals of {hash} go ahead"),
        }
    }

    /// As a verb of an error.
    pub(super) fn passive(&self) -> &'static str {
        match self {
            Command::Suspend => "suspended",
            Command::Resume => "resumed",
            Command::Terminate => "terminated",
            Command::Restart { .. } => "restarted",
            Command::Approve { .. } => "approved",
        }
    }
}

/// Whether a person has paused the run, also where the hub has not taken that up: as it reads it (`workflow::Command`). A step that
/// suspends the run is no pause of it: its time may end, and steps beside it go on.
pub(super) fn is_paused(run: &WorkflowStatus) -> bool {
    match (run.suspend, is_suspended(run)) {
        (true, false) => true,
        (false, true) => false,
        (true, true) | (false, false) => run.paused,
    }
}

/// Whether the hub has suspended the run: for a step of it, or as it has taken a pause up.
fn is_suspended(run: &WorkflowStatus) -> bool {
    run.status == Some(StepPhase::Suspending)
}

/// Judges a command.
pub(super) fn decide(command: &Command, app: &Stands<'_>) -> Answer {
    if app.deleting {
        return Answer::Refused {
            why: "it is being deleted".to_owned(),
            advice: None,
        };
    }
    let status = app.status;
    let refused = || {
        let accepted = condition::get(&status.conditions, ACCEPTED)?;
        let is_present = status.observed_generation == app.generation;
        (accepted.status == "False" && is_present).then_some(accepted)
    };
    if let Command::Approve { hash } = command
        && refused().is_none()
    {
        return approve(hash, app);
    }
    let command_of = |verb: &str| crate::words::command(verb, app.namespace, app.name);
    if status.observed_generation != app.generation {
        return Answer::refused(
            "its spec was changed and the hub has not looked at it yet: a new run is about to start",
            format!("{}, and then again", command_of("status")),
        );
    }
    if let Some(refused) = refused() {
        return Answer::refused(
            format!("its spec is refused: {}", refused.message),
            "correct the fields that are named, and apply again",
        );
    }
    let Some(run) = &status.workflow else {
        return match command {
            Command::Restart { step: None } => Answer::already("about to start anew"),
            _ => Answer::refused("its run has not started", command_of("status")),
        };
    };
    let is_now = || format!("it is {}", verdict(app).headline);
    match command {
        Command::Suspend if run.finished => {
            Answer::refused(format!("its run has ended: {}", is_now()), command_of("restart"))
        }
        Command::Suspend if run.terminated => Answer::refused(is_now(), command_of("status")),
        Command::Suspend if is_paused(run) => Answer::already("suspended already"),
        // What a step suspends `suspend` alone does not pause. Elsewhere the mark is the hub's to set: it would stay where somebody
        // resumes before that.
        Command::Suspend if is_suspended(run) => {
            Answer::Status(json!({"workflow": {"suspend": true, "paused": true}}))
        }
        Command::Suspend => Answer::Status(json!({"workflow": {"suspend": true}})),
        Command::Resume if run.finished || run.terminated => Answer::refused(
            format!("it is not suspended: {}", is_now()),
            command_of("restart"),
        ),
        // By the mark of a pause the hub tells its end from an approval: it stays.
        Command::Resume if is_suspended(run) && run.suspend => {
            Answer::Status(json!({"workflow": {"suspend": false}}))
        }
        Command::Resume if is_suspended(run) => Answer::already("resumed already, and the hub takes it up"),
        // A pause that the hub has not taken up: with the mark it would.
        Command::Resume if is_paused(run) => {
            Answer::Status(json!({"workflow": {"suspend": false, "paused": null}}))
        }
        Command::Resume => {
            Answer::refused(format!("it is not suspended: {}", is_now()), command_of("status"))
        }
        Command::Terminate if run.finished => match status.phase {
            Some(ApplicationPhase::WorkflowTerminated) => Answer::already("terminated already"),
            _ => Answer::refused(format!("its run has ended: {}", is_now()), command_of("status")),
        },
        Command::Terminate if run.terminated => Answer::already("terminated already"),
        Command::Terminate => Answer::Status(json!({"workflow": {"terminated": true}})),
        Command::Restart { step: None } => {
            Answer::Status(json!({"phase": "runningWorkflow", "workflow": null}))
        }
        Command::Restart { step: Some(step) } => restart_from(step, run, &command_of("status")),
        Command::Approve { .. } => Answer::already("approved already"),
    }
}

fn restart_from(name: &str, run: &WorkflowStatus, look: &str) -> Answer {
    let steps: Vec<&StepStatus> = crate::cli::status::steps(run).collect();
    let Some(step) = steps.iter().find(|step| step.name == name) else {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        return Answer::refused(
            format!("it has no step {name}; its steps are {}", names.join(", ")),
            "--step with one of them",
        );
    };
    if run.restart_from.as_deref() == Some(name) {
        return Answer::already("restarted already, and the hub takes it up");
    }
    if step.phase == StepPhase::Pending {
        return Answer::refused(format!("step {name} has not started"), look);
    }
    Answer::Status(json!({"workflow": {"restartFrom": name}}))
}

fn approve(hash: &str, app: &Stands<'_>) -> Answer {
    let approved = app.confirmed == Some(hash);
    let asked = app.status.held_deletes.as_ref().map(|held| held.hash.as_str());
    match asked {
        Some(asked) if asked == hash && approved => Answer::already("approved already"),
        None if approved => Answer::already("approved already"),
        Some(asked) if asked == hash => {
            Answer::Metadata(json!({"annotations": {annotation::CONFIRM_DELETES: hash}}))
        }
        Some(asked) => Answer::refused(
            format!("what waits for an approval is {asked}, not {hash}: the set of clusters has changed"),
            format!(
                "{}, and look at what would be removed",
                crate::words::command("status", app.namespace, app.name)
            ),
        ),
        None => Answer::Refused {
            why: "no removal waits for an approval".to_owned(),
            advice: Some(match app.status.phase {
                Some(ApplicationPhase::WorkflowSuspending) => {
                    let resume = crate::words::command("resume", app.namespace, app.name);
                    format!("{resume}, if it is the suspended step that is meant")
                }
                _ => crate::words::command("status", app.namespace, app.name),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::removal;
    use roundhouse_api::application::ApplicationStatus;
    use std::collections::BTreeMap;

    /// The answer in a word: `writes …`, `already …`, `refused: …`.
    fn answer(command: &Command, status: &Value, confirmed: Option<&str>) -> String {
        let status: ApplicationStatus = serde_json::from_value(status.clone()).unwrap();
        let app = Stands {
            namespace: "default",
            name: "web",
            generation: Some(1),
            deleting: false,
            status: &status,
            timers: &BTreeMap::new(),
            confirmed,
        };
        match decide(command, &app) {
            Answer::Status(patch) | Answer::Metadata(patch) => format!("writes {patch}"),
            Answer::Already(what) => format!("is {what}"),
            Answer::Refused { why, advice } => {
                format!("refused: {why} → {}", advice.unwrap_or_default())
            }
            Answer::Changed { why, advice } => format!("changed: {why} → {advice}"),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    fn run(phase: &str, run: Value) -> Value {
        json!({"observedGeneration": 1, "phase": phase, "workflow": run})
    }

    #[test]
    fn each_command_in_each_state() {
        let steps = json!([{"name": "east", "type": "deploy", "phase": "running"}, {"name": "west", "type": "deploy", "phase": "pending"}]);
        let running = run("runningWorkflow", json!({"status": "running", "steps": steps}));
        let suspended = run(
            "workflowSuspending",
            json!({"status": "suspending", "suspend": true, "steps": steps}),
        );
        let resumed = run(
            "workflowSuspending",
            json!({"status": "suspending", "suspend": false, "steps": steps}),
        );
        let terminated = run(
            "workflowTerminated",
            json!({"status": "failed", "finished": true, "terminated": true, "steps": steps}),
        );
        let failed = run(
            "workflowFailed",
            json!({"status": "failed", "finished": true, "terminated": true, "steps": steps}),
        );
        let done = run(
            "running",
            json!({"status": "succeeded", "finished": true, "steps": steps}),
        );
        let changed = json!({"phase": "running"});
        let from = |step: &str| Command::Restart {
            step: Some(step.to_owned()),
        };
        let restart = Command::Restart { step: None };
        let suspends = r#"writes {"workflow":{"suspend":true}}"#;
        let pauses = r#"writes {"workflow":{"paused":true,"suspend":true}}"#;
        let resumes = r#"writes {"workflow":{"suspend":false}}"#;
        let takes_back = r#"writes {"workflow":{"paused":null,"suspend":false}}"#;
        let terminates = r#"writes {"workflow":{"terminated":true}}"#;
        let restarts = r#"writes {"phase":"runningWorkflow","workflow":null}"#;
        let restarts_east = r#"writes {"workflow":{"restartFrom":"east"}}"#;
        let mut paused = suspended.clone();
        paused["workflow"]["paused"] = json!(true);
        let mut asked = running.clone();
        asked["workflow"]["suspend"] = json!(true);
        let mut marked = running.clone();
        marked["workflow"]["paused"] = json!(true);
        let mut unpaused = paused.clone();
        unpaused["workflow"]["suspend"] = json!(false);
        let cases: [(&Command, &Value, &str); 33] = [
            (&Command::Suspend, &running, suspends),
            // A step suspends it, and nobody has paused it.
            (&Command::Suspend, &suspended, pauses),
            (&Command::Suspend, &paused, "is suspended already"),
            (&Command::Suspend, &asked, "is suspended already"),
            (&Command::Suspend, &marked, "is suspended already"),
            (&Command::Suspend, &unpaused, pauses),
            // Without the mark the hub would take it for an approval.
            (&Command::Resume, &paused, resumes),
            (
                &Command::Resume,
                &unpaused,
                "is resumed already, and the hub takes it up",
            ),
            // With the mark it would take it for a pause.
            (&Command::Resume, &asked, takes_back),
            (&Command::Resume, &marked, takes_back),
            (&Command::Suspend, &resumed, pauses),
            (
                &Command::Suspend,
                &terminated,
                "refused: its run has ended: it is terminated → roundhouse restart web",
            ),
            (
                &Command::Suspend,
                &done,
                "refused: its run has ended: it is delivered → roundhouse restart web",
            ),
            (
                &Command::Resume,
                &running,
                "refused: it is not suspended: it is delivering → roundhouse status web",
            ),
            (&Command::Resume, &suspended, resumes),
            (
                &Command::Resume,
                &resumed,
                "is resumed already, and the hub takes it up",
            ),
            (
                &Command::Resume,
                &failed,
                "refused: it is not suspended: it is failed → roundhouse restart web",
            ),
            (
                &Command::Resume,
                &done,
                "refused: it is not suspended: it is delivered → roundhouse restart web",
            ),
            (&Command::Terminate, &running, terminates),
            (&Command::Terminate, &suspended, terminates),
            (&Command::Terminate, &terminated, "is terminated already"),
            (
                &Command::Terminate,
                &failed,
                "refused: its run has ended: it is failed → roundhouse status web",
            ),
            (
                &Command::Terminate,
                &done,
                "refused: its run has ended: it is delivered → roundhouse status web",
            ),
            (&restart, &running, restarts),
            (&restart, &suspended, restarts),
            (&restart, &failed, restarts),
            (&restart, &done, restarts),
            (
                &restart,
                &json!({"observedGeneration": 1}),
                "is about to start anew",
            ),
            (&from("east"), &failed, restarts_east),
            (
                &from("west"),
                &failed,
                "refused: step west has not started → roundhouse status web",
            ),
            (
                &from("north"),
                &failed,
                "refused: it has no step north; its steps are east, west → --step with one of them",
            ),
            (
                &Command::Resume,
                &json!({"observedGeneration": 1}),
                "refused: its run has not started → roundhouse status web",
            ),
            (
                &Command::Suspend,
                &changed,
                "refused: its spec was changed and the hub has not looked at it yet: a new run is about to start → roundhouse status web, and then again",
            ),
        ];
        for (command, status, expected) in cases {
            assert_eq!(answer(command, status, None), expected, "{command:?} on {status}");
        }
    }

    #[test]
    fn an_approval_names_what_waits() {
        let approve = |hash: &str| Command::Approve {
            hash: hash.to_owned(),
        };
        let losing = BTreeMap::from([
            ("c1".to_owned(), "u1".to_owned()),
            ("c2".to_owned(), "u2".to_owned()),
        ]);
        let held = removal::budget(
            "default/web",
            None,
            &losing,
            4,
            (None, None),
            jiff::Timestamp::UNIX_EPOCH,
        );
        let removal::Verdict::Held { hash, message, .. } = held else {
            panic!("two of four are held")
        };
        let held = removal::Held::of(hash.clone(), message, &losing);
        let status = |deletes: Option<&removal::Held>| {
            let held = if deletes.is_some() { "True" } else { "False" };
            json!({"observedGeneration": 1, "phase": "running", "heldDeletes": deletes.map(|held| &held.deletes),
                "conditions": [{"type": "DeletesHeld", "status": held, "reason": "R",
                    "message": deletes.map_or("", |held| &held.message), "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        };
        let (waits, nothing) = (status(Some(&held)), status(None));
        assert_eq!(
            answer(&approve(&hash), &waits, None),
            format!(r#"writes {{"annotations":{{"roundhouse.dev/confirm-deletes":"{hash}"}}}}"#)
        );
        let named = Some(hash.as_str());
        assert_eq!(answer(&approve(&hash), &waits, named), "is approved already");
        // Approved once, and something else is held now.
        let earlier = Some("0123456789abcdef");
        assert!(
            answer(&approve("0123456789abcdef"), &waits, earlier).starts_with(&format!(
                "refused: what waits for an approval is {hash}, not 0123456789abcdef"
            )),
        );
        assert_eq!(
            answer(&approve(&hash), &nothing, named),
            "is approved already",
            "also when it is done"
        );
        assert!(answer(&approve("0123"), &waits, None).starts_with(&format!(
            "refused: what waits for an approval is {hash}, not 0123"
        )));
        assert_eq!(
            answer(&approve("0123"), &nothing, None),
            "refused: no removal waits for an approval → roundhouse status web"
        );
        let mut refused = waits;
        refused["conditions"] = json!([{"type": "Accepted", "status": "False", "reason": "Invalid",
            "message": "spec.components: too many", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        assert!(
            answer(&approve(&hash), &refused, None)
                .starts_with("refused: its spec is refused: spec.components"),
            "nothing is removed on behalf of a spec that is not accepted"
        );
        let suspended = run(
            "workflowSuspending",
            json!({"status": "suspending", "suspend": true}),
        );
        assert!(
            answer(&approve("0123"), &suspended, None).ends_with("if it is the suspended step that is meant")
        );
    }
}
