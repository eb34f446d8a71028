//! What the hub asks its API server for, one line a request, watches aside.

use http::Request;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use std::sync::Arc;
use tower::service_fn;

/// Requests, in order.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    /// A client whose requests are noted.
    pub(crate) fn through(&self, client: Client) -> Client {
        let asked = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            if !query
                .split('&')
                .any(|word| matches!(word, "watch=true" | "watch=1"))
            {
                let line = format!("{} {}", request.method(), request.uri().path());
                asked.0.lock().push(line);
            }
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(service, namespace)
    }

    /// Takes out what was noted.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
