//! Watches on the objects that steps wait for: they only say that another look may be worth while, and the looks by
//! back-off go on without them.

use super::{
    Executor, Job,
    jobs::{Execution, Key},
};
use futures::StreamExt;
use parking_lot::Mutex;
use roundhouse_api::bundle::ApplicationRef;
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
        let key = Key::of(job);
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

    /// The steps with these executions whose objects may have changed since they were looked at last.
    pub(crate) fn changed(
        &self,
        application: &ApplicationRef,
        open: &BTreeMap<Execution, u32>,
    ) -> BTreeSet<String> {
        let all = self.all.lock();
        let own = all
            .iter()
            .filter(|(key, _)| key.uid == application.uid && open.contains_key(&key.execution));
        own.filter(|(_, watch)| watch.changed.load(Ordering::Acquire))
            .map(|(key, _)| key.execution.1.clone())
            .collect()
    }

    /// Gives up the watches of an application, but for those of these executions.
    pub(crate) fn retain(&self, application: &ApplicationRef, open: &BTreeMap<Execution, u32>) {
        let keep = |key: &Key| key.uid == application.uid && open.contains_key(&key.execution);
        let of = |key: &Key| key.is_named(&application.namespace, &application.name);
        self.all.lock().retain(|key, _| !of(key) || keep(key));
    }

    /// Gives up all watches of an application that is gone or goes.
    pub(crate) fn give_up(&self, namespace: &str, application: &str) {
        self.all
            .lock()
            .retain(|key, _| !key.is_named(namespace, application));
    }
}
