//! Watches: events go into the cache and wake the applications that they concern.

use super::{
    Key,
    cache::{Cache, Kind},
    placements::placement_resource,
    queue::Queue,
};
use crate::{
    dispatch::Observed,
    relist::{key_of, trusted},
};
use futures::{Stream, StreamExt, stream::select_all};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ApiResource,
    core::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use roundhouse_api::{
    application::Application, bundle::Bundle, cluster::Cluster, decision::Decision,
    definition::ComponentDefinition, revision::ApplicationRevision,
};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    pin::Pin,
};
use tokio_util::sync::CancellationToken;

/// Objects of one page of a list: a Bundle may weigh half a mebibyte.
const PAGE: u32 = 100;

/// An object of one of the watched kinds.
#[derive(Debug)]
enum Seen {
    Application(Box<DynamicObject>),
    Bundle(Box<Bundle>),
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
    ListBegins,
    Listed(Seen),
    ListEnds,
}

/// The Application resource with its fields as they are, the unknown ones included.
pub(super) fn application_resource() -> ApiResource {
    ApiResource::erase::<Application>(&())
}

/// A list that is under way.
#[derive(Debug, Default)]
struct Listing {
    /// What was held when it began: what this hub has made since may be missing in it.
    before: BTreeSet<Key>,
    found: BTreeSet<Key>,
}

/// Feeds the cache until `shutdown`. Watches that break are made again with back-off; what is held stays meanwhile.
pub(super) async fn feed(client: Client, cache: &Cache, queue: &Queue, ready: &CancellationToken) {
    let mut streams = select_all([
        watch(cache, dynamic(&client), Kind::Application, |o| {
            Seen::Application(Box::new(o))
        }),
        watch(cache, Api::<Bundle>::all(client.clone()), Kind::Bundle, |o| {
            Seen::Bundle(Box::new(o))
        }),
        watch(cache, Api::<Cluster>::all(client.clone()), Kind::Cluster, |o| {
            Seen::Cluster(Box::new(o))
        }),
        watch(cache, Api::<Decision>::all(client.clone()), Kind::Decision, |o| {
            Seen::Decision(Box::new(o))
        }),
        watch(cache, placements(&client), Kind::Placement, |o| {
            Seen::Placement(Box::new(o))
        }),
        watch(
            cache,
            Api::<ComponentDefinition>::all(client.clone()),
            Kind::Definition,
            |o| Seen::Definition(Box::new(o)),
        ),
        watch(
            cache,
            Api::<ApplicationRevision>::all(client.clone()),
            Kind::Revision,
            |o| Seen::Revision(Box::new(o)),
        ),
    ]);
    let mut lists: BTreeMap<Kind, Listing> = BTreeMap::new();
    while let Some((kind, news)) = streams.next().await {
        let mut wake = BTreeSet::new();
        match news {
            // Who wrote it has gone on from there.
            News::Put(seen) if cache.holds(kind, &name(&seen), &version(&seen)) => {}
            News::Put(seen) => wake = put(cache, seen),
            News::Gone(seen) => {
                let (key, version) = (name(&seen), version(&seen));
                if !cache.holds_newer(kind, &key, &version) {
                    wake = gone(cache, kind, &key);
                }
            }
            News::ListBegins => {
                let before = cache.held(kind).into_keys().collect();
                lists.insert(
                    kind,
                    Listing {
                        before,
                        found: BTreeSet::new(),
                    },
                );
            }
            News::Listed(seen) => {
                lists.entry(kind).or_default().found.insert(name(&seen));
                wake = put(cache, seen);
            }
            News::ListEnds => {
                // Only a whole list says that something is gone, of what was there before, and what it lacks was asked for.
                let listing = lists.remove(&kind).unwrap_or_default();
                for lost in listing.before.difference(&listing.found) {
                    wake.extend(gone(cache, kind, lost));
                }
                if cache.listed(kind) {
                    ready.cancel();
                }
            }
        }
        // Before everything was listed once, nothing may be decided.
        if ready.is_cancelled() {
            for key in wake {
                queue.add(key);
            }
        }
    }
}

fn put(cache: &Cache, seen: Seen) -> BTreeSet<Key> {
    match seen {
        Seen::Application(object) => BTreeSet::from([cache.put_application(*object).key()]),
        Seen::Bundle(bundle) => Observed::of(*bundle)
            .map(|o| cache.put_bundle(o))
            .unwrap_or_default(),
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

fn gone(cache: &Cache, kind: Kind, key: &Key) -> BTreeSet<Key> {
    match kind {
        Kind::Application => {
            cache.remove_application(key);
            BTreeSet::from([key.clone()])
        }
        Kind::Bundle => cache.remove_bundle(key).into_iter().collect(),
        Kind::Cluster => cache.remove_cluster(&key.1),
        Kind::Placement => cache.remove_placement(key),
        Kind::Definition => match cache.remove_definition(key) {
            true => cache.applications().into_iter().collect(),
            false => BTreeSet::new(),
        },
        Kind::Decision => cache.remove_decision(key).into_iter().collect(),
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

fn dynamic(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &application_resource())
}

/// Placements with their fields as they are, the unknown ones included.
fn placements(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &placement_resource())
}

/// Whether the API server does not know the kind.
fn is_missing(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}

type Feed<'a> = Pin<Box<dyn Stream<Item = (Kind, News)> + Send + 'a>>;

fn watch<K>(cache: &Cache, api: Api<K>, kind: Kind, seen: fn(K) -> Seen) -> Feed<'_>
where
    K: Resource + ResourceExt + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api.clone(), watcher::Config::default().page_size(PAGE)).default_backoff();
    let events = trusted(api, events, move || cache.held(kind));
    // Of a kind that was never there: a hub that starts on an empty API server has yet to install it.
    let mut awaited = true;
    let news = events
        .inspect(move |event| match event {
            Err(error) if awaited && is_missing(error) => {
                tracing::debug!(?kind, %error, "the definition is not there yet");
            }
            Err(error) => tracing::warn!(?kind, %error, "a watch broke, it is made again"),
            // A list that begins says nothing yet.
            Ok(Event::Init) => {}
            Ok(_) => awaited = false,
        })
        .filter_map(|event| std::future::ready(event.ok()));
    Box::pin(news.map(move |event| {
        let news = match event {
            Event::Apply(object) => News::Put(seen(object)),
            Event::Delete(object) => News::Gone(seen(object)),
            Event::Init => News::ListBegins,
            Event::InitApply(object) => News::Listed(seen(object)),
            Event::InitDone => News::ListEnds,
        };
        (kind, news)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_known_is_told_from_one_that_may_not_be_listed() {
        let answer = |code: u16| {
            let status = serde_json::json!({"code": code, "message": "no"});
            kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
        };
        assert!(is_missing(&watcher::Error::InitialListFailed(answer(404))));
        assert!(is_missing(&watcher::Error::WatchStartFailed(answer(404))));
        for error in [
            watcher::Error::InitialListFailed(answer(403)),
            watcher::Error::WatchStartFailed(answer(500)),
            watcher::Error::NoResourceVersion,
        ] {
            assert!(!is_missing(&error), "{error}");
        }
    }
}
