//! One cluster, as people read it.

use super::{Subject, Verdict};
use crate::{
    cli::{columns, format::Format},
    explain::{Aim, Condition, Consequence, Kept, Mark, Reason},
    placement::NotChosen,
    words,
};
use std::fmt::Write as _;

/// Ways that are shown where not all are asked for.
const MAX_FLIPS: usize = 4;
/// Other clusters that a consequence names.
const MAX_OTHERS: usize = 3;

/// Draws what is said of a cluster in every step.
pub(super) fn draw(
    subject: &Subject,
    cluster: &str,
    verdicts: &[Verdict],
    format: Format,
    color: bool,
) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        if !out.is_empty() {
            out.push('\n');
        }
        headline(&mut out, subject, cluster, verdict, color);
        conditions(&mut out, verdict, format);
        ways(&mut out, subject, cluster, verdict, format);
    }
    out
}

fn headline(out: &mut String, subject: &Subject, cluster: &str, verdict: &Verdict, color: bool) {
    let answer = &verdict.answer;
    let of_placement = || match answer.reason {
        Reason::Placed => {
            let replicas = words::count(answer.replicas(), "replica", "replicas");
            ("32", "PLACED", replicas)
        }
        Reason::Member => (
            "32",
            "PLACED",
            "nothing to divide, it gets the objects".to_owned(),
        ),
        Reason::NotChosen(reason) => (
            "31",
            "NOT PLACED",
            format!(
                "{} ({})",
                come_first(subject, cluster, &answer.step, reason)
                    .unwrap_or_else(|| words::not_chosen(reason.as_str()).to_owned()),
                reason.as_str()
            ),
        ),
        Reason::ZeroShare(zero) => (
            "33",
            "NO REPLICA",
            format!("{} (ZeroShare, {zero})", zero_in_words(zero)),
        ),
    };
    let (code, word, why) = match &verdict.kept {
        Some(kept) => ("31", "HELD", kept_in_words(kept)),
        None => of_placement(),
    };
    let word = match color {
        true => format!("\u{1b}[{code}m{word}\u{1b}[0m"),
        false => word.to_owned(),
    };
    let application = &subject.setting.application;
    let _ = writeln!(
        out,
        "{application} → {cluster}, step {}: {word}: {why}",
        answer.step
    );
}

/// How many clusters `maxClusters` takes before this one. With a spread it is not the order alone that decides.
fn come_first(subject: &Subject, cluster: &str, step: &str, reason: NotChosen) -> Option<String> {
    let setting = &subject.setting;
    let at = setting.steps.iter().position(|known| known.name == step)?;
    let spec = &setting.steps.get(at)?.spec;
    if reason != NotChosen::MaxClusters || spec.spread.is_some() {
        return None;
    }
    let place = setting.standing(cluster)?.into_iter().nth(at)?.place?;
    let before = u64::try_from(place.rank).ok()?.checked_sub(1)?;
    let others = words::count(before, "other comes", "others come");
    Some(format!("{others} first (maxClusters {})", spec.max_clusters?))
}

fn kept_in_words(kept: &Kept) -> String {
    let keeps = match kept {
        Kept { placed: false, .. } => "it has nothing of the step and gets nothing".to_owned(),
        Kept { replicas: 0, .. } => "it keeps the objects as they are".to_owned(),
        Kept { replicas, .. } => format!("it keeps {}", words::count(*replicas, "replica", "replicas")),
    };
    let lines = kept.hold.lines();
    let lines: Vec<String> = lines.iter().map(|line| columns::plain(line)).collect();
    format!("{keeps} until this is mended: {}", lines.join("; "))
}

fn zero_in_words(code: &str) -> &str {
    match code {
        "NothingAsked" => "no workload asks for a replica",
        "DividedBefore" => "what is divided stands until a run begins anew, and it came later",
        "RuleGetsNothing" => "its rules have nothing to divide",
        "NoAdditional" => "it keeps what it has and gets nothing more, and it has nothing",
        "Capacity" => "it has no capacity left",
        "Max" => "perCluster.max lets it have none",
        "ZeroWeight" => "its weight is 0",
        _ => "it is chosen, and every replica goes to a larger claim",
    }
}

fn conditions(out: &mut String, verdict: &Verdict, format: Format) {
    let all = &verdict.answer.conditions;
    // Where a rule selects it, the others only say whom they are for.
    let selects = |rule: Option<&String>| {
        let mut own = all
            .iter()
            .filter(|c| c.about != "share" && c.rule.as_ref() == rule);
        rule.is_none() || own.all(|condition| condition.mark == Mark::Holds)
    };
    let selected = all
        .iter()
        .any(|c| c.about != "share" && c.rule.is_some() && selects(c.rule.as_ref()));
    let shown = |condition: &&Condition| {
        format == Format::Wide || !selected || condition.about == "share" || selects(condition.rule.as_ref())
    };
    let mut rules: Vec<&String> = all
        .iter()
        .filter(|c| c.about != "share")
        .filter_map(|c| c.rule.as_ref())
        .collect();
    rules.dedup();
    let named = rules.len() > 1;
    let row = |condition: &Condition| {
        let mark = match condition.mark {
            Mark::Holds => "✓",
            Mark::Fails => "✗",
            Mark::NotAsked => "–",
        };
        let about = match condition
            .rule
            .as_deref()
            .filter(|_| named && condition.about != "share")
        {
            Some(rule) => format!("{} ({rule})", condition.about),
            None => condition.about.to_owned(),
        };
        let found = match condition.found.is_empty() {
            true => "not evaluated".to_owned(),
            false => columns::plain(&condition.found),
        };
        let decisive = if condition.decisive { "← decisive" } else { "" };
        vec![
            format!("{mark} {about}"),
            condition.asks.clone(),
            found,
            decisive.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().filter(shown).map(row).collect();
    let drawn = columns::draw(&["", "", "", ""], &rows, &[]);
    // Without the empty header.
    let body: String = drawn.lines().skip(1).map(|line| format!("  {line}\n")).collect();
    out.push_str(&body);
    let hidden = rules
        .iter()
        .filter(|rule| selected && !selects(Some(rule)))
        .count();
    if hidden > 0 && format != Format::Wide {
        let rules = words::count(
            u64::try_from(hidden).unwrap_or(u64::MAX),
            "other rule",
            "other rules",
        );
        let _ = writeln!(
            out,
            "  {rules} of the step did not select it (-o wide shows them)"
        );
    }
}

fn ways(out: &mut String, subject: &Subject, cluster: &str, verdict: &Verdict, format: Format) {
    let title = match verdict.aim {
        Aim::Include => "To include it",
        Aim::Exclude => "To take it out",
    };
    if verdict.ended {
        let application = &subject.setting.application;
        let (namespace, name) = application.split_once('/').unwrap_or_default();
        let _ = writeln!(
            out,
            "  {title}: first start its run again, which has ended without success: {}",
            words::command("restart", namespace, name)
        );
    }
    let Some(search) = &verdict.search else { return };
    if search.flips.is_empty() {
        let _ = writeln!(
            out,
            "  {title}: {}",
            match search.complete {
                true =>
                    "no single label, taint, weight, share, bound or count does it, nor what was tried of them together",
                false => "nothing was found among the changes that were tried; not all were",
            }
        );
        return;
    }
    let limit = if format == Format::Wide {
        usize::MAX
    } else {
        MAX_FLIPS
    };
    for (at, flip) in search.flips.iter().take(limit).enumerate() {
        let lead = if at == 0 { title } else { "or" };
        let advice = subject.source.advice(&flip.changes, &subject.setting, cluster);
        let all: Vec<&str> = advice.iter().map(|advice| advice.words.as_str()).collect();
        let _ = writeln!(
            out,
            "  {lead}: {} ({})",
            columns::plain(&all.join(", and ")),
            consequence(&flip.consequence)
        );
        for command in advice.iter().filter_map(|advice| advice.command.as_ref()) {
            let _ = writeln!(out, "    {}", columns::plain(command));
        }
    }
    if search.flips.len() > limit {
        let _ = writeln!(out, "  … and {} more ways (-o wide)", search.flips.len() - limit);
    }
    if !search.complete {
        let _ = writeln!(out, "  not every change was tried: there may be a smaller one");
    }
}

/// `would move +7 here; c118 −4, c119 −3`.
pub(super) fn consequence(consequence: &Consequence) -> String {
    let mut text = match consequence.here {
        0 => "would move no replica here".to_owned(),
        here => format!("would move {} here", words::signed(here)),
    };
    if !consequence.others.is_empty() {
        let named = consequence.others.iter().take(MAX_OTHERS);
        let named = named.map(|moved| format!("{} {}", moved.cluster, words::signed(moved.delta)));
        let _ = write!(text, "; {}", named.collect::<Vec<_>>().join(", "));
        if consequence.others.len() > MAX_OTHERS {
            let _ = write!(
                text,
                ", … and {} more clusters",
                consequence.others.len() - MAX_OTHERS
            );
        }
    }
    if consequence.unplaced != 0 {
        let _ = write!(text, "; unplaced {}", words::signed(consequence.unplaced));
    }
    if !consequence.leaving.is_empty() {
        let named: Vec<_> = consequence.leaving.iter().take(MAX_OTHERS).cloned().collect();
        let _ = write!(text, "; {}", named.join(", "));
        if consequence.leaving.len() > MAX_OTHERS {
            let _ = write!(text, ", … and {} more", consequence.leaving.len() - MAX_OTHERS);
        }
        text.push_str(" would lose it");
    }
    text
}
