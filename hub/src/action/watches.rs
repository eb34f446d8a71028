//! Watches on the objects that steps wait for: they only say that another look may be worth while, and the looks by
//! back-off go on without them.

use super::{Executor, Job};
use futures::StreamExt;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::task::AbortHandle;

/// Objects that are watched at the same time, over all applications; others are looked at by back-off alone.
const MOST: usize = 64;

/// The application's uid, the run, the step.
type Key = (String, String, String);

#[derive(Debug)]
struct Watch {
    /// Whether the object may have changed since it was looked at last.
    changed: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Which objects have changed that steps wait for.
pub(crate) struct Watches {
    executor: Arc<dyn Executor>,
    all: Mutex<HashMap<Key, Watch>>,
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl Watches {
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Watches {
        Watches {
            executor,
            all: Mutex::default(),
        }
    }

    /// A job looks at its object now: what was known of it is over, and `wake` is called when it changes.
    pub(crate) fn look(&self, job: &Job, wake: impl Fn() + Send + 'static) {
        let key = (job.application.uid.clone(), job.run.clone(), job.step.clone());
        let mut all = self.all.lock();
        if let Some(watch) = all.get(&key) {
            watch.changed.store(false, Ordering::Release);
            return;
        }
        if all.len() >= MOST {
            return;
        }
        let changed = Arc::new(AtomicBool::new(false));
        let mut changes = self.executor.changes(job);
        let told = changed.clone();
        let task = tokio::spawn(async move {
            while changes.next().await.is_some() {
                told.store(true, Ordering::Release);
                wake();
            }
        });
        let task = task.abort_handle();
        all.insert(key, Watch { changed, task });
    }

    /// The steps of a run whose objects may have changed since they were looked at last.
    pub(crate) fn changed(&self, uid: &str, run: &str) -> BTreeSet<String> {
        let all = self.all.lock();
        let own = all.iter().filter(|((u, r, _), _)| u == uid && r == run);
        own.filter(|(_, watch)| watch.changed.load(Ordering::Acquire))
            .map(|((_, _, step), _)| step.clone())
            .collect()
    }

    /// Gives up the watches of an application, but for those of these steps of this run.
    pub(crate) fn retain(&self, uid: &str, run: &str, wanted: &BTreeMap<String, u32>) {
        let mut all = self.all.lock();
        all.retain(|(u, r, step), _| u != uid || (r == run && wanted.contains_key(step)));
    }
}
