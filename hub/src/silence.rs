//! Tells of watches that break, and of those on which nothing comes any more.

use crate::metrics::Metrics;
use kube::{
    Client,
    runtime::watcher::{self, Event},
};
pub(crate) use roundhouse_agent::silence::LASTS;
use roundhouse_agent::silence::noticing;

/// Watches of one kind: each that breaks, or is given up as nothing comes, is counted and logged.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    kind: String,
    metrics: Metrics,
}

impl Watched {
    pub(crate) fn new(kind: impl Into<String>, metrics: &Metrics) -> Watched {
        Watched {
            kind: kind.into(),
            metrics: metrics.clone(),
        }
    }

    /// The client to watch with, for as long as [`LASTS`] at a time.
    pub(crate) fn client(&self, client: &Client) -> Client {
        let Watched { kind, metrics } = self.clone();
        noticing(client.clone(), move |_| {
            metrics.watch_broke(&kind);
            tracing::warn!(%kind, "a watch was silent, it is made again");
        })
    }

    /// Is shown all that the watch shows. That a definition is yet to come is no break: a hub that starts on an empty API server
    /// has yet to install it.
    pub(crate) fn inspects<K>(self) -> impl FnMut(&watcher::Result<Event<K>>) {
        let Watched { kind, metrics } = self;
        let mut awaited = true;
        move |event| match event {
            Err(error) if awaited && is_missing(error) => {
                tracing::debug!(%kind, %error, "the definition is not there yet");
            }
            Err(error) => {
                metrics.watch_broke(&kind);
                tracing::warn!(%kind, %error, "a watch broke, it is made again");
            }
            // A list that begins says nothing yet.
            Ok(Event::Init) => {}
            Ok(_) => awaited = false,
        }
    }
}

/// Whether the API server does not know the kind.
fn is_missing(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_known_is_told_from_one_that_may_not_be_listed() {
        let answer = |code: u16| {
            let status = serde_json::json!({"code": code, "message": "no"});
            kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
        };
        assert!(is_missing(&watcher::Error::InitialListFailed(answer(404))));
        assert!(is_missing(&watcher::Error::WatchStartFailed(answer(404))));
        for error in [
            watcher::Error::InitialListFailed(answer(403)),
            watcher::Error::WatchStartFailed(answer(500)),
            watcher::Error::NoResourceVersion,
        ] {
            assert!(!is_missing(&error), "{error}");
        }
    }
}
