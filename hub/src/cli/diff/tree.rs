//! The differences as a tree: objects, and below each of them its fields.

use super::{Subject, line};
use crate::cli::columns::plain;
use roundhouse_agent::preview::{Difference, Preview};
use std::fmt::Write as _;

/// Draws it; objects without a difference are only counted.
pub(super) fn draw(preview: &Preview, subject: &Subject, color: bool) -> String {
    let mut out = format!(
        "{}/{} on {}\n",
        subject.namespace, subject.application, subject.cluster
    );
    let loud: Vec<_> = preview
        .objects
        .iter()
        .filter(|object| !object.is_quiet())
        .collect();
    let quiet = preview.objects.len() - loud.len();
    let mut branches = preview.held.len() + loud.len() + usize::from(quiet > 0);
    let mut branch = || {
        branches = branches.saturating_sub(1);
        if branches == 0 {
            ("└─", "   ")
        } else {
            ("├─", "│  ")
        }
    };
    for held in &preview.held {
        let (here, _) = branch();
        let message = plain(&held.message);
        let _ = writeln!(
            out,
            "{here} Bundle {}: held ({}): {message}",
            held.bundle, held.reason
        );
    }
    for object in loud {
        let (here, below) = branch();
        let remark = line::remark(object).unwrap_or_else(|| object.action.word().to_owned());
        let _ = writeln!(out, "{here} {}: {remark}", line::object(object));
        let last = object.differences.len().saturating_sub(1);
        for (at, difference) in object.differences.iter().enumerate() {
            let (fork, under) = if at == last {
                ("└─", "   ")
            } else {
                ("├─", "│  ")
            };
            let verdict = line::painted(difference.verdict.word(), difference.verdict, color);
            let _ = writeln!(out, "{below}{fork} {verdict} {}", plain(&difference.path));
            let _ = writeln!(out, "{below}{under}   {}", states(difference));
        }
    }
    if quiet > 0 {
        let (here, _) = branch();
        let objects = if quiet == 1 { "object" } else { "objects" };
        let _ = writeln!(out, "{here} {quiet} {objects} without a difference");
    }
    out
}

fn states(difference: &Difference) -> String {
    let value = |shown: &Option<_>| line::value(shown.as_ref(), Some(line::FITTING));
    let owners = if difference.owners.is_empty() {
        String::new()
    } else {
        format!(" by {}", line::owners(&difference.owners, false))
    };
    let (last, live, desired) = (
        value(&difference.last_applied),
        value(&difference.live),
        value(&difference.desired),
    );
    format!("last applied {last}; live {live}{owners}; desired {desired}")
}
