//! The inbox of a bundle's worker: the newest state of the Bundle and the objects that were touched, coalesced.

use crate::bundle::Presence;
use crate::object::ObjectKey;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// What there is to look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct News {
    /// The Bundle, if something about it changed that a pass must act on.
    pub(crate) intent: bool,
    /// Its status on the hub is not what was reported, or a report was not heard.
    pub(crate) status: bool,
    /// Objects that were touched, and at which version they were seen last; `None` if they were gone.
    pub(crate) touched: BTreeMap<ObjectKey, Option<Box<str>>>,
    /// A definition came or went: what had no kind may have one.
    pub(crate) kinds: bool,
    /// Another part of its application changed or was read, and it waited for that.
    pub(crate) parts: bool,
    /// Its ledger may not be as it was written.
    pub(crate) ledger: Option<LedgerSeen>,
    /// What a list has shown of the ledger that was no news then: a pass that is under way may have written it.
    listed: Option<LedgerSeen>,
}

impl News {
    fn is_empty(&self) -> bool {
        !self.intent
            && !self.status
            && !self.kinds
            && !self.parts
            && self.ledger.is_none()
            && self.touched.is_empty()
    }
}

/// A ledger, as a watch of the member showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerSeen {
    /// At this version; `None` if it is gone.
    pub(crate) version: Option<Box<str>>,
    /// By a list: what an event says of an older version is late, but a list that has one may be of a member that was
    /// restored from a backup.
    pub(crate) listed: bool,
}

impl LedgerSeen {
    pub(crate) fn by_event(version: Option<&str>) -> Self {
        LedgerSeen {
            version: version.map(Into::into),
            listed: false,
        }
    }

    pub(crate) fn by_list(version: Option<&str>) -> Self {
        LedgerSeen {
            listed: true,
            ..LedgerSeen::by_event(version)
        }
    }

    /// Whether it is news to one who knows the ledger at another version. Events about our own earlier writes come late;
    /// Kubernetes orders the versions of one object as numbers.
    pub(crate) fn is_news_to(&self, known: Option<&str>) -> bool {
        let seen = self.version.as_deref();
        let numbers = seen.zip(known).map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>()));
        match numbers {
            Some((Ok(seen), Ok(known))) if !self.listed => seen > known,
            _ => seen != known,
        }
    }
}

/// Holds the newest state only: a slow worker costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pending: Mutex<(Presence, News)>,
    /// Whether the last report was not heard.
    unheard: AtomicBool,
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

    /// An object was seen at a version, or (`None`) gone.
    pub(crate) fn touch(&self, key: ObjectKey, version: Option<&str>) {
        self.pending.lock().1.touched.insert(key, version.map(Into::into));
        self.wake.notify_one();
    }

    /// An object was looked at in this version: that it is there is no news any more.
    pub(crate) fn saw(&self, key: &ObjectKey, version: &str) {
        let touched = &mut self.pending.lock().1.touched;
        if touched.get(key).and_then(Option::as_deref) == Some(version) {
            touched.remove(key);
        }
    }

    /// A definition came or went.
    pub(crate) fn kinds_changed(&self) {
        self.pending.lock().1.kinds = true;
        self.wake.notify_one();
    }

    /// Another part of the application changed or was read.
    pub(crate) fn parts_changed(&self) {
        self.pending.lock().1.parts = true;
        self.wake.notify_one();
    }

    /// The ledger was seen.
    pub(crate) fn ledger(&self, seen: LedgerSeen) {
        self.pending.lock().1.ledger = Some(seen);
        self.wake.notify_one();
    }

    /// A list has shown the ledger as it is known; who is writing it meanwhile may know better.
    pub(crate) fn ledger_listed(&self, seen: LedgerSeen) {
        self.pending.lock().1.listed = Some(seen);
    }

    /// The ledger is known to be at a version, or to be gone: that is no news any more.
    pub(crate) fn saw_ledger(&self, version: Option<&str>) {
        let news = &mut self.pending.lock().1;
        let is_news = |seen: &LedgerSeen| seen.is_news_to(version);
        let listed = news.listed.take().filter(is_news);
        news.ledger = news.ledger.take().filter(is_news).or(listed);
    }

    /// Whether the last report was not heard: then it is sent again as soon as the hub hears anything.
    pub(crate) fn unheard(&self, is_so: bool) {
        self.unheard.store(is_so, Ordering::Relaxed);
    }

    /// The hub has heard something of this agent.
    pub(crate) fn hub_hears(&self) {
        if self.unheard.swap(false, Ordering::Relaxed) {
            self.pending.lock().1.status = true;
            self.wake.notify_one();
        }
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

    /// Waits until the Bundle itself says something else; takes nothing.
    pub(crate) async fn intended(&self) {
        while !self.pending.lock().1.intent {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_about_our_own_writes_are_no_news() {
        for (seen, known, expected) in [
            (Some("7"), Some("7"), false),
            (Some("7"), Some("12"), false),
            (Some("12"), Some("7"), true),
            (None, Some("7"), true),
            (None, None, false),
            (Some("7"), None, true),
            (Some("a"), Some("b"), true),
        ] {
            let seen = LedgerSeen::by_event(seen);
            assert_eq!(seen.is_news_to(known), expected, "{seen:?} {known:?}");
        }
        let inbox = Inbox::default();
        inbox.ledger(LedgerSeen::by_event(Some("7")));
        inbox.saw_ledger(Some("9"));
        assert!(!inbox.has_news());
        inbox.ledger(LedgerSeen::by_event(None));
        inbox.saw_ledger(Some("9"));
        assert!(inbox.has_news());
    }

    #[test]
    fn what_a_list_has_shown_while_the_ledger_was_written_is_judged_when_that_is_done() {
        for (seen, before, after, expected) in [
            // The member was put back while the ledger was on its way from 7 to 12, or to its first version.
            (Some("7"), Some("7"), Some("12"), true),
            (None, None, Some("5"), true),
            // It was listed before it was written, and a look at it costs little; or nothing was written.
            (Some("7"), Some("7"), Some("7"), false),
            (None, None, None, false),
        ] {
            let inbox = Inbox::default();
            inbox.take();
            let seen = LedgerSeen::by_list(seen);
            assert!(!seen.is_news_to(before));
            inbox.ledger_listed(seen.clone());
            assert!(!inbox.has_news(), "{seen:?}: not yet");
            inbox.saw_ledger(after);
            assert_eq!(inbox.has_news(), expected, "{seen:?} {before:?} {after:?}");
            // Once.
            inbox.take();
            inbox.saw_ledger(after);
            assert!(!inbox.has_news());
        }
        // The event of its own write came first.
        let inbox = Inbox::default();
        inbox.ledger(LedgerSeen::by_event(Some("12")));
        inbox.ledger_listed(LedgerSeen::by_list(Some("7")));
        inbox.saw_ledger(Some("12"));
        assert!(inbox.has_news());
        // What was listed before a pass began was judged then.
        let inbox = Inbox::default();
        inbox.ledger_listed(LedgerSeen::by_list(Some("7")));
        inbox.take();
        inbox.saw_ledger(Some("12"));
        assert!(!inbox.has_news());
    }

    #[test]
    fn a_list_that_has_an_older_version_is_news_for_the_member_may_have_been_restored() {
        for (seen, known, expected) in [
            (Some("7"), Some("7"), false),
            (Some("7"), Some("12"), true),
            (Some("12"), Some("7"), true),
            (None, Some("7"), true),
            (None, None, false),
        ] {
            let seen = LedgerSeen::by_list(seen);
            assert_eq!(seen.is_news_to(known), expected, "{seen:?} {known:?}");
        }
    }

    #[test]
    fn a_report_that_was_not_heard_is_news_once_when_the_hub_hears_again() {
        let inbox = Inbox::default();
        inbox.hub_hears();
        assert!(!inbox.has_news());
        inbox.unheard(true);
        assert!(!inbox.has_news());
        inbox.hub_hears();
        assert!(inbox.take().1.status);
        inbox.hub_hears();
        assert!(!inbox.has_news());
        inbox.unheard(true);
        inbox.unheard(false);
        inbox.hub_hears();
        assert!(!inbox.has_news(), "the next one was heard");
    }
}
