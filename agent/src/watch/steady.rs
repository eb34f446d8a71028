//! A watch that never ends: errors are waited out with back-off, and a watch that keeps failing is begun anew where it cannot
//! do that by itself.

use crate::delay::{HUB_JITTER, SharedJitter, backoff, spread};
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use std::pin::Pin;
use std::time::Duration;

/// After this many errors in a row the watch is begun anew, with a list: whatever state it was in may be the reason
/// (an expired resource version answered in an unusual way).
const ANEW_AFTER: u32 = 3;

/// How a watch behaves when it fails.
#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) what: String,
    /// Whether it begins anew by itself, where it cannot go on.
    pub(crate) resumes: bool,
    pub(crate) min: Duration,
    pub(crate) max: Duration,
    pub(crate) jitter: SharedJitter,
}

/// Feeds the events of a watch to `each` until the future is dropped. A new list comes with
/// [`watcher::Event::Init`]; a failed one comes with nothing at all.
pub(crate) async fn steady<K, S>(
    policy: Steady,
    begin: impl Fn() -> S,
    mut each: impl FnMut(watcher::Event<K>),
) where
    S: Stream<Item = watcher::Result<watcher::Event<K>>>,
{
    let mut failures = 0_u32;
    loop {
        let mut stream: Pin<Box<S>> = Box::pin(begin());
        let mut here = 0_u32;
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    // `Init` is announced before the list is even asked for.
                    if !matches!(event, watcher::Event::Init) {
                        (failures, here) = (0, 0);
                    }
                    each(event);
                }
                Err(error) => {
                    let delay = backoff(failures, policy.min, policy.max);
                    tracing::debug!(watch = policy.what, %error, ?delay, "watch failed, trying again");
                    failures = failures.saturating_add(1);
                    if failures == ANEW_AFTER {
                        tracing::warn!(watch = policy.what, %error, "this watch keeps failing, and what it watches is not seen; check that the API server answers and what it says here");
                    }
                    here += 1;
                    tokio::time::sleep(spread(delay, HUB_JITTER, policy.jitter.unit())).await;
                    if here >= ANEW_AFTER && !policy.resumes {
                        break;
                    }
                }
            }
        }
    }
}
