//! Events and their delivery.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Key, Record};
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
    pub previous: Option<Bytes>,
    pub(crate) labels: OnceLock<Labels>,
    pub(crate) previous_labels: OnceLock<Labels>,
}

impl Event {
    pub(crate) fn new(
        kind: EventKind,
        key: Key,
        revision: u64,
        bytes: Bytes,
        previous: Option<Bytes>,
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
        self.previous_labels
            .get_or_init(|| self.previous.as_deref().map(Labels::of).unwrap_or_default())
    }
}

/// The receiving end of a watch.
#[derive(Debug)]
pub struct Subscription {
    /// The state at the start, if it was asked for.
    pub state: Vec<(Key, Record)>,
    /// Events between the revision asked for and now.
    pub backlog: Vec<Arc<Event>>,
    /// Revision of the start.
    pub revision: u64,
    pub(crate) events: mpsc::Receiver<Arc<Event>>,
    pub(crate) overrun: Arc<AtomicBool>,
}

impl Subscription {
    /// Whether events were lost because the buffer was full; the stream has ended then.
    pub(crate) fn overran(&self) -> bool {
        self.overrun.load(Ordering::Acquire)
    }
}

/// The sending end of a watch.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) events: mpsc::Sender<Arc<Event>>,
    pub(super) overrun: Arc<AtomicBool>,
}

impl Subscriber {
    /// Hands an event over without waiting; false if this subscriber is gone or too slow.
    pub(super) fn offer(&self, event: &Arc<Event>) -> bool {
        match self.events.try_send(event.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.overrun.store(true, Ordering::Release);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}
