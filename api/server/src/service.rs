//! The tower service: from an HTTP request to an HTTP response.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use crate::{
    audit::Pending,
    auth::{Action, Attributes, Caller, Grant, Identity, denied, effective, path_denied},
    body::ApiBody,
    discovery,
    error::ApiError,
    flow, health,
    managed::manager_of_agent,
    request::{MAX_BODY, Output, Path, Query, ResourcePath, check_options, media_type, parse_duration},
    selector::FieldSelector,
    serve::Link,
    server::Core,
    store::Unsettled,
    strict,
    verbs::{self, Call},
};

/// Longest path and query taken.
const MAX_URI: usize = 16 << 10;

/// Longest body about a Lease: of many of them one can be on its way at a time.
const MAX_LEASE: usize = 256 << 10;

/// Time for a body to come.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Time for the disk to take a write.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

/// Time between two moments at which agents renew their Leases that come over a connection: a fleet's renewals, which are little
/// work each, are done together. Others may have less time for it, and are few.
const RENEWED_EVERY: Duration = Duration::from_millis(200);

/// Media type of aggregated discovery.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Media type of metrics.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Requests that take longer are warned about.
const SLOW: Duration = Duration::from_secs(1);

/// What a request turned out to be.
#[derive(Debug, Default)]
struct Seen {
    /// Verb and table; absent if it is on no resource.
    resource: Option<(&'static str, Arc<str>)>,
    /// What must be settled before the answer may go.
    revision: u64,
    /// How long the sender was made to wait.
    waited: Duration,
    /// Where it is noted that a Lease changed hands.
    taken_over: Option<Arc<AtomicBool>>,
}

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
    Text(String),
    /// OpenMetrics.
    Metrics(String),
    /// OpenAPI v2 in protobuf.
    Swagger(Bytes),
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

    /// A code and JSON already encoded.
    pub(crate) fn json(code: u16, bytes: Bytes) -> Self {
        Self {
            code,
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
    caller: Arc<Caller>,
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService")
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>, caller: Caller) -> Self {
        Self {
            core,
            caller: Arc::new(caller),
        }
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
        let caller = match request.extensions().get::<Identity>() {
            Some(identity) => Arc::new(Caller::inside(Some(identity.clone()))),
            None => self.caller.clone(),
        };
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let parts = Arc::new(parts);
            let (started, mut seen) = (Instant::now(), Seen::default());
            let sender = caller;
            let caller = Arc::new(Caller::clone(&sender).authenticated(&core, &parts.headers));
            if let (Some(identity), Some(link)) = (&caller.identity, &sender.link) {
                link.is_known(identity);
            }
            let path = Path::parse(parts.uri.path());
            let pending = Pending::of(&core, &parts, path.as_ref(), &caller);
            seen.taken_over = pending.as_ref().and_then(Pending::taken_over);
            let output = Output::negotiate(&parts.headers);
            let reply = match &caller.identity {
                // Strangers' bodies are not read.
                None => answer(&core, None, &parts, path, &Bytes::new(), &mut seen),
                Some(identity) => {
                    read_and_answer(&core, identity, &sender, &parts, path, body, &mut seen).await
                }
            };
            let yaml = output.is_ok_and(|o| o.yaml);
            let id = pending.and_then(|pending| pending.answered(&reply));
            let mut response = respond(reply, yaml);
            if let (Some(identity), Some(link)) = (&caller.identity, &sender.link) {
                response = send(&core, identity, link, &parts.method, response);
            }
            if let Some(id) = id {
                response.headers_mut().insert("audit-id", id);
            }
            note(
                &core,
                caller.identity.as_ref(),
                &parts,
                &seen,
                response.status(),
                started.elapsed(),
            );
            Ok(response)
        })
    }
}

/// Has an answer count as long as its bytes wait to be sent. What somebody reads waits for room; of what somebody has
/// written the answer is not taken back.
fn send(
    core: &Core,
    identity: &Identity,
    link: &Arc<Link>,
    method: &Method,
    mut response: Response<ApiBody>,
) -> Response<ApiBody> {
    let bytes = response.body().waiting();
    let room = match core.flow.answer(identity, bytes) {
        Ok(room) => room,
        Err(error) if flow::reads(method) => {
            return respond(Err(error), false);
        }
        Err(_) => core.flow.answer_anyway(identity, bytes),
    };
    response.body_mut().keeps(room, link.answers());
    response
}

/// Counts a request, and says what it was: at debug, or as a warning if it took long.
fn note(
    core: &Core,
    identity: Option<&Identity>,
    parts: &http::request::Parts,
    seen: &Seen,
    code: StatusCode,
    took: Duration,
) {
    if let Some((verb, table)) = &seen.resource {
        core.metrics.answered(verb, table, code.as_u16(), took);
    }
    if !flow::reads(&parts.method) {
        core.metrics.written(code.as_u16());
    }
    let (method, path, user) = (&parts.method, parts.uri.path(), identity.map(|i| i.user.as_str()));
    if took > SLOW + seen.waited {
        tracing::warn!(%method, path, user, code = code.as_u16(), ?took, "a request took long");
    } else {
        tracing::debug!(%method, path, user, code = code.as_u16(), ?took, "request");
    }
}

/// Answers whoever is known. The sender is asked again who it is when everything it says has come: a certificate that is
/// revoked while a body is on its way is none.
async fn read_and_answer<B>(
    core: &Arc<Core>,
    identity: &Identity,
    sender: &Caller,
    parts: &http::request::Parts,
    path: Option<Path>,
    body: B,
    seen: &mut Seen,
) -> Result<Reply, ApiError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let known = || sender.clone().authenticated(core, &parts.headers).identity;
    if matches!(path, Some(Path::Health(..))) {
        // Probes are answered however busy the server is.
        return answer(core, Some(identity), parts, path, &Bytes::new(), seen);
    }
    let heartbeat = matches!(&path, Some(Path::Resource(path)) if is_lease(path));
    // Who holds something keeps it, whatever else is not read.
    if sender.link.is_some() && !heartbeat {
        core.flow.may_ask(identity)?;
    }
    let pace = core
        .flow
        .keep_pace(identity, &parts.method, heartbeat, &mut seen.waited);
    pace.await?;
    // A body that is long in coming keeps nobody from writing, but whoever sends it: of Leases, which are small, few are on their way.
    let enter = || core.flow.enter(identity, &parts.method, heartbeat);
    let enters_first = heartbeat || flow::reads(&parts.method);
    let _held = match enters_first {
        true => enter()?,
        false => {
            let size = HttpBody::size_hint(&body).upper();
            core.flow.arrive(identity, &parts.method, size)?
        }
    };
    let patience = patience(parts.uri.query().unwrap_or_default())?;
    let longest = if heartbeat { MAX_LEASE } else { MAX_BODY };
    let Ok(body) = timeout(patience, Limited::new(body, longest).collect()).await else {
        return Err(ApiError::new(
            408,
            "Timeout",
            format!("the body did not come within {patience:?}"),
        ));
    };
    match body {
        Ok(body) => {
            let body = body.to_bytes();
            core.flow.has_sent(identity, &parts.method, heartbeat, body.len());
            if heartbeat && renews(identity, sender, &parts.method) {
                let moment = core.moments.next(RENEWED_EVERY);
                seen.waited += moment.duration_since(Instant::now());
                sleep_until(moment).await;
            }
            let _slot = match enters_first {
                true => None,
                false => Some(enter()?),
            };
            // Before anything is decided: a watch looks again if a right was taken away meanwhile.
            let rights = core.rights.version();
            let mut reply = answer(core, known().as_ref(), parts, path, &body, seen);
            if let Ok(reply) = &mut reply
                && let ReplyBody::Stream(stream) = &mut reply.body
            {
                stream.stands_on(
                    Grant::new(core, sender, &parts.headers, rights),
                    sender.link.clone(),
                );
            }
            // Nobody hears of what could still be lost.
            match timeout(DISK_PATIENCE, core.store.settle(seen.revision)).await {
                Ok(Ok(())) => reply,
                Ok(Err(_)) | Err(_) => Err(ApiError::unknown_outcome(Unsettled.to_string())),
            }
        }
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(longest)),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body of the request broke off: {error}"
        ))),
    }
}

/// Whether a write of a Lease is an agent's renewal, over a connection.
fn renews(identity: &Identity, sender: &Caller, method: &Method) -> bool {
    identity.agent_of().is_some() && sender.link.is_some() && [Method::PUT, Method::PATCH].contains(method)
}

/// Whether a request is about a Lease: whoever sends it holds something, and must not lose it because others write much.
pub(crate) fn is_lease(path: &ResourcePath) -> bool {
    path.group == "coordination.k8s.io" && path.plural == "leases"
}

/// Answers from the store as it is, and tells in `seen` the revision that must be settled before the answer may go.
fn answer(
    core: &Arc<Core>,
    identity: Option<&Identity>,
    parts: &http::request::Parts,
    path: Option<Path>,
    body: &Bytes,
    seen: &mut Seen,
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
    if let Some(Path::Health(endpoint, check)) = &path {
        let query = parts.uri.query().unwrap_or_default();
        return health::answer(core, *endpoint, check.as_deref(), query);
    }
    let sender = identity.ok_or_else(ApiError::unauthorized)?;
    let identity = effective(&parts.headers, sender, &*core.authorizer)?;
    let output = || Output::negotiate(&parts.headers);
    match path {
        None => {
            authorize_path(core, &identity, parts)?;
            Err(ApiError::no_such_path())
        }
        Some(Path::Resource(path)) => {
            let mut query = Query::parse(parts.uri.query().unwrap_or_default())?;
            let verb = verb(&parts.method, &path, &query);
            authorize(core, &identity, verb, &path, &query)?;
            if verb.is_empty() || (path.name.is_none() && matches!(verb, "update" | "patch")) {
                return Err(ApiError::method_not_allowed());
            }
            let resource = core
                .registry
                .by_path(&path.group, &path.version, &path.plural)
                .ok_or_else(ApiError::no_such_path)?;
            core.counter.request(verb, &resource.table);
            seen.resource = Some((verb, resource.table.clone()));
            if core.strict {
                strict::check_query(&mut query)?;
            }
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
                identity: Arc::new(identity),
                manager,
                taken_over: seen.taken_over.clone(),
            };
            let reads = matches!(verb, "get" | "list" | "watch");
            // Leases are few, and who holds one must not lose it because others write much.
            let busy = || match call.resource.kind == "Lease" {
                true => core.store.is_very_busy(),
                false => core.store.is_busy() || core.audit.as_ref().is_some_and(|audit| audit.is_busy()),
            };
            if !reads && busy() {
                return Err(ApiError::too_many_requests());
            }
            let passed = core.fence.pass(core, &call, &parts.headers);
            let mut reply = passed.and_then(|_held| verbs::dispatch(core, &call, body));
            if let Ok(reply) = &mut reply {
                reply.warnings.extend(call.resource.deprecation());
            }
            // What was written is there by now. What was not, since nothing was or it failed, waits for no more than it has read.
            seen.revision = core.store.seen_by_readers_of(&call.resource.table);
            reply
        }
        Some(path) => {
            authorize_path(core, &identity, parts)?;
            if parts.method != Method::GET {
                return Err(ApiError::method_not_allowed());
            }
            discovery::answer(core, &path, output()?)
        }
    }
}

/// Time for the body to come: that of `?timeout=`, but at most [`BODY_PATIENCE`].
fn patience(query: &str) -> Result<Duration, ApiError> {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let Some(text) = given.filter(|text| !text.is_empty()) else {
        return Ok(BODY_PATIENCE);
    };
    let wrong = || {
        ApiError::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {text:?}"
        ))
    };
    match parse_duration(text).ok_or_else(wrong)? {
        Duration::ZERO => Ok(BODY_PATIENCE),
        asked => Ok(asked.min(BODY_PATIENCE)),
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
///
/// Every request has one, those included that no kind takes: who may do nothing is not told what there is to do.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    let many = path.name.is_none();
    match *method {
        // With a name there is nothing to watch but the object itself: as in Kubernetes, that is a plain get.
        Method::GET if many && query.watch => "watch",
        Method::GET if many => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if many => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
}

pub(crate) fn authorize(
    core: &Core,
    identity: &Identity,
    verb: &str,
    path: &ResourcePath,
    query: &Query,
) -> Result<(), ApiError> {
    // Who lists or watches one name asks for one object, as in Kubernetes.
    let selected = matches!(verb, "list" | "watch")
        .then(|| FieldSelector::exact_name(&query.field_selector))
        .flatten();
    let attributes = Attributes {
        verb,
        group: &path.group,
        resource: &path.plural,
        subresource: path.subresource.as_deref().unwrap_or_default(),
        // A namespace is in itself: a role bound in it may let it be read.
        namespace: match (&*path.group, &*path.plural) {
            ("", "namespaces") => path.name.as_deref().unwrap_or_default(),
            _ => path.namespace.as_deref().unwrap_or_default(),
        },
        name: path.name.as_deref().or(selected.as_deref()).unwrap_or_default(),
    };
    let decision = core.authorizer.decide(identity, &Action::Resource(attributes));
    if decision.allowed {
        return Ok(());
    }
    Err(denied(identity, &attributes, &decision.reason))
}

/// Paths that are no resources have rights of their own.
fn authorize_path(core: &Core, identity: &Identity, parts: &http::request::Parts) -> Result<(), ApiError> {
    let (verb, path) = (parts.method.as_str().to_lowercase(), parts.uri.path());
    let action = Action::Path { verb: &verb, path };
    let decision = core.authorizer.decide(identity, &action);
    if decision.allowed {
        return Ok(());
    }
    Err(path_denied(identity, &verb, path, &decision.reason))
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
        ReplyBody::Text(text) => ("text/plain; charset=utf-8", ApiBody::full(text.into())),
        ReplyBody::Swagger(bytes) => (discovery::SWAGGER, ApiBody::full(bytes)),
        ReplyBody::Metrics(text) => (METRICS, ApiBody::full(text.into())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Server,
        auth::{Presented, Revoked},
    };
    use http_body_util::Full;
    use jiff::Timestamp;
    use serde_json::json;
    use std::net::Ipv4Addr;
    use tower::ServiceExt;

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases";
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases/agent";

    /// Somebody over a connection, or in process.
    fn sender(identity: Identity, linked: bool) -> Caller {
        Caller {
            link: linked.then(|| Link::new(Ipv4Addr::LOCALHOST.into())),
            ..Caller::inside(Some(identity))
        }
    }

    /// The code of the answer, what it says, and how long it took.
    async fn ask(
        server: &Server,
        sender: Caller,
        (method, path): (Method, &str),
        body: Value,
    ) -> (u16, Value, Duration) {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content);
        let request = request.body(Full::from(body)).unwrap();
        let began = Instant::now();
        let service = ApiService::new(server.core.clone(), sender);
        let answer = service.oneshot(request).await.unwrap();
        let (code, took) = (answer.status().as_u16(), began.elapsed());
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default(), took)
    }

    /// A server on which the agents of some clusters have their Leases.
    async fn with_leases(clusters: &[&str]) -> Server {
        let server = Server::builder().build();
        for cluster in clusters {
            let namespace = json!({"metadata": {"name": format!("cluster-{cluster}")}});
            let lease = json!({"metadata": {"name": "agent"}, "spec": {"holderIdentity": "agent"}});
            let leases = LEASES.replace("c1", cluster);
            for (path, object) in [("/api/v1/namespaces", namespace), (&leases, lease)] {
                let admin = sender(Identity::admin(), true);
                let (code, _, took) = ask(&server, admin, (Method::POST, path), object).await;
                assert_eq!((code, took), (201, Duration::ZERO));
            }
        }
        server
    }

    fn renewed() -> Value {
        json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    }

    #[tokio::test(start_paused = true)]
    async fn agents_renew_together_and_nobody_else_waits_for_that() {
        let server = with_leases(&["c1", "c2"]).await;
        let renew = async |cluster: &str, after: Duration| {
            tokio::time::sleep(after).await;
            let path = LEASE.replace("c1", cluster);
            let sender = sender(Identity::agent(cluster), true);
            let (code, _, took) = ask(&server, sender, (Method::PATCH, &path), renewed()).await;
            (code, took)
        };
        assert_eq!(renew("c1", Duration::ZERO).await, (200, RENEWED_EVERY));
        let (first, second) = tokio::join!(renew("c1", Duration::ZERO), renew("c2", RENEWED_EVERY / 4));
        assert_eq!(first, (200, RENEWED_EVERY));
        assert_eq!(second, (200, RENEWED_EVERY * 3 / 4), "at the same moment");
        // Agents write the whole, too.
        let agent = || sender(Identity::agent("c1"), true);
        let (_, lease, took) = ask(&server, agent(), (Method::GET, LEASE), Value::Null).await;
        assert_eq!(took, Duration::ZERO);
        let (code, _, took) = ask(&server, agent(), (Method::PUT, LEASE), lease).await;
        assert_eq!((code, took), (200, RENEWED_EVERY));
        // In process there is no wake-up to share; a hub that leads has less time; what is no Lease is not renewed.
        for (who, what, body) in [
            (
                sender(Identity::agent("c1"), false),
                (Method::PATCH, LEASE),
                renewed(),
            ),
            (sender(Identity::admin(), true), (Method::PATCH, LEASE), renewed()),
            (agent(), (Method::POST, LEASES), renewed()),
            (
                agent(),
                (Method::PATCH, "/api/v1/namespaces/cluster-c1"),
                json!({}),
            ),
            (
                sender(Identity::admin(), true),
                (Method::DELETE, LEASE),
                Value::Null,
            ),
        ] {
            let said = format!("{what:?}");
            let (_, _, took) = ask(&server, who, what, body).await;
            assert_eq!(took, Duration::ZERO, "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_nobody_by_the_moment_renews_nothing() {
        let server = with_leases(&["c1"]).await;
        let certificate = Presented {
            identity: Identity::agent("c1"),
            serial: "1".to_owned(),
            fingerprint: "f".to_owned(),
            not_before: Timestamp::MIN,
            not_after: Timestamp::MAX,
        };
        let sender = Caller::outside(Some(certificate), Link::new(Ipv4Addr::LOCALHOST.into()));
        let asked = ask(&server, sender, (Method::PATCH, LEASE), renewed());
        let revoked = async {
            tokio::time::sleep(RENEWED_EVERY / 2).await;
            let list = json!({"data": {"one": "serial 1"}});
            *server.core.revoked.write() = Revoked::of(Some(&list));
        };
        let ((code, ..), ()) = tokio::join!(asked, revoked);
        assert_eq!(code, 401);
    }
}
