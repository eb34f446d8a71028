//! One client of the hub for all tasks of an agent, whatever credential it has at the moment: requests go out with the
//! present one, and a new one needs no restart. Watches go on until they end, and resume with the new one.

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::RwLock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use tower::Service;

/// The hub cannot be asked yet.
#[derive(Debug, thiserror::Error)]
#[error("this agent has not joined a hub yet")]
struct NotJoined;

/// The place of the present client. Its clones are the same place.
#[derive(Clone, Default)]
pub(crate) struct Swap {
    present: Arc<RwLock<Option<Client>>>,
    /// Answers in a row that refused whoever asked.
    refusals: Arc<AtomicU32>,
}

impl Swap {
    /// A client that always asks with the present credential.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// From now on requests go out with this one.
    pub(crate) fn put(&self, client: Client) {
        *self.present.write() = Some(client);
        self.refusals.store(0, Ordering::Relaxed);
    }

    /// How many answers in a row said that whoever asks is not known (401) or may not (403).
    pub(crate) fn refusals(&self) -> u32 {
        self.refusals.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for Swap {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.present.read().clone();
        let refusals = Arc::clone(&self.refusals);
        Box::pin(async move {
            let client = client.ok_or_else(|| kube::Error::Service(Box::new(NotJoined)))?;
            let answer = client.send(request).await?;
            match answer.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    refusals.fetch_add(1, Ordering::Relaxed);
                }
                _ => refusals.store(0, Ordering::Relaxed),
            }
            Ok(answer)
        })
    }
}
