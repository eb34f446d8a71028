//! Lists as of a past revision, and watches that resume from one.

use super::*;

fn list_at(store: &Shared, revision: u64) -> Result<Vec<Arc<str>>, TooOld> {
    let range = Range {
        revision: Some(revision),
        ..Range::all("configmaps", None)
    };
    let listed = store.inner.read().state.list(&range)?;
    assert_eq!(listed.revision, revision);
    Ok(listed.records.into_iter().map(|(key, _)| key.name).collect())
}

fn churn(store: &Shared, times: u64) {
    for _ in 0..times {
        put(store, &lease("agent"), &[b' '; 1_000]).unwrap();
        store.commit().unwrap();
    }
}

fn two(store: &Shared) {
    for name in ["a", "b"] {
        put(store, &key("configmaps", name), b"{}").unwrap();
        store.commit().unwrap();
    }
}

/// Goes on until old segments are dropped.
fn compact(store: &Shared) {
    while !store.compact().unwrap() {
        churn(store, 10);
    }
}

#[test]
fn a_page_is_of_its_own_revision_whatever_other_tables_do() {
    let store = opened(&FaultyDisk::default());
    two(&store);
    let then = revision(&store);
    churn(&store, 10);
    assert_eq!(list_at(&store, then).unwrap(), ["a".into(), "b".into()]);
    remove(&store, &key("configmaps", "b")).unwrap();
    store.commit().unwrap();
    assert_eq!(list_at(&store, then).unwrap(), ["a".into(), "b".into()]);
    assert_eq!(list_at(&store, revision(&store)).unwrap(), ["a".into()]);
}

/// Given objects that are made, changed and removed in several namespaces after a revision, when the state of then is read page by
/// page, then it is what a list told then, whatever the size of the pages, and what remains is counted right.
#[test]
fn the_pages_of_a_past_revision_are_what_there_was() {
    let store = opened(&FaultyDisk::default());
    let mut dice = 1_u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) % sides
    };
    let mut turn = |times: u64| {
        for _ in 0..times {
            let key = Key {
                namespace: format!("n{}", roll(3)).into(),
                ..key("configmaps", &format!("m{}", roll(8)))
            };
            match roll(3) {
                0 => drop(remove(&store, &key)),
                _ => drop(put(&store, &key, format!("{{\"v\":{}}}", roll(100)).as_bytes())),
            }
        }
        store.commit().unwrap();
    };
    let list = |range: &Range| store.inner.read().state.list(range).unwrap();
    for _ in 0..30 {
        turn(20);
        let then = revision(&store);
        let namespaces = [None, Some("n0"), Some("n2"), Some("none")];
        let told = namespaces.map(|namespace| list(&Range::all("configmaps", namespace)).records);
        turn(10);
        for (namespace, told) in namespaces.into_iter().zip(&told) {
            for (limit, counts) in [(1, true), (3, false), (7, true), (100, true)] {
                let mut range = Range {
                    limit,
                    revision: Some(then),
                    ..Range::all("configmaps", namespace)
                };
                let mut all = vec![];
                loop {
                    let page = list(&range);
                    all.extend(page.records);
                    assert_eq!(
                        page.remaining,
                        told.len() - all.len(),
                        "{namespace:?}, {limit} a page"
                    );
                    let Some((last, _)) = all.last().filter(|_| page.remaining > 0) else {
                        break;
                    };
                    range.after = Some((last.namespace.to_string(), last.name.to_string()));
                    range.passed = counts.then_some(all.len());
                }
                let of = |(key, kept): &(Key, Kept)| (key.clone(), kept.record());
                let shown = |records: &[(Key, Kept)]| records.iter().map(of).collect::<Vec<_>>();
                assert_eq!(shown(&all), shown(told), "{namespace:?}, {limit} a page");
            }
        }
    }
}

/// What is left of a table is older than what went.
#[test]
fn a_revision_from_before_the_history_is_too_old_also_after_a_restart() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    two(&store);
    let then = revision(&store);
    remove(&store, &key("configmaps", "b")).unwrap();
    store.commit().unwrap();
    churn(&store, 100);
    compact(&store);
    assert!(list_at(&store, then).is_err());
    drop(store);
    let again = opened(&disk.after_crash(1));
    assert!(list_at(&again, then).is_err(), "there was another object then");
}

fn resumes(store: &Shared, from: u64) -> bool {
    resumes_in(store, None, from)
}

fn resumes_in(store: &Shared, namespace: Option<&str>, from: u64) -> bool {
    let table = "configmaps".into();
    let subscribed = store
        .inner
        .write()
        .state
        .subscribe(&table, namespace, From::Revision(from));
    subscribed.is_ok_and(|subscription| {
        assert!(subscription.backlog.is_empty());
        true
    })
}

/// Agents come back after any time to Bundles that nobody has changed, whatever their Leases have done to the history.
#[test]
fn a_watch_resumes_from_before_the_history_where_its_own_table_has_not_changed() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    two(&store);
    let before = revision(&store);
    remove(&store, &key("configmaps", "b")).unwrap();
    store.commit().unwrap();
    churn(&store, 10);
    let then = revision(&store);
    churn(&store, 2_000);
    compact(&store);
    assert!(store.inner.read().state.floor > then, "the history has gone on");
    assert!(resumes(&store, then) && !resumes(&store, before));
    drop(store);
    let again = opened(&disk.after_crash(1));
    let floor = again.inner.read().state.floor;
    assert!(resumes(&again, floor) && !resumes(&again, before));
    // What went before the oldest state that is known, nobody knows any more.
    assert!(!resumes(&again, then));
    remove(&again, &key("configmaps", "a")).unwrap();
    again.commit().unwrap();
    let emptied = revision(&again);
    churn(&again, 2_000);
    assert!(resumes(&again, emptied) && !resumes(&again, floor));
}

/// Each agent watches a namespace of its own: that others are written to costs it nothing, also when the hub is started again.
#[test]
fn a_watch_of_a_namespace_resumes_from_before_the_history_where_only_others_have_changed() {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    let at = |namespace: &str, name: &str| Key::new(&"configmaps".into(), namespace, name);
    for (namespace, name) in [("busy", "a"), ("calm", "a"), ("left", "a"), ("left", "b")] {
        put(&store, &at(namespace, name), b"{}").unwrap();
        store.commit().unwrap();
    }
    let then = revision(&store);
    remove(&store, &at("left", "b")).unwrap();
    put(&store, &at("busy", "a"), b"{ }").unwrap();
    store.commit().unwrap();
    churn(&store, 2_000);
    drop_and_look(&disk, store, |store| {
        assert!(store.inner.read().state.floor > then, "the history has gone on");
        assert!(resumes_in(store, Some("calm"), then));
        for namespace in [Some("busy"), Some("left"), None] {
            assert!(!resumes_in(store, namespace, then), "{namespace:?}");
        }
    });
}

/// Looks at a store, and at the one that the next start finds.
fn drop_and_look(disk: &FaultyDisk, store: Shared, look: impl Fn(&Shared)) {
    look(&store);
    drop(store);
    look(&opened(&disk.after_crash(1)));
}

/// What is remembered of namespaces that are gone is bounded; who asks about them lists anew.
#[test]
fn many_namespaces_that_come_and_go_are_forgotten() {
    let store = opened(&FaultyDisk::default());
    let at = |n: usize| Key::new(&"configmaps".into(), &format!("n{n}"), "a");
    put(&store, &at(0), b"{}").unwrap();
    store.commit().unwrap();
    let then = revision(&store);
    for n in 1..2_000 {
        put(&store, &at(n), b"{}").unwrap();
        remove(&store, &at(n)).unwrap();
        store.commit().unwrap();
    }
    churn(&store, 2_000);
    let late = revision(&store);
    assert!(!resumes_in(&store, Some("n0"), then) && resumes_in(&store, Some("n0"), late));
}
