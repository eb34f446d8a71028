//! Tells of watches on which nothing comes any more.
//!
//! kube's watcher gives up a watch that has been silent for a little longer than it may last, and makes it anew without a word to
//! whoever listens. An API server ends it before that, and sends bookmarks until then: on such a watch something got lost.

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::service_fn;

/// A watch lasts so many seconds, as who makes it asks for it; kube's watcher does by itself, too.
pub const LASTS: u32 = 290;

/// The same client; of each of its watches that is given up as nothing comes, `silent` is told the path.
pub fn noticing(client: Client, silent: impl Fn(&str) + Clone + Send + Sync + Unpin + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, silent) = (client.clone(), silent.clone());
        async move {
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let path: Box<str> = match watches {
                true => request.uri().path().into(),
                false => Box::default(),
            };
            let answer = client.send(request).await?;
            Ok::<Response<Heard<_>>, kube::Error>(answer.map(|body| Heard {
                body,
                path,
                last: watches.then(Instant::now),
                silent,
            }))
        }
    });
    Client::new(service, namespace)
}

/// The body of an answer.
struct Heard<F: Fn(&str)> {
    body: Body,
    /// What is watched.
    path: Box<str>,
    /// When something came last; absent where nothing is waited for.
    last: Option<Instant>,
    silent: F,
}

impl<F: Fn(&str) + Unpin> HttpBody for Heard<F> {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let heard = self.get_mut();
        let frame = Pin::new(&mut heard.body).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(_))) => {
                if let Some(last) = &mut heard.last {
                    *last = Instant::now();
                }
            }
            // An end, or an error, is heard of.
            Poll::Ready(None | Some(Err(_))) => heard.last = None,
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<F: Fn(&str)> Drop for Heard<F> {
    fn drop(&mut self) {
        if self
            .last
            .is_some_and(|last| last.elapsed() >= Duration::from_secs(LASTS.into()))
        {
            (self.silent)(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::runtime::watcher::{Config, watcher};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Follows ConfigMaps for so long on a server whose watches end after `ends`, and say something every `says` until then; how
    /// often a silent one was told of.
    async fn told(says: Duration, ends: Duration, follows: Duration) -> u32 {
        let service = service_fn(move |request: Request<Body>| async move {
            let line = |text: &str| Ok::<_, kube::Error>(Frame::data(Bytes::from(format!("{text}\n"))));
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let body = match watches {
                false => {
                    let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
                    stream::iter([line(list)]).boxed()
                }
                true => {
                    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"2"}}}"#;
                    let began = Instant::now();
                    stream::unfold((), move |()| async move {
                        tokio::time::sleep(says.min(ends)).await;
                        (began.elapsed() < ends).then(|| (line(bookmark), ()))
                    })
                    .boxed()
                }
            };
            Ok::<_, kube::Error>(Response::new(StreamBody::new(body)))
        });
        let count = Arc::new(AtomicU32::new(0));
        let counts = count.clone();
        let client = noticing(Client::new(service, "default"), move |path| {
            assert_eq!(path, "/api/v1/configmaps");
            counts.fetch_add(1, Ordering::Relaxed);
        });
        let events = watcher(Api::<ConfigMap>::all(client), Config::default());
        let ended = tokio::time::timeout(follows, events.for_each(|_| std::future::ready(()))).await;
        assert!(ended.is_err(), "it goes on");
        count.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_on_which_nothing_comes_is_told_of_and_one_that_ends_is_not() {
        let seconds = Duration::from_secs;
        // Two are given up, and the third one has not been silent for long when nobody follows any more.
        assert_eq!(told(seconds(10_000), seconds(10_000), seconds(700)).await, 2);
        // It ends in time, without a word and with some.
        assert_eq!(told(seconds(280), seconds(280), seconds(700)).await, 0);
        assert_eq!(told(seconds(60), seconds(290), seconds(700)).await, 0);
        // Bookmarks come, and it never ends.
        assert_eq!(told(seconds(60), seconds(10_000), seconds(700)).await, 0);
    }
}
