//! The seeds' own examples of merging (seed: three-way-merge).

use super::*;
use crate::applying::widget_definition;

#[tokio::test(start_paused = true)]
async fn seed_min_ready_seconds_is_removed_by_leaving_it_out() {
    let world = World::new().await;
    let agent = world.agent();
    let mut web = deployment("nginx-deployment", "nginx:1.14.2", 3);
    web["spec"]["minReadySeconds"] = json!(60);
    let first = world.bundle("plain", spec(&[web.clone()])).await;
    world.reported("plain", first, Progressing).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["minReadySeconds"],
        60
    );
    let without = deployment("nginx-deployment", "nginx:1.14.2", 3);
    let second = world.bundle("plain", spec(&[without])).await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(live["spec"].get("minReadySeconds"), None);
    assert_eq!(live["spec"]["replicas"], 3);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn seed_a_service_keeps_the_cluster_ip_that_the_server_gave_it() {
    let world = World::new().await;
    let agent = world.agent();
    let service = |port: u32| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "my-service", "namespace": "default"},
            "spec": {"selector": {"app": "myweb"}, "ports": [{"protocol": "TCP", "port": port}]}})
    };
    let first = world.bundle("plain", spec(&[service(80)])).await;
    world.reported("plain", first, Ready).await;
    let given = world.live(Side::Member, &service(80)).await.unwrap()["spec"]["clusterIP"].clone();
    assert!(given.is_string(), "the server gives one");
    let before = world.writes();
    pass_time(1300).await;
    assert_eq!(world.writes(), before, "the same manifest again is no change");
    let second = world.bundle("plain", spec(&[service(8080)])).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &service(80)).await.unwrap();
    assert_eq!(live["spec"]["clusterIP"], given);
    let ports = live["spec"]["ports"].as_array().unwrap();
    assert_eq!((ports.len(), &ports[0]["port"]), (1, &json!(8080)));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn seed_a_field_that_someone_else_added_is_kept() {
    let world = World::new().await;
    let agent = world.agent();
    world.create(Side::Member, widget_definition()).await;
    let bar = |f1: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "bar", "namespace": "default"},
            "spec": {"f1": f1}})
    };
    let first = world.bundle("plain", spec(&[bar("v1")])).await;
    world.reported("plain", first, Ready).await;
    world
        .merge(Side::Member, &bar(""), json!({"spec": {"f2": "v2"}}))
        .await;
    pass_time(1300).await;
    assert_eq!(
        world.live(Side::Member, &bar("")).await.unwrap()["spec"],
        json!({"f1": "v1", "f2": "v2"})
    );
    let second = world.bundle("plain", spec(&[bar("v3")])).await;
    world.reported("plain", second, Ready).await;
    assert_eq!(
        world.live(Side::Member, &bar("")).await.unwrap()["spec"],
        json!({"f1": "v3", "f2": "v2"})
    );
    agent.stop().await;
}
