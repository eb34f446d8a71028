//! How long a waiting step is left alone when nobody wakes it.
//!
//! The seed's formula: `int(0.05 · 2^(n-1))` seconds, at least 1, at most 60 for the n-th look. n is not stored: it
//! follows from the time of the last progress, so that waiting writes nothing and a restart goes on where it was.

use jiff::Timestamp;
use std::time::Duration;

/// The seed's longest wait.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// The wait before the n-th look, n from 1.
pub fn wait(n: u32, max: Duration) -> Duration {
    // 0.05 · 2^(n-1) = 2^(n-1) / 20
    let doubled = 1_u64.checked_shl(n.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs((doubled / 20).max(1)).min(max)
}

/// When a step whose last progress was at `since` is looked at next: the time from `now` to the end of the wait that
/// `now` falls into.
pub fn until_next_look(since: Timestamp, now: Timestamp, max: Duration) -> Duration {
    // A clock that jumped back counts as no time passed.
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let max = max.max(Duration::from_secs(1));
    let mut end = Duration::ZERO;
    for n in 1.. {
        let wait = wait(n, max);
        if wait >= max {
            // From here on every wait is `max`.
            let over = elapsed.saturating_sub(end).as_millis() % max.as_millis();
            let over = Duration::from_millis(u64::try_from(over).unwrap_or_default());
            return if end > elapsed { end - elapsed } else { max - over };
        }
        end += wait;
        if end > elapsed {
            return end - elapsed;
        }
    }
    max
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn the_seeds_sequence() {
        let waits: Vec<u64> = (1..=14).map(|n| wait(n, MAX_WAIT).as_secs()).collect();
        assert_eq!(waits, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51, 60, 60, 60]);
        assert_eq!(wait(u32::MAX, MAX_WAIT), MAX_WAIT);
        assert_eq!(wait(9, Duration::from_secs(10)).as_secs(), 10);
    }

    #[test]
    fn looking_when_told_walks_through_the_sequence() {
        for max in [60, 20, 1] {
            let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let max = Duration::from_secs(max);
            let mut now = since;
            for n in 1..20 {
                let next = until_next_look(since, now, max);
                assert_eq!(next, wait(n, max), "look {n} of {max:?}");
                now += SignedDuration::try_from(next).unwrap();
            }
        }
    }

    #[test]
    fn any_moment_has_a_next_look_in_bounds() {
        let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for millis in (-5_000_i64..400_000).step_by(137) {
            let next = until_next_look(since, since + SignedDuration::from_millis(millis), MAX_WAIT);
            assert!(next > Duration::ZERO && next <= MAX_WAIT, "{millis}: {next:?}");
        }
    }
}
