//! Exact fractions, for quotas.

use std::fmt;

/// A fraction of non-negative integers; the denominator is above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    over: u64,
    under: u64,
}

impl Fraction {
    /// `over / under`, reduced; 0 if `under` is 0.
    pub(super) fn new(over: u64, under: u64) -> Self {
        if under == 0 {
            return Fraction { over: 0, under: 1 };
        }
        let (mut a, mut b) = (over, under);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Fraction {
            over: over / a,
            under: under / a,
        }
    }

    /// Whether the seats differ from it by 1 or more, that is by more than rounding.
    pub(super) fn is_missed_by(self, seats: u32) -> bool {
        let seats = u128::from(seats) * u128::from(self.under);
        seats.abs_diff(u128::from(self.over)) >= u128::from(self.under)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.under {
            1 => write!(f, "{}", self.over),
            under => write!(f, "{}/{under}", self.over),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_reduced() {
        for (over, under, shown) in [
            (7, 3, "7/3"),
            (14, 6, "7/3"),
            (12, 4, "3"),
            (0, 5, "0"),
            (3, 0, "0"),
        ] {
            assert_eq!(Fraction::new(over, under).to_string(), shown);
        }
    }

    #[test]
    fn rounding_does_not_miss_a_quota() {
        let quota = Fraction::new(7, 3);
        let missed: Vec<u32> = (0..6).filter(|seats| quota.is_missed_by(*seats)).collect();
        assert_eq!(missed, [0, 1, 4, 5]);
        assert!(Fraction::new(2, 1).is_missed_by(3) && !Fraction::new(2, 1).is_missed_by(2));
    }
}
