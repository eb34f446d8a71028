//! What goes on while the disk is full.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;

use super::{Inner, LEASES, Shared};
use crate::{
    fence::EPOCH,
    object,
    store::{
        Change, Event, Expect, Key, WriteError,
        journal::{Journal, JournalError},
    },
};

/// How many revisions may be given out on one ceiling.
const REVISIONS: u64 = 1 << 20;

/// Room of a segment that is left to Leases: one part in so many.
const FOR_LEASES: u64 = 4;
/// Room that no Lease takes: one part of a segment in so many.
const FOR_NONE: u64 = 64;

/// What is known of a full disk.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// Why no segment can be made, as long as none can.
    why: Option<String>,
    /// Whether Leases go on without being written.
    pub(super) without: bool,
    /// Leases that were renewed without the disk, with what they are now.
    unwritten: HashMap<Key, Arc<Event>>,
    /// Up to here revisions may be given out without being written.
    ceiling: u64,
    /// Whether a write that was taken waits for room.
    held: bool,
}

impl Full {
    /// Whether nothing is settled until there is room.
    pub(super) fn holds(&self) -> bool {
        self.held
    }

    /// Whether writes are refused.
    pub(super) fn refuses(&self) -> bool {
        self.held || self.why.is_some()
    }
}

/// How an admitted write goes on.
pub(super) enum Admitted<'a> {
    /// By way of the disk.
    Written(Change<'a>),
    /// Without it: a heartbeat, with its content.
    Unwritten(Bytes),
}

/// Who holds a Lease, how often that changed, and the epoch that a hub has marked its own with before it writes anything.
fn holder(lease: &[u8]) -> [Option<serde_json::Value>; 3] {
    let lease = object::decode(lease);
    let places = [
        ["spec", "holderIdentity"].as_slice(),
        &["spec", "leaseTransitions"],
        &["metadata", "annotations", EPOCH],
    ];
    places.map(|place| object::at(&lease, place).cloned())
}

/// Bytes that can be written yet, when all that waits is.
pub(super) fn left(inner: &Inner) -> u64 {
    // Small writes have large frames.
    inner.room.saturating_sub(inner.unsettled_bytes as u64 * 2)
}

impl Shared {
    /// Whether a write may come in, and how it goes on.
    pub(super) fn admit<'a>(
        &self,
        inner: &mut Inner,
        key: &Key,
        expect: Expect,
        change: Change<'a>,
    ) -> Result<Admitted<'a>, WriteError> {
        if inner.ended {
            return Err(WriteError::Refused(
                "the disk has failed; see the log of the server, and start it again".to_owned(),
            ));
        }
        let Some(why) = inner.full.why.clone() else {
            return Ok(Admitted::Written(change));
        };
        let (segment, left) = (self.options.segment_bytes, left(inner));
        if !inner.full.held && !inner.full.without && left > segment / FOR_LEASES {
            return Ok(Admitted::Written(change));
        }
        let refused = || {
            Err(WriteError::Refused(format!(
                "there is no room in the data directory ({why}); writes are taken again when there is"
            )))
        };
        let old = inner.state.record(key);
        let (Expect::Revision(revision), Change::Put(render), Some(old)) = (expect, change, old) else {
            return refused();
        };
        if &*key.table != LEASES || old.revision != revision {
            return refused();
        }
        let bytes = render(inner.state.revision + 1);
        // Who holds it must not be forgotten; that it is held still may be.
        if holder(&bytes) != holder(&old.bytes) {
            return refused();
        }
        let needed = segment / FOR_NONE + 2 * bytes.len() as u64;
        inner.full.without |= inner.full.held || left < needed;
        Ok(if inner.full.without {
            Admitted::Unwritten(bytes)
        } else {
            Admitted::Written(Change::Put(render))
        })
    }

    /// Tells writers whether there is room for a next segment.
    pub(super) fn note_room(&self, why: Option<String>) {
        let mut inner = self.inner.write();
        match (&inner.full.why, &why) {
            (None, Some(why)) => {
                tracing::error!(why, "the disk is full: writes are refused until there is room");
            }
            (Some(_), None) => tracing::info!("there is room again: writes are taken"),
            _ => {}
        }
        inner.full.without &= why.is_some();
        inner.full.why = why;
    }

    /// Tells whether writes that were taken wait for room.
    pub(super) fn note_held(&self, held: bool) {
        self.inner.write().full.held = held;
    }

    /// Lets Leases go on without the disk, below a ceiling that is on it.
    pub(super) fn go_without(
        &self,
        journal: &mut Journal,
        events: &[Arc<Event>],
    ) -> Result<(), JournalError> {
        let last = events.last().map_or(0, |event| event.revision);
        if self.inner.read().full.ceiling < last {
            let ceiling = last.saturating_add(REVISIONS);
            journal.raise(ceiling)?;
            self.inner.write().full.ceiling = ceiling;
        }
        let mut inner = self.inner.write();
        for event in events {
            inner.full.unwritten.insert(event.key.clone(), event.clone());
        }
        Ok(())
    }

    /// Writes the Leases that went on without the disk, before anything else is written.
    pub(super) fn catch_up(&self, journal: &mut Journal) -> Result<(), JournalError> {
        let mut events: Vec<_> = self.inner.read().full.unwritten.values().cloned().collect();
        if events.is_empty() {
            return Ok(());
        }
        events.sort_by_key(|event| event.revision);
        let mut rest = &events[..];
        while !rest.is_empty() {
            let taken = self.write_out(journal, rest)?;
            let (written, later) = rest.split_at(taken.min(rest.len()));
            let full = &mut self.inner.write().full;
            for event in written {
                full.unwritten.remove(&event.key);
            }
            rest = later;
        }
        self.inner.write().full.ceiling = 0;
        Ok(())
    }
}
