//! Everything here runs without the store's threads, step by step, on a disk that fails as told.

mod cold;
mod company;
mod crash;
mod damage;
mod fails;
mod full;
mod here;
mod pages;
mod slow;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::{DurableOptions, Shared};
use crate::store::{
    Change, Event, EventKind, Expect, From, Kept, Key, Range, Record, StoreLimits, TooOld, WriteError,
    disk::FaultyDisk, journal::JournalError,
};

/// Small enough that everything happens often.
fn options() -> DurableOptions {
    DurableOptions {
        limits: StoreLimits {
            history_events: 40,
            history_bytes: 1 << 20,
            watch_buffer: 1_000,
        },
        segment_bytes: 16 << 10,
        queue_writes: 50,
        queue_bytes: 1 << 20,
    }
}

fn open(disk: &FaultyDisk) -> Result<Shared, JournalError> {
    Shared::open(Arc::new(disk.clone()), options())
}

fn opened(disk: &FaultyDisk) -> Shared {
    open(disk).unwrap_or_else(|error| panic!("{error}"))
}

fn key(table: &str, name: &str) -> Key {
    Key::new(&table.into(), "default", name)
}

fn lease(name: &str) -> Key {
    key("leases.coordination.k8s.io", name)
}

fn put(store: &Shared, key: &Key, content: &[u8]) -> Result<Record, WriteError> {
    let expect = match store.inner.read().state.record(key) {
        Some(record) => Expect::Revision(record.revision),
        None => Expect::Absent,
    };
    let bytes = Bytes::copy_from_slice(content);
    store.write(key, expect, Change::Put(&mut |_| bytes.clone()))
}

fn remove(store: &Shared, key: &Key) -> Result<Record, WriteError> {
    let record = store.inner.read().state.record(key);
    let record = record.ok_or(WriteError::Unexpected)?;
    let bytes = record.bytes.clone();
    store.write(
        key,
        Expect::Revision(record.revision),
        Change::Remove(&mut |_| bytes.clone()),
    )
}

fn get(store: &Shared, key: &Key) -> Option<Vec<u8>> {
    let inner = store.inner.read();
    inner.state.record(key).map(|record| record.bytes.to_vec())
}

fn revision(store: &Shared) -> u64 {
    store.inner.read().state.revision
}

fn settled(store: &Shared) -> u64 {
    store.inner.read().state.settled
}

type Objects = BTreeMap<Key, Record>;

/// Every object of some tables.
fn objects(store: &Shared, tables: &[&str]) -> Objects {
    let inner = store.inner.read();
    let list = |table: &&str| {
        let listing = inner.state.list(&Range::all(table, None)).unwrap();
        listing.into_records().collect::<Vec<_>>()
    };
    tables.iter().flat_map(list).collect()
}

/// What a watch of a table that resumes from a revision is told at once.
fn backlog(store: &Shared, table: &str, from: u64) -> Vec<(EventKind, Key, u64, Bytes)> {
    let told = |e: &Arc<Event>| (e.kind, e.key.clone(), e.revision, e.bytes.clone());
    let mut inner = store.inner.write();
    let subscription = inner.state.subscribe(&table.into(), None, From::Revision(from));
    subscription.unwrap().backlog.iter().map(told).collect()
}

impl Shared {
    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        self.take(key, expect, change).map(|(record, _)| record)
    }

    /// One turn of the thread that commits.
    fn commit(&self) -> Result<bool, JournalError> {
        self.try_commit().unwrap_or(Ok(false))
    }
}
