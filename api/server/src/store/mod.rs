//! Where objects and their history live.
//!
//! Every store keeps its objects in memory, in [`state`]. [`memory`] adds nothing to that; [`durable`] adds a journal, so that
//! what was answered survives the process.

mod backup;
mod disk;
mod durable;
mod event;
mod journal;
mod layer;
mod memory;
mod packed;
mod settle;
mod state;

use std::sync::Arc;

use bytes::Bytes;

pub use backup::Backup;
pub use disk::{Disk, DiskFailures, DiskFile, FaultyDisk, Folder, make_directory};
pub use durable::{DurableOptions, DurableStore, Failure};
pub use event::{Event, EventKind, Subscription};
pub use journal::JournalError;
pub use layer::StoreLayer;
pub use memory::MemoryStore;
pub use packed::Kept;
pub use settle::{Settling, Unsettled};
pub use state::StoreLimits;

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// How many objects there are up to that one, if it is known.
    pub passed: Option<usize>,
    /// At most so many; the rest is left for another call.
    pub limit: usize,
    /// State at this revision instead of now.
    pub revision: Option<u64>,
}

impl Range {
    /// A whole table as it is now, or one namespace of it.
    pub fn all(table: &str, namespace: Option<&str>) -> Self {
        Self {
            table: table.into(),
            namespace: namespace.map(Into::into),
            after: None,
            passed: Some(0),
            limit: usize::MAX,
            revision: None,
        }
    }
}

/// Part of a table, in (namespace, name) order.
#[derive(Debug)]
pub struct Listing {
    /// Objects with their keys.
    pub records: Vec<(Key, Kept)>,
    /// The revision this is the state of.
    pub revision: u64,
    /// How many objects beyond the last one were left out because of the limit.
    pub remaining: usize,
}

impl Listing {
    /// The objects as they were written, each read when it is its turn.
    pub fn into_records(self) -> impl Iterator<Item = (Key, Record)> {
        self.records.into_iter().map(|(key, kept)| (key, kept.record()))
    }
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
    /// The store cannot take writes; nothing was written.
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

/// Something that a store holds no more of than it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// What.
    pub name: &'static str,
    /// How much there is.
    pub value: usize,
    /// How much there may be.
    pub most: usize,
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
///
/// A write is visible to readers of this store when [`Store::write`] returns, and it is settled later, when the end of the
/// process cannot take it back. Watchers are told of settled writes only; whoever hands anything else to a caller first
/// waits for [`Store::settle`], for what it wrote and for what it read ([`Store::seen_by_readers_of`]).
pub trait Store: Send + Sync + 'static {
    /// The revision of the last write.
    fn revision(&self) -> u64;
    /// The revision of the last settled write.
    fn settled(&self) -> u64;
    /// A revision as of which a table is as readers see it now: its last change, or the last settled one if that is later.
    fn seen_by_readers_of(&self, table: &str) -> u64;
    /// Whether more writes wait to be settled than should. [`Store::write`] takes more nevertheless: a write that follows
    /// from another must not be left out. It is new work that should come back later.
    fn is_busy(&self) -> bool;
    /// Whether so many wait that Leases should come back later, too, which otherwise pass those that wait: what is given up by
    /// who asked for it still waits.
    fn is_very_busy(&self) -> bool;
    /// Whether writes are taken; reads always are.
    fn takes_writes(&self) -> bool;
    /// Waits until every write up to a revision is settled.
    fn settle(&self, revision: u64) -> Settling;
    /// The same for a thread that may be kept waiting, which tasks may not: it writes to the disk itself where it can.
    ///
    /// # Errors
    /// As of [`Store::settle`].
    fn settle_here(&self, revision: u64) -> Result<(), Unsettled>;
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
    /// What it holds beside the objects, each with its bound.
    fn gauges(&self) -> Vec<Gauge>;
}
