//! Watches: events go into the cache and wake the applications that they concern.

use super::{
    Key,
    cache::{Cache, Kind},
    placements::placement_resource,
    queue::Queue,
};
use crate::{
    dispatch::Slim,
    relist::{Watchable, key_of, trusted},
    silence::LASTS,
};
use futures::{
    Stream, StreamExt,
    stream::{self, select_all},
};
use kube::{
    Api, Client, ResourceExt,
    api::ApiResource,
    core::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::Application, cluster::Cluster, decision::Decision, definition::ComponentDefinition,
    revision::ApplicationRevision,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    panic::resume_unwind,
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinError,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Objects of one page of a list: a Bundle may weigh half a mebibyte.
const PAGE: u32 = 100;
/// Chunks of a page's size that wait to be taken in, at most; another one is being read then.
const AHEAD: usize = 2;

/// The clusters are not seen any more when lists and watches of them have failed for so long.
const BLIND: Duration = Duration::from_secs(30);
/// One that fails is tried again sooner than this: after at most 30 s and their jitter, and what the request takes.
const RETRIED: Duration = Duration::from_secs(120);

/// An object of one of the watched kinds.
#[derive(Debug)]
enum Seen {
    Application(Box<DynamicObject>),
    Bundle(Box<Slim>),
    Cluster(Box<Cluster>),
    Decision(Box<Decision>),
    Placement(Box<DynamicObject>),
    Definition(Box<ComponentDefinition>),
    Revision(Box<ApplicationRevision>),
}

/// One event.
#[derive(Debug)]
enum News {
    Put(Seen),
    Gone(Seen),
    /// With what is held: what this hub has made since may be missing in the list.
    ListBegins(BTreeSet<Key>),
    Listed(Seen),
    ListEnds,
    /// It could not be listed or watched; it is tried again.
    Failed,
}

/// The Application resource with its fields as they are, the unknown ones included.
pub(super) fn application_resource() -> ApiResource {
    ApiResource::erase::<Application>(&())
}

/// A list that is under way.
#[derive(Debug, Default)]
struct Listing {
    /// What was held when it began, and is asked for by its name where the list lacks it.
    before: BTreeSet<Key>,
    found: BTreeSet<Key>,
}

/// Whether the clusters are seen; pure.
#[derive(Debug, Default)]
struct Sight {
    /// The first of the failures that follow each other, and the last one.
    failing: Option<(Instant, Instant)>,
}

impl Sight {
    /// A list or a watch failed; whether it does for so long that nothing is seen any more.
    fn failed(&mut self, now: Instant) -> bool {
        let since = self.failing.filter(|(_, last)| now - *last < RETRIED);
        let since = since.map_or(now, |(since, _)| since);
        self.failing = Some((since, now));
        now - since >= BLIND
    }

    /// Something was seen.
    fn seen(&mut self) {
        self.failing = None;
    }

    /// When it is seen again although nothing comes: a watch that works says nothing of it.
    fn clears(&self) -> Option<Instant> {
        self.failing.map(|(_, last)| last + RETRIED)
    }
}

/// Feeds the cache until `shutdown`. Watches that break are made again with back-off; what is held stays meanwhile.
pub(super) async fn feed(client: Client, cache: &Cache, queue: &Queue, ready: &CancellationToken) {
    let mut streams = select_all([
        watch(cache, &client, dynamic, Kind::Application, |o| {
            Seen::Application(Box::new(o))
        }),
        watch(cache, &client, Api::<Slim>::all, Kind::Bundle, |o| {
            Seen::Bundle(Box::new(o))
        }),
        watch(cache, &client, Api::<Cluster>::all, Kind::Cluster, |o| {
            Seen::Cluster(Box::new(o))
        }),
        watch(cache, &client, Api::<Decision>::all, Kind::Decision, |o| {
            Seen::Decision(Box::new(o))
        }),
        watch(cache, &client, placements, Kind::Placement, |o| {
            Seen::Placement(Box::new(o))
        }),
        watch(
            cache,
            &client,
            Api::<ComponentDefinition>::all,
            Kind::Definition,
            |o| Seen::Definition(Box::new(o)),
        ),
        watch(
            cache,
            &client,
            Api::<ApplicationRevision>::all,
            Kind::Revision,
            |o| Seen::Revision(Box::new(o)),
        ),
    ]);
    let mut lists: BTreeMap<Kind, Listing> = BTreeMap::new();
    // How far a list of each kind came: one that fails and begins again shows nothing before it is further than that.
    let mut furthest: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut sight = Sight::default();
    loop {
        let clears = async {
            match sight.clears() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            next = streams.next() => next,
            () = clears => {
                sight.seen();
                wake_all(queue, ready, cache.see_clusters(true));
                continue;
            }
        };
        let Some((kind, news)) = next else { return };
        let mut wake = BTreeSet::new();
        let by_user = match &news {
            News::Put(seen) if kind == Kind::Application => Some(version(seen)),
            _ => None,
        };
        if kind == Kind::Cluster {
            match news {
                News::ListBegins(_) => {}
                News::Failed if sight.failed(Instant::now()) => wake = cache.see_clusters(false),
                News::Failed => {}
                _ => {
                    sight.seen();
                    wake_all(queue, ready, cache.see_clusters(true));
                }
            }
        }
        match news {
            News::Failed => {}
            // Who wrote it has gone on from there.
            News::Put(seen) if cache.holds(kind, &name(&seen), &version(&seen)) => {}
            News::Put(seen) => wake = put(cache, seen),
            News::Gone(seen) => {
                let (key, version) = (name(&seen), version(&seen));
                if !cache.holds_newer(kind, &key, &version) {
                    wake = gone(cache, queue, kind, &key);
                }
            }
            News::ListBegins(before) => {
                lists.insert(
                    kind,
                    Listing {
                        before,
                        found: BTreeSet::new(),
                    },
                );
            }
            News::Listed(seen) => {
                let found = &mut lists.entry(kind).or_default().found;
                found.insert(name(&seen));
                let furthest = furthest.entry(kind).or_default();
                if found.len() > *furthest {
                    *furthest = found.len();
                    cache.is_shown_one();
                }
                wake = put(cache, seen);
            }
            News::ListEnds => {
                // Only a whole list says that something is gone, of what was there before, and what it lacks was asked for.
                let listing = lists.remove(&kind).unwrap_or_default();
                for lost in listing.before.difference(&listing.found) {
                    wake.extend(gone(cache, queue, kind, lost));
                }
                if cache.listed(kind) {
                    ready.cancel();
                }
            }
        }
        match by_user.filter(|_| ready.is_cancelled()) {
            Some(version) => wake
                .into_iter()
                .for_each(|key| queue.add_now(key, version.clone())),
            None => wake_all(queue, ready, wake),
        }
    }
}

/// Before everything was listed once, nothing may be decided.
fn wake_all(queue: &Queue, ready: &CancellationToken, keys: BTreeSet<Key>) {
    if ready.is_cancelled() {
        for key in keys {
            queue.add(key);
        }
    }
}

fn put(cache: &Cache, seen: Seen) -> BTreeSet<Key> {
    match seen {
        Seen::Application(object) => {
            let version = object.resource_version().unwrap_or_default();
            let held = cache.put_application(*object);
            // What was made of it since is known, from the pass that did, or because it was heard of.
            let is_news = held.resource_version == version;
            is_news.then(|| held.key()).into_iter().collect()
        }
        Seen::Bundle(bundle) => bundle.observed().map(|o| cache.put_bundle(o)).unwrap_or_default(),
        Seen::Cluster(cluster) => cache.put_cluster(&cluster),
        Seen::Placement(object) => cache.put_placement(*object),
        Seen::Definition(definition) => match cache.put_definition(&definition) {
            true => cache.applications().into_iter().collect(),
            false => BTreeSet::new(),
        },
        Seen::Decision(decision) => cache.put_decision(*decision).into_iter().collect(),
        Seen::Revision(revision) => cache.put_revision(*revision).into_iter().collect(),
    }
}

fn gone(cache: &Cache, queue: &Queue, kind: Kind, key: &Key) -> BTreeSet<Key> {
    match kind {
        Kind::Application => {
            cache.remove_application(key);
            queue.forget(key);
            BTreeSet::from([key.clone()])
        }
        Kind::Bundle => cache.remove_bundle(key).into_iter().collect(),
        Kind::Cluster => cache.remove_cluster(&key.1),
        Kind::Placement => cache.remove_placement(key),
        Kind::Definition => match cache.remove_definition(key) {
            true => cache.applications().into_iter().collect(),
            false => BTreeSet::new(),
        },
        Kind::Decision => cache.lose_decision(key).into_iter().collect(),
        Kind::Revision => cache.remove_revision(key).into_iter().collect(),
    }
}

fn name(seen: &Seen) -> Key {
    match seen {
        Seen::Application(object) => key_of(object.as_ref()),
        Seen::Bundle(object) => key_of(object.as_ref()),
        Seen::Cluster(object) => key_of(object.as_ref()),
        Seen::Decision(object) => key_of(object.as_ref()),
        Seen::Placement(object) => key_of(object.as_ref()),
        Seen::Definition(object) => key_of(object.as_ref()),
        Seen::Revision(object) => key_of(object.as_ref()),
    }
}

fn version(seen: &Seen) -> String {
    let version = match seen {
        Seen::Application(object) => object.resource_version(),
        Seen::Bundle(object) => object.resource_version(),
        Seen::Cluster(object) => object.resource_version(),
        Seen::Decision(object) => object.resource_version(),
        Seen::Placement(object) => object.resource_version(),
        Seen::Definition(object) => object.resource_version(),
        Seen::Revision(object) => object.resource_version(),
    };
    version.unwrap_or_default()
}

fn dynamic(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &application_resource())
}

/// Placements with their fields as they are, the unknown ones included.
fn placements(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &placement_resource())
}

type Feed<'a> = Pin<Box<dyn Stream<Item = (Kind, News)> + Send + 'a>>;

fn watch<'a, K>(
    cache: &'a Cache,
    client: &Client,
    all: fn(Client) -> Api<K>,
    kind: Kind,
    seen: fn(K) -> Seen,
) -> Feed<'a>
where
    K: Watchable,
{
    let watched = cache.watched(kind);
    let api = all(watched.client(client));
    let events = watcher(
        api.clone(),
        watcher::Config::default().page_size(PAGE).timeout(LASTS),
    )
    .default_backoff();
    // What the list is compared with is looked at once: a Bundle that is made meanwhile is in neither.
    let held = Arc::new(Mutex::new(BTreeSet::new()));
    let begins_with = held.clone();
    let events = trusted(api, ahead(events), move || {
        let all = cache.held(kind);
        *begins_with.lock() = all.keys().cloned().collect();
        all
    });
    let news = events.inspect(watched.inspects()).map(Result::ok);
    Box::pin(news.map(move |event| {
        let news = match event {
            Some(Event::Apply(object)) => News::Put(seen(object)),
            Some(Event::Delete(object)) => News::Gone(seen(object)),
            Some(Event::Init) => News::ListBegins(std::mem::take(&mut *held.lock())),
            Some(Event::InitApply(object)) => News::Listed(seen(object)),
            Some(Event::InitDone) => News::ListEnds,
            None => News::Failed,
        };
        (kind, news)
    }))
}

/// Events that a task of its own reads ahead of who takes them in: a hub that starts reads a hundred thousand Bundles, and what
/// the next page says is made out while what the last one said is taken in.
fn ahead<T: Send + 'static>(events: impl Stream<Item = T> + Send + 'static) -> impl Stream<Item = T> + Send {
    let (told, news) = mpsc::channel(AHEAD);
    let reads = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut pages = Box::pin(events.ready_chunks(PAGE as usize));
        while let Some(page) = pages.next().await {
            if told.send(page).await.is_err() {
                return;
            }
        }
    }));
    let pages = stream::unfold((news, reads), |(mut news, reads)| async {
        let Some(page) = news.recv().await else {
            // It has ended as the stream has, or by a defect that is not to be kept quiet.
            let ended = reads.await.map_err(JoinError::try_into_panic);
            return match ended {
                Err(Ok(panic)) => resume_unwind(panic),
                _ => None,
            };
        };
        Some((stream::iter(page), (news, reads)))
    });
    pages.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{application::testing::refusal, leader::Leading, metrics::Metrics};
    use futures::FutureExt;
    use kube::client::Body;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_breaks_is_counted_and_a_definition_that_is_to_come_is_not() {
        for (code, counted) in [(500, true), (404, false)] {
            let service = tower::service_fn(move |_: http::Request<Body>| async move {
                Ok::<_, kube::Error>(refusal(code, "no"))
            });
            let (metrics, leading) = (Metrics::default(), Leading::default());
            let cache = Cache::new(metrics.clone(), leading);
            let client = Client::new(service, "default");
            let mut news = watch(&cache, &client, Api::<Cluster>::all, Kind::Cluster, |cluster| {
                Seen::Cluster(Box::new(cluster))
            });
            // That a list begins, and that it fails.
            for _ in 0..2 {
                assert!(news.next().await.is_some());
            }
            let line = "roundhouse_watches_broken_total{kind=\"Cluster\"} 1\n";
            assert_eq!(metrics.render().contains(line), counted, "{}", metrics.render());
        }
    }

    #[tokio::test]
    async fn what_is_read_ahead_comes_in_order_within_bounds_and_ends_with_who_takes_it() {
        let read = Arc::new(AtomicU32::new(0));
        let counts = read.clone();
        let numbers = stream::iter(0..10 * PAGE).chain(stream::pending());
        let numbers = numbers.inspect(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        let mut taken = Box::pin(ahead(numbers));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let most = PAGE * u32::try_from(AHEAD + 1).unwrap();
        assert!((1..=most).contains(&read.load(Ordering::Relaxed)), "{read:?}");
        for n in 0..PAGE * 4 {
            assert_eq!(taken.next().await, Some(n));
        }
        assert!(read.load(Ordering::Relaxed) <= PAGE * 4 + most);
        for n in PAGE * 4..PAGE * 10 {
            assert_eq!(taken.next().await, Some(n));
        }
        // Nothing comes any more, and nobody waits for it.
        assert!(taken.next().now_or_never().is_none());
        drop(taken);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&read), 1, "the task is gone");
        assert_eq!(
            ahead(stream::iter(0..250)).collect::<Vec<_>>().await,
            (0..250).collect::<Vec<_>>()
        );
    }

    #[test]
    fn clusters_are_not_seen_when_every_try_of_half_a_minute_failed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sight = Sight::default();
        assert_eq!(sight.clears(), None);
        assert!(!sight.failed(at(0)) && !sight.failed(at(29)) && sight.failed(at(31)));
        assert_eq!(sight.clears(), Some(at(31) + RETRIED));
        sight.seen();
        assert!(!sight.failed(at(40)));
        assert!(!sight.failed(at(200)), "the one before it has gone by");
    }
}
