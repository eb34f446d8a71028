//! A store that tells the monitor of every write, in the order in which they are made.

use super::{Monitor, commit::Commit, who};
use bytes::Bytes;
use parking_lot::Mutex;
use roundhouse_apiserver::{
    Change, Expect, From, Gauge, Key, Listing, Range, Record, Settling, Store, Subscription, TooOld,
    Unsettled, WriteError,
};
use std::sync::Arc;

/// Forwards to another store; what that one has written the monitor hears before anybody else.
pub(super) struct Observed {
    pub(super) server: Arc<str>,
    pub(super) inner: Arc<dyn Store>,
    pub(super) monitor: Monitor,
    /// Writes are made and told one after the other.
    pub(super) order: Mutex<()>,
}

impl Store for Observed {
    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn settled(&self) -> u64 {
        self.inner.settled()
    }

    fn seen_by_readers_of(&self, table: &str) -> u64 {
        self.inner.seen_by_readers_of(table)
    }

    fn is_busy(&self) -> bool {
        self.inner.is_busy()
    }

    fn takes_writes(&self) -> bool {
        self.inner.takes_writes()
    }

    fn settle(&self, revision: u64) -> Settling {
        self.inner.settle(revision)
    }

    fn settle_here(&self, revision: u64) -> Result<(), Unsettled> {
        self.inner.settle_here(revision)
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.inner.get(key)
    }

    fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        self.inner.list(range)
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let _turn = self.order.lock();
        let before = self.inner.get(key);
        let removes = matches!(change, Change::Remove(_));
        let record = self.inner.write(key, expect, change)?;
        let after: Option<Bytes> = (!removes).then(|| record.bytes.clone());
        let commit = Commit::new(
            (&self.server, key),
            who::current(),
            self.monitor.now(),
            before,
            (record.revision, after),
        );
        self.monitor.committed(&commit, expect);
        self.monitor.measured(&self.server, || self.inner.gauges());
        Ok(record)
    }

    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        self.inner.subscribe(table, namespace, from)
    }

    fn close_subscriptions(&self) {
        self.inner.close_subscriptions();
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.inner.gauges()
    }
}
