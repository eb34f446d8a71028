//! The invariant monitor: the promises P1–P14 (reliability of the design), checked while a fleet runs.
//!
//! It is told of every write of every server in the order in which they are made ([`Monitor::stores`]), of every request and
//! answer next to the servers ([`Monitor::wires`]), by the hubs of what they act on ([`Monitor::witness`]), and
//! by the script of what is done to the parties ([`Note`]). Each promise
//! is a pure check over that and over a small `Model` of what is stored; what a check finds is [`Broken`].
//!
//! Architecture Invariant: it only looks. Nothing that it is told takes another course for it.

mod absence;
mod alone;
mod answer;
mod bounded;
mod commit;
mod deletion;
mod evidence;
mod fence;
mod fields;
mod gates;
mod isolation;
mod kept;
mod model;
mod once;
mod others;
mod promise;
mod replicas;
mod same;
mod says;
mod shown;
mod spread;
mod steady;
mod stops;
mod store;
mod story;
mod tap;
#[cfg(test)]
mod tests;
mod who;

pub use commit::Commit;
use model::Model;
pub use promise::{Broken, CLOCK, Note, Promise};
pub use story::Told;
pub use who::{Asked, Target, Who};

use super::{
    HUB, Stores,
    trace::{self, Happened, Object, Trace},
};
use crate::application::Witness;
use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use promise::{Check, Found};
use roundhouse_api::decision::DecisionSpec;
use roundhouse_apiserver::{Expect, Gauge, Key, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};
use store::Observed;
use story::Story;
use tokio::time::Instant;

/// Tables whose writes are no part of a trace: heartbeats.
const HEARTBEATS: &str = "leases.coordination.k8s.io";

/// What a store holds is measured after its first write and so many more.
const EVERY: u64 = 16;

/// Watches the promises of one fleet; clones are the same one.
#[derive(Clone)]
pub struct Monitor {
    start: Instant,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    model: Model,
    trace: Trace,
    story: Story,
    checks: Vec<Box<dyn Check>>,
    broken: Vec<Broken>,
    judged: BTreeSet<(Promise, &'static str)>,
    /// How often the controllers of each hub were started.
    starts: BTreeMap<String, u32>,
    servers: BTreeSet<Arc<str>>,
    /// How many writes of each server there were.
    writes: BTreeMap<Arc<str>, u64>,
    /// When each server came to which version, heartbeats aside.
    versions: BTreeMap<Arc<str>, Vec<(Duration, u64)>>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("Monitor")
            .field("broken", &inner.broken)
            .field("happened", &inner.trace.len())
            .finish_non_exhaustive()
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Monitor::new()
    }
}

impl Monitor {
    /// A monitor of all promises; its time begins now.
    pub fn new() -> Self {
        Monitor::of(vec![
            Box::<kept::Kept>::default(),
            Box::<once::Once>::default(),
            Box::<fence::Fence>::default(),
            Box::<deletion::Deletions>::default(),
            Box::<absence::Absence>::default(),
            Box::<replicas::Replicas>::default(),
            Box::<evidence::Passing>::default(),
            Box::<gates::Gates>::default(),
            Box::<spread::Spread>::default(),
            Box::<stops::Stops>::default(),
            Box::<alone::Alone>::default(),
            Box::<others::Others>::default(),
            Box::<steady::Steady>::default(),
            Box::<bounded::Bounded>::default(),
            Box::<isolation::Isolation>::default(),
            Box::<same::Same>::default(),
        ])
    }

    fn of(checks: Vec<Box<dyn Check>>) -> Self {
        Monitor {
            start: Instant::now(),
            inner: Arc::new(Mutex::new(Inner {
                model: Model::default(),
                trace: Trace::default(),
                story: Story::default(),
                checks,
                broken: Vec::new(),
                judged: BTreeSet::new(),
                starts: BTreeMap::new(),
                servers: BTreeSet::new(),
                writes: BTreeMap::new(),
                versions: BTreeMap::new(),
            })),
        }
    }

    /// The same stores; what is written there the monitor hears. When the store of a server is opened again, it looks at what
    /// was kept.
    pub fn stores(&self, inner: Stores) -> Stores {
        let monitor = self.clone();
        Stores::new(move |server| monitor.store(server, inner.open(server)))
    }

    fn store(&self, server: &str, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        let server: Arc<str> = server.into();
        let again = !self.inner.lock().servers.insert(server.clone());
        if again {
            self.note(&Note::Reopened {
                server: server.clone(),
                store: inner.clone(),
            });
        }
        Arc::new(Observed {
            server,
            inner,
            monitor: self.clone(),
            order: Mutex::new(()),
        })
    }

    /// Whether an API server of this name was started.
    fn is_server(&self, name: &str) -> bool {
        self.inner.lock().servers.contains(name)
    }

    /// The controllers of a hub that are started now.
    fn hub(&self, name: &str) -> Who {
        let mut inner = self.inner.lock();
        let start = inner.starts.entry(name.to_owned()).or_default();
        *start += 1;
        Who::Hub {
            name: name.into(),
            start: *start,
        }
    }

    /// Who hears what the hubs act on.
    pub fn witness(&self) -> Witness {
        let monitor = self.clone();
        Witness::new(move |said| {
            let at = monitor.now();
            let inner = &mut *monitor.inner.lock();
            inner.check(at, |check, _, found| check.said(&said, found));
        })
    }

    /// Tells what the script does.
    pub fn note(&self, note: &Note) {
        let at = self.now();
        let inner = &mut *self.inner.lock();
        if let Some((party, what)) = note.fault() {
            inner.trace.note(&party, at, Happened::Fault(what));
        }
        inner.check(at, |check, model, found| check.noted(note, model, found));
        inner.model.note(note, at);
        if let Note::Reopened { server, store } = note {
            let lost = inner.model.differences(server, &**store, at);
            lost.iter().for_each(|commit| inner.model.take(commit));
        }
    }

    /// What has been found so far: the first ones, at most 100 of each promise.
    pub fn broken(&self) -> Vec<Broken> {
        self.inner.lock().broken.clone()
    }

    /// The promises that had something to judge so far, each with the part of it that had, where it has several. Of the others
    /// nothing is known.
    pub fn judged(&self) -> BTreeSet<(Promise, &'static str)> {
        self.inner.lock().judged.clone()
    }

    /// The Decisions as they are, by namespace and name.
    pub fn decisions(&self) -> Vec<DecisionSpec> {
        self.inner.lock().model.decisions.values().cloned().collect()
    }

    /// The version of what a server stored so long ago; `None` if it stored nothing then.
    pub fn version(&self, server: &str, ago: Duration) -> Option<u64> {
        let then = self.now().checked_sub(ago)?;
        let inner = self.inner.lock();
        let versions = inner.versions.get(server)?;
        let until = versions.partition_point(|(at, _)| *at <= then);
        versions.get(until.checked_sub(1)?).map(|(_, version)| *version)
    }

    /// How many things the trace has so far.
    pub fn happened(&self) -> u64 {
        self.inner.lock().trace.len()
    }

    /// How many writes of all servers there were so far, Leases aside: those of nothing but times, which are no part of the trace,
    /// too.
    pub fn commits(&self) -> usize {
        self.inner.lock().versions.values().map(Vec::len).sum()
    }

    /// What has happened so far.
    pub fn trace(&self) -> Trace {
        self.inner.lock().trace.clone()
    }

    /// What became of applications and clusters so far, in sentences.
    pub fn story(&self) -> Vec<Told> {
        self.inner.lock().story.told.clone()
    }

    /// The steps of any application that began so far.
    pub(super) fn steps_begun(&self) -> BTreeSet<String> {
        self.inner.lock().story.begun.clone()
    }

    /// Whether a step of this name has begun, of any application.
    pub(super) fn has_begun(&self, step: &str) -> bool {
        self.inner.lock().story.begun.contains(step)
    }

    /// When it began to watch.
    pub(super) fn started(&self) -> Instant {
        self.start
    }

    /// The objects that a server has.
    pub fn keys(&self, server: &str) -> Vec<Key> {
        let inner = self.inner.lock();
        let own = inner.model.stored.keys().filter(|(of, _)| **of == *server);
        own.map(|(_, key)| key.clone()).collect()
    }

    /// The `apiVersion` and kind of all that any Bundle has ever carried: what agents may have made.
    pub fn carried_kinds(&self) -> BTreeSet<[String; 2]> {
        self.inner.lock().model.carried_kinds()
    }

    /// The objects of a member that a request of its agent has made late or once more, and that nobody knows of: the agent looks
    /// for them as long as it runs, and was ended.
    pub fn strays(&self, member: &str) -> Vec<Key> {
        self.inner.lock().model.strays(member).cloned().collect()
    }

    /// The Bundles that a request of a hub has made late or once more, by namespace and name.
    pub fn late_bundles(&self) -> BTreeSet<(String, String)> {
        let inner = self.inner.lock();
        let all = inner.model.late_bundles.iter();
        all.map(|(namespace, name)| (namespace.to_string(), name.to_string()))
            .collect()
    }

    /// The ledgers of a member that a request of its agent has made late or once more.
    pub fn stray_ledgers(&self, member: &str) -> BTreeSet<String> {
        let inner = self.inner.lock();
        inner.model.stray_ledgers(member).map(str::to_owned).collect()
    }

    /// What a person reads when promises are broken: each of them, and the last `most` entries about what is concerned.
    /// `None` if none is.
    pub fn report(&self, most: usize) -> Option<String> {
        let inner = self.inner.lock();
        if inner.broken.is_empty() {
            return None;
        }
        let lines = inner.broken.iter().map(|broken| format!("{broken}\n"));
        let mut text: String = lines.collect();
        let objects: Vec<Object> = inner.broken.iter().map(|broken| broken.object.clone()).collect();
        text.push_str(&inner.trace.of(&objects, Duration::MAX, most));
        Some(text)
    }

    /// How long it has watched, in tokio's time.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn committed(&self, commit: &Commit, expect: Expect) {
        let inner = &mut *self.inner.lock();
        let told = inner.story.take(commit);
        if &*commit.key.table != HEARTBEATS {
            let wrote = Happened::Wrote {
                by: commit.by().map(ToString::to_string),
                from: commit.before.as_ref().map(|record| record.revision),
                to: commit.revision,
                removed: commit.after.is_none(),
                digest: trace::digest(commit.after()),
                says: says::says(commit, told),
            };
            inner.trace.note(&commit.object(), commit.at, wrote);
            let versions = inner.versions.entry(commit.server.clone()).or_default();
            versions.push((commit.at, commit.revision));
        }
        inner.check(commit.at, |check, model, found| {
            check.expected(commit, expect, found);
            check.committed(commit, model, found);
        });
        inner.model.take(commit);
    }

    /// Now and then looks at what a store holds.
    fn measured(&self, server: &Arc<str>, gauges: impl FnOnce() -> Vec<Gauge>) {
        {
            let mut inner = self.inner.lock();
            let writes = inner.writes.entry(server.clone()).or_default();
            *writes += 1;
            if *writes % EVERY != 1 {
                return;
            }
        }
        for Gauge { name, value, most } in gauges() {
            self.note(&Note::Gauge {
                server: server.clone(),
                name,
                value,
                most,
            });
        }
    }

    fn asked(&self, asked: &Arc<Asked>) {
        let at = self.now();
        let inner = &mut *self.inner.lock();
        inner.check(at, |check, model, found| check.asked(asked, model, found));
    }

    fn answered(&self, asked: &Arc<Asked>, code: StatusCode) {
        let at = self.now();
        let inner = &mut *self.inner.lock();
        inner.check(at, |check, _, found| check.answered(asked, code, found));
    }

    fn heard(&self, asked: &Arc<Asked>, bytes: &Bytes) {
        // Nothing is promised of what others read.
        if asked.who.agent().is_none() || &*asked.server != HUB {
            return;
        }
        let (at, named) = (self.now(), answer::named(bytes));
        let inner = &mut *self.inner.lock();
        inner.check(at, |check, _, found| check.heard(asked, &named, found));
    }
}

impl Inner {
    fn check(&mut self, at: Duration, mut each: impl FnMut(&mut dyn Check, &Model, &mut Found<'_>)) {
        let Inner {
            model,
            checks,
            broken,
            judged,
            ..
        } = self;
        let mut found = Found { at, broken, judged };
        for check in checks {
            each(check.as_mut(), model, &mut found);
        }
    }
}
