//! A store that tells the monitor of every write, in the order in which they are made.

use super::{Monitor, commit::Commit, who};
use bytes::Bytes;
use parking_lot::Mutex;
use roundhouse_apiserver::{Change, Expect, Key, Record, Store, StoreLayer, WriteError};
use std::sync::Arc;

/// Forwards to another store; what that one has written the monitor hears before anybody else.
pub(super) struct Observed {
    pub(super) server: Arc<str>,
    pub(super) inner: Arc<dyn Store>,
    pub(super) monitor: Monitor,
    /// Writes are made and told one after the other.
    pub(super) order: Mutex<()>,
}

impl StoreLayer for Observed {
    fn inner(&self) -> &dyn Store {
        &*self.inner
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
}
