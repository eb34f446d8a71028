//! Properties of one division.

use super::{definition::seat_by_seat, runs};
use crate::placement::webster::{Party, divide};
use proptest::prelude::*;

fn party() -> impl Strategy<Value = Party> {
    let max = prop_oneof![2 => Just(u32::MAX), 1 => 0..9u32];
    let min = prop_oneof![2 => Just(0), 1 => 0..6u32];
    (0..9u64, min, max, 0..7u32, 0..4u64).prop_map(|(weight, min, max, previous, hash)| Party {
        weight,
        min,
        max,
        previous,
        hash,
    })
}

fn parties() -> impl Strategy<Value = Vec<Party>> {
    prop::collection::vec(party(), 1..7)
}

/// Weights and bounds of any size, where handing out seats one at a time would take for ever.
fn large() -> impl Strategy<Value = Vec<Party>> {
    let max = prop_oneof![2 => Just(u32::MAX), 1 => any::<u32>()];
    let min = prop_oneof![2 => Just(0), 1 => 0..40_000_000u32];
    let weight = prop_oneof![1 => Just(0), 4 => any::<u64>(), 4 => 1..100u64];
    let party =
        (weight, min, max, any::<u32>(), any::<u64>()).prop_map(|(weight, min, max, previous, hash)| Party {
            weight,
            min,
            max,
            previous,
            hash,
        });
    prop::collection::vec(party, 1..40)
}

fn low(party: &Party) -> u32 {
    party.min.min(party.max)
}

proptest! {
    #![proptest_config(runs())]

    #[test]
    fn equals_the_definition(total in 0..60u32, parties in parties()) {
        let division = divide(total, &parties);
        let (seats, unplaced) = seat_by_seat(total, &parties);
        prop_assert_eq!(division.seats, seats);
        prop_assert_eq!(division.unplaced, unplaced);
    }

    #[test]
    fn nothing_is_lost_and_bounds_hold(total: u32, parties in large()) {
        let division = divide(total, &parties);
        let sum: u64 = division.seats.iter().map(|s| u64::from(*s)).sum();
        prop_assert_eq!(sum + u64::from(division.unplaced), u64::from(total));
        for (party, seats) in parties.iter().zip(&division.seats) {
            prop_assert!(*seats <= party.max);
            prop_assert!(division.minimums_shrunk || *seats >= low(party));
            prop_assert!(party.weight > 0 || *seats <= low(party));
        }
    }

    /// The first claim that was not served comes after the last that was: with the bounds, that is the definition.
    #[test]
    fn large_divisions_are_in_the_order_of_claims(total: u32, parties in large()) {
        let division = divide(total, &parties);
        if division.minimums_shrunk {
            return Ok(());
        }
        let open = || parties.iter().zip(&division.seats).enumerate().filter(|(_, (p, _))| p.weight > 0);
        let served = open().filter(|(_, (p, s))| **s > low(p)).map(|(i, (p, s))| p.claim(i, s - 1)).max();
        let refused = open().filter(|(_, (p, s))| **s < p.max).map(|(i, (p, s))| p.claim(i, *s)).min();
        if let (Some(served), Some(refused)) = (served, refused) {
            prop_assert!(served < refused);
        }
        prop_assert!(division.unplaced == 0 || refused.is_none());
    }

    #[test]
    fn one_seat_more_takes_none_away(total in 0..u32::MAX, parties in large(), small in parties()) {
        for (total, parties) in [(total, parties), (total % 50, small)] {
            let (before, after) = (divide(total, &parties), divide(total + 1, &parties));
            for (before, after) in before.seats.iter().zip(&after.seats) {
                prop_assert!(after >= before);
            }
        }
    }

    #[test]
    fn a_larger_weight_only_draws_towards_itself(
        total in 0..60u32, parties in parties(), index: prop::sample::Index, more in 1..9u32,
    ) {
        let raised = index.index(parties.len());
        let mut heavier = parties.clone();
        heavier[raised].weight += u64::from(more);
        let (before, after) = (divide(total, &parties), divide(total, &heavier));
        for (index, (before, after)) in before.seats.iter().zip(&after.seats).enumerate() {
            let towards = if index == raised { after >= before } else { after <= before };
            prop_assert!(towards);
        }
    }

    #[test]
    fn a_party_that_goes_takes_from_nobody(total in 0..60u32, parties in parties(), index: prop::sample::Index) {
        let gone = index.index(parties.len());
        let mut fewer = parties.clone();
        fewer.remove(gone);
        let (mut before, after) = (divide(total, &parties), divide(total, &fewer));
        before.seats.remove(gone);
        for (before, after) in before.seats.iter().zip(&after.seats) {
            prop_assert!(after >= before);
        }
    }

    #[test]
    fn only_the_ratio_of_weights_counts(total in 0..60u32, parties in parties(), factor in 1..1000u64) {
        let scaled: Vec<Party> =
            parties.iter().map(|p| Party { weight: p.weight * factor, ..*p }).collect();
        prop_assert_eq!(divide(total, &parties).seats, divide(total, &scaled).seats);
    }

    #[test]
    fn the_order_of_parties_does_not_count(total in 0..60u32, parties in parties()) {
        // Distinct hashes, as clusters have.
        let mut parties: Vec<Party> =
            parties.iter().zip(10..).map(|(p, i)| Party { hash: p.hash * 100 + i, ..*p }).collect();
        let mut forth = divide(total, &parties).seats;
        parties.reverse();
        forth.reverse();
        prop_assert_eq!(divide(total, &parties).seats, forth);
    }

    #[test]
    fn what_was_given_stays(total in 0..60u32, parties in parties()) {
        let first = divide(total, &parties);
        let held: Vec<Party> =
            parties.iter().zip(&first.seats).map(|(p, s)| Party { previous: *s, ..*p }).collect();
        prop_assert_eq!(divide(total, &held).seats, first.seats);
    }
}
