//! The shell around [`judge()`](super::judge()): watches, provisions, and writes the statuses that differ.

use super::{
    ClusterError, Home, Mirror, Observed,
    heartbeat::Heartbeats,
    judge,
    provision::{self, Provision},
    same_but_last_seen,
};
use crate::leader::Leading;
use futures::{Stream, StreamExt, stream::BoxStream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::watcher::{self, Event, watcher},
};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{Cluster, ClusterReport},
    names::{self, AGENT_LEASE, ClusterName, HUB_FIELD_MANAGER, label},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Passes over different clusters that run at once.
const CONCURRENT_PASSES: usize = 16;
/// A pass that takes longer is given up and tried again.
const PASS_TIMEOUT: Duration = Duration::from_secs(30);
/// First and longest pause after a failed pass.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How long nothing is waited for that is told anyway.
const LONG: Duration = Duration::from_secs(3600);
/// How often a cluster whose namespace is not ours, or is being deleted, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Settings of the cluster controller.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// How long a Lease may stay unchanged before its cluster is not available.
    pub lease_duration: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            lease_duration: Duration::from_secs(40),
        }
    }
}

/// The hub's id, from the uid of its namespace `kube-system`.
///
/// # Errors
/// The namespace cannot be read, or has no uid.
pub async fn hub_id(client: &Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get("kube-system").await?;
    Ok(names::hub_id(&system.uid().unwrap_or_default()))
}

/// Runs until `shutdown`. In steady state it writes nothing: heartbeats only keep verdicts from changing. A hub that does not
/// lead sees everything, heartbeats included, and writes nothing.
///
/// # Errors
/// None that ends it: failures are logged and retried with back-off, per cluster.
pub async fn run(
    client: Client,
    options: ClusterOptions,
    leading: Leading,
    clock: SharedClock,
    shutdown: CancellationToken,
) {
    let found = shutdown.run_until_cancelled(wait_for_hub_id(&client)).await;
    let Some(hub_id) = found else {
        return;
    };
    let mut controller = Controller {
        client: client.clone(),
        options,
        clock,
        hub_id,
        seen: Seen::default(),
        heartbeats: Heartbeats::default(),
        due: BTreeMap::new(),
        failures: BTreeMap::new(),
    };
    let mut sightings = sightings(&client);
    let mut term = None;
    loop {
        let pause = term.map_or(LONG, |_| controller.pause());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            next = leading.turns(term) => {
                term = next;
                controller.look_at_all();
            }
            sighting = sightings.next() => match sighting {
                Some(Ok(sighting)) => {
                    controller.see(sighting);
                    if controller.seen.listed() {
                        leading.has_listed_clusters();
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, "a watch of the cluster controller broke off and starts over"),
                None => return,
            },
            () = tokio::time::sleep(pause) => {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    next = leading.turns(term) => {
                        term = next;
                        controller.look_at_all();
                    }
                    () = controller.pass_over_due() => {}
                }
            }
        }
    }
}

async fn wait_for_hub_id(client: &Client) -> String {
    let mut pause = BACKOFF.0;
    loop {
        match hub_id(client).await {
            Ok(id) => return id,
            Err(error) => {
                tracing::warn!(%error, "cannot read namespace kube-system of the hub, which its id comes from")
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}

/// Something a watch showed.
enum Sighting {
    Cluster(Event<Cluster>),
    Lease(Event<Lease>),
    Report(Event<ClusterReport>),
    Namespace(Event<Namespace>),
}

fn sightings(client: &Client) -> BoxStream<'static, watcher::Result<Sighting>> {
    fn watch<K>(
        api: Api<K>,
        config: watcher::Config,
        wrap: fn(Event<K>) -> Sighting,
    ) -> impl Stream<Item = watcher::Result<Sighting>> + Send + 'static
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        use kube::runtime::WatchStreamExt;
        watcher(api, config)
            .default_backoff()
            .map(move |event| event.map(wrap))
    }
    let all = watcher::Config::default;
    let leases = all().fields(&format!("metadata.name={AGENT_LEASE}"));
    futures::stream::select_all([
        watch(
            Api::all(client.clone()),
            all().labels(label::CLUSTER),
            Sighting::Namespace,
        )
        .boxed(),
        watch(Api::all(client.clone()), leases, Sighting::Lease).boxed(),
        watch(Api::all(client.clone()), all(), Sighting::Report).boxed(),
        watch(Api::all(client.clone()), all(), Sighting::Cluster).boxed(),
    ])
    .boxed()
}

#[derive(Default)]
struct Seen {
    clusters: Mirror<Cluster>,
    leases: Mirror<Lease>,
    reports: Mirror<ClusterReport>,
    namespaces: Mirror<Namespace>,
}

impl Seen {
    /// Whether every list was seen whole.
    fn listed(&self) -> bool {
        self.clusters.listed() && self.leases.listed() && self.reports.listed() && self.namespaces.listed()
    }
}

struct Controller {
    client: Client,
    options: ClusterOptions,
    clock: SharedClock,
    hub_id: String,
    seen: Seen,
    heartbeats: Heartbeats,
    /// Cluster -> when it is to be looked at.
    due: BTreeMap<String, Timestamp>,
    /// Cluster -> failed passes in a row.
    failures: BTreeMap<String, u32>,
}

impl Controller {
    /// Takes a sighting in; only what changes a verdict makes a cluster due.
    fn see(&mut self, sighting: Sighting) {
        let now = self.clock.now();
        let touched: Vec<String> = match sighting {
            Sighting::Cluster(event) => names(self.seen.clusters.feed(event), |(_, name)| Some(name)),
            Sighting::Report(event) => names(self.seen.reports.feed(event), |(ns, _)| cluster_of(&ns)),
            Sighting::Namespace(event) => names(self.seen.namespaces.feed(event), |(_, ns)| cluster_of(&ns)),
            Sighting::Lease(event) => {
                let mut touched = names(self.seen.leases.feed(event), |(ns, _)| cluster_of(&ns));
                touched.retain(|cluster| self.take_heartbeat(cluster, now));
                touched
            }
        };
        for cluster in touched {
            self.due.insert(cluster, now);
        }
    }

    /// Makes every cluster due: a term begins, or one was given up in the middle of passes.
    fn look_at_all(&mut self) {
        let now = self.clock.now();
        let all = self.seen.clusters.iter().map(|cluster| cluster.name_any());
        self.due.extend(all.map(|name| (name, now)));
    }

    /// True if the cluster is to be looked at: its Lease changed, is gone, or lacks the hub's id.
    fn take_heartbeat(&mut self, cluster: &str, now: Timestamp) -> bool {
        let namespace = format!("cluster-{cluster}");
        let Some(lease) = self.seen.leases.get(&namespace, AGENT_LEASE) else {
            return true;
        };
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let changed = self.heartbeats.observe(cluster, renewed.map(|time| time.0), now);
        changed || lease.annotations().get(names::annotation::HUB_ID) != Some(&self.hub_id)
    }

    /// How long nothing is due. Nothing is due before every list was seen whole.
    fn pause(&self) -> Duration {
        if !self.seen.listed() {
            return LONG;
        }
        let Some(first) = self.due.values().min() else {
            return LONG;
        };
        let pause = first.duration_since(self.clock.now());
        Duration::try_from(pause).unwrap_or(Duration::ZERO).min(LONG)
    }

    async fn pass_over_due(&mut self) {
        let now = self.clock.now();
        let names: Vec<String> = (self.due.iter())
            .filter(|(_, at)| **at <= now)
            .map(|(name, _)| name.clone())
            .collect();
        let mut passes = Vec::new();
        for name in names {
            self.due.remove(&name);
            match self.seen.clusters.get("", &name) {
                Some(cluster) => passes.push(self.pass(cluster.clone())),
                None => {
                    self.heartbeats.forget(&name);
                    self.failures.remove(&name);
                }
            }
        }
        let passes = passes.into_iter().map(|pass| async move {
            let name = pass.cluster.name_any();
            let outcome = tokio::time::timeout(PASS_TIMEOUT, pass.run()).await;
            let outcome = outcome.unwrap_or_else(|_| {
                Err(ClusterError::Timeout {
                    cluster: name.clone(),
                    seconds: PASS_TIMEOUT.as_secs(),
                })
            });
            (name, outcome)
        });
        let outcomes: Vec<_> = futures::stream::iter(passes)
            .buffer_unordered(CONCURRENT_PASSES)
            .collect()
            .await;
        for (name, outcome) in outcomes {
            self.settle(name, outcome);
        }
    }

    fn pass(&self, cluster: Arc<Cluster>) -> Pass {
        let name = cluster.name_any();
        let namespace = format!("cluster-{name}");
        Pass {
            client: self.client.clone(),
            options: self.options.clone(),
            clock: self.clock.clone(),
            hub_id: self.hub_id.clone(),
            namespace: self.seen.namespaces.get("", &namespace).cloned(),
            lease: self.seen.leases.get(&namespace, AGENT_LEASE).cloned(),
            report: self.seen.reports.first_in(&namespace).cloned(),
            heartbeat: self.heartbeats.get(&name),
            cluster,
        }
    }

    fn settle(&mut self, name: String, outcome: Result<Option<Timestamp>, ClusterError>) {
        let now = self.clock.now();
        let next = match outcome {
            Ok(recheck_at) => {
                self.failures.remove(&name);
                recheck_at
            }
            Err(error) => {
                let failures = self.failures.entry(name.clone()).or_default();
                let pause = (BACKOFF.0 * 2u32.saturating_pow(*failures)).min(BACKOFF.1);
                *failures = failures.saturating_add(1).min(16);
                tracing::warn!(%error, "pass over a cluster failed");
                Some(after(now, pause))
            }
        };
        if let Some(at) = next {
            let due = self.due.entry(name).or_insert(at);
            *due = at.min(*due);
        }
    }
}

fn names(keys: Vec<super::mirror::Key>, cluster: fn(super::mirror::Key) -> Option<String>) -> Vec<String> {
    keys.into_iter().filter_map(cluster).collect()
}

fn cluster_of(namespace: &str) -> Option<String> {
    namespace.strip_prefix("cluster-").map(str::to_owned)
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// One pass over one cluster, with all that was seen of it.
struct Pass {
    client: Client,
    options: ClusterOptions,
    clock: SharedClock,
    hub_id: String,
    cluster: Arc<Cluster>,
    namespace: Option<Arc<Namespace>>,
    lease: Option<Arc<Lease>>,
    report: Option<Arc<ClusterReport>>,
    heartbeat: Option<super::Heartbeat>,
}

impl Pass {
    /// Provisions, judges, and writes the status if it differs. Returns when to look again.
    async fn run(self) -> Result<Option<Timestamp>, ClusterError> {
        let home = self.home().await?;
        let settled = matches!(home, Home::Ready | Home::NotAccepted | Home::InvalidName(_));
        let now = self.clock.now();
        let judgement = judge(
            &Observed {
                cluster: &self.cluster,
                home,
                heartbeat: self.heartbeat,
                report: self.report.as_deref().map(|report| &report.spec),
            },
            self.options.lease_duration,
            now,
        );
        let present = self.cluster.status.clone().unwrap_or_default();
        if !same_but_last_seen(&present, &judgement.status) {
            self.write(judgement.status).await?;
        }
        let look_again = (!settled).then(|| after(now, LOOK_AGAIN));
        Ok(judgement.recheck_at.into_iter().chain(look_again).min())
    }

    async fn home(&self) -> Result<Home, ClusterError> {
        let name = match ClusterName::new(self.cluster.name_any()) {
            Ok(name) => name,
            Err(error) => return Ok(Home::InvalidName(error.to_string())),
        };
        if !self.cluster.spec.accepted {
            return Ok(Home::NotAccepted);
        }
        let provision = Provision {
            client: &self.client,
            cluster: &name,
        };
        let found;
        let namespace = match self.namespace.as_deref() {
            Some(namespace) => namespace,
            None => {
                found = provision.namespace().await?;
                &found
            }
        };
        if !provision::is_ours(namespace, &name) {
            return Ok(Home::Foreign);
        }
        if namespace.metadata.deletion_timestamp.is_some() {
            return Ok(Home::Terminating);
        }
        provision
            .lease(self.lease.as_deref(), &self.hub_id, self.options.lease_duration)
            .await?;
        Ok(Home::Ready)
    }

    async fn write(&self, status: roundhouse_api::cluster::ClusterStatus) -> Result<(), ClusterError> {
        let mut cluster = Cluster::clone(&self.cluster);
        cluster.metadata.managed_fields = None;
        cluster.status = Some(status);
        let name = cluster.name_any();
        let params = PostParams {
            field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
            ..Default::default()
        };
        let api: Api<Cluster> = Api::all(self.client.clone());
        match api.replace_status(&name, &params, &cluster).await {
            Ok(_) => Ok(()),
            // Someone else wrote: the watch brings the newer object and with it the next pass.
            Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => Ok(()),
            Err(source) => Err(ClusterError::Api {
                cluster: name,
                action: "writing its status",
                source: Box::new(source),
            }),
        }
    }
}
