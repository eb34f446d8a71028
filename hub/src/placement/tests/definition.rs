//! Placement by definition: scans, and seats handed out one at a time. Slow, and written without the fast path.

use super::fixture::Case;
use crate::placement::{ClusterFacts, webster::Party};
use roundhouse_api::{
    decision::FrozenWeights,
    placement::{
        PlacementSpec, Rebalance, Remainder, ReplicaShare, Rule, Taint, TaintEffect, WeightBy,
        WhenUnsatisfiable,
    },
};
use std::collections::BTreeMap;

/// Seats by definition, and how many no party takes: one at a time to the largest weight / (2·seats + 1) among those
/// below their maximum, from the minimums; equal ones to who held the seat, then who held more, then who has fewer,
/// then the smaller hash, then the earlier party.
pub(super) fn seat_by_seat(total: u32, parties: &[Party]) -> (Vec<u32>, u32) {
    let low = |p: &Party| if p.min < p.max { p.min } else { p.max };
    let mut weights: Vec<u64> = parties.iter().map(|p| p.weight).collect();
    let mut tops: Vec<u32> = parties.iter().map(|p| p.max).collect();
    let mut seats: Vec<u32> = parties.iter().map(low).collect();
    if seats.iter().map(|s| u64::from(*s)).sum::<u64>() > u64::from(total) {
        // The minimums themselves are divided.
        weights = parties.iter().map(|p| u64::from(p.min)).collect();
        tops = seats.clone();
        seats = vec![0; parties.len()];
    }
    let mut left = total - seats.iter().sum::<u32>();
    while left > 0 {
        let mut best: Option<usize> = None;
        for i in 0..parties.len() {
            if weights[i] == 0 || seats[i] >= tops[i] {
                continue;
            }
            let better = best.is_none_or(|b| {
                let (mine, theirs) = (
                    u128::from(weights[i]) * (2 * u128::from(seats[b]) + 1),
                    u128::from(weights[b]) * (2 * u128::from(seats[i]) + 1),
                );
                if mine != theirs {
                    return mine > theirs;
                }
                let holds = |j: usize| seats[j] < parties[j].previous;
                if holds(i) != holds(b) {
                    return holds(i);
                }
                if parties[i].previous != parties[b].previous {
                    return parties[i].previous > parties[b].previous;
                }
                if seats[i] != seats[b] {
                    return seats[i] < seats[b];
                }
                parties[i].hash < parties[b].hash
            });
            if better {
                best = Some(i);
            }
        }
        let Some(best) = best else { break };
        seats[best] += 1;
        left -= 1;
    }
    (seats, left)
}

/// (step, workload, rule, cluster) -> replicas.
pub(super) type Placed = BTreeMap<(usize, usize, usize, String), u32>;
/// (workload, step and rule, or none for the remainder) -> replicas without a place.
pub(super) type Left = BTreeMap<(usize, Option<(usize, usize)>), u32>;

struct Facts<'a> {
    case: &'a Case,
    /// (step, rule) -> clusters, sorted by name.
    clusters: BTreeMap<(usize, usize), Vec<&'a ClusterFacts>>,
}

/// A whole request by definition.
pub(super) fn by_definition(case: &Case, hash: impl Fn(&str) -> u64) -> (Placed, Left) {
    let mut facts = Facts {
        case,
        clusters: BTreeMap::new(),
    };
    for (step, index, spec, rule) in rules(case) {
        let mut chosen: Vec<&ClusterFacts> = case
            .clusters
            .iter()
            .filter(|c| usable(case, step, spec, rule, c))
            .collect();
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(among) = chosen_names(case, step, spec, &hash) {
            chosen.retain(|cluster| among.contains(&cluster.name));
        }
        facts.clusters.insert((step, index), chosen);
    }
    let (mut placed, mut left) = (Placed::new(), Left::new());
    for workload in 0..case.workloads.len() {
        let (totals, unclaimed) = rule_totals(case, workload, &hash);
        if unclaimed > 0 {
            left.insert((workload, None), unclaimed);
        }
        let mut kept_elsewhere: BTreeMap<&str, u32> = BTreeMap::new();
        for cluster in &case.clusters {
            kept_elsewhere.insert(&cluster.name, orphaned(&facts, workload, &cluster.name));
        }
        for (step, index, spec, rule) in rules(case) {
            let n = case.workloads[workload].replicas;
            let total = totals.get(&(step, index)).copied().unwrap_or(n);
            let clusters = &facts.clusters[&(step, index)];
            let name = rule.name_or_index(index);
            let mut parties = Vec::new();
            for cluster in clusters {
                let before = held(case, step, workload, &name, &cluster.name).unwrap_or(0);
                let bounds = rule.per_cluster.unwrap_or_default();
                let mut max =
                    bounds
                        .max
                        .unwrap_or(u32::MAX)
                        .min(room(case, &placed, cluster, (step, workload), rule));
                if !cluster.reachable || strongest(case, spec, cluster).is_some() {
                    max = max.min(before + kept_elsewhere[cluster.name.as_str()]);
                }
                parties.push(Party {
                    weight: weight(case, step, index, rule, cluster),
                    min: bounds.min.unwrap_or(0),
                    max,
                    previous: before,
                    hash: hash(&cluster.name),
                });
            }
            let counts = match rule.replicas {
                None => parties.iter().map(|p| p.max.min(n)).collect(),
                Some(_) => {
                    if spec.rebalance == Rebalance::Never {
                        hold_to_previous(total, &mut parties);
                    }
                    let (seats, rest) = seat_by_seat(total, &parties);
                    if rest > 0 {
                        left.insert((workload, Some((step, index))), rest);
                    }
                    seats
                }
            };
            for (cluster, count) in clusters.iter().zip(counts) {
                kept_elsewhere.insert(&cluster.name, 0);
                placed.insert((step, workload, index, cluster.name.clone()), count);
            }
        }
    }
    (placed, left)
}

/// What a cluster can still hold of a rule. Of one step and workload it runs what is divided or the full count,
/// whichever is more, so that to either the other takes no room; of one workload it runs what the last step gave that gave
/// any, so that what other workloads run is told for each step that a run comes to.
fn room(case: &Case, placed: &Placed, cluster: &ClusterFacts, at: (usize, usize), rule: &Rule) -> u32 {
    let Some(capacity) = cluster.capacity else {
        return u32::MAX;
    };
    let mut runs: BTreeMap<(usize, usize), (u32, u32)> = BTreeMap::new();
    for ((step, workload, index, _), count) in placed.iter().filter(|((.., name), _)| *name == cluster.name) {
        let (divided, full) = runs.entry((*step, *workload)).or_default();
        match case.steps[*step].1.placement[*index].replicas {
            Some(_) => *divided += count,
            None => *full = *count.max(full),
        }
    }
    let (divided, _) = runs.get(&at).copied().unwrap_or_default();
    let run_by = |workload: usize, step: usize| -> u32 {
        let given = (0..=step)
            .rev()
            .filter_map(|earlier| runs.get(&(earlier, workload)));
        let mut given = given.map(|(divided, full)| *divided.max(full));
        given.find(|count| *count > 0).unwrap_or(0)
    };
    let (step, workload) = at;
    let others = |step: usize| -> u32 {
        let others = (0..case.workloads.len()).filter(|other| *other != workload);
        others.map(|other| run_by(other, step)).sum()
    };
    let most = (step..case.steps.len()).map(others).max().unwrap_or(0);
    let own = if rule.replicas.is_some() { divided } else { 0 };
    capacity - most - own
}

fn rules(case: &Case) -> impl Iterator<Item = (usize, usize, &PlacementSpec, &Rule)> {
    let steps = case.steps.iter().enumerate();
    steps.flat_map(|(step, (_, spec))| {
        spec.placement
            .iter()
            .enumerate()
            .map(move |(i, r)| (step, i, spec, r))
    })
}

/// A cluster's weight in a rule; of allocatable processors in thousandths, with what was frozen before.
fn weight(case: &Case, step: usize, index: usize, rule: &Rule, cluster: &ClusterFacts) -> u64 {
    match &rule.weight_by {
        None => u64::from(rule.weights.get(&cluster.name).copied().unwrap_or(1)),
        Some(WeightBy::Label(key)) => match cluster.labels.get(key).map(|text| text.parse::<u64>()) {
            Some(Ok(weight)) => weight,
            _ => 0,
        },
        Some(WeightBy::Allocatable(resource)) => {
            let reads = |c: &ClusterFacts| -> Option<u64> {
                let text = c.allocatable.get(resource)?;
                match text.strip_suffix('m') {
                    Some(milli) => milli.parse().ok(),
                    None => text.parse::<u64>().ok().map(|whole| whole * 1000),
                }
            };
            let (name, spec) = &case.steps[step];
            let frozen = case
                .previous
                .frozen
                .get(&(name.clone(), rule.name_or_index(index)));
            let same = |f: &&FrozenWeights| {
                f.allocatable == *resource
                    && f.placement == roundhouse_api::hash::of_value(&serde_json::to_value(spec).unwrap())
            };
            let held = |c: &ClusterFacts| frozen.filter(same).and_then(|f| f.weights.get(&c.name)).copied();
            let moved =
                case.clusters
                    .iter()
                    .filter(|c| selects(rule, c))
                    .any(|c| match (held(c), reads(c)) {
                        (Some(held), Some(now)) => now * 100 > held * 120 || now * 100 < held * 80,
                        _ => false,
                    });
            match (held(cluster), reads(cluster)) {
                (Some(held), Some(_)) if !moved => held,
                (_, Some(now)) => now,
                (Some(held), None) => held,
                (None, None) => 0,
            }
        }
    }
}

/// What `maxClusters` and `spread` choose, one cluster at a time.
fn chosen_names(
    case: &Case,
    step: usize,
    spec: &PlacementSpec,
    hash: &impl Fn(&str) -> u64,
) -> Option<Vec<String>> {
    let limit = spec.max_clusters? as usize;
    let name = &case.steps[step].0;
    let (history, enrolled) = (case.previous.assigned(), case.previous.enrolled());
    let noted = case.previous.noted();
    let before = |c: &ClusterFacts| -> Option<u64> {
        let of_step = history.iter().filter(|((s, ..), _)| s == name);
        let counts: Vec<u64> = of_step
            .filter_map(|(_, counts)| counts.get(&c.name))
            .map(|n| u64::from(*n))
            .collect();
        let own = [&enrolled, &noted].map(|of| of.get(name));
        let member = own.into_iter().flatten().any(|names| names.contains(&c.name));
        (member || !counts.is_empty()).then(|| counts.iter().sum())
    };
    let kept = |c: &ClusterFacts| spec.rebalance == Rebalance::Never && before(c).is_some();
    let largest = |c: &ClusterFacts| {
        let rules = spec
            .placement
            .iter()
            .enumerate()
            .filter(|(_, rule)| selects(rule, c));
        rules
            .map(|(index, rule)| weight(case, step, index, rule, c))
            .max()
            .unwrap_or(0)
    };
    let mut candidates: Vec<&ClusterFacts> = case
        .clusters
        .iter()
        .filter(|c| {
            spec.placement
                .iter()
                .any(|rule| usable(case, step, spec, rule, c))
        })
        .collect();
    candidates.sort_by(|a, b| {
        kept(b)
            .cmp(&kept(a))
            .then(largest(b).cmp(&largest(a)))
            .then(before(b).cmp(&before(a)))
            .then(hash(&a.name).cmp(&hash(&b.name)))
    });
    let Some(spread) = &spec.spread else {
        return Some(candidates.iter().take(limit).map(|c| c.name.clone()).collect());
    };
    let value = |c: &ClusterFacts| c.labels.get(&spread.topology_key).cloned();
    let mut values: Vec<String> = spread_clusters(case, step).filter_map(value).collect();
    values.sort();
    values.dedup();
    let mut chosen: Vec<&ClusterFacts> = candidates
        .iter()
        .copied()
        .filter(|c| kept(c))
        .take(limit)
        .collect();
    while chosen.len() < limit {
        let count = |wanted: &String| {
            chosen
                .iter()
                .filter(|c| value(c).as_ref() == Some(wanted))
                .count()
        };
        let fewest = values.iter().map(&count).min().unwrap_or(0);
        let open = || {
            candidates
                .iter()
                .filter(|c| !chosen.iter().any(|other| other.name == c.name))
        };
        let within =
            |c: &&&ClusterFacts| value(c).is_some_and(|v| count(&v) < fewest + spread.max_skew as usize);
        let anyway = || {
            let open = open().filter(|c| value(c).is_some());
            let least = open.clone().filter_map(|c| value(c)).map(|v| count(&v)).min()?;
            open.clone()
                .find(|c| value(c).is_some_and(|v| count(&v) == least))
        };
        let next = open().find(within).or_else(|| match spread.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => None,
            WhenUnsatisfiable::ScheduleAnyway => anyway().or_else(|| open().next()),
        });
        let Some(next) = next else { break };
        chosen.push(next);
    }
    Some(chosen.iter().map(|c| c.name.clone()).collect())
}

/// Whether some toleration matches and none that matches has run out.
fn is_tolerated(case: &Case, spec: &PlacementSpec, taint: &Taint) -> bool {
    let matching: Vec<_> = spec.tolerations.iter().filter(|t| t.tolerates(taint)).collect();
    let lasts = |seconds: i64| match &taint.time_added {
        _ if seconds <= 0 => false,
        None => true,
        Some(added) => case.now.as_second() < added.0.as_second() + seconds,
    };
    let seconds = matching.iter().filter_map(|t| t.toleration_seconds);
    let mut seconds = seconds;
    let in_time = seconds.all(lasts);
    !matching.is_empty() && (taint.effect == TaintEffect::NoSchedule || in_time)
}

fn strongest(case: &Case, spec: &PlacementSpec, cluster: &ClusterFacts) -> Option<TaintEffect> {
    let mut effects: Vec<TaintEffect> = Vec::new();
    for taint in &cluster.taints {
        // That a cluster is unreachable says all of it: it keeps what it has and gets nothing more.
        let is_contact = taint.key == "roundhouse.dev/unreachable" && taint.effect == TaintEffect::NoSchedule;
        if !cluster.reachable && is_contact {
            continue;
        }
        if !is_tolerated(case, spec, taint) {
            effects.push(taint.effect);
        }
    }
    effects.sort();
    effects.pop()
}

fn selects(rule: &Rule, cluster: &ClusterFacts) -> bool {
    rule.cluster_selector
        .as_ref()
        .is_none_or(|s| s.matches(&cluster.labels))
        && rule
            .clusters
            .as_ref()
            .is_none_or(|names| names.contains(&cluster.name))
}

/// The clusters whose labels are the values of a spread: all that a rule selects, cordoned and unreachable ones too,
/// since neither moves what others have. One that replicas are taken from counts no more.
pub(super) fn spread_clusters(case: &Case, step: usize) -> impl Iterator<Item = &ClusterFacts> {
    let spec = &case.steps[step].1;
    let selected = move |cluster: &&ClusterFacts| spec.placement.iter().any(|rule| selects(rule, cluster));
    let there = move |cluster: &&ClusterFacts| {
        cluster.accepted && cluster.joined && strongest(case, spec, cluster) != Some(TaintEffect::NoExecute)
    };
    case.clusters.iter().filter(selected).filter(there)
}

fn usable(case: &Case, step: usize, spec: &PlacementSpec, rule: &Rule, cluster: &ClusterFacts) -> bool {
    // What another step gave counts only if that step is gone or no longer matches the cluster.
    let counts = |holder: &String| {
        let mut rules = rules(case);
        *holder == case.steps[step].0
            || !rules.any(|(other, _, _, rule)| case.steps[other].0 == *holder && selects(rule, cluster))
    };
    let (history, enrolled) = (case.previous.assigned(), case.previous.enrolled());
    let noted = case.previous.noted();
    let noted = noted.get(&case.steps[step].0);
    let mut held = history.iter().filter(|((holder, ..), _)| counts(holder));
    let mut members = enrolled.iter().filter(|(holder, _)| counts(holder));
    // A place among `maxClusters` is something to hold too: who has it has a row, if only of 0, or is noted.
    let mut own = history
        .iter()
        .filter(|((holder, ..), _)| *holder == case.steps[step].0);
    let holds = held.any(|(_, counts)| counts.get(&cluster.name).is_some_and(|count| *count > 0))
        || members.any(|(_, names)| names.contains(&cluster.name))
        || spec.max_clusters.is_some()
            && (own.any(|(_, counts)| counts.contains_key(&cluster.name))
                || noted.is_some_and(|names| names.contains(&cluster.name)));
    let effect = strongest(case, spec, cluster);
    let open = cluster.reachable && effect.is_none();
    selects(rule, cluster)
        && cluster.accepted
        && cluster.joined
        && effect != Some(TaintEffect::NoExecute)
        && (open || holds)
}

fn held(case: &Case, step: usize, workload: usize, rule: &str, cluster: &str) -> Option<u32> {
    let key = (
        case.steps[step].0.clone(),
        case.workloads[workload].key.clone(),
        rule.to_owned(),
    );
    case.previous.assigned().get(&key)?.get(cluster).copied()
}

fn orphaned(facts: &Facts<'_>, workload: usize, cluster: &str) -> u32 {
    let case = facts.case;
    let mut sum = 0;
    for ((step, key, rule), counts) in &case.previous.assigned() {
        let alive = rules(case).any(|(s, i, _, r)| {
            case.steps[s].0 == *step
                && r.name_or_index(i) == *rule
                && facts.clusters[&(s, i)].iter().any(|c| c.name == cluster)
        });
        if *key == case.workloads[workload].key && !alive {
            sum += counts.get(cluster).copied().unwrap_or(0);
        }
    }
    sum
}

fn hold_to_previous(total: u32, parties: &mut [Party]) {
    let kept: Vec<u32> = parties
        .iter()
        .map(|p| {
            let low = p.min.min(p.max);
            if p.weight == 0 {
                low
            } else {
                p.previous.max(low).min(p.max)
            }
        })
        .collect();
    let grows = kept.iter().sum::<u32>() <= total;
    for (party, kept) in parties.iter_mut().zip(kept) {
        if grows {
            party.min = kept;
        } else {
            party.max = kept;
        }
    }
}

type RuleTotals = BTreeMap<(usize, usize), u32>;

/// The totals of the rules that divide, and what no rule claims.
fn rule_totals(case: &Case, workload: usize, hash: &impl Fn(&str) -> u64) -> (RuleTotals, u32) {
    let n = case.workloads[workload].replicas;
    let divides: Vec<_> = rules(case).filter(|(.., rule)| rule.replicas.is_some()).collect();
    let spread = divides
        .iter()
        .all(|(_, _, spec, _)| spec.remainder == Remainder::Spread);
    let mut counts = 0;
    let mut percent = 0;
    for (.., rule) in &divides {
        match rule.replicas {
            Some(ReplicaShare::Count(count)) => counts += count,
            Some(ReplicaShare::Percent(p)) => percent += p.milli(),
            None => {}
        }
    }
    let mut totals = RuleTotals::new();
    let mut parties = Vec::new();
    for (step, index, _, rule) in &divides {
        let name = rule.name_or_index(*index);
        match rule.replicas {
            Some(ReplicaShare::Count(count)) => {
                totals.insert((*step, *index), count);
            }
            Some(ReplicaShare::Percent(p)) => parties.push(Party {
                weight: u64::from(p.milli()),
                min: 0,
                max: u32::MAX,
                previous: seats_before(case, workload, Some((*step, &name))),
                hash: hash(&name),
            }),
            None => {}
        }
    }
    let shared = if spread { n.saturating_sub(counts) } else { n };
    if !spread {
        parties.push(Party {
            weight: u64::from(100_000 - percent),
            min: 0,
            max: u32::MAX,
            previous: seats_before(case, workload, None),
            hash: hash(""),
        });
    }
    let mut seats = seat_by_seat(shared, &parties).0.into_iter();
    for (step, index, _, rule) in &divides {
        if matches!(rule.replicas, Some(ReplicaShare::Percent(_))) {
            totals.insert((*step, *index), seats.next().unwrap());
        }
    }
    // One replica at a time, from the first rule that can give one: percentages first.
    while totals.values().sum::<u32>() > n {
        let is_percent = |rule: &Rule| matches!(rule.replicas, Some(ReplicaShare::Percent(_)));
        let order = divides
            .iter()
            .filter(|(.., rule)| is_percent(rule))
            .chain(divides.iter().filter(|(.., rule)| !is_percent(rule)));
        let mut able = order.filter(|(step, index, ..)| totals[&(*step, *index)] > 0);
        let (step, index, ..) = able.next().unwrap();
        let key = (*step, *index);
        *totals.get_mut(&key).unwrap() -= 1;
    }
    let claimed: u32 = totals.values().sum();
    let unclaimed = if divides.is_empty() { 0 } else { n - claimed };
    (totals, unclaimed)
}

fn seats_before(case: &Case, workload: usize, rule: Option<(usize, &str)>) -> u32 {
    let key = &case.workloads[workload].key;
    let named = rule.map(|(step, rule)| (case.steps[step].0.clone(), rule.to_owned()));
    if let Some(seats) = case
        .previous
        .totals
        .get(key)
        .and_then(|totals| totals.get(&named))
    {
        return *seats;
    }
    let Some((step, rule)) = named else { return 0 };
    let history = case.previous.assigned();
    let counts = history.get(&(step, key.clone(), rule));
    counts.map_or(0, |counts| counts.values().sum())
}
