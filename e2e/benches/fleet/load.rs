//! Open-loop load, and times that are free of coordinated omission.

use hdrhistogram::Histogram;
use std::time::Duration;
use tokio::time::Instant;

/// Calls `send` with the number and the moment of every request when it is due, `rate` times a second, and waits for none of
/// them: a server that is slow meets as many requests as one that is fast.
pub(crate) async fn open_loop(count: usize, rate: f64, mut send: impl FnMut(usize, Instant)) {
    let begin = Instant::now() + Duration::from_millis(100);
    for n in 0..count {
        let due = begin + Duration::from_secs_f64(n as f64 / rate);
        tokio::time::sleep_until(due).await;
        send(n, due);
    }
}

/// Times, in microseconds, to three digits.
#[derive(Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Times {
        // The bounds are constants that the crate takes.
        Times(Histogram::new_with_bounds(1, 600_000_000, 3).unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) fn note(&mut self, time: Duration) {
        self.0
            .saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// A quantile in milliseconds.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }
}
