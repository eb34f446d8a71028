//! A full disk: writes are refused, reads and heartbeats go on, and it recovers by itself.

use futures::FutureExt;

use super::*;

/// A store whose disk has no room for another segment, filled until writes are refused.
fn full() -> (FaultyDisk, Shared, u32) {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    put(&store, &lease("east"), b"0").unwrap();
    store.keep_room();
    store.commit().unwrap();
    disk.limit(Some(disk.used()));
    for n in 0.. {
        let wrote = put(&store, &key("configmaps", &format!("object-{n}")), &[b'x'; 900]);
        match wrote {
            Ok(_) => {
                assert!(store.commit().unwrap());
                store.keep_room();
            }
            Err(refused) => {
                let text = refused.to_string();
                assert!(text.contains("no room in the data directory"), "{text}");
                assert!(text.contains("writes are taken again when there is"), "{text}");
                return (disk, store, n);
            }
        }
        assert!(n < 100, "the disk never ran full");
    }
    unreachable!()
}

fn renew(store: &Shared, n: u32) -> u64 {
    let record = put(
        store,
        &lease("east"),
        format!("{n}-{}", "r".repeat(300)).as_bytes(),
    )
    .unwrap();
    store.commit().unwrap();
    let told = store.settle(record.revision).now_or_never();
    assert!(told.is_some_and(|told| told.is_ok()), "heartbeat {n}");
    record.revision
}

#[test]
fn heartbeats_and_reads_go_on_and_room_is_noticed() {
    let (disk, store, written) = full();
    assert!(written > 10, "the segments that were there are used: {written}");
    let mut watch = {
        let mut inner = store.inner.write();
        inner
            .state
            .subscribe(&lease("east").table, None, From::Now)
            .unwrap()
    };
    // More than the room that is kept for them.
    for n in 0..200 {
        renew(&store, n);
        assert!(watch.events.try_recv().is_ok(), "watchers see heartbeat {n}");
    }
    assert!(
        store.inner.read().full.without,
        "the room for Leases is used up too"
    );
    assert_eq!(get(&store, &key("configmaps", "object-3")).unwrap(), [b'x'; 900]);
    assert!(put(&store, &key("configmaps", "refused"), b"1").is_err());
    assert!(
        put(&store, &lease("new"), b"1").is_err(),
        "a new Lease is no heartbeat"
    );

    disk.limit(None);
    store.keep_room();
    put(&store, &key("configmaps", "after"), b"1").unwrap();
    store.commit().unwrap();
    let now = revision(&store);
    assert_eq!(settled(&store), now);
    let before = objects(&store, &["configmaps", "leases.coordination.k8s.io"]);
    let found = opened(&disk.after_crash(1));
    assert_eq!(
        objects(&found, &["configmaps", "leases.coordination.k8s.io"]),
        before
    );
    assert_eq!(before.len(), written as usize + 2);
    assert!(revision(&found) >= now);
}

#[test]
fn a_lease_changes_hands_on_the_disk_only() {
    let (disk, store, _) = full();
    let lease_of = |holder: &str, n: u32| {
        format!(r#"{{"spec":{{"holderIdentity":"{holder}","leaseTransitions":1,"n":{n}}}}}"#)
    };
    disk.limit(None);
    store.keep_room();
    put(&store, &lease("east"), lease_of("a", 0).as_bytes()).unwrap();
    store.commit().unwrap();
    store.keep_room();
    disk.limit(Some(disk.used()));
    while put(
        &store,
        &key("configmaps", &format!("more-{}", revision(&store))),
        &[b'x'; 900],
    )
    .is_ok()
    {
        store.commit().unwrap();
        store.keep_room();
    }
    for n in 0..200 {
        put(&store, &lease("east"), lease_of("a", n).as_bytes()).unwrap();
        store.commit().unwrap();
    }
    let before = revision(&store);
    let marked = r#"{"metadata":{"annotations":{"roundhouse.dev/epoch":"7"}},
        "spec":{"holderIdentity":"a","leaseTransitions":1,"n":200}}"#;
    for changed in [lease_of("b", 0).as_str(), marked] {
        let refused = put(&store, &lease("east"), changed.as_bytes());
        assert!(
            refused.is_err(),
            "nobody would know of it after a crash: {changed}"
        );
    }
    // Who watched while it was not written lists anew after a crash.
    let found = opened(&disk.after_crash(4));
    let resumed = found
        .inner
        .write()
        .state
        .subscribe(&lease("east").table, None, From::Revision(before));
    assert!(resumed.is_err());
}

#[test]
fn no_revision_is_given_out_twice_if_the_machine_stops_while_the_disk_is_full() {
    let (disk, store, written) = full();
    let mut last = 0;
    for n in 0..200 {
        last = renew(&store, n);
    }
    assert!(store.inner.read().full.without);
    let disk = disk.after_crash(2);
    let found = opened(&disk);
    assert!(revision(&found) >= last, "{} given out again", revision(&found));
    assert_eq!(objects(&found, &["configmaps"]).len(), written as usize);
    assert!(
        get(&found, &lease("east")).is_some(),
        "an older state of the Lease"
    );
    // And once more, without a write between.
    assert!(revision(&opened(&disk)) >= last);
}

#[test]
fn a_write_that_was_taken_is_held_until_there_is_room() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    store.keep_room();
    // So much at once that it does not fit, before anybody could know.
    let mut last = 0;
    disk.limit(Some(disk.used()));
    for n in 0..60 {
        last = put(&store, &key("configmaps", &format!("object-{n}")), &[b'x'; 900])
            .unwrap()
            .revision;
    }
    let waits = store.settle(last);
    let error = store
        .commit()
        .map(|_| ())
        .and_then(|()| store.commit().map(|_| ()))
        .unwrap_err();
    assert!(error.is_full(), "{error}");
    store.note_held(true);
    assert!(
        waits.now_or_never().unwrap().is_err(),
        "nobody waits for somebody to make room"
    );
    assert!(store.settle(last).now_or_never().unwrap().is_err());
    let first = store.settle(settled(&store));
    assert!(first.now_or_never().unwrap().is_ok(), "what was settled is read");

    disk.limit(None);
    store.keep_room();
    while store.commit().unwrap() {
        store.keep_room();
    }
    store.note_held(false);
    assert_eq!(settled(&store), last);
    assert_eq!(objects(&opened(&disk.copy()), &["configmaps"]).len(), 60);
}
