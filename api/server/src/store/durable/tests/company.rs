//! Leases that are renewed wait a moment for company.

use std::time::Duration;

use super::*;
use crate::store::{DurableStore, Store};

#[test]
fn a_renewal_can_wait_until_something_else_is_written() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    assert!(!store.can_wait(), "there is nothing");
    put(&store, &lease("one"), b"{}").unwrap();
    assert!(!store.can_wait(), "somebody has joined");
    store.commit().unwrap();
    let renew = || {
        let now = store.inner.read().state.record(&lease("one")).unwrap().revision;
        let put = &mut |_| Bytes::from_static(b"{}");
        store
            .take(&lease("one"), Expect::Revision(now), Change::Put(put))
            .unwrap()
            .1
    };
    assert!(renew(), "the first one wakes who counts the time");
    assert!(!renew(), "which it does by now");
    assert!(store.can_wait());
    put(&store, &key("configmaps", "other"), b"{}").unwrap();
    assert!(!store.can_wait());
    store.commit().unwrap();
    assert_eq!(settled(&store), revision(&store));
    put(&store, &lease("one"), b"{}").unwrap();
    assert!(store.can_wait(), "what pressed is written");
    remove(&store, &lease("one")).unwrap();
    assert!(!store.can_wait(), "somebody gave it up");
}

#[test]
fn what_waits_for_room_presses_when_there_is_some() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    put(&store, &lease("one"), b"{}").unwrap();
    store.commit().unwrap();
    put(&store, &lease("one"), &[b' '; 12 << 10]).unwrap();
    put(&store, &lease("one"), &[b' '; 12 << 10]).unwrap();
    disk.limit(Some(disk.used()));
    while store.commit().is_ok_and(|did| did) {}
    assert!(store.commit().is_err(), "the disk is full");
    assert!(!store.can_wait());
    disk.limit(None);
    assert!(store.commit().unwrap());
    assert_eq!(settled(&store), revision(&store));
}

/// With the threads: nobody waits for ever, and a fleet shares steps.
#[tokio::test]
async fn renewals_share_a_step_and_come_back_without_company() {
    let disk = FaultyDisk::default();
    let options = DurableOptions {
        segment_bytes: 1 << 20,
        ..options()
    };
    let store = DurableStore::on(Arc::new(disk.clone()), options).unwrap();
    let write = |name: &str, expect| {
        let wrote = store.write(
            &lease(name),
            expect,
            Change::Put(&mut |_| Bytes::from_static(b"{}")),
        );
        wrote.unwrap().revision
    };
    let names: Vec<String> = (0..32).map(|n| format!("agent-{n}")).collect();
    let made: Vec<u64> = names.iter().map(|name| write(name, Expect::Absent)).collect();
    let settle = async |revision| {
        tokio::time::timeout(Duration::from_secs(20), store.settle(revision))
            .await
            .unwrap()
            .unwrap();
    };
    settle(*made.last().unwrap()).await;
    let before = disk.syncs();
    let mut last = 0;
    for (name, revision) in names.iter().zip(made) {
        last = write(name, Expect::Revision(revision));
    }
    settle(last).await;
    let steps = disk.syncs() - before;
    assert!(steps <= 8, "{steps} steps for 32 renewals at once");
    // One alone, whom nobody else's write helps out.
    settle(write(
        "agent-0",
        Expect::Revision(store.get(&lease("agent-0")).unwrap().revision),
    ))
    .await;
}
