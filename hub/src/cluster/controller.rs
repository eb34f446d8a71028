//! The shell around [`judge()`](super::judge()): watches, provisions, and writes the statuses that differ.

use super::{
    ClusterError,
    answer::answer,
    due::Due,
    grant::Settled,
    heartbeat::Heartbeats,
    join::{self, Requested},
    options::{ClusterOptions, wait_for_hub_id},
    pass::{Outcome, Pass, after},
    sight::{Seen, Sighting, cluster_of, is_own, names, sightings},
};
use crate::{application::Making, leader::Leading, metrics::Metrics, steady::Monotonic};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, ResourceExt, runtime::watcher::Event};
use roundhouse_api::{
    clock::{Clock as _, SharedClock},
    cluster::Cluster,
    names::{self, AGENT_LEASE, cluster_namespace},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Passes over different clusters that run at once.
const CONCURRENT_PASSES: usize = 16;
/// A pass that takes longer is given up and tried again.
const PASS_TIMEOUT: Duration = Duration::from_secs(30);
/// First and longest pause after a failed pass.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How long rights that were found as they should be are taken to be so: whoever changes them by hand is undone by then.
const RIGHTS_HOLD: Duration = Duration::from_secs(600);
/// Most requests of agents without a Cluster that are remembered; the API server keeps those that are over for an hour.
const MOST_STRAYS: usize = 1_000;
/// How long nothing is waited for that is told anyway.
const LONG: Duration = Duration::from_secs(3600);

/// Runs until `shutdown`. In steady state it writes nothing: heartbeats only keep verdicts from changing. A hub that does not
/// lead sees everything, heartbeats included, and writes nothing.
///
/// # Errors
/// None that ends it: failures are logged and retried with back-off, per cluster.
pub async fn run(
    client: Client,
    options: ClusterOptions,
    metrics: Metrics,
    making: Making,
    leading: Leading,
    clock: SharedClock,
    shutdown: CancellationToken,
) {
    let found = shutdown.run_until_cancelled(wait_for_hub_id(&client)).await;
    let Some(hub_id) = found else {
        return;
    };
    let mut sightings = sightings(&client, &metrics);
    let mut controller = Controller::new(client.clone(), options, making, leading.clone(), clock, hub_id);
    let mut term = None;
    let mut running = Running::default();
    loop {
        let pause = term.map_or(LONG, |_| controller.pause(&running));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            next = leading.turns(term) => {
                term = next;
                // What was under way was decided in another term.
                running = Running::default();
                controller.look_at_all();
            }
            Some(ended) = running.tasks.next(), if !running.tasks.is_empty() => controller.end(ended, &mut running),
            sighting = sightings.next() => match sighting {
                Some(Ok(sighting)) => {
                    controller.see(sighting);
                    if controller.seen.listed() {
                        leading.has_listed_clusters();
                    }
                }
                // It is told of where it is made again.
                Some(Err(_)) => {}
                None => return,
            },
            () = tokio::time::sleep(pause), if term.is_some() => controller.begin(&mut running),
        }
    }
}

/// What is under way.
#[derive(Default)]
struct Running {
    tasks: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// The clusters that a pass is under way for.
    clusters: BTreeSet<String>,
}

/// What has ended.
enum Ended {
    Pass(String, Result<Outcome, ClusterError>),
    /// A request that no cluster waits for, and whether it was answered.
    Stray(String, bool),
}

struct Controller {
    leading: Leading,
    client: Client,
    options: ClusterOptions,
    /// The time that is stored: it may be put right.
    clock: SharedClock,
    /// What goes by here: heartbeats, and when something is due.
    passing: Monotonic,
    hub_id: String,
    /// Bundles that are to be made.
    making: Making,
    seen: Seen,
    heartbeats: Heartbeats,
    /// When clusters are to be looked at.
    due: Due,
    /// Cluster -> failed passes in a row.
    failures: BTreeMap<String, u32>,
    /// Cluster -> the rights that were found as they should be, and until when that is taken for granted.
    settled: BTreeMap<String, (Settled, Timestamp)>,
    /// Requests of agents that are called after no Cluster -> when they are to be looked at.
    strays: BTreeMap<String, Timestamp>,
}

impl Controller {
    /// One that has seen nothing yet.
    fn new(
        client: Client,
        options: ClusterOptions,
        making: Making,
        leading: Leading,
        clock: SharedClock,
        hub_id: String,
    ) -> Controller {
        Controller {
            leading,
            client,
            heartbeats: Heartbeats::new(options.lease_duration),
            options,
            passing: Monotonic::at(clock.now()),
            clock,
            hub_id,
            making,
            seen: Seen::default(),
            due: Due::default(),
            failures: BTreeMap::new(),
            settled: BTreeMap::new(),
            strays: BTreeMap::new(),
        }
    }

    /// Takes a sighting in; only what changes a verdict makes a cluster due.
    fn see(&mut self, sighting: Sighting) {
        let now = self.passing.now();
        let touched: Vec<String> = match sighting {
            Sighting::Cluster(event) => {
                let touched = names(self.seen.clusters.feed(event), |(_, name)| Some(name));
                // Also in a hub that follows: what was heard of a cluster that has left says nothing of the next of its name.
                for cluster in &touched {
                    self.take_heartbeat(cluster, now);
                }
                touched
            }
            Sighting::Report(Event::Apply(report) | Event::InitApply(report)) if !is_own(&report) => {
                Vec::new()
            }
            Sighting::Report(event) => names(self.seen.reports.feed(event), |(ns, _)| cluster_of(&ns)),
            Sighting::Namespace(event) => names(self.seen.namespaces.feed(event), |(_, ns)| cluster_of(&ns)),
            Sighting::Request(event) => {
                let touched = names(self.seen.requests.feed(event), |(_, name)| Some(name));
                touched
                    .into_iter()
                    .filter_map(|request| self.take_request(request, now))
                    .collect()
            }
            Sighting::Lease(event) => {
                let mut touched = names(self.seen.leases.feed(event), |(ns, _)| cluster_of(&ns));
                touched.retain(|cluster| self.take_heartbeat(cluster, now));
                touched
            }
        };
        for cluster in touched {
            self.due.set(cluster, now);
        }
    }

    /// Makes every cluster due: a term begins, or one was given up in the middle of passes.
    fn look_at_all(&mut self) {
        let now = self.passing.now();
        for cluster in self.seen.clusters.iter() {
            self.due.set(cluster.name_any(), now);
        }
        // Another hub may have written meanwhile, and a pass may have been broken off.
        self.settled.clear();
        let requests = self.seen.requests.iter();
        let of_agents = requests.filter(|request| Requested::of(request).is_some());
        let strays = of_agents
            .take(MOST_STRAYS)
            .map(|request| (request.name_any(), now));
        self.strays.extend(strays);
    }

    /// True if the cluster is to be looked at: its Lease tells something new, is gone, or lacks the hub's id.
    fn take_heartbeat(&mut self, cluster: &str, now: Timestamp) -> bool {
        let namespace = cluster_namespace(cluster);
        let Some(uid) = self
            .seen
            .clusters
            .get("", cluster)
            .and_then(|cluster| cluster.uid())
        else {
            // The last renewal may be heard of after the end of its cluster.
            self.heartbeats.forget(cluster);
            return false;
        };
        let Some(lease) = self.seen.leases.get(&namespace, AGENT_LEASE) else {
            // It may have been the one before's, who was gone by then.
            if self
                .heartbeats
                .get(cluster)
                .is_some_and(|seen| seen.changed.is_none())
            {
                self.heartbeats.forget(cluster);
            }
            return true;
        };
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let echo = lease
            .annotations()
            .get(names::annotation::SEEN)
            .map(String::as_str);
        let matters = self
            .heartbeats
            .observe((cluster, &uid), renewed.map(|time| time.0), echo, now);
        matters || lease.annotations().get(names::annotation::HUB_ID) != Some(&self.hub_id)
    }

    /// By how much the time that is stored is ahead of what goes by here.
    fn ahead(&self) -> SignedDuration {
        self.clock.now().duration_since(self.passing.now())
    }

    /// How long nothing can be begun. Nothing is due before every list was seen whole.
    fn pause(&self, running: &Running) -> Duration {
        if !self.seen.listed() || running.tasks.len() >= CONCURRENT_PASSES {
            return LONG;
        }
        let clusters = self.due.first(&running.clusters);
        let Some(first) = clusters.into_iter().chain(self.strays.values().copied()).min() else {
            return LONG;
        };
        let pause = first.duration_since(self.passing.now());
        Duration::try_from(pause).unwrap_or(Duration::ZERO).min(LONG)
    }

    /// Begins what is due: at most so many at once, of a cluster one at a time. What one of them waits for keeps nothing else
    /// waiting.
    fn begin(&mut self, running: &mut Running) {
        let now = self.passing.now();
        let names: Vec<String> = self.due.at(now, &running.clusters).cloned().collect();
        for name in names {
            if running.tasks.len() >= CONCURRENT_PASSES {
                return;
            }
            self.due.remove(&name);
            let Some(cluster) = self.seen.clusters.get("", &name).cloned() else {
                self.failures.remove(&name);
                self.settled.remove(&name);
                self.leading.lets_go(&name, false);
                continue;
            };
            self.leading
                .lets_go(&name, cluster.metadata.deletion_timestamp.is_some());
            let pass = self.pass(cluster);
            running.clusters.insert(name.clone());
            running.tasks.push(
                async move {
                    let outcome = tokio::time::timeout(PASS_TIMEOUT, pass.run()).await;
                    let outcome = outcome.unwrap_or_else(|_| {
                        Err(ClusterError::Timeout {
                            cluster: name.clone(),
                            seconds: PASS_TIMEOUT.as_secs(),
                        })
                    });
                    Ended::Pass(name, outcome)
                }
                .boxed(),
            );
        }
        self.answer_strays(running, now);
    }

    /// Takes note of what has ended.
    fn end(&mut self, ended: Ended, running: &mut Running) {
        match ended {
            Ended::Pass(name, outcome) => {
                running.clusters.remove(&name);
                self.settle(name, outcome);
            }
            Ended::Stray(_, true) => {}
            Ended::Stray(name, false) => {
                self.strays.insert(name, after(self.passing.now(), BACKOFF.1));
            }
        }
    }

    /// The cluster that a request is for, or `None`: then it is remembered if it is of an agent.
    fn take_request(&mut self, name: String, now: Timestamp) -> Option<String> {
        let Some(request) = self.seen.requests.get("", &name) else {
            self.strays.remove(&name);
            return None;
        };
        let requested = Requested::of(request)?;
        if let Some(cluster) = requested.cluster(|cluster| self.seen.clusters.get("", cluster).is_some()) {
            return Some(cluster);
        }
        if self.strays.len() < MOST_STRAYS {
            self.strays.insert(name, now);
        }
        None
    }

    /// Denies what is asked for under a name that is no cluster's: nothing but an answer is owed, and no cluster waits for it.
    fn answer_strays(&mut self, running: &mut Running, now: Timestamp) {
        let due = self.strays.iter().filter(|(_, at)| **at <= now);
        let room = CONCURRENT_PASSES.saturating_sub(running.tasks.len());
        let names: Vec<String> = due.map(|(name, _)| name.clone()).take(room).collect();
        for name in names {
            self.strays.remove(&name);
            let Some(request) = self.seen.requests.get("", &name).cloned() else {
                continue;
            };
            let Some(requested) = Requested::of(&request) else {
                continue;
            };
            let cluster = requested.cluster(|cluster| self.seen.clusters.get("", cluster).is_some());
            // Its Cluster has come meanwhile, whose passes see to it.
            if let Some(cluster) = cluster {
                self.due.set(cluster, now);
                continue;
            }
            let verdict = join::decide(&requested, None, None, self.options.longest_certificate, now);
            let client = self.client.clone();
            running.tasks.push(
                async move {
                    let answered = answer(&client, &request, &verdict, now);
                    let answered = tokio::time::timeout(PASS_TIMEOUT, answered).await;
                    Ended::Stray(name, matches!(answered, Ok(Ok(()))))
                }
                .boxed(),
            );
        }
    }

    fn pass(&self, cluster: Arc<Cluster>) -> Pass {
        let name = cluster.name_any();
        let now = self.passing.now();
        let settled = self.settled.get(&name).filter(|(_, until)| now < *until);
        let namespace = cluster_namespace(&name);
        Pass {
            client: self.client.clone(),
            options: self.options.clone(),
            clock: self.clock.clone(),
            hub_id: self.hub_id.clone(),
            making: self.making.clone(),
            epoch: self.leading.term().map(|term| term.epoch),
            namespace: self.seen.namespaces.get("", &namespace).cloned(),
            lease: self.seen.leases.get(&namespace, AGENT_LEASE).cloned(),
            report: self.seen.reports.get(&namespace, &name).cloned(),
            request: {
                let request = roundhouse_api::names::ClusterName::new(name.as_str())
                    .ok()
                    .map(|cluster| names::AgentName::request(&cluster));
                request.and_then(|request| self.seen.requests.get("", &request).cloned())
            },
            settled: settled.map(|(settled, _)| settled.clone()),
            heartbeat: self.heartbeats.get(&name).map(|beat| beat.ahead(self.ahead())),
            cluster,
        }
    }

    fn settle(&mut self, name: String, outcome: Result<Outcome, ClusterError>) {
        let now = self.passing.now();
        let (again, settled, failed) = match outcome {
            Ok(outcome) => {
                let again = outcome.again;
                let again = again.map(|at| at.saturating_sub(self.ahead()).unwrap_or(at));
                (again, outcome.settled, outcome.failed)
            }
            Err(error) => (None, None, Some(error)),
        };
        let look = match settled {
            Some(settled) => {
                let known = self.settled.remove(&name);
                let known = known.filter(|(before, until)| *before == settled && now < *until);
                let until = known.map_or_else(|| after(now, RIGHTS_HOLD), |(_, until)| until);
                self.settled.insert(name.clone(), (settled, until));
                Some(until)
            }
            // What was half done is looked at whole.
            None => {
                self.settled.remove(&name);
                None
            }
        };
        let retry = failed.map(|error| {
            let failures = self.failures.entry(name.clone()).or_default();
            let pause = (BACKOFF.0 * 2u32.saturating_pow(*failures)).min(BACKOFF.1);
            *failures = failures.saturating_add(1).min(16);
            match error {
                ClusterError::Changed { .. } => tracing::debug!(%error, "a pass over a cluster starts over"),
                _ => tracing::warn!(%error, "pass over a cluster failed"),
            }
            after(now, pause)
        });
        if retry.is_none() {
            self.failures.remove(&name);
        }
        let next = [again, look, retry].into_iter().flatten().min();
        if let Some(at) = next {
            self.due.by(name, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use roundhouse_api::clock::SystemClock;
    use roundhouse_apiserver::Server;
    use serde_json::json;

    #[tokio::test]
    async fn others_are_told_that_a_cluster_is_let_go_before_its_pass_begins_and_until_it_is_gone() {
        let leading = Leading::always(1);
        let mut controller = controller(leading.clone());
        let stays = Cluster::new("c1", Default::default());
        let mut leaves = stays.clone();
        leaves.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let shown = [
            (Event::Apply(stays.clone()), false),
            (Event::Apply(leaves.clone()), true),
            (Event::Delete(leaves.clone()), false),
            // The next of its name.
            (Event::Apply(leaves), true),
            (Event::Apply(stays), false),
        ];
        for (n, (event, is_let_go)) in shown.into_iter().enumerate() {
            controller.see(Sighting::Cluster(event));
            // No pass of it has got anywhere.
            controller.begin(&mut Running::default());
            assert_eq!(leading.is_letting_go("c1"), is_let_go, "event {n}");
        }
    }

    fn cluster(uid: &str) -> Cluster {
        let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "c1", "uid": uid}, "spec": {"accepted": true}});
        serde_json::from_value(cluster).unwrap()
    }

    fn lease(renewed: Option<u32>) -> Lease {
        let renewed = renewed.map(|second| format!("2026-01-01T00:00:{second:02}.000000Z"));
        let lease = json!({"metadata": {"name": AGENT_LEASE, "namespace": "cluster-c1"}, "spec": {"renewTime": renewed}});
        serde_json::from_value(lease).unwrap()
    }

    fn controller(leading: Leading) -> Controller {
        let server = Server::builder().seed(1).build();
        let client = Client::new(server.service(), "default");
        let (options, clock) = (ClusterOptions::default(), Arc::new(SystemClock));
        let making = Making::default();
        Controller::new(client, options, making, leading, clock, "hub".to_owned())
    }

    #[tokio::test]
    async fn the_last_renewal_of_a_cluster_that_has_left_is_not_the_next_ones() {
        use Sighting::{Cluster as Of, Lease as Renewal};
        let mut controller = controller(Leading::always(1));
        let mut renewed = |sightings: Vec<Sighting>| {
            for sighting in sightings {
                controller.see(sighting);
            }
            controller.heartbeats.get("c1").map(|seen| seen.renewed)
        };
        let before = vec![
            Of(Event::Apply(cluster("u"))),
            Renewal(Event::Apply(lease(Some(1)))),
            Renewal(Event::Apply(lease(Some(2)))),
        ];
        assert_eq!(renewed(before), Some(true));
        let end = vec![
            Of(Event::Delete(cluster("u"))),
            Renewal(Event::Apply(lease(Some(3)))),
            Renewal(Event::Delete(lease(Some(3)))),
            Of(Event::Apply(cluster("v"))),
        ];
        assert_eq!(renewed(end), None);
        assert_eq!(renewed(vec![Renewal(Event::Apply(lease(None)))]), Some(false));
        assert_eq!(renewed(vec![Renewal(Event::Apply(lease(Some(4))))]), Some(true));
        // A list shows another one in its place, and what is left of its Lease goes.
        let next = [
            Of(Event::Init),
            Of(Event::InitApply(cluster("w"))),
            Of(Event::InitDone),
            Renewal(Event::Delete(lease(Some(4)))),
        ];
        assert_eq!(renewed(next.into()), None);
    }

    #[tokio::test]
    async fn a_lease_that_is_seen_before_its_cluster_counts_from_when_that_is_seen() {
        let mut controller = controller(Leading::always(1));
        controller.see(Sighting::Lease(Event::Apply(lease(Some(1)))));
        assert_eq!(controller.heartbeats.get("c1"), None);
        controller.see(Sighting::Cluster(Event::Apply(cluster("u"))));
        assert!(controller.heartbeats.get("c1").unwrap().renewed);
    }
}
