//! Notes when status writes leave whoever sends them, and when they are answered.

use http::{Method, Request};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use roundhouse_hub::simulate::Through;
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;
use tower::service_fn;

/// A status write that was stored.
#[derive(Debug)]
pub(crate) struct Write {
    /// Who wrote.
    pub(crate) who: String,
    pub(crate) path: String,
    /// The `status` that was sent.
    pub(crate) status: Value,
    pub(crate) left: Instant,
    pub(crate) answered: Instant,
}

/// All status writes, in the order in which they were answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Vec<Write>>>);

impl Tap {
    /// What the clients of a fleet go through.
    pub(crate) fn through(&self) -> Through {
        let tap = self.clone();
        Through(Arc::new(move |who, client| tap.client(who.to_owned(), client)))
    }

    fn client(&self, who: String, client: Client) -> Client {
        let tap = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, tap, who) = (client.clone(), tap.clone(), who.clone());
            async move {
                let writes = matches!(*request.method(), Method::PUT | Method::PATCH);
                let path = request.uri().path().to_owned();
                if !writes || !path.ends_with("/status") {
                    return client.send(request).await;
                }
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let sent: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let left = Instant::now();
                let answer = client
                    .send(Request::from_parts(head, Body::from(bytes.to_vec())))
                    .await?;
                if answer.status().is_success() {
                    tap.0.lock().push(Write {
                        who,
                        path,
                        status: sent["status"].clone(),
                        left,
                        answered: Instant::now(),
                    });
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, namespace)
    }

    /// Takes out what was noted.
    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.lock())
    }
}
