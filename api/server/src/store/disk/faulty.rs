//! A disk in memory that loses what was not synced, runs full, fails and stops, as a test or a simulation tells it to.

use std::{collections::BTreeMap, io, ops::Range, sync::Arc};

use parking_lot::Mutex;

use super::{Disk, DiskFile};
use crate::clock::Dice;

/// Bytes a disk writes as a whole.
const SECTOR: usize = 512;

/// What a crash leaves of a file: the state of the last sync, and any of the sectors written since.
#[derive(Debug, Default, Clone)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Where something was written since the last sync; nothing outside differs.
    dirty: Option<Range<usize>>,
}

impl Content {
    fn write(&mut self, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        if let Some(place) = self.now.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        let before = self.dirty.take().unwrap_or(start..end);
        self.dirty = Some(before.start.min(start)..before.end.max(end));
    }

    fn sync(&mut self) {
        self.synced.resize(self.now.len(), 0);
        if let Some(dirty) = self.dirty.take()
            && let (Some(into), Some(from)) = (self.synced.get_mut(dirty.clone()), self.now.get(dirty))
        {
            into.copy_from_slice(from);
        }
    }
}

type Shelf = Arc<Mutex<Content>>;
type Names = BTreeMap<String, Shelf>;

#[derive(Default)]
struct Model {
    names: Names,
    /// The names after each change since the last sync of the directory, that sync first.
    past: Vec<Names>,
    /// Bytes of all files; more is refused.
    capacity: Option<usize>,
    /// Bytes written and other steps until the machine stops.
    fuel: Option<u64>,
    /// How many syncs fail yet.
    failing_syncs: u64,
    syncs: u64,
    failures: DiskFailures,
    /// Whether the machine stops at the next sync.
    stops_at_sync: bool,
}

/// How often a disk has failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskFailures {
    /// Writes that were refused as there was no room.
    pub full: u64,
    /// Syncs that failed.
    pub syncs: u64,
}

/// A directory of files in memory that fails as it is told to. Clones are the same disk.
///
/// A file keeps what was synced beside what was written since: [`FaultyDisk::after_crash`] is the disk as the next start of
/// the machine finds it.
#[derive(Clone, Default)]
pub struct FaultyDisk(Arc<Mutex<Model>>);

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<_> = self.0.lock().names.keys().cloned().collect();
        f.debug_tuple("FaultyDisk").field(&files).finish()
    }
}

fn stopped() -> io::Error {
    io::Error::other("the machine has stopped")
}

impl Model {
    /// An error if a sync is to fail.
    fn may_sync(&mut self) -> io::Result<()> {
        if self.stops_at_sync {
            return Err(stopped());
        }
        if self.failing_syncs == 0 {
            return Ok(());
        }
        self.failing_syncs -= 1;
        self.failures.syncs += 1;
        Err(io::Error::other("the disk failed"))
    }

    /// One step; an error once the machine has stopped.
    fn step(&mut self) -> io::Result<()> {
        match &mut self.fuel {
            Some(0) => Err(stopped()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change_names(&mut self, change: impl FnOnce(&mut Names)) -> io::Result<()> {
        self.step()?;
        if self.past.is_empty() {
            self.past.push(self.names.clone());
        }
        change(&mut self.names);
        self.past.push(self.names.clone());
        Ok(())
    }

    fn used(&self) -> usize {
        self.names.values().map(|shelf| shelf.lock().now.len()).sum()
    }
}

impl FaultyDisk {
    /// Bytes that may be used from now on.
    pub fn limit(&self, capacity: Option<usize>) {
        self.0.lock().capacity = capacity;
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.lock().used()
    }

    /// Stops the machine after so many bytes written and other steps.
    pub fn stop_after(&self, fuel: u64) {
        self.0.lock().fuel = Some(fuel);
    }

    /// Stops the machine at the next sync, if it has not stopped before: what was written since the last one is not synced.
    pub fn stop_at_sync(&self) {
        self.0.lock().stops_at_sync = true;
    }

    /// Lets one sync fail. As on Linux, the next one says nothing of what that one lost.
    pub fn fail_one_sync(&self) {
        self.0.lock().failing_syncs = 1;
    }

    /// How often it has failed since this was asked last.
    pub fn failures(&self) -> DiskFailures {
        std::mem::take(&mut self.0.lock().failures)
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Whether anything was written or named since the last sync of it.
    pub fn is_unsynced(&self) -> bool {
        let model = self.0.lock();
        let dirty = |shelf: &Shelf| shelf.lock().dirty.is_some();
        !model.past.is_empty() || model.names.values().any(dirty)
    }

    /// The disk as it is found when the machine starts again: what was synced, any sectors of what was not, and the names
    /// of some moment since the directory was synced. The same seed finds the same.
    pub fn after_crash(&self, seed: u64) -> Self {
        let (model, dice) = (self.0.lock(), Dice::seeded(seed));
        let pick = |n: usize| usize::try_from(dice.next() % (n as u64)).unwrap_or(0);
        let names = match model.past.len() {
            0 => &model.names,
            moments => model.past.get(pick(moments)).unwrap_or(&model.names),
        };
        let survive = |shelf: &Shelf| {
            let content = shelf.lock();
            let mut found = content.synced.clone();
            // A file may have grown without its new sectors.
            if content.now.len() > found.len() && pick(2) == 0 {
                found.resize(content.now.len(), 0);
            }
            for start in (0..found.len()).step_by(SECTOR) {
                let end = (start + SECTOR).min(found.len()).min(content.now.len());
                if start < end
                    && pick(2) == 0
                    && let (Some(into), Some(from)) = (found.get_mut(start..end), content.now.get(start..end))
                {
                    into.copy_from_slice(from);
                }
            }
            Arc::new(Mutex::new(Content {
                now: found.clone(),
                synced: found,
                dirty: None,
            }))
        };
        let names = names
            .iter()
            .map(|(name, shelf)| (name.clone(), survive(shelf)))
            .collect();
        Self(Arc::new(Mutex::new(Model {
            names,
            ..Model::default()
        })))
    }

    /// Whether a file of this disk, which `before` has become by a crash, is neither as it was synced nor as it was written: a write
    /// was torn.
    pub fn is_torn(&self, before: &Self) -> bool {
        let (after, before) = (self.0.lock(), before.0.lock());
        let mut both = after
            .names
            .iter()
            .filter_map(|(name, found)| Some((found, before.names.get(name)?)));
        both.any(|(found, was)| {
            let (found, was) = (found.lock(), was.lock());
            found.now != was.synced && found.now != was.now
        })
    }

    /// A disk of its own with the same files.
    pub fn copy(&self) -> Self {
        let copy = |shelf: &Shelf| Arc::new(Mutex::new(shelf.lock().clone()));
        let names = self
            .0
            .lock()
            .names
            .iter()
            .map(|(n, s)| (n.clone(), copy(s)))
            .collect();
        Self(Arc::new(Mutex::new(Model {
            names,
            ..Model::default()
        })))
    }

    /// Changes the bytes of a file behind everybody's back. Returns whether there is such a file.
    pub fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(shelf) = self.0.lock().names.get(name).cloned() else {
            return false;
        };
        let mut content = shelf.lock();
        damage(&mut content.now);
        content.synced = content.now.clone();
        content.dirty = None;
        true
    }

    /// Loses a file. Returns whether there was one.
    pub fn lose(&self, name: &str) -> bool {
        self.0.lock().names.remove(name).is_some()
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let model = self.0.lock();
        let files = model
            .names
            .iter()
            .map(|(name, shelf)| (name.clone(), shelf.lock().now.len() as u64));
        Ok(files.collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let shelf = Shelf::default();
        self.0
            .lock()
            .change_names(|names| drop(names.insert(name.to_owned(), shelf.clone())))?;
        Ok(Box::new(Opened(shelf, self.clone())))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let shelf = self.0.lock().names.get(name).cloned();
        let shelf = shelf.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Opened(shelf, self.clone())))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.lock().change_names(|names| {
            if let Some(shelf) = names.remove(from) {
                names.insert(to.to_owned(), shelf);
            }
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().change_names(|names| drop(names.remove(name)))
    }

    fn sync(&self) -> io::Result<()> {
        let mut model = self.0.lock();
        model.step()?;
        model.may_sync()?;
        model.past = vec![model.names.clone()];
        Ok(())
    }

    fn place(&self) -> String {
        "disk".to_owned()
    }
}

struct Opened(Shelf, FaultyDisk);

impl DiskFile for Opened {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let content = self.0.lock();
        let from = content.now.get(start..start + into.len());
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let mut model = self.1.0.lock();
        let grows = (start + bytes.len()).saturating_sub(self.0.lock().now.len());
        if model
            .capacity
            .is_some_and(|capacity| model.used() + grows > capacity)
        {
            model.failures.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        // A machine that stops in the middle has written a part.
        let written = match &mut model.fuel {
            Some(fuel) => {
                let written = usize::try_from(*fuel).unwrap_or(usize::MAX).min(bytes.len());
                *fuel -= written as u64;
                written
            }
            None => bytes.len(),
        };
        self.0
            .lock()
            .write(start, bytes.get(..written).unwrap_or_default());
        if written < bytes.len() {
            Err(stopped())
        } else {
            Ok(())
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut model = self.1.0.lock();
        model.step()?;
        model.syncs += 1;
        model.may_sync()?;
        self.0.lock().sync();
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().now.len() as u64)
    }
}
