//! The life of a party, from its start to its end: what it sends after its death reaches nobody. Its moments are those of its talk with
//! API servers; between what it does besides, such as a write and its sync, it dies at drawn times ([`Shelves`](super::Shelves)
//! cuts the power).

use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::mpsc::UnboundedSender;

/// At which point of an exchange somebody dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A request leaves, and has no effect any more.
    BeforeRequest,
    /// A request had its effect, and its answer is not read.
    BeforeAnswer,
    /// A line of a watch is there, and is not read.
    AtFrame,
}

/// A moment of somebody's life: the n-th exchange of a kind from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Which, from 1.
    pub nth: u32,
    /// Of what.
    pub when: When,
    /// Only exchanges that write count.
    pub writes_only: bool,
}

#[derive(Debug)]
pub(super) struct Life {
    who: String,
    dead: AtomicBool,
    doom: Mutex<Option<Moment>>,
    /// Who is told of a death by doom.
    told: UnboundedSender<String>,
}

impl Life {
    pub(super) fn new(who: &str, told: UnboundedSender<String>) -> Arc<Life> {
        Arc::new(Life {
            who: who.to_owned(),
            dead: AtomicBool::new(false),
            doom: Mutex::default(),
            told,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_doomed(&self) -> bool {
        !self.is_over() && self.doom.lock().is_some()
    }

    pub(super) fn doom(&self, moment: Option<Moment>) {
        *self.doom.lock() = moment;
    }

    /// One exchange has come so far: whether it is the last one.
    pub(super) fn comes_to(&self, when: When, writes: bool) -> bool {
        let mut doom = self.doom.lock();
        let Some(moment) = doom.as_mut() else {
            return false;
        };
        if moment.when != when || (moment.writes_only && !writes) {
            return false;
        }
        moment.nth = moment.nth.saturating_sub(1);
        if moment.nth > 0 {
            return false;
        }
        *doom = None;
        self.end();
        // Nobody listens when a run is over.
        let _ = self.told.send(self.who.clone());
        true
    }
}
