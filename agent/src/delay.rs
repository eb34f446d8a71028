//! Delays: exponential back-off, and jitter from an injected source.

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The part of a pause by which tries to reach the hub are jittered: a thousand agents lose a hub at the same moment.
pub(crate) const HUB_JITTER: f64 = 0.5;
/// Longest pause before a hub that did not answer is tried again: with the jitter it is 5 s. A hub that is back has everybody
/// again within so long, however long it was away, and is asked by a thousand agents one after the other.
pub(crate) const HUB_RETRY_MAX: Duration = Duration::from_millis(3_333);

/// A source of jitter.
pub trait Jitter: Send + Sync + Debug {
    /// The next number, from 0 up to but not including 1.
    fn unit(&self) -> f64;
}

/// A source of jitter that several tasks share.
pub type SharedJitter = Arc<dyn Jitter>;

/// A reproducible sequence (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug)]
pub struct SeededJitter(Mutex<u64>);

impl SeededJitter {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        SeededJitter(Mutex::new(seed))
    }

    /// The sequence of a name: agents of different clusters differ.
    pub fn from_text(text: &str) -> Self {
        // FNV-1a, 64 bit.
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        SeededJitter::new(seed)
    }
}

impl Jitter for SeededJitter {
    fn unit(&self) -> f64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 32 bits are exact in an f64.
        f64::from(u32::try_from(z >> 32).unwrap_or(0)) / 4_294_967_296.0
    }
}

/// The delay before try number `attempt` (from 0): `min` doubled each time, at most `max`.
pub(crate) fn backoff(attempt: u32, min: Duration, max: Duration) -> Duration {
    // Beyond 2^20 times the shortest delay every sensible limit is reached.
    let attempt = usize::try_from(attempt.min(20)).unwrap_or(20);
    ExponentialBuilder::new()
        .with_min_delay(min)
        .with_max_delay(max)
        .with_factor(2.0)
        .without_max_times()
        .build()
        .nth(attempt)
        .unwrap_or(max)
        .min(max)
}

/// `delay` plus or minus up to `part` of it; `unit` is from 0 to 1.
pub(crate) fn spread(delay: Duration, part: f64, unit: f64) -> Duration {
    delay.mul_f64((1.0 - part + 2.0 * part * unit).max(0.0))
}

/// Done at a time; never, where there is none.
pub(crate) async fn comes(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(10));
        let delays: Vec<u64> = (0..6).map(|n| backoff(n, min, max).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff(u32::MAX, min, max), max);
    }

    #[test]
    fn jitter_is_reproducible_bounded_and_differs_by_name() {
        let draw = |name: &str| -> Vec<f64> {
            let jitter = SeededJitter::from_text(name);
            (0..100).map(|_| jitter.unit()).collect()
        };
        assert_eq!(draw("c1"), draw("c1"));
        assert_ne!(draw("c1"), draw("c2"));
        assert!(draw("c1").iter().all(|unit| (0.0..1.0).contains(unit)));
        let delay = Duration::from_secs(100);
        assert_eq!(spread(delay, 0.1, 0.0), Duration::from_secs(90));
        assert_eq!(spread(delay, 0.1, 0.5), delay);
    }
}
