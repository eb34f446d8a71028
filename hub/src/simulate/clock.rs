//! A clock that follows tokio's, so that a test that pauses time pauses everything.

use jiff::{SignedDuration, Timestamp};
use roundhouse_api::clock::Clock;
use tokio::time::Instant;

/// When every run of a script begins: 2026-01-01.
pub(super) fn begins() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap_or_default()
}

/// Starts at a given time and advances as tokio's time does.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    base: Timestamp,
    start: Instant,
}

impl TokioClock {
    /// A clock that shows `base` now. To be called inside a tokio runtime.
    pub fn starting_at(base: Timestamp) -> Self {
        TokioClock {
            base,
            start: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_until_time_is_advanced() {
        let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), Timestamp::from_second(90).unwrap());
    }
}
