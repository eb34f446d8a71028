//! The inbox of a bundle's worker: the newest state of the Bundle and the objects that were touched, coalesced.

use crate::bundle::Presence;
use crate::object::ObjectKey;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// What there is to look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct News {
    /// The Bundle, if something about it changed that a pass must act on.
    pub(crate) intent: bool,
    /// Its status on the hub is not what was reported.
    pub(crate) status: bool,
    /// Objects that were touched.
    pub(crate) touched: BTreeSet<ObjectKey>,
    /// A definition came or went: what had no kind may have one.
    pub(crate) kinds: bool,
}

impl News {
    fn is_empty(&self) -> bool {
        !self.intent && !self.status && !self.kinds && self.touched.is_empty()
    }
}

/// Holds the newest state only: a slow worker costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pending: Mutex<(Presence, News)>,
    wake: Notify,
}

impl Inbox {
    /// Takes in the state of the Bundle.
    pub(crate) fn presence(&self, presence: Presence) {
        {
            let mut pending = self.pending.lock();
            let (known, news) = &mut *pending;
            match (&*known, &presence) {
                (Presence::Present(known), Presence::Present(new)) if known.same_intent(new) => {
                    news.status |= known.status != new.status;
                }
                (Presence::Missing, Presence::Missing) => return,
                _ => news.intent = true,
            }
            *known = presence;
        }
        self.wake.notify_one();
    }

    /// An object was touched.
    pub(crate) fn touch(&self, key: ObjectKey) {
        self.pending.lock().1.touched.insert(key);
        self.wake.notify_one();
    }

    /// A definition came or went.
    pub(crate) fn kinds_changed(&self) {
        self.pending.lock().1.kinds = true;
        self.wake.notify_one();
    }

    /// Asks for a first look, whatever is known.
    pub(crate) fn begin(&self) {
        self.pending.lock().1.intent = true;
        self.wake.notify_one();
    }

    /// Whether there is something to look at.
    pub(crate) fn has_news(&self) -> bool {
        !self.pending.lock().1.is_empty()
    }

    /// Waits until there is something to look at; takes nothing.
    pub(crate) async fn ready(&self) {
        while !self.has_news() {
            self.wake.notified().await;
        }
    }

    /// Takes what there is.
    pub(crate) fn take(&self) -> (Presence, News) {
        let mut pending = self.pending.lock();
        let news = std::mem::take(&mut pending.1);
        (pending.0.clone(), news)
    }
}
