//! A clock that does not jump. Steps wait for times that are stored by the clock of the machine; where that is put an hour
//! forward they would pass or time out at once, and every agent would seem silent.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use roundhouse_api::clock::{Clock, SharedClock};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// What is no jump: a clock that is drawn to the right time little by little …
const DRIFT: SignedDuration = SignedDuration::from_secs(2);
/// … and the part by which it may be fast or slow since it was looked at last, in a thousand (NTP adjusts by half of one).
const PER_MILLE: i32 = 2;
/// A jump that has lasted for so long is the right time: the machine slept, or its clock was wrong before.
const BELIEVED: Duration = Duration::from_secs(3600);

/// What is known of a clock; pure.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// What it said last, and when that was.
    said: Timestamp,
    at: Instant,
    /// By how much it has jumped.
    jumped: SignedDuration,
    /// Since when it has.
    since: Instant,
}

impl Known {
    /// What time it is when the clock says this; what was known before is brought up to date.
    fn now(before: Option<Known>, said: Timestamp, at: Instant) -> (Known, Timestamp) {
        let mut known = before.unwrap_or(Known {
            said,
            at,
            jumped: SignedDuration::ZERO,
            since: at,
        });
        let passed = SignedDuration::try_from(at.duration_since(known.at)).unwrap_or(SignedDuration::MAX);
        let off = said.duration_since(known.said).saturating_sub(passed);
        if off.abs() > DRIFT.saturating_add(passed / 1000 * PER_MILLE) {
            known.jumped = known.jumped.saturating_add(off);
            known.since = at;
        }
        // It is back, or has stayed.
        if known.jumped.abs() <= DRIFT || at.duration_since(known.since) >= BELIEVED {
            known.jumped = SignedDuration::ZERO;
        }
        (known.said, known.at) = (said, at);
        let now = said.checked_sub(known.jumped).unwrap_or(said);
        (known, now)
    }
}

/// The clock of a machine without its jumps, as long as they have not lasted for an hour. Time that passes while the process is
/// held still counts as far as tokio's clock goes on meanwhile.
#[derive(Debug)]
pub struct Steady {
    of: SharedClock,
    known: Mutex<Option<Known>>,
}

impl Steady {
    /// Without the jumps of this clock from now on.
    pub fn of(clock: SharedClock) -> Arc<Steady> {
        let steady = Steady {
            of: clock,
            known: Mutex::default(),
        };
        steady.now();
        Arc::new(steady)
    }

    /// It is ahead of the time that was stored so far by so much: that counts as a jump which has come now.
    pub(crate) fn is_ahead(&self, by: SignedDuration) {
        self.now();
        if let Some(known) = &mut *self.known.lock() {
            known.jumped = known.jumped.saturating_add(by);
            known.since = Instant::now();
        }
    }
}

impl Clock for Steady {
    fn now(&self) -> Timestamp {
        let mut known = self.known.lock();
        let (next, now) = Known::now(*known, self.of.now(), Instant::now());
        *known = Some(next);
        now
    }
}

/// A clock that only goes on: for what counts from one moment of this process to another, whatever is the right time.
#[derive(Debug)]
pub(crate) struct Monotonic {
    began: Timestamp,
    at: Instant,
}

impl Monotonic {
    /// Begins with this time.
    pub(crate) fn at(began: Timestamp) -> Monotonic {
        let at = Instant::now();
        Monotonic { began, at }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.at.elapsed()).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told where the clock says this, so many seconds after the start.
    fn told(steps: &[(u64, i64)]) -> Vec<i64> {
        let start = Instant::now();
        let mut known = None;
        let told = steps.iter().map(|(after, said)| {
            let said = Timestamp::from_second(*said).unwrap();
            let (next, now) = Known::now(known, said, start + Duration::from_secs(*after));
            known = Some(next);
            now.as_second()
        });
        told.collect()
    }

    #[test]
    fn jumps_are_not_told_and_what_goes_on_between_them_is() {
        let forth_and_back = [(0, 0), (10, 10), (20, 3620), (50, 3650), (60, 60), (70, 70)];
        assert_eq!(told(&forth_and_back), [0, 10, 20, 50, 60, 70]);
        let back_and_forth = [(0, 9000), (20, 5420), (50, 5450), (60, 9060)];
        assert_eq!(told(&back_and_forth), [9000, 9020, 9050, 9060]);
        let twice = [(0, 0), (10, 3610), (20, 7220), (30, 3630), (40, 40)];
        assert_eq!(told(&twice), [0, 10, 20, 30, 40]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_ahead_of_what_was_stored_is_taken_back_until_it_is_believed() {
        let start = Timestamp::from_second(7200).unwrap();
        let clock = Steady::of(Arc::new(crate::simulate::TokioClock::starting_at(start)));
        for (ahead, expected) in [(3600, 3600), (-3600, 7200)] {
            clock.is_ahead(SignedDuration::from_secs(ahead));
            assert_eq!(clock.now().as_second(), expected);
        }
        clock.is_ahead(SignedDuration::from_secs(3600));
        tokio::time::advance(Duration::from_secs(3599)).await;
        assert_eq!(clock.now().as_second(), 3600 + 3599);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now().as_second(), 7200 + 3600);
    }

    #[test]
    fn a_jump_that_stays_for_an_hour_is_the_right_time() {
        let slept = [
            (0, 0),
            (10, 30_010),
            (3000, 33_000),
            (3609, 33_609),
            (3610, 33_610),
        ];
        assert_eq!(told(&slept), [0, 10, 3000, 3609, 33_610]);
        // From there it goes on.
        let again = [(0, 0), (10, 30_010), (3610, 33_610), (3620, 10), (3630, 20)];
        assert_eq!(told(&again), [0, 10, 33_610, 33_620, 33_630]);
    }

    #[test]
    fn a_clock_that_is_put_right_little_by_little_is_followed() {
        // Half a second in a thousand, looked at once an hour, and once a second.
        let rarely: Vec<(u64, i64)> = (0..48_u64)
            .map(|h| (3600 * h, (3602 * h).cast_signed()))
            .collect();
        let hours = told(&rarely);
        assert_eq!(hours[47], 3602 * 47);
        let often: Vec<(u64, i64)> = (0..4000_u64).map(|s| (s, (s + s / 1000).cast_signed())).collect();
        assert_eq!(told(&often)[3999], 4002);
    }
}
