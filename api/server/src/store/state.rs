//! Objects, the history of their changes, and who watches them: what every store keeps in memory.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::mpsc;

use super::{
    Change, Event, EventKind, Expect, From, Gauge, Key, Listing, Range, Record, Subscription, TooOld,
    WriteError,
    event::{Subscriber, Waiting},
    packed::{Dictionaries, Kept},
};

/// Bounds of what a store keeps in memory beside the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Events kept for resuming watches and paging.
    pub history_events: usize,
    /// Bytes of object states those events may hold: what each was before and after, counted for each.
    pub history_bytes: usize,
    /// Events that wait for one watch. One that lags further behind goes on from the history, so many at a time, and is cut
    /// off where that does not reach back so far.
    pub watch_buffer: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            history_events: 10_000,
            history_bytes: 32 << 20,
            watch_buffer: 1_024,
        }
    }
}

pub(super) type Place = (Arc<str>, Arc<str>);

/// The objects of one kind.
#[derive(Default)]
struct Table {
    objects: BTreeMap<Place, Kept>,
    dictionaries: Dictionaries,
    /// Revision of its last change; of the oldest state that is known if that was before it.
    last: u64,
    /// Revision of the last change in each namespace that had one after `since`.
    changed: HashMap<Arc<str>, u64>,
    since: u64,
}

/// Namespaces of which the last change is remembered, beside two for each object: those that are gone are forgotten some time.
const NAMESPACES: usize = 1_024;

impl Table {
    fn changes(&mut self, namespace: &Arc<str>, revision: u64) {
        self.last = revision;
        self.changed.insert(namespace.clone(), revision);
        if self.changed.len() > NAMESPACES + 2 * self.objects.len() {
            self.since_now(revision);
        }
    }

    /// What was before a revision is not known.
    fn since_now(&mut self, revision: u64) {
        self.last = revision;
        self.since = revision;
        self.changed.clear();
    }

    /// The revision of the last change in a namespace (or anywhere), or a later one.
    fn last_in(&self, namespace: Option<&str>) -> u64 {
        match namespace {
            Some(namespace) => self.changed.get(namespace).copied().unwrap_or(self.since),
            None => self.last,
        }
    }
}

/// A change with the revision it made and whether the object was there before, as a journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) key: Key,
    pub(super) removed: bool,
    pub(super) record: Record,
}

/// Objects and events under one revision.
///
/// A change is visible to readers at once, and to watchers when it is settled: the owner of this state calls
/// [`State::settle`] when nothing can take the change back any more.
pub(super) struct State {
    limits: StoreLimits,
    /// Revision of the last change.
    pub(super) revision: u64,
    /// Revision of the last change that watchers were told of.
    pub(super) settled: u64,
    /// Events with a greater revision are all in `history`.
    pub(super) floor: u64,
    tables: HashMap<Arc<str>, Table>,
    /// When the last object of some table went.
    emptied: u64,
    history: VecDeque<Arc<Event>>,
    history_bytes: usize,
    /// By table, then by namespace; the empty namespace is the subscribers of all.
    subscribers: HashMap<Arc<str>, HashMap<Arc<str>, Vec<Subscriber>>>,
    /// How often every subscription was ended.
    closed: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("revision", &self.revision)
            .field("settled", &self.settled)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Nothing, as of a revision.
    pub(super) fn new(limits: StoreLimits, revision: u64) -> Self {
        Self {
            limits,
            revision,
            settled: revision,
            floor: revision,
            tables: HashMap::new(),
            emptied: revision,
            history: VecDeque::new(),
            history_bytes: 0,
            subscribers: HashMap::new(),
            closed: 0,
        }
    }

    /// Puts an object of before the history into place.
    pub(super) fn load(&mut self, key: &Key, record: Record) {
        let table = self.tables.entry(key.table.clone()).or_default();
        // What has gone from it before is not known.
        table.since_now(self.floor.max(record.revision));
        let kept = table.dictionaries.keep(&key.name, record);
        table.objects.insert(place_of(key), kept);
    }

    fn kept(&self, key: &Key) -> Option<&Kept> {
        let table = self.tables.get(&key.table)?;
        table.objects.get(&place_of(key))
    }

    pub(super) fn record(&self, key: &Key) -> Option<Record> {
        self.kept(key).map(Kept::record)
    }

    /// Lets the next change come after this revision.
    pub(super) fn raise(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
        self.settled = self.settled.max(revision);
    }

    /// Lets nobody resume from before now.
    pub(super) fn forget_history(&mut self) {
        self.floor = self.revision;
        self.emptied = self.floor;
        for table in self.tables.values_mut() {
            table.since_now(self.floor);
        }
        self.history_bytes = 0;
        for old in std::mem::take(&mut self.history) {
            self.cool(&old.key, old.revision);
        }
    }

    /// The revision of the last change that is in the history, or of the oldest state that is known.
    pub(super) fn written(&self) -> u64 {
        self.history.back().map_or(self.floor, |event| event.revision)
    }

    /// What is bounded, and how much of it there is.
    pub(super) fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, value, most| Gauge { name, value, most };
        let lists = self.subscribers.values().flat_map(HashMap::values);
        let waiting = lists
            .flatten()
            .map(|s| s.events.max_capacity() - s.events.capacity());
        let StoreLimits {
            history_events,
            history_bytes,
            watch_buffer,
        } = self.limits;
        vec![
            gauge("events of the history", self.history.len(), history_events),
            gauge("bytes of the history", self.history_bytes, history_bytes),
            gauge(
                "events that wait for one watch",
                waiting.max().unwrap_or(0),
                watch_buffer.max(1),
            ),
        ]
    }

    /// Bytes of all objects.
    pub(super) fn bytes(&self) -> usize {
        let objects = self.tables.values().flat_map(|table| table.objects.values());
        objects.map(Kept::length).sum()
    }

    /// The earliest revision whose state of a table is the present one, and that all watchers were told of if possible.
    pub(super) fn seen_by_readers_of(&self, table: &str) -> u64 {
        self.last_of(table, None).max(self.settled)
    }

    /// The revision of the last change of a table, in one namespace or all, or a later one.
    fn last_of(&self, table: &str, namespace: Option<&str>) -> u64 {
        let table = self.tables.get(table);
        table.map_or(self.emptied, |table| table.last_in(namespace))
    }

    fn slice<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a Place, &'a Kept)> {
        let empty: Arc<str> = "".into();
        let from = match (&range.after, &range.namespace) {
            (Some((ns, name)), _) => Bound::Excluded((ns.as_str().into(), name.as_str().into())),
            (None, Some(ns)) => Bound::Included((ns.clone(), empty)),
            (None, None) => Bound::Unbounded,
        };
        let inside = |ns: &Arc<str>| range.namespace.as_ref().is_none_or(|want| want == ns);
        self.tables
            .get(&range.table)
            .into_iter()
            .flat_map(move |t| t.objects.range((from.clone(), Bound::Unbounded)))
            .take_while(move |((ns, _), _)| inside(ns))
    }

    /// Part of a table now, or as of a revision.
    pub(super) fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        // Other tables change all the time: the pages of a long list are not of the past by that. What went before the history
        // began nobody knows.
        let as_now = self.last_of(&range.table, None).max(self.floor);
        match range.revision {
            Some(revision) if revision < as_now => self.list_at(range, revision),
            Some(revision) => Ok(self.list_now(range, revision.min(self.revision))),
            None => Ok(self.list_now(range, self.seen_by_readers_of(&range.table))),
        }
    }

    fn list_now(&self, range: &Range, revision: u64) -> Listing {
        let mut all = self.slice(range);
        let records: Vec<_> = all
            .by_ref()
            .take(range.limit)
            .map(|(p, kept)| (key_of(&range.table, p), kept.clone()))
            .collect();
        let count = self
            .tables
            .get(&range.table)
            .map_or(0, |table| table.objects.len());
        let remaining = remaining(range, count, records.len(), all);
        Listing {
            records,
            revision,
            remaining,
        }
    }

    /// The state at a past revision: today's, with every later event of the table undone. A page of it costs what has changed
    /// since, and not what follows it: or whoever lists much while much is written would never come to an end.
    fn list_at(&self, range: &Range, revision: u64) -> Result<Listing, TooOld> {
        self.reaches_back_to(revision)?;
        let inside = |event: &&Arc<Event>| {
            event.key.table == range.table
                && range
                    .namespace
                    .as_ref()
                    .is_none_or(|ns| *ns == event.key.namespace)
        };
        // As it was then; nothing where it was not there.
        let mut then: BTreeMap<Place, Option<Kept>> = BTreeMap::new();
        for event in self.later_than(revision).filter(inside) {
            let previous = event.previous.clone().map(Kept::Plain);
            then.insert(place_of(&event.key), previous);
        }
        let objects = self.tables.get(&range.table).map(|table| &table.objects);
        let is_there = |place: &&Place| objects.is_some_and(|objects| objects.contains_key(*place));
        let count = objects
            .map_or(0, BTreeMap::len)
            .saturating_add(then.values().flatten().count())
            .saturating_sub(then.keys().filter(is_there).count());
        let after = range.after.as_ref();
        let after = after.map(|(ns, name)| (ns.as_str().into(), name.as_str().into()));
        let present = self.slice(range).map(|(place, kept)| (place, Some(kept)));
        let changed = then.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let changed = changed.map(|(place, kept)| (place, kept.as_ref()));
        let (mut present, mut changed) = (present.peekable(), changed.peekable());
        let mut past = std::iter::from_fn(|| {
            loop {
                let next = match (present.peek(), changed.peek()) {
                    (None, None) => return None,
                    (Some((now, _)), Some((was, _))) if now >= was => {
                        if now == was {
                            present.next();
                        }
                        changed.next()
                    }
                    (None, Some(_)) => changed.next(),
                    (Some(_), _) => present.next(),
                };
                if let Some((place, Some(kept))) = next {
                    return Some((place, kept));
                }
            }
        });
        let records: Vec<_> = past
            .by_ref()
            .take(range.limit)
            .map(|(p, kept)| (key_of(&range.table, p), kept.clone()))
            .collect();
        let remaining = remaining(range, count, records.len(), past);
        Ok(Listing {
            records,
            revision,
            remaining,
        })
    }

    /// Every object as of a past revision, table by table, as it is kept.
    pub(super) fn all_at(&self, revision: u64) -> Result<Vec<(Key, Kept)>, TooOld> {
        self.reaches_back_to(revision)?;
        let mut past: BTreeMap<Arc<str>, BTreeMap<Place, Kept>> = BTreeMap::new();
        for (name, table) in &self.tables {
            past.insert(name.clone(), table.objects.clone());
        }
        for event in self.later_than(revision) {
            undo(past.entry(event.key.table.clone()).or_default(), event);
        }
        let all = past.into_iter().flat_map(|(table, objects)| {
            objects
                .into_iter()
                .map(move |(p, kept)| (key_of(&table, &p), kept))
        });
        Ok(all.collect())
    }

    fn reaches_back_to(&self, revision: u64) -> Result<(), TooOld> {
        if revision < self.floor {
            return Err(TooOld {
                asked: revision,
                oldest: self.floor,
            });
        }
        Ok(())
    }

    fn later_than(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        let newest_first = self.history.iter().rev();
        newest_first.take_while(move |e| e.revision > revision)
    }

    /// One write, if what it expects holds. Watchers are told when it is settled.
    pub(super) fn write(
        &mut self,
        key: &Key,
        expect: Expect,
        change: Change<'_>,
    ) -> Result<Arc<Event>, WriteError> {
        match (self.kept(key), expect) {
            (None, Expect::Absent) => {}
            (Some(kept), Expect::Revision(want)) if kept.revision() == want => {}
            _ => return Err(WriteError::Unexpected),
        }
        let revision = self.revision + 1;
        let (removed, bytes) = match change {
            Change::Put(render) => (false, render(revision)),
            Change::Remove(render) => (true, render(revision)),
        };
        Ok(self.tell(Told {
            key: key.clone(),
            removed,
            record: Record { revision, bytes },
        }))
    }

    /// Makes a change that was decided already.
    pub(super) fn tell(&mut self, told: Told) -> Arc<Event> {
        let Told { key, removed, record } = told;
        let revision = record.revision;
        let new = || Table {
            since: self.emptied,
            ..Table::default()
        };
        let table = self.tables.entry(key.table.clone()).or_insert_with(new);
        table.changes(&key.namespace, revision);
        let previous = if removed {
            table.objects.remove(&place_of(&key))
        } else {
            table.objects.insert(place_of(&key), Kept::Plain(record.clone()))
        };
        let previous = previous.as_ref().map(Kept::record);
        let kind = match (removed, &previous) {
            (true, _) => EventKind::Deleted,
            (false, Some(_)) => EventKind::Modified,
            (false, None) => EventKind::Added,
        };
        if table.objects.is_empty() {
            self.tables.remove(&key.table);
            self.emptied = revision;
        }
        self.revision = revision;
        let event = Arc::new(Event::new(kind, key, revision, record.bytes, previous));
        self.remember(event.clone());
        event
    }

    fn remember(&mut self, event: Arc<Event>) {
        self.history_bytes += held(&event);
        self.history.push_back(event);
        while self.history.len() > self.limits.history_events
            || self.history_bytes > self.limits.history_bytes
        {
            let Some(old) = self.history.pop_front() else {
                break;
            };
            self.history_bytes -= held(&old);
            self.floor = old.revision;
            self.cool(&old.key, old.revision);
        }
    }

    /// An object whose last change is out of the history is kept small.
    fn cool(&mut self, key: &Key, revision: u64) {
        let Some(table) = self.tables.get_mut(&key.table) else {
            return;
        };
        let Some(kept) = table.objects.get_mut(&place_of(key)) else {
            return;
        };
        if kept.revision() == revision {
            *kept = table.dictionaries.keep(&key.name, kept.record());
        }
    }

    /// Tells watchers of a change that nothing takes back any more. In the order of revisions.
    pub(super) fn settle(&mut self, event: &Arc<Event>) {
        self.settled = self.settled.max(event.revision);
        let Some(by_namespace) = self.subscribers.get_mut(&event.key.table) else {
            return;
        };
        let mut lost = false;
        let mut offer = |namespace: &str| {
            if let Some(list) = by_namespace.get_mut(namespace) {
                list.retain(|s| s.offer(event));
                lost |= list.is_empty();
            }
        };
        offer("");
        if !event.key.namespace.is_empty() {
            offer(&event.key.namespace);
        }
        if lost {
            by_namespace.retain(|_, list| !list.is_empty());
        }
    }

    /// A new watcher of a table (in one namespace or all). Of much that it has missed it gets a piece, and has to ask again
    /// behind that.
    pub(super) fn subscribe(
        &mut self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        let mut objects = vec![];
        let mut backlog = vec![];
        let mut since = self.seen_by_readers_of(table);
        let room = self.limits.watch_buffer.max(1);
        match from {
            From::Now => {}
            From::State => {
                objects = self.list_now(&Range::all(table, namespace), since).records;
            }
            // Of another store, or of what this one has lost.
            From::Revision(revision) if revision > self.revision => {
                return Err(TooOld {
                    asked: revision,
                    oldest: self.floor,
                });
            }
            From::Revision(revision) => {
                // Where nothing has changed since, there is nothing that the history would have to tell: a fleet whose Leases
                // fill it resumes after any time, and each agent whatever became of the Bundles of others.
                if revision < self.last_of(table, namespace) {
                    self.reaches_back_to(revision)?;
                }
                // What is not settled is told when it is.
                since = self.settled.max(revision);
                let start = self.history.partition_point(|e| e.revision <= revision);
                let settled = self.history.range(start..).take_while(|e| e.revision <= since);
                let mut wanted = settled
                    .filter(|e| e.key.table == *table && namespace.is_none_or(|ns| *e.key.namespace == *ns));
                backlog = wanted.by_ref().take(room).cloned().collect();
                if wanted.next().is_some() {
                    return Ok(Subscription::of_a_piece(backlog, self.closed));
                }
            }
        }
        let (sender, events) = mpsc::channel(room);
        let waiting = Arc::<Waiting>::default();
        let lists = self.subscribers.entry(table.clone()).or_default();
        let list = lists.entry(namespace.unwrap_or_default().into()).or_default();
        // Watchers that went away are noticed here too, not only at the next event of their namespace.
        list.retain(|s| !s.events.is_closed());
        list.push(Subscriber {
            since,
            events: sender,
            waiting: waiting.clone(),
        });
        Ok(Subscription {
            state: objects,
            backlog,
            revision: since,
            events,
            waiting,
            closed: self.closed,
        })
    }

    /// Ends every subscription, in an order that does not depend on how they are kept: who is told first comes back first.
    pub(super) fn close_subscriptions(&mut self) {
        self.closed += 1;
        let tables: BTreeMap<_, _> = self.subscribers.drain().collect();
        for by_namespace in tables.into_values() {
            let by_namespace: BTreeMap<_, _> = by_namespace.into_iter().collect();
            drop(by_namespace);
        }
    }
}

/// Bytes of the states that an event keeps in memory.
fn held(event: &Event) -> usize {
    let before = event.previous.as_ref().map_or(0, |record| record.bytes.len());
    event.bytes.len() + before
}

fn place_of(key: &Key) -> Place {
    (key.namespace.clone(), key.name.clone())
}

fn key_of(table: &Arc<str>, place: &Place) -> Key {
    Key {
        table: table.clone(),
        namespace: place.0.clone(),
        name: place.1.clone(),
    }
}

/// How many objects follow a page of so many, in a table of `count`. A page of everything is one of a thousand: what follows it is
/// not counted one by one.
fn remaining<T>(range: &Range, count: usize, page: usize, mut rest: impl Iterator<Item = T>) -> usize {
    match range.passed {
        Some(passed) if range.namespace.is_none() => {
            let left = count.saturating_sub(passed.saturating_add(page));
            rest.next().map_or(0, |_| left.max(1))
        }
        _ => rest.count(),
    }
}

fn undo(past: &mut BTreeMap<Place, Kept>, event: &Event) {
    match &event.previous {
        Some(record) => past.insert(place_of(&event.key), Kept::Plain(record.clone())),
        None => past.remove(&place_of(&event.key)),
    };
}
