//! What a change would move, as text and as JSON.

use super::Radius;
use crate::{
    cli::{
        columns,
        format::Format,
        impact::{of_applications, of_later},
    },
    fleet::{ApplicationImpact, Moved},
    words,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Clusters of an application that are listed where not all are asked for.
const MAX_ROWS: usize = 20;
/// Names in one line.
const MAX_NAMES: usize = 5;

/// For people.
pub(super) fn text(radius: &Radius<'_>, format: Format) -> String {
    let impact = radius.impact;
    let mut out = format!("{}: {}\n", radius.cluster, radius.done.join(", "));
    let asked = words::count(count(impact.asked), "application", "applications");
    if impact.applications.is_empty() {
        let now = if impact.later.is_empty() { "" } else { " now" };
        let _ = writeln!(out, "no decision changes{now}: {asked} would be placed as now");
    } else {
        let changes = words::thousands(count(impact.applications.len()));
        let _ = writeln!(
            out,
            "decisions of {changes} of {asked} would change (once runs under way have finished):"
        );
    }
    moves(&mut out, &impact.applications, format, "NOW");
    for application in &impact.stopped {
        let (namespace, name) = application.split_once('/').unwrap_or_default();
        let restart = words::command("restart", namespace, name);
        let _ = writeln!(
            out,
            "{application} stays as it is: its run has ended without success, and nothing of it moves before {restart}"
        );
    }
    for (application, why) in &impact.refused {
        let why = columns::plain(why);
        let _ = writeln!(
            out,
            "{application} is not accepted, what runs of it stays as it is: {why}"
        );
    }
    if !impact.applications.is_empty() {
        let _ = writeln!(out, "{}", sum(&impact.applications));
    }
    for later in &impact.later {
        let changes = words::count(count(later.applications.len()), "application", "applications");
        let _ = writeln!(
            out,
            "in {} s: the taint is not tolerated any more, and decisions of {changes} would change:",
            later.seconds
        );
        moves(&mut out, &later.applications, format, "BEFORE");
        let _ = writeln!(out, "{}", sum(&later.applications));
    }
    out
}

/// What moves, application by application, from what is there at a time.
fn moves(out: &mut String, applications: &[ApplicationImpact], format: Format, time: &str) {
    match format {
        Format::Tree => applications.iter().for_each(|application| tree(out, application)),
        Format::Wide => table(out, applications, usize::MAX, time),
        _ => table(out, applications, MAX_ROWS, time),
    }
    for application in applications {
        remarks(out, application, time);
    }
}

fn table(out: &mut String, applications: &[ApplicationImpact], limit: usize, time: &str) {
    // A run under way changes some of it anyway.
    let differs = applications
        .iter()
        .flat_map(|application| &application.moved)
        .any(|moved| moved.otherwise != moved.before);
    let otherwise = differs.then_some("OTHERWISE");
    let numbers: Vec<&str> = [time].into_iter().chain(otherwise).chain(["THEN", "Δ"]).collect();
    let header: Vec<&str> = ["APPLICATION", "CLUSTER"]
        .into_iter()
        .chain(numbers.iter().copied())
        .collect();
    let mut rows = Vec::new();
    for application in applications {
        let name = &application.application;
        for moved in application.moved.iter().take(limit) {
            let otherwise = otherwise.map(|_| words::thousands(moved.otherwise));
            let mut row = vec![
                name.clone(),
                moved.cluster.clone(),
                words::thousands(moved.before),
            ];
            row.extend(otherwise);
            row.extend([words::thousands(moved.after), words::signed(moved.delta())]);
            rows.push(row);
        }
        let more = application.moved.len().saturating_sub(limit);
        if more > 0 {
            let rest = application.moved.iter().skip(limit);
            let delta: i64 = rest.map(Moved::delta).sum();
            let named = format!("… and {more} more (-o wide)");
            let mut row = vec![name.clone(), named];
            row.resize(header.len() - 1, String::new());
            row.push(words::signed(delta));
            rows.push(row);
        }
    }
    if !rows.is_empty() {
        out.push_str(&columns::indented(&columns::draw(&header, &rows, &numbers), "  "));
    }
}

fn tree(out: &mut String, application: &ApplicationImpact) {
    let _ = writeln!(out, "{}", application.application);
    let last = application.moved.len().saturating_sub(1);
    for (at, moved) in application.moved.iter().enumerate() {
        let fork = if at == last { "└─" } else { "├─" };
        let (before, after) = (words::thousands(moved.before), words::thousands(moved.after));
        let otherwise = match moved.otherwise == moved.before {
            true => String::new(),
            false => format!(", otherwise {}", words::thousands(moved.otherwise)),
        };
        let _ = writeln!(
            out,
            "{fork} {}  {before} → {after} ({}{otherwise})",
            moved.cluster,
            words::signed(moved.delta())
        );
    }
}

/// What a table of replicas does not say.
fn remarks(out: &mut String, application: &ApplicationImpact, time: &str) {
    let name = &application.application;
    let (before, after) = application.unplaced;
    if before != after {
        let after = words::count(after, "replica", "replicas");
        let (time, before) = (time.to_lowercase(), words::thousands(before));
        let _ = writeln!(out, "{name}: {after} without a place ({time} {before})");
    }
    if !application.arriving.is_empty() {
        let clusters = words::count(
            count(application.arriving.len()),
            "cluster gets it",
            "clusters get it",
        );
        let _ = writeln!(out, "{name}: {clusters}: {}", listed(&application.arriving));
    }
    if !application.leaving.is_empty() {
        let clusters = words::count(
            count(application.leaving.len()),
            "cluster loses it",
            "clusters lose it",
        );
        let _ = writeln!(out, "{name}: {clusters}: {}", listed(&application.leaving));
        match &application.held {
            Some(why) => {
                let _ = writeln!(
                    out,
                    "{name}: the removal would wait for a confirmation: {}",
                    columns::plain(why)
                );
            }
            None => {
                let _ = writeln!(
                    out,
                    "{name}: the removal would not wait: it is within the delete budget"
                );
            }
        }
    }
}

fn sum(applications: &[ApplicationImpact]) -> String {
    let taken: u64 = applications.iter().map(ApplicationImpact::taken).sum();
    let leaving: usize = applications
        .iter()
        .map(|application| application.leaving.len())
        .sum();
    let held = applications
        .iter()
        .filter(|application| application.held.is_some())
        .count();
    let mut text = format!(
        "in all: {} taken from clusters",
        words::count(taken, "replica", "replicas")
    );
    let _ = write!(
        text,
        ", {} removed",
        words::count(count(leaving), "bundle", "bundles")
    );
    if held > 0 {
        let _ = write!(
            text,
            " (held for {})",
            words::count(count(held), "application", "applications")
        );
    }
    text
}

fn listed(names: &[String]) -> String {
    let text = words::listed(names, MAX_NAMES);
    match names.len() > MAX_NAMES {
        true => text + " (-o json)",
        false => text,
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// For programs.
pub(super) fn structured(radius: &Radius<'_>) -> Value {
    let refused = radius.impact.refused.iter();
    let refused = refused.map(|(application, why)| json!({"application": application, "reason": why}));
    json!({
        "cluster": radius.cluster,
        "changed": true,
        "changes": radius.done,
        "asked": radius.impact.asked,
        "applications": of_applications(&radius.impact.applications),
        "later": of_later(&radius.impact.later),
        "refused": refused.collect::<Vec<_>>(),
        "stopped": radius.impact.stopped,
    })
}
