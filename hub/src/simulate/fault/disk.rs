//! What the API servers of a fleet store, and how their disks fail.

use super::{Dice, Kind, Seen, stepped::Stepped};
use crate::simulate::{HUB, Stores};
use jiff::Timestamp;
use parking_lot::Mutex;
use roundhouse_apiserver::{
    Backup, Disk, DurableOptions, DurableStore, FaultyDisk, JournalError, MemoryStore, Store, StoreLimits,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc::UnboundedSender;

/// Small, so that segments are begun, sealed and dropped in a short run.
const SEGMENT: u64 = 512 << 10;

/// Where a bit flips: in the first bytes of a file, which every file that is in use has.
const FLIPS_WITHIN: u64 = 4 << 10;

/// How the disk of the hub's API server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// It has no more room than what is used now.
    Full,
    /// The next sync fails.
    FailedSync,
    /// A sync takes this long.
    Slow(Duration),
    /// A bit of what was acknowledged is another one than was written, as long as this lasts: who reads it finds it so, until
    /// somebody puts the file right.
    FlippedBit,
}

/// A bit of a file.
#[derive(Debug, Clone)]
struct Bit {
    file: String,
    offset: usize,
    mask: u8,
}

impl Bit {
    /// Makes it the other one.
    fn flip(&self, disk: &FaultyDisk) {
        disk.damage(&self.file, |bytes| {
            if let Some(byte) = bytes.get_mut(self.offset) {
                *byte ^= self.mask;
            }
        });
    }
}

/// The store of an API server has ended because its disk failed: its process ends, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailure {
    /// The server.
    pub server: String,
    /// What the store said.
    pub why: String,
}

/// What all API servers of a fleet store: the hub's on a disk that fails as it is told to, the members' in memory, where it
/// stays whatever becomes of their servers. Clones are the same.
#[derive(Clone)]
pub struct Shelves(Arc<Mutex<Inner>>);

struct Inner {
    limits: StoreLimits,
    dice: Dice,
    seen: Seen,
    failures: UnboundedSender<StoreFailure>,
    /// Writes that may wait for the hub's disk, if not as many as usual.
    queue: Option<usize>,
    disk: FaultyDisk,
    sync_takes: Duration,
    flipped: Option<Bit>,
    hub: Option<Arc<Stepped>>,
    members: BTreeMap<String, Arc<dyn Store>>,
}

impl std::fmt::Debug for Shelves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelves")
            .field("disk", &self.0.lock().disk)
            .finish_non_exhaustive()
    }
}

impl Shelves {
    /// Empty ones. Who `failures` tells of a failure has to end the process of that server.
    pub fn new(
        seed: u64,
        limits: StoreLimits,
        seen: Seen,
        failures: UnboundedSender<StoreFailure>,
    ) -> Shelves {
        Shelves(Arc::new(Mutex::new(Inner {
            limits,
            dice: Dice::new(seed, "disk"),
            seen,
            failures,
            queue: None,
            disk: FaultyDisk::default(),
            sync_takes: Duration::ZERO,
            flipped: None,
            hub: None,
            members: BTreeMap::new(),
        })))
    }

    /// What a fleet opens its stores from.
    pub fn stores(&self) -> Stores {
        let shelves = self.clone();
        Stores::new(move |server| shelves.0.lock().open(server))
    }

    /// From its next start on the hub's store lets so many writes wait for the disk.
    pub fn queue(&self, writes: usize) {
        self.0.lock().queue = Some(writes);
    }

    /// Lets the hub's disk fail. What was done to it, in more words than the fault has, if there are any.
    pub fn fail(&self, fault: DiskFault) -> Option<String> {
        let mut inner = self.0.lock();
        match fault {
            DiskFault::Full => {
                inner.disk.limit(Some(inner.disk.used()));
                None
            }
            DiskFault::FailedSync => {
                inner.disk.fail_one_sync();
                None
            }
            DiskFault::Slow(sync_takes) => {
                inner.slow(sync_takes);
                None
            }
            DiskFault::FlippedBit => {
                let bit = inner.flip()?;
                inner.seen.note(Kind::BitFlipped);
                Some(format!("a bit of {} flips at offset {}", bit.file, bit.offset))
            }
        }
    }

    /// Lets the hub's disk be a good one again.
    pub fn heal(&self) {
        let mut inner = self.0.lock();
        inner.count();
        inner.disk.limit(None);
        inner.slow(Duration::ZERO);
        inner.put_right();
    }

    /// Counts how the disk has failed so far.
    pub fn count(&self) {
        self.0.lock().count();
    }

    /// The hub's process has ended: the next start finds what was written. With the power gone it finds what was synced, and
    /// any part of the rest.
    pub fn hub_ended(&self, power_is_gone: bool) {
        let mut inner = self.0.lock();
        inner.count();
        let (seed, part) = (inner.dice.draw(), inner.dice.below(1_000));
        inner.disk = match power_is_gone {
            true => {
                if inner.hub.as_ref().is_some_and(|hub| hub.dies(&inner.disk, part)) {
                    inner.seen.note(Kind::Unsynced);
                }
                let found = inner.disk.after_crash(seed);
                if found.is_torn(&inner.disk) {
                    inner.seen.note(Kind::Torn);
                }
                found
            }
            // A disk of its own: what the old process still holds must not reach it.
            false => inner.disk.copy(),
        };
        inner.hub = None;
    }

    /// A backup of what the hub's API server stores now, as `roundhouse backup` takes it.
    ///
    /// # Errors
    /// What was acknowledged is damaged.
    pub fn back_up_hub(&self) -> Result<Backup, JournalError> {
        Backup::of_disk(&self.0.lock().disk)
    }

    /// A disk of its own for the hub's API server, whose process has ended, with what a backup has: as `roundhouse restore`
    /// makes it.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn restore_hub(&self, backup: &Backup, now: Timestamp) -> Result<(), JournalError> {
        let mut inner = self.0.lock();
        inner.count();
        inner.seen.note(Kind::HubRestored);
        let disk = FaultyDisk::default();
        backup.restore_on(Arc::new(disk.clone()), now.as_second())?;
        (inner.disk, inner.flipped, inner.hub) = (disk, None, None);
        Ok(())
    }

    /// Opens the hub's store, if it is not open.
    ///
    /// # Errors
    /// What the store says of its disk.
    pub fn open_hub(&self) -> Result<(), JournalError> {
        let mut inner = self.0.lock();
        match inner.hub {
            Some(_) => Ok(()),
            None => inner.open_hub().map(drop),
        }
    }

    /// The disk of the hub's API server.
    pub fn disk(&self) -> FaultyDisk {
        self.0.lock().disk.clone()
    }

    /// What a server stores now, if it was opened.
    pub fn store_of(&self, server: &str) -> Option<Arc<dyn Store>> {
        let inner = self.0.lock();
        match server {
            HUB => inner.hub.clone().map(|store| store as Arc<dyn Store>),
            member => inner.members.get(member).cloned(),
        }
    }

    /// Puts another store in the place of a member's: what its next start finds, as after a backup was restored.
    pub fn replace(&self, member: &str, store: Arc<dyn Store>) {
        self.0.lock().members.insert(member.to_owned(), store);
    }
}

impl Inner {
    /// Counts what the disk has done since this was asked last: a fault that nothing met is none.
    fn count(&mut self) {
        let failures = self.disk.failures();
        let slowed = self.hub.as_ref().is_some_and(|hub| hub.was_slow());
        for (kind, happened) in [
            (Kind::DiskFull, failures.full > 0),
            (Kind::SyncFailed, failures.syncs > 0),
            (Kind::DiskSlow, slowed),
        ] {
            if happened {
                self.seen.note(kind);
            }
        }
    }

    fn slow(&mut self, sync_takes: Duration) {
        self.sync_takes = sync_takes;
        if let Some(store) = &self.hub {
            store.slow(sync_takes);
        }
    }

    /// Flips one bit of the first file of the journal.
    fn flip(&mut self) -> Option<Bit> {
        self.put_right();
        let files = self.disk.list().unwrap_or_default().into_iter();
        let (file, length) = files.into_iter().find(|(name, _)| !name.starts_with("spare-"))?;
        let offset = self.dice.below(FLIPS_WITHIN.min(length));
        let bit = Bit {
            file,
            offset: usize::try_from(offset).unwrap_or(0),
            mask: 1 << self.dice.below(8),
        };
        bit.flip(&self.disk);
        self.flipped = Some(bit.clone());
        Some(bit)
    }

    /// The bit that was flipped is again what was written.
    fn put_right(&mut self) {
        if let Some(bit) = self.flipped.take() {
            bit.flip(&self.disk);
        }
    }

    fn open(&mut self, server: &str) -> Arc<dyn Store> {
        if server != HUB {
            let limits = self.limits;
            let store = self.members.entry(server.to_owned());
            return store
                .or_insert_with(|| Arc::new(MemoryStore::new(limits)))
                .clone();
        }
        match self.hub.clone() {
            Some(store) => store,
            None => match self.open_hub() {
                Ok(store) => store,
                Err(error) => {
                    tracing::error!(%error, "the hub's store does not open; an empty one takes its place");
                    Arc::new(MemoryStore::new(self.limits))
                }
            },
        }
    }

    fn open_hub(&mut self) -> Result<Arc<Stepped>, JournalError> {
        let usual = DurableOptions::default();
        let options = DurableOptions {
            limits: self.limits,
            segment_bytes: SEGMENT,
            queue_writes: self.queue.unwrap_or(usual.queue_writes),
            ..usual
        };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let store = DurableStore::without_threads(disk, options)?;
        let failures = self.failures.clone();
        let store = Stepped::new(store, self.sync_takes, move |why| {
            let server = HUB.to_owned();
            // Nobody listens when a run is over.
            let _ = failures.send(StoreFailure { server, why });
        });
        self.hub = Some(store.clone());
        Ok(store)
    }
}
