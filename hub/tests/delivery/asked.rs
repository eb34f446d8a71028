//! What the hub asks its API server for, one line a request, watches aside; some of it is refused.

use http::{Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use tower::service_fn;

/// Requests, in order, and how those begin that are refused.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<String>>>, Arc<Mutex<Option<&'static str>>>);

impl Asked {
    /// A client whose requests are noted.
    pub(crate) fn through(&self, client: Client) -> Client {
        let asked = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let line = format!("{} {}", request.method(), request.uri().path());
            let is_refused = asked.1.lock().is_some_and(|refused| line.starts_with(refused));
            if !query
                .split('&')
                .any(|word| matches!(word, "watch=true" | "watch=1"))
            {
                asked.0.lock().push(line);
            }
            let client = client.clone();
            async move {
                if is_refused {
                    return Ok(refusal());
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    /// From here on requests that begin so are refused, as by a quota; with none none are.
    pub(crate) fn refuse(&self, line: Option<&'static str>) {
        *self.1.lock() = line;
    }

    /// Takes out what was noted.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

fn refusal() -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "exceeded quota: small"});
    let body = Body::from(status.to_string().into_bytes());
    Response::builder().status(403).body(body).unwrap()
}
