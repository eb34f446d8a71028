//! The store of simulated members: nothing survives the process.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{
    Change, Expect, From, Gauge, Key, Listing, Range, Record, Settling, Store, StoreLimits, Subscription,
    TooOld, Unsettled, WriteError, state::State,
};

/// Objects in memory.
#[derive(Debug)]
pub struct MemoryStore {
    state: RwLock<State>,
}

/// Revision of an empty store. Revision 1 is history nobody has seen, so that a watch from it is told to list anew.
pub(super) const FIRST_REVISION: u64 = 2;

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: StoreLimits) -> Self {
        Self {
            state: RwLock::new(State::new(limits, FIRST_REVISION)),
        }
    }

    /// A store that was restored from a backup: these objects, with the revisions that they had. Its own go on above `revision`,
    /// as those of a restored etcd are made to (`--bump-revision`), and nobody resumes from before.
    pub fn restored(objects: &[(Key, Record)], revision: u64, limits: StoreLimits) -> Self {
        let mut state = State::new(limits, FIRST_REVISION);
        for (key, record) in objects {
            state.load(key, record.clone());
        }
        state.raise(revision + 1);
        state.forget_history();
        Self {
            state: RwLock::new(state),
        }
    }
}

impl Store for MemoryStore {
    fn revision(&self) -> u64 {
        self.state.read().revision
    }

    fn settled(&self) -> u64 {
        self.state.read().settled
    }

    fn seen_by_readers_of(&self, table: &str) -> u64 {
        self.state.read().seen_by_readers_of(table)
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn is_very_busy(&self) -> bool {
        false
    }

    fn takes_writes(&self) -> bool {
        true
    }

    fn settle(&self, _: u64) -> Settling {
        // A write is settled before it is answered here.
        Settling::done()
    }

    fn settle_here(&self, _: u64) -> Result<(), Unsettled> {
        Ok(())
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.state.read().record(key)
    }

    fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        self.state.read().list(range)
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let mut state = self.state.write();
        let event = state.write(key, expect, change)?;
        state.settle(&event);
        Ok(Record {
            revision: event.revision,
            bytes: event.bytes.clone(),
        })
    }

    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        self.state.write().subscribe(table, namespace, from)
    }

    fn close_subscriptions(&self) {
        self.state.write().close_subscriptions();
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.state.read().gauges()
    }
}
