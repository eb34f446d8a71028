//! Whether a command is still what was meant, where somebody else wrote the application after it was first looked at. Pure.
//!
//! A command is about what stood there when it was given: a run, and the steps that suspended it. What has come in its place
//! since then nobody has seen. It is done already where what was asked for has happened, and refused where it would do
//! something else now. A pause is the same wherever the run stands, and what an approval is about its hash says.

use super::decide::{Answer, Command, decide, is_paused};
use crate::{
    cli::{
        hub,
        status::{Stands, steps},
    },
    words,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use roundhouse_api::application::{StepPhase, StepStatus, WorkflowStatus};
use std::collections::{BTreeMap, BTreeSet};

/// What a command is about.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    generation: Option<i64>,
    run: Option<Run>,
    is_paused: bool,
    /// The steps that suspend the run, groups aside.
    waiting: BTreeSet<String>,
    /// When its steps started, those that have.
    started: BTreeMap<String, MicroTime>,
}

/// What tells a run from every other one, and from itself before a restart from a step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    number: Option<i64>,
    start: Option<Time>,
}

impl Seen {
    pub(super) fn of(app: &Stands<'_>) -> Seen {
        let run = app.status.workflow.as_ref();
        let all = || run.into_iter().flat_map(steps);
        let started = |step: &StepStatus| Some((step.name.clone(), step.first_execute_time.clone()?));
        let waits = |step: &&StepStatus| step.sub_steps.is_empty() && step.phase == StepPhase::Suspending;
        Seen {
            generation: app.generation,
            run: run.map(|run| Run {
                number: run.run,
                start: run.start_time.clone(),
            }),
            is_paused: run.is_some_and(is_paused),
            waiting: all().filter(waits).map(|step| step.name.clone()).collect(),
            started: all().filter_map(started).collect(),
        }
    }

    /// Why the run that was seen is not there any more, if it is not.
    fn is_gone(&self, now: &Seen) -> Option<&'static str> {
        if self.generation != now.generation {
            return Some("its spec was changed");
        }
        (self.run != now.run).then_some("its run was started again")
    }
}

/// Judges a command that was given on what was seen first.
pub(super) fn decide_again(command: &Command, seen: &Seen, app: &Stands<'_>) -> Answer {
    let now = Seen::of(app);
    let answer = match command {
        _ if app.deleting => None,
        Command::Suspend | Command::Approve { .. } => None,
        Command::Terminate => seen.is_gone(&now).map(|why| changed(app, why)),
        Command::Restart { step } => restart(step.as_deref(), seen, &now, app),
        Command::Resume => match (seen.is_gone(&now), &app.status.workflow) {
            (Some(why), _) => Some(changed(app, why)),
            (None, Some(run)) => resume(run, seen, &now, app),
            (None, None) => None,
        },
    };
    answer.unwrap_or_else(|| decide(command, app))
}

fn changed(app: &Stands<'_>, why: impl Into<String>) -> Answer {
    let status = words::command("status", app.namespace, app.name);
    Answer::Changed {
        why: why.into(),
        advice: format!("{status}, and then again if that is still meant"),
    }
}

/// Another restart is the one that was meant if what was to run again does.
fn restart(step: Option<&str>, seen: &Seen, now: &Seen, app: &Stands<'_>) -> Option<Answer> {
    let gone = seen.is_gone(now)?;
    let meant = |name: &&String| step.is_none_or(|step| step == name.as_str());
    let mut meant = seen.started.keys().filter(meant).peekable();
    let is_done = seen.generation == now.generation
        && (step.is_none() || meant.peek().is_some())
        && meant.all(|name| now.started.get(name) != seen.started.get(name));
    Some(match is_done {
        true => Answer::Already("restarted already".to_owned()),
        false => changed(app, gone),
    })
}

/// The run is the one that was seen.
fn resume(run: &WorkflowStatus, seen: &Seen, now: &Seen, app: &Stands<'_>) -> Option<Answer> {
    if run.status == Some(StepPhase::Suspending) && !run.suspend {
        // Somebody has resumed it, and the hub has not taken that up.
        return None;
    }
    if seen.is_paused && !now.is_paused {
        let goes_on = !run.finished && !run.terminated;
        return goes_on.then(|| resumed("its pause is over", now));
    }
    let is_passed = |name: &String| {
        let step = run.step(name);
        step.is_some_and(|step| matches!(step.phase, StepPhase::Running | StepPhase::Succeeded))
    };
    if !seen.waiting.is_empty() && seen.waiting.iter().all(is_passed) {
        return Some(resumed(&format!("it is past {}", named(&seen.waiting)), now));
    }
    match (seen.is_paused, now.is_paused) {
        (false, true) => return Some(changed(app, "somebody has paused it")),
        // What the hub stops as it takes the pause up was not seen to wait, and whoever ends a pause approves nothing. But while it
        // lasts nothing starts and nothing passes: where something has, this is another one.
        (true, true) => {
            let is_new = |step: &String| !seen.started.contains_key(step);
            let is_another = seen.waiting.iter().any(is_passed) || now.started.keys().any(is_new);
            return is_another.then(|| resumed("its pause is over", now));
        }
        (_, false) => {}
    }
    let unseen: BTreeSet<String> = now.waiting.difference(&seen.waiting).cloned().collect();
    (!unseen.is_empty()).then(|| changed(app, format!("it waits at {} now", named(&unseen))))
}

/// It needs no resume any more, and what it waits for now.
fn resumed(why: &str, now: &Seen) -> Answer {
    let waits = match now.is_paused {
        true => ", and somebody has paused it".to_owned(),
        false if now.waiting.is_empty() => String::new(),
        false => format!(
            ", and it waits at {} for a resume of its own",
            named(&now.waiting)
        ),
    };
    Answer::Already(format!("resumed already: {why}{waits}"))
}

fn named(steps: &BTreeSet<String>) -> String {
    let word = if steps.len() == 1 { "step" } else { "steps" };
    let names: Vec<String> = steps.iter().cloned().collect();
    format!("{word} {}", hub::listed(&names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::application::ApplicationStatus;
    use serde_json::{Value, json};

    fn status(of: &Value) -> ApplicationStatus {
        serde_json::from_value(of.clone()).unwrap()
    }

    /// The hub has looked at the spec.
    fn stands<'a>(
        status: &'a ApplicationStatus,
        timers: &'a BTreeMap<String, std::time::Duration>,
    ) -> Stands<'a> {
        Stands {
            namespace: "default",
            name: "web",
            generation: status.observed_generation,
            deleting: false,
            status,
            timers,
            confirmed: None,
        }
    }

    fn answer(command: &Command, seen: &Value, now: &Value) -> String {
        let (seen, now, timers) = (status(seen), status(now), BTreeMap::new());
        let seen = Seen::of(&stands(&seen, &timers));
        match decide_again(command, &seen, &stands(&now, &timers)) {
            Answer::Status(patch) | Answer::Metadata(patch) => format!("writes {patch}"),
            Answer::Already(what) => format!("is {what}"),
            Answer::Refused { why, .. } => format!("refused: {why}"),
            Answer::Changed { why, .. } => format!("changed: {why}"),
        }
    }

    /// A run that stands so, with steps of these names and phases.
    fn run(of: &str, steps: &[(&str, &str)]) -> Value {
        let steps: Vec<Value> = steps
            .iter()
            .map(|(name, phase)| {
                let started = (*phase != "pending").then_some("2026-01-01T00:00:01.000000Z");
                json!({"name": name, "type": "suspend", "phase": phase, "firstExecuteTime": started})
            })
            .collect();
        let mut status = json!({"observedGeneration": 1, "phase": "workflowSuspending",
            "workflow": {"run": 1000, "status": "suspending", "suspend": true, "steps": steps}});
        let run = &mut status["workflow"];
        match of {
            "waits" => {}
            "paused" => run["paused"] = json!(true),
            "asked" => run["suspend"] = json!(false),
            "runs" => (run["suspend"], run["status"]) = (json!(false), json!("running")),
            "terminated" => {
                (run["suspend"], run["status"]) = (json!(false), json!("failed"));
                (run["terminated"], run["finished"]) = (json!(true), json!(true));
                status["phase"] = json!("workflowTerminated");
            }
            other => panic!("{other}"),
        }
        status
    }

    fn with(mut status: Value, pointer: &str, value: Value) -> Value {
        *status.pointer_mut(pointer).unwrap() = value;
        status
    }

    #[test]
    fn what_nobody_has_seen_is_not_resumed() {
        let one = run("waits", &[("one", "suspending"), ("two", "pending")]);
        let two = run("waits", &[("one", "succeeded"), ("two", "suspending")]);
        let paused = run("paused", &[("one", "suspending"), ("two", "pending")]);
        let both = run("waits", &[("one", "suspending"), ("two", "suspending")]);
        let on = run("runs", &[("one", "succeeded"), ("two", "running")]);
        let ended = run("terminated", &[("one", "failed"), ("two", "skipped")]);
        let asked = run("asked", &[("one", "suspending"), ("two", "pending")]);
        let again = with(one.clone(), "/workflow/run", json!(2000));
        let next = with(again.clone(), "/observedGeneration", json!(2));
        let mut emptied = one.clone();
        emptied["workflow"] = Value::Null;
        // A pause that the hub has not taken up.
        let meant = |steps: &[(&str, &str)]| with(run("runs", steps), "/workflow/suspend", json!(true));
        // One that came between two steps.
        let between = run("paused", &[("one", "succeeded"), ("two", "suspending")]);
        let between = with(between, "/workflow/steps/1/firstExecuteTime", Value::Null);
        let resumes = r#"writes {"workflow":{"suspend":false}}"#;
        for (seen, now, expected) in [
            (&one, &one, resumes),
            (&one, &asked, "is resumed already, and the hub takes it up"),
            (
                &one,
                &two,
                "is resumed already: it is past step one, and it waits at step two for a resume of its own",
            ),
            (&one, &on, "is resumed already: it is past step one"),
            (
                &one,
                &run("paused", &[("one", "succeeded"), ("two", "suspending")]),
                "is resumed already: it is past step one, and somebody has paused it",
            ),
            (&one, &paused, "changed: somebody has paused it"),
            (&one, &both, "changed: it waits at step two now"),
            (&one, &again, "changed: its run was started again"),
            (&one, &emptied, "changed: its run was started again"),
            (&one, &next, "changed: its spec was changed"),
            (&one, &ended, "refused: it is not suspended: it is terminated"),
            // One of two has passed by itself: the other was seen, too.
            (&both, &two, resumes),
            (&paused, &paused, resumes),
            (
                &paused,
                &one,
                "is resumed already: its pause is over, and it waits at step one for a resume of its own",
            ),
            (
                &paused,
                &both,
                "is resumed already: its pause is over, and it waits at steps one, two for a resume of its own",
            ),
            (&paused, &on, "is resumed already: its pause is over"),
            // What is paused now is another pause.
            (
                &paused,
                &run("paused", &[("one", "succeeded"), ("two", "suspending")]),
                "is resumed already: it is past step one, and somebody has paused it",
            ),
            // A pause starts nothing: somebody let the run come to step two.
            (
                &paused,
                &run("paused", &[("one", "suspending"), ("two", "suspending")]),
                "is resumed already: its pause is over, and somebody has paused it",
            ),
            (
                &run("paused", &[("one", "suspending"), ("two", "suspending")]),
                &run("paused", &[("one", "succeeded"), ("two", "suspending")]),
                "is resumed already: its pause is over, and somebody has paused it",
            ),
            // The hub has taken it up: what it stops was not to be approved by whoever ends it.
            (
                &meant(&[("one", "succeeded"), ("two", "running")]),
                &run("paused", &[("one", "succeeded"), ("two", "suspending")]),
                resumes,
            ),
            (
                &meant(&[("one", "succeeded"), ("two", "pending")]),
                &between,
                resumes,
            ),
            (
                &run("paused", &[("one", "suspending"), ("two", "running")]),
                &run("paused", &[("one", "suspending"), ("two", "suspending")]),
                resumes,
            ),
            (&paused, &ended, "refused: it is not suspended: it is terminated"),
            (&paused, &again, "changed: its run was started again"),
        ] {
            assert_eq!(answer(&Command::Resume, seen, now), expected, "{seen}\n{now}");
        }
    }

    #[test]
    fn a_run_that_nobody_has_seen_is_not_ended_and_not_started_again() {
        let steps = [("one", "succeeded"), ("two", "running"), ("three", "pending")];
        let seen = run("runs", &steps);
        let later = run(
            "runs",
            &[("one", "succeeded"), ("two", "succeeded"), ("three", "running")],
        );
        let of_number_2 = |status: Value| with(status, "/workflow/run", json!(2000));
        let whole = of_number_2(run(
            "runs",
            &[("one", "pending"), ("two", "pending"), ("three", "pending")],
        ));
        let from_two = of_number_2(run(
            "runs",
            &[("one", "succeeded"), ("two", "pending"), ("three", "pending")],
        ));
        let next = with(whole.clone(), "/observedGeneration", json!(2));
        let from = |step: &str| Command::Restart {
            step: Some(step.to_owned()),
        };
        let restart = Command::Restart { step: None };
        let restarts = r#"writes {"phase":"runningWorkflow","workflow":null}"#;
        let gone = "changed: its run was started again";
        let other = "changed: its spec was changed";
        for (command, now, expected) in [
            (
                &Command::Terminate,
                &later,
                r#"writes {"workflow":{"terminated":true}}"#,
            ),
            (&Command::Terminate, &from_two, gone),
            (&Command::Terminate, &next, other),
            (&restart, &later, restarts),
            (&restart, &whole, "is restarted already"),
            (&restart, &from_two, gone),
            (&restart, &next, other),
            (
                &from("two"),
                &later,
                r#"writes {"workflow":{"restartFrom":"two"}}"#,
            ),
            (&from("two"), &from_two, "is restarted already"),
            (&from("two"), &whole, "is restarted already"),
            (&from("one"), &from_two, gone),
            (&from("two"), &next, other),
            // A pause is the same in every run.
            (
                &Command::Suspend,
                &whole,
                r#"writes {"workflow":{"suspend":true}}"#,
            ),
        ] {
            assert_eq!(answer(command, &seen, now), expected, "{command:?} on {now}");
        }
    }
}
