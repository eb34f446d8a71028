//! What a division says about itself: which bounds held, and what settled the ties at its last seat.

use super::{
    ties::{Claim, Tie},
    webster::Party,
};

/// The bound that decided a party's seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// It has its minimum, and would have less without it.
    Min,
    /// It has its maximum, and would have more without it.
    Max,
}

/// What there is to say of one party.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// The bound that held.
    pub(super) bound: Option<Bound>,
    /// What settled the tie for the last seat, for those who won and those who lost it.
    pub(super) tie: Option<Tie>,
}

/// The notes on a finished division.
pub(super) fn notes(parties: &[Party], seats: &[u32], unplaced: u32) -> Vec<Note> {
    let weighty = || {
        parties
            .iter()
            .enumerate()
            .zip(seats)
            .filter(|((_, p), _)| p.weight > 0)
    };
    // The last claim that was served and the first that was not.
    let last = weighty()
        .filter(|((_, p), s)| **s > p.low())
        .map(|((i, p), s)| p.claim(i, s - 1))
        .max();
    let first = weighty()
        .filter(|((_, p), s)| **s < p.max)
        .map(|((i, p), s)| p.claim(i, *s))
        .min();
    parties
        .iter()
        .enumerate()
        .zip(seats)
        .map(|((index, party), seats)| note(party, index, *seats, unplaced, last.as_ref(), first.as_ref()))
        .collect()
}

fn note(
    party: &Party,
    index: usize,
    seats: u32,
    unplaced: u32,
    last: Option<&Claim>,
    first: Option<&Claim>,
) -> Note {
    if party.weight == 0 {
        return Note::default();
    }
    let won = (seats > party.low()).then(|| party.claim(index, seats.saturating_sub(1)));
    let lost = (seats < party.max).then(|| party.claim(index, seats));
    let tie = last
        .zip(first)
        .filter(|(last, first)| last.by_size(first).is_eq());
    let tie = tie.and_then(|(last, first)| {
        let winner = won.as_ref().filter(|claim| claim.by_size(first).is_eq());
        let loser = lost.as_ref().filter(|claim| claim.by_size(last).is_eq());
        winner
            .map(|claim| claim.by_tie(first).1)
            .or_else(|| loser.map(|claim| last.by_tie(claim).1))
    });
    let wants_more = unplaced > 0 || last.is_some_and(|last| party.claim(index, seats).by_size(last).is_lt());
    let held_up =
        seats > 0 && first.is_some_and(|first| first.by_size(&party.claim(index, seats - 1)).is_lt());
    let bound = if seats == party.max && wants_more {
        Some(Bound::Max)
    } else if won.is_none() && held_up {
        Some(Bound::Min)
    } else {
        None
    };
    Note { bound, tie }
}
