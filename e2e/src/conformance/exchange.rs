//! Sending requests to a server.

use std::time::Duration;

use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::{ApiBody, ApiService};
use serde_json::Value;
use tokio::{task::JoinHandle, time::timeout};
use tower::ServiceExt;

/// A server that recorded exchanges can be replayed against.
pub trait Exchange: Sync {
    /// Sends the request of a step; status code and body.
    fn request(&self, step: &Value) -> impl Future<Output = (u16, Value)> + Send;
    /// Opens the watch of a step and gathers events until there are `want` or `length` has passed. The watch is open
    /// when this returns; what it gathered is a list of events, or the body of a refusal.
    fn watch(
        &self,
        step: &Value,
        want: usize,
        length: Duration,
    ) -> impl Future<Output = JoinHandle<(u16, Value)>> + Send;
}

/// A server of this process.
#[derive(Debug, Clone)]
pub struct InProcess(pub ApiService);

impl InProcess {
    async fn send(&self, step: &Value) -> Response<ApiBody> {
        let body = match &step["body"] {
            Value::Null => vec![],
            Value::String(text) => text.clone().into_bytes(),
            other => other.to_string().into_bytes(),
        };
        let method = step["method"]
            .as_str()
            .unwrap_or("GET")
            .parse::<Method>()
            .unwrap_or(Method::GET);
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = method;
        // A recorded path may hold characters no client library sends unescaped.
        let path = step["path"].as_str().unwrap_or("/").replace(' ', "%20");
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            header::HeaderValue::from_static("application/json"),
        );
        if !step["body"].is_null() {
            headers.insert(
                header::CONTENT_TYPE,
                header::HeaderValue::from_static("application/json"),
            );
        }
        for (name, value) in step["headers"].as_object().into_iter().flatten() {
            let pair = (
                name.parse::<header::HeaderName>(),
                value.as_str().unwrap_or_default().parse(),
            );
            if let (Ok(name), Ok(value)) = pair {
                headers.insert(name, value);
            }
        }
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

async fn whole(response: Response<ApiBody>) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
}

impl Exchange for InProcess {
    async fn request(&self, step: &Value) -> (u16, Value) {
        whole(self.send(step).await).await
    }

    async fn watch(&self, step: &Value, want: usize, length: Duration) -> JoinHandle<(u16, Value)> {
        let response = self.send(step).await;
        tokio::spawn(async move {
            if response.status() != 200 {
                return whole(response).await;
            }
            let mut events = vec![];
            let mut body = response.into_body();
            let gather = async {
                while events.len() < want {
                    let Some(Ok(frame)) = body.frame().await else {
                        return;
                    };
                    // Every frame of a watch is one line.
                    let line = frame.into_data().unwrap_or_default();
                    events.extend(serde_json::from_slice::<Value>(&line).ok());
                }
            };
            // Running out of time is an end like any other.
            let _ = timeout(length, gather).await;
            (200, Value::from(events))
        })
    }
}
