//! What happened between two views, in lines: for logs and pipes, where nothing can be drawn over.

use super::{
    tree::arithmetic,
    view::{RuleView, State, View, WorkloadView},
};

/// A rule with more clusters than this is told in sums.
const MAX_CLUSTERS: usize = 12;

/// The news of an application. `before` is absent at the first look.
pub(super) fn news(before: Option<&View>, now: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let app = format!("{}/{}", now.namespace, now.name);
    if now.revision != before.and_then(|view| view.revision.clone())
        && let Some(revision) = &now.revision
    {
        lines.push(format!("{app}: revision {revision} rendered"));
    }
    for workload in &now.workloads {
        let earlier = before.and_then(|view| same_workload(view, workload));
        placement(&mut lines, &app, earlier, workload);
        for (index, rule) in workload.rules.iter().enumerate() {
            let earlier = earlier.and_then(|workload| workload.rules.get(index));
            progress(&mut lines, &app, earlier, rule);
        }
    }
    let told = before.and_then(|view| view.message.as_deref());
    if let Some(message) = now
        .message
        .as_deref()
        .filter(|message| Some(*message) != told && !now.delivered)
    {
        lines.push(format!("{app}: {message}"));
    }
    if now.delivered && !before.is_some_and(|view| view.delivered && view.revision == now.revision) {
        lines.push(format!("{app}: delivered"));
    }
    lines
}

fn same_workload<'a>(view: &'a View, workload: &WorkloadView) -> Option<&'a WorkloadView> {
    let key = |w: &WorkloadView| (w.step.clone(), w.kind.clone(), w.name.clone());
    view.workloads.iter().find(|other| key(other) == key(workload))
}

fn placement(lines: &mut Vec<String>, app: &str, earlier: Option<&WorkloadView>, workload: &WorkloadView) {
    let shape = |w: &WorkloadView| -> Vec<(u32, Vec<(String, u32)>)> {
        let clusters = |rule: &RuleView| {
            let clusters = rule.clusters.iter();
            clusters.map(|c| (c.name.clone(), c.replicas)).collect()
        };
        w.rules.iter().map(|rule| (rule.total, clusters(rule))).collect()
    };
    if earlier.is_some_and(|earlier| shape(earlier) == shape(workload) && earlier.reasons == workload.reasons)
    {
        return;
    }
    lines.push(format!(
        "{app}: step {} places {} × {} {}",
        workload.step, workload.replicas, workload.kind, workload.name
    ));
    for rule in &workload.rules {
        let mut clusters: Vec<String> = rule
            .clusters
            .iter()
            .map(|c| format!("{} {}", c.name, c.replicas))
            .collect();
        let hidden = clusters.len().saturating_sub(MAX_CLUSTERS);
        clusters.truncate(MAX_CLUSTERS);
        if hidden > 0 {
            clusters.push(format!("… and {hidden} more"));
        }
        lines.push(format!(
            "  {}: {}",
            arithmetic(rule, workload),
            clusters.join(", ")
        ));
    }
    if workload.unplaced > 0 && workload.reasons.is_empty() {
        lines.push(format!("  unplaced: {}", workload.unplaced));
    }
    lines.extend(workload.reasons.iter().map(|reason| format!("  {reason}")));
}

fn progress(lines: &mut Vec<String>, app: &str, earlier: Option<&RuleView>, rule: &RuleView) {
    let is_ready = |cluster: &super::view::ClusterView| {
        cluster.state == State::Ready && cluster.ready >= cluster.replicas
    };
    if rule.clusters.len() > MAX_CLUSTERS {
        let count = |rule: &RuleView| rule.clusters.iter().filter(|c| is_ready(c)).count();
        let (before, now) = (earlier.map_or(0, count), count(rule));
        // In steps of a tenth, so that a large fleet stays readable.
        let tenth = |ready: usize| ready * 10 / rule.clusters.len();
        if tenth(now) != tenth(before) {
            lines.push(format!(
                "{app}: {} {now} of {} clusters ready",
                rule.selector,
                rule.clusters.len()
            ));
        }
        return;
    }
    for (index, cluster) in rule.clusters.iter().enumerate() {
        let earlier = earlier
            .and_then(|rule| rule.clusters.get(index))
            .filter(|e| e.name == cluster.name);
        let news = match cluster.state {
            State::Ready if is_ready(cluster) => {
                earlier.is_none_or(|e| !is_ready(e) || e.replicas != cluster.replicas)
            }
            State::Failed | State::Unreachable => earlier.is_none_or(|e| e.state != cluster.state),
            _ => false,
        };
        if news {
            let word = match cluster.state {
                State::Failed => " FAILED: kubectl -n cluster-{} get bundles".replace("{}", &cluster.name),
                State::Unreachable => " unreachable".to_owned(),
                _ => String::new(),
            };
            lines.push(format!(
                "{app}: {} {}/{} ready{word}",
                cluster.name, cluster.ready, cluster.replicas
            ));
        }
    }
}
