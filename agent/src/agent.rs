//! The agent of one cluster: what it starts, in which order, and how it stops.

use crate::apply::Engine;
use crate::apply::latecomers::Wanted;
use crate::beginning::{Beginning, Origin};
use crate::bundle::Presence;
use crate::config::Config;
use crate::delay::{HUB_RETRY_MAX, backoff, spread};
use crate::error::{AgentError, CallError};
use crate::facts;
use crate::install;
use crate::kinds::{Kind, Kinds};
use crate::lease::Heartbeat;
use crate::ledger;
use crate::member::Member;
use crate::restart::{Restart, restarting};
use crate::vanished::Vanished;
use crate::watch::bundles::Bundles;
use crate::watch::delivered::Delivered;
use crate::watch::inbox::Inbox;
use crate::watch::kept::Kept;
use crate::watch::objects::Objects;
use crate::watch::registry::Registry;
use crate::watch::resume::resuming;
use crate::watch::{self, Steady, steady};
use crate::worker::Worker;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use parking_lot::Mutex;
use roundhouse_api::bundle::Bundle;
use roundhouse_api::clock::SharedClock;
use roundhouse_api::ledger::AppliedBundle;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// First and longest delay while the agent waits for its hub and its member at the start.
const START_MIN: Duration = Duration::from_millis(200);
const START_MAX: Duration = Duration::from_secs(5);
/// What is waited for is said again after so many tries, which is five minutes.
const SAID_AGAIN: u32 = 60;

/// What the workers of one agent share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: SharedClock,
    pub(crate) hub: Client,
    pub(crate) hub_id: String,
    pub(crate) hub_bundles: Api<DynamicObject>,
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) objects: Objects,
    /// The kind of definitions: what a bundle watches that waits for one.
    pub(crate) definitions: Arc<Kind>,
    /// The bundles of which there is no report on the hub.
    pub(crate) vanished: Arc<Vanished>,
    /// Bounds the passes that run at a time.
    pub(crate) passes: Arc<Semaphore>,
}

/// Runs the agent of one cluster until `shutdown`.
///
/// The agent serves the namespace `cluster-<name>` of the hub: it applies its Bundles in the member, reports into their
/// status, renews its Lease and writes its ClusterReport. Everything that may pass (a hub or member that is away, a
/// Lease that the hub has not made yet) is waited out; nothing is deleted for it. After `shutdown`, passes that have
/// begun are finished, up to [`Config::drain`]. The client of the member must not impersonate anybody: the agent does,
/// for bundles with an executor. Dropping the future stops everything at once, as a kill would.
///
/// # Errors
/// [`AgentError::HubChanged`] when another hub answers than at the start, [`AgentError::Defect`] when a task of the
/// agent itself broke.
pub async fn run(
    config: Config,
    hub: Client,
    member: Client,
    clock: SharedClock,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    let heartbeat = Heartbeat::new(hub.clone(), &config, Arc::clone(&clock));
    let kept = Kept::new(config.bundles_dir.as_deref(), &config.cluster);
    let Some(origin) = shutdown
        .run_until_cancelled(origin(&heartbeat, &config, kept))
        .await
    else {
        return Ok(());
    };
    let hub_id = origin.hub_id.clone();
    tracing::info!(cluster = %config.cluster, hub_id, "serving the hub");
    // Dropping this future is a kill: the guard ends the tasks that were spawned, wherever they are.
    let kill = CancellationToken::new();
    let _killed_on_drop = kill.clone().drop_guard();
    let workers = Workers {
        stop: kill.child_token(),
        kill,
        tracker: TaskTracker::new(),
        vanished: Arc::default(),
    };
    let signs = Signs {
        dead: heartbeat.given_up(),
        renewed: heartbeat.renewed(),
    };
    let work = Box::pin(serve(&config, &hub, &member, &clock, origin, signs, &workers));
    let listen = Box::pin(heartbeat.listen());
    let vanished = workers.vanished.watch();
    let facts = Box::pin(facts::report(hub.clone(), member.clone(), &config, vanished));
    let result = tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        error = heartbeat.beat(&hub_id) => Err(error),
        () = listen => Err(defect(&config, "lease")),
        () = facts => Err(defect(&config, "facts")),
        () = work => Err(defect(&config, "bundles")),
    };
    if let Err(AgentError::HubChanged { .. }) = &result {
        Kept::new(config.bundles_dir.as_deref(), &config.cluster).forget();
    }
    workers.stop.cancel();
    workers.tracker.close();
    if tokio::time::timeout(config.drain, workers.tracker.wait())
        .await
        .is_err()
    {
        tracing::warn!(cluster = %config.cluster, "stopped before every bundle was finished; the next start resumes them");
    }
    result
}

/// What the Lease shows of the hub.
struct Signs {
    /// Watches of it turned out to be dead.
    dead: tokio::sync::watch::Receiver<u64>,
    /// It has taken a renewal: it hears.
    renewed: tokio::sync::watch::Receiver<()>,
}

/// The tasks of an agent's bundles, and how they end.
struct Workers {
    /// Ends each of them after the pass that it has begun.
    stop: CancellationToken,
    /// Ends them at once.
    kill: CancellationToken,
    tracker: TaskTracker,
    /// The bundles of which there is no report on the hub.
    vanished: Arc<Vanished>,
}

impl Workers {
    /// Starts the worker of a bundle. One that breaks is begun anew, and reads its ledger from the member.
    fn start(&self, shared: &Arc<Shared>, name: String, inbox: Arc<Inbox>, stored: Option<AppliedBundle>) {
        let (stop, kill) = (self.stop.clone(), self.kill.clone());
        let config = &shared.config;
        let restart = Restart {
            min: config.retry_min,
            max: config.retry_max,
            jitter: Arc::clone(&config.jitter),
            stop: stop.clone(),
        };
        let (shared, mut stored) = (Arc::clone(shared), stored);
        let work = async move {
            let what = format!("bundle {name}");
            let begin = |broken| {
                let (shared, inbox) = (Arc::clone(&shared), Arc::clone(&inbox));
                let worker = Worker::new(shared, name.clone(), inbox, stored.take());
                Box::pin(worker.run(stop.clone(), broken > 0))
            };
            restarting(&what, restart, begin).await;
        };
        self.tracker.spawn(async move {
            kill.run_until_cancelled(work).await;
        });
    }
}

fn defect(config: &Config, task: &'static str) -> AgentError {
    let cluster = config.cluster.to_string();
    AgentError::Defect {
        cluster,
        task,
        reason: "it ended although it never should".to_owned(),
    }
}

/// Which hub this is: what its Lease says, or, while it does not answer, what the agent kept.
async fn origin(heartbeat: &Heartbeat<'_>, config: &Config, kept: Kept) -> Origin {
    let asked = hub_id(heartbeat, config);
    let hub_id = match kept.hub_id() {
        None => asked.await,
        Some(before) => match tokio::time::timeout(config.hub_patience, asked).await {
            Ok(now) => {
                if now != before {
                    kept.forget();
                }
                now
            }
            Err(_) => before,
        },
    };
    kept.remember_hub(&hub_id);
    Origin {
        hub_id,
        confirmed: heartbeat.confirmed(),
        kept,
    }
}

/// Waits until the hub has made the Lease and written its id there.
async fn hub_id(heartbeat: &Heartbeat<'_>, config: &Config) -> String {
    patiently(config, "the Lease of this cluster on the hub", || {
        heartbeat.hub_id()
    })
    .await
}

/// Tries until there is an answer.
async fn patiently<T, F>(config: &Config, what: &str, attempt: impl Fn() -> F) -> T
where
    F: Future<Output = Result<Option<T>, CallError>>,
{
    let mut tries = 0_u32;
    let mut said = String::new();
    loop {
        config.health.tick();
        match attempt().await {
            Ok(Some(answer)) => return answer,
            Ok(None) => tracing::debug!(cluster = %config.cluster, what, "not there yet"),
            Err(error) => {
                let (cluster, error) = (&config.cluster, error.message());
                // An agent that was not let in yet waits for long.
                if error != said || tries.is_multiple_of(SAID_AGAIN) {
                    tracing::warn!(%cluster, what, error, "trying again");
                }
                said = error;
            }
        }
        let delay = backoff(tries, START_MIN, START_MAX);
        tries = tries.saturating_add(1);
        tokio::time::sleep(spread(delay, 0.3, config.jitter.unit())).await;
    }
}

/// Reads the ledgers, then watches the Bundles and keeps a worker for each. Never ends by itself.
async fn serve(
    config: &Config,
    hub: &Client,
    member: &Client,
    clock: &SharedClock,
    origin: Origin,
    signs: Signs,
    workers: &Workers,
) {
    let hub_id = &origin.hub_id;
    let timeout = config.call_timeout;
    // The ledger first: what is not known to be ours is never removed. Its definition is looked for with every try: somebody
    // may take it away again.
    let ledgers = patiently(config, "the ledgers in the member", || async {
        install::definitions(member, timeout).await?;
        ledger::list(member, hub_id, timeout).await.map(Some)
    })
    .await;
    let (stop, vanished) = (&workers.stop, Arc::clone(&workers.vanished));
    let shared = Arc::new(shared(config, hub, member, clock, hub_id, stop, vanished));
    let policy = |what: String| Steady {
        what,
        resumes: false,
        min: config.retry_min,
        max: config.retry_max.min(Duration::from_secs(30)),
        jitter: Arc::clone(&config.jitter),
    };
    let known = Mutex::new(Bundles::default());
    let start = |name: String, inbox: Arc<Inbox>, stored: Option<AppliedBundle>| {
        workers.start(&shared, name, inbox, stored);
    };
    let delivered: Api<Delivered> = Api::namespaced(hub.clone(), &config.cluster.namespace());
    let begin = || {
        let known = || known.lock().known();
        resuming(
            delivered.clone(),
            known,
            signs.dead.clone(),
            config.jitter.clone(),
        )
    };
    // Nothing of a hub is looked at before it has said that it is the one.
    let (confirmed, was_confirmed) = (origin.confirmed.clone(), origin.confirmed.is_cancelled());
    let beginning = Mutex::new(Beginning::new(ledgers, origin.kept));
    let hub_policy = Steady {
        resumes: true,
        max: config.retry_max.min(HUB_RETRY_MAX),
        ..policy(format!("bundles of {}", config.cluster))
    };
    let bundles = steady(hub_policy, begin, |event| {
        let change = known.lock().take(event);
        let mut beginning = beginning.lock();
        let first = change.listed && beginning.end(change.presences.iter().map(|(name, _)| name.clone()));
        // All are told before one begins: an object may have moved between the parts of an application.
        let mut begun = Vec::new();
        for (name, presence) in change.presences {
            beginning.kept.note(&name, &presence);
            let inbox = shared.registry.tell(&name, presence);
            begun.extend(inbox.map(|inbox| (name, inbox)));
        }
        for (name, inbox) in begun {
            let stored = beginning.ledgers.remove(&name);
            start(name, inbox, stored);
        }
        if first {
            // Ledgers, and what was kept, whose Bundle the complete list does not have: their objects are held.
            for (name, stored) in beginning.unlisted() {
                if let Some(inbox) = shared.registry.tell(&name, Presence::Missing) {
                    start(name, inbox, stored);
                }
            }
        }
    });
    let bundles = async {
        confirmed.cancelled().await;
        Box::pin(bundles).await;
    };
    let without_hub = async {
        if was_confirmed {
            tokio::time::sleep(config.hub_patience).await;
        }
        let mut beginning = beginning.lock();
        for held in beginning.without_hub() {
            let name = held.name.clone();
            if let Some(inbox) = shared.registry.tell(&name, Presence::Present(held)) {
                let stored = beginning.ledgers.remove(&name);
                start(name, inbox, stored);
            }
        }
    };
    let mut renewed = signs.renewed;
    let hears = async {
        while renewed.changed().await.is_ok() {
            shared.registry.hub_hears();
        }
    };
    let registry = Arc::clone(&shared.registry);
    let what = "ledgers in the member".to_owned();
    // One that nobody works on has come back: the member was restored from a backup.
    let unclaimed = |name: &str| {
        if beginning.lock().find(name)
            && let Some(inbox) = shared.registry.tell(name, Presence::Missing)
        {
            start(name.to_owned(), inbox, None);
        }
    };
    let stored = watch::ledgers::watch(member.clone(), hub_id, registry, policy(what), unclaimed);
    let wanted = Wanted {
        registry: &shared.registry,
        member,
        hub_id,
        timeout,
    };
    let latecomers = Box::pin(shared.engine.latecomers.follow(wanted));
    futures::join!(
        Box::pin(bundles),
        Box::pin(stored),
        without_hub,
        hears,
        latecomers
    );
}

/// Everything that the workers of one agent share.
pub(crate) fn shared(
    config: &Config,
    hub: &Client,
    member: &Client,
    clock: &SharedClock,
    hub_id: &str,
    stop: &CancellationToken,
    vanished: Arc<Vanished>,
) -> Shared {
    let kinds = Arc::new(Kinds::new(member.clone(), config.call_timeout));
    let registry = Arc::new(Registry::default());
    let objects = Objects::new(
        member.clone(),
        Arc::clone(&registry),
        Arc::clone(&kinds),
        (config.retry_min, config.retry_max.min(Duration::from_secs(30))),
        Arc::clone(&config.jitter),
        stop.clone(),
    );
    let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Shared {
        clock: Arc::clone(clock),
        hub: hub.clone(),
        hub_id: hub_id.to_owned(),
        hub_bundles: Api::namespaced_with(
            hub.clone(),
            &config.cluster.namespace(),
            &ApiResource::erase::<Bundle>(&()),
        ),
        engine: Engine {
            member: Member::new(member.clone(), config.call_timeout),
            kinds,
            concurrent: config.concurrent_objects,
            unanswered: Arc::default(),
            latecomers: Arc::default(),
        },
        registry,
        objects,
        definitions: Arc::new(Kind {
            resource: ApiResource::from_gvk_with_plural(&definition, "customresourcedefinitions"),
            namespaced: false,
        }),
        vanished,
        passes: Arc::new(Semaphore::new(config.concurrent_bundles.max(1))),
        config: config.clone(),
    }
}
