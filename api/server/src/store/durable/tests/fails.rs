//! A disk that fails: nothing is acknowledged any more, nothing is tried again, and a restart finds the rest.

use futures::FutureExt;

use super::*;

#[test]
fn a_failed_sync_ends_the_store_and_a_restart_recovers() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    put(&store, &key("configmaps", "kept"), b"1").unwrap();
    assert!(store.commit().unwrap());
    disk.fail_one_sync();
    let lost = put(&store, &key("configmaps", "unknown"), b"2").unwrap();
    let waits = store.settle(lost.revision);
    assert!(!store.commit().unwrap());
    assert!(
        waits.now_or_never().unwrap().is_err(),
        "nobody is told that it was written"
    );
    let failure = store.failure.borrow().clone().expect("the process is told");
    assert!(!failure.is_full());
    assert_eq!(
        failure.to_string(),
        "cannot sync disk/segment-0000000000000001: the disk failed"
    );
    let syncs = disk.syncs();
    assert!(settled(&store) < lost.revision);
    let refused = put(&store, &key("configmaps", "later"), b"3").unwrap_err();
    assert!(refused.to_string().contains("the disk has failed"), "{refused}");
    assert!(!store.commit().unwrap());
    assert!(store.settle(lost.revision).now_or_never().unwrap().is_err());
    assert_eq!(disk.syncs(), syncs, "a sync that failed is not tried again");
    assert_eq!(
        get(&store, &key("configmaps", "kept")).unwrap(),
        b"1",
        "reads go on until the end"
    );
    drop(store);
    let found = opened(&disk.copy());
    assert_eq!(get(&found, &key("configmaps", "kept")).unwrap(), b"1");
}

#[test]
fn watchers_hear_of_settled_writes_only() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    let table = "configmaps".into();
    let mut watch = store
        .inner
        .write()
        .state
        .subscribe(&table, None, From::Now)
        .unwrap();
    let written = put(&store, &key("configmaps", "a"), b"1").unwrap();
    assert!(watch.events.try_recv().is_err());
    assert!(settled(&store) < written.revision);
    store.commit().unwrap();
    assert_eq!(watch.events.try_recv().unwrap().revision, written.revision);
    assert_eq!(settled(&store), written.revision);

    // Who begins between a write and its settlement hears of it once: with the state, or when it is settled.
    let written = put(&store, &key("configmaps", "b"), b"2").unwrap();
    let mut state = store
        .inner
        .write()
        .state
        .subscribe(&table, None, From::State)
        .unwrap();
    let mut resumed = store
        .inner
        .write()
        .state
        .subscribe(&table, None, From::Revision(written.revision - 1))
        .unwrap();
    store.commit().unwrap();
    assert_eq!((state.state.len(), state.revision), (2, written.revision));
    assert!(state.events.try_recv().is_err());
    assert!(resumed.backlog.is_empty());
    assert_eq!(resumed.events.try_recv().unwrap().revision, written.revision);
    assert!(resumed.events.try_recv().is_err());
}

#[test]
fn a_list_says_no_revision_that_could_be_lost() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    put(&store, &key("configmaps", "a"), b"1").unwrap();
    store.commit().unwrap();
    let before = settled(&store);
    put(&store, &key("secrets", "b"), b"2").unwrap();
    assert_eq!(store.inner.read().state.seen_by_readers_of("configmaps"), before);
    assert!(
        store.settle(before).now_or_never().unwrap().is_ok(),
        "readers of other kinds do not wait"
    );
    let mine = store.inner.read().state.seen_by_readers_of("secrets");
    assert!(
        store.settle(mine).now_or_never().is_none(),
        "readers of this kind do"
    );
    store.commit().unwrap();
    assert!(store.settle(mine).now_or_never().unwrap().is_ok());
}

/// A write comes while a sync is under way that fails: it must not be written over what the sync lost, and pass for settled
/// together with it.
#[tokio::test]
async fn what_was_queued_behind_a_failed_sync_is_never_settled() {
    use super::slow::{Gate, Gated};
    use crate::store::{DurableStore, Store};
    let disk = FaultyDisk::default();
    drop(opened(&disk));
    let gate = Arc::new(Gate::default());
    let store = DurableStore::on(Arc::new(Gated::new(disk.clone(), gate.clone())), options()).unwrap();
    let write = |name: &str| {
        let put = &mut |_| Bytes::from_static(b"{}");
        store
            .write(&key("configmaps", name), Expect::Absent, Change::Put(put))
            .unwrap()
            .revision
    };
    let kept = write("kept");
    store.settle(kept).await.unwrap();
    gate.allow(0);
    let lost = write("lost");
    gate.until_waiting();
    let behind = write("behind");
    let (first, second) = (store.settle(lost), store.settle(behind));
    disk.fail_one_sync();
    gate.open();
    assert!(first.await.is_err() && second.await.is_err());
    assert!(store.failed().await.to_string().contains("cannot sync"));
    assert_eq!(store.settled(), kept);
    assert!(store.settle(lost).await.is_err() && store.settle(behind).await.is_err());
    drop(store);
    // Whether the first one is there nobody knows; the second is not.
    let found = opened(&disk.after_crash(5));
    assert!((kept..behind).contains(&settled(&found)), "{}", settled(&found));
}

/// Without threads nothing happens but when it is asked for; then it is settled, kept, and waits for room where there is none.
#[test]
fn a_store_without_threads_settles_at_its_steps_and_goes_on_when_there_is_room() {
    use crate::store::{DurableStore, Store};
    let disk = FaultyDisk::default();
    let store = DurableStore::without_threads(Arc::new(disk.clone()), options()).unwrap();
    let write = |name: &str, content: &'static [u8]| {
        let put = &mut |_| Bytes::from_static(content);
        store.write(&key("configmaps", name), Expect::Absent, Change::Put(put))
    };
    let kept = write("kept", b"{}").unwrap().revision;
    assert!(store.settled() < kept && store.settle(kept).now_or_never().is_none());
    assert!(!store.step());
    assert!(store.settle(kept).now_or_never().unwrap().is_ok());

    disk.limit(Some(disk.used()));
    let refused = (0..200).find(|n| {
        store.step();
        write(&format!("object-{n}"), &[b'x'; 900]).is_err()
    });
    assert!(refused.is_some() && store.step() && !store.takes_writes());
    disk.limit(None);
    assert!(!store.step());
    let again = write("again", b"{}").unwrap().revision;
    store.step();
    assert_eq!(store.settled(), again);
    let found = opened(&disk.after_crash(7));
    assert_eq!(get(&found, &key("configmaps", "again")).unwrap(), b"{}");
}
