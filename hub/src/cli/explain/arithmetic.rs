//! The arithmetic, as people read it.

use super::Subject;
use crate::{
    cli::{columns, format::Format},
    explain::{Arithmetic, InForce, RowArithmetic, RuleArithmetic, arithmetic, by_frequency},
    words,
};
use std::fmt::Write as _;

/// Clusters of a rule in a table that is not wide.
const MAX_ROWS: usize = 20;

/// Draws every step.
pub(super) fn draw(subject: &Subject, format: Format) -> String {
    let mut out = String::new();
    for step in &subject.steps {
        let Some(decided) = subject.decisions.get(*step) else {
            continue;
        };
        if !out.is_empty() {
            out.push('\n');
        }
        draw_step(&mut out, subject, decided, format);
    }
    out
}

fn draw_step(out: &mut String, subject: &Subject, decided: &InForce, format: Format) {
    let decision = &decided.decision;
    let members = u64::try_from(decision.clusters.len()).unwrap_or(u64::MAX);
    let held = subject.holds(decision);
    let note = match decided.stored {
        _ if subject.unresolved => "; held: this is what was decided before, and it stays in force",
        _ if !held.is_empty() => {
            "; held: what was decided before stays in force, and this comes once it is mended"
        }
        // Nothing more is.
        Some(false) if subject.ended.is_some() => "",
        Some(false) => "; the hub has another Decision stored: this is what is decided next",
        Some(true) | None => "",
    };
    let _ = writeln!(
        out,
        "{}  step {}: {}{note}",
        subject.setting.application,
        decision.step,
        words::count(members, "cluster", "clusters"),
    );
    for error in &held {
        let _ = writeln!(out, "  HELD: {}", columns::plain(error));
    }
    let all = arithmetic(&subject.setting, decision);
    if all.is_empty() {
        let _ = writeln!(out, "  nothing to divide: every chosen cluster gets the objects");
    }
    for workload in &all {
        draw_workload(out, workload, format);
    }
    let excluded = by_frequency(&decision.excluded);
    if !excluded.is_empty() {
        let count: u64 = excluded.iter().map(|e| u64::from(e.count)).sum();
        let _ = writeln!(
            out,
            "  not chosen: {}",
            words::count(count, "cluster", "clusters")
        );
        for one in &excluded {
            let why = words::not_chosen(&one.reason);
            let _ = writeln!(out, "    {} {}: {why}", words::thousands(one.count), one.reason);
        }
    }
    for reason in &decision.reasons {
        let _ = writeln!(out, "  note: {}", columns::plain(reason));
    }
}

fn draw_workload(out: &mut String, workload: &Arithmetic, format: Format) {
    let key = &workload.workload;
    let unplaced: u64 = workload.unplaced.iter().map(|u| u64::from(u.count)).sum();
    let is_divided = workload.rules.is_empty() || workload.rules.iter().any(|rule| rule.share.is_some());
    let placed = match is_divided || workload.placed > 0 || unplaced > 0 {
        true => format!(
            "{} placed here, {} unplaced",
            words::thousands(workload.placed),
            words::thousands(unplaced)
        ),
        false => "not divided: every cluster runs all of them".to_owned(),
    };
    let _ = writeln!(
        out,
        "  {} {}/{}: {}, {placed}",
        key.kind,
        key.namespace,
        key.name,
        words::count(workload.replicas.into(), "replica", "replicas"),
    );
    for rule in &workload.rules {
        let _ = writeln!(out, "    {}", headline(rule, workload.replicas));
        if rule.off {
            let quota = words::decimal(rule.quota.as_deref().unwrap_or_default());
            let _ = writeln!(
                out,
                "      {} where {quota} is its exact share: all shares are rounded together, so that one replica more never takes one from a rule",
                words::thousands(rule.seats)
            );
        }
        match format {
            Format::Tree => tree(out, rule),
            Format::Wide => table(out, rule, usize::MAX),
            _ => table(out, rule, MAX_ROWS),
        }
    }
    if let Some(held) = workload.held.filter(|held| *held > 0) {
        let _ = writeln!(out, "    no rule claims {}", words::thousands(held));
    }
    for unplaced in &workload.unplaced {
        let rule = unplaced
            .rule
            .as_deref()
            .map_or_else(String::new, |rule| format!(" of rule {rule}"));
        let why = words::unplaced(&unplaced.reason);
        let _ = writeln!(
            out,
            "    unplaced {}{rule}: {why}",
            words::thousands(unplaced.count)
        );
    }
}

/// `west: 20% of 10,000 = 2,000 → 3 clusters by weight (Webster)`.
fn headline(rule: &RuleArithmetic, replicas: u32) -> String {
    let clusters = words::count(
        u64::try_from(rule.rows.len()).unwrap_or(u64::MAX),
        "cluster",
        "clusters",
    );
    let Some(share) = &rule.share else {
        return format!(
            "{}: all {} to each of {clusters}",
            rule.rule,
            words::thousands(replicas)
        );
    };
    let all = words::thousands(replicas);
    let of = if share.ends_with('%') {
        format!("{share} of {all}")
    } else {
        format!("{share} of the {all}")
    };
    let mut text = format!("{}: {of}", rule.rule);
    if let Some(quota) = rule.quota.as_deref().filter(|quota| quota.contains('/')) {
        let _ = write!(text, " = {} ({quota})", words::decimal(quota));
    }
    let _ = write!(text, " = {}", words::thousands(rule.seats));
    if rule.total < rule.seats {
        let _ = write!(
            text,
            ", shrunk to {}: the rules claim too much together",
            words::thousands(rule.total)
        );
    }
    let _ = write!(text, " → {clusters} by weight (Webster)");
    if let Some(tie) = &rule.tie {
        let _ = write!(text, "; {}", words::tie(tie));
    }
    text
}

fn table(out: &mut String, rule: &RuleArithmetic, limit: usize) {
    if rule.rows.is_empty() {
        return;
    }
    let header = [
        "CLUSTER", "WEIGHT", "QUOTA", "EXACT", "REPLICAS", "BOUND", "PREVIOUS", "Δ", "NOTE",
    ];
    let dash = || "-".to_owned();
    let row = |row: &RowArithmetic| {
        vec![
            row.cluster.clone(),
            row.weight.map_or_else(dash, words::thousands),
            row.quota.as_deref().map_or_else(dash, words::decimal),
            row.quota
                .clone()
                .filter(|quota| quota.contains('/'))
                .unwrap_or_default(),
            words::thousands(row.replicas),
            row.bound.clone().unwrap_or_default(),
            row.previous.map_or_else(dash, words::thousands),
            words::signed(row.delta()),
            row.tie.as_deref().map(words::tie).unwrap_or_default().to_owned(),
        ]
    };
    let mut rows: Vec<Vec<String>> = rule.rows.iter().take(limit).map(row).collect();
    let more = rule.rows.len().saturating_sub(rows.len());
    if more > 0 {
        let rest = rule.rows.iter().skip(limit);
        let sum: u64 = rest.map(|row| u64::from(row.replicas)).sum();
        let mut line = vec![String::new(); header.len()];
        line[0] = format!("… and {more} more");
        line[4] = words::thousands(sum);
        line[8] = "-o wide shows all".to_owned();
        rows.push(line);
    }
    let sum = |of: fn(&RowArithmetic) -> u64| words::thousands(rule.rows.iter().map(of).sum::<u64>());
    let delta: i64 = rule.rows.iter().map(RowArithmetic::delta).sum();
    let mut last = vec![String::new(); header.len()];
    last[0] = "Σ".to_owned();
    last[4] = sum(|row| row.replicas.into());
    last[6] = sum(|row| row.previous.unwrap_or(0).into());
    last[7] = words::signed(delta);
    if rule.share.is_some() {
        last[1] = sum(|row| row.weight.unwrap_or(0));
        last[2] = words::thousands(rule.total);
    }
    rows.push(last);
    let numbers = ["WEIGHT", "QUOTA", "EXACT", "REPLICAS", "PREVIOUS", "Δ"];
    out.push_str(&columns::indented(
        &columns::draw(&header, &rows, &numbers),
        "      ",
    ));
}

fn tree(out: &mut String, rule: &RuleArithmetic) {
    let last = rule.rows.len().saturating_sub(1);
    for (at, row) in rule.rows.iter().enumerate() {
        let fork = if at == last { "└─" } else { "├─" };
        let mut text = format!("{}  {}", row.cluster, words::thousands(row.replicas));
        if let Some(quota) = &row.quota {
            let _ = write!(text, " of {}", words::decimal(quota));
        }
        for note in [row.bound.as_deref(), row.tie.as_deref().map(words::tie)]
            .into_iter()
            .flatten()
        {
            let _ = write!(text, ", {note}");
        }
        let _ = writeln!(out, "      {fork} {text}");
    }
}
