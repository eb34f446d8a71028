//! The placement part of a table: what each rule gets, now and then.

use super::{
    screen::{Screen, listed},
    steps,
};
use crate::{
    plan::{
        ApplicationPlan,
        rows::{Row, rows},
    },
    words::{counted, more, thousands},
};
use roundhouse_api::decision::Assignment;
use std::fmt::Write as _;

/// Reasons that are shown at most.
const MAX_REASONS: usize = 6;

/// Draws the steps, and under each placing step its rules.
pub(super) fn draw(out: &mut String, plan: &ApplicationPlan, screen: &Screen) {
    let rows = rows(plan);
    let number_of_steps = plan.valid.all_steps().count();
    for (index, step) in plan.valid.all_steps().enumerate() {
        let place = format!("  Step {} of {number_of_steps}  {}  ", index + 1, step.name);
        let condition = steps::condition(step);
        match step.kind.deploy() {
            None => {
                let words = steps::words(step).unwrap_or_default();
                let _ = writeln!(out, "{}", screen.fit(&format!("{place}{words}{condition}")));
                for line in steps::object(plan, &step.name, screen) {
                    let _ = writeln!(out, "    {line}");
                }
            }
            Some(deploy) => {
                let touched = plan.bundles.iter().filter(|bundle| bundle.step == step.name);
                let changing = touched
                    .filter(|bundle| bundle.action != crate::plan::Action::Keep)
                    .count();
                let bundles = match changing {
                    0 => "changes no bundle".to_owned(),
                    count => format!("writes {}", counted(count, "bundle")),
                };
                let wait = steps::wait(deploy);
                let line = format!("{place}{bundles}, {wait}{condition}");
                let _ = writeln!(out, "{}", screen.fit(&line));
                table(out, rows.iter().filter(|row| row.step == step.name), screen);
                of_decision(out, plan, &step.name, screen);
            }
        }
    }
}

/// One line for each rule, in columns; with everything on it, one for each cluster too.
fn table<'r>(out: &mut String, rows: impl Iterator<Item = &'r Row>, screen: &Screen) {
    let rows: Vec<&Row> = rows.collect();
    let mut cells: Vec<[String; 6]> =
        vec![["PLACEMENT", "SHARE", "NOW", "NEW", "Δ", "NOTE"].map(str::to_owned)];
    let names = rows.iter().filter(|row| !row.selector.is_empty());
    let names = names.filter_map(|row| row.rule.as_ref());
    let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let mut last = None;
    for row in &rows {
        let head = (&row.workload, row.replicas);
        if last != Some(head) {
            last = Some(head);
            let workload = &row.workload;
            let title = format!(
                "{} × {} {}/{}",
                thousands(row.replicas),
                workload.kind,
                workload.namespace,
                workload.name
            );
            cells.push([
                title,
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        cells.push(cells_of(row, name_width));
    }
    if rows.is_empty() {
        return;
    }
    // A line that is a heading only does not widen the columns.
    let is_heading = |line: &[String; 6]| line.iter().skip(1).all(String::is_empty);
    let width_of = |column: usize| {
        let cells = cells.iter().filter(|line| !is_heading(line));
        let widths = cells.map(|line| line.get(column).map_or(0, |cell| cell.chars().count()));
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width_of).collect();
    let used = 4 + widths.iter().sum::<usize>() + 2 * 5;
    let note_width = screen.width.map(|width| width.saturating_sub(used).max(24));
    let mut of_rule = rows.iter();
    for (index, line) in cells.iter().enumerate() {
        if is_heading(line) {
            let [title, ..] = line;
            let _ = writeln!(out, "    {}", screen.bold(title));
            continue;
        }
        let row = (index > 0).then(|| of_rule.next()).flatten();
        let mut text = String::from("    ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            // Numbers stand under one another.
            let _ = match column {
                0 | 1 => write!(text, "{cell}{pad}  "),
                _ => write!(text, "{pad}{cell}  "),
            };
        }
        let note = match row {
            Some(row) => note(row, note_width),
            None => line.last().cloned().unwrap_or_default(),
        };
        let text = format!("{text}{note}");
        let text = text.trim_end();
        let _ = match index {
            0 => writeln!(out, "{}", screen.faint(text)),
            _ => writeln!(out, "{text}"),
        };
        if screen.width.is_none()
            && let Some(row) = row
        {
            row.clusters.iter().for_each(|cluster| of_cluster(out, cluster));
        }
    }
}

/// The cells of a rule; selectors stand under one another behind names of that width.
fn cells_of(row: &Row, name_width: usize) -> [String; 6] {
    let now = row.now.map_or_else(|| "-".to_owned(), thousands);
    let delta = match row.now {
        None => String::new(),
        Some(now) => signed(row.new, now),
    };
    let name = match &row.rule {
        None => "not placed".to_owned(),
        Some(rule) if row.selector.is_empty() => rule.clone(),
        Some(rule) => format!("{rule:name_width$}  {}", row.selector),
    };
    [
        name,
        row.share.clone(),
        now,
        thousands(row.new),
        delta,
        String::new(),
    ]
}

/// `+7`, `-7`, `0`.
fn signed(new: u64, now: u64) -> String {
    match new.cmp(&now) {
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", thousands(new - now)),
        std::cmp::Ordering::Less => format!("-{}", thousands(now - new)),
    }
}

/// What is said of a rule: what found no place, how many clusters, which.
fn note(row: &Row, width: Option<usize>) -> String {
    if row.rule.is_none() {
        return "no rule claims them".to_owned();
    }
    let mut parts: Vec<String> = row
        .unplaced
        .iter()
        .map(|unplaced| format!("{} not placed: {}", thousands(unplaced.count), unplaced.reason))
        .collect();
    let holding = row.holding();
    if holding == 0 {
        parts.push(match row.clusters.len() {
            0 => "no cluster".to_owned(),
            matched => format!("{}, 0 each", counted(matched, "cluster")),
        });
        return parts.join("; ");
    }
    let start = format!("{}: ", counted(holding, "cluster"));
    let holders = row.clusters.iter().filter(|cluster| cluster.replicas > 0);
    let names: Vec<String> = holders
        .map(|cluster| format!("{} {}", cluster.name, thousands(cluster.replicas)))
        .collect();
    let before: usize = parts.iter().map(|part| part.chars().count() + 2).sum();
    let left = width.map(|width| width.saturating_sub(before + start.chars().count()));
    // A big fleet is read by its numbers, not by the first names of it.
    parts.push(match (width, spread(&row.clusters)) {
        (Some(_), Some(spread)) if holding > 12 => format!("{} of {spread}", counted(holding, "cluster")),
        _ => format!("{start}{}", listed(&names, left)),
    });
    parts.join("; ")
}

/// `23 to 25`, or `7` where all have the same.
fn spread(clusters: &[Assignment]) -> Option<String> {
    let counts = clusters
        .iter()
        .map(|cluster| cluster.replicas)
        .filter(|count| *count > 0);
    let (least, most) = (counts.clone().min()?, counts.max()?);
    let (few, many) = (thousands(least), thousands(most));
    Some(match least == most {
        true => format!("{few} each"),
        false => format!("{few} to {many}"),
    })
}

/// `4,000,000` or `7/3`: exact.
fn exact(quota: &str) -> String {
    let parts = quota.split('/');
    let parts = parts.map(|part| part.parse::<u128>().map_or_else(|_| part.to_owned(), thousands));
    parts.collect::<Vec<_>>().join("/")
}

fn of_cluster(out: &mut String, cluster: &Assignment) {
    let mut line = format!("      {}  {}", cluster.name, thousands(cluster.replicas));
    if let Some(previous) = cluster.previous.filter(|previous| *previous != cluster.replicas) {
        let _ = write!(line, " (was {})", thousands(previous));
    }
    for (name, value) in [
        ("quota", cluster.quota.as_deref().map(exact).as_deref()),
        ("bound", cluster.bound.as_deref()),
        ("tie", cluster.tie.as_deref()),
    ] {
        if let Some(value) = value {
            let _ = write!(line, "  {name} {value}");
        }
    }
    let _ = writeln!(out, "{line}");
}

/// What else the decision says: clusters that are not chosen, and reasons.
fn of_decision(out: &mut String, plan: &ApplicationPlan, step: &str, screen: &Screen) {
    let decision = plan.decisions.iter().find(|decision| decision.spec.step == step);
    let Some(decision) = decision.map(|decision| &decision.spec) else {
        return;
    };
    if !decision.excluded.is_empty() {
        let reasons = decision.excluded.iter();
        let reasons: Vec<String> = reasons
            .map(|e| format!("{} {}", thousands(e.count), e.reason))
            .collect();
        let _ = writeln!(out, "    clusters not chosen: {}", reasons.join(", "));
    }
    let reasons = &decision.reasons;
    for reason in reasons.iter().take(screen.at_most(MAX_REASONS)) {
        let _ = writeln!(out, "    ! {reason}");
    }
    if reasons.len() > screen.at_most(MAX_REASONS) {
        let _ = writeln!(out, "    ! {} (-o wide)", more(reasons.len() - MAX_REASONS));
    }
}
