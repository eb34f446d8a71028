//! Clocks that are wrong: each party has one, which goes as tokio's time does and can be put forward and back.

use crate::simulate::TokioClock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use roundhouse_api::clock::{Clock, SharedClock};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use crate::simulate::Clocks;

/// The clock of one party.
#[derive(Debug)]
struct Skewed {
    right: TokioClock,
    /// Milliseconds by which it is fast.
    fast: AtomicI64,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let fast = SignedDuration::from_millis(self.fast.load(Ordering::Relaxed));
        let right = self.right.now();
        right.checked_add(fast).unwrap_or(right)
    }
}

/// The clocks of all parties of a fleet.
#[derive(Debug, Clone)]
pub struct Skews {
    right: TokioClock,
    all: Arc<Mutex<BTreeMap<String, Arc<Skewed>>>>,
}

impl Skews {
    /// Clocks that are all right.
    pub fn new(right: TokioClock) -> Skews {
        Skews {
            right,
            all: Arc::default(),
        }
    }

    fn of(&self, party: &str) -> Arc<Skewed> {
        let mut all = self.all.lock();
        let clock = all.entry(party.to_owned()).or_insert_with(|| {
            Arc::new(Skewed {
                right: self.right,
                fast: AtomicI64::new(0),
            })
        });
        clock.clone()
    }

    /// Puts a clock so much before the right time, or behind it.
    pub fn set(&self, party: &str, fast: SignedDuration) {
        let millis = i64::try_from(fast.as_millis()).unwrap_or(0);
        self.of(party).fast.store(millis, Ordering::Relaxed);
    }

    /// Puts all clocks right.
    pub fn heal(&self) {
        for clock in self.all.lock().values() {
            clock.fast.store(0, Ordering::Relaxed);
        }
    }

    /// What the clock of a party says.
    pub fn now(&self, party: &str) -> Timestamp {
        self.of(party).now()
    }

    /// What a fleet takes them from.
    pub fn clocks(&self) -> Clocks {
        let skews = self.clone();
        Clocks(Arc::new(move |party| skews.of(party) as SharedClock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn one_clock_is_put_wrong_and_goes_on_from_there() {
        let skews = Skews::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let Clocks(of) = skews.clocks();
        let (a, b) = (of("a"), of("b"));
        tokio::time::advance(Duration::from_secs(10)).await;
        skews.set("a", SignedDuration::from_hours(1));
        assert_eq!((a.now().as_second(), b.now().as_second()), (3610, 10));
        skews.set("b", SignedDuration::from_hours(-1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((a.now().as_second(), b.now().as_second()), (3611, -3589));
        skews.heal();
        assert_eq!((a.now().as_second(), of("b").now().as_second()), (11, 11));
    }
}
