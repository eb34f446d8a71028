//! Threads that write to the disk themselves.

use std::{thread, time::Duration};

use tokio::time::Instant;

use super::*;
use crate::store::{DurableStore, Store};

fn put_here(store: &DurableStore, name: &str, content: &[u8]) -> Result<u64, String> {
    let bytes = Bytes::copy_from_slice(content);
    let wrote = store.write(
        &key("configmaps", name),
        Expect::Absent,
        Change::Put(&mut |_| bytes.clone()),
    );
    let revision = wrote.map_err(|error| error.to_string())?.revision;
    store
        .settle_here(revision)
        .map(|()| revision)
        .map_err(|error| error.to_string())
}

/// Many at once, tasks among them: each is answered, and what was answered is there after a crash.
#[test]
fn what_threads_settle_is_on_the_disk() {
    let disk = FaultyDisk::default();
    let store = DurableStore::on(Arc::new(disk.clone()), options()).unwrap();
    thread::scope(|threads| {
        for thread in 0..4 {
            let (store, disk) = (&store, &disk);
            threads.spawn(move || {
                for n in 0..40 {
                    let name = format!("object-{thread}-{n}");
                    let revision = put_here(store, &name, b"{}").unwrap();
                    assert!(store.settled() >= revision);
                    if n % 13 == 0 {
                        let found = opened(&disk.after_crash(n));
                        assert!(get(&found, &key("configmaps", &name)).is_some(), "{name}");
                    }
                }
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for n in 0..200 {
                let name = format!("task-{n}");
                if n % 2 == 0 {
                    // Far more often than a task may be polled without yielding.
                    put_here(&store, &name, b"{}").unwrap();
                } else {
                    let wrote = store.write(
                        &key("configmaps", &name),
                        Expect::Absent,
                        Change::Put(&mut |_| Bytes::from_static(b"{}")),
                    );
                    store.settle(wrote.unwrap().revision).await.unwrap();
                }
            }
        });
    });
    assert_eq!(store.settled(), store.revision());
    drop(store);
    assert_eq!(objects(&opened(&disk.after_crash(9)), &["configmaps"]).len(), 360);
}

#[test]
fn a_thread_is_not_kept_waiting_for_room_and_the_store_goes_on_when_there_is() {
    let disk = FaultyDisk::default();
    let store = DurableStore::on(Arc::new(disk.clone()), options()).unwrap();
    put_here(&store, "first", b"{}").unwrap();
    disk.limit(Some(disk.used()));
    let refused = (0..200).find_map(|n| put_here(&store, &format!("object-{n}"), &[b'x'; 900]).err());
    assert!(refused.is_some(), "200 large objects fit on a full disk");
    disk.limit(None);
    let patience = Instant::now() + Duration::from_secs(20);
    // The thread that makes room looks again every now and then.
    while !store.takes_writes() || put_here(&store, "again", b"{}").is_err() {
        assert!(Instant::now() < patience, "writes are refused for ever");
        thread::yield_now();
    }
}
