//! A bundle of a thousand objects: what it costs, counted in requests.

use crate::world::{Side, World, bundle, config_map, pass_time, spec};
use kube::api::ListParams;
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

const OBJECTS: u64 = 1000;

fn objects(changed: &str) -> Vec<Value> {
    let name = |number| format!("map-{number:04}");
    let value = |number: u64| if number == 500 { changed } else { "1" };
    (0..OBJECTS)
        .map(|number| config_map(&name(number), value(number)))
        .collect()
}

/// Requests at one side by verb and table, without the Lease and the facts that an agent reports of its own accord.
fn requests(world: &World, side: Side) -> BTreeMap<String, u64> {
    let counter = match side {
        Side::Hub => world.hub.counter(),
        Side::Member => world.member.counter(),
    };
    let aside = ["leases", "clusterreports", "nodes", "namespaces", "selfsubject"];
    let requests = counter.requests().into_iter();
    requests
        .filter(|((_, table), _)| !aside.iter().any(|aside| table.starts_with(aside)))
        .map(|((verb, table), count)| (format!("{verb} {table}"), count))
        .collect()
}

/// What was asked for since, as `12 get configmaps`.
fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = now.iter().map(|(what, count)| {
        let before = before.get(what).copied().unwrap_or_default();
        (what.clone(), count - before)
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

fn at_most(what: &str, asked: &BTreeMap<String, u64>, limits: &[(&str, u64)]) {
    for (request, count) in asked {
        let limit = limits.iter().find(|(known, _)| known == request);
        let limit = limit.map_or(0, |(_, limit)| *limit);
        assert!(
            *count <= limit,
            "{what}: {count} of {request}, at most {limit}; all: {asked:?}"
        );
    }
}

/// Given a bundle of 1,000 objects, then applying it costs one look and one write for each, the ledger before and after, and
/// a report or two; one changed object costs one write; a pass that finds nothing writes nothing; and no object is looked
/// at one by one because a watch begins.
#[tokio::test(start_paused = true)]
async fn a_thousand_objects_cost_a_request_each_when_they_change_and_one_look_a_pass() {
    let world = World::embedded().await;
    let mut config = World::config();
    config.resync = Duration::from_secs(600);
    let agent = world.agent_with(config);
    pass_time(20).await;
    let counts = |world: &World| (requests(world, Side::Hub), requests(world, Side::Member));
    let start = counts(&world);
    let first = world.bundle("plain", spec(&objects("1"))).await;
    world.reported("plain", first, Ready).await;
    pass_time(20).await;
    let applied = counts(&world);
    let maps = world.api(Side::Member, "v1", "ConfigMap", "default");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1000);
    at_most(
        "first apply, member",
        &since(&start.1, &applied.1),
        &[
            ("get configmaps", OBJECTS),
            ("create configmaps", OBJECTS),
            ("list configmaps", 3),
            ("watch configmaps", 1),
            ("get appliedbundles.roundhouse.dev", 1),
            ("create appliedbundles.roundhouse.dev", 1),
            ("update appliedbundles.roundhouse.dev", 1),
        ],
    );
    let writes = |asked: &BTreeMap<String, u64>| -> u64 {
        let writing = ["create", "update", "patch", "delete"];
        let writing = asked
            .iter()
            .filter(|(what, _)| writing.iter().any(|verb| what.starts_with(verb)));
        writing.map(|(_, count)| count).sum()
    };
    let hub = since(&start.0, &applied.0);
    // The scenario itself writes the Bundle.
    assert!(writes(&hub) <= 1 + 2, "{hub:?}");

    // A pass that finds all as it is.
    let before = counts(&world);
    pass_time(680).await;
    let after = counts(&world);
    at_most(
        "a pass, member",
        &since(&before.1, &after.1),
        &[
            ("get configmaps", OBJECTS),
            ("get appliedbundles.roundhouse.dev", 1),
            ("watch configmaps", 3),
            ("watch appliedbundles.roundhouse.dev", 3),
        ],
    );
    let looks = since(&before.1, &after.1).get("get configmaps").copied();
    assert_eq!(looks, Some(OBJECTS), "the pass was there");
    assert_eq!(writes(&since(&before.0, &after.0)), 0);

    // One change.
    let before = counts(&world);
    let second = world.bundle("plain", spec(&objects("2"))).await;
    world.reported("plain", second, Ready).await;
    pass_time(20).await;
    let after = counts(&world);
    at_most(
        "one change, member",
        &since(&before.1, &after.1),
        &[
            ("get configmaps", OBJECTS),
            ("patch configmaps", 1),
            ("update appliedbundles.roundhouse.dev", 2),
        ],
    );
    assert!(writes(&since(&before.0, &after.0)) <= 1 + 2);
    let live = world
        .live(Side::Member, &config_map("map-0500", ""))
        .await
        .unwrap();
    assert_eq!(live["data"]["key"], "2");

    // All of them change: the watch that tells of our own writes asks for no second look.
    let before = counts(&world);
    let every: Vec<Value> = objects("3")
        .into_iter()
        .map(|mut object| {
            object["data"]["more"] = "1".into();
            object
        })
        .collect();
    let third = world.bundle("plain", spec(&every)).await;
    world.reported("plain", third, Ready).await;
    pass_time(20).await;
    let after = counts(&world);
    at_most(
        "all change, member",
        &since(&before.1, &after.1),
        &[
            ("get configmaps", OBJECTS),
            ("patch configmaps", OBJECTS),
            ("update appliedbundles.roundhouse.dev", 2),
        ],
    );

    // One edit by hand: a look at that object and no other.
    let before = counts(&world);
    let by_hand = serde_json::json!({"data": {"key": "by hand"}});
    world
        .merge(Side::Member, &config_map("map-0007", ""), by_hand)
        .await;
    pass_time(20).await;
    let after = counts(&world);
    at_most(
        "one edit by hand, member",
        &since(&before.1, &after.1),
        &[
            ("get configmaps", 3),
            // Theirs and ours.
            ("patch configmaps", 2),
        ],
    );
    let live = world
        .live(Side::Member, &config_map("map-0007", ""))
        .await
        .unwrap();
    assert_eq!(live["data"]["key"], "1");

    // All of it goes.
    let before = counts(&world);
    world.delete(Side::Hub, &bundle("plain")).await;
    pass_time(60).await;
    let after = counts(&world);
    at_most(
        "removal, member",
        &since(&before.1, &after.1),
        &[
            ("get configmaps", 2 * OBJECTS),
            ("delete configmaps", OBJECTS),
            ("get appliedbundles.roundhouse.dev", 1),
            ("update appliedbundles.roundhouse.dev", 1),
            ("patch appliedbundles.roundhouse.dev", 1),
            ("delete appliedbundles.roundhouse.dev", 1),
        ],
    );
    assert_eq!(world.ledger("plain").await, None);
    agent.stop().await;
}

/// Given many bundles whose reports the hub does not answer, when their content changes, then all of it is applied: passes do not
/// wait for each other's reports.
#[tokio::test(start_paused = true)]
async fn a_hub_that_answers_no_report_holds_up_no_other_bundle() {
    let world = World::new().await;
    let reports =
        |method: &http::Method, path: &str| *method != http::Method::GET && path.ends_with("/status");
    let (hub, cut) = world.wire(Side::Hub, reports);
    let config = World::config();
    let names: Vec<String> = (0..3 * config.concurrent_bundles)
        .map(|n| format!("b-{n}"))
        .collect();
    let agent = world.agent_between(config, hub, world.member_client.clone());
    for name in &names {
        let generation = world.bundle(name, spec(&[config_map(name, "1")])).await;
        world.reported(name, generation, Ready).await;
    }
    cut.store(true, Ordering::Release);
    for name in &names {
        world.bundle(name, spec(&[config_map(name, "2")])).await;
    }
    // A call is given up after half a minute.
    pass_time(10).await;
    for name in &names {
        let wanted = config_map(name, "2");
        let live = world.live(Side::Member, &wanted).await.unwrap();
        assert_eq!(live["data"], wanted["data"], "{name}");
    }
    cut.store(false, Ordering::Release);
    for name in &names {
        world.reported(name, 2, Ready).await;
    }
    agent.stop().await;
}
