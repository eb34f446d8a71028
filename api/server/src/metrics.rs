//! What the server counts, for Prometheus: names and labels are those of Kubernetes' API server where it has such a thing.
//!
//! Labels are verbs, tables of kinds that are served, and status codes, so the number of series is bounded by what is
//! served. What can be told from the state of the server is told when somebody asks, not counted as it happens.

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{
    server::Core,
    service::{Reply, ReplyBody},
    store::Range,
};

/// Seconds: from an answer out of memory to one nobody waits for any longer.
const SECONDS: [f64; 8] = [0.000_5, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    verb: &'static str,
    resource: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Why a write was refused, by the code of the answer.
fn reason(code: u16) -> Option<&'static str> {
    Some(match code {
        401 => "unauthorized",
        403 => "forbidden",
        // What the object was changed from is not what it is.
        404 | 409 | 410 => "conflict",
        // Too many at once, or too many that wait for the disk.
        429 => "flow",
        // The disk is full, or has failed.
        503 => "disk",
        // It was taken, and may be lost: the disk took it too slowly, or not.
        504 => "unsettled",
        400..=499 => "admission",
        500.. => "internal",
        _ => return None,
    })
}

/// The counters of one server; empty ones cost next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Family<Request, Counter>,
    watchers: Family<Resource, Gauge>,
    events: Family<Resource, Counter>,
    cut_off: Counter,
    refused: Family<Reason, Counter>,
    seconds: Seconds,
}

/// Durations by verb.
#[derive(Debug)]
struct Seconds(Family<Verb, Histogram, fn() -> Histogram>);

impl Default for Seconds {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }
}

/// An open watch; it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    open: Gauge,
    events: Counter,
    cut_off: Counter,
}

impl Metrics {
    /// A request on a resource was answered; of a watch the answer is its beginning.
    pub(crate) fn answered(&self, verb: &'static str, table: &Arc<str>, code: u16, took: Duration) {
        let request = Request {
            verb,
            resource: table.to_string(),
            code,
        };
        self.requests.get_or_create(&request).inc();
        let seconds = self.seconds.0.get_or_create(&Verb { verb });
        seconds.observe(took.as_secs_f64());
    }

    /// A write was answered, on a resource or not.
    pub(crate) fn written(&self, code: u16) {
        if let Some(reason) = reason(code) {
            self.refused.get_or_create(&Reason { reason }).inc();
        }
    }

    /// A watch was opened.
    pub(crate) fn watcher(&self, table: &Arc<str>) -> Watcher {
        let resource = Resource {
            resource: table.to_string(),
        };
        let open = self.watchers.get_or_create(&resource).clone();
        open.inc();
        Watcher {
            open,
            events: self.events.get_or_create(&resource).clone(),
            cut_off: self.cut_off.clone(),
        }
    }
}

impl Watcher {
    /// An event was sent.
    pub(crate) fn sent(&self) {
        self.events.inc();
    }

    /// It was too slow.
    pub(crate) fn fell_behind(&self) {
        self.cut_off.inc();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// Everything as text.
pub(crate) fn answer(core: &Core) -> Reply {
    let counted = &core.metrics;
    let mut registry = Registry::default();
    registry.register(
        "apiserver_request",
        "Requests on resources by verb, resource and status code",
        counted.requests.clone(),
    );
    registry.register(
        "apiserver_request_duration_seconds",
        "Time until a request was answered, by verb",
        counted.seconds.0.clone(),
    );
    registry.register(
        "apiserver_watchers",
        "Open watches by resource",
        counted.watchers.clone(),
    );
    registry.register(
        "apiserver_watch_events",
        "Events sent to watches by resource",
        counted.events.clone(),
    );
    registry.register(
        "apiserver_watch_cut_off",
        "Watches that were ended because their client was too slow",
        counted.cut_off.clone(),
    );
    registry.register(
        "apiserver_refused_writes",
        "Writes that were refused, by reason",
        counted.refused.clone(),
    );
    let in_flight = Family::<Kind, Gauge>::default();
    for (request_kind, taken) in core.flow.taken() {
        let gauge = in_flight.get_or_create(&Kind { request_kind });
        gauge.set(i64::try_from(taken).unwrap_or(i64::MAX));
    }
    registry.register(
        "apiserver_current_inflight_requests",
        "Requests that are being read and answered",
        in_flight,
    );
    let mut level = |name: &str, help: &str, value: u64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    level(
        "apiserver_arriving_body_bytes",
        "Bytes of bodies of writes that are on their way or read",
        core.flow.arriving() as u64,
    );
    level(
        "apiserver_unsent_response_bytes",
        "Bytes of answers that wait for their reader",
        core.flow.unsent() as u64,
    );
    level(
        "apiserver_storage_revision",
        "resourceVersion of the last write",
        core.store.revision(),
    );
    registry.register(
        "apiserver_storage_objects",
        "Stored objects by resource",
        objects(core),
    );
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut out, &registry);
    Reply {
        code: 200,
        body: ReplyBody::Metrics(out),
        warnings: vec![],
    }
}

fn objects(core: &Core) -> Family<Resource, Gauge> {
    let family = Family::<Resource, Gauge>::default();
    for resource in core.registry.all() {
        if resource.quirks.review || resource.conversion.is_some() {
            continue;
        }
        let range = Range {
            limit: 1,
            ..Range::all(&resource.table, None)
        };
        let Ok(listing) = core.store.list(&range) else {
            continue;
        };
        let count = listing.records.len() + listing.remaining;
        if count > 0 {
            let resource = Resource {
                resource: resource.table.to_string(),
            };
            let gauge = family.get_or_create(&resource);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    family
}
