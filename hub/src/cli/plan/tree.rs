//! A plan as a tree: steps, rules, clusters, each with what becomes of its bundle.

use super::{Drawn, screen::Screen, steps::condition, table};
use crate::{
    plan::{
        Action, ApplicationPlan,
        rows::{Row, rows},
    },
    words::{count, more, thousands},
};
use roundhouse_api::application::{StepKind, ValidStep};
use std::{collections::BTreeMap, fmt::Write as _};

/// Clusters of a rule that are drawn at most, those that change first.
const MAX_CLUSTERS: usize = 12;

/// A line and what hangs from it.
struct Node {
    text: String,
    below: Vec<Node>,
}

impl Node {
    fn leaf(text: impl Into<String>) -> Node {
        Node {
            text: text.into(),
            below: Vec::new(),
        }
    }
}

/// Draws it.
pub(super) fn draw(drawn: &Drawn, screen: &Screen) -> String {
    let mut out = String::new();
    for plan in &drawn.applications {
        let _ = writeln!(out, "{}", table::header(plan, drawn, screen));
        hang(&mut out, "", &steps(plan, screen));
        table::later(&mut out, plan, drawn, screen);
        out.push('\n');
    }
    let _ = writeln!(out, "{}", table::summary(drawn));
    out
}

fn hang(out: &mut String, indent: &str, nodes: &[Node]) {
    for (index, node) in nodes.iter().enumerate() {
        let last = index + 1 == nodes.len();
        let (branch, below) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let _ = writeln!(out, "{indent}{branch}{}", node.text);
        hang(out, &format!("{indent}{below}"), &node.below);
    }
}

fn steps(plan: &ApplicationPlan, screen: &Screen) -> Vec<Node> {
    let rows = rows(plan);
    let actions = actions(plan);
    let step = |step: &ValidStep| match super::steps::words(step) {
        Some(words) => Node {
            text: format!("step {}: {words}{}", step.name, condition(step)),
            below: super::steps::object(plan, &step.name, screen)
                .into_iter()
                .map(Node::leaf)
                .collect(),
        },
        None => Node {
            text: format!("step {}{}", step.name, condition(step)),
            below: workloads(rows.iter().filter(|row| row.step == step.name), &actions, screen),
        },
    };
    let with_inner = |outer: &ValidStep| {
        let mut node = step(outer);
        if let StepKind::Group(group) = &outer.kind {
            node.below = group.steps.iter().map(step).collect();
        }
        node
    };
    let mut nodes: Vec<Node> = plan.valid.steps.iter().map(with_inner).collect();
    let losing = &plan.risk.losing;
    if !losing.is_empty() {
        let clusters = losing.iter().take(screen.at_most(MAX_CLUSTERS)).map(|cluster| {
            let text = format!("{} {cluster}", Action::Destroy.sign());
            Node::leaf(screen.of_action(Action::Destroy, &text))
        });
        let mut below: Vec<Node> = clusters.collect();
        if losing.len() > below.len() {
            below.push(Node::leaf(format!(
                "{} (-o wide)",
                more(losing.len() - below.len())
            )));
        }
        if let Some(held) = &plan.held {
            below.push(Node::leaf(format!("held: {held}")));
        }
        nodes.push(Node {
            text: "clusters that lose it".to_owned(),
            below,
        });
    }
    nodes.extend(table::ended(plan).map(|held| Node::leaf(format!("held: {held}"))));
    nodes.extend(
        plan.refused
            .iter()
            .map(|stop| Node::leaf(format!("stopped: {}: {}", stop.of, stop.why))),
    );
    nodes
}

/// What becomes of the Bundles of each cluster: of several parts, the most.
fn actions(plan: &ApplicationPlan) -> BTreeMap<&str, Action> {
    let mut actions: BTreeMap<&str, Action> = BTreeMap::new();
    for bundle in &plan.bundles {
        let action = actions.entry(&bundle.cluster).or_insert(bundle.action);
        if *action != bundle.action {
            *action = Action::Change;
        }
    }
    actions
}

fn workloads<'r>(
    rows: impl Iterator<Item = &'r Row>,
    actions: &BTreeMap<&str, Action>,
    screen: &Screen,
) -> Vec<Node> {
    let mut nodes: Vec<(&Row, Node)> = Vec::new();
    for row in rows.filter(|row| row.rule.is_some() || row.new > 0) {
        let known = nodes
            .last_mut()
            .filter(|(first, _)| first.workload == row.workload);
        let node = rule(row, actions, screen);
        match known {
            Some((_, workload)) => workload.below.push(node),
            None => {
                let workload = &row.workload;
                let replicas = thousands(row.replicas);
                let text = format!(
                    "{replicas} × {} {}/{}",
                    workload.kind, workload.namespace, workload.name
                );
                let below = vec![node];
                nodes.push((row, Node { text, below }));
            }
        }
    }
    nodes.into_iter().map(|(_, node)| node).collect()
}

fn rule(row: &Row, actions: &BTreeMap<&str, Action>, screen: &Screen) -> Node {
    let Some(name) = &row.rule else {
        return Node::leaf(format!("{} not placed: no rule claims them", thousands(row.new)));
    };
    let share = match row.share.as_str() {
        "each" => format!("each {}", thousands(row.replicas)),
        share => format!("{share} = {}", thousands(row.new)),
    };
    let mut clusters: Vec<_> = row.clusters.iter().collect();
    let action_of = |name: &str| actions.get(name).copied().unwrap_or(Action::Keep);
    // Stable: by name among those that change, and among those that stay.
    clusters.sort_by_key(|cluster| action_of(&cluster.name) == Action::Keep);
    let shown = screen.at_most(MAX_CLUSTERS);
    let mut below: Vec<Node> = clusters
        .iter()
        .take(shown)
        .map(|cluster| {
            let action = action_of(&cluster.name);
            let mut text = format!(
                "{} {}  {}",
                action.sign(),
                cluster.name,
                thousands(cluster.replicas)
            );
            if let Some(previous) = cluster.previous.filter(|previous| *previous != cluster.replicas) {
                let _ = write!(text, " (was {})", thousands(previous));
            }
            Node::leaf(screen.of_action(action, text.trim_start()))
        })
        .collect();
    if clusters.len() > shown {
        let rest = clusters.iter().skip(shown);
        let replicas: u64 = rest.map(|cluster| u64::from(cluster.replicas)).sum();
        let text = format!(
            "{} with {} (-o wide)",
            more(clusters.len() - shown),
            count(replicas, "replica", "replicas")
        );
        below.push(Node::leaf(text));
    }
    below.extend(row.unplaced.iter().map(|unplaced| {
        Node::leaf(format!(
            "{} not placed: {}",
            thousands(unplaced.count),
            unplaced.reason
        ))
    }));
    let selector = if row.selector.is_empty() {
        String::new()
    } else {
        format!("  {}", row.selector)
    };
    Node {
        text: format!("{name}{selector}  {share}"),
        below,
    }
}
