//! Requests as they are on the wire, without a client library between.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::{ApiBody, ApiService, Identity, Server};
use serde_json::{Value, json};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const MERGE: &str = "application/merge-patch+json";

/// Stops a server, which has to end without an error.
pub(crate) async fn end<E: std::fmt::Debug>(stop: &CancellationToken, task: JoinHandle<Result<(), E>>) {
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

pub(crate) struct Raw(ApiService);

/// A body that never comes, and its length if it says that.
struct Stalled(Option<u64>);

impl http_body::Body for Stalled {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0
            .map_or_else(http_body::SizeHint::default, http_body::SizeHint::with_exact)
    }
}

impl Raw {
    pub(crate) fn new(server: &Server) -> Self {
        Self(server.service())
    }

    pub(crate) fn as_somebody(server: &Server, identity: Option<Identity>) -> Self {
        Self(server.service_as(identity))
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Response<ApiBody> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media);
        self.request(request.body(Full::from(body.into())).unwrap()).await
    }

    pub(crate) async fn request(&self, request: Request<Full<Bytes>>) -> Response<ApiBody> {
        self.0.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> (u16, Value) {
        let response = self.send(method, path, media, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
        )
    }

    /// A read as somebody else.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(Bytes::new())).unwrap();
        let response = self.0.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    /// A create whose body never comes.
    pub(crate) async fn stalled(&self, path: &str, length: Option<u64>) -> Response<ApiBody> {
        let body = Stalled(length);
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        self.0.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, "", "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, "application/json", body.to_string())
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::PUT, path, "application/json", body.to_string())
            .await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::PATCH, path, MERGE, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) -> (u16, Value) {
        self.ask(Method::DELETE, path, "application/json", options.to_string())
            .await
    }

    /// Gives agents whatever they may have at most.
    pub(crate) async fn bind_agents(&self) {
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let binding = json!({"metadata": {"name": "agents"},
            "subjects": [{"kind": "Group", "name": "roundhouse:agents"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
        let (code, answer) = self.post(path, binding).await;
        assert_eq!(code, 201, "{answer}");
    }

    /// The next line of a watch.
    pub(crate) async fn line(body: &mut ApiBody) -> Option<Value> {
        let frame = body.frame().await?.unwrap();
        Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
    }
}
