//! Properties of whole decisions.

use super::{
    definition::{Left, Placed, by_definition, spread_clusters},
    fixture::Case,
    generate::{ALL, Scope, UnderWay, any_case, lost_contact, under_way},
    runs,
};
use crate::{
    dispatch::{Layer, shares},
    placement::{
        ClusterFacts, Inventory, PlacingStep, Previous, StepDecision, decision_hash, next_change,
        ties::stable_hash,
        tolerance::{Tolerated, tolerated},
    },
};
use jiff::Timestamp;
use proptest::prelude::*;
use roundhouse_api::{
    decision::{Assignment, DecisionSpec},
    placement::{TaintEffect, WeightBy, WhenUnsatisfiable},
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Bounded by rules only, so that a cluster's share does not depend on other rules and workloads.
const APART: Scope = Scope {
    capacity: false,
    max_clusters: false,
    never: true,
    weight_by: true,
    milli: true,
    names: true,
    overrides: true,
};

/// (step, workload, cluster, rule) -> row.
fn rows(decisions: &[StepDecision]) -> BTreeMap<(usize, usize, &str, &str), &Assignment> {
    let mut rows = BTreeMap::new();
    for (step, decision) in decisions.iter().enumerate() {
        for (workload, divided) in decision.workloads.iter().enumerate() {
            for row in &divided.clusters {
                rows.insert((step, workload, row.name.as_str(), row.rule.as_str()), row);
            }
        }
    }
    rows
}

fn replicas(decisions: &[StepDecision]) -> BTreeMap<(usize, usize, &str, &str), u32> {
    rows(decisions)
        .into_iter()
        .map(|(key, row)| (key, row.replicas))
        .collect()
}

/// (cluster, step) -> what it runs once a run has come to that step: of each workload what the last step gave that gave any,
/// of what is divided and the full count whichever is more.
fn taken(decisions: &[StepDecision]) -> BTreeMap<(&str, usize), u32> {
    let mut given: BTreeMap<(&str, usize, usize), (u32, u32)> = BTreeMap::new();
    for ((step, workload, name, _), row) in rows(decisions) {
        let (divided, full) = given.entry((name, workload, step)).or_default();
        match row.duplicate {
            true => *full = row.replicas.max(*full),
            false => *divided += row.replicas,
        }
    }
    let mut taken = BTreeMap::new();
    for at in 0..decisions.len() {
        let mut runs: BTreeMap<(&str, usize), u32> = BTreeMap::new();
        for ((name, workload, step), (divided, full)) in &given {
            let count = *divided.max(full);
            if *step <= at && count > 0 {
                runs.insert((name, *workload), count);
            }
        }
        for ((name, _), count) in runs {
            *taken.entry((name, at)).or_default() += count;
        }
    }
    taken
}

fn divides(case: &Case) -> bool {
    case.steps
        .iter()
        .flat_map(|(_, spec)| &spec.placement)
        .any(|rule| rule.replicas.is_some())
}

/// Placed and unplaced, over all steps, are what each workload asks for.
fn check_conserved(case: &Case) -> Result<(), TestCaseError> {
    let decisions = case.place();
    prop_assert_eq!(decisions.len(), case.steps.len());
    for (index, workload) in case.workloads.iter().enumerate() {
        let mut sum = 0;
        for decision in decisions.iter().map(|d| &d.workloads[index]) {
            let divided = decision.clusters.iter().filter(|row| !row.duplicate);
            prop_assert_eq!(divided.map(|row| row.replicas).sum::<u32>(), decision.placed);
            prop_assert_eq!(decision.replicas, workload.replicas);
            sum += decision.placed + decision.unplaced.iter().map(|u| u.count).sum::<u32>();
            prop_assert!(decision.unplaced.iter().all(|u| u.count > 0));
        }
        let expected = if divides(case) { workload.replicas } else { 0 };
        prop_assert_eq!(sum, expected, "{:#?}", decisions);
    }
    Ok(())
}

proptest! {
    #![proptest_config(runs())]

    #[test]
    fn equals_the_definition(mut case in any_case(ALL)) {
        let decisions = case.place();
        let (mut placed, mut left) = (Placed::new(), Left::new());
        for (s, decision) in decisions.iter().enumerate() {
            for (w, workload) in decision.workloads.iter().enumerate() {
                let index = |rule: &str| case.rule_index(s, rule);
                for row in &workload.clusters {
                    placed.insert((s, w, index(&row.rule), row.name.to_string()), row.replicas);
                }
                for unplaced in &workload.unplaced {
                    left.insert((w, unplaced.rule.as_deref().map(|rule| (s, index(rule)))), unplaced.count);
                }
            }
        }
        case.clusters.reverse();
        let expected = by_definition(&case, |name| stable_hash("default/shop", name));
        prop_assert_eq!((placed, left), expected);
    }

    #[test]
    fn replicas_are_conserved(case in any_case(ALL)) {
        check_conserved(&case)?;
    }

    /// Whatever was divided before and stands, by a Job or by a step that the run has passed: the others share the rest.
    #[test]
    fn replicas_are_conserved_over_what_stands(UnderWay { case, .. } in under_way()) {
        check_conserved(&case)?;
        for ((step, key), before) in &case.previous.fixed {
            let at = case.steps.iter().position(|(name, _)| name == step).unwrap();
            let index = case.workloads.iter().position(|workload| workload.key == *key).unwrap();
            for row in &case.place()[at].workloads[index].clusters {
                let held = before.division.clusters.iter().find(|held| (&held.name, &held.rule) == (&row.name, &row.rule));
                prop_assert_eq!(held.map(|held| held.replicas), Some(row.replicas));
            }
        }
    }

    /// What stands is decided the same again and again, in any order of the clusters. Once: a Job of which no cluster has
    /// anything, and which lost nothing that was divided, is divided again.
    #[test]
    fn what_stands_comes_to_rest(mut under_way in under_way()) {
        let first = under_way.case.place();
        under_way.case.clusters.reverse();
        prop_assert_eq!(&first, &under_way.case.place());
        let second = under_way.clone().following(&first).case.place();
        let third = under_way.clone().following(&second).case.place();
        prop_assert_eq!(replicas(&second), replicas(&third));
        let told = |decisions: &[StepDecision]| -> Vec<_> {
            decisions.iter().map(|d| (decision_hash(d), d.satisfied, d.reasons.clone())).collect()
        };
        // Of what was just divided it is said otherwise from the next decision on.
        let fourth = under_way.following(&third).case.place();
        prop_assert_eq!(told(&third), told(&fourth));
    }

    #[test]
    fn the_order_of_clusters_does_not_count(case in any_case(ALL), by: prop::sample::Index) {
        let mut other = case.clone();
        let size = other.clusters.len();
        let middle = by.index(size + 1);
        other.clusters.rotate_left(middle);
        if middle % 2 == 0 {
            other.clusters.reverse();
        }
        prop_assert_eq!(case.place(), other.place());
    }

    #[test]
    fn feeding_a_decision_back_changes_nothing(case in any_case(ALL)) {
        let first = case.place();
        let second = case.clone().following(&first).place();
        prop_assert_eq!(replicas(&first), replicas(&second));
        let hashes = |decisions: &[StepDecision]| decisions.iter().map(decision_hash).collect::<Vec<_>>();
        prop_assert_eq!(hashes(&first), hashes(&second), "{:#?}\n{:#?}", first, second);
        // What is said may speak of the history: it comes to rest one decision later.
        let third = case.following(&second).place();
        let told = |decisions: &[StepDecision]| -> Vec<_> {
            decisions.iter().map(|d| (d.satisfied, d.reasons.clone())).collect()
        };
        prop_assert_eq!(told(&second), told(&third));
        for (key, row) in rows(&second) {
            prop_assert_eq!(row.delta(), 0, "{:?}", key);
        }
    }

    #[test]
    fn one_replica_more_takes_none_away(case in any_case(APART), index: prop::sample::Index) {
        if case.workloads.is_empty() {
            return Ok(());
        }
        let mut more = case.clone();
        let grown = index.index(case.workloads.len());
        more.workloads[grown].replicas += 1;
        let (before, after) = (case.place(), more.place());
        let unclaimed = |decisions: &[StepDecision]| -> u32 {
            let left = decisions.iter().flat_map(|d| &d.workloads[grown].unplaced);
            left.filter(|u| u.rule.is_none()).map(|u| u.count).sum()
        };
        prop_assert!(unclaimed(&after) >= unclaimed(&before), "the remainder shrinks");
        let after = replicas(&after);
        for (key, count) in replicas(&before) {
            prop_assert!(after[&key] >= count, "{:?}", key);
        }
    }

    #[test]
    fn bounds_and_capacities_hold(case in any_case(ALL)) {
        let decisions = case.place();
        for ((step, _, _, rule), row) in rows(&decisions) {
            let index = case.rule_index(step, rule);
            let bounds = case.steps[step].1.placement[index].per_cluster.unwrap_or_default();
            prop_assert!(row.replicas <= bounds.max.unwrap_or(u32::MAX));
        }
        let taken = taken(&decisions);
        for (cluster, step) in case.clusters.iter().flat_map(|c| (0..case.steps.len()).map(move |step| (c, step))) {
            let count = taken.get(&(cluster.name.as_str(), step)).copied().unwrap_or(0);
            prop_assert!(count <= cluster.capacity.unwrap_or(u32::MAX));
        }
        for (decision, (_, spec)) in decisions.iter().zip(&case.steps) {
            let mut names: Vec<_> = decision.workloads.iter().flat_map(|w| &w.clusters).map(|r| &r.name).collect();
            names.sort();
            names.dedup();
            prop_assert!(names.len() <= spec.max_clusters.unwrap_or(u32::MAX) as usize);
        }
    }

    /// Over what stands as well: a cluster holds more than it can only where what stands is more.
    #[test]
    fn capacities_hold_over_what_stands(UnderWay { case, .. } in under_way()) {
        let decisions = case.place();
        let stands = |step: usize, workload: usize| {
            case.previous.standing(&case.steps[step].0, &case.workloads[workload]).is_some()
        };
        let mut standing = decisions.clone();
        for (step, decision) in standing.iter_mut().enumerate() {
            for (workload, divided) in decision.workloads.iter_mut().enumerate() {
                if !stands(step, workload) {
                    divided.clusters.clear();
                }
            }
        }
        let (taken, standing) = (taken(&decisions), taken(&standing));
        for (cluster, step) in case.clusters.iter().flat_map(|c| (0..case.steps.len()).map(move |step| (c, step))) {
            let of = |counts: &BTreeMap<(&str, usize), u32>| counts.get(&(cluster.name.as_str(), step)).copied().unwrap_or(0);
            let capacity = cluster.capacity.unwrap_or(u32::MAX);
            prop_assert!(of(&taken) <= capacity.max(of(&standing)), "{}: {} of {capacity}", cluster.name, of(&taken));
        }
    }

    /// Decision, manifests and capacity agree: of a share and a full count on one cluster the larger runs, and is charged.
    #[test]
    fn what_is_dispatched_is_what_capacity_is_charged_for(case in any_case(ALL)) {
        let specs: Vec<_> = case.place().iter().map(StepDecision::to_spec).collect();
        for (index, workload) in case.workloads.iter().enumerate() {
            for spec in &specs {
                let rows = &spec.workloads[index].clusters;
                for (cluster, share) in &shares(&[Layer::of(true, spec)]) {
                    let own = |duplicate: bool| {
                        let own = rows.iter().filter(move |row| row.name == *cluster && row.duplicate == duplicate);
                        own.map(|row| row.replicas)
                    };
                    let runs = own(false).sum::<u32>().max(own(true).max().unwrap_or(0));
                    prop_assert_eq!(share.replicas[&workload.key].replicas, runs);
                    let both = own(false).any(|n| n > 0) && own(true).any(|n| n > 0);
                    let told = spec.reasons.iter().any(|line| line.contains("the larger count runs") || line.starts_with('…'));
                    prop_assert!(!both || told, "{:?}", spec.reasons);
                }
            }
        }
        let layers: Vec<_> = specs.iter().map(|spec| Layer::of(true, spec)).collect();
        let shares = shares(&layers);
        for facts in &case.clusters {
            let parts = shares.get(&facts.name).into_iter().flat_map(|share| share.replicas.values());
            let runs: u32 = parts.map(|part| part.replicas).sum();
            prop_assert!(runs <= facts.capacity.unwrap_or(u32::MAX), "{}: {}", facts.name, runs);
        }
    }

    /// Steps that share no cluster lose nothing by being laid over one another, whatever the clusters held before.
    #[test]
    fn what_is_dispatched_is_what_all_steps_placed(case in any_case(ALL)) {
        let specs: Vec<_> = case.place().iter().map(StepDecision::to_spec).collect();
        let layers: Vec<_> = specs.iter().map(|spec| Layer::of(true, spec)).collect();
        let shares = shares(&layers);
        for (index, workload) in case.workloads.iter().enumerate() {
            // Cluster -> step -> divided, full count.
            let mut given: BTreeMap<&str, BTreeMap<usize, (u32, u32)>> = BTreeMap::new();
            for (step, spec) in specs.iter().enumerate() {
                for row in spec.workloads[index].clusters.iter().filter(|row| row.replicas > 0) {
                    let (divided, full) = given.entry(&row.name).or_default().entry(step).or_default();
                    match row.duplicate {
                        true => *full = row.replicas.max(*full),
                        false => *divided += row.replicas,
                    }
                }
            }
            let runs = |cluster: &str| shares.get(cluster).map_or(0, |share| share.replicas[&workload.key].replicas);
            for (cluster, steps) in &given {
                let (divided, full) = steps.values().last().copied().unwrap_or_default();
                prop_assert_eq!(runs(cluster), divided.max(full), "{}: {:?}", cluster, steps);
            }
            let apart = given.values().all(|steps| steps.len() == 1 && steps.values().all(|(_, full)| *full == 0));
            if apart {
                let placed: u32 = specs.iter().map(|spec| spec.workloads[index].placed).sum();
                prop_assert_eq!(shares.keys().map(|cluster| runs(cluster)).sum::<u32>(), placed);
            }
        }
    }

    #[test]
    fn a_zero_weight_gets_only_its_minimum(case in any_case(ALL)) {
        for ((step, _, name, rule), row) in rows(&case.place()) {
            let index = case.rule_index(step, rule);
            let rule = &case.steps[step].1.placement[index];
            let facts = case.clusters.iter().find(|c| c.name == name).unwrap();
            let is_zero = match &rule.weight_by {
                None => rule.weights.get(name) == Some(&0),
                Some(WeightBy::Label(key)) => facts.labels.get(key).is_none_or(|text| text == "x"),
                // What it had before may be frozen.
                Some(WeightBy::Allocatable(_)) => facts.allocatable.is_empty() && case.previous.frozen.is_empty(),
            };
            if is_zero && !row.duplicate {
                prop_assert!(row.replicas <= rule.per_cluster.unwrap_or_default().min.unwrap_or(0));
                prop_assert_eq!(row.bound.as_deref(), Some("ZeroWeight"));
            }
        }
    }

    /// KubeAdmiral's property: what is decided is fed back as what exists, and comes to rest within three passes. Here it
    /// has after the first, from any history.
    #[test]
    fn decisions_converge(mut case in any_case(ALL)) {
        let first = case.place();
        for _ in 0..3 {
            case = case.clone().following(&first);
            let again = case.place();
            prop_assert_eq!(replicas(&again), replicas(&first));
        }
    }

    /// `spread`: within the skew under `DoNotSchedule`, unless what was there is kept, and never more than `maxClusters`.
    #[test]
    fn chosen_clusters_are_spread(case in any_case(Scope { never: false, ..ALL })) {
        for (step, (decision, (_, spec))) in case.place().iter().zip(&case.steps).enumerate() {
            let Some(spread) = &spec.spread else { continue };
            if decision.workloads.is_empty() || spread.when_unsatisfiable != WhenUnsatisfiable::DoNotSchedule {
                continue;
            }
            let rows = decision.workloads.iter().flat_map(|w| &w.clusters);
            let chosen: BTreeSet<&str> = rows.map(|row| row.name.as_str()).collect();
            let value = |name: &str| {
                let facts = case.clusters.iter().find(|c| c.name == name).unwrap();
                facts.labels.get(&spread.topology_key).cloned()
            };
            // A value of which no cluster is chosen counts too.
            let mut counts: BTreeMap<String, u32> = spread_clusters(&case, step)
                .filter_map(|cluster| Some((cluster.labels.get(&spread.topology_key)?.clone(), 0)))
                .collect();
            for name in &chosen {
                let value = value(name);
                prop_assert!(value.is_some(), "{} has no {}", name, spread.topology_key);
                *counts.entry(value.unwrap()).or_default() += 1;
            }
            let (most, fewest) = (counts.values().max().copied().unwrap_or(0), counts.values().min().copied().unwrap_or(0));
            prop_assert!(most - fewest <= spread.max_skew);
        }
    }

    /// Between now and the next change that a toleration brings, the clock does not matter.
    #[test]
    fn the_clock_matters_only_at_the_next_change(case in any_case(ALL)) {
        let decisions = case.place();
        let steps: Vec<_> = case.steps.iter().map(|(name, spec)| PlacingStep { name, spec }).collect();
        let inventory: Inventory = case.clusters.iter().cloned().collect();
        let next = next_change(&steps, &inventory, case.now);
        let until = next.map_or(Timestamp::MAX, |next| next - jiff::Span::new().nanoseconds(1));
        let mut later = case.clone();
        later.now = until;
        prop_assert_eq!(later.place(), decisions);
        if let Some(next) = next {
            prop_assert!(next > case.now);
            later.now = next;
            let tolerates = |now| {
                let pairs = case.steps.iter().flat_map(|(_, spec)| case.clusters.iter().flat_map(|c| &c.taints).map(move |t| (t, spec)));
                pairs.filter(|(taint, spec)| tolerated(taint, &spec.tolerations, now) != Tolerated::No).count()
            };
            prop_assert!(tolerates(next) < tolerates(case.now), "nothing ends at {}", next);
        }
    }

    #[test]
    fn clusters_in_trouble_get_nothing_more(case in any_case(ALL)) {
        let decisions = case.place();
        for (w, workload) in case.workloads.iter().enumerate() {
            for cluster in &case.clusters {
                let now = |s: usize| -> u32 {
                    let rows = decisions[s].workloads[w].clusters.iter();
                    rows.filter(|row| row.name == cluster.name).map(|row| row.replicas).sum()
                };
                let before: u32 = case.previous.assigned().iter()
                    .filter(|((_, key, _), _)| *key == workload.key)
                    .filter_map(|(_, counts)| counts.get(&cluster.name))
                    .sum();
                let mut sum = 0;
                for (s, (_, spec)) in case.steps.iter().enumerate() {
                    let effect = cluster.taints.iter()
                        .filter(|taint| tolerated(taint, &spec.tolerations, case.now) == Tolerated::No)
                        .map(|taint| taint.effect).max();
                    if effect == Some(TaintEffect::NoExecute) || !cluster.joined || !cluster.accepted {
                        prop_assert_eq!(now(s), 0);
                    }
                    if effect.is_some() || !cluster.reachable {
                        sum += now(s);
                    }
                }
                prop_assert!(sum <= before, "{}: {} after {}", cluster.name, sum, before);
            }
        }
    }

    /// Contact lost, or a cordon, after a decision: the same clusters keep the same replicas.
    #[test]
    fn losing_contact_moves_nothing(case in any_case(ALL), lost in 0..64usize, cordon: bool) {
        let first = case.place();
        let mut after = case.following(&first);
        for (index, cluster) in after.clusters.iter_mut().enumerate() {
            if lost >> index & 1 == 1 {
                if cordon {
                    cluster.taints.push(roundhouse_api::placement::Taint {
                        key: "cordoned".to_owned(), value: None, effect: TaintEffect::NoSchedule, time_added: None,
                    });
                } else {
                    cluster.reachable = false;
                    cluster.taints.push(lost_contact());
                }
            }
        }
        let second = after.place();
        let second = replicas(&second);
        for (key, count) in replicas(&first) {
            prop_assert_eq!(second.get(&key).copied().unwrap_or(0), count, "{:?}", key);
        }
    }

    /// The hub taints what it has lost contact with: that says nothing that the lost contact does not say.
    #[test]
    fn the_taint_of_lost_contact_changes_nothing(case in any_case(ALL)) {
        let mut without = case.clone();
        for cluster in &mut without.clusters {
            cluster.taints.retain(|taint| *taint != lost_contact());
        }
        prop_assert_eq!(case.place(), without.place());
    }

    #[test]
    fn members_have_replicas_or_keep_a_bundle(mut case in any_case(ALL), empty: bool) {
        if empty {
            case.workloads.iter_mut().for_each(|workload| workload.replicas = 0);
        }
        let decisions = case.place();
        let (past, enrolled) = (case.previous.assigned(), case.previous.enrolled());
        for (decision, (name, _)) in decisions.iter().zip(&case.steps) {
            let chosen: Vec<&str> =
                decision.workloads.iter().flat_map(|w| &w.clusters).map(|row| row.name.as_str()).collect();
            for cluster in &case.clusters {
                let rows = decision.workloads.iter().flat_map(|w| &w.clusters);
                let has = rows.filter(|row| row.name == cluster.name).any(|row| row.replicas > 0);
                let assigned = past.iter().filter(|((step, ..), _)| step == name);
                let had = enrolled.get(name).is_some_and(|names| names.contains(&cluster.name))
                    || assigned.filter_map(|(_, counts)| counts.get(&cluster.name)).any(|count| *count > 0);
                let member = decision.clusters.contains(&cluster.name.as_str().into());
                let chosen = chosen.contains(&cluster.name.as_str());
                if case.workloads.is_empty() {
                    continue;
                }
                prop_assert!(!member || chosen);
                prop_assert!(!(has || had && chosen) || member);
                prop_assert!(!member || has || case.previous != Previous::default());
            }
            prop_assert!(decision.clusters.is_sorted());
            let counted: u32 = decision.excluded.iter().map(|e| e.count).sum();
            if case.workloads.is_empty() {
                prop_assert_eq!(decision.clusters.len() + counted as usize, case.clusters.len());
            }
        }
    }

    #[test]
    fn scaling_the_weights_of_a_rule_changes_nothing(case in any_case(ALL), factor in 1..1000u32) {
        // Unnamed clusters have weight 1: name them, so that they scale too.
        let weighted = |factor: u32| {
            let mut case = case.clone();
            let names: Vec<String> = case.clusters.iter().map(|c| c.name.clone()).collect();
            let Some((_, spec)) = case.steps.first_mut() else { return case };
            spec.max_clusters = None;
            spec.spread = None;
            for rule in &mut spec.placement {
                rule.weight_by = None;
                for name in &names {
                    *rule.weights.entry(name.clone()).or_insert(1) *= factor;
                }
            }
            case
        };
        let (plain, scaled) = (weighted(1).place(), weighted(factor).place());
        prop_assert_eq!(replicas(&plain), replicas(&scaled));
    }

    /// `rebalance: Never`: with the number of replicas, the assignments of a rule all grow or all shrink.
    #[test]
    fn kept_assignments_only_grow_or_shrink(case in any_case(APART), counts in prop::collection::vec(0..25u32, 3)) {
        let mut never = case;
        for (_, spec) in &mut never.steps {
            spec.rebalance = roundhouse_api::placement::Rebalance::Never;
        }
        let first = never.place();
        let mut after = never.clone().following(&first);
        for (workload, count) in after.workloads.iter_mut().zip(counts) {
            workload.replicas = count;
        }
        let second = after.place();
        let mut signs: BTreeMap<_, Vec<i64>> = BTreeMap::new();
        for ((step, workload, _, rule), row) in rows(&second) {
            if !row.duplicate {
                signs.entry((step, workload, rule)).or_default().push(row.delta().signum());
            }
        }
        for (key, signs) in signs {
            prop_assert!(!(signs.contains(&1) && signs.contains(&-1)), "{:?}", key);
        }
    }

    #[test]
    fn reasons_are_bounded(case in any_case(ALL)) {
        for decision in case.place() {
            prop_assert!(decision.reasons.len() <= 33);
            prop_assert!(decision.reasons.iter().all(|line| line.chars().count() <= 401 && !line.is_empty()));
            prop_assert!(decision.satisfied || !decision.reasons.is_empty());
        }
    }

    #[test]
    fn decisions_as_objects_tell_the_same_history(case in any_case(ALL)) {
        let decisions = case.place();
        let specs: Vec<_> = decisions.iter().map(|d| roundhouse_api::decision::DecisionSpec {
            step: d.step.clone(),
            workloads: d.workloads.clone(),
            clusters: d.clusters.iter().map(ToString::to_string).collect(),
            chosen: d.chosen.clone(),
            frozen_weights: d.frozen_weights.clone(),
            ..Default::default()
        }).collect();
        prop_assert_eq!(Previous::from_decisions(&specs), Previous::from_steps(&decisions));
    }
}

/// A cluster that is out of reach holds a replica of a step that the run has passed, by a rule that does not match it any more.
/// Found by a long run of [`what_stands_comes_to_rest`].
#[test]
fn what_a_passed_step_holds_out_of_reach_is_no_room_for_another_step() {
    let workload = json!({"kind": "Deployment", "namespace": "default", "name": "web"});
    let stored = |step: &str, rule: &str, replicas: u32| -> DecisionSpec {
        let row = json!({"name": "c0", "rule": rule, "replicas": replicas});
        let decided = json!({"workload": workload, "replicas": 5, "placed": replicas, "clusters": [row]});
        serde_json::from_value(json!({"step": step, "revision": "v1", "epoch": 1, "hash": "", "satisfied": false,
            "applicationRef": {"namespace": "default", "name": "shop", "uid": "u"}, "replicas": 5, "placed": replicas,
            "unplaced": 0, "clusterCount": 1, "clusters": ["c0"], "workloads": [decided]}))
        .unwrap()
    };
    let passed = |stored: &[DecisionSpec]| {
        let passed = stored.iter().filter(|decision| decision.step == "west");
        Previous::from_decisions_at("v1", stored).passing(passed)
    };
    let away = ClusterFacts {
        reachable: false,
        ..super::cluster("c0", "region=east")
    };
    let mut case = Case::default()
        .step("all", json!({"placement": [{"replicas": 3}]}))
        .step(
            "west",
            json!({"placement": [{"clusterSelector": {"region": "west"}, "replicas": 1}, {"replicas": "0%"}]}),
        )
        .clusters([away])
        .web(5);
    case.previous = passed(&[stored("all", "rule-0", 0), stored("west", "rule-0", 1)]);
    for _ in 0..3 {
        let decisions = case.place();
        let counts: Vec<u32> = replicas(&decisions).into_values().collect();
        assert_eq!(counts, [0, 1]);
        let stored = decisions.iter().map(|decision| DecisionSpec {
            revision: "v1".to_owned(),
            ..decision.to_spec()
        });
        case.previous = passed(&stored.collect::<Vec<_>>());
    }
}
