//! Dice: a reproducible sequence of numbers.

use std::{ops::RangeInclusive, time::Duration};

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of a seed and of what it is for: sequences for different things have nothing to do with each other.
    pub fn new(seed: u64, what: &str) -> Dice {
        let mut dice = Dice(what.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }));
        // Seeds that are near to each other would begin alike.
        dice.0 = dice.draw();
        dice
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but not including `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw().checked_rem(end).unwrap_or(0)
    }

    /// Whether something happens that happens so often in a thousand.
    pub fn happens(&mut self, per_mille: u16) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// A time, in whole milliseconds.
    pub fn between(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let millis = |time: &Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2);
        let (shortest, longest) = (millis(range.start()), millis(range.end()));
        let span = longest.saturating_sub(shortest).saturating_add(1);
        Duration::from_millis(shortest.saturating_add(self.below(span)))
    }

    /// One of some things.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len() as u64);
        from.get(usize::try_from(at).unwrap_or(0))
    }

    /// So many of some things, in their order; all if there are fewer.
    pub fn sample<T: Clone>(&mut self, from: &[T], many: usize) -> Vec<T> {
        let (mut left, mut wanted) = (from.len() as u64, many as u64);
        let mut picked = Vec::new();
        for one in from {
            if self.below(left) < wanted {
                picked.push(one.clone());
                wanted -= 1;
            }
            left -= 1;
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_replay_and_differ_by_seed_and_by_what_they_are_for() {
        let draw = |seed, what| {
            let mut dice = Dice::new(seed, what);
            (0..50).map(|_| dice.draw()).collect::<Vec<u64>>()
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        let mut dice = Dice::new(3, "x");
        let range = Duration::from_millis(2)..=Duration::from_millis(4);
        let times: std::collections::BTreeSet<u128> =
            (0..100).map(|_| dice.between(&range).as_millis()).collect();
        assert_eq!(times.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
        let sample = dice.sample(&[1, 2, 3, 4, 5], 3);
        assert!(sample.len() == 3 && sample.is_sorted(), "{sample:?}");
        assert_eq!(dice.sample(&[1, 2], 3), [1, 2]);
        assert_eq!(dice.below(0), 0);
    }
}
