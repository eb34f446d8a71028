//! Of the clusters: what a rule finds and may not use, weights that cannot be read, and what `maxClusters` and `spread` chose.

use super::{MAX_ITEMS, Reasons, listed};
use crate::placement::{
    PlacingStep,
    decide::Placing,
    eligible::{NotChosen, RuleClusters, Selection},
    fleet::Fleet,
};
use roundhouse_api::placement::{Operator, Rule, WeightBy};
use std::fmt::Write as _;

/// What there is to say of the clusters of a rule.
pub(in crate::placement) fn of_clusters(
    reasons: &mut Reasons,
    placing: &Placing<'_>,
    clusters: &RuleClusters,
    fleet: &Fleet<'_>,
) {
    let (name, rule) = (&placing.name, placing.rule);
    let unknown: Vec<&String> = rule
        .clusters
        .iter()
        .flatten()
        .filter(|name| fleet.find(name).is_none())
        .collect();
    if !unknown.is_empty() {
        let list = listed(unknown.iter().map(ToString::to_string));
        reasons.push(format!(
            "rule {name} names clusters that are not in the fleet: {list}"
        ));
    }
    if clusters.clusters.is_empty() {
        if clusters.barred.is_empty() {
            reasons.push(format!(
                "rule {name} matches no cluster ({}); label a cluster or change the rule",
                sought(rule, fleet)
            ));
        } else {
            let list = listed(
                clusters
                    .barred
                    .iter()
                    .map(|(reason, count)| format!("{count} {}", barred(*reason))),
            );
            reasons.push(format!(
                "rule {name} matches clusters but may use none of them: {list}"
            ));
        }
    }
    of_weights(reasons, (name, rule), clusters, fleet);
    let idle: Vec<&String> = rule
        .weights
        .keys()
        .filter(|name| match fleet.find(name) {
            Some(cluster) => !matches(fleet, rule, cluster),
            None => true,
        })
        .collect();
    if !idle.is_empty() {
        let list = listed(idle.iter().map(ToString::to_string));
        reasons.push(format!(
            "rule {name} has weights for clusters that it does not match: {list}"
        ));
    }
}

/// Clusters whose weight cannot be read.
fn of_weights(
    reasons: &mut Reasons,
    (name, rule): (&str, &Rule),
    clusters: &RuleClusters,
    fleet: &Fleet<'_>,
) {
    if clusters.unread.is_empty() {
        return;
    }
    let (by, absent, advice) = match &rule.weight_by {
        Some(by @ WeightBy::Label(_)) => (by, "absent", "label them with an integer from 0 to 2147483647"),
        Some(by @ WeightBy::Allocatable(_)) => (by, "not reported", "wait for their agents, or use weights"),
        None => return,
    };
    let list = listed(clusters.unread.iter().map(|(cluster, text)| match text {
        Some(text) => format!("{} ({text:?})", fleet.name(*cluster)),
        None => format!("{} ({absent})", fleet.name(*cluster)),
    }));
    reasons.push(format!(
        "rule {name} weighs by {by}, which cannot be read of {list}: their weight is 0; {advice}"
    ));
}

/// What there is to say of what `maxClusters` and `spread` chose.
pub(in crate::placement) fn of_choice(reasons: &mut Reasons, step: &PlacingStep<'_>, selection: &Selection) {
    let (Some(spread), Some(choice)) = (&step.spec.spread, &selection.choice) else {
        return;
    };
    let key = &spread.topology_key;
    let counts = || {
        let mut counts: Vec<(&String, &(u32, u32))> = choice.groups.iter().collect();
        // Those that bind first: the fewest chosen, and no more to choose from.
        counts.sort_by_key(|(value, (chosen, all))| (*chosen, all > chosen, (*value).clone()));
        listed(
            counts
                .into_iter()
                .map(|(value, (chosen, all))| format!("{key}={value} {chosen} of {all}")),
        )
    };
    let limit = step.spec.max_clusters.unwrap_or(0);
    if choice.skew() > spread.max_skew {
        reasons.push(format!(
            "spread: the skew over {key} is {}, above maxSkew {} ({}); label clusters, or raise maxSkew",
            choice.skew(),
            spread.max_skew,
            counts()
        ));
    } else if !choice.skewed.is_empty() && choice.beyond_limit.is_empty() {
        let chosen: u32 = choice.groups.values().map(|(chosen, _)| *chosen).sum();
        if chosen < limit {
            reasons.push(format!(
                "spread: {chosen} clusters are chosen where maxClusters is {limit}: one more would exceed maxSkew {} over {key} ({}); label clusters, raise maxSkew, or use ScheduleAnyway",
                spread.max_skew,
                counts()
            ));
        }
    }
    if !choice.unlabelled.is_empty() {
        reasons.push(format!(
            "spread: {}, or use ScheduleAnyway",
            match choice.unlabelled.len() {
                1 => format!("1 cluster has no label {key} and is not chosen; label it"),
                count => format!("{count} clusters have no label {key} and are not chosen; label them"),
            }
        ));
    }
}

fn matches(fleet: &Fleet<'_>, rule: &Rule, cluster: usize) -> bool {
    fleet.clusters.get(cluster).is_some_and(|facts| {
        let named = rule
            .clusters
            .as_ref()
            .is_none_or(|names| names.contains(&facts.name));
        named
            && rule
                .cluster_selector
                .as_ref()
                .is_none_or(|s| s.matches(&facts.labels))
    })
}

/// What a rule looks for, and what there is instead.
fn sought(rule: &Rule, fleet: &Fleet<'_>) -> String {
    if fleet.len() == 0 {
        return "the fleet has no cluster".to_owned();
    }
    let mut text = String::new();
    if let Some(names) = &rule.clusters {
        let _ = write!(text, "clusters {}", listed(names.iter().cloned()));
    }
    let Some(selector) = &rule.cluster_selector else {
        return text;
    };
    let mut parts: Vec<String> = Vec::new();
    let mut keys: Vec<&str> = Vec::new();
    for (key, value) in &selector.match_labels {
        parts.push(format!("{key}={value}"));
        keys.push(key);
    }
    for requirement in &selector.match_expressions {
        let key = requirement.key.as_str();
        parts.push(match &requirement.operator {
            Operator::In(values) => format!("{key} in [{}]", listed(values.iter().cloned())),
            Operator::NotIn(values) => format!("{key} not in [{}]", listed(values.iter().cloned())),
            Operator::Exists => format!("{key} is there"),
            Operator::DoesNotExist => format!("{key} is absent"),
        });
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if !text.is_empty() {
        text.push_str(", ");
    }
    let _ = write!(text, "selector {}", parts.join(","));
    for key in keys.iter().take(MAX_ITEMS) {
        let values = fleet.index.values(key);
        let mut values: Vec<(&str, usize)> =
            values.map(|(value, clusters)| (value, clusters.len())).collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let list = match values.is_empty() {
            true => format!("no cluster has the label {key}"),
            false => listed(
                values
                    .iter()
                    .map(|(value, count)| format!("{} {key}={value}", have(*count))),
            ),
        };
        let _ = write!(text, "; {list}");
    }
    text
}

fn have(count: usize) -> String {
    match count {
        1 => "1 cluster has".to_owned(),
        _ => format!("{count} clusters have"),
    }
}

/// A reason with what to do about it.
fn barred(reason: NotChosen) -> &'static str {
    match reason {
        NotChosen::NotMatched => "NotMatched",
        NotChosen::NotAccepted => "NotAccepted (accept them)",
        NotChosen::NotJoined => "NotJoined (start their agents)",
        NotChosen::Tainted => "Tainted (tolerate or remove the taint)",
        NotChosen::Unreachable => "Unreachable (wait for their agents)",
        NotChosen::MaxClusters => "MaxClusters (raise maxClusters)",
        NotChosen::Skewed => "Skewed (raise spread.maxSkew)",
        NotChosen::NoTopologyLabel => "NoTopologyLabel (label them for spread)",
    }
}
