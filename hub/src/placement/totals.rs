//! Rule totals: how many of a workload's replicas each rule divides among its clusters.
//!
//! Percentages and, under `Hold`, the unclaimed remainder are parties to one Webster division over the rules of all
//! placing steps; counts are exact and come out of the remainder's seats.
//!
//! Architecture invariant: one replica more never takes one from a rule, shrunk rules included.

use super::{
    fraction::Fraction,
    ties::Tie,
    webster::{Party, divide},
};
use roundhouse_api::placement::{Remainder, ReplicaShare};

/// 100 %, in the unit of `Percent::milli`.
const WHOLE: u64 = 100_000;

/// What a rule, or the remainder, brings to the division.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimant {
    /// Its share; `None` gives every cluster the full count and claims nothing.
    pub(super) share: Option<ReplicaShare>,
    /// Its seats before.
    pub(super) previous: u32,
    /// Stable hash of its name.
    pub(super) hash: u64,
    /// Whether its step is divided already: then it claims nothing, and counts with what the step holds.
    pub(super) fixed: bool,
}

/// What a claimant gets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    /// Its exact share.
    pub(super) quota: Option<Fraction>,
    /// Seats before shrinking.
    pub(super) seats: u32,
    /// Seats after shrinking.
    pub(super) total: u32,
    /// What settled a tie.
    pub(super) tie: Option<Tie>,
}

/// The totals of one workload.
#[derive(Debug)]
pub(super) struct Totals {
    /// One per rule, in order.
    pub(super) rules: Vec<Total>,
    /// The remainder: its seats, and as total what of them no rule claims.
    pub(super) remainder: Total,
    /// Sum of the percentages, in thousandths of a percent.
    pub(super) percent: u64,
    /// What steps hold that are divided already.
    pub(super) held: u32,
    /// What the present rules of those steps would claim.
    pub(super) due: u64,
    /// Whether the present rules claim more than there is, whatever is held.
    pub(super) overcommitted: bool,
}

/// Divides `replicas` among the rules. `held` of them belong to steps that are divided already, whatever their rules say
/// now: the others share the rest, and what they cannot get of their seats they are shrunk by.
pub(super) fn totals(
    replicas: u32,
    rules: &[Claimant],
    remainder: Claimant,
    mode: Remainder,
    held: u32,
) -> Totals {
    let weight = |claimant: &Claimant| match claimant.share {
        Some(ReplicaShare::Percent(percent)) => percent.milli(),
        _ => 0,
    };
    let count = |claimant: &Claimant| match claimant.share {
        Some(ReplicaShare::Count(count)) => count,
        _ => 0,
    };
    let percent: u64 = rules.iter().map(|rule| u64::from(weight(rule))).sum();
    let counts: u64 = rules.iter().map(|rule| u64::from(count(rule))).sum();
    let all = u64::from(replicas);
    // What percentages and remainder divide, and what a whole is for them.
    let (shared, whole) = match mode {
        Remainder::Spread => (all.saturating_sub(counts), percent),
        Remainder::Hold if percent <= WHOLE => (all, WHOLE),
        // Refused by validation; here the rules get their rounded shares and are then shrunk.
        Remainder::Hold => ((all * percent + WHOLE / 2) / WHOLE, percent),
    };
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    let nobodys = u32::try_from(whole - percent).unwrap_or(0);
    let parties: Vec<Party> = rules
        .iter()
        .map(|rule| (weight(rule), rule))
        .chain([(nobodys, &remainder)])
        .map(|(weight, claimant)| Party {
            weight: u64::from(weight),
            min: 0,
            max: u32::MAX,
            previous: claimant.previous,
            hash: claimant.hash,
        })
        .collect();
    let division = divide(shared, &parties);
    let mut given: Vec<Total> = parties
        .iter()
        .zip(division.seats.iter().zip(&division.notes))
        .map(|(party, (seats, note))| Total {
            quota: Some(Fraction::share(shared, party.weight, u128::from(whole))),
            seats: *seats,
            total: *seats,
            tie: note.tie,
        })
        .collect();
    let mut unclaimed = given.pop().unwrap_or_default();
    for (rule, total) in rules.iter().zip(&mut given) {
        match rule.share {
            Some(ReplicaShare::Count(count)) => {
                total.quota = Some(Fraction::share(count, 1, 1));
                total.seats = count;
                total.total = count;
            }
            Some(ReplicaShare::Percent(_)) => {}
            None => *total = Total::default(),
        }
    }
    let (mut due, mut sum) = (0, 0);
    for (rule, total) in rules.iter().zip(&mut given) {
        sum += u64::from(total.seats);
        if rule.fixed {
            due += u64::from(total.seats);
            total.total = 0;
        }
    }
    let left = all.saturating_sub(u64::from(held));
    shrink(left, rules, &mut given);
    let claimed: u64 = given.iter().map(|total| u64::from(total.total)).sum();
    unclaimed.total = u32::try_from(left.saturating_sub(claimed)).unwrap_or(0);
    Totals {
        rules: given,
        remainder: unclaimed,
        percent,
        held,
        due,
        overcommitted: sum > all,
    }
}

/// Takes what exceeds `all` from the percentages, then from the counts, each in the order of the rules.
fn shrink(all: u64, rules: &[Claimant], given: &mut [Total]) {
    let claimed: u64 = given.iter().map(|total| u64::from(total.total)).sum();
    let mut excess = claimed.saturating_sub(all);
    for counts in [false, true] {
        for (rule, total) in rules.iter().zip(given.iter_mut()) {
            if matches!(rule.share, Some(ReplicaShare::Count(_))) == counts {
                let less = u32::try_from(excess).unwrap_or(u32::MAX).min(total.total);
                total.total -= less;
                excess -= u64::from(less);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::ties::stable_hash;

    /// Totals of the rules, then what no rule claims.
    fn check(replicas: u32, shares: &[&str], mode: Remainder, expected: &[u32]) {
        let claimant = |name: &str, share| Claimant {
            share,
            previous: 0,
            hash: stable_hash("default/web", name),
            fixed: false,
        };
        let rules: Vec<Claimant> = shares
            .iter()
            .map(|text| {
                let share = match text.parse() {
                    Ok(count) => ReplicaShare::Count(count),
                    Err(_) => ReplicaShare::Percent(text.parse().unwrap()),
                };
                claimant(text, Some(share))
            })
            .collect();
        let totals = totals(replicas, &rules, claimant("", None), mode, 0);
        let mut shown: Vec<u32> = totals.rules.iter().map(|total| total.total).collect();
        shown.push(totals.remainder.total);
        assert_eq!(shown, expected, "{replicas} over {shares:?}, {mode:?}");
    }

    #[test]
    fn known_values() {
        use Remainder::{Hold, Spread};
        check(10, &["70%", "20%"], Hold, &[7, 2, 1]);
        check(3, &["70%", "20%"], Hold, &[2, 1, 0]);
        check(10, &["70%", "20%"], Spread, &[8, 2, 0]);
        check(0, &["70%", "20%"], Hold, &[0, 0, 0]);
        check(10, &["0%", "100%"], Hold, &[0, 10, 0]);
        check(10, &["0%"], Spread, &[0, 10]);
        // Counts come out of the remainder's seats.
        check(10, &["70%", "2"], Hold, &[7, 2, 1]);
        check(10, &["70%", "3"], Hold, &[7, 3, 0]);
        check(10, &["2", "3"], Hold, &[2, 3, 5]);
        check(10, &["50%", "4"], Spread, &[6, 4, 0]);
        // Too much: percentages shrink in rule order, then counts.
        check(10, &["40%", "50%", "3"], Hold, &[2, 5, 3, 0]);
        check(10, &["10%", "90%", "3"], Hold, &[0, 7, 3, 0]);
        check(10, &["50%", "8", "4"], Hold, &[0, 6, 4, 0]);
        check(10, &["50%", "8", "4"], Spread, &[0, 6, 4, 0]);
        // Above 100 %: refused before, well defined here.
        check(10, &["70%", "60%"], Hold, &[4, 6, 0]);
    }
    /// Shares, which of them are divided already and hold how many; totals of the others, then what no rule claims.
    fn check_held(replicas: u32, shares: &[(&str, bool)], held: u32, expected: &[u32]) {
        let claimant = |share, fixed| Claimant {
            share,
            previous: 0,
            hash: 0,
            fixed,
        };
        let rules = shares.iter().map(|(text, fixed)| {
            let share = match text.parse() {
                Ok(count) => ReplicaShare::Count(count),
                Err(_) => ReplicaShare::Percent(text.parse().unwrap()),
            };
            claimant(Some(share), *fixed)
        });
        let rules: Vec<Claimant> = rules.collect();
        let totals = totals(replicas, &rules, claimant(None, false), Remainder::Hold, held);
        let others = rules.iter().zip(&totals.rules).filter(|(rule, _)| !rule.fixed);
        let mut shown: Vec<u32> = others.map(|(_, total)| total.total).collect();
        shown.push(totals.remainder.total);
        assert_eq!(shown, expected, "{replicas} over {shares:?}, {held} held");
    }

    #[test]
    fn what_is_divided_already_comes_first() {
        check_held(10, &[("70%", true), ("30%", false)], 7, &[3, 0]);
        // The shares have changed since: the others get what is left, and never more than they claim.
        check_held(10, &[("30%", true), ("70%", false)], 7, &[3, 0]);
        check_held(10, &[("70%", true), ("30%", false)], 3, &[3, 4]);
        check_held(
            10,
            &[("30%", true), ("30%", false), ("40%", false)],
            7,
            &[0, 3, 0],
        );
        check_held(10, &[("30%", true), ("3", false), ("40%", false)], 7, &[3, 0, 0]);
        // More than there is may be held from before.
        check_held(10, &[("30%", true), ("70%", false)], 12, &[0, 0]);
        check_held(10, &[("1", true), ("100%", false)], 1, &[9, 0]);
    }
}
