//! Exact fractions, for quotas.

use std::fmt;

/// A fraction of non-negative integers; the denominator is above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    over: u128,
    under: u128,
}

impl Fraction {
    /// `seats · weight / whole`, reduced; 0 if `whole` is 0.
    pub(super) fn share(seats: u32, weight: u64, whole: u128) -> Self {
        if whole == 0 {
            return Fraction { over: 0, under: 1 };
        }
        // Reduced factor by factor, so that the divisions stay small.
        let common = common_divisor(u128::from(weight), whole);
        let (weight, whole) = (u128::from(weight) / common, whole / common);
        let common = common_divisor(u128::from(seats), whole);
        Fraction {
            over: u128::from(seats) / common * weight,
            under: whole / common,
        }
    }

    /// Whether the seats differ from it by 1 or more, that is by more than rounding.
    pub(super) fn is_missed_by(self, seats: u32) -> bool {
        (u128::from(seats) * self.under).abs_diff(self.over) >= self.under
    }
}

fn common_divisor(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        if let (Ok(small), Ok(other)) = (u64::try_from(a), u64::try_from(b)) {
            let (mut a, mut b) = (small, other);
            while b > 0 {
                (a, b) = (b, a % b);
            }
            return u128::from(a);
        }
        (a, b) = (b, a % b);
    }
    a
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
        for (seats, weight, whole, shown) in [
            (7, 1, 3, "7/3"),
            (2, 7, 6, "7/3"),
            (12, 1, 4, "3"),
            (0, 5, 5, "0"),
            (3, 1, 0, "0"),
            (u32::MAX, u64::MAX, u128::from(u64::MAX), "4294967295"),
            (2, u64::MAX, 3 * u128::from(u64::MAX), "2/3"),
        ] {
            assert_eq!(Fraction::share(seats, weight, whole).to_string(), shown);
        }
    }

    #[test]
    fn rounding_does_not_miss_a_quota() {
        let quota = Fraction::share(7, 1, 3);
        let missed: Vec<u32> = (0..6).filter(|seats| quota.is_missed_by(*seats)).collect();
        assert_eq!(missed, [0, 1, 4, 5]);
        assert!(Fraction::share(2, 1, 1).is_missed_by(3) && !Fraction::share(2, 1, 1).is_missed_by(2));
    }
}
