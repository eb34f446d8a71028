//! The tower service: from an HTTP request to an HTTP response.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    auth::{Attributes, Identity, denied, effective},
    body::ApiBody,
    discovery,
    error::ApiError,
    managed::manager_of_agent,
    request::{MAX_BODY, Output, Path, Query, ResourcePath, check_options, media_type},
    server::Core,
    verbs::{self, Call},
};

/// Longest path and query taken.
const MAX_URI: usize = 16 << 10;

/// Time for a body to come.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Media type of aggregated discovery.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What a handler answers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: ReplyBody,
    pub(crate) warnings: Vec<String>,
}

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    Value(Value),
    /// Aggregated discovery, which clients know by its media type.
    Discovery(Value),
    Json(Bytes),
    Text(&'static str),
    Stream(ApiBody),
}

impl Reply {
    /// 200 with a value.
    pub(crate) fn ok(value: Value) -> Self {
        Self::with(200, value)
    }

    /// A code and a value.
    pub(crate) fn with(code: u16, value: Value) -> Self {
        Self {
            code,
            body: ReplyBody::Value(value),
            warnings: vec![],
        }
    }

    /// 200 with JSON already encoded.
    pub(crate) fn json(bytes: Bytes) -> Self {
        Self {
            code: 200,
            body: ReplyBody::Json(bytes),
            warnings: vec![],
        }
    }

    /// Adds `Warning` headers.
    pub(crate) fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// The server as a `tower::Service`. Cheap to clone, always ready, never fails: errors are responses.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
    identity: Option<Identity>,
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>, identity: Option<Identity>) -> Self {
        Self { core, identity }
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = self.core.clone();
        let identity = request
            .extensions()
            .get::<Identity>()
            .cloned()
            .or_else(|| self.identity.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let output = Output::negotiate(&parts.headers);
            let reply = match &identity {
                // Strangers' bodies are not read.
                None => answer(&core, None, &parts, &Bytes::new()),
                Some(identity) => read_and_answer(&core, identity, &parts, body).await,
            };
            let yaml = output.is_ok_and(|o| o.yaml);
            Ok(respond(reply, yaml))
        })
    }
}

async fn read_and_answer<B>(
    core: &Arc<Core>,
    identity: &Identity,
    parts: &http::request::Parts,
    body: B,
) -> Result<Reply, ApiError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Ok(_slot) = core.in_flight.try_acquire() else {
        return Err(ApiError::too_many_requests());
    };
    let Ok(body) = timeout(BODY_PATIENCE, Limited::new(body, MAX_BODY).collect()).await else {
        return Err(ApiError::new(
            408,
            "Timeout",
            format!("the body did not come within {BODY_PATIENCE:?}"),
        ));
    };
    match body {
        Ok(body) => answer(core, Some(identity), parts, &body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_BODY)),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body of the request broke off: {error}"
        ))),
    }
}

fn answer(
    core: &Arc<Core>,
    identity: Option<&Identity>,
    parts: &http::request::Parts,
    body: &Bytes,
) -> Result<Reply, ApiError> {
    if parts
        .uri
        .path_and_query()
        .is_some_and(|p| p.as_str().len() > MAX_URI)
    {
        return Err(ApiError::new(
            414,
            "",
            format!("the path and query may not be longer than {MAX_URI} bytes"),
        ));
    }
    let path = Path::parse(parts.uri.path());
    if path == Some(Path::Health) {
        return Ok(Reply {
            code: 200,
            body: ReplyBody::Text("ok"),
            warnings: vec![],
        });
    }
    let sender = identity.ok_or_else(ApiError::unauthorized)?;
    let identity = effective(&parts.headers, sender, &*core.authorizer)?;
    let output = || Output::negotiate(&parts.headers);
    match path.ok_or_else(ApiError::no_such_path)? {
        Path::Resource(path) => {
            let query = Query::parse(parts.uri.query().unwrap_or_default())?;
            let verb = verb(&parts.method, &path, &query)?;
            authorize(core, &identity, verb, &path)?;
            let resource = core
                .registry
                .by_path(&path.group, &path.version, &path.plural)
                .ok_or_else(ApiError::no_such_path)?;
            core.counter.request(verb, &resource.table);
            let media = media_type(&parts.headers);
            check_options(&query, verb, &media)?;
            let manager = manager(&query, &parts.headers);
            let call = Call {
                resource,
                path,
                query,
                output: output()?,
                media,
                verb,
                identity,
                manager,
            };
            verbs::dispatch(core, &call, body)
        }
        _ if parts.method != Method::GET => Err(ApiError::method_not_allowed()),
        path => discovery::answer(core, &path, output()?),
    }
}

/// The field manager of a request.
fn manager(query: &Query, headers: &http::HeaderMap) -> String {
    if !query.field_manager.is_empty() {
        return query.field_manager.clone();
    }
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
    manager_of_agent(agent.unwrap_or_default())
}

/// The verb an authorizer and the counters know a request by.
fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Result<&'static str, ApiError> {
    let many = path.name.is_none();
    Ok(match *method {
        // With a name there is nothing to watch but the object itself: as in Kubernetes, that is a plain get.
        Method::GET if many && query.watch => "watch",
        Method::GET if many => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT if !many => "update",
        Method::PATCH if !many => "patch",
        Method::DELETE if many => "deletecollection",
        Method::DELETE => "delete",
        _ => return Err(ApiError::method_not_allowed()),
    })
}

fn authorize(core: &Core, identity: &Identity, verb: &str, path: &ResourcePath) -> Result<(), ApiError> {
    // Everybody may ask what they may, and who they are.
    if path.plural.starts_with("selfsubject") && verb == "create" {
        return Ok(());
    }
    let attributes = Attributes {
        verb,
        group: &path.group,
        resource: &path.plural,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        namespace: path.namespace.as_deref().unwrap_or_default(),
        name: path.name.as_deref().unwrap_or_default(),
    };
    if core.authorizer.allows(identity, &attributes) {
        return Ok(());
    }
    Err(denied(identity, &attributes))
}

fn respond(reply: Result<Reply, ApiError>, yaml: bool) -> Response<ApiBody> {
    let reply = reply.unwrap_or_else(|error| {
        tracing::debug!(code = error.code, reason = error.reason, message = %error.message, "request refused");
        Reply::with(error.code, error.to_status())
    });
    let (content_type, body) = match reply.body {
        ReplyBody::Value(value) if yaml => match serde_saphyr::to_string(&value) {
            Ok(text) => ("application/yaml", ApiBody::full(Bytes::from(text))),
            Err(_) => ("application/json", ApiBody::full(crate::object::encode(&value))),
        },
        ReplyBody::Value(value) => ("application/json", ApiBody::full(crate::object::encode(&value))),
        ReplyBody::Discovery(value) => (DISCOVERY, ApiBody::full(crate::object::encode(&value))),
        ReplyBody::Json(bytes) => ("application/json", ApiBody::full(bytes)),
        ReplyBody::Text(text) => (
            "text/plain; charset=utf-8",
            ApiBody::full(Bytes::from_static(text.as_bytes())),
        ),
        ReplyBody::Stream(stream) => ("application/json", stream),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if reply.code == 429 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    for warning in reply.warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    response
}
