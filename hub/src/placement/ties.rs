//! The order in which claims are served, and what settles equal ones.
//!
//! Architecture invariant: the order is total and does not depend on how many replicas there are, so a division of N+1
//! is a division of N and one claim more.

use std::cmp::Ordering;

/// What settled a tie between equal claims, in the order in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// One party held this very seat before.
    AlreadyHeld,
    /// One party held more before.
    LargerPrevious,
    /// One party has fewer seats.
    FewerSeats,
    /// The stable hash.
    Hash,
}

impl Tie {
    /// As `Assignment.tie` says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Tie::AlreadyHeld => "AlreadyHeld",
            Tie::LargerPrevious => "LargerPrevious",
            Tie::FewerSeats => "FewerSeats",
            Tie::Hash => "Hash",
        }
    }
}

/// The claim of a party on its next seat: `weight / (2·seats + 1)` (Webster, Sainte-Laguë).
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// Weight of the party, above 0.
    pub(super) weight: u64,
    /// Seats that it has without the claimed one.
    pub(super) seats: u32,
    /// Seats that it had before.
    pub(super) previous: u32,
    /// Stable hash of the party.
    pub(super) hash: u64,
    /// Place of the party in its list.
    pub(super) index: usize,
}

impl Claim {
    /// `Less` if this claim is larger, and so served first; exact, by cross multiplication.
    pub(super) fn by_size(&self, other: &Claim) -> Ordering {
        // The common case.
        if (self.weight, self.seats) == (other.weight, other.seats) {
            return Ordering::Equal;
        }
        let cross = |weight: u64, seats: u32| u128::from(weight) * u128::from(2 * u64::from(seats) + 1);
        cross(other.weight, self.seats).cmp(&cross(self.weight, other.seats))
    }

    /// Settles two claims of equal size: `Less` is served first.
    pub(super) fn by_tie(&self, other: &Claim) -> (Ordering, Tie) {
        let held = |claim: &Claim| claim.seats < claim.previous;
        let by_held = held(other).cmp(&held(self));
        if by_held.is_ne() {
            return (by_held, Tie::AlreadyHeld);
        }
        let by_previous = other.previous.cmp(&self.previous);
        if by_previous.is_ne() {
            return (by_previous, Tie::LargerPrevious);
        }
        let by_seats = self.seats.cmp(&other.seats);
        if by_seats.is_ne() {
            return (by_seats, Tie::FewerSeats);
        }
        let by_hash = self.hash.cmp(&other.hash);
        (by_hash.then(self.index.cmp(&other.index)), Tie::Hash)
    }
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        self.by_size(other).then_with(|| self.by_tie(other).0)
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Claim {}

/// The hash that settles what nothing else does: 64-bit FNV-1a of the application, a zero byte and the name of the
/// cluster or rule, mixed by the finalizer of MurmurHash3 so that similar names do not stay neighbours.
///
/// It seeds decisions that are stored: it never changes.
pub(super) fn stable_hash(application: &str, name: &str) -> u64 {
    Seed::of(application).hash(name)
}

/// The part of the hash that all names of an application share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(u64);

impl Seed {
    /// Hashes the application and the zero byte.
    pub(super) fn of(application: &str) -> Seed {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        Seed(OFFSET).and(application).and("\0")
    }

    /// [`stable_hash`] of a name.
    pub(super) fn hash(self, name: &str) -> u64 {
        let mut hash = self.and(name).0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }

    fn and(self, text: &str) -> Seed {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        Seed(text.bytes().fold(self.0, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(stable_hash("default/web", "c1"), 0xa23f87a6a932eab);
        assert_eq!(stable_hash("default/web", "c2"), 0xef10389952581450);
        assert_ne!(stable_hash("a", "bc"), stable_hash("ab", "c"));
    }

    #[test]
    fn ties_are_settled_in_order() {
        let claim = |weight, seats, previous, hash| Claim {
            weight,
            seats,
            previous,
            hash,
            index: 0,
        };
        for (winner, loser, tie) in [
            (claim(1, 0, 1, 9), claim(3, 1, 1, 0), Tie::AlreadyHeld),
            (claim(3, 1, 1, 9), claim(1, 0, 0, 0), Tie::LargerPrevious),
            (claim(1, 0, 0, 9), claim(3, 1, 0, 0), Tie::FewerSeats),
            (claim(1, 0, 0, 1), claim(1, 0, 0, 2), Tie::Hash),
        ] {
            assert!(winner.by_size(&loser).is_eq());
            assert_eq!(winner.by_tie(&loser), (Ordering::Less, tie));
            assert!(winner < loser);
        }
        assert!(claim(2, 0, 0, 9) < claim(1, 0, 5, 0), "size goes before ties");
    }
}
