//! A slow disk: the queue is bounded, writes share a sync, and a Lease is kept.

use std::{io, time::Duration};

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::store::{Disk, DiskFile, DurableStore, Store};

/// A disk whose syncs each wait for leave.
pub(super) struct Gated {
    disk: FaultyDisk,
    gate: Arc<Gate>,
}

impl Gated {
    pub(super) fn new(disk: FaultyDisk, gate: Arc<Gate>) -> Self {
        Self { disk, gate }
    }
}

#[derive(Default)]
pub(super) struct Gate {
    leave: Mutex<Option<u64>>,
    waiting: Mutex<bool>,
    changed: Condvar,
    arrived: Condvar,
}

impl Gate {
    /// From now on a sync needs leave; so many have it.
    pub(super) fn allow(&self, syncs: u64) {
        let mut leave = self.leave.lock();
        *leave = Some(leave.unwrap_or(0) + syncs);
        self.changed.notify_all();
    }

    pub(super) fn open(&self) {
        *self.leave.lock() = None;
        self.changed.notify_all();
    }

    /// Until a sync waits for leave.
    pub(super) fn until_waiting(&self) {
        let mut waiting = self.waiting.lock();
        while !*waiting {
            self.arrived.wait(&mut waiting);
        }
    }

    fn pass(&self) {
        let mut leave = self.leave.lock();
        while *leave == Some(0) {
            *self.waiting.lock() = true;
            self.arrived.notify_all();
            self.changed.wait(&mut leave);
        }
        if let Some(left) = &mut *leave {
            *left -= 1;
        }
    }
}

struct GatedFile(Box<dyn DiskFile>, Arc<Gate>);

impl DiskFile for GatedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

impl Disk for Gated {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        // Making spares is not what waits here.
        self.disk.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(GatedFile(self.disk.open(name)?, self.gate.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
    fn place(&self) -> String {
        self.disk.place()
    }
}

#[tokio::test]
async fn writers_share_a_sync_and_a_lease_passes_a_full_queue() {
    let disk = FaultyDisk::default();
    drop(opened(&disk));
    let gate = Arc::new(Gate::default());
    let gated = Gated::new(disk.clone(), gate.clone());
    let options = DurableOptions {
        segment_bytes: 1 << 20,
        ..options()
    };
    let store = DurableStore::on(Arc::new(gated), options).unwrap();
    let write = |key: &Key, expect| {
        let wrote = store.write(key, expect, Change::Put(&mut |_| Bytes::from_static(b"{}")));
        wrote.unwrap().revision
    };
    let first = write(&lease("leader"), Expect::Absent);
    store.settle(first).await.unwrap();
    let patience = Duration::from_secs(20);
    // The next segment is made by a thread of its own.
    let made = async {
        while store.is_busy() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(patience, made).await.unwrap();
    let before = disk.syncs();
    gate.allow(0);
    let mut last = 0;
    for n in 0..options.queue_writes {
        last = write(&key("configmaps", &format!("object-{n}")), Expect::Absent);
    }
    assert!(store.is_busy(), "new work comes back later");
    let renewed = write(&lease("leader"), Expect::Revision(first));
    let read = store.get(&key("configmaps", "object-7"));
    assert!(read.is_some(), "reading takes no disk");
    assert_eq!(store.settled(), first);
    // At most one step was under way when the others came; the second takes them all.
    gate.allow(2);
    tokio::time::timeout(patience, store.settle(renewed))
        .await
        .unwrap()
        .unwrap();
    assert!(store.settled() >= last && !store.is_busy());
    assert!(disk.syncs() - before <= 2, "{} syncs", disk.syncs() - before);
    gate.open();
}

/// What waits for the disk, and how much may.
fn waiting(store: &DurableStore) -> (usize, usize) {
    let gauges = store.gauges();
    let found = gauges
        .iter()
        .find(|gauge| gauge.name == "writes that wait for the disk");
    let gauge = found.unwrap();
    (gauge.value, gauge.most)
}

#[test]
fn leases_pass_a_full_queue_and_wait_at_the_end_of_their_own_room() {
    let store = DurableStore::without_threads(Arc::new(FaultyDisk::default()), options()).unwrap();
    store.step();
    let write = |key: Key| {
        let wrote = store.write(
            &key,
            Expect::Absent,
            Change::Put(&mut |_| Bytes::from_static(b"{}")),
        );
        wrote.unwrap()
    };
    for n in 0..50 {
        assert!(!store.is_busy(), "{n}");
        write(key("configmaps", &format!("object-{n}")));
    }
    assert!(store.is_busy());
    for n in 0..50 {
        assert!(!store.is_very_busy(), "{n}");
        write(lease(&format!("lease-{n}")));
    }
    assert!(store.is_very_busy());
    assert_eq!(waiting(&store), (100, 100));
    write(key("configmaps", "what-follows-from-another"));
    assert_eq!(
        waiting(&store),
        (101, 100),
        "who watches the bound would see it broken"
    );
    while waiting(&store).0 > 0 {
        store.step();
    }
    assert!(!store.is_busy() && !store.is_very_busy());
}
