//! Where objects and their history live.

mod event;
mod memory;

use std::sync::Arc;

use bytes::Bytes;

pub use event::{Event, EventKind, Subscription};
pub use memory::{MemoryLimits, MemoryStore};

/// The place of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Table: `plural.group`, or `plural` for core kinds.
    pub table: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its parts.
    pub fn new(table: &Arc<str>, namespace: &str, name: &str) -> Self {
        Self {
            table: table.clone(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// One stored object: canonical bytes with `metadata.resourceVersion` equal to `revision`.
#[derive(Debug, Clone)]
pub struct Record {
    /// Revision of its last change.
    pub revision: u64,
    /// Compact JSON with sorted keys.
    pub bytes: Bytes,
}

/// Which objects to list.
#[derive(Debug, Clone)]
pub struct Range {
    /// Table.
    pub table: Arc<str>,
    /// One namespace, or all.
    pub namespace: Option<Arc<str>>,
    /// Only objects that come after this (namespace, name).
    pub after: Option<(String, String)>,
    /// At most so many; the rest is left for another call.
    pub limit: usize,
    /// State at this revision instead of now.
    pub revision: Option<u64>,
}

/// Part of a table, in (namespace, name) order.
#[derive(Debug)]
pub struct Listing {
    /// Objects with their keys.
    pub records: Vec<(Key, Record)>,
    /// The revision this is the state of.
    pub revision: u64,
    /// How many objects beyond the last one were left out because of the limit.
    pub remaining: usize,
}

/// What must hold for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// The object's last change has this revision.
    Revision(u64),
}

/// Gives the bytes to store (or, for a removal, the last state to tell watchers) for the revision the write gets.
pub type Render<'a> = &'a mut dyn FnMut(u64) -> Bytes;

/// A write of one object.
pub enum Change<'a> {
    /// Creates or replaces.
    Put(Render<'a>),
    /// Removes.
    Remove(Render<'a>),
}

/// Why a write did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The expectation did not hold; nothing was written.
    #[error("the object is not in the expected state; read it again")]
    Unexpected,
    /// The store cannot take writes.
    #[error("the store refuses writes: {0}")]
    Refused(String),
}

/// The revision asked for is older than the history kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct TooOld {
    /// Revision asked for.
    pub asked: u64,
    /// Oldest revision that can be served.
    pub oldest: u64,
}

/// Where a subscription starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the state of now, followed by every later event.
    State,
    /// With the first event after this revision.
    Revision(u64),
    /// With the first event after now.
    Now,
}

/// Objects and the bounded history of their changes, under one monotone revision.
///
/// # Guarantees
/// Revisions are totally ordered over all tables. A subscription sees every event of its table and namespace
/// once, in order, or is cut off.
pub trait Store: Send + Sync + 'static {
    /// The revision of the last write.
    fn revision(&self) -> u64;
    /// One object.
    fn get(&self, key: &Key) -> Option<Record>;
    /// Part of a table.
    ///
    /// # Errors
    /// If the state at a past revision is wanted and the history does not reach back so far.
    fn list(&self, range: &Range) -> Result<Listing, TooOld>;
    /// One write, if what it expects holds. Returns the record as stored (for a removal, the last state).
    ///
    /// # Errors
    /// If the expectation does not hold or the store refuses.
    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError>;
    /// The events of a table (in one namespace or all).
    ///
    /// # Errors
    /// If the history does not reach back to the revision.
    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld>;
    /// Ends every subscription.
    fn close_subscriptions(&self);
}
