//! Clusters, as people read them.

use super::view::ClusterView;
use crate::{
    cli::{age::ago, columns, format::Format},
    words,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::{collections::BTreeMap, fmt::Write as _};

/// Every cluster, in columns or by region.
pub(super) fn list(views: &[ClusterView], format: Format, now: Timestamp) -> String {
    match format {
        _ if views.is_empty() => String::new(),
        Format::Tree => tree(views, now),
        _ => table(views, format == Format::Wide, now),
    }
}

fn table(views: &[ClusterView], wide: bool, now: Timestamp) -> String {
    let mut header = vec![
        "NAME",
        "REGION",
        "ACCEPTED",
        "JOINED",
        "AVAILABLE",
        "TAINTS",
        "CAPACITY",
        "APPS",
        "REPLICAS",
    ];
    if wide {
        header.extend(["VERSION", "AGENT", "LAST SEEN", "AGE", "LABELS"]);
    }
    let row = |view: &ClusterView| {
        let mut row = vec![
            view.name.clone(),
            or_dash(&view.region),
            match (view.deleting, view.waits) {
                (true, _) => "leaving",
                (false, true) => "waits",
                (false, false) => yes(view.accepted),
            }
            .to_owned(),
            state(view.joined.as_ref()),
            since(view.available.as_ref(), now),
            or_dash(&view.taints.iter().map(words::taint).collect::<Vec<_>>().join(",")),
            view.capacity
                .get("replicas")
                .cloned()
                .unwrap_or_else(|| "-".to_owned()),
            words::thousands(u64::try_from(view.load.len()).unwrap_or(u64::MAX)),
            words::thousands(view.replicas()),
        ];
        if wide {
            let labels = view.labels.iter().map(|(key, value)| format!("{key}={value}"));
            row.extend([
                view.kubernetes.clone().unwrap_or_else(|| "-".to_owned()),
                view.agent.clone().unwrap_or_else(|| "-".to_owned()),
                ago(view.last_seen.as_ref().map(|at| at.0), now),
                ago(view.created.as_ref().map(|at| at.0), now),
                or_dash(&labels.collect::<Vec<_>>().join(",")),
            ]);
        }
        row
    };
    let rows: Vec<Vec<String>> = views.iter().map(row).collect();
    columns::draw(&header, &rows, &["CAPACITY", "APPS", "REPLICAS"])
}

fn tree(views: &[ClusterView], now: Timestamp) -> String {
    let mut regions: BTreeMap<&str, Vec<&ClusterView>> = BTreeMap::new();
    for view in views {
        regions.entry(&view.region).or_default().push(view);
    }
    let mut out = String::new();
    for (region, views) in regions {
        let title = if region.is_empty() { "no region" } else { region };
        let replicas: u64 = views.iter().map(|view| view.replicas()).sum();
        let clusters = words::count(
            u64::try_from(views.len()).unwrap_or(u64::MAX),
            "cluster",
            "clusters",
        );
        let replicas = words::count(replicas, "replica", "replicas");
        let _ = writeln!(out, "{}  {clusters}, {replicas}", columns::plain(title));
        for (at, view) in views.iter().enumerate() {
            let fork = if at + 1 == views.len() { "└─" } else { "├─" };
            let mut text = format!(
                "{}  {}",
                view.name,
                words::count(view.replicas(), "replica", "replicas")
            );
            if !view.accepted {
                text.push_str(", not accepted");
            }
            if view.waits {
                text.push_str(", an agent waits to be let in");
            }
            match &view.available {
                Some(available) if available.status == "True" => {}
                Some(available) => {
                    let since = ago(Some(available.last_transition_time.0), now);
                    let _ = write!(text, ", not available for {since}");
                }
                None => text.push_str(", not available"),
            }
            for taint in &view.taints {
                let _ = write!(text, ", {}", words::taint(taint));
            }
            let _ = writeln!(out, "{fork} {}", columns::plain(&text));
        }
    }
    out
}

/// One cluster, with everything.
pub(super) fn detail(view: &ClusterView, now: Timestamp) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("Name:", view.name.clone());
    for (at, (key, value)) in view.labels.iter().enumerate() {
        row(if at == 0 { "Labels:" } else { "" }, format!("{key}={value}"));
    }
    row(
        "Accepted:",
        match (view.deleting, view.waits) {
            (true, _) => "it is being deleted".to_owned(),
            (false, true) => waiting(view),
            (false, false) => yes(view.accepted).to_owned(),
        },
    );
    for (name, condition) in [("Joined:", &view.joined), ("Available:", &view.available)] {
        let text = match condition {
            Some(c) => format!(
                "{} for {}: {}",
                c.status,
                ago(Some(c.last_transition_time.0), now),
                c.message
            ),
            None => "not known yet".to_owned(),
        };
        row(name, text);
    }
    row("Last seen:", ago(view.last_seen.as_ref().map(|at| at.0), now));
    for (at, taint) in view.taints.iter().enumerate() {
        let added = taint.time_added.as_ref();
        let added = added.map_or_else(String::new, |time| format!(" (for {})", ago(Some(time.0), now)));
        row(
            if at == 0 { "Taints:" } else { "" },
            format!("{}{added}", words::taint(taint)),
        );
    }
    if view.taints.is_empty() {
        row("Taints:", "none".to_owned());
    }
    for (name, quantities) in [("Capacity:", &view.capacity), ("Allocatable:", &view.allocatable)] {
        let all = quantities
            .iter()
            .map(|(resource, quantity)| format!("{resource}={quantity}"));
        row(name, or_dash(&all.collect::<Vec<_>>().join(", ")));
    }
    row(
        "Kubernetes:",
        view.kubernetes.clone().unwrap_or_else(|| "-".to_owned()),
    );
    row("Agent:", view.agent.clone().unwrap_or_else(|| "-".to_owned()));
    row("Age:", ago(view.created.as_ref().map(|at| at.0), now));
    let drawn = columns::draw(&["", ""], &rows, &[]);
    let mut out: String = drawn.lines().skip(1).map(|line| format!("{line}\n")).collect();
    if view.load.is_empty() {
        out.push_str("Applications: none\n");
        return out;
    }
    out.push_str("Applications:\n");
    let rows: Vec<Vec<String>> = view
        .load
        .iter()
        .map(|(name, replicas)| vec![name.clone(), words::thousands(*replicas)])
        .collect();
    let drawn = columns::draw(&["APPLICATION", "REPLICAS"], &rows, &["REPLICAS"]);
    out.push_str(&columns::indented(&drawn, "  "));
    out
}

/// `yes; an agent waits with key sha256:…: roundhouse accept east-1`
fn waiting(view: &ClusterView) -> String {
    let key = view.waiting_key.as_ref();
    let key = key.map_or_else(String::new, |key| format!(" with key {key}"));
    let accepted = yes(view.accepted);
    format!("{accepted}; an agent waits{key}: roundhouse accept {}", view.name)
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

fn state(condition: Option<&Condition>) -> String {
    match condition.map(|condition| condition.status.as_str()) {
        Some("True") => "yes".to_owned(),
        Some(_) | None => "no".to_owned(),
    }
}

/// `yes 3m`: a state and for how long.
fn since(condition: Option<&Condition>, now: Timestamp) -> String {
    match condition {
        Some(c) => format!(
            "{} {}",
            state(condition),
            ago(Some(c.last_transition_time.0), now)
        ),
        None => "no".to_owned(),
    }
}
