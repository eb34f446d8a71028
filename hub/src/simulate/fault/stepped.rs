//! A durable store in virtual time: a sync takes as long as it is told to, and nothing happens on other threads.

use futures::FutureExt;
use parking_lot::Mutex;
use roundhouse_apiserver::{
    Change, DurableStore, Expect, FaultyDisk, Key, Record, Store, StoreLayer, Unsettled, WriteError,
};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// Time between two looks at a disk that was full, as the store's own threads have it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a store says of what it has not written.
const WAITS: &str = "bytes that wait for the disk";

/// What is done when the store has ended by itself.
type OnFailure = dyn Fn(String) + Send + Sync;

pub(super) struct Stepped {
    store: DurableStore,
    sync_takes: Mutex<Duration>,
    /// Whether something has waited for a slow sync, and nobody has asked yet.
    was_slow: AtomicBool,
    work: Notify,
    on_failure: Mutex<Option<Box<OnFailure>>>,
}

impl Stepped {
    pub(super) fn new(
        store: DurableStore,
        sync_takes: Duration,
        on_failure: impl Fn(String) + Send + Sync + 'static,
    ) -> Arc<Stepped> {
        let stepped = Arc::new(Stepped {
            store,
            sync_takes: Mutex::new(sync_takes),
            was_slow: AtomicBool::new(false),
            work: Notify::new(),
            on_failure: Mutex::new(Some(Box::new(on_failure))),
        });
        tokio::spawn(write_out(Arc::downgrade(&stepped)));
        stepped
    }

    pub(super) fn slow(&self, sync_takes: Duration) {
        *self.sync_takes.lock() = sync_takes;
        self.work.notify_one();
    }

    /// The machine stops in the middle of what is written, which is up to so many thousandths of what waits for the disk, and before
    /// it is synced. Whether there was anything to write.
    pub(super) fn dies(&self, disk: &FaultyDisk, part: u64) -> bool {
        // Nobody is left to be told.
        self.on_failure.lock().take();
        let gauges = self.store.gauges().into_iter();
        let mut waits = gauges
            .filter(|gauge| gauge.name == WAITS)
            .map(|gauge| u64::try_from(gauge.value).unwrap_or(0));
        let waits = waits.next().unwrap_or(0);
        disk.stop_after(waits.saturating_mul(part) / 1_000);
        disk.stop_at_sync();
        self.store.step();
        waits > 0 && disk.is_unsynced()
    }

    /// Whether something has waited for a slow sync since this was asked last.
    pub(super) fn was_slow(&self) -> bool {
        self.was_slow.swap(false, Ordering::Relaxed)
    }

    /// One durable step; whether it is to be tried again.
    fn step(&self) -> bool {
        let again = self.store.step();
        if let Some(failure) = self.store.failed().now_or_never()
            && let Some(told) = self.on_failure.lock().take()
        {
            told(failure.to_string());
        }
        again
    }

    fn written(&self) {
        let at_once = self.sync_takes.lock().is_zero();
        if !at_once || self.step() {
            self.work.notify_one();
        }
    }
}

/// Writes out what has queued up, as long as there is somebody who has the store.
async fn write_out(stepped: Weak<Stepped>) {
    let mut again = false;
    loop {
        let Some(store) = stepped.upgrade() else { return };
        if again {
            drop(store);
            sleep(LOOK_EVERY).await;
        } else {
            // The last one who has the store lets this go with it only when it is written to again: that is no harm.
            store.work.notified().await;
            drop(store);
        }
        let Some(store) = stepped.upgrade() else { return };
        let takes = *store.sync_takes.lock();
        if !takes.is_zero() {
            store.was_slow.store(true, Ordering::Relaxed);
        }
        drop(store);
        sleep(takes).await;
        let Some(store) = stepped.upgrade() else { return };
        again = store.step();
    }
}

impl StoreLayer for Stepped {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    fn settle_here(&self, revision: u64) -> Result<(), Unsettled> {
        self.step();
        self.store.settle_here(revision)
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let record = self.store.write(key, expect, change)?;
        self.written();
        Ok(record)
    }
}
