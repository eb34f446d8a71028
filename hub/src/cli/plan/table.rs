//! A plan on one screen: what is placed, what changes, and whether it is safe.

use super::{
    Against, Drawn, changes, placement,
    screen::{Screen, listed},
};
use crate::{
    plan::{ApplicationPlan, risk::Risk},
    words::{count, counted, thousands},
};
use std::fmt::Write as _;

/// Draws it.
pub(super) fn draw(drawn: &Drawn, screen: &Screen) -> String {
    let mut out = String::new();
    for plan in &drawn.applications {
        let _ = writeln!(out, "{}", header(plan, drawn, screen));
        placement::draw(&mut out, plan, screen);
        out.push('\n');
        changes::draw(&mut out, plan, screen);
        if plan.counts().is_empty() {
            let _ = writeln!(out, "    no cluster changes");
        }
        out.push('\n');
        safety(&mut out, plan, screen);
        later(&mut out, plan, drawn, screen);
        out.push('\n');
    }
    let _ = writeln!(out, "{}", summary(drawn));
    out
}

/// `Plan  default/web  web-v1 → web-v2   1,000 clusters   compared with …`
pub(super) fn header(plan: &ApplicationPlan, drawn: &Drawn, screen: &Screen) -> String {
    let revision = match &plan.former {
        None => format!("new → {}", plan.revision),
        Some(former) if *former == plan.revision => former.clone(),
        Some(former) => format!("{former} → {}", plan.revision),
    };
    let against = match drawn.against {
        Against::Nothing => "offline: an inventory on which nothing runs",
        Against::Bundles => "compared with the bundles dispatched last, not with live state",
    };
    let title = screen.bold(&format!("Plan  {}", plan.title()));
    let fleet = counted(drawn.clusters, "cluster");
    format!("{title}  {revision}   {fleet}, {against}")
}

/// "Is it safe?"
fn safety(out: &mut String, plan: &ApplicationPlan, screen: &Screen) {
    let risk = &plan.risk;
    let level = screen.of_level(risk.level, risk.level.word());
    let reasons = risk.reasons.join("; ");
    let dash = if reasons.is_empty() { "" } else { ": " };
    let _ = writeln!(out, "  Risk      {level}{dash}{reasons}");
    for (name, text) in lines(plan, risk, screen) {
        let _ = writeln!(out, "    {name:<10}{text}");
    }
}

/// What the clock alone will change of it.
pub(super) fn later(out: &mut String, plan: &ApplicationPlan, drawn: &Drawn, screen: &Screen) {
    let title = plan.title();
    for later in &drawn.later {
        let own = later.applications.iter().filter(|one| one.application == title);
        for impact in own {
            let moved = impact.moved.iter();
            let moved = moved.map(|moved| {
                let (before, after) = (thousands(moved.before), thousands(moved.after));
                format!("{} {before} → {after}", moved.cluster)
            });
            let start = format!("in {} s, as a taint is not tolerated any more", later.seconds);
            let taken = screen
                .width
                .map(|width| width.saturating_sub(start.chars().count() + 16));
            let moved = listed(&moved.collect::<Vec<_>>(), taken);
            let _ = writeln!(out, "    {:<10}{start}: {moved}", "later");
            if impact.unplaced.0 != impact.unplaced.1 {
                let unplaced = count(impact.unplaced.1, "replica", "replicas");
                let _ = writeln!(out, "    {:<10}then {unplaced} without a place", "");
            }
        }
    }
}

fn lines(plan: &ApplicationPlan, risk: &Risk, screen: &Screen) -> Vec<(&'static str, String)> {
    let width = screen.width.map(|width| width.saturating_sub(34));
    let all: usize = risk.regions.values().map(|(_, all)| all).sum();
    let regions = risk.regions.iter().filter(|(_, (touched, _))| *touched > 0);
    let regions: Vec<String> = regions
        .map(|(region, (touched, all))| {
            let region = if region.is_empty() { "no region" } else { region };
            format!(
                "{region} {} of {}",
                thousands(*touched as u64),
                thousands(*all as u64)
            )
        })
        .collect();
    let mut touched = format!(
        "{} of {} touched",
        thousands(risk.clusters as u64),
        thousands(all as u64)
    );
    if !regions.is_empty() {
        let _ = write!(touched, ": {}", listed(&regions, width));
    }
    let mut lines = vec![("clusters", touched)];
    if let Some(executor) = plan.executor() {
        lines.push((
            "executor",
            format!("written on behalf of service account {executor}"),
        ));
    }
    if let Some(most) = &risk.at_once {
        let clusters = counted(most.clusters, "cluster");
        let steps = match most.steps.as_slice() {
            [step] => format!("step {step}"),
            steps => format!("steps {} side by side", listed(steps, width)),
        };
        lines.push(("at once", format!("at most {clusters}, in {steps}")));
    }
    lines.push((
        "pods",
        format!(
            "{} restarted, {} started, {} stopped",
            thousands(risk.restarted),
            thousands(risk.started),
            thousands(risk.stopped)
        ),
    ));
    let removals = match risk.losing.as_slice() {
        [] => "no cluster loses the application".to_owned(),
        losing => format!(
            "{} {}: {}",
            counted(losing.len(), "cluster"),
            lose(losing.len()),
            listed(losing, width)
        ),
    };
    lines.push(("removals", removals));
    lines.extend(plan.held.iter().map(|held| ("held", held.clone())));
    lines.extend(ended(plan).map(|held| ("held", held)));
    if risk.unplaced > 0 {
        lines.push((
            "unplaced",
            format!("{} without a place", count(risk.unplaced, "replica", "replicas")),
        ));
    }
    lines.extend(
        plan.refused
            .iter()
            .map(|stop| ("stopped", format!("{}: {}", stop.of, stop.why))),
    );
    lines
}

/// What a plan is that applying it does not carry out.
pub(super) fn ended(plan: &ApplicationPlan) -> Option<String> {
    let restart = plan.awaits()?;
    Some(format!(
        "its run has ended without success: nothing of this moves before {restart}"
    ))
}

fn lose(count: usize) -> &'static str {
    if count == 1 { "loses it" } else { "lose it" }
}

/// `Plan: 0 to add, 412 to change, 0 to destroy.`
pub(super) fn summary(drawn: &Drawn) -> String {
    let counts = drawn.counts();
    format!(
        "Plan: {} to add, {} to change, {} to destroy.",
        thousands(counts.add as u64),
        thousands(counts.change as u64),
        thousands(counts.destroy as u64)
    )
}
