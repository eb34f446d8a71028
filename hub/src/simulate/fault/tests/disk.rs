//! What becomes of the disk of the hub.

use super::line::{SECOND, seeds};
use crate::simulate::{
    HUB,
    fault::{DiskFault, Kind, Seen, Shelves, StoreFailure},
};
use bytes::Bytes;
use roundhouse_apiserver::{Change, Expect, Key, Store, StoreLimits, WriteError};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, sleep, timeout},
};

struct Disk {
    shelves: Shelves,
    seen: Seen,
    failures: UnboundedReceiver<StoreFailure>,
}

impl Disk {
    fn new(seed: u64) -> Disk {
        let (told, failures) = unbounded_channel();
        let seen = Seen::default();
        let shelves = Shelves::new(seed, StoreLimits::default(), seen.clone(), told);
        Disk {
            shelves,
            seen,
            failures,
        }
    }

    fn hub(&self) -> Arc<dyn Store> {
        self.shelves.stores().open(HUB)
    }

    fn count(&self, kind: Kind) -> u64 {
        self.shelves.count();
        self.seen.counts().get(&kind).copied().unwrap_or(0)
    }
}

fn key(n: u32) -> Key {
    Key::new(&"configmaps".into(), "default", &format!("m{n}"))
}

/// Writes an object of some size; the revision.
fn write(store: &dyn Store, n: u32) -> Result<u64, WriteError> {
    let mut render = |_| Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(20_000)));
    let record = store.write(&key(n), Expect::Absent, Change::Put(&mut render))?;
    Ok(record.revision)
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_refuses_writes_until_there_is_room() {
    let disk = Disk::new(1);
    let store = disk.hub();
    for n in 0..5 {
        assert!(write(&*store, n).is_ok(), "there is room");
    }
    disk.shelves.fail(DiskFault::Full);
    assert_eq!(disk.count(Kind::DiskFull), 0, "nobody has met it");
    // A segment that was begun has its room: what is beyond it is refused.
    let refused = (5..60).map(|n| write(&*store, n)).filter(Result::is_err).count();
    assert!(refused > 0 && !store.takes_writes());
    assert_eq!(disk.count(Kind::DiskFull), 1);
    assert!(store.get(&key(0)).is_some(), "reads go on");
    disk.shelves.heal();
    sleep(SECOND * 5).await;
    assert!(store.takes_writes());
    let revision = write(&*store, 100).unwrap();
    assert!(store.settle(revision).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_fails_ends_the_store_and_what_was_acknowledged_is_there_at_the_next_start() {
    let mut disk = Disk::new(1);
    let store = disk.hub();
    let revision = write(&*store, 0).unwrap();
    assert!(store.settle(revision).await.is_ok());
    assert!(disk.failures.try_recv().is_err(), "nothing fails by itself");
    disk.shelves.fail(DiskFault::FailedSync);
    assert_eq!(disk.count(Kind::SyncFailed), 0, "nobody has met it");
    let settled = match write(&*store, 1) {
        Ok(revision) => store.settle(revision).await.is_ok(),
        Err(_) => false,
    };
    assert!(!settled, "nobody is told that it is kept");
    let failure = timeout(SECOND, disk.failures.recv()).await.unwrap().unwrap();
    assert!(
        failure.server == HUB && failure.why.contains("cannot sync"),
        "{failure:?}"
    );
    assert_eq!(disk.count(Kind::SyncFailed), 1);
    disk.shelves.hub_ended(false);
    disk.shelves.open_hub().unwrap();
    assert!(disk.hub().get(&key(0)).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_slow_keeps_who_writes_waiting() {
    for (slow, takes) in [(None, Duration::ZERO), (Some(SECOND * 3), SECOND * 3)] {
        let disk = Disk::new(1);
        let store = disk.hub();
        if let Some(slow) = slow {
            disk.shelves.fail(DiskFault::Slow(slow));
        }
        let began = Instant::now();
        let revision = write(&*store, 0).unwrap();
        assert!(store.get(&key(0)).is_some());
        assert!(store.settle(revision).await.is_ok());
        assert_eq!(began.elapsed(), takes);
        assert_eq!(disk.count(Kind::DiskSlow), u64::from(slow.is_some()));
    }
}

/// Writes something that is acknowledged and something that is not yet, ends the hub, and looks what is found.
async fn found_after(seed: u64, power_is_gone: bool) -> (bool, bool) {
    let disk = Disk::new(seed);
    let store = disk.hub();
    let revision = write(&*store, 0).unwrap();
    assert!(store.settle(revision).await.is_ok());
    disk.shelves.fail(DiskFault::Slow(SECOND * 100));
    write(&*store, 1).unwrap();
    disk.shelves.hub_ended(power_is_gone);
    disk.shelves.open_hub().unwrap();
    let store = disk.hub();
    (store.get(&key(0)).is_some(), store.get(&key(1)).is_some())
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_takes_what_was_not_synced_and_nothing_that_was_acknowledged() {
    let mut lost = 0;
    for seed in seeds() {
        let (acknowledged, other) = found_after(seed, true).await;
        assert!(acknowledged, "seed {seed}");
        lost += u32::from(!other);
    }
    assert!(lost > 0, "what is not synced is in danger");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_leaves_what_it_has_written() {
    for seed in seeds() {
        assert!(found_after(seed, false).await.0, "seed {seed}");
    }
    // And with the disk as it should be, all of it.
    let disk = Disk::new(1);
    let store = disk.hub();
    for n in 0..3 {
        write(&*store, n).unwrap();
    }
    disk.shelves.hub_ended(false);
    disk.shelves.open_hub().unwrap();
    assert!((0..3).all(|n| disk.hub().get(&key(n)).is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_stops_at_any_step_of_the_disk_keeps_what_was_acknowledged() {
    let mut stopped = 0;
    for fuel in (0..60_000).step_by(997) {
        let disk = Disk::new(fuel);
        let store = disk.hub();
        disk.shelves.disk().stop_after(fuel);
        let mut acknowledged = Vec::new();
        for n in 0..3 {
            if let Ok(revision) = write(&*store, n)
                && store.settle(revision).await.is_ok()
            {
                acknowledged.push(n);
            }
        }
        stopped += u32::from(acknowledged.len() < 3);
        disk.shelves.hub_ended(true);
        disk.shelves.open_hub().unwrap();
        let store = disk.hub();
        for n in acknowledged {
            assert!(store.get(&key(n)).is_some(), "m{n} after {fuel} steps");
        }
    }
    assert!(stopped > 10, "it stopped {stopped} times only");
}
