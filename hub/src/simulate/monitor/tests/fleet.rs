//! Plain runs: nothing is broken, and the same seed gives the same trace.

use super::super::{Monitor, Note};
use crate::simulate::{Fleet, FleetOptions, MemberSpec, Stores, TokioClock};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    application::{Application, DELIVERED},
    condition,
    names::ClusterName,
};
use roundhouse_apiserver::{MemoryStore, StoreLimits};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

const SEED: &str = include_str!("../../../../../e2e/samples/01-seed.yaml");

async fn fleet(monitor: &Monitor, seed: u64) -> Fleet {
    let members = ["east-1", "east-2", "west-1"].map(|name| MemberSpec {
        name: ClusterName::new(name).unwrap(),
        labels: [("region".to_owned(), name[..4].to_owned())].into(),
    });
    let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut options = FleetOptions::new(members.into(), clock);
    options.seed = seed;
    options.wires = Some(monitor.wires());
    options.stores = Some(monitor.stores(Stores::new(|_| {
        Arc::new(MemoryStore::new(StoreLimits::default()))
    })));
    Fleet::start(options).await.unwrap()
}

async fn delivered(api: &Api<Application>, generation: i64) {
    let wait = async {
        loop {
            let status = api.get("web").await.unwrap().status.unwrap_or_default();
            let whole = status.observed_generation == Some(generation);
            if whole && condition::is_true(&status.conditions, DELIVERED) {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(
        timeout(Duration::from_secs(300), wait).await.is_ok(),
        "generation {generation}"
    );
}

async fn story(seed: u64) -> Monitor {
    let monitor = Monitor::new();
    let fleet = fleet(&monitor, seed).await;
    let application: Application = serde_saphyr::from_str(SEED).unwrap();
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    api.create(&PostParams::default(), &application).await.unwrap();
    delivered(&api, 1).await;
    let patch = json!([{"op": "replace", "value": "nginx:1.29",
        "path": "/spec/components/0/properties/objects/0/spec/template/spec/containers/0/image"}]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    delivered(&api, 2).await;
    sleep(Duration::from_secs(30)).await;
    monitor.note(&Note::Quiet);
    sleep(Duration::from_secs(1200)).await;
    monitor.note(&Note::Busy);
    api.delete("web", &DeleteParams::default()).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(api.get_opt("web").await.unwrap().is_none());
    fleet.stop().await;
    monitor
}

#[tokio::test(start_paused = true)]
async fn a_plain_run_breaks_no_promise_and_replays() {
    let first = Box::pin(story(7)).await;
    assert_eq!(first.report(40), None);
    let trace = first.trace();
    assert!(trace.writes() > 50, "{}", trace.writes());
    let again = Box::pin(story(7)).await.trace();
    assert_eq!(
        String::from_utf8(again.canonical()).unwrap(),
        String::from_utf8(trace.canonical()).unwrap()
    );
    assert_ne!(Box::pin(story(8)).await.trace().digest(), trace.digest());
}
