//! What people read: why something is not as they might expect, and what to do about it. One line each, bounded.

use super::{
    PlacingStep, Request, Workload,
    decide::Placing,
    eligible::{NotChosen, RuleClusters, Selection},
    fleet::Fleet,
    overrides::{Overridden, error_line},
    rule::RuleDivision,
    totals::{Total, Totals},
};
use roundhouse_api::{
    decision::{RuleTotal, Unplaced, WorkloadDecision},
    placement::{Operator, Remainder, Rule, WeightBy},
};
use std::{collections::BTreeMap, fmt::Write as _};

/// Lines per decision; what is above is counted.
const MAX_LINES: usize = 32;
/// Names or values in one line; what is above is counted.
const MAX_ITEMS: usize = 3;
/// Characters of one line.
const MAX_LENGTH: usize = 400;

/// The lines of one decision.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    lines: Vec<String>,
    more: usize,
}

impl Reasons {
    fn push(&mut self, mut line: String) {
        if self.lines.len() >= MAX_LINES {
            self.more += 1;
            return;
        }
        if let Some((end, _)) = line.char_indices().nth(MAX_LENGTH) {
            line.truncate(end);
            line.push('…');
        }
        self.lines.push(line);
    }

    /// A step without rules.
    pub(super) fn no_rules(&mut self, step: &str) {
        self.push(format!("step {step} has no rule: add one under placement"));
    }

    /// The lines, and one that counts those left out.
    pub(super) fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("… and {} more", self.more));
        }
        self.lines
    }
}

/// What there is to say of the clusters of a rule.
pub(super) fn of_clusters(
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
pub(super) fn of_choice(reasons: &mut Reasons, step: &PlacingStep<'_>, selection: &Selection) {
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

/// What is wrong with overrides.
pub(super) fn of_overrides(reasons: &mut Reasons, overridden: &Overridden) {
    for error in &overridden.errors {
        reasons.push(error_line(error));
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

/// The code of what a rule could not place.
pub(super) fn unplaced_code(division: &RuleDivision, clusters: &RuleClusters) -> &'static str {
    let bound = |code: &str| division.rows.iter().any(|row| row.bound == Some(code));
    match () {
        () if division.rows.is_empty() && clusters.barred.is_empty() => "NoClusterMatches",
        () if division.rows.is_empty() => "NoClusterEligible",
        () if bound("Capacity") => "AtCapacity",
        () if bound("Max") => "AtMaximum",
        () if bound("NoAdditional") => "NoAdditional",
        () => "ZeroWeight",
    }
}

/// What there is to say of a rule's division of one workload.
pub(super) fn of_division(
    reasons: &mut Reasons,
    workload: &Workload,
    placing: &Placing<'_>,
    total: &Total,
    division: &RuleDivision,
    fleet: &Fleet<'_>,
) {
    let (name, what) = (&placing.name, shown(workload));
    if division.minimums_shrunk {
        let min = placing
            .rule
            .per_cluster
            .and_then(|bounds| bounds.min)
            .unwrap_or(0);
        reasons.push(format!(
            "rule {name}: {} of {what} are fewer than its minimums ({min} on each of {} clusters): minimums are shrunk; lower perCluster.min or raise replicas",
            total.total,
            division.rows.len(),
        ));
    }
    if division.kept > 0 {
        reasons.push(format!(
            "rule {name} keeps earlier assignments of {what} (rebalance: Never): dividing anew would move {}",
            replicas(division.kept)
        ));
    }
    if division.unplaced == 0 || division.rows.is_empty() && total.total == 0 {
        return;
    }
    let bound = division
        .rows
        .iter()
        .filter_map(|row| row.bound.map(|bound| (row, bound)));
    let list =
        listed(bound.map(|(row, bound)| format!("{}: {bound} {}", fleet.name(row.cluster), row.replicas)));
    if placing.rule.replicas.is_none() {
        reasons.push(format!(
            "rule {name} does not give every cluster all {} replicas of {what} ({list})",
            workload.replicas
        ));
    } else if division.rows.is_empty() {
        reasons.push(format!(
            "{} of {what} cannot be placed: rule {name} has no cluster",
            replicas(division.unplaced)
        ));
    } else {
        reasons.push(format!(
            "{} of {what} cannot be placed: the clusters of rule {name} take no more ({list})",
            replicas(division.unplaced)
        ));
    }
}

/// When what stands is divided anew.
fn until(once: bool) -> &'static str {
    match once {
        true => "a Job is divided once per revision: change the Job to divide it anew",
        false => "all steps are divided anew when the run has succeeded",
    }
}

/// Replicas of a division that stands, on clusters that the rule may no longer use. `once` here and below: it is a Job.
pub(super) fn of_lost(
    reasons: &mut Reasons,
    workload: &WorkloadDecision,
    rule: &str,
    count: u32,
    once: bool,
) {
    let key = &workload.workload;
    reasons.push(format!(
        "{} of {} {}/{} lost the clusters that rule {rule} gave them to, and {}",
        replicas(u64::from(count)),
        key.kind,
        key.namespace,
        key.name,
        until(once)
    ));
}

/// Clusters that a rule without a share did not give a Job in full when it was divided. Returns whether capacity bounded
/// none of them.
pub(super) fn of_kept_full(reasons: &mut Reasons, workload: &WorkloadDecision) -> bool {
    let mut short: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut room = true;
    let rows = workload.clusters.iter().filter(|row| row.duplicate);
    for row in rows.filter(|row| row.replicas < workload.replicas) {
        let bound = row.bound.as_deref().unwrap_or("bounded");
        room &= bound != "Capacity";
        let list = short.entry(&row.rule).or_default();
        list.push(format!("{}: {bound} {}", row.name, row.replicas));
    }
    let key = &workload.workload;
    for (rule, list) in short {
        reasons.push(format!(
            "rule {rule} does not give every cluster all {} replicas of {} {}/{} ({})",
            workload.replicas,
            key.kind,
            key.namespace,
            key.name,
            listed(list.into_iter())
        ));
    }
    room
}

/// What a rule did not get when it was divided.
pub(super) fn of_taken(reasons: &mut Reasons, workload: &WorkloadDecision, rule: &RuleTotal, once: bool) {
    let key = &workload.workload;
    reasons.push(format!(
        "rule {} got {} of its {} replicas of {} {}/{}: the others were taken when it was divided, and {}",
        rule.rule.as_deref().unwrap_or(""),
        rule.total,
        rule.seats,
        key.kind,
        key.namespace,
        key.name,
        until(once)
    ));
}

/// What a rule could not place when it was divided.
pub(super) fn of_kept(reasons: &mut Reasons, workload: &WorkloadDecision, unplaced: &Unplaced, once: bool) {
    let key = &workload.workload;
    reasons.push(format!(
        "{} of {} {}/{} could not be placed when rule {} was divided ({}), and {}",
        replicas(u64::from(unplaced.count)),
        key.kind,
        key.namespace,
        key.name,
        unplaced.rule.as_deref().unwrap_or(""),
        unplaced.reason,
        until(once)
    ));
}

/// What there is to say of the totals of one workload: of the rules that were divided now, and of the steps that were
/// before.
pub(super) fn of_totals(
    reasons: &mut Reasons,
    workload: &Workload,
    rules: &[(&Placing<'_>, &Total)],
    totals: &Totals,
    fixed: &[&str],
    mode: Remainder,
) {
    let what = shown(workload);
    let shrunk = || rules.iter().filter(|(_, total)| total.total < total.seats);
    let list = listed(
        shrunk().map(|(rule, total)| format!("rule {} gets {} of {}", rule.name, total.total, total.seats)),
    );
    let before = || {
        format!(
            "{} {} divided before the placement changed and {} {} of the {} replicas of {what}",
            listed(fixed.iter().map(|step| format!("step {step}"))),
            if fixed.len() == 1 { "was" } else { "were" },
            if fixed.len() == 1 { "holds" } else { "hold" },
            totals.held,
            workload.replicas
        )
    };
    let until = until(workload.once);
    if !list.is_empty() && !totals.overcommitted {
        reasons.push(format!("{}: {list}; {until}", before()));
    }
    if !list.is_empty() && totals.overcommitted {
        reasons.push(format!(
            "Overcommitted: the rules claim more than the {} replicas of {what}: {list}; lower counts or percentages",
            workload.replicas
        ));
    }
    let off = rules.iter().filter_map(|(rule, total)| {
        let quota = total.quota.filter(|quota| quota.is_missed_by(total.seats))?;
        Some(format!(
            "rule {} gets {} where {quota} is its exact share",
            rule.name, total.seats
        ))
    });
    let off: Vec<String> = off.collect();
    if !off.is_empty() {
        reasons.push(format!(
            "{} of {what}: rounding all shares together, so that one replica more never takes one from a rule",
            listed(off.into_iter())
        ));
    }
    // What steps that are divided already leave of what they would get now, nobody else claims.
    let short = totals.due.saturating_sub(u64::from(totals.held));
    let short = u32::try_from(short)
        .unwrap_or(u32::MAX)
        .min(totals.remainder.total);
    if short > 0 {
        reasons.push(format!(
            "{} of {what} {} not placed: {}, where its rules would give {} now; {until}",
            replicas(u64::from(short)),
            if short == 1 { "is" } else { "are" },
            before(),
            totals.due,
        ));
    }
    let unclaimed = totals.remainder.total - short;
    if unclaimed == 0 {
        return;
    }
    let (whole, tenths) = (totals.percent / 1000, totals.percent % 1000);
    let mut sum = whole.to_string();
    if tenths > 0 {
        let _ = write!(sum, ".{}", format!("{tenths:03}").trim_end_matches('0'));
    }
    let advice = match mode {
        Remainder::Hold if totals.percent > 0 => format!(
            "percentages sum to {sum}%; remainder: Hold); set remainder: Spread in every placing step, or raise a percentage"
        ),
        _ => "no rule has a percentage above 0%); add a rule with a percentage".to_owned(),
    };
    reasons.push(format!(
        "{} of {} replicas of {what} {} not placed: no rule claims {} ({advice}",
        unclaimed,
        workload.replicas,
        if unclaimed == 1 { "is" } else { "are" },
        if unclaimed == 1 { "it" } else { "them" },
    ));
}

/// Clusters that get a share of a workload and its full count too.
pub(super) fn of_both(
    reasons: &mut Reasons,
    workload: &Workload,
    both: &[(usize, u32, u32)],
    fleet: &Fleet<'_>,
) {
    if both.is_empty() {
        return;
    }
    let list = listed(
        both.iter()
            .map(|(cluster, divided, full)| format!("{}: {divided} and {full}", fleet.name(*cluster))),
    );
    reasons.push(format!(
        "{} {} replicas of {} both from a rule with a share and from one without: the larger count runs, they are not added up ({list}); let the rules select different clusters",
        both.len(),
        if both.len() == 1 { "cluster gets" } else { "clusters get" },
        shown(workload),
    ));
}

/// Clusters that an earlier step of the workflow gives replicas of the same workload: the later count replaces the
/// earlier one, so they are not added up. `earlier` is cluster -> (step, replicas) and is brought up to date.
pub(super) fn of_overlap(
    reasons: &mut Reasons,
    workload: &Workload,
    placing: &Placing<'_>,
    division: &RuleDivision,
    earlier: &mut BTreeMap<usize, (usize, u32)>,
    request: &Request<'_>,
    fleet: &Fleet<'_>,
) {
    let mut both = Vec::new();
    for row in division.rows.iter().filter(|row| row.replicas > 0) {
        let entry = earlier.entry(row.cluster).or_insert((placing.step, 0));
        if entry.0 < placing.step {
            let step = request.steps.get(entry.0).map_or("", |step| step.name);
            both.push(format!(
                "{}: {} from step {step}",
                fleet.name(row.cluster),
                entry.1
            ));
            *entry = (placing.step, 0);
        }
        entry.1 = entry.1.saturating_add(row.replicas);
    }
    if !both.is_empty() {
        reasons.push(format!(
            "rule {} places {} on clusters of an earlier step, whose count it replaces ({}); let the steps select different clusters",
            placing.name,
            shown(workload),
            listed(both.into_iter())
        ));
    }
}

fn shown(workload: &Workload) -> String {
    let key = &workload.key;
    format!("{} {}/{}", key.kind, key.namespace, key.name)
}

fn replicas(count: u64) -> String {
    match count {
        1 => "1 replica".to_owned(),
        _ => format!("{count} replicas"),
    }
}

/// The first few, and how many more.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items = items;
    let mut text = items.by_ref().take(MAX_ITEMS).collect::<Vec<_>>().join(", ");
    let more = items.count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
