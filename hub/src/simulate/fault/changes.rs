//! Word that something has changed, in the order in which it was asked for: tokio's own `watch` tells its receivers in an order
//! that it rolls dice for.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Counts changes, and tells of them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    count: AtomicU64,
    told: Notify,
}

impl Changes {
    /// Something has changed.
    pub(super) fn tell(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.told.notify_waiters();
    }

    /// How many changes there were.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there were more changes than this, and says how many.
    pub(super) async fn after(&self, seen: u64) -> u64 {
        loop {
            let told = self.told.notified();
            let count = self.count();
            if count > seen {
                return count;
            }
            told.await;
        }
    }
}
