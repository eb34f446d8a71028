//! `roundhouse watch`: an application as it moves, by a watch of the hub's API.

mod lines;
mod screen;

use super::{
    Failure, columns, signal,
    status::{State, StatusView},
    subject::Subject,
};
use crate::words;
use clap::ValueEnum;
use futures::StreamExt;
use jiff::SignedDuration;
use kube::{
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use screen::Screen;
use std::{process::ExitCode, time::Duration};
use tokio::time::Instant;

/// The exit status of a watch that took too long, as coreutils' `timeout` has it.
const TIMED_OUT: u8 = 124;
/// How often ages on a terminal are drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// Watch an application until it is delivered, ready, or until Ctrl-C
///
/// On a terminal a live tree with bars; elsewhere a line for every change. Nothing is polled. With --until the watch ends
/// with 0 when that is reached, with 3 when it cannot be reached (refused, failed, terminated, deleted) and with 5 when it
/// waits for a person. Without --until it goes on until Ctrl-C and ends with the status that `roundhouse status` would
/// have: 0 done, 2 in progress, 3 failed, 5 awaiting a person. 124 when --timeout is over, 1 for errors. It judges the spec of the
/// application: what was changed just now elsewhere (a Placement, labels or taints of clusters) may not be seen in it yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse watch web\n  \
    roundhouse apply -f web.yaml && roundhouse watch web --until ready --timeout 10m\n  \
    roundhouse watch web --until delivered -o json | jq -r .headline")]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// End when this is reached: `delivered` when the run has succeeded, `ready` when everything delivered is ready too
    #[arg(long, value_enum, value_name = "STATE")]
    until: Option<Until>,
    /// End with status 124 after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_name = "D", value_parser = duration)]
    timeout: Option<Duration>,
    /// What is printed: a tree (lines where stdout is no terminal), or a JSON document a line for every change
    #[arg(short, long, value_enum, default_value_t = Output::Tree)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Until {
    /// The run of the present spec has succeeded
    Delivered,
    /// Everything that was delivered is ready
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Tree,
    Json,
}

/// A time as people write it: `90s`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().map_err(|error| error.to_string());
    let parsed = parsed.and_then(|d| Duration::try_from(d).map_err(|_| "it is negative".to_owned()));
    parsed.map_err(|error| format!("{error}; write 90s, 10m or 1h30m"))
}

/// The exit status with which a watch ends here; `None` if it goes on.
fn ends(until: Option<Until>, view: &StatusView) -> Option<u8> {
    let until = until?;
    let reached = match until {
        Until::Delivered => view.delivered,
        Until::Ready => view.verdict.state == State::Done,
    };
    match view.verdict.state {
        _ if reached => Some(State::Done.code()),
        State::Failed | State::Awaiting => Some(view.verdict.state.code()),
        State::Done | State::InProgress => None,
    }
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let told = signal::termination();
    tokio::pin!(told);
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let client = args.subject.connect().await?;
    let mut screen = Screen::new(args.output == Output::Json);
    let mut view = StatusView::of(&args.subject.read(&client).await?);
    screen.show(&view)?;
    let only = watcher::Config::default().fields(&format!("metadata.name={}", args.subject.application));
    let mut events = watcher(args.subject.api(&client), only).default_backoff().boxed();
    let mut listed = true;
    let code = loop {
        if let Some(code) = ends(args.until, &view) {
            break code;
        }
        let event = tokio::select! {
            biased;
            () = &mut told => break view.verdict.state.code(),
            () = until(deadline) => {
                screen.end(&view)?;
                return Err(late(&args, &view));
            }
            event = events.next() => event,
            () = tokio::time::sleep(TICK), if screen.is_live() => {
                screen.tick();
                continue;
            }
        };
        let seen: Option<DynamicObject> = match event {
            Some(Ok(Event::Apply(application) | Event::InitApply(application))) => Some(application),
            Some(Ok(Event::Init)) => {
                listed = false;
                continue;
            }
            Some(Ok(Event::InitDone)) if listed => continue,
            Some(Ok(Event::InitDone | Event::Delete(_))) => None,
            Some(Err(error)) => {
                tracing::debug!(%error, "the watch broke, it is made again");
                let error = columns::plain(&error.to_string());
                screen.say(&format!("the hub does not answer, it is asked again: {error}"));
                continue;
            }
            // The stream has no end of its own.
            None => break view.verdict.state.code(),
        };
        let Some(application) = seen else {
            screen.end(&view)?;
            return Err(Failure::new(
                "E-GONE",
                format!("application {} was deleted", args.subject.title()),
            )
            .ends_with(State::Failed.code()));
        };
        listed = true;
        view = StatusView::of(&application);
        screen.show(&view)?;
    };
    screen.end(&view)?;
    Ok(ExitCode::from(code))
}

fn late(args: &Args, view: &StatusView) -> Failure {
    let timeout = args.timeout.unwrap_or_default();
    let (title, time) = (args.subject.title(), words::time(timeout));
    let what = match args.until {
        Some(Until::Delivered) => format!("application {title} is not delivered after {time}"),
        Some(Until::Ready) => format!("application {title} is not ready after {time}"),
        None => format!("application {title} was watched for {time}"),
    };
    let failure = Failure::new("E-TIMEOUT", what);
    let failure = match &view.verdict.why {
        Some(why) => failure.because(why.as_str()),
        None => failure,
    };
    failure
        .advise(args.subject.command("status"))
        .ends_with(TIMED_OUT)
}

/// Never, if there is no such time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    /// The application `web` with this status.
    pub(super) fn view(status: Value) -> StatusView {
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "generation": 1}, "status": status});
        StatusView::of(&serde_json::from_value(application).unwrap())
    }

    #[test]
    fn a_watch_that_took_too_long_says_how_long() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        for (words, expected) in [
            (
                "web --timeout 2s",
                "error: application default/web was watched for 2s [E-TIMEOUT]",
            ),
            (
                "web --timeout 90s",
                "error: application default/web was watched for 1m30s [E-TIMEOUT]",
            ),
            (
                "web --timeout 0s --until ready",
                "error: application default/web is not ready after 0s [E-TIMEOUT]",
            ),
            (
                "web --timeout 10m --until delivered",
                "error: application default/web is not delivered after 10m [E-TIMEOUT]",
            ),
        ] {
            let line = ["watch"].into_iter().chain(words.split(' '));
            let args = <Line as clap::Parser>::parse_from(line).args;
            let failure = late(&args, &view(json!({})));
            assert_eq!(failure.status(), TIMED_OUT);
            assert!(failure.to_string().starts_with(expected), "{failure}");
        }
    }

    #[test]
    fn a_watch_ends_when_nothing_more_happens_by_itself() {
        let run = |more: Value| {
            let mut run = json!({"generation": 1, "appRevision": "web-v1", "steps": []});
            run.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            run
        };
        let succeeded = run(json!({"finished": true, "status": "succeeded"}));
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "R", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let delivered = json!([condition("Delivered", "True"), condition("DeletesHeld", "False")]);
        let at = |phase: &str, run: &Value| json!({"observedGeneration": 1, "phase": phase, "workflow": run});
        let mut ready = at("running", &succeeded);
        ready["conditions"] = delivered;
        let mut unjudged = ready.clone();
        unjudged["conditions"][1]["status"] = json!("Unknown");
        let restarted = |step: &str| {
            run(
                json!({"finished": true, "status": "succeeded", "restartFrom": step,
                "steps": [{"name": "west", "type": "deploy", "phase": "succeeded"}]}),
            )
        };
        let cases = [
            (
                at("runningWorkflow", &run(json!({"status": "running"}))),
                None,
                None,
            ),
            (at("unhealthy", &succeeded), Some(0), None),
            // A person has restarted what had succeeded, and the hub has not taken that up.
            (at("runningWorkflow", &succeeded), None, None),
            (at("running", &restarted("west")), None, None),
            // A step that it has not: nothing comes of that.
            (at("running", &restarted("wset")), Some(0), None),
            (ready, Some(0), Some(0)),
            // Whether something is held is not known yet.
            (unjudged, Some(0), None),
            (
                at(
                    "workflowSuspending",
                    &run(json!({"status": "suspending", "suspend": true})),
                ),
                Some(5),
                Some(5),
            ),
            // A person has resumed it, the hub has not seen that yet.
            (
                at(
                    "workflowSuspending",
                    &run(json!({"status": "suspending", "suspend": false})),
                ),
                None,
                None,
            ),
            (
                at(
                    "workflowFailed",
                    &run(json!({"status": "failed", "finished": true})),
                ),
                Some(3),
                Some(3),
            ),
        ];
        for (status, until_delivered, until_ready) in cases {
            let view = view(status.clone());
            assert_eq!(ends(Some(Until::Delivered), &view), until_delivered, "{status}");
            assert_eq!(ends(Some(Until::Ready), &view), until_ready, "{status}");
            assert_eq!(ends(None, &view), None, "only Ctrl-C ends it");
        }
    }

    #[test]
    fn durations_are_written_as_people_write_them() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert!(duration("-5s").unwrap_err().contains("negative"));
        assert!(duration("soon").unwrap_err().contains("write 90s"));
    }
}
