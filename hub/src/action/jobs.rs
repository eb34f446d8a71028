//! The jobs that run, and the outcomes until their steps have taken them in.
//!
//! Nothing of it is stored: after a restart what was under way runs again, with the same key.

use super::{Executor, Job, Outcome};
use jiff::Timestamp;
use parking_lot::Mutex;
use roundhouse_api::{application::ActionProperties, bundle::ApplicationRef, clock::SharedClock};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Weak},
};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

/// Jobs that ask the hub's own API and run at the same time, over all applications; others wait for their turn.
const CONCURRENT: usize = 16;
/// Those that ask somebody else, who may be slow.
const CONCURRENT_WEB: usize = 64;
/// Those of one application, of either kind, so that its slow ones leave room for others'.
const OF_ONE: usize = 4;
/// Those of one namespace.
const OF_NAMESPACE: usize = 12;

/// The run and the step.
pub(crate) type Execution = (String, String);

/// Whose execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    namespace: String,
    application: String,
    pub(super) uid: String,
    pub(super) execution: Execution,
}

impl Key {
    pub(super) fn new(application: &ApplicationRef, execution: Execution) -> Key {
        Key {
            namespace: application.namespace.clone(),
            application: application.name.clone(),
            uid: application.uid.clone(),
            execution,
        }
    }

    pub(super) fn of(job: &Job) -> Key {
        Key::new(&job.application, (job.run.clone(), job.step.clone()))
    }

    fn is_of(&self, application: &ApplicationRef) -> bool {
        self.uid == application.uid && self.is_named(&application.namespace, &application.name)
    }

    /// Whether the application has this name, whichever of that name it is.
    pub(super) fn is_named(&self, namespace: &str, application: &str) -> bool {
        self.namespace == namespace && self.application == application
    }
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Came {
    /// The number of the execution.
    pub(crate) attempt: u32,
    /// When it was over.
    pub(crate) at: Timestamp,
    pub(crate) outcome: Outcome,
}

/// The jobs of a step.
#[derive(Debug)]
struct Known {
    /// The number of the last execution that was started.
    attempt: u32,
    /// It, as long as it is not over.
    under_way: Option<AbortHandle>,
    /// What came of the last one that is over; kept while the next one is under way.
    came: Option<Came>,
}

/// Starts jobs and keeps their outcomes.
pub(crate) struct Jobs {
    executor: Arc<dyn Executor>,
    clock: SharedClock,
    api: Slots,
    web: Slots,
    /// By step.
    known: Arc<Mutex<HashMap<Key, Known>>>,
    /// Ends them all when the hub ends.
    tasks: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}

impl Jobs {
    pub(crate) fn new(executor: Arc<dyn Executor>, clock: SharedClock) -> Jobs {
        Jobs {
            executor,
            clock,
            api: Slots::new(CONCURRENT),
            web: Slots::new(CONCURRENT_WEB),
            known: Arc::default(),
            tasks: Mutex::default(),
        }
    }

    /// Whether starting this job starts anything: it is neither under way nor over.
    pub(crate) fn is_new(&self, job: &Job) -> bool {
        let known = self.known.lock();
        known
            .get(&Key::of(job))
            .is_none_or(|known| known.attempt != job.attempt)
    }

    /// Starts a job that is not under way or over; `done` is called when it is over. A job of an earlier execution of the
    /// same step is given up.
    pub(crate) fn start(&self, job: Job, done: impl FnOnce() + Send + 'static) {
        let key = Key::of(&job);
        let attempt = job.attempt;
        let mut known = self.known.lock();
        let mut came = None;
        match known.get_mut(&key) {
            Some(known) if known.attempt == attempt => return,
            Some(earlier) => {
                came = earlier.came.take();
                if let Some(task) = &earlier.under_way {
                    task.abort();
                }
            }
            None => {}
        }
        let (executor, outcomes, clock) = (self.executor.clone(), self.known.clone(), self.clock.clone());
        let mut tasks = self.tasks.lock();
        // What is over needs no place.
        while tasks.try_join_next().is_some() {}
        let of = key.clone();
        let slots = match asks_the_web(&job.action) {
            true => &self.web,
            false => &self.api,
        };
        let places = slots.places(&key);
        let task = tasks.spawn(async move {
            let mut held = Vec::new();
            for place in places {
                let Ok(permit) = place.acquire_owned().await else {
                    return;
                };
                held.push(permit);
            }
            // A defect of an executor must not hold the step up for good.
            let run = tokio::spawn(async move { executor.run(job).await });
            let run = AbortOnDrop(run);
            let outcome = run.outcome().await;
            let mut outcomes = outcomes.lock();
            if let Some(known) = outcomes.get_mut(&of).filter(|known| known.attempt == attempt) {
                let at = clock.now();
                known.under_way = None;
                known.came = Some(Came { attempt, at, outcome });
                drop(outcomes);
                done();
            }
        });
        let job = Known {
            attempt,
            under_way: Some(task),
            came,
        };
        known.insert(key, job);
    }

    /// Notes what came of an execution that needed no job.
    pub(crate) fn note(
        &self,
        application: &ApplicationRef,
        execution: Execution,
        attempt: u32,
        outcome: Outcome,
    ) {
        let key = Key::new(application, execution);
        let at = self.clock.now();
        let noted = Known {
            attempt,
            under_way: None,
            came: Some(Came { attempt, at, outcome }),
        };
        self.known.lock().insert(key, noted);
    }

    /// What came of an application's jobs: of each step the last one that is over.
    pub(crate) fn outcomes(&self, application: &ApplicationRef) -> BTreeMap<Execution, Came> {
        let known = self.known.lock();
        let own = known.iter().filter(|(key, _)| key.is_of(application));
        own.filter_map(|(key, known)| Some((key.execution.clone(), known.came.clone()?)))
            .collect()
    }

    /// The steps with these executions that have a job under way.
    pub(crate) fn under_way(
        &self,
        application: &ApplicationRef,
        open: &BTreeMap<Execution, u32>,
    ) -> Vec<String> {
        let known = self.known.lock();
        let own = known
            .iter()
            .filter(|(key, _)| key.is_of(application) && open.contains_key(&key.execution));
        own.filter(|(_, known)| known.under_way.is_some())
            .map(|(key, _)| key.execution.1.clone())
            .collect()
    }

    /// Gives up what is known of an application and of those that had its name before, but for these executions and later ones
    /// of the same steps.
    pub(crate) fn retain(&self, application: &ApplicationRef, wanted: &BTreeMap<Execution, u32>) {
        self.retain_if(&application.namespace, &application.name, |key, attempt| {
            let first = wanted.get(&key.execution);
            key.uid == application.uid && first.is_some_and(|first| attempt >= *first)
        });
    }

    /// Gives up what is known of an application that is gone or goes.
    pub(crate) fn give_up(&self, namespace: &str, application: &str) {
        self.retain_if(namespace, application, |_, _| false);
    }

    fn retain_if(&self, namespace: &str, application: &str, keep: impl Fn(&Key, u32) -> bool) {
        self.known.lock().retain(|key, known| {
            let keep = !key.is_named(namespace, application) || keep(key, known.attempt);
            if let (false, Some(task)) = (keep, &known.under_way) {
                task.abort();
            }
            keep
        });
    }
}

/// Whether a job asks somebody else than the hub's API.
fn asks_the_web(action: &ActionProperties) -> bool {
    match action {
        ActionProperties::Request(_) | ActionProperties::Webhook(_) | ActionProperties::Notification(_) => {
            true
        }
        ActionProperties::ApplyObject(_)
        | ActionProperties::ReadObject(_)
        | ActionProperties::DeleteObject(_)
        | ActionProperties::LookAt(_) => false,
    }
}

/// Places for jobs of one kind.
struct Slots {
    all: Arc<Semaphore>,
    /// Of applications and of namespaces, as long as they have jobs.
    shares: Mutex<HashMap<Share, Weak<Semaphore>>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Share {
    /// By its uid.
    Application(String),
    Namespace(String),
}

impl Slots {
    fn new(all: usize) -> Slots {
        Slots {
            all: Arc::new(Semaphore::new(all)),
            shares: Mutex::default(),
        }
    }

    /// The places that a job needs, each taken before the next: who waits for the last one holds up only its own.
    fn places(&self, key: &Key) -> [Arc<Semaphore>; 3] {
        let mut shares = self.shares.lock();
        shares.retain(|_, share| share.strong_count() > 0);
        let mut share = |of: Share, size: usize| {
            let known = shares.get(&of).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let share = Arc::new(Semaphore::new(size));
                shares.insert(of, Arc::downgrade(&share));
                share
            })
        };
        [
            share(Share::Application(key.uid.clone()), OF_ONE),
            share(Share::Namespace(key.namespace.clone()), OF_NAMESPACE),
            self.all.clone(),
        ]
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<Outcome>);

impl AbortOnDrop {
    async fn outcome(mut self) -> Outcome {
        match (&mut self.0).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed {
                message: format!("the execution broke off: {error}"),
                output: None,
            },
        }
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use roundhouse_api::application::ActionProperties;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    /// Counts, and ends when it is told.
    #[derive(Default)]
    struct Counting {
        started: AtomicUsize,
        go: Arc<Notify>,
    }

    impl Executor for Arc<Counting> {
        fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
            self.started.fetch_add(1, Ordering::SeqCst);
            let go = self.go.clone();
            Box::pin(async move {
                go.notified().await;
                assert_ne!(job.step, "breaks", "a defect");
                Outcome::Done {
                    output: json!(job.idempotency_key()),
                }
            })
        }
    }

    /// An application named as its uid, in a namespace of that name.
    fn application(uid: &str) -> ApplicationRef {
        ApplicationRef {
            namespace: uid.to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn job(uid: &str, step: &str, attempt: u32) -> Job {
        Job {
            application: application(uid),
            revision: "app-v1".to_owned(),
            run: "r".to_owned(),
            step: step.to_owned(),
            attempt,
            before: None,
            action: ActionProperties::read("notification", &json!({})).unwrap(),
        }
    }

    fn of(run: &str, step: &str) -> Execution {
        (run.to_owned(), step.to_owned())
    }

    /// By step: of one run.
    fn outcomes(jobs: &Jobs, uid: &str) -> BTreeMap<String, (u32, Outcome)> {
        let outcomes = jobs.outcomes(&application(uid)).into_iter();
        outcomes
            .map(|((run, step), came)| {
                assert_eq!((run.as_str(), came.at), ("r", Timestamp::UNIX_EPOCH));
                (step, (came.attempt, came.outcome))
            })
            .collect()
    }

    /// Jobs at one and the same time.
    fn jobs(counting: &Arc<Counting>) -> Jobs {
        #[derive(Debug)]
        struct Still;
        impl roundhouse_api::clock::Clock for Still {
            fn now(&self) -> Timestamp {
                Timestamp::UNIX_EPOCH
            }
        }
        Jobs::new(Arc::new(counting.clone()), Arc::new(Still))
    }

    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_job_runs_once_and_its_outcome_stays_until_it_is_given_up() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        let woken = Arc::new(AtomicUsize::new(0));
        let start = |job: Job| {
            let woken = woken.clone();
            jobs.start(job, move || {
                woken.fetch_add(1, Ordering::SeqCst);
            });
        };
        for _ in 0..3 {
            start(job("u", "a", 1));
            settle().await;
        }
        assert_eq!(counting.started.load(Ordering::SeqCst), 1);
        assert_eq!(outcomes(&jobs, "u"), BTreeMap::new());
        counting.go.notify_waiters();
        settle().await;
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        let done = |key: &str| Outcome::Done { output: json!(key) };
        assert_eq!(
            outcomes(&jobs, "u"),
            BTreeMap::from([("a".to_owned(), (1, done("u/r/a")))])
        );
        start(job("u", "a", 1));
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), 1, "it is over");
        // The next execution takes its place when it is over, and no sooner.
        let open = BTreeMap::from([(of("r", "a"), 1)]);
        assert_eq!(jobs.under_way(&application("u"), &open), [""; 0]);
        start(job("u", "a", 2));
        settle().await;
        assert_eq!(outcomes(&jobs, "u")["a"], (1, done("u/r/a")));
        assert_eq!(jobs.under_way(&application("u"), &open), ["a"]);
        counting.go.notify_waiters();
        settle().await;
        assert_eq!(outcomes(&jobs, "u")["a"], (2, done("u/r/a")));
        assert_eq!(jobs.under_way(&application("u"), &open), [""; 0]);
        for wanted in [1, 2] {
            jobs.retain(&application("u"), &BTreeMap::from([(of("r", "a"), wanted)]));
            assert_eq!(outcomes(&jobs, "u").len(), 1);
        }
        jobs.retain(&application("u"), &BTreeMap::from([(of("r", "a"), 3)]));
        assert_eq!(outcomes(&jobs, "u").len(), 0, "what is asked for comes after it");
        start(job("u", "a", 3));
        settle().await;
        jobs.retain(&application("u"), &BTreeMap::from([(of("later", "a"), 2)]));
        assert_eq!(outcomes(&jobs, "u").len(), 0);
    }

    #[tokio::test]
    async fn a_job_that_is_given_up_or_breaks_off_leaves_others_alone() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        for step in ["breaks", "given-up", "stays"] {
            jobs.start(job("u", step, 1), || {});
        }
        jobs.start(job("other", "stays", 1), || {});
        settle().await;
        let wanted = BTreeMap::from([(of("r", "breaks"), 1), (of("r", "stays"), 1)]);
        jobs.retain(&application("u"), &wanted);
        counting.go.notify_waiters();
        settle().await;
        let own = outcomes(&jobs, "u");
        assert_eq!(own.keys().collect::<Vec<_>>(), ["breaks", "stays"]);
        assert!(matches!(&own["breaks"].1, Outcome::Failed { message, .. } if message.contains("broke off")));
        assert_eq!(outcomes(&jobs, "other").len(), 1);
    }

    #[tokio::test]
    async fn an_application_that_is_gone_has_no_jobs() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        for step in 0..OF_ONE + 1 {
            jobs.start(job("u", &format!("s{step}"), 1), || {});
        }
        jobs.start(job("other", "s", 1), || {});
        settle().await;
        jobs.give_up("u", "u");
        settle().await;
        counting.go.notify_waiters();
        settle().await;
        assert_eq!(
            counting.started.load(Ordering::SeqCst),
            OF_ONE + 1,
            "what waited for its turn is not started"
        );
        assert_eq!(outcomes(&jobs, "u"), BTreeMap::new());
        assert_eq!(outcomes(&jobs, "other").len(), 1);
        assert_eq!(jobs.known.lock().len(), 1);
    }

    #[tokio::test]
    async fn only_so_many_run_at_a_time() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        for n in 0..CONCURRENT_WEB + 5 {
            jobs.start(job(&format!("u{n}"), "s", 1), || {});
        }
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), CONCURRENT_WEB);
        counting.go.notify_waiters();
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), CONCURRENT_WEB + 5);
    }

    #[tokio::test]
    async fn who_waits_for_the_web_holds_up_neither_other_namespaces_nor_objects_on_the_hub() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        let of_one_namespace = |n: usize| {
            let mut job = job(&format!("u{n}"), "s", 1);
            job.application.namespace = "team".to_owned();
            job
        };
        for n in 0..2 * CONCURRENT_WEB {
            jobs.start(of_one_namespace(n), || {});
        }
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), OF_NAMESPACE);
        jobs.start(job("other", "s", 1), || {});
        let mut reads = of_one_namespace(0);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"});
        reads.step = "reads".to_owned();
        reads.action = ActionProperties::read("read-object", &object).unwrap();
        jobs.start(reads, || {});
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), OF_NAMESPACE + 2);
    }

    #[tokio::test]
    async fn one_application_leaves_room_for_others() {
        let counting = Arc::new(Counting::default());
        let jobs = jobs(&counting);
        for n in 0..CONCURRENT {
            jobs.start(job("u", &format!("s{n}"), 1), || {});
        }
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), OF_ONE);
        jobs.start(job("other", "s", 1), || {});
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), OF_ONE + 1);
        // Those that wait come next.
        counting.go.notify_waiters();
        settle().await;
        assert_eq!(counting.started.load(Ordering::SeqCst), 2 * OF_ONE + 1);
        assert_eq!(jobs.web.shares.lock().len(), 4);
        jobs.retain(&application("u"), &BTreeMap::new());
        counting.go.notify_waiters();
        settle().await;
        jobs.start(job("third", "s", 1), || {});
        assert_eq!(
            jobs.web.shares.lock().len(),
            2,
            "nothing is kept of those that are done"
        );
    }
}
