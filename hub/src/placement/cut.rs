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
    let cut = Cut::new(parties, seats, unplaced);
    let parties = parties.iter().enumerate().zip(seats);
    parties
        .map(|((index, party), seats)| match party.weight {
            0 => Note::default(),
            _ => Note {
                bound: cut.bound(party, index, *seats),
                tie: cut.tie(party, index, *seats),
            },
        })
        .collect()
}

/// Where a division ends.
struct Cut {
    /// The last claim that was served.
    last: Option<Claim>,
    /// The first that was not.
    first: Option<Claim>,
    /// Both, if they are of one size.
    tied: Option<(Claim, Claim)>,
    unplaced: u32,
}

impl Cut {
    fn new(parties: &[Party], seats: &[u32], unplaced: u32) -> Self {
        let (mut last, mut first): (Option<Claim>, Option<Claim>) = (None, None);
        for (index, (party, seats)) in parties.iter().zip(seats).enumerate() {
            if party.weight > 0 && *seats > party.low() {
                let served = party.claim(index, seats - 1);
                if last.is_none_or(|last| served > last) {
                    last = Some(served);
                }
            }
            if party.weight > 0 && *seats < party.max {
                let open = party.claim(index, *seats);
                if first.is_none_or(|first| open < first) {
                    first = Some(open);
                }
            }
        }
        let both = last.zip(first);
        Cut {
            last,
            first,
            tied: both.filter(|(last, first)| last.by_size(first).is_eq()),
            unplaced,
        }
    }

    /// What settled the tie for the last seat, if the party took part in it.
    fn tie(&self, party: &Party, index: usize, seats: u32) -> Option<Tie> {
        let (last, first) = self.tied.as_ref()?;
        let won = (seats > party.low()).then(|| party.claim(index, seats - 1));
        if let Some(won) = won.filter(|won| won.by_size(first).is_eq()) {
            return Some(won.by_tie(first).1);
        }
        let lost = (seats < party.max).then(|| party.claim(index, seats));
        let lost = lost.filter(|lost| lost.by_size(last).is_eq());
        lost.map(|lost| last.by_tie(&lost).1)
    }

    fn bound(&self, party: &Party, index: usize, seats: u32) -> Option<Bound> {
        let wants_more = || {
            let last = self.last.as_ref();
            self.unplaced > 0 || last.is_some_and(|last| party.claim(index, seats).by_size(last).is_lt())
        };
        let held_up = || {
            let first = self.first.as_ref();
            first.is_some_and(|first| first.by_size(&party.claim(index, seats - 1)).is_lt())
        };
        if seats == party.max && wants_more() {
            Some(Bound::Max)
        } else if seats > 0 && seats <= party.low() && held_up() {
            Some(Bound::Min)
        } else {
            None
        }
    }
}
