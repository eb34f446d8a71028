//! Bounded Webster (Sainte-Laguë): the division in which seats follow `round(λ·weight)` clamped to bounds.
//!
//! Architecture invariant: exact integers only, and no step whose cost depends on the number of seats. The same result
//! as handing out seats one at a time, from the minimums, to the largest `weight / (2·seats + 1)` below its maximum;
//! the tests hold that definition against it.

use super::{
    cut::{Note, notes},
    ties::Claim,
};
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// A party to a division: a cluster inside a rule, or a rule among rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Party {
    /// Weight; 0 gets only the minimum.
    pub(super) weight: u64,
    /// At least this many seats; a minimum above the maximum counts as the maximum.
    pub(super) min: u32,
    /// At most this many seats.
    pub(super) max: u32,
    /// Seats held before, for ties.
    pub(super) previous: u32,
    /// Stable hash, for ties.
    pub(super) hash: u64,
}

impl Party {
    /// The minimum that holds.
    pub(super) fn low(&self) -> u32 {
        self.min.min(self.max)
    }

    /// The claim on the seat after the first `seats`.
    pub(super) fn claim(&self, index: usize, seats: u32) -> Claim {
        Claim {
            weight: self.weight,
            seats,
            previous: self.previous,
            hash: self.hash,
            index,
        }
    }
}

/// A finished division.
#[derive(Debug, Clone, Default)]
pub(super) struct Division {
    /// Seats of each party, in the order of the parties.
    pub(super) seats: Vec<u32>,
    /// Seats that no party can take.
    pub(super) unplaced: u32,
    /// Whether the total is below the sum of the minimums, so that these were shrunk.
    pub(super) minimums_shrunk: bool,
    /// What held and what settled ties, in the order of the parties.
    pub(super) notes: Vec<Note>,
}

/// Divides `total` seats. If the minimums sum to more, they shrink by the same method, with themselves as weights.
pub(super) fn divide(total: u32, parties: &[Party]) -> Division {
    let minimums: u64 = parties.iter().map(|p| u64::from(p.low())).sum();
    if minimums <= u64::from(total) {
        return above_minimums(total, minimums, parties);
    }
    let by_minimum: Vec<Party> = parties
        .iter()
        .map(|p| Party {
            // Not the lowered minimum: what a cluster that gets nothing more keeps must not depend on its bound.
            weight: u64::from(p.min),
            min: 0,
            max: p.low(),
            ..*p
        })
        .collect();
    let mut division = above_minimums(total, 0, &by_minimum);
    division.minimums_shrunk = true;
    for (note, party) in division.notes.iter_mut().zip(&by_minimum) {
        note.bound = (party.max > 0).then_some(super::cut::Bound::Min);
    }
    division
}

fn above_minimums(total: u32, minimums: u64, parties: &[Party]) -> Division {
    let left = u64::from(total) - minimums;
    let room: u64 = parties
        .iter()
        .filter(|p| p.weight > 0)
        .map(|p| u64::from(p.max - p.low()))
        .sum();
    let (seats, unplaced) = if left >= room {
        let full = |p: &Party| if p.weight > 0 { p.max } else { p.low() };
        (parties.iter().map(full).collect(), left - room)
    } else if left == 0 {
        (parties.iter().map(Party::low).collect(), 0)
    } else {
        (rounded_and_fixed(total, parties), 0)
    };
    let unplaced = u32::try_from(unplaced).unwrap_or(total);
    Division {
        notes: notes(parties, &seats, unplaced),
        seats,
        unplaced,
        minimums_shrunk: false,
    }
}

/// Rounds the shares at the water level, then moves the few seats by which rounding missed the total.
fn rounded_and_fixed(total: u32, parties: &[Party]) -> Vec<u32> {
    let level = Level::of(total, parties);
    let mut seats: Vec<u32> = parties.iter().map(|party| level.rounded(party)).collect();
    let sum: u64 = seats.iter().map(|s| u64::from(*s)).sum();
    let total = u64::from(total);
    let claims = parties.iter().zip(&seats).enumerate();
    let claims = claims.filter(|(_, (party, _))| party.weight > 0);
    match sum.cmp(&total) {
        Ordering::Equal => {}
        Ordering::Less => {
            let open = |index: usize, has: u32| {
                let party = parties.get(index).filter(|party| has < party.max);
                party.map(|party| Reverse(party.claim(index, has)))
            };
            let mut first = Vec::with_capacity(parties.len());
            first.extend(claims.filter_map(|(index, (_, has))| open(index, *has)));
            let next = |Reverse(claim): &Reverse<Claim>| open(claim.index, claim.seats + 1);
            serve(first, total - sum, next, |Reverse(claim)| {
                if let Some(has) = seats.get_mut(claim.index) {
                    *has = claim.seats + 1;
                }
            });
        }
        Ordering::Greater => {
            let served = |index: usize, has: u32| {
                let party = parties.get(index).filter(|party| has > party.low());
                party.map(|party| party.claim(index, has - 1))
            };
            let mut first = Vec::with_capacity(parties.len());
            first.extend(claims.filter_map(|(index, (_, has))| served(index, *has)));
            let next = |claim: &Claim| served(claim.index, claim.seats);
            serve(first, sum - total, next, |claim| {
                if let Some(has) = seats.get_mut(claim.index) {
                    *has = claim.seats;
                }
            });
        }
    }
    seats
}

/// Takes the `count` greatest claims, of which each brings up the `next` one of its party.
fn serve<C: Ord>(mut claims: Vec<C>, count: u64, next: impl Fn(&C) -> Option<C>, mut take: impl FnMut(&C)) {
    let places = usize::try_from(count).unwrap_or(usize::MAX);
    if places < claims.len() {
        // All others come after these, and so after whatever is taken.
        claims.select_nth_unstable_by(places, |a, b| b.cmp(a));
        claims.truncate(places);
    }
    let last = claims.iter().min();
    let is_later = |next: C| last.is_some_and(|last| next < *last);
    if claims.len() == places && claims.iter().filter_map(&next).all(is_later) {
        // The common case: one seat for each of them.
        claims.iter().for_each(take);
        return;
    }
    let mut claims = BinaryHeap::from(claims);
    for _ in 0..count {
        let Some(claim) = claims.pop() else { break };
        take(&claim);
        claims.extend(next(&claim));
    }
}

/// The λ at which the clamped, unrounded shares sum to the total, as a fraction.
#[derive(Debug, Clone, Copy)]
struct Level {
    over: u128,
    under: u128,
}

impl Level {
    /// `clamp(round(λ·weight), min, max)`; halves go up, which is a prefix of the order of claims like any rounding.
    fn rounded(self, party: &Party) -> u32 {
        if party.weight == 0 {
            return party.low();
        }
        let share = (2 * self.over * u128::from(party.weight) + self.under) / (2 * self.under);
        u32::try_from(share)
            .unwrap_or(u32::MAX)
            .clamp(party.low(), party.max)
    }

    /// O(k) where no bound holds, else O(k log k).
    fn of(total: u32, parties: &[Party]) -> Level {
        let weights: u128 = parties.iter().map(|p| u128::from(p.weight)).sum();
        let fixed: u64 = parties
            .iter()
            .filter(|p| p.weight == 0)
            .map(|p| u64::from(p.low()))
            .sum();
        let over = u128::from(u64::from(total).saturating_sub(fixed));
        let under = weights;
        let inside = |p: &Party| {
            let share = over * u128::from(p.weight);
            p.weight == 0 || (u128::from(p.low()) * under <= share && share <= u128::from(p.max) * under)
        };
        if weights > 0 && parties.iter().all(inside) {
            Level { over, under }
        } else {
            Level::swept(total, parties)
        }
    }

    /// Raises λ from 0 past the points at which parties leave their minimum and reach their maximum, until the sum
    /// of the shares, a line between two such points, reaches the total.
    fn swept(total: u32, parties: &[Party]) -> Level {
        struct Turn<'a> {
            seats: u32,
            party: &'a Party,
            leaves_minimum: bool,
        }
        let mut turns: Vec<Turn<'_>> = parties
            .iter()
            .filter(|p| p.weight > 0 && p.low() < p.max)
            .flat_map(|party| {
                let turn = |seats, leaves_minimum| Turn {
                    seats,
                    party,
                    leaves_minimum,
                };
                // No share exceeds the total.
                [turn(party.low(), true), turn(party.max.min(total), false)]
            })
            .collect();
        let cross = |a: &Turn<'_>, b: &Turn<'_>| u128::from(a.seats) * u128::from(b.party.weight);
        turns.sort_unstable_by(|a, b| cross(a, b).cmp(&cross(b, a)));
        let mut constant: i128 = parties.iter().map(|p| i128::from(p.low())).sum();
        let mut slope: i128 = 0;
        for turn in &turns {
            let missing = i128::from(total) - constant;
            if slope > 0 && slope * i128::from(turn.seats) >= missing * i128::from(turn.party.weight) {
                break;
            }
            let sign = if turn.leaves_minimum { 1 } else { -1 };
            slope += sign * i128::from(turn.party.weight);
            constant -= sign * i128::from(turn.seats);
        }
        let over = u128::try_from(i128::from(total) - constant).unwrap_or(0);
        match u128::try_from(slope) {
            Ok(under) if under > 0 => Level { over, under },
            _ => Level { over: 0, under: 1 },
        }
    }
}
