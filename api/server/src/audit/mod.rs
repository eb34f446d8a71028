//! Who wrote what, and who was refused: events as Kubernetes' `audit.k8s.io/v1` has them at level Metadata.
//!
//! A read that is allowed is not recorded, nor is a review: both change nothing. Nor is the renewal of a Lease: it says that
//! somebody lives, thousands of times an hour, and would push out what matters. That a Lease changes hands is recorded. Of
//! refusals a flood is recorded in part, with how many were left out. Bodies are never recorded.

mod file;
mod refusals;

pub use file::{AuditFile, AuditLimits};
pub(crate) use refusals::Refusals;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    auth::{Caller, Identity, asked_to_act_as},
    error::ApiError,
    object::{child, set},
    request::{Path, Query},
    serve::place,
    server::Core,
    service::{Reply, ReplyBody, is_lease, verb},
};

use refusals::Refused;

/// Where audit events go.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes one event. Called while the request waits for its answer: it must not wait itself.
    fn record(&self, event: &Value);

    /// The same with an event that may be left out where there is no room: a refusal.
    fn record_refusal(&self, event: &Value) {
        self.record(event);
    }

    /// Whether so many events wait that no write should be taken: what is acknowledged is recorded.
    fn is_busy(&self) -> bool {
        false
    }
}

/// Annotation with the number of refusals of the same source that were left out.
const LEFT_OUT: &str = "roundhouse.dev/refusals-left-out";

/// Name of the header that carries the id of a request.
const ID: &str = "audit-id";
/// Longest id that is taken from a request.
const MAX_ID: usize = 64;

/// Longest text of a request that is recorded, in bytes: who sends long ones pushes others out of the log.
const MAX_TEXT: usize = 1_024;

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text)
}

/// The id of a request: its own, if it has one that is fit for a header, or a new one.
fn id(core: &Core, headers: &HeaderMap) -> String {
    let own = headers.get(ID).and_then(|value| value.to_str().ok());
    let own =
        own.filter(|id| !id.is_empty() && id.len() <= MAX_ID && id.chars().all(|c| c.is_ascii_graphic()));
    own.map_or_else(|| core.dice.uid(), str::to_owned)
}

/// A request that may have to be recorded once it is answered. Nothing is made of it before: most are not recorded.
///
/// Dropped without an answer, a write is recorded nevertheless: whoever closes the connection in time hides nothing.
pub(crate) struct Pending {
    core: Arc<Core>,
    id: String,
    parts: Arc<Parts>,
    caller: Arc<Caller>,
    received: Timestamp,
    writes: bool,
    /// Set when a Lease changes hands.
    taken_over: Option<Arc<AtomicBool>>,
}

impl Pending {
    /// Notes a request on a path. `None` where nothing is recorded.
    pub(crate) fn of(
        core: &Arc<Core>,
        parts: &Arc<Parts>,
        path: Option<&Path>,
        caller: &Arc<Caller>,
    ) -> Option<Self> {
        core.audit.as_ref()?;
        let recorded = recorded(core, &parts.method, path);
        Some(Self {
            id: id(core, &parts.headers),
            core: core.clone(),
            parts: parts.clone(),
            caller: caller.clone(),
            received: (core.clock)(),
            writes: recorded == Recorded::Always,
            taken_over: (recorded == Recorded::TakenOver).then(Arc::default),
        })
    }

    /// Where a write of a Lease notes that it changed hands.
    pub(crate) fn taken_over(&self) -> Option<Arc<AtomicBool>> {
        self.taken_over.clone()
    }

    /// Whether what was asked for has to be recorded, however it ends.
    fn take_writes(&mut self) -> bool {
        let taken_over = self.taken_over.take();
        let taken_over = taken_over.is_some_and(|taken_over| taken_over.load(Ordering::Acquire));
        std::mem::take(&mut self.writes) || taken_over
    }

    /// Records the request with its answer, if it is one to be recorded.
    pub(crate) fn answered(mut self, reply: &Result<Reply, ApiError>) -> Option<HeaderValue> {
        let refused = matches!(reply, Err(error) if matches!(error.code, 401 | 403));
        if self.take_writes() || refused {
            let status = match reply {
                Ok(reply) => json!({"metadata": {}, "code": reply.code}),
                Err(e) => {
                    json!({"metadata": {}, "status": "Failure", "code": e.code, "reason": e.reason, "message": e.message})
                }
            };
            let named = match reply.as_ref().map(|reply| &reply.body) {
                Ok(ReplyBody::Value(object)) => Named::deserialize(object).ok(),
                Ok(ReplyBody::Json(bytes)) => serde_json::from_slice(bytes).ok(),
                _ => None,
            };
            self.record(status, named, refused);
        }
        HeaderValue::from_str(&self.id).ok()
    }

    fn record(&self, status: Value, named: Option<Named>, refused: bool) {
        let (core, now) = (&self.core, (self.core.clock)());
        let mut event = self.event(named, now);
        set(&mut event, "responseStatus", Some(status));
        if refused {
            let (link, identity) = (&self.caller.link, &self.caller.identity);
            let who = Refused {
                place: link
                    .as_ref()
                    .map_or_else(String::new, |link| place(link.address).to_string()),
                user: identity.as_ref().map_or_else(String::new, |who| who.user.clone()),
            };
            record_refusal(core, &mut event, who, now);
        } else if let Some(sink) = &core.audit {
            tell_left_out(core, &**sink, now);
            sink.record(&event);
        }
    }

    fn event(&self, named: Option<Named>, now: Timestamp) -> Value {
        let (parts, caller) = (&*self.parts, &*self.caller);
        let uri = cut(parts.uri.path_and_query().map_or("", |uri| uri.as_str()));
        let (verb, reference) = about(parts, named);
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": self.id,
            "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
            "user": caller.identity.as_ref().map_or_else(|| json!({}), Identity::to_user_info),
            "requestReceivedTimestamp": micro(self.received), "stageTimestamp": micro(now),
        });
        let agent = parts.headers.get(header::USER_AGENT);
        let agent = agent.and_then(|value| value.to_str().ok()).map(cut);
        let link = caller.link.as_ref();
        let certificate = caller.certificate.as_ref();
        for (key, value) in [
            (
                "impersonatedUser",
                asked_to_act_as(&parts.headers).map(|who| who.to_user_info()),
            ),
            ("sourceIPs", link.map(|link| json!([link.address.to_string()]))),
            ("userAgent", agent.map(Value::from)),
            ("objectRef", reference),
            (
                "annotations",
                certificate.map(|c| json!({"roundhouse.dev/certificate-serial": c.serial})),
            ),
        ] {
            if let Some(value) = value {
                set(&mut event, key, Some(value));
            }
        }
        event
    }
}

/// What an answer says of which object it is.
#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.take_writes() {
            let message =
                "the request was given up before it was answered; what it asked for may have happened";
            let status = json!({"metadata": {}, "status": "Failure", "code": 499, "message": message});
            self.record(status, None, false);
        }
    }
}

/// Records a refusal, or counts it.
fn record_refusal(core: &Core, event: &mut Value, who: Refused, now: Timestamp) {
    let Some(sink) = &core.audit else { return };
    tell_left_out(core, &**sink, now);
    let Some(left_out) = core.refusals.record(who, now) else {
        return;
    };
    if left_out > 0
        && let Some(annotations) = event.as_object_mut().and_then(|map| child(map, "annotations"))
    {
        annotations.insert(LEFT_OUT.to_owned(), left_out.to_string().into());
    }
    sink.record_refusal(event);
}

/// Tells of refusals that were left out, if nothing has told of them yet.
fn tell_left_out(core: &Core, sink: &dyn AuditSink, now: Timestamp) {
    for left_out in core.refusals.untold(now) {
        let event = refusals::event(&left_out, &core.dice.uid(), &micro(now));
        sink.record_refusal(&event);
    }
}

/// Records a connection that was refused because of its certificate: no request tells of it.
pub(crate) fn refused_connection(core: &Core, address: std::net::IpAddr, why: &str) {
    if core.audit.is_none() {
        return;
    }
    let at = (core.clock)();
    let now = micro(at);
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": core.dice.uid(),
        "stage": "ResponseComplete", "requestURI": "", "verb": "connect", "user": {}, "sourceIPs": [address.to_string()],
        "requestReceivedTimestamp": now, "stageTimestamp": now,
        "responseStatus": {"metadata": {}, "status": "Failure", "code": 401, "reason": "Unauthorized", "message": why},
    });
    let who = Refused {
        place: place(address).to_string(),
        user: String::new(),
    };
    record_refusal(core, &mut event, who, at);
}

/// Whether a request is recorded once it is answered.
fn recorded(core: &Core, method: &Method, path: Option<&Path>) -> Recorded {
    let Some(Path::Resource(path)) = path else {
        return Recorded::Never;
    };
    match *method {
        Method::GET | Method::HEAD => return Recorded::Never,
        Method::PUT | Method::PATCH if is_lease(path) => return Recorded::TakenOver,
        _ => {}
    }
    match core.registry.by_path(&path.group, &path.version, &path.plural) {
        Some(resource) if resource.quirks.review => Recorded::Never,
        _ => Recorded::Always,
    }
}

/// The verb, and what the request is about; `None` of paths that are no resource. The path of a create does not say what was
/// created: its answer does.
fn about(parts: &Parts, named: Option<Named>) -> (String, Option<Value>) {
    let method = || match parts.method {
        Method::GET => "get".to_owned(),
        ref other => other.as_str().to_lowercase(),
    };
    let Some(Path::Resource(path)) = Path::parse(parts.uri.path()) else {
        return (method(), None);
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default()).unwrap_or_default();
    let verb = match verb(&parts.method, &path, &query) {
        "" => method(),
        verb => verb.to_owned(),
    };
    let answered = named.map(|named| named.metadata).unwrap_or_default();
    let mut reference = json!({"resource": path.plural, "apiVersion": path.version});
    for (key, value) in [
        ("apiGroup", Some(path.group).filter(|g| !g.is_empty())),
        ("namespace", path.namespace),
        ("name", path.name.or(answered.name)),
        ("uid", answered.uid),
        ("resourceVersion", answered.resource_version),
        ("subresource", path.subresource),
    ] {
        if let Some(value) = value {
            set(&mut reference, key, Some(value.into()));
        }
    }
    (verb, Some(reference))
}

/// Which requests are recorded if they are not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Always,
    /// The renewal of a Lease: if somebody else holds it by that.
    TakenOver,
    /// What changes nothing, and what is no resource.
    Never,
}

/// RFC 3339 with microseconds, as Kubernetes writes `metav1.MicroTime`.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
