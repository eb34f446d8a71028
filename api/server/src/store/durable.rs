//! The store of a hub: what it answered survives the process.
//!
//! A write changes the objects in memory and joins the queue; one thread takes what has queued up, writes it to the journal
//! in one durable step (group commit), and settles it: tells the watchers, and lets the answers go. A second thread keeps
//! room: it makes segments in advance. A third one drops those that are no longer needed. Leases that are renewed wait a
//! moment for company: a fleet's heartbeats share durable steps, and the wake-ups of those who are told.
//!
//! Where the disk has no room for another segment, writes are refused and reads go on; once there is room, it goes on by
//! itself. Leases go on, too: first in what room is left for them, then unwritten. Where the disk fails, nothing is tried
//! again: every write is refused from then on, and [`DurableStore::failed`] tells the process to end.

mod full;
#[cfg(test)]
mod tests;
mod threads;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, atomic::AtomicU32},
};

use futures::executor::block_on;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{oneshot, watch},
    task::unconstrained,
};

use self::{full::Admitted, threads::Threads};
use super::{
    Change, Event, Expect, From, Gauge, Key, Listing, Range, Record, Settling, Store, StoreLimits,
    Subscription, TooOld, Unsettled, WriteError,
    disk::{Disk, Folder},
    journal::{
        self, Journal, JournalError, Place, Recovered, Segment, Spares, drop_segments, size, write_base,
    },
    memory::FIRST_REVISION,
    state::State,
};

/// How a [`DurableStore`] is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableOptions {
    /// Bounds of what is in memory beside the objects.
    pub limits: StoreLimits,
    /// Bytes of a segment of the journal.
    pub segment_bytes: u64,
    /// Writes that may wait for the disk before [`Store::is_busy`].
    pub queue_writes: usize,
    /// Bytes that may wait for the disk before [`Store::is_busy`].
    pub queue_bytes: usize,
}

impl Default for DurableOptions {
    fn default() -> Self {
        Self {
            limits: StoreLimits::default(),
            segment_bytes: 16 << 20,
            queue_writes: 8_192,
            queue_bytes: 64 << 20,
        }
    }
}

/// Where heartbeats and elections are.
const LEASES: &str = "leases.coordination.k8s.io";

/// Leases may wait for the disk where other writes come back later, until this many times as much waits.
const WITH_LEASES: usize = 2;

impl DurableOptions {
    /// Writes that may wait for the disk before [`Store::is_very_busy`].
    fn most_writes(&self) -> usize {
        self.queue_writes.saturating_mul(WITH_LEASES)
    }

    /// Bytes that may.
    fn most_bytes(&self) -> usize {
        self.queue_bytes.saturating_mul(WITH_LEASES)
    }
}

/// Why a store ended by itself.
pub type Failure = Arc<JournalError>;

/// Segments that are dropped together at least, so that a base is not written for each of them.
const DROPPED_TOGETHER: u64 = 4;

/// From so many waiters on, those that were given up are looked for.
const MANY_WAITERS: usize = 4_096;

/// Objects in memory and in a journal. One process at a time has a directory.
pub struct DurableStore {
    shared: Arc<Shared>,
    /// None where [`DurableStore::step`] does their work.
    threads: Option<Threads>,
}

impl std::fmt::Debug for DurableStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableStore")
            .field("place", &self.shared.disk.place())
            .finish_non_exhaustive()
    }
}

/// What the store and its threads share.
struct Shared {
    disk: Arc<dyn Disk>,
    options: DurableOptions,
    spares: Arc<Spares>,
    inner: RwLock<Inner>,
    journal: Mutex<Journal>,
    /// Segments in their order, the one that is written last.
    segments: Mutex<Vec<Segment>>,
    /// How often dropping segments is passed over yet.
    passed_over: AtomicU32,
    store: u128,
    failure: watch::Sender<Option<Failure>>,
}

struct Inner {
    state: State,
    /// Writes that no commit has taken yet.
    queue: Vec<Queued>,
    /// Whether any of them cannot wait for company.
    presses: bool,
    /// Writes that are not settled, those that a commit has taken included.
    unsettled: usize,
    unsettled_bytes: usize,
    waiters: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    waiters_made: u64,
    /// Bytes that surely can be written yet.
    room: u64,
    full: full::Full,
    ended: bool,
}

/// A write on its way to the disk.
#[derive(Debug, Clone)]
struct Queued {
    event: Arc<Event>,
    /// Whether it goes without the disk: a Lease, on a full one.
    unwritten: bool,
}

impl DurableStore {
    /// The store in a directory, which is made if absent.
    ///
    /// # Errors
    /// If another process has the directory, the disk refuses, or anything that was acknowledged is missing or damaged: the
    /// error tells the file and the place in it.
    pub fn open(path: &Path, options: DurableOptions) -> Result<Self, JournalError> {
        Self::on(Arc::new(Folder::open(path)?), options)
    }

    /// The store on a disk.
    ///
    /// # Errors
    /// As of [`DurableStore::open`].
    pub fn on(disk: Arc<dyn Disk>, options: DurableOptions) -> Result<Self, JournalError> {
        let shared = Arc::new(Shared::open(disk, options)?);
        let threads = Threads::start(&shared).map_err(|source| JournalError::Io {
            what: "start the threads of",
            place: shared.disk.place(),
            file: String::new(),
            source,
        })?;
        Ok(Self {
            shared,
            threads: Some(threads),
        })
    }

    /// The store on a disk, without threads: nothing is written but by [`DurableStore::step`], so that what happens, and
    /// when, is up to the caller. For simulations, where time is not the machine's.
    ///
    /// # Errors
    /// As of [`DurableStore::open`].
    pub fn without_threads(disk: Arc<dyn Disk>, options: DurableOptions) -> Result<Self, JournalError> {
        let shared = Arc::new(Shared::open(disk, options)?);
        Ok(Self {
            shared,
            threads: None,
        })
    }

    /// Does once what the threads do all the time: writes to the disk what has queued up, settles it, and keeps room for
    /// what follows. Returns whether writes wait for room: then the same is to be tried again later.
    pub fn step(&self) -> bool {
        let held = match self.shared.try_commit() {
            Some(Err(error)) => {
                tracing::debug!(%error, "writes wait for room on the disk");
                true
            }
            Some(Ok(_)) | None => false,
        };
        self.shared.note_held(held);
        let full = self.shared.spares.wanted() && self.shared.keep_room();
        held || full
    }

    /// Waits until the disk has failed for good, and says how. The process should end then: a restart finds everything
    /// that was acknowledged.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.shared.failure.subscribe();
        loop {
            if let Some(failure) = failure.borrow_and_update().clone() {
                return failure;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn wake(&self) {
        if let Some(threads) = &self.threads {
            threads.wake();
        }
    }

    /// Whether nothing was ever written.
    pub fn is_new(&self) -> bool {
        self.revision() == FIRST_REVISION
    }

    /// The identity of this store: the same as long as its journal goes on, also in a backup of it.
    pub fn identity(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.shared.store)
    }
}

impl Shared {
    fn open(disk: Arc<dyn Disk>, options: DurableOptions) -> Result<Self, JournalError> {
        let mut recovered = journal::recover(&*disk, options.limits)?;
        let spares = Arc::new(Spares::default());
        let journal = Journal::go_on(
            disk.clone(),
            spares.clone(),
            options.segment_bytes,
            &mut recovered,
        )?;
        let Recovered { state, segments, .. } = recovered;
        Ok(Self {
            store: journal.store(),
            inner: RwLock::new(Inner {
                state,
                queue: vec![],
                presses: false,
                unsettled: 0,
                unsettled_bytes: 0,
                waiters: BTreeMap::new(),
                waiters_made: 0,
                room: journal.room(),
                full: full::Full::default(),
                ended: false,
            }),
            journal: Mutex::new(journal),
            segments: Mutex::new(segments),
            passed_over: AtomicU32::new(0),
            spares,
            disk,
            options,
            failure: watch::Sender::new(None),
        })
    }

    /// Makes what has queued up durable and settles it. Returns whether there was anything; `None` if somebody else is at it,
    /// who then wakes the thread for what has queued up meanwhile.
    ///
    /// # Errors
    /// Where the disk is full: nothing is lost, and the same writes are next again. Where it fails for good, the store has
    /// ended and this says that there was nothing.
    fn try_commit(&self) -> Option<Result<bool, JournalError>> {
        // Held from here: writes go to the journal in the order in which they leave the queue.
        let mut journal = self.journal.try_lock()?;
        Some(self.commit_to(&mut journal))
    }

    fn commit_to(&self, journal: &mut Journal) -> Result<bool, JournalError> {
        let batch = {
            let mut inner = self.inner.write();
            if inner.ended || inner.queue.is_empty() {
                return Ok(false);
            }
            inner.presses = false;
            std::mem::take(&mut inner.queue)
        };
        let mut rest = &batch[..];
        while !rest.is_empty() {
            match self.commit_some(journal, rest) {
                Ok(done) => rest = rest.get(done..).unwrap_or_default(),
                Err(error) if error.is_full() => {
                    let mut inner = self.inner.write();
                    inner.queue.splice(0..0, rest.iter().cloned());
                    inner.presses = true;
                    // Nobody should wait for somebody else to make room.
                    inner.waiters.clear();
                    return Err(error);
                }
                Err(error) => {
                    self.end(error);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The first of some writes; how many of them.
    fn commit_some(&self, journal: &mut Journal, rest: &[Queued]) -> Result<usize, JournalError> {
        let first_is_unwritten = rest.first().is_some_and(|queued| queued.unwritten);
        let alike = rest
            .iter()
            .take_while(|queued| queued.unwritten == first_is_unwritten)
            .map(|queued| queued.event.clone());
        let events: Vec<_> = alike.collect();
        let taken = if first_is_unwritten {
            self.go_without(journal, &events)?;
            events.len()
        } else {
            self.catch_up(journal)?;
            self.write_out(journal, &events)?
        };
        self.settle_all(events.get(..taken).unwrap_or_default(), journal.room());
        self.spares.settled();
        Ok(taken)
    }

    /// Whether there is something to commit, and nothing of it that cannot wait for company.
    fn can_wait(&self) -> bool {
        let inner = self.inner.read();
        !inner.presses && !inner.queue.is_empty()
    }

    /// Whether there is anything to do for the thread that commits.
    fn leaves_work(&self) -> bool {
        self.spares.wanted() || !self.inner.read().queue.is_empty()
    }

    /// One durable step.
    fn write_out(&self, journal: &mut Journal, events: &[Arc<Event>]) -> Result<usize, JournalError> {
        let (taken, begun) = journal.append(events)?;
        self.segments.lock().extend(begun);
        Ok(taken)
    }

    fn settle_all(&self, events: &[Arc<Event>], room: u64) {
        let mut inner = self.inner.write();
        inner.room = room;
        for event in events {
            inner.state.settle(event);
            inner.unsettled -= 1;
            inner.unsettled_bytes -= size(event);
        }
        let later = inner.state.settled.saturating_add(1);
        let still = inner.waiters.split_off(&(later, 0));
        let told = std::mem::replace(&mut inner.waiters, still);
        drop(inner);
        for waiter in told.into_values() {
            // Who does not wait any more needs not be told.
            let _ = waiter.send(());
        }
    }

    /// The disk failed: nothing is acknowledged from now on.
    fn end(&self, error: JournalError) {
        tracing::error!(%error, "the disk failed; the store ends");
        let mut inner = self.inner.write();
        inner.ended = true;
        // What waits is never written: it could stand on what was lost.
        inner.queue.clear();
        inner.waiters.clear();
        // Watchers resume elsewhere, or when the server is back.
        inner.state.close_subscriptions();
        drop(inner);
        self.failure.send_replace(Some(Arc::new(error)));
    }

    /// Drops segments that nothing needs any more, if that is worth a new base.
    fn compact(&self) -> Result<bool, JournalError> {
        let floor = self.inner.read().state.floor;
        let segments = self.segments.lock().clone();
        // The state as of an earlier segment is not known any more.
        let Some(from) = segments.iter().position(|segment| segment.revision >= floor) else {
            return Ok(false);
        };
        let (dropped, kept) = segments.split_at(from);
        let freed: u64 = dropped.iter().map(|segment| segment.bytes).sum();
        let few = freed < DROPPED_TOGETHER * self.options.segment_bytes;
        let Some(first) = kept
            .first()
            .filter(|_| !few && freed >= self.inner.read().state.bytes() as u64)
        else {
            return Ok(false);
        };
        let objects = match self.inner.read().state.all_at(first.revision) {
            Ok(objects) => objects,
            // The history went on meanwhile: next time.
            Err(TooOld { .. }) => return Ok(false),
        };
        let place = Place {
            revision: first.revision,
            sequence: first.sequence,
            number: first.number,
            store: self.store,
        };
        write_base(&*self.disk, place, journal::seed(), &objects)?;
        self.segments.lock().drain(..from);
        drop_segments(&*self.disk, &self.spares, dropped, self.options.segment_bytes)?;
        Ok(true)
    }
}

impl Store for DurableStore {
    fn revision(&self) -> u64 {
        self.shared.inner.read().state.revision
    }

    fn settled(&self) -> u64 {
        self.shared.inner.read().state.settled
    }

    fn seen_by_readers_of(&self, table: &str) -> u64 {
        self.shared.inner.read().state.seen_by_readers_of(table)
    }

    fn is_busy(&self) -> bool {
        let (inner, options) = (self.shared.inner.read(), &self.shared.options);
        // Who writes is told why that is refused, and not to come back soon.
        if inner.full.refuses() {
            return false;
        }
        let much = inner.unsettled >= options.queue_writes || inner.unsettled_bytes >= options.queue_bytes;
        // Until there is another segment, no more than surely fits.
        much || (self.shared.spares.short() && full::left(&inner) < options.segment_bytes / 4)
    }

    fn is_very_busy(&self) -> bool {
        let (inner, options) = (self.shared.inner.read(), &self.shared.options);
        inner.unsettled >= options.most_writes() || inner.unsettled_bytes >= options.most_bytes()
    }

    fn takes_writes(&self) -> bool {
        let inner = self.shared.inner.read();
        !inner.ended && !inner.full.refuses()
    }

    fn settle(&self, revision: u64) -> Settling {
        self.shared.settle(revision)
    }

    fn settle_here(&self, revision: u64) -> Result<(), Unsettled> {
        // On this thread, if nobody else is at it: two wake-ups of threads less. The other thread is left whatever goes wrong.
        let done = self.shared.try_commit().is_some();
        if done && self.shared.leaves_work() {
            self.wake();
        }
        // Inside a runtime too, where a budget would keep it from ever being ready.
        block_on(unconstrained(self.shared.settle(revision)))
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.shared.inner.read().state.record(key)
    }

    fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        self.shared.inner.read().state.list(range)
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let (record, wakes) = self.shared.take(key, expect, change)?;
        if wakes {
            self.wake();
        }
        Ok(record)
    }

    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        self.shared.inner.write().state.subscribe(table, namespace, from)
    }

    fn close_subscriptions(&self) {
        self.shared.inner.write().state.close_subscriptions();
    }

    fn gauges(&self) -> Vec<Gauge> {
        let (inner, options) = (self.shared.inner.read(), &self.shared.options);
        let gauge = |name, value, most| Gauge { name, value, most };
        let mut gauges = inner.state.gauges();
        gauges.extend([
            gauge(
                "writes that wait for the disk",
                inner.unsettled,
                options.most_writes(),
            ),
            gauge(
                "bytes that wait for the disk",
                inner.unsettled_bytes,
                options.most_bytes(),
            ),
        ]);
        gauges
    }
}

impl Shared {
    fn settle(&self, revision: u64) -> Settling {
        if self.inner.read().state.settled >= revision {
            return Settling::done();
        }
        let mut inner = self.inner.write();
        if inner.state.settled >= revision {
            return Settling::done();
        }
        if inner.ended || inner.full.holds() {
            return Settling::failed();
        }
        let (sender, told) = oneshot::channel();
        if inner.waiters.len() >= MANY_WAITERS {
            inner.waiters.retain(|_, waiter| !waiter.is_closed());
        }
        inner.waiters_made += 1;
        let made = inner.waiters_made;
        inner.waiters.insert((revision, made), sender);
        Settling::on(told)
    }

    /// Takes a write into memory and the queue, and says whether the thread that commits is to be woken: it counts the time
    /// from the first Lease that can wait, and the next ones need not wake it.
    fn take(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<(Record, bool), WriteError> {
        let mut inner = self.inner.write();
        let renews = renews(key, expect, &change);
        let wakes = !renews || inner.queue.is_empty();
        let admitted = self.admit(&mut inner, key, expect, change)?;
        let (event, unwritten) = match admitted {
            Admitted::Written(change) => (inner.state.write(key, expect, change)?, false),
            Admitted::Unwritten(bytes) => {
                let put = &mut |_| bytes.clone();
                (inner.state.write(key, expect, Change::Put(put))?, true)
            }
        };
        inner.presses |= !renews;
        Ok((inner.enqueue(event, unwritten), wakes))
    }
}

/// Whether a write is a Lease that is renewed, which can wait for company.
fn renews(key: &Key, expect: Expect, change: &Change<'_>) -> bool {
    &*key.table == LEASES && matches!((expect, change), (Expect::Revision(_), Change::Put(_)))
}

impl Inner {
    fn enqueue(&mut self, event: Arc<Event>, unwritten: bool) -> Record {
        let record = Record {
            revision: event.revision,
            bytes: event.bytes.clone(),
        };
        self.unsettled += 1;
        self.unsettled_bytes += size(&event);
        self.queue.push(Queued { event, unwritten });
        record
    }
}
