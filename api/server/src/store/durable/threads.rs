//! The threads of a durable store.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, Thread},
    time::{Duration, Instant},
};

use super::Shared;
use crate::store::journal::make_spare;

/// Time between two looks at a disk that was full.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time between two looks at what can be dropped; new segments are told at once.
const COMPACT_EVERY: Duration = Duration::from_secs(60);

/// How long a Lease that is renewed waits for other writes, which end the wait, or for other such Leases. Much shorter than
/// anybody's deadline to renew one.
const COMPANY: Duration = Duration::from_millis(100);

/// How often dropping segments is passed over after a base could not be written.
const PASSED_OVER: u32 = 60;

/// Ends and joins the threads when dropped.
pub(super) struct Threads {
    shared: Arc<Shared>,
    work: Arc<Work>,
    joins: Vec<JoinHandle<()>>,
}

/// What the threads know of each other.
#[derive(Default)]
struct Work {
    closing: AtomicBool,
    commits: OnceLock<Thread>,
    keeps: OnceLock<Thread>,
    drops: OnceLock<Thread>,
}

impl Work {
    fn ends(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn wake(thread: &OnceLock<Thread>) {
        if let Some(thread) = thread.get() {
            thread.unpark();
        }
    }
}

impl Threads {
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut threads = Self {
            shared: shared.clone(),
            work: Arc::default(),
            joins: vec![],
        };
        let work = threads.work.clone();
        threads.spawn("store-room", keep, &work.keeps)?;
        threads.spawn("store-drop", drop_old, &work.drops)?;
        shared.spares.kept(work.keeps.get().cloned());
        threads.spawn("store-commit", commit, &work.commits)?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, body: fn(&Shared, &Work), known: &OnceLock<Thread>) -> io::Result<()> {
        let (shared, work) = (self.shared.clone(), self.work.clone());
        let builder = thread::Builder::new().name(name.to_owned());
        let join = builder.spawn(move || body(&shared, &work))?;
        known.get_or_init(|| join.thread().clone());
        self.joins.push(join);
        Ok(())
    }

    /// Tells that something was queued.
    pub(super) fn wake(&self) {
        Work::wake(&self.work.commits);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.work.closing.store(true, Ordering::Release);
        self.shared.spares.kept(None);
        for join in &self.joins {
            join.thread().unpark();
        }
        for join in self.joins.drain(..) {
            if join.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
    }
}

fn commit(shared: &Shared, work: &Work) {
    let mut held = false;
    loop {
        gather(shared, work);
        // Before the queue is looked at: what was queued before the end is committed.
        let ends = work.ends();
        let committed = match shared.try_commit() {
            Some(Err(error)) => {
                tracing::warn!(%error, "writes wait for room on the disk");
                held = true;
                shared.note_held(held);
                if ends {
                    return;
                }
                thread::park_timeout(LOOK_EVERY);
                continue;
            }
            Some(Ok(committed)) => Some(committed),
            None => None,
        };
        if std::mem::take(&mut held) {
            shared.note_held(held);
        }
        if shared.spares.wanted() {
            Work::wake(&work.keeps);
            Work::wake(&work.drops);
        }
        match committed {
            Some(true) => {}
            Some(false) if ends || shared.has_ended() => return,
            // Who is at it wakes this thread if there is more to do.
            Some(false) | None => thread::park(),
        }
    }
}

/// Lets what can wait for company do so.
#[expect(
    clippy::disallowed_methods,
    reason = "the threads of a store live in real time"
)]
fn gather(shared: &Shared, work: &Work) {
    let began = Instant::now();
    while !work.ends() && shared.can_wait() {
        let left = COMPANY.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

fn keep(shared: &Shared, work: &Work) {
    while !work.ends() {
        let full = shared.make_spare();
        if full {
            // What it drops may make room.
            Work::wake(&work.drops);
        }
        thread::park_timeout(if full { LOOK_EVERY } else { COMPACT_EVERY });
    }
}

fn drop_old(shared: &Shared, work: &Work) {
    while !work.ends() {
        shared.drop_old();
        thread::park_timeout(COMPACT_EVERY);
    }
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.inner.read().ended
    }

    /// Makes a spare where one is wanted. Returns whether the disk is full.
    fn make_spare(&self) -> bool {
        if self.spares.wanted() && !self.has_ended() {
            match make_spare(&*self.disk, &self.spares, self.options.segment_bytes) {
                Ok(()) => {}
                Err(error) if error.is_sync() => {
                    self.end(error);
                    return false;
                }
                Err(error) => tracing::debug!(%error, "no segment could be made in advance"),
            }
        }
        let why = self.spares.full();
        let full = why.is_some();
        self.note_room(why);
        full
    }

    /// Drops segments that nothing needs any more.
    fn drop_old(&self) {
        let passed_over = self.passed_over.load(Ordering::Relaxed);
        if passed_over > 0 {
            self.passed_over.store(passed_over - 1, Ordering::Relaxed);
            return;
        }
        match self.compact() {
            Ok(_) => {}
            Err(error) if error.is_sync() => self.end(error),
            Err(error) => {
                tracing::warn!(%error, "old segments of the journal could not be dropped; they stay for now");
                self.passed_over.store(PASSED_OVER, Ordering::Relaxed);
            }
        }
    }

    /// One round of both, where there are no threads. Returns whether the disk is full.
    pub(super) fn keep_room(&self) -> bool {
        self.make_spare();
        self.drop_old();
        // What was dropped may have made room.
        self.make_spare()
    }
}
