//! The tree of an application, with a bar for each cluster.

use super::view::{ClusterView, RuleView, State, View, WorkloadView};
use roundhouse_api::application::ApplicationPhase;
use std::fmt::Write as _;

/// At most this many clusters of a rule are drawn: of those with replicas, the ones not ready first.
const MAX_CLUSTERS: usize = 12;
/// Cells of a bar.
const BAR: u32 = 12;

/// How a tree is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) color: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn mark(self, state: State) -> String {
        match state {
            State::Ready => self.paint("32", "✔"),
            State::Failed => self.paint("31", "✖"),
            State::Unreachable => self.paint("33", "⚠"),
            State::Progressing => self.paint("36", "▶"),
            State::Sent => self.faint("·"),
        }
    }
}

/// Draws an application.
pub(super) fn draw(view: &View, style: Style) -> String {
    let mut out = String::new();
    let title = format!("{}/{}", view.namespace, view.name);
    let revision = view.revision.as_deref().unwrap_or("not rendered yet");
    let _ = write!(out, "{}  {revision}  {}", style.bold(&title), phase(view));
    if let Some(message) = view.message.as_deref().filter(|_| !view.delivered) {
        let _ = write!(out, "{}", style.faint(&format!("  {message}")));
    }
    out.push('\n');
    for workload in &view.workloads {
        draw_workload(&mut out, workload, style);
    }
    out
}

fn phase(view: &View) -> &'static str {
    if view.refused {
        return "refused";
    }
    match view.phase {
        Some(_) if view.delivered => "delivered",
        Some(ApplicationPhase::Rendering) | None => "rendering",
        Some(ApplicationPhase::RunningWorkflow) => "delivering",
        Some(ApplicationPhase::WorkflowSuspending) => "suspended",
        Some(ApplicationPhase::WorkflowTerminated) => "terminated",
        Some(ApplicationPhase::WorkflowFailed) => "failed",
        Some(ApplicationPhase::Running) => "running",
        Some(ApplicationPhase::Unhealthy) => "unhealthy",
        Some(ApplicationPhase::Deleting) => "deleting",
    }
}

fn draw_workload(out: &mut String, workload: &WorkloadView, style: Style) {
    let what = format!("{} {}", workload.kind, workload.name);
    let _ = writeln!(
        out,
        "└─ step {}: {} × {}, {} placed",
        workload.step,
        workload.replicas,
        style.bold(&what),
        workload.placed
    );
    let has_rest = workload.unplaced > 0 || !workload.reasons.is_empty();
    let last = workload.rules.len().saturating_sub(1);
    for (index, rule) in workload.rules.iter().enumerate() {
        let is_last = index == last && !has_rest;
        let _ = writeln!(
            out,
            "   {} {}",
            if is_last { "└─" } else { "├─" },
            arithmetic(rule, workload)
        );
        let indent = if is_last { "      " } else { "   │  " };
        draw_clusters(out, rule, indent, style);
    }
    if workload.unplaced > 0 {
        let _ = writeln!(out, "   └─ {} = {} unplaced", rest(workload), workload.unplaced);
    } else if !workload.reasons.is_empty() {
        let _ = writeln!(out, "   └─ worth knowing");
    }
    for reason in &workload.reasons {
        let _ = writeln!(out, "      {}", style.faint(reason));
    }
}

/// `region=east  70% of 10 = 7`
pub(super) fn arithmetic(rule: &RuleView, workload: &WorkloadView) -> String {
    let (selector, total, replicas) = (&rule.selector, rule.total, workload.replicas);
    match rule.share.as_str() {
        "" => format!("{selector}  {replicas} on each"),
        share if share.ends_with('%') => format!("{selector}  {share} of {replicas} = {total}"),
        _ => format!("{selector}  {total}"),
    }
}

fn rest(workload: &WorkloadView) -> String {
    let totals = workload.rules.iter().filter(|rule| !rule.share.is_empty());
    let terms: Vec<String> = totals.map(|rule| rule.total.to_string()).collect();
    let mut text = workload.replicas.to_string();
    for term in &terms {
        let _ = write!(text, " − {term}");
    }
    text
}

fn draw_clusters(out: &mut String, rule: &RuleView, indent: &str, style: Style) {
    let mut shown: Vec<&ClusterView> = rule.clusters.iter().collect();
    if shown.len() > MAX_CLUSTERS {
        shown.retain(|cluster| cluster.replicas > 0);
        shown.sort_by_key(|cluster| cluster.state == State::Ready);
        shown.truncate(MAX_CLUSTERS);
        shown.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let width = shown.iter().map(|cluster| cluster.name.len()).max().unwrap_or(0);
    let hidden = rule.clusters.len() - shown.len();
    for (index, cluster) in shown.iter().enumerate() {
        let branch = if hidden == 0 && index + 1 == shown.len() {
            "└─"
        } else {
            "├─"
        };
        let _ = writeln!(
            out,
            "{indent}{branch} {:width$}  {}  {}/{} ready {}",
            cluster.name,
            bar(cluster, style),
            cluster.ready,
            cluster.replicas,
            style.mark(cluster.state),
        );
    }
    if hidden > 0 {
        let holders = rule.clusters.iter().filter(|cluster| cluster.replicas > 0);
        let ready = holders
            .clone()
            .filter(|cluster| cluster.state == State::Ready)
            .count();
        let holders = holders.count();
        let _ = writeln!(
            out,
            "{indent}└─ … and {hidden} more ({ready} of {holders} with replicas are ready): kubectl get bundles -A"
        );
    }
}

fn bar(cluster: &ClusterView, style: Style) -> String {
    let filled = match cluster.replicas {
        0 => 0,
        replicas => cluster.ready.saturating_mul(BAR) / replicas,
    };
    let full = "█".repeat(usize::try_from(filled.min(BAR)).unwrap_or(0));
    let empty = "░".repeat(usize::try_from(BAR.saturating_sub(filled)).unwrap_or(0));
    let color = if cluster.state == State::Failed {
        "31"
    } else {
        "32"
    };
    format!("{}{}", style.paint(color, &full), style.faint(&empty))
}

/// An application in one line.
pub(super) fn line(view: &View, style: Style) -> String {
    let title = style.bold(&format!("{}/{}", view.namespace, view.name));
    let clusters = view.clusters();
    let ready: u32 = clusters.values().map(|(_, ready)| ready).sum();
    let (placed, unplaced) = view.placed();
    let unplaced = if unplaced > 0 {
        format!(", {unplaced} unplaced")
    } else {
        String::new()
    };
    format!(
        "{title}  {}  {ready}/{placed} ready in {} clusters{unplaced}\n",
        phase(view),
        view.holders()
    )
}
