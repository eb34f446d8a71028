//! Several hubs over one API server: one of them writes, whatever becomes of the others.

use crate::{apply, line::Lines, options, until_all_run};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{application::Application, bundle::Bundle, names::annotation};
use roundhouse_hub::{
    leader::{Election, LEASE, NAMESPACE, Standing, Term, Timing},
    simulate::{Fleet, HUB},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// The second hub.
const B: &str = "b";
/// A leader that is not heard of is followed within the lease duration, and what it takes to begin.
const FOLLOWED: Duration = Duration::from_secs(16);
/// From then on a small delivery takes no longer than this.
const DELIVERED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// Four clusters, and hubs that stand for election, or are each alone.
async fn fleet(lines: &Lines, timing: Option<Timing>) -> Fleet {
    let mut options = options((1..=4).map(|n| (format!("c{n}"), vec![("number", n.to_string())])));
    options.hub.election = Election {
        timing,
        ..Election::default()
    };
    options.through = Some(lines.through());
    Fleet::start(options).await.unwrap()
}

async fn soon(what: &str, within: Duration, is_so: impl Fn() -> bool) {
    let waited = timeout(within, async {
        while !is_so() {
            sleep(LOOK).await;
        }
    });
    assert!(waited.await.is_ok(), "within {within:?}: {what}");
}

fn epoch_of(fleet: &Fleet, hub: &str) -> Option<i64> {
    match fleet.standing(hub) {
        Some(Standing::Leading(term)) => Some(term.epoch),
        _ => None,
    }
}

async fn until_leads(fleet: &Fleet, hub: &str, within: Duration) -> i64 {
    soon(&format!("{hub} leads"), within, || epoch_of(fleet, hub).is_some()).await;
    epoch_of(fleet, hub).unwrap()
}

/// The hub that runs from the start leads, and another one follows.
async fn leader_and_follower(fleet: &mut Fleet) -> i64 {
    let first = until_leads(fleet, HUB, DELIVERED).await;
    fleet.start_hub_called(B);
    soon("b follows", DELIVERED, || {
        fleet.standing(B) == Some(Standing::Following)
    })
    .await;
    first
}

/// One replica in each of the four clusters.
async fn deploy(fleet: &Fleet, name: &str) {
    let rule = |n: usize| json!({"clusterSelector": {"number": n.to_string()}, "replicas": 1});
    let rules: Vec<Value> = (1..=4).map(rule).collect();
    let step = json!({"name": "all", "type": "deploy", "properties": {"placement": rules}});
    apply(fleet, name, 4, &[step]).await;
}

fn applications(fleet: &Fleet) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Application>(&());
    Api::namespaced_with(fleet.hub_client(), "default", &resource)
}

async fn set_image(fleet: &Fleet, name: &str, image: &str) {
    let patch = json!([{"op": "replace", "path": "/spec/components/0/properties/image", "value": image}]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
    applications(fleet)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn bundles(fleet: &Fleet) -> Vec<Bundle> {
    let api: Api<Bundle> = Api::all(fleet.hub_client());
    api.list(&Default::default()).await.unwrap().items
}

async fn lease(fleet: &Fleet) -> Lease {
    let api: Api<Lease> = Api::namespaced(fleet.hub_client(), NAMESPACE);
    api.get(LEASE).await.unwrap()
}

async fn epoch_of_lease(fleet: &Fleet) -> i64 {
    lease(fleet).await.annotations()[annotation::EPOCH]
        .parse()
        .unwrap()
}

async fn epoch_of_run(fleet: &Fleet, name: &str) -> Option<i64> {
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    api.get(name).await.unwrap().status?.workflow?.epoch
}

/// Of every object, the epochs that were stored, in order, never go down.
fn assert_monotone(lines: &Lines) {
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for sent in lines.sent() {
        let stored = sent.writes() && (200..300).contains(&sent.code);
        let Some(epoch) = sent.epoch.filter(|_| stored) else {
            continue;
        };
        let before = last.insert(sent.path.clone(), epoch);
        assert!(
            before.is_none_or(|before| before <= epoch),
            "{sent:?} after {before:?}"
        );
    }
    assert!(!last.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_is_followed_and_what_it_began_is_finished() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, Some(Timing::default())).await;
    let first = leader_and_follower(&mut fleet).await;
    deploy(&fleet, "one").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    deploy(&fleet, "two").await;
    sleep(Duration::from_millis(50)).await;
    let killed = Instant::now();
    fleet.kill_hub_called(HUB).await;
    deploy(&fleet, "three").await;
    let second = until_leads(&fleet, B, FOLLOWED).await;
    assert!(
        killed.elapsed() >= Duration::from_secs(13),
        "not before its Lease is over"
    );
    assert!(second > first);
    until_all_run(&fleet, LOOK, DELIVERED).await;
    assert_eq!(epoch_of_run(&fleet, "three").await, Some(second));
    let taken = lease(&fleet).await.spec.unwrap();
    assert_eq!(taken.holder_identity.as_deref(), Some(B));
    assert_eq!(taken.lease_transitions, Some(1));
    assert_monotone(&lines);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_past_its_lease_changes_nothing_when_it_goes_on() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, Some(Timing::default())).await;
    let first = leader_and_follower(&mut fleet).await;
    deploy(&fleet, "web").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    let before = bundles(&fleet).await;
    assert_eq!(before.len(), 4);

    // It stops in the middle of writing what is new: some of it is on its way.
    lines.trap(HUB, "/bundles");
    set_image(&fleet, "web", "nginx:2").await;
    soon("the leader is stopped", DELIVERED, || lines.is_held(HUB)).await;
    let second = until_leads(&fleet, B, FOLLOWED).await;
    assert!(second > first);
    until_all_run(&fleet, LOOK, DELIVERED).await;
    let after = bundles(&fleet).await;
    assert_ne!(
        fleet.standing(HUB),
        Some(Standing::Leading(Term {
            epoch: first,
            confirmed: 0
        }))
    );

    // It goes on, and what was on its way arrives.
    lines.let_go(HUB);
    sleep(Duration::from_secs(60)).await;
    let stale: Vec<_> = lines
        .sent()
        .into_iter()
        // An Event that is told late is told all the same.
        .filter(|sent| sent.who == HUB && sent.held && sent.writes())
        .filter(|sent| !sent.is_lease() && !sent.path.contains("/events"))
        .collect();
    assert!(
        stale.iter().any(|sent| sent.path.contains("/bundles")),
        "{stale:?}"
    );
    assert!(
        stale.iter().all(|sent| matches!(sent.code, 409 | 422)),
        "{stale:?}"
    );
    assert_eq!(bundles(&fleet).await, after, "nothing was done twice");
    for bundle in &after {
        let was = before.iter().find(|b| b.metadata.uid == bundle.metadata.uid);
        let was = was.unwrap().metadata.generation.unwrap();
        assert_eq!(
            bundle.metadata.generation,
            Some(was + 1),
            "written once: {}",
            bundle.name_any()
        );
        assert_eq!(bundle.spec.epoch, Some(second));
    }
    assert_eq!(fleet.standing(HUB), Some(Standing::Following));
    assert_eq!(epoch_of(&fleet, B), Some(second));
    assert_monotone(&lines);

    // And it can lead again.
    fleet.stop_hub_called(B).await;
    let third = until_leads(&fleet, HUB, FOLLOWED).await;
    assert!(third > second);
    set_image(&fleet, "web", "nginx:3").await;
    sleep(Duration::from_secs(1)).await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    assert_eq!(epoch_of_run(&fleet, "web").await, Some(third));
    assert_monotone(&lines);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_without_an_election_the_last_one_leads_and_the_epoch_stops_the_other() {
    let lines = Lines::default();
    // Nobody asks the other.
    let mut fleet = fleet(&lines, None).await;
    let first = until_leads(&fleet, HUB, DELIVERED).await;
    deploy(&fleet, "web").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    fleet.start_hub_called(B);
    let second = until_leads(&fleet, B, DELIVERED).await;
    assert!(second > first);
    let end = Instant::now() + FOLLOWED;
    while epoch_of(&fleet, HUB).is_some() {
        assert!(Instant::now() < end, "the first one leads on");
        sleep(LOOK).await;
    }
    for image in ["nginx:2", "nginx:3"] {
        set_image(&fleet, "web", image).await;
        sleep(Duration::from_secs(120)).await;
        until_all_run(&fleet, LOOK, DELIVERED).await;
    }
    for bundle in bundles(&fleet).await {
        assert_eq!(bundle.spec.epoch, Some(second), "{}", bundle.name_any());
        assert_eq!(bundle.status.unwrap().epoch, Some(second), "the agent obeys it");
    }
    assert_eq!(epoch_of_run(&fleet, "web").await, Some(second));
    assert_monotone(&lines);
    // Had it not noticed, and were it quick enough to write over the newest version, the epoch alone would stop it.
    for mut bundle in bundles(&fleet).await {
        let api: Api<Bundle> = Api::namespaced(fleet.hub_client(), &bundle.namespace().unwrap());
        bundle.spec.epoch = Some(first);
        let refused = api
            .replace(&bundle.name_any(), &PostParams::default(), &bundle)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("the epoch may not decrease"),
            "{refused}"
        );
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_hands_over_in_less_than_two_seconds_to_one_that_knows_everything() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, Some(Timing::default())).await;
    let first = leader_and_follower(&mut fleet).await;
    deploy(&fleet, "web").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    set_image(&fleet, "web", "nginx:2").await;
    sleep(Duration::from_millis(20)).await;
    lines.forget();
    let told = Instant::now();
    fleet.stop_hub_called(HUB).await;
    let second = until_leads(&fleet, B, Duration::from_secs(2)).await;
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
    assert_eq!(second, first + 1);
    until_all_run(&fleet, LOOK, DELIVERED).await;
    let sent = lines.sent();
    let listed: Vec<_> = sent.iter().filter(|sent| sent.who == B && sent.lists()).collect();
    assert!(listed.is_empty(), "it has seen everything: {listed:?}");
    assert!(
        sent.iter()
            .any(|sent| sent.who == B && sent.writes() && !sent.is_lease())
    );
    assert_monotone(&lines);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_writes_nothing_and_knows_who_is_available() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, Some(Timing::default())).await;
    leader_and_follower(&mut fleet).await;
    deploy(&fleet, "web").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    sleep(Duration::from_secs(300)).await;
    let written: Vec<_> = lines
        .sent()
        .into_iter()
        .filter(|sent| sent.who == B && sent.writes())
        .collect();
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(fleet.withheld(B), Some(0), "nor does it try");
    // Long after it began to follow, it takes over: heartbeats that it saw count, and nobody is thought dead.
    lines.forget();
    fleet.stop_hub_called(HUB).await;
    until_leads(&fleet, B, FOLLOWED).await;
    sleep(Duration::from_secs(120)).await;
    let written: Vec<_> = lines
        .sent()
        .into_iter()
        .filter(|sent| sent.who == B && sent.writes() && !sent.is_lease())
        .collect();
    assert!(
        written.is_empty(),
        "what is delivered stays as it is: {written:?}"
    );
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_start_of_a_hub_that_is_alone_raises_the_epoch() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, None).await;
    let mut last = until_leads(&fleet, HUB, DELIVERED).await;
    for round in 0..3 {
        assert_eq!(epoch_of_lease(&fleet).await, last);
        match round {
            0 => fleet.stop_hub().await,
            _ => fleet.kill_hub_called(HUB).await,
        }
        fleet.start_hub();
        let next = until_leads(&fleet, HUB, DELIVERED).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_a_tenant_made_up_stops_that_application_and_no_other() {
    let lines = Lines::default();
    let mut fleet = fleet(&lines, None).await;
    deploy(&fleet, "web").await;
    until_all_run(&fleet, LOOK, DELIVERED).await;
    fleet.stop_hub().await;
    let before = epoch_of_lease(&fleet).await;
    let astray = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "astray", "namespace": "default"}, "spec": {"components": []}});
    let astray: DynamicObject = serde_json::from_value(astray).unwrap();
    applications(&fleet)
        .create(&PostParams::default(), &astray)
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"status": {"workflow": {"epoch": i64::MAX}}}));
    applications(&fleet)
        .patch_status("astray", &PatchParams::default(), &patch)
        .await
        .unwrap();
    fleet.start_hub();
    let epoch = until_leads(&fleet, HUB, FOLLOWED).await;
    assert_eq!(epoch, before + 1);
    deploy(&fleet, "other").await;
    set_image(&fleet, "web", "nginx:2").await;
    let runs = async |name: &str| epoch_of_run(&fleet, name).await == Some(epoch);
    let end = Instant::now() + DELIVERED;
    while !(runs("other").await && runs("web").await) {
        assert!(Instant::now() < end, "the others are not delivered");
        sleep(LOOK).await;
    }
    sleep(Duration::from_secs(600)).await;
    let left = applications(&fleet).get("astray").await.unwrap();
    assert_eq!(left.data["status"]["workflow"]["epoch"], json!(i64::MAX));
    assert!(left.finalizers().is_empty(), "it is left alone");
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(fleet.hub_client(), "default");
    let events = events.list(&Default::default()).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Fenced"))
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].count, Some(1));
    // What takes it away puts it right.
    let patch = Patch::Merge(json!({"status": {"workflow": null}}));
    applications(&fleet)
        .patch_status("astray", &PatchParams::default(), &patch)
        .await
        .unwrap();
    sleep(Duration::from_secs(120)).await;
    assert_ne!(epoch_of_run(&fleet, "astray").await, Some(i64::MAX));
    let left = applications(&fleet).get("astray").await.unwrap();
    assert!(
        left.data["status"]["conditions"].is_array(),
        "{:?}",
        left.data["status"]
    );
    fleet.stop().await;
}
