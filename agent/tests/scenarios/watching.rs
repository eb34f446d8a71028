//! Watches, and what is done where they are not enough: a watch that says nothing (F17), a member that went back in time
//! (F22).

use crate::world::{Side, World, config_map, deployment, dispatched, eventually_with, pass_time, spec};
use kube::api::PostParams;
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn f17_a_watch_that_says_nothing_is_made_up_for_by_the_resync() {
    let world = World::new().await;
    // Lists and watches of the kind are never answered, single objects are.
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::GET && path.ends_with("/configmaps")
    });
    cut.store(true, Ordering::Release);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    world
        .merge(Side::Member, &map, json!({"data": {"key": "theirs"}}))
        .await;
    let value = || async { world.live(Side::Member, &map).await.unwrap()["data"]["key"].clone() };
    pass_time(60).await;
    assert_eq!(value().await, "theirs", "nobody tells the agent");
    pass_time(300).await;
    assert_eq!(value().await, "1");
    agent.stop().await;
}

/// Given an object without a namespace whose manifest gives it one, when somebody changes it while a pass over the whole
/// bundle runs and has looked at it, then it is put right by that change alone: the next resync is hours away.
#[tokio::test(start_paused = true)]
async fn what_happens_to_a_cluster_scoped_object_while_a_pass_runs_is_not_lost() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |method, path| {
        *method == http::Method::POST && path.ends_with("/configmaps")
    });
    let mut config = World::config();
    config.resync = Duration::from_secs(36000);
    let agent = world.agent_between(config, world.hub_client.clone(), member);
    let mut named = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader", "namespace": "default", "labels": {"wanted": "ours"}}, "rules": []});
    let first = world.bundle("plain", spec(&[named.clone()])).await;
    world.reported("plain", first, Ready).await;
    // The watch of the kind has begun.
    pass_time(5).await;
    cut.store(true, Ordering::Release);
    let map = config_map("a", "1");
    let second = world.bundle("plain", spec(&[named.clone(), map])).await;
    pass_time(5).await;
    named["metadata"]["namespace"] = json!("");
    let theirs = json!({"metadata": {"labels": {"wanted": "theirs"}}});
    world.merge(Side::Member, &named, theirs).await;
    pass_time(5).await;
    cut.store(false, Ordering::Release);
    world.reported("plain", second, Ready).await;
    let label = |live: &Option<Value>| live.as_ref().unwrap()["metadata"]["labels"]["wanted"] == "ours";
    eventually_with("it is put right", || world.live(Side::Member, &named), label).await;
    agent.stop().await;
}

/// Given an object whose label somebody took off, which the bundle lets be, when it is deleted, then it is made again by
/// that event alone: the next resync is hours away.
#[tokio::test(start_paused = true)]
async fn an_object_without_its_label_is_watched_all_the_same() {
    let world = World::new().await;
    let mut config = World::config();
    config.resync = Duration::from_secs(36000);
    let agent = world.agent_with(config);
    let mut map = config_map("a", "1");
    map["metadata"]["labels"] = json!({"app.oam.dev/name": "app"});
    let mut content = spec(&[map.clone()]);
    content["drift"] = json!("Ignore");
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    pass_time(5).await;
    let stripped = json!({"metadata": {"labels": {"app.oam.dev/name": null}}});
    world.merge(Side::Member, &map, stripped).await;
    pass_time(60).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["metadata"].get("labels"), None, "it is let be");
    world.delete(Side::Member, &map).await;
    eventually_with(
        "it is made again",
        || world.live(Side::Member, &map),
        Option::is_some,
    )
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bundles_of_all_namespaces_share_one_watch_of_a_kind() {
    let world = World::embedded().await;
    let agent = world.agent();
    let before = watches(&world);
    for (name, namespace) in [("default.one", "default"), ("default.two", "kube-system")] {
        let mut map = config_map(name, "1");
        map["metadata"]["namespace"] = json!(namespace);
        map["metadata"]["labels"] = json!({"app.oam.dev/name": name});
        let generation = world.bundle(name, spec(&[map])).await;
        world.reported(name, generation, Ready).await;
    }
    pass_time(20).await;
    assert_eq!(watches(&world) - before, 1);
    agent.stop().await;
}

fn watches(world: &World) -> u64 {
    let requests = world.member.counter().requests();
    let watches = requests.get(&("watch", "configmaps".to_owned()));
    watches.copied().unwrap_or_default()
}

/// Puts an object back to what it was.
async fn restore(world: &World, before: &Value) {
    let (api, name) = world.api_of(Side::Member, before);
    let mut object = before.clone();
    object["metadata"]["resourceVersion"] = Value::Null;
    let now = api.get(&name).await.unwrap();
    object["metadata"]["resourceVersion"] = json!(now.metadata.resource_version);
    let object = serde_json::from_value(object).unwrap();
    api.replace(&name, &PostParams::default(), &object).await.unwrap();
}

/// F22: given a member that is restored from a backup, ledger and objects, when the agent sees it, running or started anew,
/// then what the bundle changed since is applied once more, and what apply-once leaves alone is left alone.
#[tokio::test(start_paused = true)]
async fn f22_a_member_restored_from_a_backup_is_brought_up_to_date_once() {
    for running in [true, false] {
        let world = World::embedded().await;
        let agent = world.agent();
        let (map, web) = (config_map("a", "1"), deployment("web", "i:1", 2));
        let once = |objects: &[Value], revision: &str| {
            let mut content = dispatched(objects, revision, 1);
            content["applyOnce"] = json!("Once");
            content
        };
        let first = world
            .bundle("default.app", once(&[map.clone(), web.clone()], "app-v1"))
            .await;
        world
            .reported(
                "default.app",
                first,
                roundhouse_api::bundle::BundlePhase::Progressing,
            )
            .await;
        world.roll_out(&web).await;
        world
            .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
            .await;
        pass_time(5).await;
        let mut backup = Vec::new();
        for object in [&map, &web] {
            backup.push(world.live(Side::Member, object).await.unwrap());
        }
        backup.push(world.ledger("default.app").await.unwrap());
        let second = [config_map("a", "2"), web.clone()];
        world.bundle("default.app", once(&second, "app-v2")).await;
        let is_second = |live: &Option<Value>| live.as_ref().unwrap()["data"]["key"] == "2";
        eventually_with("it is applied", || world.live(Side::Member, &map), is_second).await;
        pass_time(5).await;
        let kept = if running {
            Some(agent)
        } else {
            agent.stop().await;
            None
        };
        for object in &backup {
            restore(&world, object).await;
        }
        let written = |name: &str, table: &str| world.member.counter().stored_of(table, "default", name);
        let before = (written("a", "configmaps"), written("web", "deployments.apps"));
        let agent = kept.unwrap_or_else(|| world.agent());
        eventually_with(
            "it is applied again",
            || world.live(Side::Member, &map),
            is_second,
        )
        .await;
        pass_time(700).await;
        let after = (written("a", "configmaps"), written("web", "deployments.apps"));
        assert!(after.0 - before.0 <= 1, "once: {running}");
        assert_eq!(after.1, before.1, "apply-once is respected: {running}");
        let live = world.live(Side::Member, &web).await.unwrap();
        assert_eq!(live["spec"]["replicas"], 9);
        let ledger = world.ledger("default.app").await.unwrap();
        assert_eq!(ledger["spec"]["revision"], "app-v2");
        agent.stop().await;
    }
}
