//! What people read: why something is not as they might expect, and what to do about it. One line each, bounded.

mod chosen;
mod divided;
mod standing;

pub(super) use chosen::{of_choice, of_clusters};
pub(super) use divided::{of_both, of_division, of_overlap, of_totals, unplaced_code};
pub(super) use standing::{of_kept, of_kept_full, of_lost, of_taken};

use super::{
    Workload,
    overrides::{Overridden, error_line},
};
use std::fmt::Write as _;

/// Lines per decision; what is above is counted.
const MAX_LINES: usize = 32;
/// Names or values in one line; what is above is counted.
const MAX_ITEMS: usize = 3;
/// Characters of one line.
const MAX_LENGTH: usize = 400;

/// The lines of one decision.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    lines: Vec<String>,
    more: usize,
}

impl Reasons {
    fn push(&mut self, mut line: String) {
        if self.lines.len() >= MAX_LINES {
            self.more += 1;
            return;
        }
        if let Some((end, _)) = line.char_indices().nth(MAX_LENGTH) {
            line.truncate(end);
            line.push('…');
        }
        self.lines.push(line);
    }

    /// A step without rules.
    pub(super) fn no_rules(&mut self, step: &str) {
        self.push(format!("step {step} has no rule: add one under placement"));
    }

    /// The lines, and one that counts those left out.
    pub(super) fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("… and {} more", self.more));
        }
        self.lines
    }
}

/// What is wrong with overrides.
pub(super) fn of_overrides(reasons: &mut Reasons, overridden: &Overridden) {
    for error in &overridden.errors {
        reasons.push(error_line(error));
    }
}

/// When what stands is divided anew.
fn until(once: bool) -> &'static str {
    match once {
        true => "a Job is divided once per revision: change the Job to divide it anew",
        false => "all steps are divided anew when the run has succeeded",
    }
}

fn shown(workload: &Workload) -> String {
    let key = &workload.key;
    format!("{} {}/{}", key.kind, key.namespace, key.name)
}

fn replicas(count: u64) -> String {
    match count {
        1 => "1 replica".to_owned(),
        _ => format!("{count} replicas"),
    }
}

/// The first few, and how many more.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items = items;
    let mut text = items.by_ref().take(MAX_ITEMS).collect::<Vec<_>>().join(", ");
    let more = items.count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
