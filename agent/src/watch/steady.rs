//! A watch that never ends: errors are waited out with back-off, and a watch that keeps being refused is begun anew.

use crate::delay::{HUB_JITTER, SharedJitter, backoff, spread};
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use std::pin::Pin;
use std::time::Duration;

/// After this many failures in a row that may be due to its state, the watch is begun anew, with a list: an expired resource
/// version may be answered in an unusual way.
const ANEW_AFTER: u32 = 3;

/// Whether a failure may be due to what the watch asks for. It is not while the server is not reached: a hub that was away has
/// no need to list everything again for a thousand agents.
fn may_be_its_state(error: &watcher::Error) -> bool {
    use kube::Error::{Api, HyperError, ReadEvents, Service};
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else {
        return true;
    };
    match error {
        HyperError(_) | Service(_) | ReadEvents(_) => false,
        // It has too much to do to look at it, or what stands before it does not reach it. 504 is what Kubernetes says to a
        // version that it does not have yet, as after a restore.
        Api(status) => !matches!(status.code, 429 | 502 | 503),
        _ => true,
    }
}

/// How a watch behaves when it fails.
#[derive(Debug, Clone)]
pub(crate) struct Steady {
    pub(crate) what: String,
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
                    here += u32::from(may_be_its_state(&error));
                    tokio::time::sleep(spread(delay, HUB_JITTER, policy.jitter.unit())).await;
                    if here >= ANEW_AFTER {
                        break;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::SeededJitter;
    use futures::stream;
    use kube::{api::DynamicObject, core::Status};
    use std::cell::RefCell;
    use std::sync::Arc;

    fn unreached() -> watcher::Error {
        watcher::Error::WatchStartFailed(kube::Error::Service("connection refused".into()))
    }

    fn answered(code: u16) -> watcher::Error {
        let status = Status {
            code,
            ..Status::default()
        };
        watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    /// How often a watch was begun that failed in these ways, one after the other, and was well then.
    async fn begun(failures: Vec<watcher::Error>) -> usize {
        let policy = Steady {
            what: "Bundles".to_owned(),
            min: Duration::from_secs(1),
            max: Duration::from_secs(3),
            jitter: Arc::new(SeededJitter::new(1)),
        };
        let left = &RefCell::new(failures.into_iter());
        let (begins, seen) = (RefCell::new(0), tokio::sync::Notify::new());
        let begin = || {
            *begins.borrow_mut() += 1;
            stream::unfold(false, |is_well| async move {
                if is_well {
                    std::future::pending::<()>().await;
                }
                let failed = left.borrow_mut().next();
                let is_well = failed.is_none();
                Some((failed.map_or(Ok(watcher::Event::InitDone), Err), is_well))
            })
        };
        let each = |_: watcher::Event<DynamicObject>| seen.notify_one();
        tokio::select! {
            () = steady(policy, begin, each) => {}
            () = seen.notified() => {}
        }
        begins.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_where_it_was_when_its_server_is_reached_again() {
        for (failures, expected) in [
            (vec![], 1),
            ((0..20).map(|_| unreached()).collect(), 1),
            (
                vec![answered(429), answered(503), answered(502), answered(503)],
                1,
            ),
            (vec![answered(500), unreached(), answered(500)], 1),
            // What is refused three times is asked for in another way.
            (vec![answered(500), unreached(), answered(504), answered(410)], 2),
            ((0..6).map(|_| watcher::Error::NoResourceVersion).collect(), 3),
        ] {
            let told = format!("{failures:?}");
            assert_eq!(begun(failures).await, expected, "{told}");
        }
    }
}
