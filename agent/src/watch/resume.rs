//! A watch of Bundles that is not told twice what it knows: it resumes where it was, however long the hub was away, and where
//! the hub cannot go on from there, it lists the Bundles without their manifests, and reads those that are not as they were.
//! One that is dead in silence is given up, and resumes.
//!
//! A hub that was restored as it should be says that it cannot go on: `roundhouse restore`, and `etcdutl snapshot restore` with
//! `--bump-revision` and `--mark-compacted`, see to it. One whose data was put back in another way cannot tell, and would be
//! silent. So the Bundles are listed a few minutes after an outage, too; not at once, when every agent is back and the hub has
//! all of its own to read.

use crate::delay::{SharedJitter, comes, spread};
use crate::watch::bundles::PAGE;
use crate::watch::delivered::Delivered;
use crate::watch::ear::Quiet;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use kube::api::{ListParams, ObjectMeta, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Error, Event};
use kube::{Api, ResourceExt};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

/// Bundles of one page of a list without their manifests.
const NAMES: u32 = 500;
/// Bundles of such a page that are read at a time.
const READS: usize = 4;
/// How long a watch lasts, in seconds: less than the client waits for a byte.
const WATCH: u32 = 290;
/// How long a page, or the beginning of a watch, may take: the slowest line brings a page in that time.
const PATIENCE: Duration = Duration::from_secs(90);
/// What was asked for is too far back.
const GONE: u16 = 410;
/// Too many requests, and a server that is not ready: it says nothing about where the watch was.
const PASSES: [u16; 2] = [429, 503];
/// As which an answer that does not come counts: something on the way may let lists through, and no watches.
const LATE: u16 = 504;
/// A watch that ends so soon was cut, whoever did it, and would be for ever.
const AT_ONCE: Duration = Duration::from_secs(1);
/// After this many refusals in a row the Bundles are listed: a version that is too far back may be answered in an unusual way.
const REFUSALS: u32 = 3;
/// How long after an outage the Bundles are listed, and the part of it by which agents differ: 1 to 5 minutes.
const LOOK_AFTER: (Duration, f64) = (Duration::from_secs(180), 2.0 / 3.0);

/// What a list or a watch says of a Bundle.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// It is this.
    Whole(Box<Delivered>),
    /// It is as it was: its name.
    Same(String),
}

/// Fingerprints of what is known, by name.
pub(crate) type Known = BTreeMap<String, u64>;

/// A number for what the metadata of a Bundle say. Who wrote what, and when, is among them: with the same resourceVersion they
/// are of one write, also where a hub was restored and counts its versions a second time.
pub(crate) fn fingerprint(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(metadata).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// The events of the Bundles. `known` says what is known when a list begins, nothing before anything was told; it is asked
/// again for each. `dead` tells that a watch which is open is dead. Whoever polls on after an error does so after a pause.
pub(crate) fn resuming(
    api: Api<Delivered>,
    known: impl Fn() -> Option<Known>,
    dead: watch::Receiver<u64>,
    jitter: SharedJitter,
) -> impl Stream<Item = watcher::Result<Event<Seen>>> {
    let feed = Feed {
        api,
        known,
        dead,
        jitter,
        quiet: Quiet::new(Instant::now()),
        opened: Instant::now(),
        state: State::Begin,
        ready: VecDeque::new(),
        refusals: 0,
        was_away: false,
        look_at: None,
    };
    stream::unfold(feed, |mut feed| async move {
        let next = feed.next().await;
        Some((next, feed))
    })
}

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Delivered>>> + Send>>;

enum State {
    /// Nothing of the hub's state is known to be complete.
    Begin,
    /// A list is under way; `None` in the place of what was known asks for whole Bundles.
    List {
        known: Option<Known>,
        token: Option<String>,
    },
    /// Everything up to this version was seen.
    Resume(String),
    Watch(String, Events),
}

struct Feed<F> {
    api: Api<Delivered>,
    known: F,
    dead: watch::Receiver<u64>,
    jitter: SharedJitter,
    quiet: Quiet,
    /// When the last watch was opened.
    opened: Instant,
    state: State,
    ready: VecDeque<Event<Seen>>,
    /// How many times in a row a watch was refused.
    refusals: u32,
    /// Whether no watch could be opened since one was.
    was_away: bool,
    /// When the Bundles are listed once more, after an outage.
    look_at: Option<Instant>,
}

impl<F: Fn() -> Option<Known>> Feed<F> {
    async fn next(&mut self) -> watcher::Result<Event<Seen>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            // Whoever fails on the way begins anew.
            self.state = match std::mem::replace(&mut self.state, State::Begin) {
                State::Begin => {
                    self.ready.push_back(Event::Init);
                    self.look_at = None;
                    State::List {
                        known: (self.known)(),
                        token: None,
                    }
                }
                State::List { known, token } => self.list(known, token).await?,
                State::Resume(version) => {
                    let params = WatchParams::default().timeout(WATCH);
                    // What is told from here on is about this one.
                    self.dead.borrow_and_update();
                    match soon(self.api.watch(&params, &version)).await {
                        Ok(events) => {
                            self.opened = Instant::now();
                            self.quiet.opened(self.opened);
                            self.is_back(self.opened);
                            State::Watch(version, Box::pin(events))
                        }
                        Err(error) => {
                            self.was_away = true;
                            let code = match &error {
                                kube::Error::Api(status) => Some(status.code),
                                kube::Error::Service(error) if error.is::<Elapsed>() => Some(LATE),
                                _ => None,
                            };
                            if !code.is_some_and(|code| self.is_too_far_back(code)) {
                                self.state = State::Resume(version);
                            }
                            return Err(Error::WatchStartFailed(error));
                        }
                    }
                }
                State::Watch(version, events) => self.watch(version, events).await?,
            };
        }
    }

    /// A watch is open: the Bundles are listed later if the hub was away, and not later still if it was away again meanwhile.
    fn is_back(&mut self, now: Instant) {
        if std::mem::take(&mut self.was_away) && self.look_at.is_none_or(|at| at <= now) {
            self.look_later(now);
        }
    }

    fn look_later(&mut self, now: Instant) {
        self.look_at = Some(now + spread(LOOK_AFTER.0, LOOK_AFTER.1, self.jitter.unit()));
    }

    /// Whether a refusal says, or may be taken to say, that the hub cannot go on from where the watch was.
    fn is_too_far_back(&mut self, code: u16) -> bool {
        if !PASSES.contains(&code) {
            self.refusals += 1;
        }
        code == GONE || self.refusals >= REFUSALS
    }

    /// One page of a list.
    async fn list(&mut self, known: Option<Known>, token: Option<String>) -> watcher::Result<State> {
        let page = |limit| {
            let params = ListParams::default().limit(limit);
            match &token {
                Some(token) => params.continue_token(token),
                None => params,
            }
        };
        let list = match &known {
            None => {
                let list = soon(self.api.list(&page(PAGE))).await;
                let list = list.map_err(Error::InitialListFailed)?;
                let seen = list
                    .items
                    .into_iter()
                    .map(|bundle| Event::InitApply(Seen::Whole(Box::new(bundle))));
                self.ready.extend(seen);
                list.metadata
            }
            Some(known) => {
                let list = soon(self.api.list_metadata(&page(NAMES))).await;
                let list = list.map_err(Error::InitialListFailed)?;
                let api = &self.api;
                let reads = list.items.into_iter().map(|found| {
                    let is_known = known.get(&found.name_any()) == Some(&fingerprint(&found.metadata));
                    read(api, found.metadata, is_known).boxed()
                });
                let reads: Vec<_> = reads.collect();
                let all: Vec<Read> = stream::iter(reads)
                    .buffered(READS)
                    .try_collect()
                    .await
                    .map_err(Error::InitialListFailed)?;
                // Where the hub was put back meanwhile, an event of something older than is known would be taken for late.
                if all.iter().any(|read| read.has_changed) {
                    self.look_later(Instant::now());
                }
                let seen = all.into_iter().map(|read| Event::InitApply(read.seen));
                self.ready.extend(seen);
                list.metadata
            }
        };
        if let Some(token) = list.continue_.filter(|token| !token.is_empty()) {
            return Ok(State::List {
                known,
                token: Some(token),
            });
        }
        let version = list.resource_version.filter(|version| !version.is_empty());
        let version = version.ok_or(Error::NoResourceVersion)?;
        self.ready.push_back(Event::InitDone);
        self.refusals = 0;
        Ok(State::Resume(version))
    }

    /// The next event of a watch.
    async fn watch(&mut self, version: String, mut events: Events) -> watcher::Result<State> {
        let at = |bundle: &Delivered| bundle.resource_version().unwrap_or_default();
        let next = tokio::select! {
            biased;
            next = events.next() => next,
            () = dies(&mut self.dead, self.quiet.dead_at()) => {
                self.quiet.given_up();
                // Nobody knows how long, or for what.
                self.was_away = true;
                return Ok(State::Resume(version));
            }
            () = comes(self.look_at) => return Ok(State::Begin),
        };
        let bookmark = matches!(next, Some(Ok(WatchEvent::Bookmark(_))));
        self.quiet.heard(bookmark, Instant::now());
        let (version, event) = match next {
            // It is open, so the hub answers.
            None if self.look_at.is_some_and(|at| at <= Instant::now()) => return Ok(State::Begin),
            None if self.opened.elapsed() < AT_ONCE => {
                self.state = State::Resume(version);
                return Err(Error::WatchFailed(ended_at_once()));
            }
            None => return Ok(State::Resume(version)),
            Some(Ok(WatchEvent::Added(bundle) | WatchEvent::Modified(bundle))) => {
                (at(&bundle), Some(Event::Apply(Seen::Whole(Box::new(bundle)))))
            }
            Some(Ok(WatchEvent::Deleted(bundle))) => {
                (at(&bundle), Some(Event::Delete(Seen::Whole(Box::new(bundle)))))
            }
            Some(Ok(WatchEvent::Bookmark(mark))) => (mark.metadata.resource_version, None),
            Some(Ok(WatchEvent::Error(status))) => {
                if !self.is_too_far_back(status.code) {
                    self.state = State::Resume(version);
                }
                return Err(Error::WatchError(status));
            }
            Some(Err(error)) => {
                // What one event says may be unreadable; the next ones need not be.
                self.state = State::Watch(version, events);
                return Err(Error::WatchFailed(error));
            }
        };
        self.refusals = 0;
        self.ready.extend(event);
        Ok(State::Watch(version, events))
    }
}

/// What a list without manifests says of one Bundle, once that is read.
struct Read {
    seen: Seen,
    /// It is another one than the list had.
    has_changed: bool,
}

/// Reads a Bundle that a list has, unless it is as it was. One that has changed since, or went, counts as it was: the watch that
/// follows tells that, and all else that happened between. A list is of one moment: an object that moved from one part of an
/// application to another would be in neither.
async fn read(api: &Api<Delivered>, listed: ObjectMeta, is_known: bool) -> kube::Result<Read> {
    let name = listed.name.unwrap_or_default();
    let as_it_was = |name, has_changed| Read {
        seen: Seen::Same(name),
        has_changed,
    };
    if is_known {
        return Ok(as_it_was(name, false));
    }
    let bundle = soon(api.get_opt(&name)).await?;
    Ok(match bundle {
        Some(bundle) if bundle.resource_version() == listed.resource_version => Read {
            seen: Seen::Whole(Box::new(bundle)),
            has_changed: false,
        },
        Some(_) => as_it_was(name, true),
        None => as_it_was(name, false),
    })
}

/// Done when a watch that is open is proved dead, or was quiet until then.
async fn dies(told: &mut watch::Receiver<u64>, quiet: Option<Instant>) {
    let proved = async {
        if told.changed().await.is_err() {
            // Whoever tells is gone, and so is the agent.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = proved => {}
        () = comes(quiet) => tracing::warn!(
            "the watch of Bundles was quiet for long, without a bookmark, and is opened anew; check what cuts connections in \
             silence on the way to the hub if this happens again"
        ),
    }
}

fn ended_at_once() -> kube::Error {
    kube::Error::Service(
        "the watch ended as soon as it was open; check what is between the agent and its hub".into(),
    )
}

/// An answer that may take its time, but not for ever: a connection can be dead in silence.
async fn soon<T>(answer: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let answer = timeout(PATIENCE, answer).await;
    answer.unwrap_or_else(|elapsed| Err(kube::Error::Service(Box::new(elapsed))))
}
