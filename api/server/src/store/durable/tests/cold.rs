//! What has not changed for long is kept small, and nobody sees a difference.

use super::*;

fn bundle(cluster: u64, version: u64) -> Vec<u8> {
    let manifests = r#"{"apiVersion":"apps/v1","kind":"Deployment"},"#.repeat(30);
    format!("{{\"cluster\":{cluster},\"manifests\":[{manifests}{version}]}}").into_bytes()
}

fn place(cluster: u64) -> Key {
    Key::new(&"bundles".into(), &format!("cluster-{cluster}"), "default.shop")
}

/// How many objects are small, out of how many.
fn packed(store: &Shared) -> (usize, usize) {
    let inner = store.inner.read();
    let all = inner.state.all_at(inner.state.revision).unwrap();
    (all.iter().filter(|(_, kept)| kept.is_packed()).count(), all.len())
}

#[test]
fn objects_out_of_the_history_are_small_and_read_as_they_were_written() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    let mut model = BTreeMap::new();
    for version in 0..3 {
        for cluster in 0..100 {
            let (key, content) = (place(cluster), bundle(cluster, version));
            put(&store, &key, &content).unwrap();
            model.insert(key, content);
            store.commit().unwrap();
        }
    }
    let seen = |store: &Shared| -> BTreeMap<Key, Vec<u8>> {
        let all = objects(store, &["bundles"]).into_iter();
        all.map(|(key, record)| (key, record.bytes.to_vec())).collect()
    };
    let (small, all) = packed(&store);
    assert!(
        small >= 60 && small < all,
        "{small} of {all}: the history has 40 events"
    );
    assert_eq!(seen(&store), model);
    // As of a moment that is in the history yet: an object that was packed, and what it became.
    let before = revision(&store);
    assert!(store.inner.read().state.record(&place(0)).is_some());
    put(&store, &place(0), &bundle(0, 9)).unwrap();
    remove(&store, &place(1)).unwrap();
    store.commit().unwrap();
    let past = Range {
        revision: Some(before),
        ..Range::all("bundles", None)
    };
    let past = store.inner.read().state.list(&past).unwrap().records;
    let past: BTreeMap<Key, Vec<u8>> = past
        .into_iter()
        .map(|(key, kept)| (key, kept.record().bytes.to_vec()))
        .collect();
    assert_eq!(past, model);
    let told = backlog(&store, "bundles", before);
    let told: Vec<_> = told.iter().map(|(kind, key, ..)| (*kind, key.clone())).collect();
    assert_eq!(
        told,
        [(EventKind::Modified, place(0)), (EventKind::Deleted, place(1))]
    );
    model.insert(place(0), bundle(0, 9));
    model.remove(&place(1));
    assert_eq!(get(&store, &place(2)), model.get(&place(2)).cloned());
    // Found again, from a base that was written of small objects.
    while !store.compact().unwrap() {
        for n in 0..50 {
            put(&store, &key("configmaps", &format!("other-{n}")), &bundle(n, n)).unwrap();
            store.commit().unwrap();
        }
    }
    drop(store);
    let again = opened(&disk.after_crash(1));
    assert_eq!(seen(&again), model);
    assert!(packed(&again).0 >= 50, "{:?}", packed(&again));
}
