//! Writes of single objects that are repeated until they go through, each with a pause of its own: what is refused for good holds up
//! nothing else, and a wake-up for something else tries nothing sooner.

use super::Key;
use crate::dispatch::Observed;
use futures::{FutureExt, StreamExt, stream};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout};

/// Writes at once.
const AT_ONCE: usize = 16;
/// A write that is not answered so soon has failed.
const TIMES_OUT: Duration = Duration::from_secs(30);
/// Pause after a write of an object that failed, doubled each time it fails again, up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// What became of a write: what was answered, or what went wrong and when it is tried again.
pub(super) type Tried<T> = Result<T, (kube::Error, Duration)>;

/// What became of the tries.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// What went through, by the version that was written over: until the event of it arrives the cache still has it.
    done: BTreeMap<Key, String>,
    /// What failed: how often, and when it is tried again.
    failed: BTreeMap<Key, (u32, Instant)>,
}

impl Tries {
    /// Forgets of what is not among these Bundles, which are to be written: nothing else is waited for by [`Tries::next`].
    pub(super) fn retain(&mut self, due: &[Arc<Observed>]) {
        let keys: BTreeSet<Key> = due.iter().map(|bundle| bundle.key()).collect();
        self.done.retain(|key, _| keys.contains(key));
        self.failed.retain(|key, _| keys.contains(key));
    }

    /// Writes these Bundles, some at once, and tells what became of each.
    pub(super) async fn write<T, W: Future<Output = Result<T, kube::Error>>>(
        &mut self,
        due: Vec<Arc<Observed>>,
        write: impl Fn(Arc<Observed>) -> W,
        mut told: impl FnMut(&Observed, Tried<T>),
    ) {
        let mut writes = stream::iter(due)
            .map(|bundle| in_time(write(bundle.clone())).map(|done| (bundle, done)))
            .buffer_unordered(AT_ONCE);
        while let Some((bundle, done)) = writes.next().await {
            let key = bundle.key();
            let done = match done {
                Ok(answer) => {
                    self.done(key, bundle.resource_version.clone());
                    Ok(answer)
                }
                Err(error) => Err((error, self.failed(key))),
            };
            told(&bundle, done);
        }
    }

    /// Whether a Bundle is to be written now, as it is.
    pub(super) fn is_due(&self, bundle: &Observed) -> bool {
        let key = bundle.key();
        let failed = self.failed.get(&key);
        self.done.get(&key) != Some(&bundle.resource_version)
            && failed.is_none_or(|(_, due)| *due <= Instant::now())
    }

    /// It went through.
    fn done(&mut self, key: Key, version: String) {
        self.failed.remove(&key);
        self.done.insert(key, version);
    }

    /// It failed: how long until it is tried again.
    fn failed(&mut self, key: Key) -> Duration {
        let now = Instant::now();
        let (times, due) = self.failed.entry(key).or_insert((0, now));
        let pause = PAUSES.0.saturating_mul(1 << (*times).min(16)).min(PAUSES.1);
        (*times, *due) = (times.saturating_add(1), now + pause);
        pause
    }

    /// Until the next try of what failed; for ever if nothing has.
    pub(super) async fn next(&self) {
        match self.failed.values().map(|(_, due)| *due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Gives a write up that is not answered in time.
///
/// # Errors
/// Its own, or that it was not answered.
async fn in_time<T>(write: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match timeout(TIMES_OUT, write).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(name: &str, version: &str) -> Observed {
        Observed {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            resource_version: version.to_owned(),
            ..Observed::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_tried_again_later_and_later_and_holds_up_nothing_else() {
        let mut tries = Tries::default();
        let (a, b) = (bundle("a", "1"), bundle("b", "1"));
        let pauses: Vec<u64> = (0..8).map(|_| tries.failed(a.key()).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert!(!tries.is_due(&a));
        assert!(tries.is_due(&b));
        let began = Instant::now();
        tries.next().await;
        assert_eq!(began.elapsed().as_secs(), 300);
        assert!(tries.is_due(&a));
        // Its time is past, and it is not to be written any more.
        tries.retain(&[]);
        assert!(tries.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_through_is_not_written_again_until_it_is_another() {
        let mut tries = Tries::default();
        let (first, second) = (bundle("a", "1"), bundle("a", "2"));
        tries.failed(first.key());
        tries.done(first.key(), "1".to_owned());
        assert!(!tries.is_due(&first));
        assert!(tries.is_due(&second));
        tries.retain(&[]);
        assert!(tries.is_due(&first), "one of that name that is made anew");
    }
}
