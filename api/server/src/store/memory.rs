//! The store of simulated members and of a hub without a data directory.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::mpsc;

use super::{
    Change, Event, EventKind, Expect, From, Key, Listing, Range, Record, Store, Subscription, TooOld,
    WriteError, event::Subscriber,
};

/// Bounds of an in-memory store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Events kept for resuming watches and paging.
    pub history_events: usize,
    /// Bytes of object states those events may hold.
    pub history_bytes: usize,
    /// Events a watcher may lag behind before it is cut off.
    pub watch_buffer: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            history_events: 10_000,
            history_bytes: 64 << 20,
            watch_buffer: 1_024,
        }
    }
}

type Place = (Arc<str>, Arc<str>);
type Table = BTreeMap<Place, Record>;

struct State {
    revision: u64,
    /// Events with a greater revision are all in `history`.
    floor: u64,
    tables: HashMap<Arc<str>, Table>,
    history: VecDeque<Arc<Event>>,
    history_bytes: usize,
    /// By table, then by namespace; the empty namespace is the subscribers of all.
    subscribers: HashMap<Arc<str>, HashMap<Arc<str>, Vec<Subscriber>>>,
}

/// Objects in memory.
pub struct MemoryStore {
    limits: MemoryLimits,
    state: RwLock<State>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        // Revision 1 is history nobody has seen, so that a watch from it is told to list anew.
        let state = State {
            revision: 2,
            floor: 2,
            tables: HashMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            subscribers: HashMap::new(),
        };
        Self {
            limits,
            state: RwLock::new(state),
        }
    }
}

impl State {
    fn record(&self, key: &Key) -> Option<&Record> {
        self.tables
            .get(&key.table)?
            .get(&(key.namespace.clone(), key.name.clone()))
    }

    fn slice<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a Place, &'a Record)> {
        let empty: Arc<str> = "".into();
        let from = match (&range.after, &range.namespace) {
            (Some((ns, name)), _) => Bound::Excluded((ns.as_str().into(), name.as_str().into())),
            (None, Some(ns)) => Bound::Included((ns.clone(), empty)),
            (None, None) => Bound::Unbounded,
        };
        let table = self.tables.get(&range.table);
        let inside = |ns: &Arc<str>| range.namespace.as_ref().is_none_or(|want| want == ns);
        table
            .into_iter()
            .flat_map(move |t| t.range((from.clone(), Bound::Unbounded)))
            .take_while(move |((ns, _), _)| inside(ns))
    }

    fn list_now(&self, range: &Range) -> Listing {
        let key = |p: &Place| Key {
            table: range.table.clone(),
            namespace: p.0.clone(),
            name: p.1.clone(),
        };
        let mut all = self.slice(range);
        let records: Vec<_> = all
            .by_ref()
            .take(range.limit)
            .map(|(p, r)| (key(p), r.clone()))
            .collect();
        let remaining = all.count();
        Listing {
            records,
            revision: self.revision,
            remaining,
        }
    }

    /// The state at a past revision: today's, with every later event of the table undone.
    fn list_at(&self, range: &Range, revision: u64) -> Result<Listing, TooOld> {
        if revision < self.floor {
            return Err(TooOld {
                asked: revision,
                oldest: self.floor,
            });
        }
        let mut past: BTreeMap<Place, Record> =
            self.slice(range).map(|(p, r)| (p.clone(), r.clone())).collect();
        let inside = |event: &Event| {
            event.key.table == range.table
                && range
                    .namespace
                    .as_ref()
                    .is_none_or(|ns| *ns == event.key.namespace)
                && range.after.as_ref().is_none_or(|(ns, name)| {
                    (&*event.key.namespace, &*event.key.name) > (ns.as_str(), name.as_str())
                })
        };
        let later = self.history.iter().rev().take_while(|e| e.revision > revision);
        for event in later.filter(|e| inside(e)) {
            let place = (event.key.namespace.clone(), event.key.name.clone());
            match &event.previous {
                Some(bytes) => past.insert(
                    place,
                    Record {
                        revision: stored_revision(bytes),
                        bytes: bytes.clone(),
                    },
                ),
                None => past.remove(&place),
            };
        }
        let key = |p: &Place| Key {
            table: range.table.clone(),
            namespace: p.0.clone(),
            name: p.1.clone(),
        };
        let remaining = past.len().saturating_sub(range.limit);
        let records = past
            .iter()
            .take(range.limit)
            .map(|(p, r)| (key(p), r.clone()))
            .collect();
        Ok(Listing {
            records,
            revision,
            remaining,
        })
    }

    fn remember(&mut self, event: Arc<Event>, limits: &MemoryLimits) {
        self.history_bytes += event.bytes.len();
        self.history.push_back(event);
        while self.history.len() > limits.history_events || self.history_bytes > limits.history_bytes {
            let Some(old) = self.history.pop_front() else {
                break;
            };
            self.history_bytes -= old.bytes.len();
            self.floor = old.revision;
        }
    }

    fn publish(&mut self, event: &Arc<Event>) {
        let Some(by_namespace) = self.subscribers.get_mut(&event.key.table) else {
            return;
        };
        let everyone: Arc<str> = "".into();
        let mut lost = false;
        let mut wanted = vec![everyone];
        if !event.key.namespace.is_empty() {
            wanted.push(event.key.namespace.clone());
        }
        for namespace in wanted {
            if let Some(list) = by_namespace.get_mut(&namespace) {
                list.retain(|s| s.offer(event));
                lost |= list.is_empty();
            }
        }
        if lost {
            by_namespace.retain(|_, list| !list.is_empty());
        }
    }
}

/// `metadata.resourceVersion` of stored bytes.
fn stored_revision(bytes: &Bytes) -> u64 {
    crate::object::meta(&crate::object::decode(bytes), "resourceVersion")
        .parse()
        .unwrap_or(0)
}

impl Store for MemoryStore {
    fn revision(&self) -> u64 {
        self.state.read().revision
    }

    fn get(&self, key: &Key) -> Option<Record> {
        self.state.read().record(key).cloned()
    }

    fn list(&self, range: &Range) -> Result<Listing, TooOld> {
        let state = self.state.read();
        match range.revision {
            Some(revision) if revision < state.revision => state.list_at(range, revision),
            _ => Ok(state.list_now(range)),
        }
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let mut guard = self.state.write();
        let state = &mut *guard;
        let old = state.record(key).cloned();
        match (&old, expect) {
            (None, Expect::Absent) => {}
            (Some(record), Expect::Revision(want)) if record.revision == want => {}
            _ => return Err(WriteError::Unexpected),
        }
        let revision = state.revision + 1;
        let place = (key.namespace.clone(), key.name.clone());
        let table = state.tables.entry(key.table.clone()).or_default();
        let (kind, record) = match change {
            Change::Put(render) => {
                let record = Record {
                    revision,
                    bytes: render(revision),
                };
                table.insert(place, record.clone());
                (
                    if old.is_some() {
                        EventKind::Modified
                    } else {
                        EventKind::Added
                    },
                    record,
                )
            }
            Change::Remove(render) => {
                table.remove(&place);
                (
                    EventKind::Deleted,
                    Record {
                        revision,
                        bytes: render(revision),
                    },
                )
            }
        };
        if state.tables.get(&key.table).is_some_and(BTreeMap::is_empty) {
            state.tables.remove(&key.table);
        }
        state.revision = revision;
        let event = Arc::new(Event::new(
            kind,
            key.clone(),
            revision,
            record.bytes.clone(),
            old.map(|r| r.bytes),
        ));
        state.publish(&event);
        state.remember(event, &self.limits);
        Ok(record)
    }

    fn subscribe(
        &self,
        table: &Arc<str>,
        namespace: Option<&str>,
        from: From,
    ) -> Result<Subscription, TooOld> {
        let mut state = self.state.write();
        let mut subscription_state = vec![];
        let mut backlog = vec![];
        match from {
            From::Now => {}
            From::State => {
                let range = Range {
                    table: table.clone(),
                    namespace: namespace.map(Into::into),
                    after: None,
                    limit: usize::MAX,
                    revision: None,
                };
                subscription_state = state.list_now(&range).records;
            }
            From::Revision(revision) if revision < state.floor => {
                return Err(TooOld {
                    asked: revision,
                    oldest: state.floor,
                });
            }
            From::Revision(revision) => {
                let start = state.history.partition_point(|e| e.revision <= revision);
                let wanted = |e: &&Arc<Event>| {
                    e.key.table == *table && namespace.is_none_or(|ns| *e.key.namespace == *ns)
                };
                backlog = state.history.range(start..).filter(wanted).cloned().collect();
            }
        }
        let (sender, events) = mpsc::channel(self.limits.watch_buffer.max(1));
        let overrun = Arc::new(AtomicBool::new(false));
        let lists = state.subscribers.entry(table.clone()).or_default();
        let list = lists.entry(namespace.unwrap_or_default().into()).or_default();
        // Watchers that went away are noticed here too, not only at the next event of their namespace.
        list.retain(|s| !s.events.is_closed());
        list.push(Subscriber {
            events: sender,
            overrun: overrun.clone(),
        });
        Ok(Subscription {
            state: subscription_state,
            backlog,
            revision: state.revision,
            events,
            overrun,
        })
    }

    fn close_subscriptions(&self) {
        self.state.write().subscribers.clear();
    }
}
