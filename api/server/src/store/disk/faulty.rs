//! A disk that loses what was not synced, runs full, fails and stops, as a test tells it to.

use std::{collections::BTreeMap, io, sync::Arc};

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
}

/// A directory of files in memory.
#[derive(Clone, Default)]
pub(in crate::store) struct Faulty(Arc<Mutex<Model>>);

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<_> = self.0.lock().names.keys().cloned().collect();
        f.debug_tuple("Faulty").field(&files).finish()
    }
}

fn stopped() -> io::Error {
    io::Error::other("the machine has stopped")
}

impl Model {
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

impl Faulty {
    /// Bytes that may be used from now on.
    pub(in crate::store) fn limit(&self, capacity: Option<usize>) {
        self.0.lock().capacity = capacity;
    }

    /// Bytes in use.
    pub(in crate::store) fn used(&self) -> usize {
        self.0.lock().used()
    }

    /// Stops the machine after so many bytes written and other steps.
    pub(in crate::store) fn stop_after(&self, fuel: u64) {
        self.0.lock().fuel = Some(fuel);
    }

    /// Lets one sync fail. As on Linux, the next one says nothing of what that one lost.
    pub(in crate::store) fn fail_one_sync(&self) {
        self.0.lock().failing_syncs = 1;
    }

    /// Syncs of files so far.
    pub(in crate::store) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// The disk as it is found when the machine starts again: what was synced, any sectors of what was not, and the names
    /// of some moment since the directory was synced.
    pub(in crate::store) fn after_crash(&self, dice: &Dice) -> Self {
        let model = self.0.lock();
        let pick = |n: usize| usize::try_from(dice.next() % (n as u64)).unwrap_or(0);
        let names = match model.past.len() {
            0 => &model.names,
            moments => &model.past[pick(moments)],
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
                if start < end && pick(2) == 0 {
                    found[start..end].copy_from_slice(&content.now[start..end]);
                }
            }
            Arc::new(Mutex::new(Content {
                now: found.clone(),
                synced: found,
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

    /// A disk of its own with the same files.
    pub(in crate::store) fn copy(&self) -> Self {
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

    /// Changes the bytes of a file behind everybody's back.
    pub(in crate::store) fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let shelf = self.0.lock().names[name].clone();
        let mut content = shelf.lock();
        damage(&mut content.now);
        content.synced = content.now.clone();
    }

    /// Loses a file.
    pub(in crate::store) fn lose(&self, name: &str) {
        assert!(self.0.lock().names.remove(name).is_some(), "{name}");
    }
}

impl Disk for Faulty {
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
        if model.failing_syncs > 0 {
            model.failing_syncs -= 1;
            return Err(io::Error::other("the disk failed"));
        }
        model.past = vec![model.names.clone()];
        Ok(())
    }

    fn place(&self) -> String {
        "disk".to_owned()
    }
}

struct Opened(Shelf, Faulty);

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
        let mut content = self.0.lock();
        if content.now.len() < start + written {
            content.now.resize(start + written, 0);
        }
        content.now[start..start + written].copy_from_slice(&bytes[..written]);
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
        if model.failing_syncs > 0 {
            model.failing_syncs -= 1;
            return Err(io::Error::other("the disk failed"));
        }
        let mut content = self.0.lock();
        content.synced = content.now.clone();
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().now.len() as u64)
    }
}
