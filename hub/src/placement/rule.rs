//! Inside a rule: its total divided among its clusters.
//!
//! Architecture invariant: capacity, maxima and lost contact bound what a cluster gets; what does not fit is counted as
//! unplaced, never lost and never an error.

use super::{
    cut::{Bound, notes},
    fleet::{Fleet, look_up},
    fraction::Fraction,
    labels::ClusterSet,
    room::Room,
    ties::Tie,
    webster::{Party, divide},
};
use roundhouse_api::{
    placement::{Rebalance, Rule},
    shared::SharedStr,
};

/// What decided how much a cluster gets, besides its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// `perCluster.min`.
    Min,
    /// `perCluster.max`.
    Max,
    /// The capacity that it reports, less what rules and workloads before took.
    Capacity,
    /// A weight of 0, which gets only the minimum.
    ZeroWeight,
    /// It keeps what it has and gets nothing more.
    NoAdditional,
}

impl Limit {
    /// As `Assignment.bound` says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Limit::Min => "Min",
            Limit::Max => "Max",
            Limit::Capacity => "Capacity",
            Limit::ZeroWeight => "ZeroWeight",
            Limit::NoAdditional => "NoAdditional",
        }
    }
}

/// One rule and what it divides.
#[derive(Debug)]
pub(super) struct RuleInput<'a> {
    /// The rule.
    pub(super) rule: &'a Rule,
    /// What it divides; for a duplicate rule, what each cluster gets.
    pub(super) total: u32,
    /// Its clusters, ascending.
    pub(super) clusters: &'a [usize],
    /// Their weights.
    pub(super) weights: &'a [u64],
    /// What clusters had from it, ascending.
    pub(super) previous: &'a [(usize, u32)],
    /// Whether what they had may move.
    pub(super) rebalance: Rebalance,
    /// Clusters that keep what they have and get nothing more.
    pub(super) no_additional: &'a ClusterSet,
}

/// What one cluster gets.
#[derive(Debug)]
pub(super) struct Row {
    /// The cluster.
    pub(super) cluster: usize,
    /// Its replicas.
    pub(super) replicas: u32,
    /// Its exact share of the total.
    pub(super) quota: Option<SharedStr>,
    /// The bound that held.
    pub(super) bound: Option<Limit>,
    /// What it had.
    pub(super) previous: Option<u32>,
    /// What settled a tie.
    pub(super) tie: Option<Tie>,
}

/// What a rule's clusters get.
#[derive(Debug, Default)]
pub(super) struct RuleDivision {
    /// One row per cluster, in the order of the clusters.
    pub(super) rows: Vec<Row>,
    /// What found no place; for a duplicate rule, what the clusters lack of the full count.
    pub(super) unplaced: u64,
    /// Whether the minimums were shrunk to the total.
    pub(super) minimums_shrunk: bool,
    /// Replicas that a fresh division would move, under `rebalance: Never`.
    pub(super) kept: u64,
    /// The rule gives every cluster the full count.
    pub(super) duplicate: bool,
}

/// The clusters of a rule as its division sees them, in their order.
struct Places {
    parties: Vec<Party>,
    /// What bounds each from above, if anything does; of equal bounds, the first.
    limits: Vec<Option<Limit>>,
    /// What each had.
    previous: Vec<Option<u32>>,
}

/// Divides a rule's total among its clusters, or gives each the full count if the rule has no share.
pub(super) fn divide_rule(input: &RuleInput<'_>, fleet: &Fleet<'_>, room: &mut Room) -> RuleDivision {
    let places = places(input, fleet, room);
    let result = if input.rule.replicas.is_some() {
        divided(input, &places)
    } else {
        duplicated(input, &places)
    };
    for row in &result.rows {
        room.give(row.cluster, row.replicas, input.rule.replicas.is_none());
        room.orphans.remove(&row.cluster);
    }
    result
}

fn places(input: &RuleInput<'_>, fleet: &Fleet<'_>, room: &Room) -> Places {
    let bounds = input.rule.per_cluster.unwrap_or_default();
    let duplicate = input.rule.replicas.is_none();
    let previous: Vec<Option<u32>> = look_up(input.clusters, input.previous).collect();
    let mut limits = Vec::with_capacity(input.clusters.len());
    let facts = input.clusters.iter().zip(input.weights).zip(&previous);
    let parties = facts.map(|((cluster, weight), previous)| {
        let held = previous.unwrap_or(0);
        let mut limit = bounds.max.map_or((u32::MAX, None), |max| (max, Some(Limit::Max)));
        let mut bound = |value: u32, kind: Limit| {
            if value < limit.0 {
                limit = (value, Some(kind));
            }
        };
        if let Some(left) = room.left(*cluster, duplicate) {
            bound(left, Limit::Capacity);
        }
        if input.no_additional.contains(*cluster) {
            let orphans = room.orphans.get(cluster).copied().unwrap_or(0);
            bound(held.saturating_add(orphans), Limit::NoAdditional);
        }
        limits.push(limit.1);
        Party {
            weight: *weight,
            min: bounds.min.unwrap_or(0),
            max: limit.0,
            previous: held,
            hash: fleet.hash(*cluster),
        }
    });
    Places {
        parties: parties.collect(),
        limits,
        previous,
    }
}

fn divided(input: &RuleInput<'_>, places: &Places) -> RuleDivision {
    let parties = &places.parties;
    let mut division = divide(input.total, parties);
    let mut kept = 0;
    if input.rebalance == Rebalance::Never {
        let sticky = divide(input.total, &around_previous(input.total, parties)).seats;
        kept = moved(&division.seats, &sticky);
        if !division.minimums_shrunk {
            // By the rule's own bounds: what was kept is no bound that anyone set.
            division.notes = notes(parties, &sticky, division.unplaced);
        }
        division.seats = sticky;
    }
    let whole: u128 = parties.iter().map(|party| u128::from(party.weight)).sum();
    let mut quotas = Quotas::new(input.total, whole);
    let outcomes = division.seats.iter().zip(&division.notes);
    let clusters = input.clusters.iter().zip(&places.limits).zip(&places.previous);
    let rows = clusters.zip(parties).zip(outcomes);
    let rows = rows.map(|((((cluster, limit), previous), party), (replicas, note))| Row {
        cluster: *cluster,
        replicas: *replicas,
        quota: Some(quotas.of(party.weight)),
        bound: match note.bound {
            _ if party.weight == 0 => Some(Limit::ZeroWeight),
            Some(Bound::Max) => *limit,
            Some(Bound::Min) => Some(Limit::Min),
            None => None,
        },
        previous: *previous,
        tie: note.tie,
    });
    let rows = rows.collect();
    RuleDivision {
        rows,
        unplaced: u64::from(division.unplaced),
        minimums_shrunk: division.minimums_shrunk,
        kept,
        duplicate: false,
    }
}

/// Bounds under which assignments only grow, or only shrink, from what they were.
fn around_previous(total: u32, parties: &[Party]) -> Vec<Party> {
    let kept = |party: &Party| match party.weight {
        0 => party.low(),
        _ => party.previous.clamp(party.low(), party.max),
    };
    let sum: u64 = parties.iter().map(|party| u64::from(kept(party))).sum();
    let grows = u64::from(total) >= sum;
    let bounded = |party: &Party| match grows {
        true => Party {
            min: kept(party),
            ..*party
        },
        false => Party {
            max: kept(party),
            ..*party
        },
    };
    parties.iter().map(bounded).collect()
}

/// Replicas that would change clusters between two divisions of one total.
fn moved(fresh: &[u32], sticky: &[u32]) -> u64 {
    let pairs = fresh.iter().zip(sticky);
    pairs
        .map(|(fresh, sticky)| u64::from(fresh.saturating_sub(*sticky)))
        .sum()
}

fn duplicated(input: &RuleInput<'_>, places: &Places) -> RuleDivision {
    let count = input.total;
    let clusters = input.clusters.iter().zip(&places.parties);
    let rows = clusters.zip(&places.limits).zip(&places.previous);
    let rows = rows.map(|(((cluster, party), limit), previous)| {
        let replicas = count.min(party.max);
        Row {
            cluster: *cluster,
            replicas,
            quota: None,
            bound: limit.filter(|_| replicas < count),
            previous: *previous,
            tie: None,
        }
    });
    let rows: Vec<Row> = rows.collect();
    let unplaced = rows.iter().map(|row| u64::from(count - row.replicas)).sum();
    RuleDivision {
        rows,
        unplaced,
        duplicate: true,
        ..RuleDivision::default()
    }
}

/// Quotas by weight; clusters of equal weight, the common case, share one computation.
struct Quotas {
    total: u32,
    whole: u128,
    last: Option<(u64, SharedStr)>,
}

impl Quotas {
    fn new(total: u32, whole: u128) -> Self {
        Quotas {
            total,
            whole,
            last: None,
        }
    }

    fn of(&mut self, weight: u64) -> SharedStr {
        if let Some((_, quota)) = self.last.as_ref().filter(|(last, _)| *last == weight) {
            return quota.clone();
        }
        let quota = Fraction::share(self.total, weight, self.whole).to_string();
        let quota = SharedStr::from(quota);
        self.last = Some((weight, quota.clone()));
        quota
    }
}
