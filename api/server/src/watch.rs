//! A watch: events as lines of JSON.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    auth::Grant,
    error::ApiError,
    flow::Slot,
    metrics::Watcher,
    object,
    output::metadata_only,
    request::Format,
    selector::{FieldSelector, LabelSelector, Labels},
    server::Core,
    store::{Event, EventKind, From, Kept, Key, Subscription},
    table::{Columns, table},
    verbs::{Call, decode_stored, put_metadata, put_stored, type_prefix},
};

/// Time between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Length of a watch that asks for none (Kubernetes: a random time between 30 and 60 minutes).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// The lines of one watch.
pub(crate) struct WatchStream {
    core: Arc<Core>,
    lines: Lines,
    subscription: Subscription,
    /// What is told before the events: objects as they were, and events that were missed. Made into lines as they are read:
    /// a watch that nobody reads holds no copy of everything. Of what was missed there is a piece at a time.
    state: std::vec::IntoIter<(Key, Kept)>,
    /// Whether the end of the objects is to be told.
    initial_end: bool,
    backlog: std::vec::IntoIter<Arc<Event>>,
    watcher: Watcher,
    _slot: Slot,
    grant: Option<Grant>,
    /// Lines ready to be sent.
    pending: VecDeque<Bytes>,
    revision: u64,
    bookmark: Option<Pin<Box<Sleep>>>,
    end: Pin<Box<Sleep>>,
    ended: bool,
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// How events become lines.
pub(crate) struct Lines {
    pub(crate) call: Call,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) clock: crate::clock::Clock,
}

impl WatchStream {
    /// A watch over a subscription.
    pub(crate) fn new(core: Arc<Core>, lines: Lines, mut subscription: Subscription, slot: Slot) -> Self {
        let query = &lines.call.query;
        let bookmarks = query.bookmarks;
        let initial_end = query.send_initial_events == Some(true);
        let timeout = query
            .timeout_seconds
            .filter(|s| *s > 0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let now = Instant::now();
        let end = now.checked_add(timeout).unwrap_or(now + DEFAULT_TIMEOUT);
        let watcher = core.metrics.watcher(&lines.call.resource.table);
        Self {
            core,
            state: std::mem::take(&mut subscription.state).into_iter(),
            initial_end: initial_end && bookmarks,
            backlog: std::mem::take(&mut subscription.backlog).into_iter(),
            watcher,
            _slot: slot,
            grant: None,
            revision: subscription.revision,
            lines,
            subscription,
            pending: VecDeque::new(),
            bookmark: bookmarks.then(|| Box::pin(sleep_until(now + BOOKMARK_EVERY))),
            end: Box::pin(sleep_until(end)),
            ended: false,
        }
    }

    /// Ends the watch when `grant` holds no longer.
    pub(crate) fn stands_on(&mut self, grant: Grant) {
        self.grant = Some(grant);
    }

    /// The next line of what is told before the events.
    fn begin(&mut self) -> Option<Bytes> {
        for (key, kept) in self.state.by_ref() {
            let record = kept.record();
            if self
                .lines
                .selects(&key, &record.bytes, &Labels::of(&record.bytes))
            {
                return Some(self.lines.line("ADDED", record.revision, &record.bytes));
            }
        }
        if std::mem::take(&mut self.initial_end) {
            return Some(self.lines.bookmark(self.subscription.revision, true));
        }
        let missed = self.backlog.by_ref().find_map(|event| self.lines.event(&event));
        if missed.is_none() {
            self.revision = self.revision.max(self.subscription.revision);
        }
        missed
    }

    /// Whoever had no room for what comes next goes on from the history, if that still has it.
    fn catch_up(&mut self, cx: &mut Context<'_>) {
        if !self.subscription.overran() {
            self.ended = true;
            return;
        }
        if self.end.as_mut().poll(cx).is_ready() {
            self.conclude();
            return;
        }
        let Call { resource, path, .. } = &self.lines.call;
        let from = From::Revision(self.revision);
        let more = self
            .core
            .store
            .subscribe(&resource.table, path.namespace.as_deref(), from);
        match more {
            Ok(subscription) if !subscription.follows(&self.subscription) => self.ended = true,
            Ok(mut subscription) => {
                self.backlog = std::mem::take(&mut subscription.backlog).into_iter();
                self.subscription = subscription;
            }
            Err(_) => {
                self.watcher.fell_behind();
                self.fail(&ApiError::expired(
                    "this watch fell further behind than the history reaches, and was cut off; list again",
                ));
            }
        }
    }

    /// The time of the watch is over: a last bookmark lets the client go on from here.
    fn conclude(&mut self) {
        self.ended = true;
        if self.bookmark.is_some() {
            let line = self.lines.bookmark(self.revision, false);
            self.pending.push_back(line);
        }
    }

    /// Ends with an error; what was still to be told is not.
    fn fail(&mut self, error: &ApiError) {
        self.ended = true;
        self.grant = None;
        self.pending.clear();
        self.pending.push_back(Lines::error(error));
    }

    /// The next line; `None` when the watch has ended.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(grant) = &mut self.grant
                && !self.pending.is_empty()
                && let Err(error) = grant.before_a_line(&self.core, &self.lines.call)
            {
                self.fail(&error);
            }
            if let Some(line) = self.pending.pop_front() {
                self.watcher.sent();
                return Poll::Ready(Some(line));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(line) = self.begin() {
                self.pending.push_back(line);
                continue;
            }
            // Read before the events: everything up to it has been offered to this watch by now.
            let offered = self.core.store.settled();
            match self.subscription.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    self.subscription.took(&event);
                    self.revision = event.revision;
                    self.pending.extend(self.lines.event(&event));
                    continue;
                }
                Poll::Ready(None) => {
                    self.catch_up(cx);
                    continue;
                }
                Poll::Pending => {}
            }
            if let Some(grant) = &mut self.grant
                && let Poll::Ready(error) = grant.poll_lost(cx, &self.core, &self.lines.call)
            {
                self.fail(&error);
                continue;
            }
            if let Some(timer) = &mut self.bookmark
                && timer.as_mut().poll(cx).is_ready()
            {
                timer.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
                self.revision = self.revision.max(offered);
                let line = self.lines.bookmark(self.revision, false);
                self.pending.push_back(line);
                continue;
            }
            if self.end.as_mut().poll(cx).is_ready() {
                self.revision = self.revision.max(offered);
                self.conclude();
                continue;
            }
            return Poll::Pending;
        }
    }
}

impl Lines {
    fn selects(&self, key: &Key, bytes: &Bytes, labels: &Labels) -> bool {
        self.labels.matches(labels) && self.fields.matches(key, || object::decode(bytes))
    }

    /// The line of an event, if this watch is to see it. An object that leaves the selection is deleted, one that
    /// enters it is added.
    fn event(&self, event: &Event) -> Option<Bytes> {
        let everything = self.labels.is_empty() && self.fields.is_empty();
        let is_in = everything
            || self.selects(
                &event.key,
                &event.bytes,
                if self.labels.is_empty() {
                    none()
                } else {
                    event.labels()
                },
            );
        let was_in = event.previous.as_ref().is_some_and(|record| {
            everything
                || self.selects(
                    &event.key,
                    &record.bytes,
                    if self.labels.is_empty() {
                        none()
                    } else {
                        event.previous_labels()
                    },
                )
        });
        match (event.kind, was_in, is_in) {
            (EventKind::Added, _, true) | (EventKind::Modified, false, true) => {
                Some(self.line("ADDED", event.revision, &event.bytes))
            }
            (EventKind::Modified, true, true) => Some(self.line("MODIFIED", event.revision, &event.bytes)),
            (EventKind::Deleted, true, _) => Some(self.line("DELETED", event.revision, &event.bytes)),
            (EventKind::Modified, true, false) => {
                // The state that was selected, as of the revision that took it out.
                let mut value = object::decode(event.previous.as_ref().map_or(&[], |record| &record.bytes));
                object::set_meta(
                    &mut value,
                    "resourceVersion",
                    Some(event.revision.to_string().into()),
                );
                Some(self.line("DELETED", event.revision, &object::encode(&value)))
            }
            _ => None,
        }
    }

    fn line(&self, ty: &str, revision: u64, stored: &Bytes) -> Bytes {
        let call = &self.call;
        let mut out = BytesMut::with_capacity(stored.len() + 160);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(ty.as_bytes());
        out.put_slice(b"\",\"object\":");
        match call.output.format {
            Format::Object | Format::Discovery => {
                let prefix = type_prefix(&call.resource);
                put_stored(&mut out, &call.resource, &prefix, revision, stored);
            }
            Format::Metadata => put_metadata(&mut out, &call.resource, revision, stored),
            Format::Table => {
                let value = decode_stored(&call.resource, stored);
                let meta = json!({"resourceVersion": object::meta(&value, "resourceVersion")});
                let table = table(
                    &Columns::of(call.resource.clone()),
                    &[value],
                    &meta,
                    &call.query.include_object,
                    self.now(),
                );
                out.put_slice(&object::encode(&table));
            }
        }
        out.put_slice(b"}\n");
        out.freeze()
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut meta = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            object::set(
                &mut meta,
                "annotations",
                Some(json!({"k8s.io/initial-events-end": "true"})),
            );
        }
        let resource = &self.call.resource;
        let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": meta});
        let object = match self.call.output.format {
            Format::Metadata => metadata_only(&object),
            Format::Table => table(
                &Columns::of(resource.clone()),
                &[object],
                &meta,
                &self.call.query.include_object,
                self.now(),
            ),
            Format::Object | Format::Discovery => object,
        };
        Self::wrap("BOOKMARK", &object)
    }

    /// The line of an error that ends a watch.
    pub(crate) fn error(error: &ApiError) -> Bytes {
        Self::wrap("ERROR", &error.to_status())
    }

    fn wrap(ty: &str, object: &Value) -> Bytes {
        let mut line = object::encode(&json!({"type": ty, "object": object})).to_vec();
        line.push(b'\n');
        Bytes::from(line)
    }
}

fn none() -> &'static Labels {
    static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
    &NONE
}
