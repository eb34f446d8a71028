//! Every object of a durable store in one file, and a new store from it.

use std::{path::Path, sync::Arc};

use super::{
    Key, StoreLimits,
    disk::{Disk, Folder},
    journal::{self, Journal, JournalError, Place, Spares, write_base, write_objects},
    packed::Kept,
};

/// How often a store that is written meanwhile is read, until one reading holds together.
const TRIES: usize = 5;

/// How far a restored store's revisions are ahead of the backup's at least: further than what may have been given out since it
/// was taken (16 days of 50,000 writes a second), so that no revision is given out twice.
const AHEAD: u64 = 1 << 36;
/// So many revisions at most are given out in a second: a restored store begins above as many for every second since 1970, so
/// that of two that are made from the same backup the second one begins above whatever the first one has given out. As many fit
/// into what every JSON reader can count until the year 6300.
const A_SECOND: u64 = 1 << 16;

/// Every object of a store as of one revision.
pub struct Backup {
    store: u128,
    revision: u64,
    objects: Vec<(Key, Kept)>,
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl Backup {
    /// What is in a store's directory, which a process may be using.
    ///
    /// # Errors
    /// If anything that was acknowledged is missing or damaged.
    pub fn of_store(path: &Path) -> Result<Self, JournalError> {
        Self::of_disk(&Folder::look(path))
    }

    /// The same of a store on any disk.
    ///
    /// # Errors
    /// If anything that was acknowledged is missing or damaged.
    pub fn of_disk(disk: &dyn Disk) -> Result<Self, JournalError> {
        let mut tries = 1;
        let recovered = loop {
            match journal::recover(disk, StoreLimits::default()) {
                // What looks so may have been written, or dropped, while it was read.
                Err(_) if tries < TRIES => tries += 1,
                result => break result?,
            }
        };
        Self::of(disk, "", &recovered)
    }

    /// What an earlier [`Backup::write`] wrote.
    ///
    /// # Errors
    /// If it is missing or damaged.
    pub fn read(folder: &Path, name: &str) -> Result<Self, JournalError> {
        let disk = Folder::look(folder);
        let recovered = journal::read_objects(&disk, name)?;
        Self::of(&disk, name, &recovered)
    }

    fn of(disk: &dyn Disk, file: &str, recovered: &journal::Recovered) -> Result<Self, JournalError> {
        let revision = recovered.state.revision;
        let (Some(store), Ok(objects)) = (recovered.store, recovered.state.all_at(revision)) else {
            return Err(JournalError::Missing {
                place: disk.place(),
                file: if file.is_empty() {
                    journal::segment_name(1)
                } else {
                    file.to_owned()
                },
            });
        };
        Ok(Self {
            store,
            revision,
            objects,
        })
    }

    /// Writes it into a folder, which is made if absent.
    ///
    /// # Errors
    /// If the disk refuses, or another process writes there.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), JournalError> {
        let place = Place {
            revision: self.revision,
            sequence: 1,
            number: 0,
            store: self.store,
        };
        write_objects(
            &Folder::open(folder)?,
            name,
            place,
            journal::seed(),
            &self.objects,
        )
    }

    /// Makes a store from it in a directory without one. Its revisions go on far ahead of the backup's, and of those of a store
    /// that was made from it before, so that clients which saw later ones list anew, and no revision is given out twice. `now`:
    /// seconds since 1970.
    ///
    /// # Errors
    /// If the disk refuses, or another process has the directory.
    pub fn restore(&self, path: &Path, now: i64) -> Result<(), JournalError> {
        self.restore_on(Arc::new(Folder::open(path)?), now)
    }

    /// The same on a disk without a store.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn restore_on(&self, disk: Arc<dyn Disk>, now: i64) -> Result<(), JournalError> {
        let by_time = u64::try_from(now).unwrap_or(0).saturating_mul(A_SECOND);
        let place = Place {
            revision: self.revision.saturating_add(AHEAD).max(by_time),
            sequence: 1,
            number: 0,
            store: self.store,
        };
        write_base(&*disk, place, journal::seed(), &self.objects)?;
        let mut recovered = journal::read_objects(&*disk, &journal::base_name(place.revision))?;
        let bytes = super::DurableOptions::default().segment_bytes;
        Journal::go_on(disk, Arc::new(Spares::default()), bytes, &mut recovered).map(|_| ())
    }

    /// The revision it is the state of.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many objects it has.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The store it is of.
    pub fn identity(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Change, DurableOptions, DurableStore, Expect, From, Range, Record, Store};

    fn fill(store: &DurableStore, from: u32, to: u32) {
        for n in from..to {
            let key = Key::new(&"configmaps".into(), "default", &format!("object-{n}"));
            let put = &mut |_| format!("{{\"n\":{n}}}").into();
            store.write(&key, Expect::Absent, Change::Put(put)).unwrap();
        }
    }

    fn list(store: &DurableStore) -> Vec<(Key, Record)> {
        let listing = store.list(&Range::all("configmaps", None)).unwrap();
        listing.into_records().collect()
    }

    #[tokio::test]
    async fn a_store_is_backed_up_while_it_is_used_and_restored_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let store = DurableStore::open(&at("one"), DurableOptions::default()).unwrap();
        fill(&store, 0, 200);
        store.settle(store.revision()).await.unwrap();
        let (then, revision) = (list(&store), store.revision());
        let taken = Backup::of_store(&at("one")).unwrap();
        taken.write(&at("backup"), "objects").unwrap();
        fill(&store, 200, 300);
        store.settle(store.revision()).await.unwrap();

        let read = Backup::read(&at("backup"), "objects").unwrap();
        assert_eq!((read.objects(), read.revision()), (200, revision));
        assert_eq!(read.identity(), store.identity());
        let now = 1_800_000_000;
        read.restore(&at("two"), now).unwrap();
        let restored = DurableStore::open(&at("two"), DurableOptions::default()).unwrap();
        assert_eq!(list(&restored), then);
        assert_eq!(restored.identity(), store.identity());
        assert!(restored.revision() > store.revision(), "no revision comes twice");
        let resumed = restored.subscribe(&"configmaps".into(), None, From::Revision(store.revision()));
        assert!(resumed.is_err(), "who saw later revisions lists anew");
        fill(&restored, 500, 501);
        restored.settle(restored.revision()).await.unwrap();
        let given_out = restored.revision();
        drop(restored);
        // Of the same backup a second later: above all that was given out. And by a clock that stands still, or is wrong.
        for (name, now, least) in [
            ("three", now + 1, given_out),
            ("four", 0, store.revision()),
            ("five", -1, store.revision()),
        ] {
            read.restore(&at(name), now).unwrap();
            let other = DurableStore::open(&at(name), DurableOptions::default()).unwrap();
            assert!(
                other.revision() > least,
                "{name}: {} after {least}",
                other.revision()
            );
            assert!(other.revision() < 1 << 53, "{name}: {}", other.revision());
        }
        let again = DurableStore::open(&at("two"), DurableOptions::default()).unwrap();
        assert_eq!(list(&again).len(), 201);
    }

    #[test]
    fn what_is_no_store_or_backup_is_said() {
        let home = tempfile::tempdir().unwrap();
        let error = Backup::of_store(home.path()).unwrap_err().to_string();
        assert!(error.contains("segment-0000000000000001 is missing"), "{error}");
        assert!(
            Backup::read(home.path(), "objects")
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
        std::fs::write(home.path().join("objects"), "no backup at all").unwrap();
        let error = Backup::read(home.path(), "objects").unwrap_err().to_string();
        assert!(error.contains("objects is damaged at offset 16"), "{error}");
    }
}
