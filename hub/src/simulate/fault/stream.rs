//! A watch on its way: its lines are delayed, held back, cut off, or come no more.

use super::{Ending, Kind, Network, When, answer::gone, life::Life, wire::Broken};
use crate::simulate::{AnswerBody, Ends};
use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use std::{future::pending, sync::Arc};
use tokio::time::{sleep, timeout};
use tower::BoxError;

/// A watch that is open.
struct Watched {
    network: Network,
    ends: Ends,
    life: Arc<Life>,
    path: String,
    /// Ends of watches that were asked for before this one began are not its own.
    since: usize,
    /// Changes of the network that were looked at.
    seen: u64,
    body: AnswerBody,
}

/// What a watch gives next.
type Given = Option<Result<Frame<Bytes>, BoxError>>;

/// The body of a watch as it arrives.
pub(super) fn watched(
    network: Network,
    ends: Ends,
    life: Arc<Life>,
    path: String,
    body: AnswerBody,
) -> AnswerBody {
    let (since, seen) = (network.endings(), network.changes().count());
    let watched = Watched {
        network,
        ends,
        life,
        path,
        since,
        seen,
        body,
    };
    let frames = stream::unfold(Some(watched), |watched| async move {
        let mut watched = watched?;
        let (given, goes_on) = watched.next().await;
        Some((given?, goes_on.then_some(watched)))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Watched {
    /// The next line, and whether there is one after it.
    async fn next(&mut self) -> (Given, bool) {
        let line = loop {
            if self.life.is_over() {
                return pending().await;
            }
            if let Some(how) = self.network.ending(&self.ends, &self.path, self.since) {
                return self.end(how).await;
            }
            if self.network.is_held(&self.ends.who) {
                self.something_changes().await;
                continue;
            }
            if self.network.is_cut(&self.ends) {
                let (network, ends) = (self.network.clone(), self.ends.clone());
                let healed = network.until(|network| !network.is_cut(&ends));
                // Whoever reads is not told before it sends something itself: a watch does not.
                if timeout(super::network::TIMES_OUT, healed).await.is_err() {
                    return self.end(Ending::Silent).await;
                }
                continue;
            }
            tokio::select! {
                biased;
                seen = self.network.changes().after(self.seen) => self.seen = seen,
                line = self.body.frame() => break line,
            }
        };
        if self.life.comes_to(When::AtFrame, false) {
            return pending().await;
        }
        let delay = self.network.frame_delay(&self.ends, &self.path);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let ends = line.as_ref().is_none_or(Result::is_err);
        (line, !ends)
    }

    async fn something_changes(&mut self) {
        self.seen = self.network.changes().after(self.seen).await;
    }

    async fn end(&mut self, how: Ending) -> (Given, bool) {
        let kind = match how {
            Ending::Silent => Kind::WatchSilenced,
            Ending::Ended | Ending::Broken | Ending::Gone => Kind::WatchEnded,
        };
        self.network.note(kind);
        match how {
            Ending::Ended => (None, false),
            Ending::Broken => (Some(Err(Broken::Reset.into())), false),
            Ending::Gone => (Some(Ok(Frame::data(gone()))), false),
            Ending::Silent => {
                // Whoever reads gives a connection up on which nothing has come for so long: agents as behind a proxy, where
                // nothing is pinged.
                sleep(match self.network.is_hub(&self.ends.who) {
                    true => crate::run::READ_TIMES_OUT,
                    false => roundhouse_agent::client::READ_TIMES_OUT,
                })
                .await;
                (Some(Err(Broken::Reset.into())), false)
            }
        }
    }
}
