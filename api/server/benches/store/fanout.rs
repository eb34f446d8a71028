//! A thousand watchers, each on a namespace of its own, and a thousand events a second.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{PostParams, WatchParams},
};
use roundhouse_apiserver::Server;
use serde_json::json;
use std::time::Duration;
use tokio::{sync::mpsc, time::Instant};

const WATCHERS: usize = 1_000;
const EVENTS: u32 = 5_000;

/// From the write to the moment a watcher's task has the event.
pub(crate) async fn measure() {
    let server = Server::builder().build();
    let client = Client::new(server.service(), "default");
    let spaces: Api<Namespace> = Api::all(client.clone());
    let (sender, mut seen) = mpsc::unbounded_channel();
    for n in 0..WATCHERS {
        let space = serde_json::from_value(json!({"metadata": {"name": format!("team-{n}")}})).unwrap();
        spaces.create(&PostParams::default(), &space).await.unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &format!("team-{n}"));
        let sender = sender.clone();
        let events = maps
            .watch(&WatchParams::default(), &server.revision().to_string())
            .await
            .unwrap();
        tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(Ok(_)) = events.next().await {
                if sender.send((n, Instant::now())).is_err() {
                    return;
                }
            }
        });
    }
    let mut delays = vec![];
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    for n in 0..EVENTS {
        tick.tick().await;
        let watcher = n as usize * 7 % WATCHERS;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &format!("team-{watcher}"));
        let map = serde_json::from_value(json!({"metadata": {"name": format!("m-{n}")}})).unwrap();
        let written = Instant::now();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let (who, at) = seen.recv().await.unwrap();
        assert_eq!(who, watcher, "nobody else is told");
        delays.push(at.saturating_duration_since(written));
    }
    delays.sort();
    let at = |percent: usize| delays[delays.len() * percent / 100];
    println!(
        "{:<44} p50 {:?}, p99 {:?} (target 1 ms)",
        "1,000 watchers, create to delivery",
        at(50),
        at(99)
    );
}
