//! One application on one screen. Pure.

use super::{StatusView, Style};
use crate::{
    cli::{age::ago, columns, format::Format},
    words::{self, command},
};
use jiff::Timestamp;
use roundhouse_api::application::{
    ClusterDelivery, Delivery, OTHER_REGIONS, RegionDelivery, StepPhase, StepReason, StepStatus,
    WorkflowStatus,
};
use std::fmt::Write as _;

/// Clusters that are named without `-o wide`.
const CLUSTERS: usize = 10;
/// Characters of a message that a row shows without `-o wide`.
const MESSAGE: usize = 100;

/// The whole screen.
pub(in crate::cli) fn draw(view: &StatusView, format: Format, style: Style, now: Timestamp) -> String {
    let wide = format == Format::Wide;
    let mut out = headline(view, style);
    if let Some(run) = &view.status.workflow {
        out.push('\n');
        match format {
            Format::Tree => tree(&mut out, view, run, style, now),
            _ => table(&mut out, view, run, wide, now),
        }
    }
    if let Some(delivery) = &view.status.delivery {
        regions(&mut out, delivery, style);
        clusters(&mut out, "not ready", &delivery.not_ready, delivery.omitted, wide);
        clusters(
            &mut out,
            "degraded",
            &delivery.degraded,
            delivery.degraded_omitted,
            wide,
        );
        objects(&mut out, delivery, wide, style);
        if delivery.unplaced > 0 {
            let _ = writeln!(
                out,
                "\n{} without a place:",
                words::count(delivery.unplaced, "replica", "replicas")
            );
            for reason in &delivery.unplaced_reasons {
                let _ = writeln!(out, "  {}", columns::plain(reason));
            }
            if let Some(more) = delivery.unplaced_omitted.filter(|more| *more > 0) {
                let explain = command("explain", &view.namespace, &view.name);
                let _ = writeln!(out, "  … and {more} more: {explain}");
            }
        }
    }
    if wide {
        conditions(&mut out, view, now);
    }
    let footer = footer(view, style);
    if !footer.is_empty() {
        out.push('\n');
        out.push_str(&footer);
    }
    out
}

/// `default/web  web-v2  delivering`
pub(in crate::cli) fn headline(view: &StatusView, style: Style) -> String {
    let title = style.bold(&format!("{}/{}", view.namespace, view.name));
    let revision = view.revision().unwrap_or("no revision yet");
    let word = style.state(view.verdict.state, view.verdict.headline);
    let mut out = format!("{title}  {revision}  {word}");
    if let Some(delivery) = view
        .status
        .delivery
        .as_ref()
        .filter(|d| !d.clusters_ready.is_empty())
    {
        let _ = write!(
            out,
            "  {} clusters, {} replicas ready",
            delivery.clusters_ready, delivery.replicas_ready
        );
    }
    out.push('\n');
    out
}

/// What it waits for, or what went wrong, and what to try.
pub(in crate::cli) fn footer(view: &StatusView, style: Style) -> String {
    let mut out = String::new();
    let verdict = &view.verdict;
    if let Some(why) = &verdict.why {
        let word = match verdict.state {
            super::State::Failed => "cause:",
            _ => "waits:",
        };
        let _ = writeln!(out, "{} {}", style.bold(word), columns::plain(why));
    }
    for (at, advice) in verdict.advice.iter().enumerate() {
        let word = if at == 0 { "try:  " } else { "or:   " };
        let _ = writeln!(out, "{} {}", style.bold(word), columns::plain(advice));
    }
    out
}

fn table(out: &mut String, view: &StatusView, run: &WorkflowStatus, wide: bool, now: Timestamp) {
    let mut header = vec!["STEP", "TYPE", "PHASE", "REASON", "AGE"];
    if wide {
        header.extend(["LAST", "RETRIES"]);
    }
    header.push("MESSAGE");
    let mut rows = Vec::new();
    each(run, &mut |step, depth| {
        let mut row = vec![
            format!("{}{}", "  ".repeat(depth), view.step_title(&step.name)),
            step.type_.clone(),
            phase(step).to_owned(),
            reason(step.reason),
            ago(step.first_execute_time.as_ref().map(|at| at.0), now),
        ];
        if wide {
            row.push(ago(step.last_execute_time.as_ref().map(|at| at.0), now));
            row.push(step.retries.map_or("-".to_owned(), |retries| retries.to_string()));
        }
        let message = message(step, now);
        row.push(match wide {
            true => message,
            false => short(&message),
        });
        rows.push(row);
    });
    out.push_str(&columns::draw(&header, &rows, &["RETRIES"]));
}

fn tree(out: &mut String, view: &StatusView, run: &WorkflowStatus, style: Style, now: Timestamp) {
    let steps: Vec<&StepStatus> = run.steps.iter().collect();
    branches(out, view, (&steps, ""), style, now);
}

fn branches(
    out: &mut String,
    view: &StatusView,
    (steps, indent): (&[&StepStatus], &str),
    style: Style,
    now: Timestamp,
) {
    for (at, step) in steps.iter().enumerate() {
        let last = at + 1 == steps.len();
        let fork = if last { "└─" } else { "├─" };
        let age = match &step.first_execute_time {
            Some(time) => format!("  {}", style.faint(&ago(Some(time.0), now))),
            None => String::new(),
        };
        let message = match message(step, now) {
            message if message.is_empty() => message,
            message => style.faint(&format!("  {}", short(&message))),
        };
        let _ = writeln!(
            out,
            "{indent}{fork} {} {}  {}{age}{message}",
            style.mark(step),
            style.bold(&columns::plain(&view.step_title(&step.name))),
            phase(step).to_lowercase(),
        );
        let below = format!("{indent}{}", if last { "   " } else { "│  " });
        branches(out, view, (&children(step), &below), style, now);
    }
}

/// Visits every step, each group before its own, with its depth.
fn each(run: &WorkflowStatus, visit: &mut impl FnMut(&StepStatus, usize)) {
    for step in &run.steps {
        visit(step, 0);
        for child in children(step) {
            visit(child, 1);
        }
    }
}

/// The steps of a group.
fn children(step: &StepStatus) -> Vec<&StepStatus> {
    step.sub_steps.iter().collect()
}

fn regions(out: &mut String, delivery: &Delivery, style: Style) {
    if delivery.regions.is_empty() {
        return;
    }
    let name = |region: &RegionDelivery| match region.region.as_str() {
        "" => "no region".to_owned(),
        OTHER_REGIONS => match delivery.regions_omitted.unwrap_or_default() {
            1 => "… and 1 more region".to_owned(),
            more => format!("… and {more} more regions"),
        },
        name => columns::plain(name),
    };
    let width = delivery
        .regions
        .iter()
        .map(|region| name(region).chars().count())
        .max()
        .unwrap_or(0);
    out.push('\n');
    for region in &delivery.regions {
        let trouble = region.failed > 0;
        let mut line = format!(
            "{:width$}  {}  {}/{} replicas  {}  {}/{} clusters",
            name(region),
            style.bar(region.replicas_ready, region.replicas, trouble),
            region.replicas_ready,
            region.replicas,
            style.bar(region.ready.into(), region.clusters.into(), trouble),
            region.ready,
            region.clusters,
        );
        for (count, word) in [(region.failed, "failed"), (region.unreachable, "unreachable")] {
            if count > 0 {
                let _ = write!(line, ", {count} {word}");
            }
        }
        let _ = writeln!(out, "{line}");
    }
}

fn clusters(out: &mut String, title: &str, clusters: &[ClusterDelivery], omitted: Option<u32>, wide: bool) {
    if clusters.is_empty() {
        return;
    }
    let shown = if wide { clusters.len() } else { CLUSTERS };
    let omitted = usize::try_from(omitted.unwrap_or(0)).unwrap_or(usize::MAX);
    let all = clusters.len().saturating_add(omitted);
    let _ = writeln!(out, "\n{all} {title}:");
    let rows: Vec<Vec<String>> = clusters
        .iter()
        .take(shown)
        .map(|cluster| {
            let message = match wide {
                true => cluster.message.clone(),
                false => short(&cluster.message),
            };
            vec![cluster.cluster.clone(), cluster.phase.clone(), message]
        })
        .collect();
    let drawn = columns::draw(&["CLUSTER", "PHASE", "MESSAGE"], &rows, &[]);
    out.push_str(&columns::indented(&drawn, "  "));
    let hidden = all.saturating_sub(shown.min(clusters.len()));
    if hidden > 0 {
        let hint = if wide { "kubectl get bundles -A" } else { "-o wide" };
        let _ = writeln!(out, "  … and {hidden} more: {hint}");
    }
}

/// The objects of steps: how far each is, by region, and the clusters where it is not so far.
fn objects(out: &mut String, delivery: &Delivery, wide: bool, style: Style) {
    let mut steps = delivery.objects.iter().peekable();
    if steps.peek().is_some() {
        out.push('\n');
    }
    let width = delivery.objects.iter().map(|object| object.step.chars().count());
    let width = width.max().unwrap_or(0);
    for object in steps {
        let (ready, all) = object.counts();
        let failed = object.regions.iter().any(|region| region.failed > 0);
        let word = match object.type_.as_str() {
            "delete-object" => "gone from",
            "read-object" => "read in",
            _ => "ready in",
        };
        let regions = object.regions.iter().map(|region| {
            let name = match region.region.as_str() {
                "" => "no region".to_owned(),
                name => columns::plain(name),
            };
            let mut text = format!("{name} {}/{}", region.ready, region.clusters);
            for (count, word) in [(region.failed, "failed"), (region.unreachable, "unreachable")] {
                if count > 0 {
                    let _ = write!(text, ", {count} {word}");
                }
            }
            text
        });
        let regions: Vec<String> = regions.collect();
        let _ = writeln!(
            out,
            "{:width$}  {}  {word} {ready}/{all} clusters: {}",
            columns::plain(&object.step),
            style.bar(ready.into(), all.into(), failed),
            regions.join("; ")
        );
    }
    if let Some(more) = delivery.objects_omitted.filter(|more| *more > 0) {
        let _ = writeln!(out, "… and the objects of {more} more steps");
    }
    for object in &delivery.objects {
        let title = format!("not so far in step {}", columns::plain(&object.step));
        clusters(out, &title, &object.not_ready, object.omitted, wide);
    }
}

fn conditions(out: &mut String, view: &StatusView, now: Timestamp) {
    let conditions = &view.status.conditions;
    if conditions.is_empty() {
        return;
    }
    out.push('\n');
    let row = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        vec![
            c.type_.clone(),
            c.status.clone(),
            c.reason.clone(),
            ago(Some(c.last_transition_time.0), now),
            c.message.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = conditions.iter().map(row).collect();
    let header = ["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"];
    out.push_str(&columns::draw(&header, &rows, &[]));
}

/// What a step says; of one that is tried again first when that is.
fn message(step: &StepStatus, now: Timestamp) -> String {
    let message = step.message.clone().unwrap_or_default();
    match &step.next_try {
        Some(next) => {
            let left = next.at.0.duration_since(now).as_secs().max(0);
            format!("try {} of {} in {left} s: {message}", next.number, next.of)
        }
        None => message,
    }
}

/// As a person reads it.
fn phase(step: &StepStatus) -> &'static str {
    match step.phase {
        _ if step.is_retried() => "Retrying",
        StepPhase::Pending => "Pending",
        StepPhase::Running => "Running",
        StepPhase::Suspending => "Suspended",
        StepPhase::Succeeded => "Succeeded",
        StepPhase::Failed => "Failed",
        StepPhase::Skipped => "Skipped",
    }
}

fn reason(reason: Option<StepReason>) -> String {
    reason.map_or("-".to_owned(), |reason| format!("{reason:?}"))
}

/// One line, cut where it is long.
fn short(message: &str) -> String {
    let message = columns::plain(message);
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message,
    }
}
