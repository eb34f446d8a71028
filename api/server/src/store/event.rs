//! Events and their delivery.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Kept, Key, Record};
use crate::selector::Labels;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To which object.
    pub key: Key,
    /// As of which revision.
    pub revision: u64,
    /// The state after it; for a removal, the last state with the removal's resourceVersion.
    pub bytes: Bytes,
    /// The state before it.
    pub previous: Option<Record>,
    pub(crate) labels: OnceLock<Labels>,
    pub(crate) previous_labels: OnceLock<Labels>,
}

impl Event {
    pub(crate) fn new(
        kind: EventKind,
        key: Key,
        revision: u64,
        bytes: Bytes,
        previous: Option<Record>,
    ) -> Self {
        Self {
            kind,
            key,
            revision,
            bytes,
            previous,
            labels: OnceLock::new(),
            previous_labels: OnceLock::new(),
        }
    }

    /// The labels after the event, read once for all watchers.
    pub(crate) fn labels(&self) -> &Labels {
        self.labels.get_or_init(|| Labels::of(&self.bytes))
    }

    /// The labels before the event.
    pub(crate) fn previous_labels(&self) -> &Labels {
        self.previous_labels.get_or_init(|| {
            self.previous
                .as_ref()
                .map(|record| Labels::of(&record.bytes))
                .unwrap_or_default()
        })
    }
}

/// The receiving end of a watch.
#[derive(Debug)]
pub struct Subscription {
    /// The state at the start, if it was asked for.
    pub state: Vec<(Key, Kept)>,
    /// Events between the revision asked for and the start.
    pub backlog: Vec<Arc<Event>>,
    /// Revision of the start: what is later is told as an event.
    pub revision: u64,
    pub(crate) events: mpsc::Receiver<Arc<Event>>,
    pub(crate) waiting: Arc<Waiting>,
    /// How often every subscription had been ended before.
    pub(super) closed: u64,
}

/// Most bytes of events that wait for one watch: of several steps to the disk, each of which tells them all at once. Watches
/// share the bytes.
const WAITING: usize = 64 << 20;

/// What waits for one watch.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: AtomicUsize,
    /// There was no room for another event.
    overrun: AtomicBool,
}

impl Subscription {
    /// Events behind which there are more than there is room for: it is told nothing but them.
    pub(super) fn of_a_piece(backlog: Vec<Arc<Event>>, closed: u64) -> Self {
        let waiting = Waiting::default();
        waiting.overrun.store(true, Ordering::Release);
        Self {
            state: vec![],
            revision: backlog.last().map_or(0, |event| event.revision),
            backlog,
            events: mpsc::channel(1).1,
            waiting: Arc::new(waiting),
            closed,
        }
    }

    /// Whether no end of every subscription lies between this one and the one that it follows.
    pub(crate) fn follows(&self, before: &Self) -> bool {
        self.closed == before.closed
    }

    /// Whether there was no room for what comes next, and the stream has ended for that. The history may have it.
    pub(crate) fn overran(&self) -> bool {
        self.waiting.overrun.load(Ordering::Acquire)
    }

    /// An event was taken from the buffer.
    pub(crate) fn took(&self, event: &Event) {
        self.waiting.bytes.fetch_sub(event.bytes.len(), Ordering::Relaxed);
    }
}

/// The sending end of a watch.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// Only later events are for it; the earlier ones were in its state or backlog.
    pub(super) since: u64,
    pub(super) events: mpsc::Sender<Arc<Event>>,
    pub(super) waiting: Arc<Waiting>,
}

impl Subscriber {
    /// Hands an event over without waiting; false if this subscriber is gone or too slow.
    pub(super) fn offer(&self, event: &Arc<Event>) -> bool {
        if event.revision <= self.since {
            return true;
        }
        // Counted before the other end can take it.
        let bytes = &self.waiting.bytes;
        let waits = bytes.fetch_add(event.bytes.len(), Ordering::Relaxed);
        // The first one has room, whatever its size.
        if waits > 0 && waits + event.bytes.len() > WAITING {
            self.waiting.overrun.store(true, Ordering::Release);
            return false;
        }
        match self.events.try_send(event.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.waiting.overrun.store(true, Ordering::Release);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}
