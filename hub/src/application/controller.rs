//! The shell: watches feed the queue, passes run beside one another, failures back off.

use super::{
    Key, Making,
    cache::Cache,
    error::PassError,
    events::{Recorder, record},
    expiring::expire,
    feed::feed,
    going_back::go_back,
    pass::{Hub, Outcome},
    placements::follow,
    queue::Queue,
    witness::{Said, Witness},
};
use crate::{
    action::{Executor, Jobs, NoExecutor, Watches},
    leader::{Leading, Term},
    metrics::{Levels, Metrics},
    tenancy::Tenancy,
    workflow::Limits,
};
use kube::Client;
use parking_lot::Mutex;
use roundhouse_api::clock::SharedClock;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::{self, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A pass that takes longer is given up and tried again.
const PASS_TIMEOUT: Duration = Duration::from_secs(60);
/// First and longest pause after a failed pass.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// Pause after a conflict: the newer version is about to arrive.
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// How long an application that is alone rests between two passes, for each Bundle of it: a pass costs some 30 µs of each.
const REST: Duration = Duration::from_micros(100);

/// Revisions of an application that are kept beside those in use, if nobody says otherwise.
pub const DEFAULT_REVISION_LIMIT: usize = 10;

/// Bundles that are written at once over a network, of all applications together: each may take a connection.
const WRITES_AT_ONCE: usize = 64;

/// Bundles that are written at once where the API server is in this process: nothing but memory, some 20 KiB each, and all of
/// them are made durable in a few steps. Fewer would wait between the steps for agents that are at work; more would take the
/// places that the server has for administrators.
pub const WRITES_AT_ONCE_IN_PROCESS: usize = 768;

/// Settings of the application controller.
#[derive(Clone)]
pub struct ApplicationOptions {
    /// Passes over different applications that run at once.
    pub concurrency: usize,
    /// Bundles that are written at once, of all applications together.
    pub writes_at_once: usize,
    /// Limits of waiting and retrying.
    pub limits: Limits,
    /// Revisions of an application that are kept beside those in use (KubeVela's `--application-revision-limit`).
    pub revision_limit: usize,
    /// Where things are counted.
    pub metrics: Metrics,
    /// Seed of the jitter in the back-off of failed passes.
    pub seed: u64,
    /// Does the work of steps that act; without one every such step fails.
    pub executor: Option<Arc<dyn Executor>>,
    /// What Applications may contain.
    pub tenancy: Tenancy,
    /// Who is told what decisions follow from.
    pub witness: Option<Witness>,
    /// What is told to who removes the namespaces of clusters.
    pub making: Making,
}

impl std::fmt::Debug for ApplicationOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApplicationOptions")
            .field("concurrency", &self.concurrency)
            .field("writes_at_once", &self.writes_at_once)
            .field("limits", &self.limits)
            .field("revision_limit", &self.revision_limit)
            .field("seed", &self.seed)
            .field("tenancy", &self.tenancy)
            .finish_non_exhaustive()
    }
}

impl Default for ApplicationOptions {
    fn default() -> Self {
        ApplicationOptions {
            concurrency: 8,
            writes_at_once: WRITES_AT_ONCE,
            limits: Limits::default(),
            revision_limit: DEFAULT_REVISION_LIMIT,
            metrics: Metrics::default(),
            seed: 0,
            executor: None,
            tenancy: Tenancy::default(),
            witness: None,
            making: Making::default(),
        }
    }
}

/// Runs until `shutdown`. What goes wrong with one application is logged and retried with back-off; the others go on. Before
/// this hub leads, and when it does not any more, everything is watched and nothing is written.
pub async fn run(
    client: Client,
    options: ApplicationOptions,
    leading: Leading,
    clock: SharedClock,
    shutdown: CancellationToken,
) {
    let cache = Cache::new(options.metrics.clone(), leading.clone());
    let cache = Arc::new(cache.sharing(options.making.clone()));
    let queue = Arc::new(Queue::default());
    read_levels(&options.metrics, &cache, &queue, &leading);
    let ready = CancellationToken::new();
    let feeding = {
        let (client, cache, queue, ready) = (client.clone(), cache.clone(), queue.clone(), ready.clone());
        async move { feed(client, &cache, &queue, &ready).await }
    };
    let terms = async {
        ready.cancelled().await;
        let seen = Arc::downgrade(&cache);
        leading.has_listed(move || seen.upgrade().map(|cache| cache.epochs()).unwrap_or_default());
        loop {
            let term = leading.begins().await;
            tokio::select! {
                biased;
                () = leading.ends(term) => {}
                () = lead(&client, &options, term, &clock, &cache, &queue) => {}
            }
            queue.clear();
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = feeding => {}
        () = terms => {}
    }
}

/// One term: nothing of it is left when it is given up.
async fn lead(
    client: &Client,
    options: &ApplicationOptions,
    term: Term,
    clock: &SharedClock,
    cache: &Arc<Cache>,
    queue: &Arc<Queue>,
) {
    let (recorder, inbox) = Recorder::new(options.metrics.clone());
    cache.make_stale();
    tokio::select! {
        biased;
        () = expire(client.clone(), cache, clock.clone()) => {}
        () = follow(client.clone(), cache, clock.clone()) => {}
        () = go_back(client.clone(), cache, term) => {}
        () = work(client, options, term, clock, cache, queue, recorder) => {}
        () = record(client.clone(), inbox) => {}
    }
}

/// Queue depth and phases are counted when somebody looks; nothing here keeps the controller's state alive. Hubs that follow tell
/// none: whoever adds the hubs up would count each application as often as there are hubs.
fn read_levels(metrics: &Metrics, cache: &Arc<Cache>, queue: &Arc<Queue>, leading: &Leading) {
    let (whole, leads) = (Arc::downgrade(cache), leading.clone());
    metrics.read_summary(move || {
        let cache = whole.upgrade().filter(|_| leads.term().is_some());
        cache.map(|cache| cache.summary()).unwrap_or_default()
    });
    let (cache, queue, leading) = (Arc::downgrade(cache), Arc::downgrade(queue), leading.clone());
    metrics.read_levels(move || {
        if leading.term().is_none() {
            return Levels::default();
        }
        let (Some(cache), Some(queue)) = (cache.upgrade(), queue.upgrade()) else {
            return Levels::default();
        };
        let (applications, steps) = cache.phases();
        Levels {
            queued: queue.depth(),
            applications,
            steps,
            clusters: cache.reach(),
            bundles: cache.tally(),
        }
    });
}

async fn work(
    client: &Client,
    options: &ApplicationOptions,
    term: Term,
    clock: &SharedClock,
    cache: &Arc<Cache>,
    queue: &Arc<Queue>,
    recorder: Recorder,
) {
    let executor = options.executor.clone().unwrap_or_else(|| Arc::new(NoExecutor));
    let hub = Arc::new(Hub {
        client: client.clone(),
        epoch: term.epoch,
        cache: cache.clone(),
        clock: clock.clone(),
        limits: options.limits,
        revision_limit: options.revision_limit,
        writes_at_once: options.writes_at_once.max(1),
        places: Semaphore::new(options.writes_at_once.max(1)),
        recorder,
        metrics: options.metrics.clone(),
        jobs: Jobs::new(executor.clone(), clock.clone()),
        watches: Watches::new(executor),
        tenancy: options.tenancy,
        witness: options.witness.clone(),
        queue: queue.clone(),
        earlier: Mutex::default(),
        fenced: Mutex::default(),
        written: Mutex::default(),
    });
    tracing::info!(epoch = hub.epoch, "applications are looked at");
    for key in hub.cache.applications() {
        queue.add(key);
    }
    let mut failures: HashMap<Key, u32> = HashMap::new();
    let mut passes: JoinSet<Result<Outcome, PassError>> = JoinSet::new();
    let mut running: HashMap<task::Id, Key> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            Some(done) = passes.join_next_with_id(), if !passes.is_empty() => {
                let (id, outcome) = match done {
                    Ok(done) => done,
                    // A defect of ours must not hold up other applications.
                    Err(error) => (error.id(), Err(PassError::Ended { reason: error.to_string() })),
                };
                if let Some(key) = running.remove(&id) {
                    if hub.cache.application(&key).is_none() {
                        queue.forget(&key);
                    }
                    let rest = rest(cache.count_of(&key));
                    settle(queue, &mut failures, options.seed, (&key, rest), outcome);
                }
                if let Some(witness) = &options.witness {
                    // Of those that go just now one may be in each pass.
                    let most = hub.cache.applications().len() + options.concurrency.max(1);
                    let what = "applications that wait for a time";
                    witness.hears(Said::Holds { what, value: queue.later(), most });
                }
            }
            key = queue.next(), if passes.len() < options.concurrency.max(1) => {
                let (hub, of) = (hub.clone(), key.clone());
                let pass = passes.spawn(async move {
                    let started = Instant::now();
                    let pass = tokio::time::timeout(PASS_TIMEOUT, hub.pass(&key)).await;
                    let pass = pass.unwrap_or_else(|_| Err(PassError::Timeout {
                        application: format!("{}/{}", key.0, key.1),
                        seconds: PASS_TIMEOUT.as_secs(),
                    }));
                    hub.metrics.pass_ended(outcome_of(&pass), started.elapsed());
                    pass
                });
                running.insert(pass.id(), of);
            }
        }
    }
}

fn outcome_of(pass: &Result<Outcome, PassError>) -> &'static str {
    let error = match pass {
        Ok(outcome) => outcome.error.as_ref(),
        Err(error) => Some(error),
    };
    match error {
        None => "done",
        Some(error) if error.is_conflict() => "conflict",
        Some(_) => "failed",
    }
}

fn settle(
    queue: &Queue,
    failures: &mut HashMap<Key, u32>,
    seed: u64,
    (key, rest): (&Key, Duration),
    outcome: Result<Outcome, PassError>,
) {
    let outcome = outcome.unwrap_or_else(|error| Outcome {
        error: Some(error),
        ..Outcome::default()
    });
    let again = match &outcome.error {
        None => {
            failures.remove(key);
            None
        }
        Some(error) => {
            let count = failures.entry(key.clone()).or_default();
            *count += 1;
            match error {
                PassError::Conflict { .. } if *count <= 5 => {
                    tracing::debug!(%error, "a newer version was there");
                    Some(CONFLICT_PAUSE)
                }
                _ => {
                    let pause = pause(seed, key, *count);
                    tracing::warn!(%error, ?pause, "a pass over an application failed");
                    Some(pause)
                }
            }
        }
    };
    queue.done(key, rest, outcome.wrote.as_deref());
    for after in [outcome.wake, again].into_iter().flatten() {
        queue.add_at(key.clone(), Instant::now() + after);
    }
}

/// How long an application of so many Bundles rests between two passes if it is alone.
fn rest(bundles: usize) -> Duration {
    REST.saturating_mul(u32::try_from(bundles).unwrap_or(u32::MAX))
}

/// Pause after the n-th failure in a row: doubled each time, less up to a quarter so that failures do not stay in step.
fn pause(seed: u64, key: &Key, count: u32) -> Duration {
    let doubled = BACKOFF
        .0
        .saturating_mul(1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX));
    let pause = doubled.min(BACKOFF.1);
    let dice = roundhouse_api::hash::sha256(format!("{seed}/{}/{}/{count}", key.0, key.1).as_bytes());
    let share = u32::from_str_radix(dice.get(..4).unwrap_or("0"), 16).unwrap_or(0);
    pause - pause.mul_f64(f64::from(share) / f64::from(u16::MAX) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An application that runs, and a Bundle of it that becomes ready.
    fn deliver(cache: &Cache, round: i64) {
        let application = serde_json::json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": round.to_string()},
            "spec": {}, "status": {"phase": "running"}});
        cache.put_application(serde_json::from_value(application).unwrap());
        let hash = format!("h{round}");
        for (version, status) in [
            (1, serde_json::Value::Null),
            (
                2,
                serde_json::json!({"hash": hash, "observedGeneration": round, "phase": "Ready"}),
            ),
        ] {
            let bundle = serde_json::json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "default.web", "namespace": "cluster-c1", "uid": "b1", "generation": round,
                    "resourceVersion": (10 * round + version).to_string()},
                "spec": {"workload": {"manifests": []}, "hash": hash,
                    "applicationRef": {"namespace": "default", "name": "web", "uid": "u1"}},
                "status": status});
            let bundle = serde_json::from_value(bundle).unwrap();
            cache.put_bundle(crate::dispatch::Observed::of(bundle).unwrap());
        }
    }

    #[test]
    fn hubs_that_follow_count_nothing_that_the_leader_counts() {
        use super::super::cache::Kind;
        let (metrics, leading) = (Metrics::default(), Leading::default());
        let cache = Arc::new(Cache::new(metrics.clone(), leading.clone()));
        let queue = Arc::new(Queue::default());
        read_levels(&metrics, &cache, &queue, &leading);
        for kind in [
            Kind::Application,
            Kind::Bundle,
            Kind::Cluster,
            Kind::Decision,
            Kind::Placement,
            Kind::Definition,
            Kind::Revision,
        ] {
            cache.listed(kind);
        }
        let counted = || {
            let text = metrics.render();
            [
                "roundhouse_applications{",
                "roundhouse_dispatch_to_ready_seconds_count{",
            ]
            .map(|series| text.lines().filter(|line| line.starts_with(series)).count())
        };
        deliver(&cache, 1);
        assert_eq!(counted(), [0, 0]);
        leading.set(Some(Term {
            epoch: 1,
            confirmed: 0,
        }));
        assert_eq!(counted(), [1, 0], "what was delivered before was the other's");
        deliver(&cache, 2);
        assert_eq!(counted(), [1, 1]);
        leading.set(None);
        assert_eq!(counted(), [0, 1]);
    }

    #[test]
    fn rests_grow_with_the_bundles() {
        let rests = [0, 1, 1_000, 1_000_000].map(|bundles| rest(bundles).as_micros());
        assert_eq!(rests, [0, 100, 100_000, 100_000_000]);
    }

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let key = |n: u32| ("ns".to_owned(), format!("app{n}"));
        for count in 1..100 {
            let pause = pause(1, &key(0), count);
            assert!(
                pause >= BACKOFF.0.mul_f64(0.75) && pause <= BACKOFF.1,
                "{count}: {pause:?}"
            );
        }
        assert!(pause(1, &key(0), 20) >= BACKOFF.1.mul_f64(0.75));
        let pauses: std::collections::BTreeSet<_> = (0..100).map(|n| pause(1, &key(n), 5)).collect();
        assert!(pauses.len() > 90);
    }
}
