//! Restart: a task that breaks is begun anew. A defect that the agent meets in one bundle stays that bundle's own trouble.

use crate::delay::{SharedJitter, backoff, spread};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The part of a delay by which it is jittered.
const JITTER: f64 = 0.3;

/// How soon a task that broke is begun anew.
#[derive(Debug, Clone)]
pub(crate) struct Restart {
    /// The first delay; it doubles each time.
    pub(crate) min: Duration,
    /// The longest delay. A task that held for longer begins with short delays again.
    pub(crate) max: Duration,
    pub(crate) jitter: SharedJitter,
    /// Ends the waiting.
    pub(crate) stop: CancellationToken,
}

/// Runs a task until it ends by itself. One that panics is begun anew with `begin`, which is told how often in a row it
/// broke; what it had in memory is lost, as in an agent that was just started.
pub(crate) async fn restarting<F>(what: &str, restart: Restart, mut begin: impl FnMut(u32) -> F)
where
    F: Future<Output = ()>,
{
    let mut broken = 0_u32;
    loop {
        let since = Instant::now();
        let whole = AssertUnwindSafe(async { begin(broken).await }).catch_unwind();
        if whole.await.is_ok() {
            return;
        }
        if since.elapsed() > restart.max {
            broken = 0;
        }
        let delay = spread(
            backoff(broken, restart.min, restart.max),
            JITTER,
            restart.jitter.unit(),
        );
        tracing::error!(
            task = what,
            ?delay,
            "a defect of this agent: the task broke and is begun anew"
        );
        broken = broken.saturating_add(1);
        let waited = restart.stop.run_until_cancelled(tokio::time::sleep(delay));
        if waited.await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::SeededJitter;
    use parking_lot::Mutex;
    use std::sync::Arc;

    fn restart(stop: &CancellationToken) -> Restart {
        Restart {
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter: Arc::new(SeededJitter::new(1)),
            stop: stop.clone(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_breaks_is_begun_anew_with_growing_delays_until_it_ends() {
        let begun = Mutex::new(Vec::new());
        let work = async |broken: u32| {
            begun.lock().push((broken, Instant::now()));
            // The fourth attempt holds for long, and breaks then.
            if broken == 3 {
                tokio::time::sleep(Duration::from_secs(100)).await;
            }
            let times = begun.lock().len();
            assert!(times >= 6, "a defect");
        };
        restarting("a test", restart(&CancellationToken::new()), work).await;
        let begun = begun.into_inner();
        let broken: Vec<u32> = begun.iter().map(|(broken, _)| *broken).collect();
        assert_eq!(broken, [0, 1, 2, 3, 1, 2]);
        let delays: Vec<u64> = begun
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1).as_secs())
            .collect();
        let expected = [(0, 1), (1, 2), (2, 5), (100, 101), (1, 2)];
        for (delay, (least, most)) in delays.iter().zip(expected) {
            assert!((least..=most).contains(delay), "{delays:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_task_is_not_begun_again_after_the_end() {
        let stop = CancellationToken::new();
        stop.cancel();
        let begun = Mutex::new(0);
        let work = async |_| {
            *begun.lock() += 1;
            panic!("a defect");
        };
        restarting("a test", restart(&stop), work).await;
        assert_eq!(begun.into_inner(), 1);
    }
}
