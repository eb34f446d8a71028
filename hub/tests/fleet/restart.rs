//! Many agents and one hub: the hub is restarted with all of them connected, and all of them are started at once.

use crate::{
    alone, apply, is_long,
    line::{Lines, Sent},
    options, until_all_run,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt};
use roundhouse_api::{
    bundle::Bundle,
    cluster::{AVAILABLE, Cluster},
    condition,
    names::AGENT_LEASE,
};
use roundhouse_hub::{
    leader::{LEASE, NAMESPACE, Standing},
    simulate::{Fleet, HUB},
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep};

/// Whoever comes back is at work again after this.
const BACK: Duration = Duration::from_secs(5);
/// A renewal is late by at most a tenth of its interval.
const JITTER: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(500);
/// Longer than the hub takes an agent's last renewal for a sign of life.
const SILENCE: Duration = Duration::from_secs(42);
/// Long enough for everybody to renew their Lease, and for what follows from what was done.
const QUIET: Duration = Duration::from_secs(12);
const APPLICATION: &str = "web";
/// One of so many clusters has a Bundle.
const PLACED: usize = 5;

fn agents() -> usize {
    if is_long() { 1000 } else { 200 }
}

fn name(n: usize) -> String {
    format!("c{n:04}")
}

/// The clusters to which the application is delivered: one of so many.
fn placed() -> BTreeSet<String> {
    (0..agents()).step_by(PLACED).map(name).collect()
}

/// Runs it on paused time, beside nothing that measures memory.
fn on_paused_time(story: impl Future<Output = ()>) {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(story);
}

/// Everything has joined, the application is delivered in two steps, and all is quiet.
async fn delivered(lines: &Lines) -> Fleet {
    let mut options = options((0..agents()).map(|n| {
        let labels = vec![("shard", (n % PLACED).to_string()), ("half", (n % 2).to_string())];
        (name(n), labels)
    }));
    options.through = Some(lines.through());
    let fleet = Fleet::start(options).await.unwrap();
    until_all_are_available(&fleet, Duration::from_secs(30)).await;
    let step = |half: &str| {
        json!({"name": format!("half-{half}"), "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"shard": "0", "half": half}, "replicas": "50%"}]}})
    };
    apply(&fleet, APPLICATION, placed().len(), &[step("0"), step("1")]).await;
    until_all_run(&fleet, Duration::from_secs(1), Duration::from_secs(300)).await;
    // What follows from joining settles first: a later renewal is the first to say that the agent hears.
    sleep(2 * QUIET).await;
    let bundles: Api<Bundle> = Api::all(fleet.hub_client());
    assert_eq!(
        bundles.list(&Default::default()).await.unwrap().items.len(),
        placed().len()
    );
    fleet
}

/// The clusters that the hub does not take for available.
async fn unavailable(fleet: &Fleet) -> Vec<String> {
    let clusters: Api<Cluster> = Api::all(fleet.hub_client());
    let all = clusters.list(&Default::default()).await.unwrap();
    let is_not = |cluster: &&Cluster| {
        let status = cluster.status.as_ref();
        !status.is_some_and(|status| condition::is_true(&status.conditions, AVAILABLE))
    };
    all.iter().filter(is_not).map(ResourceExt::name_any).collect()
}

async fn until_all_are_available(fleet: &Fleet, within: Duration) {
    let end = Instant::now() + within;
    loop {
        let rest = unavailable(fleet).await;
        if rest.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "not available after {within:?}: {rest:?}");
        sleep(LOOK).await;
    }
}

/// Waits until the agent of every cluster has renewed its Lease, counted from when `lines` was told to forget.
async fn until_all_renewed(lines: &Lines, within: Duration) {
    let end = Instant::now() + within;
    let is_renewal = |sent: &Sent| sent.writes() && sent.path.ends_with(&format!("/leases/{AGENT_LEASE}"));
    loop {
        let sent = lines.sent().into_iter();
        let renewed = sent.filter(|sent| is_renewal(sent) && sent.code == 200);
        let who: BTreeSet<String> = renewed.map(|sent| sent.who).collect();
        if who.len() == agents() {
            return;
        }
        assert!(
            Instant::now() < end,
            "{} of {} have renewed their Lease within {within:?}",
            who.len(),
            agents()
        );
        sleep(LOOK).await;
    }
}

/// What was written, but for the renewals of agents.
fn written(lines: &Lines) -> Vec<Sent> {
    let sent = lines.sent().into_iter();
    sent.filter(|sent| sent.writes() && !(sent.who != HUB && sent.is_lease()))
        .collect()
}

/// Nobody was in anybody's way, or was sent away.
fn assert_nothing_was_refused(lines: &Lines) {
    let refused = lines
        .sent()
        .into_iter()
        .filter(|sent| matches!(sent.code, 409 | 429) || (sent.writes() && sent.code >= 400));
    let refused: Vec<Sent> = refused.collect();
    assert!(
        refused.is_empty(),
        "{} were refused: {:?}",
        refused.len(),
        refused.first()
    );
}

/// Writes to the API servers of members.
fn asked_of_members(fleet: &Fleet) -> u64 {
    let of = |name: &String| fleet.member_server(name).unwrap().counter().write_requests();
    fleet.members().iter().map(of).sum()
}

/// Stops the hub as a process with its API server ends: its watches end, too, so that all agents come back at once.
async fn stop(fleet: &mut Fleet) {
    fleet.stop_hub().await;
    fleet.hub_server().unwrap().close_watches();
}

/// Starts the hub, and checks that it leads in time, that everybody is heard of, and that it has written that it leads and
/// nothing else, nor has anybody else written anything in so long.
async fn start_and_write_nothing(fleet: &mut Fleet, lines: &Lines, in_so_long: Duration) {
    lines.forget();
    let (started, members) = (Instant::now(), asked_of_members(fleet));
    fleet.start_hub();
    while !matches!(fleet.standing(HUB), Some(Standing::Leading(_))) {
        assert!(started.elapsed() < BACK, "the hub does not lead");
        sleep(LOOK).await;
    }
    assert_eq!(unavailable(fleet).await, [""; 0]);
    sleep(in_so_long).await;
    assert_eq!(unavailable(fleet).await, [""; 0]);
    until_all_renewed(lines, Duration::ZERO).await;
    let written = written(lines);
    let own = format!("/namespaces/{NAMESPACE}/leases/{LEASE}");
    let other = written.iter().find(|sent| !sent.path.ends_with(&own));
    assert!(other.is_none(), "{other:?}");
    assert_eq!(written.len(), 2, "taken, and marked with the epoch: {written:?}");
    assert_eq!(asked_of_members(fleet), members, "write requests to members");
    assert_nothing_was_refused(lines);
}

/// Somebody deletes what agents have applied while the hub is away; they put it back, and say so.
async fn heal(fleet: &Fleet, lines: &Lines) {
    lines.forget();
    for name in placed() {
        let web: Api<Deployment> = Api::namespaced(fleet.member_client(&name).unwrap(), "default");
        web.delete(APPLICATION, &Default::default()).await.unwrap();
    }
    sleep(SILENCE).await;
    let said: BTreeSet<String> = written(lines).into_iter().map(|sent| sent.who).collect();
    assert_eq!(said, placed());
    assert_nothing_was_refused(lines);
}

/// Ends all agents for so long, starts them at the same moment, and checks that nobody is in anybody's way: the hub takes
/// those for available again that it did not, and nothing else is written to clusters or by agents.
async fn restart_agents(fleet: &mut Fleet, lines: &Lines, away: Duration) {
    for name in fleet.members() {
        fleet.stop_agent(&name).await.unwrap();
    }
    sleep(away).await;
    let lost = unavailable(fleet).await.len();
    assert_eq!(lost, if away < SILENCE { 0 } else { agents() });
    lines.forget();
    let (started, members) = (Instant::now(), asked_of_members(fleet));
    for name in fleet.members() {
        fleet.start_agent(&name).unwrap();
    }
    until_all_renewed(lines, BACK).await;
    until_all_are_available(fleet, (BACK + JITTER).saturating_sub(started.elapsed())).await;
    sleep(QUIET).await;
    let (clusters, others): (Vec<Sent>, Vec<Sent>) = written(lines)
        .into_iter()
        .partition(|sent| sent.path.contains("/clusters/"));
    assert_eq!(clusters.len(), lost, "each is told of once");
    // What the application says of its clusters, if it said something else meanwhile, and the event of that.
    let tells = |sent: &&Sent| sent.path.contains("/applications/") || sent.path.contains("/events");
    let more = others.iter().find(|sent| lost == 0 || !tells(sent));
    assert!(more.is_none(), "{more:?}");
    assert!(others.len() < 10, "{others:?}");
    assert_eq!(asked_of_members(fleet), members, "write requests to members");
    assert_nothing_was_refused(lines);
}

#[test]
fn many_agents_and_their_hub_are_restarted_and_write_that_they_are_back_and_nothing_else() {
    on_paused_time(async {
        let lines = Lines::default();
        let mut fleet = delivered(&lines).await;
        stop(&mut fleet).await;
        start_and_write_nothing(&mut fleet, &lines, QUIET).await;
        // Away for longer than a Lease holds, and then there for as long.
        stop(&mut fleet).await;
        heal(&fleet, &lines).await;
        start_and_write_nothing(&mut fleet, &lines, SILENCE).await;
        restart_agents(&mut fleet, &lines, Duration::ZERO).await;
        restart_agents(&mut fleet, &lines, SILENCE).await;
        fleet.stop().await;
    });
}
