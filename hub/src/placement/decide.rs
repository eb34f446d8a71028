//! The placement function: eligible clusters, rule totals, division inside the rules, membership, reasons.

use super::{
    PlacingStep, Request, StepDecision, Workload,
    draft::{Draft, rule_total, usable},
    eligible::{Selection, select},
    fleet::Fleet,
    history::History,
    labels::ClusterSet,
    membership::{members, noted},
    overrides,
    previous::DIVIDED_ONCE,
    reasons,
    room::Room,
    rule::{RuleDivision, RuleInput, divide_rule},
    ties::stable_hash,
    totals::{Claimant, Total, Totals, totals},
};
use roundhouse_api::{
    decision::{RuleTotal, Unplaced, WorkloadDecision},
    placement::{Remainder, Rule},
};
use std::collections::{BTreeMap, BTreeSet};

/// A rule in the order of all placing steps.
pub(super) struct Placing<'a> {
    /// The step that it is in.
    pub(super) step: usize,
    /// Its name.
    pub(super) name: String,
    /// What it says.
    pub(super) rule: &'a Rule,
}

/// Decides every placing step; one decision per step, in order.
///
/// Total for every input, and the same bytes for the same input in whatever order its clusters and labels come. With
/// percentages above 100 in sum, which validation refuses, rules shrink in their order and the decision is overcommitted.
pub fn place(request: &Request<'_>) -> Vec<StepDecision> {
    let places: Vec<usize> = (0..request.steps.len()).collect();
    let mut all = place_all(&[(*request, &places)]);
    all.pop().unwrap_or_default()
}

/// Decides requests of one application that differ in their steps and workloads, each for itself but for the clusters'
/// room, which they share in order. Each comes with the places of its steps among those of all.
pub(super) fn place_all(requests: &[(Request<'_>, &[usize])]) -> Vec<Vec<StepDecision>> {
    let Some((first, _)) = requests.first() else {
        return Vec::new();
    };
    let fleet = Fleet::new(first);
    let history = History::new(first.previous, &fleet);
    let selections = requests
        .iter()
        .map(|(request, _)| select(request, &history, &fleet));
    let selections: Vec<Vec<Selection>> = selections.collect();
    let engines = requests.iter().zip(&selections);
    let mut engines: Vec<Engine<'_>> = engines
        .map(|((request, places), selections)| Engine::new(request, places, &fleet, &history, selections))
        .collect();
    let steps = requests.iter().map(|(request, _)| request.steps.len()).sum();
    let mut room = Room::new(&fleet, steps);
    for engine in &engines {
        engine.charge_standing(&mut room);
    }
    room.settle();
    for engine in &mut engines {
        for workload in engine.request.workloads {
            engine.divide(workload, &mut room);
        }
    }
    let mut decisions: Vec<Vec<StepDecision>> = engines.into_iter().map(Engine::finish).collect();
    let of_step = decisions
        .iter_mut()
        .flatten()
        .zip(selections.into_iter().flatten());
    for (decision, selection) in of_step {
        let frozen = selection.rules.into_iter().filter_map(|rule| rule.frozen);
        decision.frozen_weights = frozen.collect();
    }
    decisions
}

fn rules<'a>(steps: &[PlacingStep<'a>]) -> Vec<Placing<'a>> {
    let of_step = |(step, placing): (usize, &PlacingStep<'a>)| {
        let rules = placing.spec.placement.iter().enumerate();
        rules.map(move |(index, rule)| Placing {
            step,
            name: rule.name_or_index(index),
            rule,
        })
    };
    steps.iter().enumerate().flat_map(of_step).collect()
}

struct Engine<'a> {
    request: &'a Request<'a>,
    /// The places of its steps among those of the whole application.
    places: &'a [usize],
    fleet: &'a Fleet<'a>,
    history: &'a History<'a>,
    selections: &'a [Selection],
    rules: Vec<Placing<'a>>,
    steps: Vec<Draft>,
}

impl<'a> Engine<'a> {
    fn new(
        request: &'a Request<'a>,
        places: &'a [usize],
        fleet: &'a Fleet<'a>,
        history: &'a History<'a>,
        selections: &'a [Selection],
    ) -> Self {
        let drafts = request.steps.iter().map(|step| Draft::new(step, fleet));
        let mut engine = Engine {
            request,
            places,
            fleet,
            history,
            selections,
            rules: rules(request.steps),
            steps: drafts.collect(),
        };
        for (rule, clusters) in engine.rules.iter().zip(selections.iter().flat_map(|s| &s.rules)) {
            let Some(draft) = engine.steps.get_mut(rule.step) else {
                continue;
            };
            draft.satisfied &= rule.rule.allow_empty || !clusters.clusters.is_empty();
            reasons::of_clusters(&mut draft.reasons, rule, clusters, fleet);
        }
        let drafts = engine.steps.iter_mut().zip(request.steps.iter().zip(selections));
        for (draft, (step, selection)) in drafts {
            reasons::of_choice(&mut draft.reasons, step, selection);
        }
        engine
    }

    /// Notes the room of what stands, before anything is divided: what comes first must not be given it.
    fn charge_standing(&self, room: &mut Room) {
        for workload in self.request.workloads {
            let steps = self.request.steps.iter().zip(self.selections);
            for ((step, selection), place) in steps.zip(self.places) {
                let Some(before) = self.request.previous.standing(step.name, workload) else {
                    continue;
                };
                // Divided, full count: the larger runs.
                let mut taken: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
                for row in &before.clusters {
                    let Some(cluster) = usable(&row.name, selection, self.fleet) else {
                        continue;
                    };
                    let (divided, full) = taken.entry(cluster).or_default();
                    match row.duplicate {
                        true => *full = row.replicas.max(*full),
                        false => *divided = divided.saturating_add(row.replicas),
                    }
                }
                let runs = taken.into_iter();
                let runs = runs.map(|(cluster, (divided, full))| (cluster, divided.max(full)));
                room.stand(&workload.key, *place, runs);
            }
        }
    }

    /// Divides one workload over the rules of all steps.
    fn divide(&mut self, workload: &Workload, room: &mut Room) {
        let mut fixed = Vec::new();
        let mut held = 0u32;
        let steps = self
            .steps
            .iter_mut()
            .zip(self.request.steps.iter().zip(self.selections));
        for (draft, (step, selection)) in steps {
            let before = self.request.previous.standing(step.name, workload);
            fixed.push(before.is_some());
            held = held.saturating_add(before.map_or(0, claimed));
            match before {
                Some(before) => draft.keep(before, workload.once, selection, self.fleet),
                None => draft.workloads.push(WorkloadDecision {
                    workload: workload.key.clone(),
                    replicas: workload.replicas,
                    ..WorkloadDecision::default()
                }),
            }
        }
        let totals = self.totals(workload, &fixed, held);
        room.open(&workload.key);
        room.orphans = self.orphans(workload);
        // The step that placed divided replicas on a cluster last, and how many.
        let mut earlier: BTreeMap<usize, (usize, u32)> = BTreeMap::new();
        let several = self.request.steps.len() > 1;
        for (step, _) in fixed.iter().enumerate().filter(|(_, fixed)| !**fixed) {
            let place = self.places.get(step).copied().unwrap_or(step);
            room.begin(place);
            let divisions = self.divisions(workload, step, &totals, room);
            let both = room.close(&workload.key, place);
            let (Some(draft), Some(selection)) = (self.steps.get_mut(step), self.selections.get(step)) else {
                continue;
            };
            let rules = self.rules.iter().zip(&totals.rules);
            let rules = rules.filter(|(placing, _)| placing.step == step);
            let mut names = Vec::new();
            for (((placing, total), clusters), division) in rules.zip(&selection.rules).zip(&divisions) {
                names.push(placing.name.as_str());
                if several && placing.rule.replicas.is_some() {
                    reasons::of_overlap(
                        &mut draft.reasons,
                        workload,
                        placing,
                        division,
                        &mut earlier,
                        self.request,
                        self.fleet,
                    );
                }
                draft.add(workload, placing, total, division, clusters, self.fleet);
            }
            reasons::of_both(&mut draft.reasons, workload, &both, self.fleet);
            draft.enter(&names, divisions, self.fleet);
        }
        room.shut(&workload.key);
        if workload.once {
            self.order(&fixed);
        }
        for decision in self
            .steps
            .iter_mut()
            .filter_map(|draft| draft.workloads.last_mut())
        {
            let by_rule = |none: &Unplaced| (none.rule.is_none(), none.rule.clone());
            decision.unplaced.sort_by_key(by_rule);
        }
        let last = self.rules.iter().rfind(|placing| placing.rule.replicas.is_some());
        if let Some(last) = last.map(|placing| placing.step) {
            self.remainder(workload, &totals, &fixed, last);
        }
    }

    /// Says of a workload that is divided once what was given before each cluster's part. First comes what steps that are
    /// `fixed` have given, what was lost of it included: nothing is given twice.
    fn order(&mut self, fixed: &[bool]) {
        let standing = self.steps.iter().zip(fixed).filter(|(_, fixed)| **fixed);
        let standing = || standing.clone().filter_map(|(draft, _)| draft.workloads.last());
        let sum = standing().map(given).fold(0, u32::saturating_add);
        let mut before = standing().map(end).fold(sum, u32::max);
        let open = self.steps.iter_mut().zip(fixed).filter(|(_, fixed)| !**fixed);
        let rows = open.filter_map(|(draft, _)| draft.workloads.last_mut());
        for row in rows.flat_map(|decision| &mut decision.clusters) {
            if !row.duplicate && row.replicas > 0 {
                row.before = Some(before);
                before = before.saturating_add(row.replicas);
            }
        }
    }

    /// Divides a workload over the rules of one step, in order.
    fn divisions(
        &self,
        workload: &Workload,
        step: usize,
        totals: &Totals,
        room: &mut Room,
    ) -> Vec<RuleDivision> {
        let (Some(of), Some(selection)) = (self.request.steps.get(step), self.selections.get(step)) else {
            return Vec::new();
        };
        let rules = self.rules.iter().zip(&totals.rules);
        let rules = rules.filter(|(placing, _)| placing.step == step);
        rules
            .zip(&selection.rules)
            .map(|((placing, total), clusters)| {
                let key = (of.name.to_owned(), workload.key.clone(), placing.name.clone());
                let input = RuleInput {
                    rule: placing.rule,
                    total: placing.rule.replicas.map_or(workload.replicas, |_| total.total),
                    clusters: &clusters.clusters,
                    weights: &clusters.weights,
                    previous: &self.history.of_rule(&key),
                    rebalance: of.spec.rebalance,
                    no_additional: &selection.no_additional,
                };
                divide_rule(&input, self.fleet, room)
            })
            .collect()
    }

    /// What the rules of the steps divide that are not `fixed`; those that are hold `held` in all.
    fn totals(&self, workload: &Workload, fixed: &[bool], held: u32) -> Totals {
        let claimant = |share, rule: Option<(&str, &str)>, fixed: bool| Claimant {
            share,
            previous: self.request.previous.seats(&workload.key, rule),
            hash: stable_hash(self.request.application, rule.map_or("", |(_, name)| name)),
            fixed,
        };
        let claimants: Vec<Claimant> = self
            .rules
            .iter()
            .map(|placing| {
                let step = self.request.steps.get(placing.step).map_or("", |step| step.name);
                let fixed = fixed.get(placing.step).copied().unwrap_or(false);
                claimant(placing.rule.replicas, Some((step, &placing.name)), fixed)
            })
            .collect();
        let remainder = claimant(None, None, false);
        totals(workload.replicas, &claimants, remainder, self.mode(), held)
    }

    /// Several placing steps share one remainder: it is spread only if all that divide say so.
    fn mode(&self) -> Remainder {
        let divides =
            |step: &&PlacingStep<'_>| step.spec.placement.iter().any(|rule| rule.replicas.is_some());
        let mut steps = self.request.steps.iter().filter(divides);
        match steps.all(|step| step.spec.remainder == Remainder::Spread) {
            true => Remainder::Spread,
            false => Remainder::Hold,
        }
    }

    /// The clusters that keep what a step gave them, because it stands.
    fn kept(&self, step: &str, workload: &Workload) -> BTreeSet<usize> {
        let steps = self.request.steps.iter().zip(self.selections);
        let of_step = steps.filter(|(placing, _)| placing.name == step);
        let rows = of_step.filter_map(|(_, selection)| {
            let standing = self.request.previous.standing(step, workload)?;
            Some(standing.clusters.iter().map(move |row| (row, selection)))
        });
        rows.flatten()
            .filter_map(|(row, selection)| usable(&row.name, selection, self.fleet))
            .collect()
    }

    /// For clusters that get nothing more: what they hold of the workload from rules that are gone or no longer match
    /// them. A renamed rule must not take replicas from a cluster that is out of reach.
    fn orphans(&self, workload: &Workload) -> BTreeMap<usize, u32> {
        let mut orphans = BTreeMap::new();
        let mut restricted = ClusterSet::none(self.fleet.len());
        self.selections
            .iter()
            .for_each(|s| restricted.extend(&s.no_additional));
        if self.history.is_empty() || restricted.len() == 0 {
            return orphans;
        }
        let mut kept_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for ((step, _, rule), counts) in self
            .history
            .assignments()
            .filter(|((_, key, _), _)| *key == workload.key)
        {
            let kept = kept_of
                .entry(step.as_str())
                .or_insert_with(|| self.kept(step, workload));
            let of_step = |placing: &Placing<'_>| {
                self.request.steps.get(placing.step).map(|s| s.name) == Some(step.as_str())
            };
            let rules = self
                .rules
                .iter()
                .zip(self.selections.iter().flat_map(|s| &s.rules));
            let current = rules
                .filter(|(placing, _)| placing.name == *rule)
                .find(|(placing, _)| of_step(placing));
            for (cluster, count) in
                counts.filter(|(cluster, count)| *count > 0 && restricted.contains(*cluster))
            {
                // What stands is its step's still: nobody else inherits it.
                if kept.contains(&cluster) {
                    continue;
                }
                if current.is_none_or(|(_, c)| c.clusters.binary_search(&cluster).is_err()) {
                    let sum: &mut u32 = orphans.entry(cluster).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
        }
        orphans
    }

    /// Reports what no rule claims, and other matters of the totals, with the last step that divides.
    fn remainder(&mut self, workload: &Workload, totals: &Totals, fixed: &[bool], last: usize) {
        let mode = self.mode();
        // What was reported when a step was divided once and for all may have changed hands.
        let kept = self.steps.iter_mut().zip(fixed).filter(|(_, fixed)| **fixed);
        for decision in kept.filter_map(|(draft, _)| draft.workloads.last_mut()) {
            decision.rules.retain(|rule| rule.rule.is_some());
            decision.unplaced.retain(|unplaced| unplaced.rule.is_some());
        }
        let names: Vec<&str> = self
            .request
            .steps
            .iter()
            .zip(fixed)
            .filter(|(_, fixed)| **fixed)
            .map(|(step, _)| step.name)
            .collect();
        let open = self.steps.iter_mut().zip(fixed).filter(|(_, fixed)| !**fixed);
        for decision in open.filter_map(|(draft, _)| draft.workloads.last_mut()) {
            let is_shrunk = |rule: &RuleTotal| rule.total < rule.seats;
            decision.overcommitted = totals.overcommitted && decision.rules.iter().any(is_shrunk);
        }
        let Some(draft) = self.steps.get_mut(last) else {
            return;
        };
        let unclaimed = totals.remainder.total;
        if let Some(decision) = draft.workloads.last_mut() {
            decision.rules.push(rule_total(None, None, &totals.remainder));
            if unclaimed > 0 {
                decision.unplaced.push(Unplaced {
                    rule: None,
                    count: unclaimed,
                    reason: "Unclaimed".to_owned(),
                });
            }
        }
        let open = |placing: &Placing<'_>| !fixed.get(placing.step).copied().unwrap_or(false);
        let rules = self.rules.iter().zip(&totals.rules);
        let rules: Vec<(&Placing<'_>, &Total)> = rules.filter(|(placing, _)| open(placing)).collect();
        reasons::of_totals(&mut draft.reasons, workload, &rules, totals, &names, mode);
    }

    fn finish(self) -> Vec<StepDecision> {
        let steps = self.request.steps.iter().zip(self.selections).zip(self.steps);
        steps
            .map(|((step, selection), mut draft)| {
                let members = members(self.request, selection, self.fleet, &draft.placed);
                let overridden = overrides::decide(step.spec, selection, &members, self.fleet);
                reasons::of_overrides(&mut draft.reasons, &overridden);
                let chosen = noted(step, selection, self.fleet, &draft.workloads, &members);
                StepDecision {
                    step: step.name.to_owned(),
                    chosen,
                    workloads: draft.workloads,
                    clusters: members
                        .list()
                        .into_iter()
                        .map(|c| self.fleet.shared_name(c))
                        .collect(),
                    excluded: selection.exclusions(),
                    satisfied: draft.satisfied && overridden.errors.is_empty(),
                    reasons: draft.reasons.into_lines(),
                    frozen_weights: Vec::new(),
                    overrides: overridden.overrides,
                    cluster_labels: overridden.labels,
                    override_errors: overridden.errors,
                }
            })
            .collect()
    }
}

/// What a step has ever given of a workload that is divided once.
fn given(decision: &WorkloadDecision) -> u32 {
    let lost = decision
        .unplaced
        .iter()
        .filter(|none| none.reason == DIVIDED_ONCE);
    lost.fold(decision.placed, |sum, none| sum.saturating_add(none.count))
}

/// Where the last part ends that a step still has of it.
fn end(decision: &WorkloadDecision) -> u32 {
    let ends = decision.clusters.iter();
    let ends = ends.filter_map(|row| Some(row.before?.saturating_add(row.replicas)));
    ends.max().unwrap_or(0)
}

/// What a step that is divided already claims of a workload: what it placed, and what its rules could not place.
fn claimed(decision: &WorkloadDecision) -> u32 {
    let left = decision
        .unplaced
        .iter()
        .filter(|unplaced| unplaced.rule.is_some());
    left.fold(decision.placed, |sum, unplaced| {
        sum.saturating_add(unplaced.count)
    })
}
