//! Of a division: what found no place, what rules claim of each other, and clusters that get something twice.

use super::{Reasons, listed, replicas, shown, until};
use crate::placement::{
    Request, Workload,
    decide::Placing,
    eligible::RuleClusters,
    fleet::Fleet,
    rule::{Limit, RuleDivision},
    totals::{Total, Totals},
};
use roundhouse_api::placement::Remainder;
use std::{collections::BTreeMap, fmt::Write as _};

/// The code of what a rule could not place.
pub(in crate::placement) fn unplaced_code(division: &RuleDivision, clusters: &RuleClusters) -> &'static str {
    let bound = |limit: Limit| division.rows.iter().any(|row| row.bound == Some(limit));
    match () {
        () if division.rows.is_empty() && clusters.barred.is_empty() => "NoClusterMatches",
        () if division.rows.is_empty() => "NoClusterEligible",
        () if bound(Limit::Capacity) => "AtCapacity",
        () if bound(Limit::Max) => "AtMaximum",
        () if bound(Limit::NoAdditional) => "NoAdditional",
        () => "ZeroWeight",
    }
}

/// What there is to say of a rule's division of one workload.
pub(in crate::placement) fn of_division(
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
        .filter_map(|row| row.bound.map(|limit| (row, limit.as_str())));
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

/// What there is to say of the totals of one workload: of the rules that were divided now, and of the steps that were
/// before.
pub(in crate::placement) fn of_totals(
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
pub(in crate::placement) fn of_both(
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
pub(in crate::placement) fn of_overlap(
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
