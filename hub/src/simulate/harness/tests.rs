//! Whole fleets on paused time.

use super::{Fleet, FleetOptions, MemberSpec};
use crate::simulate::TokioClock;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use roundhouse_api::{
    application::{Application, DELIVERED},
    cluster::{AVAILABLE, Cluster},
    condition,
    names::ClusterName,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const SEED: &str = include_str!("../../../../e2e/samples/01-seed.yaml");

async fn fleet(seed: u64) -> Fleet {
    let members = ["east-1", "east-2", "east-3", "west-1", "west-2"].map(|name| MemberSpec {
        name: ClusterName::new(name).unwrap(),
        labels: [("region".to_owned(), name[..4].to_owned())].into(),
    });
    let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut options = FleetOptions::new(members.into(), clock);
    options.seed = seed;
    options.count_per_object = true;
    Fleet::start(options).await.unwrap()
}

/// Waits, for at most five minutes of virtual time, until `done`.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(300), wait).await;
    assert!(waited.is_ok(), "{what} does not happen");
}

async fn deliver(fleet: &Fleet) {
    let application: Application = serde_saphyr::from_str(SEED).unwrap();
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    api.create(&PostParams::default(), &application).await.unwrap();
    until("delivery", async || {
        let status = api.get("web").await.unwrap().status.unwrap_or_default();
        condition::is_true(&status.conditions, DELIVERED)
    })
    .await;
}

async fn is_available(fleet: &Fleet, cluster: &str) -> bool {
    let cluster: Cluster = Api::all(fleet.hub_client()).get(cluster).await.unwrap();
    let status = cluster.status.unwrap_or_default();
    condition::is_true(&status.conditions, AVAILABLE)
}

/// Ready replicas of the seed's Deployment, read from the members themselves.
async fn ready(fleet: &Fleet) -> BTreeMap<String, i32> {
    let mut ready = BTreeMap::new();
    for name in fleet.members() {
        let api: Api<Deployment> = Api::namespaced(fleet.member_client(&name).unwrap(), "default");
        let status = api.get("web").await.unwrap().status.unwrap_or_default();
        ready.insert(name, status.ready_replicas.unwrap_or(0));
    }
    ready
}

#[tokio::test(start_paused = true)]
async fn the_seed_is_delivered_and_then_nothing_is_written_but_leases() {
    let fleet = fleet(7).await;
    deliver(&fleet).await;
    let ready = ready(&fleet).await;
    let sum = |region: &str| -> i32 {
        let members = ready.iter().filter(|(name, _)| name.starts_with(region));
        members.map(|(_, ready)| ready).sum()
    };
    assert_eq!((sum("east"), sum("west")), (7, 2), "{ready:?}");

    // What follows from the delivery settles first.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let writes = || -> BTreeMap<_, u64> {
        let all = fleet.hub_server().unwrap().counter().by_object();
        all.into_iter()
            .filter(|((table, _, _), _)| table != "leases.coordination.k8s.io")
            .collect()
    };
    let members = || -> u64 {
        let names = fleet.members();
        names
            .iter()
            .map(|name| fleet.member_server(name).unwrap().counter().total_stored())
            .sum()
    };
    let (hub_before, members_before) = (writes(), members());
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(writes(), hub_before, "the hub's objects, Leases aside");
    assert_eq!(members(), members_before, "the members' objects");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_an_agent_that_is_in() {
    let fleet = fleet(7).await;
    until("everybody is available", async || {
        for name in fleet.members() {
            if !is_available(&fleet, &name).await {
                return false;
            }
        }
        true
    })
    .await;
    // A hub that starts anew knows only what is stored.
    let mut fleet = fleet;
    for restarts in 0..2 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for name in fleet.members() {
            let cluster: Cluster = Api::all(fleet.hub_client()).get(&name).await.unwrap();
            let status = cluster.status.unwrap();
            let said = condition::get(&status.conditions, AVAILABLE).unwrap();
            assert_eq!(said.message, "the agent renews its Lease", "{name}, {restarts}");
            let identity = status.identity.unwrap();
            assert_eq!(
                (identity.serial, identity.observed_serial),
                (cluster.spec.serial, cluster.spec.serial),
                "{name}, {restarts}"
            );
            assert_eq!(identity.user, Some(format!("roundhouse:agent:{name}:1")));
        }
        fleet.stop_hub().await;
        fleet.start_hub();
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_fleet_are_stopped_and_started() {
    let mut fleet = fleet(7).await;
    deliver(&fleet).await;
    let before = ready(&fleet).await;

    fleet.stop_agent("east-2").await.unwrap();
    until("silence is noticed", async || {
        !is_available(&fleet, "east-2").await
    })
    .await;
    assert!(is_available(&fleet, "east-1").await);
    fleet.start_agent("east-2").unwrap();
    until("the agent is back", async || is_available(&fleet, "east-2").await).await;

    fleet.stop_hub().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(
        is_available(&fleet, "east-1").await,
        "nobody judges while the hub is away"
    );
    fleet.start_hub();
    tokio::time::sleep(Duration::from_secs(120)).await;
    for name in fleet.members() {
        assert!(is_available(&fleet, &name).await, "{name}");
    }
    assert_eq!(ready(&fleet).await, before);
    assert!(fleet.stop_agent("nobody").await.is_err());
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_fleet() {
    let story = async |seed| {
        let fleet = fleet(seed).await;
        deliver(&fleet).await;
        let mut statuses = Vec::new();
        for name in fleet.members() {
            let api: Api<Deployment> = Api::namespaced(fleet.member_client(&name).unwrap(), "default");
            let live = api.get("web").await.unwrap();
            statuses.push((name, live.metadata.uid, live.status));
        }
        fleet.stop().await;
        statuses
    };
    let first = story(3).await;
    assert_eq!(story(3).await, first);
    assert_ne!(story(4).await, first);
}
