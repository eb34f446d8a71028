//! A run as a timeline.

use super::{never, script::Made};
use crate::{
    cli::columns::plain,
    simulate::{
        monitor::Promise,
        run::{Act, Cue, Event, Fault, Outcome},
    },
    words,
};
use std::{fmt::Write as _, time::Duration};

/// What happens to several clusters within this time is one line.
const TOGETHER: Duration = Duration::from_secs(10);
/// Clusters that a line names.
const NAMED: usize = 3;
/// Lines, unless all are asked for: the first and the last ones.
const LINES: usize = 60;
/// Things that wait, unless all are asked for.
const WAITS: usize = 10;

/// One line of a timeline: what happened, to whom, from when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) at: Duration,
    pub(super) who: Vec<String>,
    pub(super) what: String,
}

impl Line {
    /// For a terminal: what an application says may hold anything.
    fn text(&self, whole: bool) -> String {
        let what = plain(&self.what);
        match &self.who[..] {
            [] => what,
            [one] => format!("{one}: {what}"),
            many => {
                let mut names = many.to_vec();
                names.sort_by_cached_key(|name| words::in_order(name));
                let count = words::counted(names.len(), "cluster");
                let named = if whole { usize::MAX } else { NAMED };
                format!("{count}: {what} ({})", words::listed(&names, named))
            }
        }
    }

    /// Whether it says only that something is still to come.
    fn is_to_come(&self) -> bool {
        let step = self.what.split_once(": step ").map(|(_, step)| step);
        let step = step.and_then(|step| step.strip_suffix(" is Pending"));
        step.is_some_and(|name| !name.contains(' '))
    }
}

/// What happens to several within a short time is put together where it began.
pub(super) fn lines(events: &[Event]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for event in events {
        let Some(who) = &event.who else {
            lines.push(Line {
                at: event.at,
                who: Vec::new(),
                what: event.what.clone(),
            });
            continue;
        };
        let recent = lines.iter_mut().rev();
        let mut recent = recent.take_while(|line| event.at.saturating_sub(line.at) <= TOGETHER);
        match recent.find(|line| !line.who.is_empty() && line.what == event.what) {
            Some(line) => line.who.push(who.clone()),
            None => lines.push(Line {
                at: event.at,
                who: vec![who.clone()],
                what: event.what.clone(),
            }),
        }
    }
    lines
}

/// The timeline, and what came of it.
pub(super) fn draw(made: &Made, outcome: &Outcome, whole: bool) -> String {
    let mut text = format!(
        "{}, {}, seed {}\n\n",
        words::counted(made.script.members.len(), "cluster"),
        words::listed(&made.applications, 5),
        outcome.seed
    );
    let mut lines = lines(&outcome.timeline);
    lines.retain(|line| whole || !line.is_to_come());
    let left_out = if whole {
        0
    } else {
        lines.len().saturating_sub(LINES)
    };
    for (n, line) in lines.iter().enumerate() {
        if left_out > 0 && n == LINES / 2 {
            let _ = writeln!(text, "{:>12}  {} (-o wide shows them)", "", words::more(left_out));
        }
        if left_out > 0 && (LINES / 2..LINES / 2 + left_out).contains(&n) {
            continue;
        }
        let _ = writeln!(text, "{:>10.3} s  {}", line.at.as_secs_f64(), line.text(whole));
    }
    text.push('\n');
    let _ = writeln!(text, "{}", end(outcome));
    if !outcome.waits.is_empty() {
        text.push_str("waits:\n");
        let shown = if whole { usize::MAX } else { WAITS };
        for waits in outcome.waits.iter().take(shown) {
            let _ = writeln!(text, "  {}", plain(waits));
        }
        if let Some(left @ 1..) = outcome.waits.len().checked_sub(shown) {
            let _ = writeln!(text, "  {} (-o wide shows them)", words::more(left));
        }
    }
    let faults: Vec<String> = outcome
        .seen
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    if !faults.is_empty() {
        let _ = writeln!(text, "faults: {}", faults.join(", "));
    }
    for never in never::of(made, outcome) {
        let _ = writeln!(text, "{}", plain(&never));
    }
    let _ = match outcome.broken.len() {
        0 => writeln!(
            text,
            "promises: {} checked over {} writes, none broken{}{}",
            named(Promise::ALL.iter().filter(|p| outcome.judged.contains(p))),
            words::thousands(u64::try_from(outcome.writes).unwrap_or(u64::MAX)),
            match outcome.judged.len() < Promise::ALL.len() {
                true => format!(
                    "; {} had nothing to check",
                    named(Promise::ALL.iter().filter(|p| !outcome.judged.contains(p)))
                ),
                false => String::new(),
            },
            if whole { "" } else { " (-o wide says what each is)" }
        ),
        _ => writeln!(text, "promises: {} broken", outcome.broken.len()),
    };
    if whole {
        for promise in Promise::ALL {
            let nothing = match outcome.judged.contains(&promise) {
                true => "",
                false => " (nothing to check)",
            };
            let _ = writeln!(text, "  {}{nothing}", of_promise(promise));
        }
    }
    for broken in &outcome.broken {
        let _ = writeln!(text, "  {}", plain(&broken.to_string()));
    }
    if !outcome.judged.contains(&Promise::P9) && made.script.cues.iter().any(loses_at_once) {
        text.push_str(
            "note: P9 had nothing to check, since the clusters were lost before they had anything: a time such as \
             --lose region=west@1m loses them later\n",
        );
    }
    let _ = writeln!(text, "trace: {}", outcome.trace.digest());
    text
}

/// What a promise is: `P1   no acknowledged write is lost`.
fn of_promise(promise: Promise) -> String {
    format!("{:<3}  {}", format!("{promise:?}"), promise.says())
}

/// The promises, for who asks what their numbers mean.
pub(super) fn promises() -> String {
    let lines: Vec<String> = Promise::ALL
        .iter()
        .map(|promise| format!("  {}", of_promise(*promise)))
        .collect();
    format!("Promises:\n{}", lines.join("\n"))
}

/// `P1, P3 to P5`
pub(super) fn named<'a>(promises: impl Iterator<Item = &'a Promise>) -> String {
    let all: Vec<Promise> = promises.copied().collect();
    let place = |promise: &Promise| Promise::ALL.iter().position(|one| one == promise);
    let runs = all.chunk_by(|one, next| place(one).map(|place| place + 1) == place(next));
    let runs = runs.map(|run| match run {
        [first, _, .., last] => format!("{first:?} to {last:?}"),
        run => {
            let names: Vec<String> = run.iter().map(|promise| format!("{promise:?}")).collect();
            names.join(", ")
        }
    });
    let runs: Vec<String> = runs.collect();
    match runs.is_empty() {
        true => "none".to_owned(),
        false => runs.join(", "),
    }
}

/// Whether clusters are lost just when there is something to deliver to them.
fn loses_at_once(cue: &Cue) -> bool {
    cue.at.is_zero() && matches!(cue.act, Act::Begin(Fault::Partition(_), _))
}

/// When it was known how the run ends.
pub(super) fn known_at(outcome: &Outcome) -> Duration {
    outcome.known_at.unwrap_or(outcome.took)
}

fn end(outcome: &Outcome) -> String {
    let took = known_at(outcome).as_secs_f64();
    match outcome.delivered_at {
        Some(at) => format!("everything is delivered after {:.1} virtual s", at.as_secs_f64()),
        None if outcome.waits.is_empty() => format!("ended after {took:.1} virtual s"),
        None => format!("not everything is delivered after {took:.1} virtual s"),
    }
}
