//! What a fleet costs after everything is delivered, but for one application that waits for an object on the hub: no write but
//! the agents' Leases, and no more memory as hours pass.

use crate::{alone, apply, is_long, options, until_all_run};
use kube::Api;
use roundhouse_api::application::Application;
use roundhouse_hub::simulate::Fleet;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const LEASES: &str = "leases.coordination.k8s.io";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Resident memory may grow by this much, in KiB and in percent: what an allocator does not give back.
const TOLERANCE: (u64, u64) = (4 << 10, 2);

struct Size {
    applications: usize,
    clusters: usize,
    /// Each application is placed on the clusters of one shard, in both regions.
    shards: usize,
    /// Virtual time over which memory is compared.
    hours: u32,
    /// Changes that a server keeps for its watches: once that many were made, keeping them takes no more memory.
    history: usize,
}

const SMALL: Size = Size {
    applications: 20,
    clusters: 10,
    shards: 5,
    hours: 1,
    history: 500,
};

const LARGE: Size = Size {
    applications: 1000,
    clusters: 100,
    shards: 10,
    hours: 4,
    history: 10_000,
};

#[test]
fn a_delivered_fleet_writes_nothing_and_does_not_grow() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let size = if is_long() { LARGE } else { SMALL };
    runtime.block_on(live(&size));
}

#[expect(
    clippy::disallowed_methods,
    reason = "what it takes in real time is told, and decides nothing"
)]
async fn live(size: &Size) {
    let started = std::time::Instant::now();
    let told = |what: &str| {
        let memory = resident().map_or("?".to_owned(), |kib| format!("{:.1}", kib as f64 / 1024.0));
        println!(
            "{:7.1} s  {memory:>6} MiB  {what}",
            started.elapsed().as_secs_f64()
        );
    };
    let member = |n: usize| {
        let region = if n.is_multiple_of(2) { "east" } else { "west" };
        let shard = (n / 2 % size.shards).to_string();
        let labels = vec![("region", region.to_owned()), ("shard", shard)];
        (format!("{region}-{n:03}"), labels)
    };
    let mut options = options((0..size.clusters).map(member));
    options.count_per_object = true;
    options.limits.history_events = size.history;
    let fleet = Fleet::start(options).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    told(&format!("{} agents have joined", size.clusters));
    for app in 0..size.applications {
        apply(&fleet, &format!("app-{app:04}"), 10, &steps(app % size.shards)).await;
    }
    until_all_run(&fleet, Duration::from_secs(5), HOUR).await;
    told(&format!(
        "{} applications with 5 steps each are delivered",
        size.applications
    ));
    apply(&fleet, "gated", 10, &gated()).await;
    // What follows from the deliveries settles first.
    tokio::time::sleep(MINUTE).await;
    assert_eq!(waits(&fleet).await, WAITS);

    let before = Written::of(&fleet);
    tokio::time::sleep(20 * MINUTE).await;
    let more = before.until_now(&fleet);
    told(&format!("20 virtual minutes later; stored since: {more}"));
    more.assert_only(&[LEASES]);

    // Events of the deliveries are let go after an hour.
    tokio::time::sleep(HOUR).await;
    let (memory, before) = (resident(), Written::of(&fleet));
    told("after another virtual hour");
    tokio::time::sleep(size.hours * HOUR).await;
    let more = before.until_now(&fleet);
    told(&format!(
        "{} virtual hours later; stored since: {more}",
        size.hours
    ));
    more.assert_only(&[LEASES]);
    if let (Some(before), Some(now)) = (memory, resident()) {
        let most = before + TOLERANCE.0 + before * TOLERANCE.1 / 100;
        assert!(
            now <= most,
            "{now} KiB are resident, {before} were: more than {most}"
        );
    }
    assert_eq!(waits(&fleet).await, WAITS);
    fleet.stop().await;
}

const WAITS: &str = "waiting until object.data.open == 'yes': ConfigMap gate does not exist";

/// East, and then what nobody makes.
fn gated() -> [Value; 2] {
    let [east, ..] = steps(0);
    let gate = json!({"name": "gate", "type": "wait", "properties": {"until": "object.data.open == 'yes'",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "gate"}}});
    [east, gate]
}

/// What the gate says.
async fn waits(fleet: &Fleet) -> String {
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let workflow = api.get("gated").await.unwrap().status.unwrap().workflow.unwrap();
    workflow.step("gate").unwrap().message.clone().unwrap_or_default()
}

/// East, all of it ready, a pause, west, and a value that says so.
fn steps(shard: usize) -> [Value; 5] {
    let region = |name: &str| {
        json!({"name": name, "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": name, "shard": shard.to_string()}, "replicas": "50%"}]}})
    };
    [
        region("east"),
        json!({"name": "all-of-it", "type": "wait", "properties": {"until": {"ready": "100%"}}}),
        json!({"name": "soak", "type": "suspend", "properties": {"duration": "1s"}}),
        region("west"),
        json!({"name": "tell", "type": "export", "properties": {"value": "delivered"}}),
    ]
}

/// Writes since the servers started, by table.
struct Written {
    /// Stored by the hub's server.
    hub: BTreeMap<String, u64>,
    /// Write requests to the hub's server, those that change nothing too.
    asked: BTreeMap<String, u64>,
    /// Write requests to the members' servers.
    members: u64,
}

impl Written {
    fn of(fleet: &Fleet) -> Written {
        let counter = fleet.hub_server().unwrap().counter();
        let (mut hub, mut asked) = (BTreeMap::new(), BTreeMap::new());
        for ((table, _, _), count) in counter.by_object() {
            *hub.entry(table).or_default() += count;
        }
        for ((verb, table), count) in counter.requests() {
            if !matches!(verb, "get" | "list" | "watch") {
                *asked.entry(table).or_default() += count;
            }
        }
        let of = |name: &String| fleet.member_server(name).unwrap().counter().write_requests();
        Written {
            hub,
            asked,
            members: fleet.members().iter().map(of).sum(),
        }
    }

    fn until_now(&self, fleet: &Fleet) -> Written {
        let now = Written::of(fleet);
        let more = |now: BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let more = now.into_iter().map(|(table, count)| {
                let before = before.get(&table).copied().unwrap_or(0);
                (table, count - before)
            });
            more.filter(|(_, count)| *count > 0).collect()
        };
        Written {
            hub: more(now.hub, &self.hub),
            asked: more(now.asked, &self.asked),
            members: now.members - self.members,
        }
    }

    fn assert_only(&self, tables: &[&str]) {
        for written in [&self.hub, &self.asked] {
            let mut others = written.keys().filter(|table| !tables.contains(&table.as_str()));
            assert_eq!(others.next(), None, "{self}; asked for: {:?}", self.asked);
        }
        assert_eq!(self.members, 0, "write requests to members");
    }
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hub {:?}, members {}", self.hub, self.members)
    }
}

/// Resident memory of this process in KiB, where the kernel tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}
