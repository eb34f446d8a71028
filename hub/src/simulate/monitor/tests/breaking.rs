//! For each promise: what keeps it, and what breaks it is told with its object.

use super::{
    super::{Note, promise::Promise, who::Who},
    world::*,
};
use crate::{
    application::{Decided, Said},
    simulate::HUB,
};
use http::{Method, StatusCode};
use roundhouse_api::{bundle::Deletion, names::annotation};
use roundhouse_apiserver::{Change, Expect, Key, MemoryStore, Store, StoreLimits};
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::advance;

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

/// The Deployment as the agent answers for it, and as it is when it was let go.
fn marked_and_free() -> (Value, Value) {
    let mut ours = deployment("nginx:1");
    ours["metadata"]["annotations"][annotation::OWNED_BY] = json!("h/default.web");
    let free = with(ours.clone(), "/metadata/annotations", json!({}));
    (ours, free)
}

#[test]
fn a_delivery_as_it_should_be_breaks_nothing() {
    World::delivered().holds();
}

#[test]
fn p1_an_acknowledged_write_that_a_restart_has_lost_is_told() {
    let world = World::delivered();
    // The same store again, and one that has nothing.
    let kept = world.store("c2").clone();
    world.note(&Note::Reopened {
        server: "c2".into(),
        store: kept,
    });
    world.holds();
    world.put(
        Some(&agent()),
        (C1, "configmaps", "default", "a"),
        &json!({"metadata": {"uid": "1"}}),
    );
    let emptied: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreLimits::default()));
    world.note(&Note::Reopened {
        server: C1.into(),
        store: emptied,
    });
    let broken = world.monitor.broken();
    assert_eq!(broken.len(), 3, "{broken:?}");
    assert!(broken.iter().all(|broken| broken.promise == Promise::P1));
    assert_eq!(broken[1].object.to_string(), "c1: configmaps default/a");
    assert!(
        broken[1]
            .expected
            .starts_with("what was acknowledged at revision"),
        "{broken:?}"
    );
    assert_eq!(broken[1].found, "nothing");
}

#[test]
fn p1_what_was_put_back_on_purpose_and_what_nobody_was_told_of_may_be_lost() {
    let world = World::delivered();
    let emptied = || Arc::new(MemoryStore::new(StoreLimits::default()));
    world.put(
        None,
        ("c3", "configmaps", "default", "a"),
        &json!({"metadata": {"uid": "1"}}),
    );
    world.note(&Note::Reopened {
        server: "c3".into(),
        store: emptied(),
    });
    world.note(&Note::Restored(C1.into()));
    world.note(&Note::Reopened {
        server: C1.into(),
        store: emptied(),
    });
    world.holds();
}

#[test]
fn p1_what_an_agent_was_shown_and_a_restart_has_lost_is_told() {
    const BUNDLES: &str = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles";
    for (by, lost) in [(agent(), true), (other(), false)] {
        let world = World::new();
        // Nobody was told that it is written, whoever wrote it.
        let version = world.put(None, BUNDLE, &bundle(1));
        let event = json!({"type": "ADDED", "object": {"metadata": {
            "namespace": "cluster-c1", "name": "default.web", "resourceVersion": version.to_string()}}});
        let asked = world.asked(&by, HUB, &Method::GET, BUNDLES, &Value::Null);
        world.monitor.heard(&asked, &format!("{event}\n").into());
        world.note(&Note::Reopened {
            server: HUB.into(),
            store: Arc::new(MemoryStore::new(StoreLimits::default())),
        });
        match lost {
            true => world.breaks(Promise::P1, BUNDLE, &format!("at revision {version}")),
            false => world.holds(),
        }
    }
}

/// While the disk of its server is full a Lease is renewed without it, and a crash forgets that; who holds it is not forgotten.
#[test]
fn p1_a_renewal_without_the_disk_may_be_lost() {
    const AT: At<'_> = ("c3", "leases.coordination.k8s.io", "n", "agent");
    let full = || Note::NoRoom("c3".into());
    let room = || Note::Room("c3".into());
    let lease = json!({"metadata": {"uid": "l", "annotations": {annotation::EPOCH: "1"}},
        "spec": {"holderIdentity": "a", "leaseTransitions": 0, "renewTime": "1"}});
    let renewed = with(lease.clone(), "/spec/renewTime", json!("2"));
    let (holder, transitions) = ("/spec/holderIdentity", "/spec/leaseTransitions");
    let epoch = format!("/metadata/annotations/{}", annotation::EPOCH.replace('/', "~1"));
    let renewed_with = |pointer: &str, value: Value| with(renewed.clone(), pointer, value);
    for (notes, second, written_since, holds) in [
        (vec![full()], renewed.clone(), false, true),
        (vec![full(), room()], renewed.clone(), false, true),
        (vec![full(), room()], renewed.clone(), true, false),
        (vec![full()], renewed_with(holder, json!("b")), false, false),
        (vec![full()], renewed_with(transitions, json!(1)), false, false),
        (vec![full()], renewed_with(&epoch, json!("2")), false, false),
        (vec![], renewed.clone(), false, false),
    ] {
        let world = World::delivered();
        let first = world.put(Some(&other()), AT, &lease);
        let key = Key::new(&AT.1.into(), AT.2, AT.3);
        let bytes = world.store("c3").get(&key).unwrap().bytes;
        let kept = MemoryStore::new(StoreLimits::default());
        let again = kept.write(&key, Expect::Absent, Change::Put(&mut |_| bytes.clone()));
        assert_eq!(again.unwrap().revision, first);
        notes.iter().for_each(|note| world.note(note));
        if written_since {
            let map = json!({"metadata": {"uid": "1"}});
            world.put(Some(&other()), ("c3", "configmaps", "n", "a"), &map);
        }
        world.put(Some(&other()), AT, &second);
        world.note(&Note::Reopened {
            server: "c3".into(),
            store: Arc::new(kept),
        });
        let broken = world.monitor.broken();
        let lost = broken
            .iter()
            .any(|broken| broken.object.to_string().contains("leases"));
        assert_eq!(lost, !holds, "{second} {written_since} {broken:?}");
    }
}

#[test]
fn p2_a_write_over_another_version_than_it_names_is_told() {
    let world = World::delivered();
    let at = (C1, "configmaps", "default", "a");
    let map = json!({"metadata": {"uid": "1"}});
    let first = world.put(Some(&other()), at, &map);
    let second = world.put_naming(Some(&other()), at, &map, Some(first));
    world.holds();
    world.put_naming(Some(&other()), at, &map, Some(first));
    world.breaks(
        Promise::P2,
        at,
        &format!("PUT by scaler over version {first}; found it replaced version {second}"),
    );
}

#[test]
fn p2_a_hub_that_names_no_version_of_what_it_replaces_is_told() {
    let request: At<'_> = (HUB, "certificatesigningrequests.certificates.k8s.io", "", "c1");
    let asked = json!({"metadata": {"name": "c1", "uid": "r"}});
    for (at, value) in [
        (BUNDLE, bundle(2)),
        (DECISION, decision(&[C1], 2)),
        (APPLICATION, application(&passed())),
        (request, asked.clone()),
    ] {
        let world = World::delivered();
        world.put(None, request, &asked);
        world.put_naming(Some(&world.hub), at, &value, None);
        world.breaks(
            Promise::P2,
            at,
            "a request that names the version that it replaces",
        );
    }
}

#[test]
fn p3_epochs_and_generations_never_go_down() {
    for (pointer, expected) in [
        ("/spec/epoch", "/spec/epoch at least 1"),
        ("/metadata/generation", "/metadata/generation at least 1"),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &with(bundle(1), pointer, json!(0)));
        world.breaks(Promise::P3, BUNDLE, expected);
    }
    let world = World::delivered();
    world.put(
        Some(&agent()),
        LEDGER,
        &with(ledger(1), "/spec/generation", json!(0)),
    );
    world.breaks(Promise::P3, LEDGER, "(epoch, generation) at least (1, 1)");
    // Of another Bundle of that name the generation may be lower, and one by hand has no epoch.
    let later = with(ledger(1), "/spec/generation", json!(0));
    let later = with(later, "/spec/bundleUid", json!("later"));
    for (epoch, holds) in [(json!(1), true), (json!(0), false), (Value::Null, true)] {
        let world = World::delivered();
        world.put(Some(&agent()), LEDGER, &with(later.clone(), "/spec/epoch", epoch));
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P3, LEDGER, "(epoch, generation) at least (1, 0)"),
        }
    }
}

#[test]
fn p3_a_bundle_that_went_before_the_one_that_is_followed_is_not_followed_again() {
    let earlier = "a Bundle that was made no earlier";
    for (epoch, holds) in [(json!(1), false), (Value::Null, false), (json!(2), true)] {
        let world = World::delivered();
        let again = with(bundle(1), "/metadata/uid", json!("again"));
        world.put(Some(&world.hub), BUNDLE, &again);
        let later = with(ledger(1), "/spec/bundleUid", json!("again"));
        world.put(Some(&agent()), LEDGER, &later);
        world.holds();
        world.put(
            Some(&agent()),
            LEDGER,
            &with(ledger(1), "/spec/epoch", epoch.clone()),
        );
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P3, LEDGER, earlier),
        }
    }
}

#[test]
fn p3_a_second_change_of_an_object_by_one_generation_is_told() {
    let second = with(deployment("nginx:1"), "/spec", json!({"replicas": 1}));
    let world = World::delivered();
    world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
    world.holds();

    let world = World::delivered();
    let mut status = deployment("nginx:1");
    status["status"] = json!({"readyReplicas": 1});
    world.put(Some(&Who::Workloads(C1.into())), DEPLOYMENT, &status);
    let mut second = second;
    second["status"] = status["status"].clone();
    world.put(Some(&agent()), DEPLOYMENT, &second);
    world.breaks(
        Promise::P3,
        DEPLOYMENT,
        "one change by generation 1 of its Bundle",
    );

    // What arrives when nobody waits for it any more is the network's doing, and is put right.
    let world = World::delivered();
    let version = world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    let mut late = deployment("nginx:0");
    late["metadata"]["annotations"][annotation::GENERATION] = json!("0");
    world.overdue.store(true, Ordering::Relaxed);
    world.put_naming(Some(&agent()), DEPLOYMENT, &late, Some(version));
    world.overdue.store(false, Ordering::Relaxed);
    world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
    world.holds();
    // But a write that names no version goes over whatever there is by then.
    world.overdue.store(true, Ordering::Relaxed);
    world.put(Some(&agent()), DEPLOYMENT, &late);
    world.breaks(
        Promise::P3,
        DEPLOYMENT,
        "app.oam.dev/generation at least 1, or a write that names what it replaces; found 0, long after it was sent",
    );

    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &bundle(2));
    world.put(Some(&agent()), LEDGER, &ledger(2));
    let mut older = deployment("nginx:1");
    older["metadata"]["annotations"][annotation::GENERATION] = json!("0");
    world.put(Some(&agent()), DEPLOYMENT, &older);
    world.breaks(Promise::P3, DEPLOYMENT, "app.oam.dev/generation at least 1");
}

#[test]
fn p3_another_version_alone_is_no_change() {
    let image = "/spec/template/spec/containers/0/image";
    // How often it gets another version, the first time by a request that comes late or by agents that are started anew, whether it
    // says so, and whether it is otherwise, too.
    for (times, late, anew, says, image_too, holds) in [
        (1, false, false, true, false, true),
        (2, false, false, true, false, false),
        (2, true, false, true, false, true),
        (3, true, false, true, false, false),
        (2, false, true, true, false, true),
        (1, false, false, false, false, false),
        (1, false, false, true, true, false),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &bundle(2));
        world.put(Some(&agent()), LEDGER, &ledger(2));
        world.put(Some(&agent()), DEPLOYMENT, &deployment("web:1"));
        for time in 0..times {
            if anew {
                world.note(&Note::Started(C1.into()));
            }
            let version = world.version(DEPLOYMENT).unwrap();
            let version = if says { version } else { version - 1 };
            let mut outdated = deployment("web:1");
            outdated["metadata"]["annotations"][annotation::FENCED] = json!(version.to_string());
            if image_too {
                outdated = with(outdated, image, json!("web:2"));
            }
            world.overdue.store(late && time == 0, Ordering::Relaxed);
            world.put(Some(&agent()), DEPLOYMENT, &outdated);
            world.overdue.store(false, Ordering::Relaxed);
        }
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P3, DEPLOYMENT, "one change by generation 2"),
        }
    }
}

#[test]
fn p3_what_is_let_go_stays_as_it_is() {
    let (ours, free) = marked_and_free();
    let changed = with(free.clone(), "/spec", json!({"replicas": 0}));
    for (left, is_fine) in [(free, true), (changed, false)] {
        let world = World::delivered();
        world.put(Some(&other()), DEPLOYMENT, &ours);
        let mut lets_go = with_deletion(bundle(2), "application-deleted");
        lets_go["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        world.put(None, APPLICATION, &deleting(application(&passed())));
        world.put(Some(&world.hub), BUNDLE, &lets_go);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        world.put(Some(&agent()), DEPLOYMENT, &left);
        match is_fine {
            true => world.holds(),
            false => world.breaks(Promise::P3, DEPLOYMENT, "what is let go to stay as it is"),
        }
    }
}

#[test]
fn p3_what_no_ledger_lists_is_not_written() {
    let map: At<'_> = (C1, "configmaps", "default", "a");
    let ours = json!({"metadata": {"uid": "1", "annotations": {annotation::OWNED_BY: "h/default.web"}}});
    let world = World::delivered();
    world.put(Some(&agent()), map, &ours);
    world.breaks(
        Promise::P3,
        map,
        "its ledger to list the object before it is written; found none does",
    );
    // What was on its way when the member was restored.
    let world = World::delivered();
    world.note(&Note::Restored(C1.into()));
    world.put(Some(&agent()), map, &ours);
    world.holds();
}

#[test]
fn p4_a_write_of_an_earlier_term_is_told() {
    let world = World::delivered();
    let later = world.monitor.hub("b");
    world.put(Some(&later), LEASE, &lease(2));
    world.put(Some(&later), APPLICATION, &application(&passed()));
    world.holds();
    world.put(Some(&world.hub), APPLICATION, &application(&passed()));
    world.breaks(
        Promise::P4,
        APPLICATION,
        "writes of epoch 2, the highest in the Lease; found a write by hub (hub)#1 of epoch 1",
    );

    // A second start of the same hub is another writer.
    let world = World::delivered();
    let again = world.monitor.hub(HUB);
    world.put(Some(&again), APPLICATION, &application(&passed()));
    world.breaks(Promise::P4, APPLICATION, "no epoch at all");
}

#[test]
fn a_restored_hub_writes_nothing_and_no_agent_goes_back_until_that_is_confirmed() {
    let mark = |data: Value| json!({"metadata": {"uid": "mark"}, "data": data});
    let restored = || {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &bundle(2));
        world.put(Some(&agent()), LEDGER, &ledger(2));
        let mut later = deployment("nginx:2");
        later["metadata"]["annotations"][annotation::GENERATION] = json!("2");
        world.put(Some(&agent()), DEPLOYMENT, &later);
        world.note(&Note::Restored(HUB.into()));
        world.put(Some(&other()), MARK, &mark(json!({"takenAt": "then"})));
        world.holds();
        world
    };
    let world = restored();
    world.put(Some(&world.hub), APPLICATION, &application(&passed()));
    world.breaks(Promise::P4, APPLICATION, "no write by a restored hub before");

    let back = |world: &World| {
        let mut earlier = deployment("nginx:1");
        earlier["metadata"]["annotations"][annotation::GENERATION] = json!("1");
        world.put(Some(&agent()), DEPLOYMENT, &earlier);
    };
    let world = restored();
    world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    back(&world);
    world.breaks(Promise::P3, DEPLOYMENT, "app.oam.dev/generation at least 2");

    let confirmed = || {
        let world = restored();
        let data = json!({"takenAt": "then", "epoch": "1000"});
        world.put(Some(&other()), MARK, &mark(data));
        world.put(Some(&world.hub), APPLICATION, &application(&passed()));
        world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
        world
    };
    // Nor then, but for a later epoch.
    let world = confirmed();
    back(&world);
    world.breaks(Promise::P3, DEPLOYMENT, "app.oam.dev/generation at least 2");
    let world = confirmed();
    let later = |object: Value| with(object, "/spec/epoch", json!(1_001));
    world.put(Some(&world.hub), BUNDLE, &later(bundle(3)));
    world.put(Some(&agent()), LEDGER, &later(ledger(3)));
    back(&world);
    world.holds();
}

#[tokio::test(start_paused = true)]
async fn p5_an_agent_deletes_only_what_the_hub_has_given_up() {
    let gone = |world: &World| world.remove(Some(&agent()), DEPLOYMENT);
    let world = World::delivered();
    gone(&world);
    world.breaks(
        Promise::P5,
        DEPLOYMENT,
        "follows generation 1: that has it, and there is no word of its removal",
    );

    // A Bundle that vanished, in a list or for good, is no evidence.
    let world = World::delivered();
    world.remove(None, BUNDLE);
    gone(&world);
    world.breaks(Promise::P5, DEPLOYMENT, "no word of its removal");

    // Missing from a Bundle that was read whole: only once the ledger follows that generation.
    let without = emptied_bundle(2);
    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &without);
    gone(&world);
    world.breaks(Promise::P5, DEPLOYMENT, "follows generation 1");
    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &without);
    world.put(Some(&agent()), LEDGER, &ledger(2));
    gone(&world);
    world.holds();

    // Made anew where that is asked for, of this object only.
    for (name, is_asked) in [("web", true), ("*", true), ("other", false)] {
        let world = World::delivered();
        let mut recreated = bundle(2);
        recreated["spec"]["manifestConfigs"] = json!([{"updateStrategy": {"type": "Recreate"}, "resourceIdentifier":
            {"group": "apps", "resource": "deployments", "namespace": "default", "name": name}}]);
        world.put(Some(&world.hub), BUNDLE, &recreated);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        gone(&world);
        match is_asked {
            true => world.holds(),
            false => world.breaks(Promise::P5, DEPLOYMENT, "follows generation 2: that has it"),
        }
    }

    // With its tombstone.
    let world = World::delivered();
    world.put(None, APPLICATION, &deleting(application(&passed())));
    world.put(
        Some(&world.hub),
        BUNDLE,
        &with_deletion(bundle(2), "application-deleted"),
    );
    gone(&world);
    world.holds();

    // A hand-written one goes when it is deleted by itself, not with its namespace.
    for (namespace_goes, first) in [(false, false), (true, false), (true, true)] {
        let world = World::delivered();
        let mut by_hand = bundle(2);
        by_hand["spec"].as_object_mut().unwrap().remove("applicationRef");
        world.put(None, BUNDLE, &by_hand);
        world.put(
            Some(&agent()),
            LEDGER,
            &with(ledger(2), "/spec/dispatched", json!(false)),
        );
        let goes = || {
            let namespace = (HUB, "namespaces", "", "cluster-c1");
            world.put(None, namespace, &deleting(json!({"metadata": {"uid": "n"}})));
        };
        if namespace_goes && first {
            goes();
        }
        advance(Duration::from_secs(1)).await;
        world.put(None, BUNDLE, &deleting(by_hand));
        advance(Duration::from_secs(1)).await;
        if namespace_goes && !first {
            goes();
        }
        world.remove(Some(&agent()), DEPLOYMENT);
        match first {
            false => world.holds(),
            true => world.breaks(Promise::P5, DEPLOYMENT, "there is no word of its removal"),
        }
    }

    // What no ledger answers for is not the agent's.
    let world = World::delivered();
    let foreign = (C1, "configmaps", "default", "a");
    world.put(None, foreign, &json!({"metadata": {"uid": "1"}}));
    world.remove(Some(&agent()), foreign);
    world.breaks(Promise::P5, foreign, "no ledger answers for it");
}

#[test]
fn p5_what_is_to_stay_when_its_bundle_goes_is_not_removed() {
    let orphan = || json!({"propagationPolicy": "Orphan"});
    let selectively = |name: &str| {
        let rule = json!({"group": "apps", "resource": "deployments", "namespace": "*", "name": name});
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}})
    };
    let (collected, deleted) = (Deletion::GARBAGE_COLLECTION, Deletion::APPLICATION_DELETED);
    let stays = "its deleteOption lets it stay";
    let busy = "it still runs something, apply-once is on";
    for (by, option, once, live, words) in [
        (Some(deleted), json!(null), false, 2, None),
        (Some(deleted), orphan(), false, 2, Some(stays)),
        (Some(deleted), selectively("web"), false, 2, Some(stays)),
        (Some(deleted), selectively("other"), false, 2, None),
        (
            Some(deleted),
            json!({"propagationPolicy": "Foreground"}),
            false,
            2,
            None,
        ),
        // It is in the Bundle no more.
        (None, json!(null), false, 2, None),
        (None, orphan(), false, 2, Some(stays)),
        (None, json!(null), true, 2, Some(busy)),
        (None, json!(null), true, 0, None),
        // The whole Bundle goes, and that is confirmed or not.
        (Some(collected), json!(null), true, 2, Some(busy)),
        (Some(collected), json!(null), true, 0, None),
        (Some(collected), json!(null), false, 2, None),
        (Some(deleted), json!(null), true, 2, None),
    ] {
        let world = World::delivered();
        world.put(
            Some(&other()),
            DEPLOYMENT,
            &with(deployment("nginx:1"), "/spec/replicas", json!(live)),
        );
        let mut goes = by.map_or_else(|| emptied_bundle(2), |by| with_deletion(bundle(2), by));
        if !option.is_null() {
            goes["spec"]["deleteOption"] = option.clone();
        }
        if once {
            goes["spec"]["applyOnce"] = json!("Once");
        }
        world.put(None, BUNDLE, &goes);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        world.remove(Some(&agent()), DEPLOYMENT);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P5, DEPLOYMENT, words),
        }
    }
    // What comes after the content that it follows the agent may not know yet: by that one it goes.
    let world = World::delivered();
    world.put(None, BUNDLE, &emptied_bundle(2));
    world.put(Some(&agent()), LEDGER, &ledger(2));
    let mut leaves = with_deletion(emptied_bundle(3), Deletion::CLUSTER_LEFT);
    leaves["spec"]["deleteOption"] = orphan();
    world.put(None, BUNDLE, &leaves);
    world.remove(Some(&agent()), DEPLOYMENT);
    world.holds();
    // What holds others or data, unless somebody says so.
    let claim: At<'_> = (C1, "persistentvolumeclaims", "default", "data");
    let annotated = json!({annotation::PRUNE: "true"});
    for (option, annotations, holds) in [
        (json!(null), json!({}), false),
        (json!({"ttlSecondsAfterFinished": 3600}), json!({}), false),
        (json!({"propagationPolicy": "Foreground"}), json!({}), true),
        (json!(null), annotated, true),
    ] {
        let world = World::delivered();
        let object = json!({"metadata": {"uid": "p", "annotations": annotations}});
        world.put(Some(&other()), claim, &object);
        let mut goes = emptied_bundle(2);
        if !option.is_null() {
            goes["spec"]["deleteOption"] = option;
        }
        world.put(None, BUNDLE, &goes);
        let mut has = ledger(2);
        has["spec"]["objects"][0] = json!({"group": "", "version": "v1", "kind": "PersistentVolumeClaim",
            "namespace": "default", "name": "data", "outcome": "Intended"});
        world.put(Some(&agent()), LEDGER, &has);
        world.remove(Some(&agent()), claim);
        match holds {
            true => world.holds(),
            false => world.breaks(
                Promise::P5,
                claim,
                "of its kind nothing goes unless somebody says so",
            ),
        }
    }
}

#[test]
fn p5_what_is_in_a_cluster_that_leaves_is_let_stay_unless_somebody_says_otherwise() {
    const CLUSTER: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);
    for (leaves, orphans, holds) in [
        (&["Orphan"][..], true, true),
        (&["Orphan"], false, false),
        (&[], false, false),
        (&[], true, true),
        (&["DeleteResources"], false, true),
        // Somebody has changed their mind meanwhile.
        (&["DeleteResources", "Orphan"], false, true),
    ] {
        let world = World::delivered();
        world.put(None, CLUSTER, &deleting(cluster_available()));
        for leave in leaves {
            let mut going = deleting(cluster_available());
            going["spec"]["leave"] = json!(leave);
            world.put(None, CLUSTER, &going);
        }
        let mut told = with_deletion(bundle(2), Deletion::CLUSTER_LEFT);
        if orphans {
            told["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        }
        world.put(Some(&world.hub), BUNDLE, &told);
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P5, BUNDLE, "what is in the cluster is to stay"),
        }
    }
}

#[test]
fn p5_no_more_goes_than_was_confirmed() {
    const HASH: &str = "0123456789abcdef";
    for (asked, words) in [
        (None, None),
        (Some(json!({"hash": HASH, "count": 1, "clusters": [C1]})), None),
        (
            Some(json!({"hash": HASH, "count": 1, "clusters": ["c2"]})),
            Some("c1, and 0123456789abcdef is about [\"c2\"]"),
        ),
        // Of many not all are named.
        (Some(json!({"hash": HASH, "count": 2, "clusters": ["c2"]})), None),
        (
            Some(json!({"hash": HASH, "count": 0, "clusters": []})),
            Some("c1, and 0123456789abcdef is about []"),
        ),
    ] {
        let world = World::delivered();
        let mut confirmed = application(&passed());
        if let Some(asked) = asked {
            confirmed["status"]["heldDeletes"] = asked;
            world.put(None, APPLICATION, &confirmed);
        }
        confirmed["metadata"]["annotations"] = json!({annotation::CONFIRM_DELETES: HASH});
        world.put(None, APPLICATION, &confirmed);
        world.put(Some(&world.hub), BUNDLE, &with_deletion(bundle(2), HASH));
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P5, BUNDLE, words),
        }
    }
    // One more than the number that was asked about.
    let world = World::delivered();
    let mut confirmed = application(&passed());
    confirmed["status"]["heldDeletes"] = json!({"hash": HASH, "count": 2, "clusters": [C1]});
    confirmed["metadata"]["annotations"] = json!({annotation::CONFIRM_DELETES: HASH});
    world.put(None, APPLICATION, &confirmed);
    for cluster in [C1, "c2", "c3"] {
        world.holds();
        let (namespace, bundle) = bundle_of(cluster);
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        world.put(Some(&world.hub), at, &with_deletion(bundle, HASH));
    }
    world.breaks(
        Promise::P5,
        (BUNDLE.0, BUNDLE.1, "cluster-c3", BUNDLE.3),
        "{\"c1\", \"c2\", \"c3\"}, and 0123456789abcdef is about 2 clusters",
    );
}

#[tokio::test(start_paused = true)]
async fn p5_what_a_repeated_request_makes_again_goes_again_as_long_as_one_may_arrive() {
    let without = emptied_bundle(2);
    let mut released = ledger(2);
    released["spec"]["objects"] = json!([]);
    let mut ours = deployment("web:1");
    ours["metadata"]["annotations"][annotation::OWNED_BY] = json!("h/default.web");
    // What somebody else makes at that place is not the agent's.
    for (after, made, is_late) in [
        (300, &ours, false),
        (700, &ours, true),
        (300, &deployment("web:1"), true),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &without);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        world.remove(Some(&agent()), DEPLOYMENT);
        world.put(Some(&agent()), LEDGER, &released);
        advance(Duration::from_secs(after)).await;
        world.put(None, DEPLOYMENT, made);
        world.remove(Some(&agent()), DEPLOYMENT);
        match is_late {
            false => world.holds(),
            true => world.breaks(Promise::P5, DEPLOYMENT, "no ledger answers for it"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_once_more_is_a_stray_only_if_its_agent_was_ended_since_it_sent_it() {
    for (before, strays) in [(90, 0), (30, 1)] {
        let world = World::delivered();
        let mut released = ledger(1);
        released["spec"]["objects"] = json!([]);
        world.put(Some(&agent()), LEDGER, &released);
        world.remove(Some(&agent()), DEPLOYMENT);
        world.note(&Note::Stopped(C1.into()));
        world.note(&Note::Started(C1.into()));
        advance(Duration::from_secs(before)).await;
        world.overdue.store(true, Ordering::Relaxed);
        world.put(Some(&agent()), DEPLOYMENT, &deployment("web:1"));
        assert_eq!(world.monitor.strays(C1).len(), strays, "ended {before} s before");
    }
}

#[tokio::test(start_paused = true)]
async fn p5_a_deletion_that_comes_late_is_judged_by_what_was_so_when_it_was_sent() {
    let without = emptied_bundle(2);
    // How long after its agent has the word it comes, a minute after it was sent; whether nobody waits any more; what the ledger
    // says by then.
    for (after, overdue, outcome, holds) in [
        (70, true, "Intended", true),
        (50, true, "Intended", false),
        (70, false, "Intended", false),
        // By then it had to be made sure that none comes.
        (70, true, "Applied", false),
    ] {
        let world = World::delivered();
        advance(Duration::from_secs(100)).await;
        world.put(Some(&world.hub), BUNDLE, &without);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        advance(Duration::from_secs(after)).await;
        world.put(Some(&world.hub), BUNDLE, &bundle(3));
        let mut wanted = ledger(3);
        wanted["spec"]["objects"][0]["outcome"] = json!(outcome);
        world.put(Some(&agent()), LEDGER, &wanted);
        world.overdue.store(overdue, Ordering::Relaxed);
        world.remove(Some(&agent()), DEPLOYMENT);
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P5, DEPLOYMENT, "follows generation 3: that has it"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p5_a_pass_that_had_begun_when_its_member_was_put_back_ends() {
    let without = emptied_bundle(2);
    for (outcome, after, holds) in [
        ("Removing", 20, true),
        ("Removing", 90, false),
        ("Applied", 20, false),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &without);
        let mut going = ledger(2);
        going["spec"]["objects"][0]["outcome"] = json!(outcome);
        world.put(Some(&agent()), LEDGER, &going);
        world.note(&Note::Restored(C1.into()));
        // As the backup has it.
        world.put(None, LEDGER, &ledger(1));
        advance(Duration::from_secs(after)).await;
        world.remove(Some(&agent()), DEPLOYMENT);
        let broken = world.monitor.broken();
        let told = broken.iter().any(|broken| broken.promise == Promise::P5);
        assert_eq!(told, !holds, "{outcome} after {after} s");
    }
}

#[test]
fn p5_an_agent_lets_go_what_a_bundle_of_it_lets_go() {
    let (ours, free) = marked_and_free();
    let rule = |resource: &str, name: &str| json!({"group": "apps", "resource": resource, "namespace": "*", "name": name});
    let selectively = |rule: Value| json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    let whole = |policy: &str| json!({"propagationPolicy": policy});
    for (option, carries, holds) in [
        (None, false, false),
        (Some(whole("Foreground")), false, false),
        (Some(whole("Orphan")), false, true),
        (Some(selectively(rule("deployments", "web"))), false, true),
        (Some(selectively(rule("deployments", "other"))), false, false),
        (Some(selectively(rule("statefulsets", "*"))), false, false),
        (Some(whole("SelectivelyOrphan")), false, false),
        (Some(whole("Orphan")), true, false),
    ] {
        let world = World::delivered();
        world.put(Some(&other()), DEPLOYMENT, &ours);
        let mut without = bundle(2);
        if !carries {
            without["spec"]["workload"]["manifests"] = json!([]);
        }
        if let Some(option) = option {
            without["spec"]["deleteOption"] = option;
        }
        // By hand, so that nobody asks what it lacks.
        world.put(None, BUNDLE, &without);
        world.put(Some(&agent()), LEDGER, &ledger(2));
        world.put(Some(&agent()), DEPLOYMENT, &free);
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P5, DEPLOYMENT, "that lets go what it does not want"),
        }
    }
}

#[test]
fn p5_what_the_revision_has_does_not_fall_out_of_a_bundle() {
    let raw = json!({"name": "raw", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}]}});
    let revised = |components: Value| with(revision(), "/spec/application/components", components);
    let named = json!([raw, {"name": "override", "type": "worker", "properties": {"image": "nginx:1"}}]);
    for (components, holds) in [(json!([raw]), false), (json!([]), true), (named, false)] {
        let world = World::delivered();
        let at: At<'_> = (HUB, "applicationrevisions.core.oam.dev", "default", "web-v1");
        world.put(Some(&world.hub), at, &revised(components));
        world.put(Some(&world.hub), BUNDLE, &bundle(2));
        world.holds();
        let without = with(bundle(3), "/spec/workload/manifests", json!([]));
        world.put(Some(&world.hub), BUNDLE, &without);
        match holds {
            true => world.holds(),
            false => world.breaks(
                Promise::P5,
                BUNDLE,
                "deployments.apps web, which web-v1 has, to be there",
            ),
        }
    }
}

#[test]
fn p5_the_hub_deletes_nothing_that_people_have_made() {
    let cluster: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);
    let namespace: At<'_> = (HUB, "namespaces", "", "cluster-c1");
    for at in [cluster, APPLICATION, namespace] {
        let world = World::delivered();
        world.put(None, namespace, &json!({"metadata": {"name": "cluster-c1"}}));
        world.remove(Some(&world.hub), at);
        world.breaks(Promise::P5, at, "whoever made it to delete it");
    }
    // With a cluster that somebody lets leave its namespace goes, and a Bundle in it with that, which is held.
    for leaves in [false, true] {
        let world = World::delivered();
        if leaves {
            world.put(None, cluster, &deleting(cluster_available()));
        }
        world.put_with(&world.hub, (namespace, BUNDLE), &deleting(bundle(1)));
        match leaves {
            true => world.holds(),
            false => world.breaks(Promise::P5, BUNDLE, "spec.deletion, written before"),
        }
    }
    let world = World::delivered();
    world.put(None, namespace, &json!({"metadata": {"name": "cluster-c1"}}));
    world.put(None, cluster, &deleting(cluster_available()));
    world.remove(Some(&world.hub), namespace);
    world.holds();
}

#[test]
fn p5_the_hub_deletes_a_bundle_only_with_its_evidence() {
    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &deleting(bundle(1)));
    world.breaks(
        Promise::P5,
        BUNDLE,
        "spec.deletion, written before the Bundle is deleted",
    );

    for (by, why) in [
        ("application-deleted", "the Application is not being deleted"),
        ("cluster-left", "nobody lets the cluster leave"),
        ("garbage-collection", "Decision web-step-0 places it there"),
        ("step away", "web-v1 has no such step"),
        ("step step-0", "web-v1 has no such step"),
        ("0123456789abcdef", "nobody has confirmed that"),
    ] {
        let world = World::delivered();
        let mut counted = application(&passed());
        counted["status"]["removals"] = json!({"moments": [
            {"at": "2026-01-01T00:00:00Z", "of": 1, "count": 1, "clusters": [C1]}]});
        world.put(None, APPLICATION, &counted);
        world.put(Some(&world.hub), BUNDLE, &with_deletion(bundle(2), by));
        world.breaks(Promise::P5, BUNDLE, why);
    }
    let world = World::delivered();
    let mut spent = application(&passed());
    spent["metadata"]["annotations"] = json!({annotation::CONFIRM_DELETES: "0123456789abcdef"});
    spent["status"]["spentConfirmation"] = json!("0123456789abcdef");
    world.put(None, APPLICATION, &spent);
    let removed = with_deletion(bundle(2), "0123456789abcdef");
    world.put(Some(&world.hub), BUNDLE, &removed);
    world.breaks(Promise::P5, BUNDLE, "nobody has confirmed that");
    let world = World::delivered();
    let mut confirmed = application(&passed());
    confirmed["metadata"]["annotations"] = json!({annotation::CONFIRM_DELETES: "0123456789abcdef"});
    world.put(None, APPLICATION, &confirmed);
    world.put(
        Some(&world.hub),
        BUNDLE,
        &with_deletion(bundle(2), "0123456789abcdef"),
    );
    world.put(
        Some(&world.hub),
        BUNDLE,
        &deleting(with_deletion(bundle(2), "0123456789abcdef")),
    );
    world.holds();
    // It goes when its agent has said so.
    world.remove(Some(&world.hub), BUNDLE);
    world.breaks(Promise::P5, BUNDLE, "the report of its agent that all is removed");
}

/// What was delivered is left of a deleted application, and its namesake may take one cluster away; what it decides for a cluster.
fn with_namesake() -> (World, impl Fn(&str) -> Value) {
    let world = World::delivered();
    world.remove(None, DECISION);
    let mut namesake = with(application(&passed()), "/metadata/uid", json!("a2"));
    namesake["status"]["removals"] = json!({"moments": [
        {"at": "2026-01-01T00:00:00Z", "of": 1, "count": 1, "clusters": [C1]}]});
    world.put(None, APPLICATION, &namesake);
    let decided = |cluster: &str| with(decision(&[cluster], 2), "/spec/applicationRef/uid", json!("a2"));
    (world, decided)
}

#[test]
fn p5_what_is_left_of_a_deleted_application_its_namesake_collects_by_its_own_decision() {
    for (places, broken) in [
        (None, Some("no Decision is of revision \"web-v1\"")),
        (Some(C1), Some("Decision web-step-0 places it there")),
        (Some("c2"), None),
    ] {
        let (world, decided) = with_namesake();
        if let Some(cluster) = places {
            world.put(Some(&world.hub), DECISION, &decided(cluster));
        }
        world.put(
            Some(&world.hub),
            BUNDLE,
            &with_deletion(bundle(2), "garbage-collection"),
        );
        match broken {
            Some(words) => world.breaks(Promise::P5, BUNDLE, words),
            None => world.holds(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p5_what_was_sent_by_a_decision_that_somebody_has_deleted_since_stands() {
    // How long after it is gone it arrives, and whether it was a minute under way.
    for (after, late, holds) in [(20, true, true), (20, false, false), (90, true, false)] {
        let (world, decided) = with_namesake();
        world.put(Some(&world.hub), DECISION, &decided("c2"));
        advance(Duration::from_secs(100)).await;
        world.remove(None, DECISION);
        advance(Duration::from_secs(after)).await;
        world.overdue.store(late, Ordering::Relaxed);
        let goes = with_deletion(bundle(2), Deletion::GARBAGE_COLLECTION);
        world.put(Some(&world.hub), BUNDLE, &goes);
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P5, BUNDLE, "no Decision is of revision"),
        }
    }
}

#[test]
fn p5_what_was_said_when_a_cluster_left_is_no_evidence_when_it_has_joined_again() {
    const CLUSTER: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);
    let going = |leave: &str| {
        let mut going = deleting(cluster_available());
        going["spec"]["leave"] = json!(leave);
        going
    };
    for (leave, again, broken) in [
        ("Forget", false, None),
        ("Forget", true, Some("spec.deletion, written before")),
        ("Orphan", true, Some("spec.deletion, written before")),
    ] {
        let world = World::delivered();
        world.put(None, CLUSTER, &going(leave));
        if again {
            world.remove(None, CLUSTER);
            world.put(None, CLUSTER, &cluster_available());
        }
        world.put(Some(&world.hub), BUNDLE, &deleting(bundle(1)));
        match broken {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P5, BUNDLE, words),
        }
    }
    // How it is to leave some day is no word that it leaves.
    let world = World::delivered();
    let stays = with(
        cluster_available(),
        "/spec",
        json!({"accepted": true, "leave": "Forget"}),
    );
    world.put(None, CLUSTER, &stays);
    world.put(Some(&world.hub), BUNDLE, &deleting(bundle(1)));
    world.breaks(Promise::P5, BUNDLE, "spec.deletion, written before");

    let world = World::delivered();
    world.put(None, CLUSTER, &going("Orphan"));
    world.remove(None, CLUSTER);
    world.put(None, CLUSTER, &cluster_available());
    world.put(
        Some(&world.hub),
        BUNDLE,
        &with_deletion(bundle(2), "cluster-left"),
    );
    world.breaks(Promise::P5, BUNDLE, "nobody lets the cluster leave");
}

#[test]
fn p6_replicas_that_are_lost_or_made_are_told() {
    let world = World::delivered();
    world.put(
        Some(&world.hub),
        DECISION,
        &with(
            decision(&[C1], 2),
            "/spec/workloads/0/clusters/0/replicas",
            json!(1),
        ),
    );
    world.breaks(Promise::P6, DECISION, "replicas of web in clusters: 2; found 1");
    let world = World::delivered();
    world.put(
        Some(&world.hub),
        DECISION,
        &with(decision(&[C1], 2), "/spec/unplaced", json!(1)),
    );
    world.breaks(
        Promise::P6,
        DECISION,
        "unplaced replicas of all workloads: 0; found 1",
    );
    // The rule claims one of two, and no other step or remainder has the other one.
    let world = World::delivered();
    let mut short = decision(&[C1], 1);
    short["spec"]["workloads"][0]["rules"][0]["total"] = json!(1);
    short["spec"]["workloads"][0]["clusters"][0]["replicas"] = json!(1);
    world.put(Some(&world.hub), DECISION, &short);
    world.breaks(
        Promise::P6,
        DECISION,
        "replicas of Deployment web over all steps of web-v1: 2; found 1",
    );
    let world = World::delivered();
    let mut none = decision(&[C1], 0);
    none["spec"]["workloads"] = json!([]);
    world.put(Some(&world.hub), DECISION, &none);
    world.breaks(
        Promise::P6,
        DECISION,
        "replicas of web that web-v1 asks for: 2; found 0",
    );
}

#[test]
fn p6_a_bundle_with_another_count_than_was_ever_decided_is_told() {
    const COUNT: &str = "/spec/workload/manifests/0/spec/replicas";
    let with_count = |count: u64| with(bundle(2), COUNT, json!(count));
    // What a Decision gave before, it gave.
    let world = World::delivered();
    let mut three = decision(&[C1], 2);
    three["spec"]["workloads"][0]["clusters"][0]["replicas"] = json!(1);
    three["spec"]["workloads"][0]["clusters"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "c2", "rule": "rule-0", "replicas": 1, "quota": "1"}));
    world.put(Some(&world.hub), DECISION, &three);
    world.put(Some(&world.hub), BUNDLE, &with_count(1));
    world.put(Some(&world.hub), BUNDLE, &with(bundle(3), COUNT, json!(2)));
    world.holds();
    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &with_count(20));
    world.breaks(
        Promise::P6,
        BUNDLE,
        "as Decisions of web-v1 give to c1: {2}; found 20",
    );
    // Of several steps each may have its part in it.
    let world = World::delivered();
    let mut more = with(decision(&[C1], 0), "/spec/step", json!("step-1"));
    more["spec"]["workloads"][0]["rules"][0]["total"] = json!(0);
    more["spec"]["workloads"][0]["clusters"] =
        json!([{"name": C1, "rule": "rule-0", "replicas": 5, "duplicate": true}]);
    let other: At<'_> = (HUB, DECISION.1, "default", "web-step-1");
    world.put(Some(&world.hub), other, &more);
    world.put(Some(&world.hub), BUNDLE, &with_count(7));
    world.holds();
    world.put(Some(&world.hub), BUNDLE, &with(bundle(3), COUNT, json!(6)));
    world.breaks(Promise::P6, BUNDLE, "{2, 5, 7}; found 6");
}

#[test]
fn p7_what_is_dispatched_before_its_step_has_begun_is_told() {
    for (phase, revision, holds) in [
        ("running", "web-v1", true),
        ("succeeded", "web-v1", true),
        ("pending", "web-v1", false),
        // What an earlier run has left goes on, and of a later one nothing is known.
        ("pending", "web-v0", true),
        ("running", "web-v2", false),
    ] {
        let world = World::delivered();
        let mut earlier = with(bundle(2), "/spec/revision", json!("web-v00"));
        earlier["metadata"]["labels"] = json!({});
        world.put(None, BUNDLE, &earlier);
        world.put(Some(&world.hub), APPLICATION, &application(&workflow(phase)));
        let next = with(bundle(3), "/spec/revision", json!(revision));
        world.put(Some(&world.hub), BUNDLE, &next);
        match holds {
            true => assert!(
                world
                    .monitor
                    .broken()
                    .iter()
                    .all(|broken| broken.promise != Promise::P7)
            ),
            false => {
                let words = match phase {
                    "pending" => "step step-0 to have begun before it brings web-v1",
                    _ => "nothing of web-v2 before a run of it; found the run is of web-v1",
                };
                world.breaks(Promise::P7, BUNDLE, words);
            }
        }
    }
}

#[test]
fn p7_a_step_that_passes_on_anything_but_its_own_evidence_is_told() {
    let again = |world: &World| {
        world.put(Some(&world.hub), APPLICATION, &application(&running()));
        world.put(Some(&world.hub), APPLICATION, &application(&passed()));
    };
    let world = World::delivered();
    again(&world);
    world.holds();

    // A new generation, of which nothing is reported; the old report is still in the object.
    let world = World::delivered();
    world.put(Some(&world.hub), BUNDLE, &with_report(bundle(2), 1, "Ready"));
    again(&world);
    world.breaks(
        Promise::P7,
        APPLICATION,
        "c1: nothing was reported of generation 2 that shows it",
    );

    // A report of that generation about other content.
    let world = World::delivered();
    let mut other = with_report(bundle(2), 2, "Ready");
    other["status"]["hash"] = json!("h1");
    world.put(Some(&world.hub), BUNDLE, &other);
    again(&world);
    world.breaks(Promise::P7, APPLICATION, "nothing was reported of generation 2");

    let world = World::delivered();
    world.put(
        Some(&world.hub),
        BUNDLE,
        &with_report(bundle(2), 2, "Progressing"),
    );
    again(&world);
    world.breaks(
        Promise::P7,
        APPLICATION,
        "nothing was reported of generation 2 that shows it",
    );

    // Content of an earlier revision, ready as it is; the beginning of an image is another one.
    for foreign in ["nginx:0", "nginx"] {
        let world = World::delivered();
        let mut earlier = with_report(bundle(2), 2, "Ready");
        earlier["spec"]["revision"] = json!("web-v0");
        let image = "/spec/workload/manifests/0/spec/template/spec/containers/0/image";
        world.put(Some(&world.hub), BUNDLE, &with(earlier, image, json!(foreign)));
        again(&world);
        let words = format!("image: \"{foreign}\", not \"nginx:1\"");
        world.breaks(Promise::P7, APPLICATION, &words);
    }
    // Where a Placement may change the content on its way, only the image is looked at.
    for foreign in ["nginx:0", "nginx"] {
        let world = World::delivered();
        let placement = (HUB, "placements.roundhouse.dev", "default", "p");
        world.put(None, placement, &json!({"metadata": {"name": "p", "uid": "p"}}));
        let refers = json!([{"type": "deploy", "properties": {"placementRef": {"name": "p"}}}]);
        let refers = with(revision(), "/spec/application/workflow/steps", refers);
        world.put(Some(&world.hub), REVISION, &refers);
        let mut earlier = with_report(bundle(2), 2, "Ready");
        earlier["spec"]["revision"] = json!("web-v0");
        let image = "/spec/workload/manifests/0/spec/template/spec/containers/0/image";
        world.put(Some(&world.hub), BUNDLE, &with(earlier, image, json!(foreign)));
        again(&world);
        let words = format!("the image {foreign}, which is none of web-v1");
        world.breaks(Promise::P7, APPLICATION, &words);
    }

    let world = World::delivered();
    world.put(
        Some(&world.hub),
        DECISION,
        &with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2"])),
    );
    again(&world);
    world.breaks(Promise::P7, APPLICATION, "c2: there is no Bundle");

    // A placement that lacks something, be it every cluster; none is enough where none is asked for.
    for (clusters, satisfied) in [(json!([C1]), false), (json!([]), false), (json!([]), true)] {
        let world = World::delivered();
        let mut other = cluster_available();
        other["metadata"]["labels"] = json!({"region": "other"});
        world.put(None, (HUB, "clusters.roundhouse.dev", "", C1), &other);
        let mut placed = decision(&[], 0);
        let spec = &mut placed["spec"];
        spec["clusters"] = clusters;
        spec["satisfied"] = json!(satisfied);
        spec["reasons"] = json!(["rule-0: no cluster matches"]);
        // A rule that gives to each cluster the full count.
        let workload = &mut spec["workloads"][0];
        workload["rules"] = json!([{"rule": "rule-0", "share": "each", "seats": 0, "total": 0}]);
        workload["clusters"] = json!([]);
        world.put(Some(&world.hub), DECISION, &placed);
        again(&world);
        match satisfied {
            true => world.holds(),
            false => world.breaks(
                Promise::P7,
                APPLICATION,
                "its Decision is not: rule-0: no cluster matches",
            ),
        }
    }

    // Unless it leaves meanwhile.
    let world = World::delivered();
    let c2: At<'_> = (HUB, "clusters.roundhouse.dev", "", "c2");
    let mut leaves = deleting(cluster_available());
    leaves["metadata"]["name"] = json!("c2");
    leaves["spec"]["leave"] = json!("Orphan");
    world.put(None, c2, &leaves);
    world.put(
        Some(&world.hub),
        DECISION,
        &with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2"])),
    );
    again(&world);
    world.holds();
    world.remove(None, c2);
    again(&world);
    world.holds();
}

#[test]
fn p7_a_status_that_tells_anything_but_how_the_run_of_its_spec_went_is_told() {
    let condition = |ty: &str, status: &str, of: i64| {
        json!({"type": ty, "status": status, "observedGeneration": of, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let (no, failed, succeeded) = (
        json!([false, "running"]),
        json!([true, "failed"]),
        json!([true, "succeeded"]),
    );
    let nothing = json!([]);
    let refused = |of| json!([condition("Accepted", "False", of)]);
    let delivered = |of| json!([condition("Delivered", "True", of)]);
    for (phase, of, run, ended, conditions, words) in [
        ("running", 1, json!(1), &succeeded, &nothing, None),
        ("unhealthy", 1, json!(1), &succeeded, &delivered(1), None),
        (
            "running",
            1,
            json!(1),
            &succeeded,
            &delivered(2),
            Some("it is of 1"),
        ),
        ("running", 1, json!(1), &no, &nothing, Some("None")),
        ("running", 1, json!(1), &failed, &nothing, Some("Failed")),
        ("running", 2, json!(1), &succeeded, &nothing, Some("it is of 1")),
        (
            "running",
            1,
            Value::Null,
            &succeeded,
            &nothing,
            Some("there is none"),
        ),
        ("runningWorkflow", 1, json!(1), &no, &nothing, None),
        (
            "runningWorkflow",
            1,
            json!(1),
            &succeeded,
            &nothing,
            Some("Succeeded"),
        ),
        (
            "workflowSuspending",
            2,
            json!(1),
            &no,
            &nothing,
            Some("it is of 1"),
        ),
        ("workflowFailed", 1, json!(1), &failed, &nothing, None),
        ("workflowTerminated", 1, json!(1), &no, &nothing, Some("None")),
        (
            "workflowFailed",
            2,
            json!(1),
            &failed,
            &nothing,
            Some("it is of 1"),
        ),
        ("rendering", 2, json!(1), &succeeded, &refused(2), None),
        (
            "rendering",
            2,
            json!(1),
            &succeeded,
            &refused(1),
            Some("found none"),
        ),
        ("rendering", 1, json!(1), &failed, &nothing, Some("found none")),
        ("deleting", 2, json!(1), &succeeded, &nothing, None),
    ] {
        for by_hub in [true, false] {
            let world = World::delivered();
            let mut run = with(passed(), "/generation", run.clone());
            run["finished"] = ended[0].clone();
            run["status"] = ended[1].clone();
            let mut told = application(&run);
            told["status"]["observedGeneration"] = json!(of);
            told["status"]["phase"] = json!(phase);
            told["status"]["conditions"] = conditions.clone();
            if !by_hub {
                world.put(None, APPLICATION, &told);
            }
            // Of what somebody else has written the hub's next write says nothing.
            told["status"]["deliveredRevision"] = json!("web-v1");
            world.put(Some(&world.hub), APPLICATION, &told);
            match words.filter(|_| by_hub) {
                None => world.holds(),
                Some(words) => world.breaks(Promise::P7, APPLICATION, words),
            }
        }
    }
}

#[test]
fn p7_an_agent_that_reports_what_its_cluster_never_was_is_told() {
    let newer = || {
        let image = "/spec/workload/manifests/0/spec/template/spec/containers/0/image";
        with(bundle(2), image, json!("nginx:2"))
    };
    let pending = json!({"observedGeneration": 0, "updatedReplicas": 0, "availableReplicas": 0});
    for (image, status, phase, holds) in [
        ("nginx:2", None, "Ready", true),
        ("nginx:1", None, "Ready", false),
        ("nginx:1", None, "Progressing", true),
        ("nginx:2", Some(pending.clone()), "Ready", false),
        ("nginx:2", Some(pending.clone()), "Progressing", true),
        ("nginx:1", Some(pending), "Applied", false),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &newer());
        world.put(Some(&agent()), LEDGER, &ledger(2));
        let mut live = deployment(image);
        if let Some(status) = status {
            live["status"] = status;
        }
        world.put(None, DEPLOYMENT, &live);
        let mut reported = with_report(newer(), 2, if phase == "Applied" { "Progressing" } else { phase });
        if phase == "Applied" {
            reported["status"]["counts"] = json!({"total": 1, "applied": 1, "ready": 0, "failed": 0});
        }
        world.put(Some(&agent()), BUNDLE, &reported);
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P7, BUNDLE, "never was: deployments.apps"),
        }
    }
    // What it was for a moment counts; so does what it was before the content that asks for it came.
    let world = World::delivered();
    world.put(None, DEPLOYMENT, &deployment("nginx:2"));
    world.put(Some(&world.hub), BUNDLE, &newer());
    world.put(None, DEPLOYMENT, &deployment("nginx:3"));
    world.put(Some(&agent()), BUNDLE, &with_report(newer(), 2, "Ready"));
    world.holds();
    // What is applied once others may have changed.
    let world = World::delivered();
    let mut once = newer();
    once["spec"]["applyOnce"] = json!("Once");
    world.put(Some(&world.hub), BUNDLE, &once);
    world.put(Some(&agent()), BUNDLE, &with_report(once, 2, "Ready"));
    world.holds();
}

#[test]
fn p7_an_agent_that_reports_to_have_cleaned_up_what_is_still_there_is_told() {
    let (ours, free) = marked_and_free();
    let of_another = with(
        ours.clone(),
        "/metadata/annotations",
        json!({annotation::OWNED_BY: "h/default.other"}),
    );
    for (left, holds) in [
        (Some(ours), false),
        (Some(free), true),
        (Some(of_another), true),
        (None, true),
    ] {
        let world = World::delivered();
        let goes = with_deletion(bundle(2), Deletion::GARBAGE_COLLECTION);
        world.put(None, BUNDLE, &goes);
        match left {
            Some(left) => drop(world.put(None, DEPLOYMENT, &left)),
            None => world.remove(None, DEPLOYMENT),
        }
        world.put(Some(&agent()), BUNDLE, &with_report(goes, 2, "Cleaned"));
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P7, BUNDLE, "found deployments.apps default/web is there"),
        }
    }
}

/// A Bundle goes, and its object is gone.
fn going() -> (World, Value) {
    let world = World::delivered();
    let goes = with_deletion(bundle(2), Deletion::GARBAGE_COLLECTION);
    world.put(None, BUNDLE, &goes);
    world.remove(None, DEPLOYMENT);
    (world, goes)
}

#[test]
fn p7_what_a_repeated_request_has_made_again_an_agent_need_not_have_seen() {
    let (ours, _) = marked_and_free();
    // Whether it is made again by a repeated request, and whether the agent has written it since.
    for (repeated, written, holds) in [(true, false, true), (false, false, false), (true, true, false)] {
        let (world, goes) = going();
        world.overdue.store(repeated, Ordering::Relaxed);
        world.put(Some(&agent()), DEPLOYMENT, &ours);
        world.overdue.store(false, Ordering::Relaxed);
        if written {
            let mut labelled = ours.clone();
            labelled["metadata"]["labels"] = json!({"a": "b"});
            world.put(Some(&agent()), DEPLOYMENT, &labelled);
        }
        world.put(Some(&agent()), BUNDLE, &with_report(goes, 2, "Cleaned"));
        let told = world.monitor.report(10).unwrap_or_default();
        assert_eq!(
            !told.contains("found deployments.apps default/web is there"),
            holds,
            "{told}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn p7_what_a_member_has_again_since_a_report_was_sent_is_not_in_it() {
    let (ours, _) = marked_and_free();
    // How long after the member was put back the report arrives, and whether it was a minute under way.
    for (after, late, holds) in [(20, true, true), (20, false, false), (90, true, false)] {
        let (world, goes) = going();
        advance(Duration::from_secs(100)).await;
        world.note(&Note::Restored(C1.into()));
        world.put(None, DEPLOYMENT, &ours);
        advance(Duration::from_secs(after)).await;
        world.overdue.store(late, Ordering::Relaxed);
        world.put(Some(&agent()), BUNDLE, &with_report(goes, 2, "Cleaned"));
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P7, BUNDLE, "found deployments.apps default/web is there"),
        }
    }
}

/// An application of one step that places and one that waits, on c1 and c2; of c2 only, `ready` says whether it has reported so.
fn waiting(until: &Value, wait: &str, ready: bool) -> World {
    let world = World::delivered();
    let place = json!({"type": "deploy", "properties": {"placement": [{"replicas": "100%"}], "wait": wait}});
    let steps = json!([place, {"name": "look", "type": "wait", "properties": {"until": until}}]);
    let revision = with(revision(), "/spec/application/workflow/steps", steps);
    world.put(Some(&world.hub), REVISION, &revision);
    let both = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2"]));
    world.put(Some(&world.hub), DECISION, &both);
    let (namespace, second) = bundle_of("c2");
    let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
    world.put(Some(&world.hub), at, &second);
    if ready {
        world.put(None, at, &with_report(second, 1, "Ready"));
    }
    world
}

fn looks(first: &str, look: &str) -> Value {
    let mut run = workflow(first);
    let steps = run["steps"].as_array_mut().unwrap();
    steps.push(json!({"name": "look", "type": "wait", "phase": look}));
    application(&run)
}

#[test]
fn p7_a_step_that_waits_passes_on_what_its_own_clusters_have_shown() {
    let none = "c2: nothing was reported of generation 1 that shows it";
    for (until, ready, words) in [
        (json!({"ready": "100%"}), true, None),
        (json!({"ready": "100%"}), false, Some(none)),
        (json!({"ready": "50%"}), false, None),
        (json!({"ready": "51%"}), false, Some(none)),
        (json!({"ready": 1}), false, None),
        (json!({"ready": 2}), false, Some(none)),
        (json!("fleet.ready >= 2"), false, Some(none)),
        (json!("fleet.ready == fleet.clusters"), false, Some(none)),
        (json!("fleet.applied >= 2"), false, Some(none)),
        (json!("fleet.applied >= 1"), false, None),
        // What else an expression asks for may hold of any clusters.
        (json!("fleet.waiting >= 1"), false, None),
    ] {
        let world = waiting(&until, "none", ready);
        world.put(Some(&world.hub), APPLICATION, &looks("succeeded", "running"));
        world.put(Some(&world.hub), APPLICATION, &looks("succeeded", "succeeded"));
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P7, APPLICATION, words),
        }
    }
    // Of a step that the run has not come to nobody is asked, nor of one that it passes over; and of nobody nothing holds.
    for first in ["pending", "skipped"] {
        let world = waiting(&json!({"ready": "1%"}), "none", true);
        world.put(Some(&world.hub), APPLICATION, &looks(first, "running"));
        world.put(Some(&world.hub), APPLICATION, &looks(first, "succeeded"));
        world.breaks(Promise::P7, APPLICATION, "of 0 clusters");
    }
}

#[test]
fn p7_what_a_step_counts_has_been_sent_to_all() {
    for (until, sent) in [
        (json!({"ready": "50%"}), false),
        (json!("fleet.failed == 0"), false),
        (json!("fleet.failed == 0"), true),
    ] {
        let world = waiting(&json!({"ready": 1}), "none", true);
        let place = json!({"type": "deploy", "properties": {"placement": [{"replicas": "100%"}], "wait": {"until": until}}});
        let revision = with(revision(), "/spec/application/workflow/steps", json!([place]));
        world.put(Some(&world.hub), REVISION, &revision);
        if !sent {
            let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2", "c3"]));
            world.put(Some(&world.hub), DECISION, &all);
        }
        world.put(Some(&world.hub), APPLICATION, &application(&running()));
        world.put(Some(&world.hub), APPLICATION, &application(&passed()));
        match sent {
            true => world.holds(),
            false => world.breaks(Promise::P7, APPLICATION, "c3: there is no Bundle"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p7_a_step_of_an_object_passes_when_every_cluster_has_it_that_it_is_for() {
    let of = |selector: Value| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}});
        let placed = json!({"type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}});
        let step = json!({"name": "step-0", "type": "apply-object", "properties": {"clusters": selector, "value": object}});
        with(
            revision(),
            "/spec/application/workflow/steps",
            json!([step, placed]),
        )
    };
    for (selector, long, has, words) in [
        (json!({"region": "east"}), 100, true, None),
        (
            json!({"region": "east"}),
            100,
            false,
            Some("a Bundle of step-0 for c1"),
        ),
        // It may not have heard yet.
        (json!({"region": "east"}), 10, false, None),
        (json!({"region": "west"}), 100, false, None),
    ] {
        let world = World::new();
        let hub = &world.hub;
        world.put(Some(hub), LEASE, &lease(1));
        let mut east = cluster_available();
        east["metadata"]["labels"] = json!({"region": "east"});
        world.put(None, (HUB, "clusters.roundhouse.dev", "", C1), &east);
        world.put(None, APPLICATION, &application(&running()));
        world.put(Some(hub), REVISION, &of(selector));
        advance(Duration::from_secs(long)).await;
        if has {
            let at = (HUB, BUNDLE.1, "cluster-c1", "default.web.step.step-0");
            let mut bundle = with(bundle(1), "/spec/workload/manifests", json!([]));
            bundle["metadata"]["name"] = json!(at.3);
            world.put(Some(hub), at, &bundle);
            world.put(Some(&agent()), at, &with_report(bundle, 1, "Ready"));
        }
        world.put(Some(hub), APPLICATION, &application(&passed()));
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P7, APPLICATION, words),
        }
    }
    // Who has reported nothing holds it up, but for a cluster that it is not for any more.
    let words = "c1 has reported nothing of generation 1";
    for (now, wait, words) in [
        (json!({"region": "east"}), 100, Some(words)),
        (json!({"region": "west"}), 100, None),
        (json!({"region": "west"}), 0, None),
        // It was, and is again; the hub may have heard of the first only.
        (json!({"region": "east", "again": "yes"}), 0, None),
        (json!({"region": "east", "again": "yes"}), 400, Some(words)),
    ] {
        let world = World::new();
        let hub = &world.hub;
        let at: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);
        let labelled = |labels: &Value| {
            let mut cluster = cluster_available();
            cluster["metadata"]["labels"] = labels.clone();
            cluster
        };
        world.put(Some(hub), LEASE, &lease(1));
        world.put(None, at, &labelled(&json!({"region": "east"})));
        world.put(None, APPLICATION, &application(&running()));
        world.put(Some(hub), REVISION, &of(json!({"region": "east"})));
        let bundle_at = (HUB, BUNDLE.1, "cluster-c1", "default.web.step.step-0");
        let mut bundle = with(bundle(1), "/spec/workload/manifests", json!([]));
        bundle["metadata"]["name"] = json!(bundle_at.3);
        world.put(Some(hub), bundle_at, &bundle);
        advance(Duration::from_secs(100)).await;
        world.put(None, at, &labelled(&now));
        advance(Duration::from_secs(wait)).await;
        world.put(Some(hub), APPLICATION, &application(&passed()));
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P7, APPLICATION, words),
        }
    }
}

fn bundle_of(cluster: &str) -> (String, Value) {
    let mut bundle = bundle(1);
    bundle["metadata"]["uid"] = json!(cluster);
    bundle["metadata"]["namespace"] = json!(format!("cluster-{cluster}"));
    (format!("cluster-{cluster}"), bundle)
}

#[test]
fn p8_more_clusters_under_way_than_there_may_be_are_told() {
    // Also when clusters come to an application whose run has ended.
    let mut ended = passed();
    ended["finished"] = json!(true);
    ended["status"] = json!("succeeded");
    for workflow in [running(), ended] {
        let world = World::delivered();
        let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2", "c3"]));
        world.put(Some(&world.hub), DECISION, &all);
        world.put(None, APPLICATION, &application(&workflow));
        let (namespace, second) = bundle_of("c2");
        world.put(
            Some(&world.hub),
            (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
            &second,
        );
        world.holds();
        let (namespace, third) = bundle_of("c3");
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        // What is made by a request that nobody waits for any more is the network's doing; a change that comes so late is not.
        world.overdue.store(true, Ordering::Relaxed);
        world.put(Some(&world.hub), at, &third);
        world.holds();
        let former = with(third.clone(), "/spec/revision", json!("web-v0"));
        world.put(None, at, &former);
        let third = with(third, "/metadata/generation", json!(2));
        world.put(Some(&world.hub), at, &third);
        world.overdue.store(false, Ordering::Relaxed);
        world.breaks(
            Promise::P8,
            at,
            "at most 1 clusters of step step-0 under way; found c3 beside {\"c2\"}",
        );
    }
}

/// A Bundle of the revision before is there, and the hub makes this of it.
fn changed(world: &World, at: At<'_>, bundle: Value) -> Value {
    let former = with(bundle.clone(), "/spec/revision", json!("web-v0"));
    world.put(None, at, &with(former, "/spec/hash", json!("h0")));
    let bundle = with(bundle, "/metadata/generation", json!(2));
    world.put(Some(&world.hub), at, &bundle);
    bundle
}

#[test]
fn p8_what_comes_to_further_clusters_when_the_step_has_stopped_is_told() {
    let failed = |reason: &str| {
        let mut run = workflow("failed");
        run["steps"][0]["reason"] = json!(reason);
        run
    };
    let with = |mut run: Value, changes: Value| {
        run.as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        run
    };
    let ended = json!({"finished": true, "status": "failed"});
    let paused = json!({"suspend": true, "paused": true, "status": "suspending"});
    for (run, words) in [
        (running(), None),
        // It is tried again.
        (failed("Execute"), None),
        (failed("Action"), Some("the step has failed")),
        (with(running(), ended), Some("the run has ended")),
        (with(workflow("suspending"), paused), Some("the run is paused")),
    ] {
        let world = World::delivered();
        world.put(Some(&world.hub), APPLICATION, &application(&run));
        // Of one that is not there nobody knows whether it ever was.
        let (namespace, second) = bundle_of("c2");
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        world.put(Some(&world.hub), at, &second);
        world.holds();
        let (namespace, third) = bundle_of("c3");
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        let third = changed(&world, at, third);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P8, at, words),
        }
        // Who has it may get another share of it.
        let again = self::with(third.clone(), "/metadata/generation", json!(3));
        let again = self::with(again, "/spec/hash", json!("h3"));
        let broken = world.monitor.broken().len();
        world.put(Some(&world.hub), at, &again);
        assert_eq!(world.monitor.broken().len(), broken);
        // But not who has had it, and has something else since.
        let other = self::with(again.clone(), "/metadata/generation", json!(4));
        let other = self::with(other, "/spec/hash", json!("h4"));
        world.put(None, at, &self::with(other, "/spec/revision", json!("web-v0")));
        world.put(
            Some(&world.hub),
            at,
            &self::with(again, "/metadata/generation", json!(5)),
        );
        assert_eq!(
            world.monitor.broken().len(),
            2 * broken,
            "{:?}",
            world.monitor.broken()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn p8_what_was_on_its_way_when_a_step_stopped_may_come_and_what_is_noted_of_it_may_not() {
    let mut paused = workflow("suspending");
    let stands = json!({"suspend": true, "paused": true, "status": "suspending"});
    paused
        .as_object_mut()
        .unwrap()
        .extend(stands.as_object().unwrap().clone());
    let (namespace, second) = bundle_of("c2");
    let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
    let waits = json!([{"revision": "web-v0", "clusters": ["c2"]}]);
    for (is_there, waiting, long, overdue, words) in [
        // Sent before it stopped, and after.
        (true, json!([]), 30, true, None),
        (true, json!([]), 120, true, Some("the run is paused")),
        // What vanished is made again, of what it was.
        (false, json!([]), 0, false, None),
        (false, waits.clone(), 0, false, Some("the run is paused")),
        (false, waits, 30, true, None),
    ] {
        let world = World::delivered();
        let mut all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2"]));
        all["spec"]["waiting"] = waiting;
        world.put(Some(&world.hub), DECISION, &all);
        world.put(Some(&world.hub), APPLICATION, &application(&paused));
        let former = with(second.clone(), "/spec/revision", json!("web-v0"));
        if is_there {
            world.put(None, at, &with(former, "/spec/hash", json!("h0")));
        }
        advance(Duration::from_secs(long)).await;
        world.overdue.store(overdue, Ordering::Relaxed);
        let generation = if is_there { 2 } else { 1 };
        let bundle = with(second.clone(), "/metadata/generation", json!(generation));
        world.put(Some(&world.hub), at, &bundle);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P8, at, words),
        }
    }
}

#[test]
fn p8_a_component_that_comes_when_its_step_has_stopped_is_told_beside_one_that_goes_on() {
    let step = |name: &str, phase: &str| {
        let mut step = workflow(phase)["steps"][0].clone();
        step["name"] = json!(name);
        if phase == "failed" {
            step["reason"] = json!("Action");
        }
        step
    };
    let mut run = running();
    run["steps"] = json!([step("db", "failed"), step("web", "running")]);
    let brought =
        |db: &str, web: &str| json!({"roundhouse.dev/steps": json!({"db": db, "web": web}).to_string()});
    let (namespace, second) = bundle_of("c2");
    let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
    let second = with(second, "/metadata/labels", json!({"roundhouse.dev/step": "web"}));
    for (db, words) in [("web-v0", None), ("web-v1", Some("the step has failed"))] {
        let world = World::delivered();
        world.put(Some(&world.hub), APPLICATION, &application(&run));
        let mut former = with(second.clone(), "/spec/hash", json!("h0"));
        former["metadata"]["annotations"] = brought("web-v0", "web-v0");
        world.put(None, at, &former);
        let mut bundle = with(second.clone(), "/metadata/generation", json!(2));
        bundle["metadata"]["annotations"] = brought(db, "web-v1");
        world.put(Some(&world.hub), at, &bundle);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P8, at, words),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p8_a_step_that_goes_on_when_too_many_of_its_clusters_have_failed_is_told() {
    let report = |phase: &str, applied: u32| {
        let mut bundle = with_report(bundle(1), 1, phase);
        bundle["status"]["counts"] = json!({"total": 2, "applied": applied, "ready": 0, "failed": 1});
        bundle
    };
    let known = 400;
    for (most, wait, phase, long, words) in [
        (0, "ready", "Failed", known, Some("at most 0 failed clusters")),
        (1, "ready", "Failed", known, None),
        // The hub may not have heard it yet.
        (0, "ready", "Failed", 60, None),
        (0, "ready", "Progressing", known, None),
        (0, "applied", "Failed", known, Some("at most 0 failed clusters")),
        // All of it is applied: that is what the step waits for.
        (0, "applied", "Unhealthy", known, None),
    ] {
        let world = World::delivered();
        let step = json!({"type": "deploy", "properties": {"placement": [{"replicas": "100%"}], "wait": wait,
            "maxFailedClusters": most}});
        let revision = with(revision(), "/spec/application/workflow/steps", json!([step]));
        world.put(Some(&world.hub), REVISION, &revision);
        let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2"]));
        world.put(Some(&world.hub), DECISION, &all);
        world.put(Some(&world.hub), APPLICATION, &application(&running()));
        let report = match phase {
            "Unhealthy" => {
                let mut report = report("Failed", 2);
                report["status"]["conditions"] = json!([{"type": "Applied", "status": "True", "reason": "Applied",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
                report
            }
            phase => report(phase, 1),
        };
        world.put(Some(&agent()), BUNDLE, &report);
        advance(Duration::from_secs(long)).await;
        let (namespace, second) = bundle_of("c2");
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        changed(&world, at, second);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P8, at, words),
        }
    }
}

#[test]
fn p8_who_was_away_when_it_was_sent_keeps_its_place_when_it_is_back() {
    let world = World::delivered();
    let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2", "c3"]));
    world.put(Some(&world.hub), DECISION, &all);
    world.put(Some(&world.hub), APPLICATION, &application(&running()));
    let cluster: At<'_> = (HUB, "clusters.roundhouse.dev", "", "c2");
    let silent = with(
        cluster_available(),
        "/status/conditions/0/status",
        json!("Unknown"),
    );
    let send = |cluster: &str, generation: i64| {
        let (namespace, bundle) = bundle_of(cluster);
        let bundle = with(bundle, "/metadata/generation", json!(generation));
        let at = (BUNDLE.0, BUNDLE.1, namespace.as_str(), BUNDLE.3);
        world.put(Some(&world.hub), at, &bundle);
    };
    world.put(None, cluster, &silent);
    send("c2", 1);
    world.put(None, cluster, &cluster_available());
    send("c3", 1);
    send("c2", 2);
    world.holds();
}

#[test]
fn p8_what_is_to_go_takes_no_place() {
    for goes in [false, true] {
        let world = World::delivered();
        let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2", "c3"]));
        world.put(Some(&world.hub), DECISION, &all);
        world.put(Some(&world.hub), APPLICATION, &application(&running()));
        let (second, third) = (bundle_of("c2"), bundle_of("c3"));
        fn at(namespace: &str) -> At<'_> {
            (BUNDLE.0, BUNDLE.1, namespace, BUNDLE.3)
        }
        world.put(Some(&world.hub), at(second.0.as_str()), &second.1);
        if goes {
            let leaves = with(second.1, "/metadata/generation", json!(2));
            world.put(
                None,
                at(second.0.as_str()),
                &with_deletion(leaves, Deletion::CLUSTER_LEFT),
            );
        }
        world.put(Some(&world.hub), at(third.0.as_str()), &third.1);
        assert_eq!(world.monitor.broken().is_empty(), goes);
    }
}

#[test]
fn p8_what_was_sent_before_the_step_gave_the_cluster_up_takes_no_place() {
    let world = World::delivered();
    let put = |clusters: Value| {
        let decided = with(decision(&[C1], 2), "/spec/clusters", clusters);
        world.put(Some(&world.hub), DECISION, &decided);
    };
    world.put(Some(&world.hub), APPLICATION, &application(&running()));
    let send = |cluster: &str| {
        let (namespace, bundle) = bundle_of(cluster);
        world.put(
            Some(&world.hub),
            (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
            &bundle,
        );
    };
    // The label of c3 goes while its Bundle is on its way, and its turn goes to c2.
    put(json!([C1, "c2"]));
    send("c2");
    send("c3");
    world.holds();
    // It comes back, and the share of another changes that is under way as well.
    put(json!([C1, "c2", "c3"]));
    let (namespace, second) = bundle_of("c2");
    let second = with(second, "/metadata/generation", json!(2));
    world.put(
        Some(&world.hub),
        (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
        &second,
    );
    world.holds();
}

#[tokio::test(start_paused = true)]
async fn p8_who_has_come_back_takes_a_place_when_the_hub_has_heard_of_it_and_has_to_hear_of_it() {
    // Whether the hub says that it has heard, and how long the cluster is available by then.
    for (heard, long, holds) in [
        (false, 80, true),
        (true, 0, false),
        // What was so when the application came was seen, and no list is as old as that.
        (false, 100, false),
    ] {
        let world = World::delivered();
        advance(Duration::from_secs(long)).await;
        let all = with(decision(&[C1], 2), "/spec/clusters", json!([C1, "c2", "c3"]));
        world.put(Some(&world.hub), DECISION, &all);
        world.put(Some(&world.hub), APPLICATION, &application(&running()));
        let away = if heard { vec![] } else { vec!["c2".to_owned()] };
        world.monitor.witness().hears(Said::Unreachable {
            namespace: APPLICATION.2.to_owned(),
            name: APPLICATION.3.to_owned(),
            clusters: away.into_iter().collect(),
        });
        for cluster in ["c2", "c3"] {
            let (namespace, bundle) = bundle_of(cluster);
            world.put(
                Some(&world.hub),
                (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
                &bundle,
            );
        }
        match holds {
            true => world.holds(),
            false => world.breaks(
                Promise::P8,
                (BUNDLE.0, BUNDLE.1, "cluster-c3", BUNDLE.3),
                "found c3 beside {\"c2\"}",
            ),
        }
    }
}

/// Three clusters of which `c2` and then `c3` go, as far as the hub has counted them, at these times by its clock.
fn removing(moments: &[(&str, &str)]) -> World {
    removing_beside(moments, None)
}

/// Beside it the Bundle of c1 goes, in between, and this confirms it.
fn removing_beside(moments: &[(&str, &str)], beside: Option<&str>) -> World {
    let world = World::delivered();
    for cluster in ["c2", "c3"] {
        let (namespace, bundle) = bundle_of(cluster);
        world.put(
            Some(&world.hub),
            (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
            &bundle,
        );
    }
    let mut counted = Vec::new();
    for cluster in ["c2", "c3"] {
        if let Some(by) = beside.filter(|_| cluster == "c3") {
            let at: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);
            world.put(None, at, &deleting(cluster_available()));
            let mut told = with_deletion(bundle(2), by);
            told["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
            world.put(Some(&world.hub), BUNDLE, &told);
        }
        let own = moments.iter().filter(|(of, _)| *of == cluster);
        counted.extend(own.map(|(of, at)| json!({"at": at, "of": 3, "count": 1, "clusters": [of]})));
        let mut app = application(&passed());
        app["status"]["removals"] = json!({"moments": counted});
        world.put(Some(&world.hub), APPLICATION, &app);
        let (namespace, bundle) = bundle_of(cluster);
        let bundle = with(bundle, "/metadata/generation", json!(2));
        let bundle = with_deletion(bundle, "garbage-collection");
        world.put(
            Some(&world.hub),
            (BUNDLE.0, BUNDLE.1, &namespace, BUNDLE.3),
            &bundle,
        );
    }
    world
}

#[test]
fn p8_removals_beyond_the_budget_are_told() {
    let at = (BUNDLE.0, BUNDLE.1, "cluster-c3", BUNDLE.3);
    let quick = removing(&[("c2", "2026-01-01T00:00:00Z"), ("c3", "2026-01-01T00:59:59Z")]);
    quick.breaks(
        Promise::P8,
        at,
        "at most 10 % of 3 clusters in an hour without confirmation; found {\"c2\", \"c3\"}",
    );
    // The clock of the hub is put back: what it has counted it counts on.
    let back = removing(&[("c2", "2026-01-01T05:00:00Z"), ("c3", "2026-01-01T04:00:00Z")]);
    back.breaks(Promise::P8, at, "at most 10 % of 3 clusters");
    // That a cluster was let leave meanwhile confirms nothing of the others.
    let moments = [("c2", "2026-01-01T00:00:00Z"), ("c3", "2026-01-01T00:59:59Z")];
    removing_beside(&moments, Some("cluster-left")).breaks(Promise::P8, at, "at most 10 % of 3 clusters");
    let uncounted = removing(&[("c2", "2026-01-01T00:00:00Z")]);
    uncounted.breaks(
        Promise::P8,
        at,
        "the removal to be counted in the status of its application",
    );
}

#[test]
fn p8_an_hour_is_what_the_clock_of_the_hub_says() {
    // In this test no time passes at all: the clock jumps.
    removing(&[("c2", "2026-01-01T00:00:00Z"), ("c3", "2026-01-01T01:00:00Z")]).holds();
}

#[tokio::test(start_paused = true)]
async fn p9_what_a_cut_off_agent_does_not_put_right_is_told() {
    let cut = || {
        let world = World::delivered();
        world.note(&Note::Cut(C1.into()));
        world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
        world
    };
    let world = cut();
    world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
    advance(Duration::from_secs(100)).await;
    world.note(&Note::Healed(C1.into()));
    world.holds();
    let world = cut();
    advance(Duration::from_secs(100)).await;
    world.note(&Note::Healed(C1.into()));
    world.breaks(
        Promise::P9,
        DEPLOYMENT,
        "/spec/template/spec/containers/web/image",
    );
    // One that does not run heals nothing.
    let world = World::delivered();
    world.note(&Note::Cut(C1.into()));
    world.note(&Note::Stopped(C1.into()));
    world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    advance(Duration::from_secs(100)).await;
    world.note(&Note::Healed(C1.into()));
    world.holds();
}

#[tokio::test(start_paused = true)]
async fn p9_an_agent_whose_watches_are_silent_heals_when_it_has_given_them_up_and_no_later() {
    let seconds = Duration::from_secs;
    // When the watches fall silent, the agent is started anew, looks at its member and is cut off, beside a change at 100 s; how
    // long after that it is judged.
    let rows = [
        (Some(0), None, None, 0, 250, false),
        (Some(0), None, None, 0, 261, true),
        (Some(155), None, None, 0, 100, false),
        // What comes when the time is over excuses nothing.
        (Some(165), None, None, 0, 100, true),
        (Some(0), Some(50), Some(55), 60, 100, true),
        // One that was cut off before it has seen its Bundles knows of none.
        (Some(0), Some(50), None, 60, 100, false),
        (Some(0), Some(50), None, 0, 100, false),
        (None, None, None, 0, 100, true),
    ];
    let rows = rows.iter().flat_map(|row| [(*row, false), (*row, true)]);
    for ((silent, anew, looks, cut, judged, late), is_put_right) in rows {
        let world = World::delivered();
        for second in 0..100 + judged {
            if cut == second {
                world.note(&Note::Cut(C1.into()));
            }
            if silent == Some(second) {
                world.note(&Note::Silenced(C1.into()));
            }
            if anew == Some(second) {
                world.note(&Note::Stopped(C1.into()));
                world.note(&Note::Started(C1.into()));
            }
            if looks == Some(second) {
                let path = "/apis/apps/v1/namespaces/default/deployments";
                world.asked(&agent(), C1, &Method::GET, path, &json!({}));
            }
            if second == 100 {
                world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
            }
            advance(seconds(1)).await;
        }
        // What is put right too late is late as well.
        if is_put_right {
            world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
        }
        world.note(&Note::Healed(C1.into()));
        match late {
            true => world.breaks(Promise::P9, DEPLOYMENT, "to be put right within"),
            false => world.holds(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_what_fails_on_the_way_is_put_right_soon_after_that_and_no_later() {
    let seconds = Duration::from_secs;
    // From when on requests fail and for how long, beside a change at 100 s, and when all faults end; how long after that it is judged.
    let rows = [
        (90, Some(30), None, 130, false),
        (90, Some(30), None, 145, true),
        (150, Some(30), None, 195, false),
        (150, Some(30), None, 205, true),
        // What was over before, and what comes too late.
        (50, Some(30), None, 65, true),
        (165, Some(30), None, 70, true),
        (90, None, None, 500, false),
        (90, None, Some(120), 130, false),
        (90, None, Some(120), 145, true),
    ];
    let rows = rows.iter().flat_map(|row| [(*row, false), (*row, true)]);
    for ((from, lasts, eased, judged, late), is_put_right) in rows {
        let world = World::delivered();
        world.note(&Note::Cut(C1.into()));
        let path = "/apis/apps/v1/namespaces/default/deployments";
        world.asked(&agent(), C1, &Method::GET, path, &json!({}));
        for second in 0..100 + judged {
            if from == second {
                world.note(&Note::Hindered(C1.into(), lasts.map(seconds)));
            }
            if eased == Some(second) {
                world.note(&Note::Eased);
            }
            if second == 100 {
                world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
            }
            advance(seconds(1)).await;
        }
        // What is put right too late is late as well.
        if is_put_right {
            world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
        }
        world.note(&Note::Healed(C1.into()));
        match late {
            true => world.breaks(Promise::P9, DEPLOYMENT, "to be put right within"),
            false => world.holds(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_what_a_cut_off_agent_deletes_it_was_told_before() {
    let tombstone = |world: &World| {
        world.put(None, APPLICATION, &deleting(application(&passed())));
        world.put(
            Some(&world.hub),
            BUNDLE,
            &with_deletion(bundle(2), "application-deleted"),
        );
    };
    let world = World::delivered();
    tombstone(&world);
    world.note(&Note::Cut(C1.into()));
    world.remove(Some(&agent()), DEPLOYMENT);
    world.holds();
    // What a request has made late that was removed before may be removed once more, of another object that says nothing.
    let world = World::delivered();
    tombstone(&world);
    world.remove(Some(&agent()), DEPLOYMENT);
    world.remove(Some(&agent()), LEDGER);
    world.note(&Note::Cut(C1.into()));
    let mut ours = deployment("web:1");
    ours["metadata"]["annotations"][annotation::OWNED_BY] = json!("h/default.web");
    world.overdue.store(true, Ordering::Relaxed);
    world.put(Some(&agent()), DEPLOYMENT, &ours);
    world.overdue.store(false, Ordering::Relaxed);
    world.remove(Some(&agent()), DEPLOYMENT);
    world.holds();
    // What it is told until the last way of the hub to it has ended.
    let world = World::delivered();
    world.note(&Note::Cut(C1.into()));
    advance(Duration::from_secs(1)).await;
    tombstone(&world);
    advance(Duration::from_secs(1)).await;
    world.note(&Note::Cut(C1.into()));
    world.remove(Some(&agent()), DEPLOYMENT);
    world.holds();
    // And nothing of later.
    let world = World::delivered();
    world.note(&Note::Cut(C1.into()));
    world.note(&Note::Cut(C1.into()));
    advance(Duration::from_secs(1)).await;
    tombstone(&world);
    world.remove(Some(&agent()), DEPLOYMENT);
    world.breaks(
        Promise::P9,
        DEPLOYMENT,
        "that was not told before the agent was cut off",
    );
    // What others had changed of it before is not to be put right any more.
    let world = World::delivered();
    tombstone(&world);
    world.note(&Note::Cut(C1.into()));
    let path = "/apis/apps/v1/namespaces/default/deployments";
    world.asked(&agent(), C1, &Method::GET, path, &json!({}));
    world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    advance(Duration::from_secs(1)).await;
    world.remove(Some(&agent()), DEPLOYMENT);
    advance(Duration::from_secs(200)).await;
    world.note(&Note::Healed(C1.into()));
    world.holds();
    // A ledger that was restored says less than its agent knows, until the agent has written it.
    for (is_restored, is_written) in [(false, false), (true, false), (true, true)] {
        let world = World::delivered();
        world.put(Some(&world.hub), BUNDLE, &emptied_bundle(2));
        if is_restored {
            world.note(&Note::Restored(C1.into()));
        }
        if is_written {
            world.put(Some(&agent()), LEDGER, &ledger(1));
        }
        world.note(&Note::Cut(C1.into()));
        world.remove(Some(&agent()), DEPLOYMENT);
        let broken = world.monitor.broken();
        let told = broken.iter().any(|broken| broken.promise == Promise::P9);
        assert_eq!(told, !is_restored || is_written, "{is_restored} {is_written}");
    }
    for was_removed in [false, true] {
        let world = World::delivered();
        if was_removed {
            // By somebody else, and the agent put it right.
            world.remove(None, DEPLOYMENT);
            world.put(Some(&agent()), DEPLOYMENT, &deployment("web:1"));
        }
        world.note(&Note::Cut(C1.into()));
        advance(Duration::from_secs(1)).await;
        tombstone(&world);
        world.remove(Some(&agent()), DEPLOYMENT);
        world.breaks(
            Promise::P9,
            DEPLOYMENT,
            "that was not told before the agent was cut off",
        );
    }
}

#[test]
fn p10_fields_and_statuses_of_others_that_an_agent_overwrites_are_told() {
    let theirs = with(
        deployment("nginx:1"),
        "/metadata/annotations",
        json!({"injected": "yes"}),
    );
    // What somebody else has changed, or has made and the agent takes over.
    for is_made in [false, true] {
        let world = World::delivered();
        if is_made {
            world.remove(Some(&other()), DEPLOYMENT);
        }
        world.put(Some(&other()), DEPLOYMENT, &theirs);
        world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
        world.breaks(
            Promise::P10,
            DEPLOYMENT,
            "/metadata/annotations/injected, which somebody else has set, to stay; found it removed",
        );
    }

    // What the bundle rendered goes with it; what it released long ago does not.
    let rendering = |generation: i64, color: Option<&str>| {
        let mut written = bundle(generation);
        let metadata = &mut written["spec"]["workload"]["manifests"][0]["metadata"];
        metadata["annotations"] = json!({annotation::GENERATION: generation.to_string()});
        if let Some(color) = color {
            metadata["annotations"]["color"] = json!(color);
        }
        written
    };
    let carrying = |generation: i64, color: Option<&str>| {
        let mut object = deployment("nginx:1");
        object["metadata"]["annotations"] = json!({annotation::GENERATION: generation.to_string()});
        if let Some(color) = color {
            object["metadata"]["annotations"]["color"] = json!(color);
        }
        object
    };
    for released in [false, true] {
        let world = World::delivered();
        let by_agent = |generation, color, to| {
            world.put(Some(&world.hub), BUNDLE, &rendering(generation, color));
            world.put(Some(&agent()), LEDGER, &ledger(generation));
            world.put(Some(&agent()), DEPLOYMENT, &to);
        };
        by_agent(2, Some("red"), carrying(2, Some("red")));
        if released {
            by_agent(3, None, carrying(3, None));
        }
        let generation = if released { 3 } else { 2 };
        world.put(Some(&other()), DEPLOYMENT, &carrying(generation, Some("blue")));
        by_agent(4, None, carrying(4, None));
        match released {
            false => world.holds(),
            true => world.breaks(
                Promise::P10,
                DEPLOYMENT,
                "/metadata/annotations/color, which somebody else has set, to stay; found it removed",
            ),
        }
    }

    // What the bundle renders it may put right.
    let world = World::delivered();
    world.put(Some(&other()), DEPLOYMENT, &deployment("mine:1"));
    world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
    world.holds();

    let world = World::delivered();
    let mut reported = deployment("nginx:1");
    reported["spec"]["replicas"] = json!(3);
    reported["status"] = json!({"readyReplicas": 1});
    world.put(Some(&Who::Workloads(C1.into())), DEPLOYMENT, &reported);
    reported["status"] = json!({"readyReplicas": 7});
    world.put(Some(&agent()), DEPLOYMENT, &reported);
    world.breaks(
        Promise::P10,
        DEPLOYMENT,
        "the status that controllers have written to stay",
    );
}

#[test]
fn p10_what_the_hub_changes_of_what_people_have_made_is_told() {
    let before = || {
        let mut before = application(&passed());
        before["metadata"]["finalizers"] = json!(["theirs.io/f", "roundhouse.dev/dispatch"]);
        before["metadata"]["labels"] = json!({"team": "a"});
        before
    };
    let finalizers = |all: Value| with(before(), "/metadata/finalizers", all);
    for (after, words) in [
        (finalizers(json!(["theirs.io/f"])), None),
        (
            finalizers(json!(["roundhouse.dev/dispatch", "theirs.io/f"])),
            None,
        ),
        (
            finalizers(json!(["roundhouse.dev/dispatch"])),
            Some("/metadata/finalizers, which"),
        ),
        (with(before(), "/status", json!({})), None),
        (
            with(before(), "/metadata/labels", json!({})),
            Some("/metadata/labels/team"),
        ),
        (
            with(before(), "/spec/components", json!([1])),
            Some("/spec/components, which"),
        ),
    ] {
        let world = World::delivered();
        world.put(None, APPLICATION, &before());
        world.put(Some(&world.hub), APPLICATION, &after);
        match words {
            None => world.holds(),
            Some(words) => world.breaks(Promise::P10, APPLICATION, words),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p11_what_a_hub_has_lost_with_its_backup_is_told_again_within_five_minutes_and_no_later() {
    let report = (HUB, "clusterreports.roundhouse.dev", "cluster-c1", "c1");
    for (after, table, holds) in [(300, report, true), (340, report, false), (300, BUNDLE, false)] {
        let world = World::delivered();
        world.note(&Note::Restored(HUB.into()));
        world.note(&Note::Quiet);
        advance(Duration::from_secs(after)).await;
        world.put(Some(&agent()), table, &with_report(bundle(1), 1, "Ready"));
        match holds {
            true => world.holds(),
            false => world.breaks(Promise::P11, table, "no write of anything but Leases"),
        }
    }
}

#[test]
fn p11_a_write_in_the_steady_state_is_told() {
    let world = World::delivered();
    world.put(
        Some(&agent()),
        (C1, "events", "default", "e"),
        &json!({"metadata": {"uid": "1"}}),
    );
    world.note(&Note::Quiet);
    world.put(Some(&world.hub), LEASE, &lease(1));
    world.remove(None, (C1, "events", "default", "e"));
    world.holds();
    let report = with_report(bundle(1), 1, "Ready");
    world.put(Some(&agent()), BUNDLE, &report);
    world.breaks(
        Promise::P11,
        BUNDLE,
        "no write of anything but Leases; found a write by agent c1",
    );
    world.note(&Note::Busy);
    world.put(Some(&agent()), BUNDLE, &report);
    assert_eq!(world.monitor.broken().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn p11_who_asks_for_the_same_thing_again_and_again_is_told() {
    let asks = |world: &World, (by, method): (&Who, &Method), name: &str, code: StatusCode| {
        let path = format!("/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles/{name}");
        let asked = world.asked(by, HUB, method, &path, &json!({}));
        world.monitor.answered(&asked, code);
    };
    let (ok, refused, conflict) = (StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::CONFLICT);
    let hub = World::new().hub;
    for (by, method, code, every, seconds, holds) in [
        (agent(), Method::GET, ok, 60, 600, true),
        (agent(), Method::GET, ok, 1, 5, true),
        (agent(), Method::GET, ok, 1, 20, false),
        (hub.clone(), Method::GET, ok, 1, 20, false),
        // What changes nothing, and what cannot be done.
        (agent(), Method::PATCH, ok, 1, 20, false),
        (hub, Method::PATCH, conflict, 1, 20, false),
        (agent(), Method::GET, conflict, 1, 20, true),
        // Who has left, and whoever looks on.
        (agent(), Method::GET, refused, 1, 20, true),
        (agent(), Method::PATCH, refused, 1, 20, true),
        (other(), Method::GET, ok, 1, 20, true),
    ] {
        let who = (&by, &method);
        let world = World::delivered();
        world.note(&Note::Quiet);
        for second in 0..seconds {
            if second % every == 0 {
                asks(&world, who, "a", code);
            }
            asks(&world, who, &second.to_string(), code);
            advance(Duration::from_secs(1)).await;
        }
        let told = world.monitor.broken();
        let is_told = told.first().is_some_and(|broken| broken.promise == Promise::P11);
        assert_eq!(
            (told.len(), is_told),
            (usize::from(!holds), !holds),
            "{by} {every} {told:?}"
        );
        world.note(&Note::Busy);
        for _ in 0..100 {
            asks(&world, who, "a", ok);
        }
        assert_eq!(world.monitor.broken().len(), told.len());
    }
}

/// A hub that waits for its turn and hears nothing looks at the Lease as often as that holds.
#[tokio::test(start_paused = true)]
async fn p11_a_hub_that_waits_to_lead_may_read_the_lease_once_in_its_time() {
    for (every, holds) in [(15, true), (7, false)] {
        let world = World::delivered();
        world.note(&Note::Quiet);
        for _ in 0..(600 / every) {
            advance(Duration::from_secs(every)).await;
            let path = "/apis/coordination.k8s.io/v1/namespaces/roundhouse-system/leases/roundhouse-hub";
            let asked = world.asked(&world.hub, HUB, &Method::GET, path, &json!({}));
            world.monitor.answered(&asked, StatusCode::OK);
        }
        assert_eq!(world.monitor.broken().is_empty(), holds, "every {every} s");
    }
}

/// A Lease is renewed as often as it has to be.
#[tokio::test(start_paused = true)]
async fn p11_who_renews_a_lease_more_often_than_it_has_to_is_told() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
    let hub = World::new().hub;
    for (by, lease, every, holds) in [
        (agent(), "cluster-c1/leases/agent", 9_000, true),
        (agent(), "cluster-c1/leases/agent", 3_000, false),
        (
            hub.clone(),
            "roundhouse-system/leases/roundhouse-hub",
            2_000,
            true,
        ),
        (hub, "roundhouse-system/leases/roundhouse-hub", 500, false),
    ] {
        let world = World::delivered();
        world.note(&Note::Quiet);
        for _ in 0..(300_000 / every) {
            advance(Duration::from_millis(every)).await;
            let asked = world.asked(&by, HUB, &Method::PATCH, &format!("{LEASES}/{lease}"), &json!({}));
            world.monitor.answered(&asked, StatusCode::OK);
        }
        assert_eq!(world.monitor.broken().is_empty(), holds, "{by} every {every} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn p12_what_grows_beyond_its_bound_is_told() {
    let world = World::delivered();
    let workload =
        json!({"kind": "Deployment", "namespace": "n", "name": "w", "desired": 1, "updated": 1, "ready": 1});
    let report = |count: usize| {
        let mut bundle = with_report(bundle(1), 1, "Ready");
        bundle["status"]["workloads"] = json!(vec![workload.clone(); count]);
        bundle
    };
    world.put(Some(&agent()), BUNDLE, &report(50));
    world.holds();
    world.put(Some(&agent()), BUNDLE, &report(51));
    world.breaks(Promise::P12, BUNDLE, "at most 50 in /status/workloads; found 51");

    let world = World::delivered();
    let large = json!({"metadata": {"uid": "1"}, "data": "x".repeat(2 << 20)});
    world.put(None, (C1, "configmaps", "default", "a"), &large);
    world.breaks(
        Promise::P12,
        (C1, "configmaps", "default", "a"),
        "at most 1572864 bytes",
    );

    for value in [10, 11] {
        let (world, what) = (World::delivered(), "applications that wait for a time");
        let most = 10;
        world.monitor.witness().hears(Said::Holds { what, value, most });
        match value {
            10 => world.holds(),
            _ => world.breaks(
                Promise::P12,
                (HUB, "", "", "hub"),
                "at most 10 applications that wait for a time; found 11",
            ),
        }
    }

    let world = World::delivered();
    for value in [10, 11] {
        world.note(&Note::Gauge {
            server: HUB.into(),
            name: "events of the history",
            value,
            most: 10,
        });
    }
    let broken = world.monitor.broken();
    assert_eq!(broken.len(), 1);
    assert_eq!(
        broken[0].to_string(),
        "P12 (memory and queues are bounded) at 0.000 s, (hub): server: expected at most 10 events of the history; found 11"
    );
}

#[test]
fn p13_an_agent_that_asks_for_or_is_told_of_another_cluster_is_told() {
    const BUNDLES: &str = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles";
    let answer = |namespace: &str| {
        let item = json!({"metadata": {"namespace": namespace, "name": "default.web"}});
        json!({"kind": "BundleList", "metadata": {"resourceVersion": "7"}, "items": [item]}).to_string()
    };
    let event = |namespace: &str| {
        let object = json!({"metadata": {"namespace": namespace, "name": "default.web"}});
        format!("{}\n", json!({"type": "MODIFIED", "object": object}))
    };
    let world = World::delivered();
    let asked = world.asked(&agent(), HUB, &Method::GET, BUNDLES, &Value::Null);
    for text in [answer("cluster-c1"), event("cluster-c1")] {
        world.monitor.heard(&asked, &text.into());
    }
    world.holds();
    for text in [answer("cluster-c10"), event("cluster-c10")] {
        let world = World::delivered();
        let asked = world.asked(&agent(), HUB, &Method::GET, BUNDLES, &Value::Null);
        world.monitor.heard(&asked, &text.into());
        let at = (HUB, "bundles.roundhouse.dev", "cluster-c1", "");
        world.breaks(
            Promise::P13,
            at,
            "cluster-c10/default.web in an answer to agent c1",
        );
    }
    for (server, path, at) in [
        (
            HUB,
            "/apis/roundhouse.dev/v1alpha1/bundles",
            (HUB, "bundles.roundhouse.dev", "", ""),
        ),
        (
            HUB,
            "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c10/bundles/a",
            (HUB, "bundles.roundhouse.dev", "cluster-c10", "a"),
        ),
        (
            "c2",
            "/api/v1/namespaces/default/configmaps",
            ("c2", "configmaps", "default", ""),
        ),
    ] {
        let world = World::delivered();
        world.asked(&agent(), server, &Method::GET, path, &Value::Null);
        world.breaks(Promise::P13, at, "requests about what is the cluster c1's own");
    }
}

fn decided(inputs: &str, decision: &str) -> Said {
    Said::Decided(Decided {
        namespace: DECISION.2.to_owned(),
        name: DECISION.3.to_owned(),
        inputs: inputs.to_owned(),
        decision: decision.to_owned(),
    })
}

#[test]
fn p14_the_same_inputs_that_give_another_decision_are_told() {
    let world = World::delivered();
    let witness = world.monitor.witness();
    witness.hears(decided("gold", "a"));
    witness.hears(decided("bronze", "b"));
    witness.hears(decided("gold", "a"));
    world.holds();
    witness.hears(decided("gold", "b"));
    let at = (DECISION.0, DECISION.1, DECISION.2, DECISION.3);
    world.breaks(
        Promise::P14,
        at,
        "the decision a that the same inputs gave before; found b",
    );
}

#[test]
fn p14_what_changed_while_a_decision_was_on_its_way_is_not_what_it_followed_from() {
    let world = World::delivered();
    let witness = world.monitor.witness();
    // Two decisions arrive with the same clusters, Placements and decisions in the store; a label was set and taken away.
    for (inputs, clusters) in [("with the label", [C1]), ("without it", ["c2"])] {
        world.remove(None, DECISION);
        witness.hears(decided(inputs, clusters[0]));
        let other = with(
            decision(&[C1], 2),
            "/spec/workloads/0/clusters/0/name",
            json!(clusters[0]),
        );
        let other = with(other, "/spec/clusters", json!(clusters));
        world.put(Some(&world.hub), DECISION, &other);
    }
    world.holds();
}

#[test]
fn p2_a_store_that_replaces_another_version_than_it_was_told_is_told() {
    let world = World::delivered();
    let key = Key::new(&DEPLOYMENT.1.into(), DEPLOYMENT.2, DEPLOYMENT.3);
    let store = world.store(C1);
    let refused = store.write(
        &key,
        Expect::Absent,
        Change::Put(&mut |_| b"{}".as_slice().into()),
    );
    assert!(refused.is_err());
    world.holds();

    let world = World::heedless();
    let first = world.put(None, DEPLOYMENT, &deployment("nginx:1"));
    world.put(None, DEPLOYMENT, &deployment("nginx:2"));
    world.holds();
    let mut render = |_| b"{}".as_slice().into();
    let replaced = world
        .store(C1)
        .write(&key, Expect::Revision(first), Change::Put(&mut render));
    assert!(replaced.is_ok());
    let words = format!(
        "expected a write over version {first}; found it replaced version {}",
        first + 1
    );
    world.breaks(Promise::P2, DEPLOYMENT, &words);
}
