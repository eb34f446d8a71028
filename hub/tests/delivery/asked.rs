//! What the hub asks its API server for, one line a request, watches aside; some of it is refused, some answers are late.

use http::{Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tower::service_fn;

/// Requests, in order.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: Vec<String>,
    /// How those begin that are refused.
    refused: Option<&'static str>,
    /// How the paths end of those whose answers are late, and by how much.
    late: Option<(&'static str, Duration)>,
    /// How many of them were answered.
    answered: usize,
}

impl Asked {
    /// A client whose requests are noted.
    pub(crate) fn through(&self, client: Client) -> Client {
        let asked = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let line = format!("{} {}", request.method(), request.uri().path());
            let mut state = asked.0.lock();
            let is_refused = state
                .refused
                .is_some_and(|refused| match refused.strip_suffix('$') {
                    Some(whole) => line == whole,
                    None => line.starts_with(refused),
                });
            let is_late = state.late.filter(|(end, _)| line.ends_with(end));
            if !query
                .split('&')
                .any(|word| matches!(word, "watch=true" | "watch=1"))
            {
                state.asked.push(line);
            }
            drop(state);
            let (client, asked) = (client.clone(), asked.clone());
            async move {
                if is_refused {
                    return Ok(refusal());
                }
                let answer = client.send(request).await;
                if let Some((_, late)) = is_late {
                    asked.0.lock().answered += 1;
                    tokio::time::sleep(late).await;
                }
                answer
            }
        });
        Client::new(service, namespace)
    }

    /// From here on requests that begin so are refused, as by a quota, or are just that if it ends with `$`; with none none are.
    pub(crate) fn refuse(&self, line: Option<&'static str>) {
        self.0.lock().refused = line;
    }

    /// From here on the answers come late to requests of which the path ends so.
    pub(crate) fn delay(&self, end: &'static str, late: Duration) {
        self.0.lock().late = Some((end, late));
    }

    /// How many of those the server has answered.
    pub(crate) fn delayed(&self) -> usize {
        self.0.lock().answered
    }

    /// Takes out what was noted.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }
}

fn refusal() -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "exceeded quota: small"});
    let body = Body::from(status.to_string().into_bytes());
    Response::builder().status(403).body(body).unwrap()
}
