//! Stores over other stores.

use std::sync::Arc;

use super::{
    Change, Expect, From, Gauge, Key, Listing, Range, Record, Settling, Store, Subscription, TooOld,
    Unsettled, WriteError,
};

/// A store over another one: what the layer does not do itself, the other one does.
pub trait StoreLayer: Send + Sync + 'static {
    /// The other one.
    fn inner(&self) -> &dyn Store;

    /// As [`Store::write`].
    ///
    /// # Errors
    /// As of [`Store::write`].
    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError>;

    /// As [`Store::settle_here`].
    ///
    /// # Errors
    /// As of [`Store::settle`].
    fn settle_here(&self, revision: u64) -> Result<(), Unsettled> {
        self.inner().settle_here(revision)
    }
}

impl<L: StoreLayer> Store for L {
    fn revision(&self) -> u64 {
        self.inner().revision()
    }

    fn settled(&self) -> u64 {
        self.inner().settled()
    }

    fn seen_by_readers_of(&self, table: &str) -> u64 {
        self.inner().seen_by_readers_of(table)
    }

    fn is_busy(&self) -> bool {
        self.inner().is_busy()
    }

    fn is_very_busy(&self) -> bool {
        self.inner().is_very_busy()
    }

    fn takes_writes(&self) -> bool {
        self.inner().takes_writes()
    }

    fn settle(&self, revision: u64) -> Settling {
        self.inner().settle(revision)
    }

    fn settle_here(&self, revision: u64) -> Result<(), Unsettled> {
        StoreLayer::settle_here(self, revision)
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.inner().get(key)
    }

    fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        self.inner().list(range)
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        StoreLayer::write(self, key, expect, change)
    }

    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        self.inner().subscribe(table, namespace, from)
    }

    fn close_subscriptions(&self) {
        self.inner().close_subscriptions();
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.inner().gauges()
    }
}
