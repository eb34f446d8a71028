//! Lists that do not go back in time. A watch that is begun anew begins with a list, and an API server whose cache fell behind
//! answers with what there was some time ago: objects in an earlier version, without those that were made since. What is held
//! and not in a list, or older there, is asked for by its name before it is believed, and the list is not complete before that
//! is answered.

use futures::{Stream, StreamExt, TryStreamExt, stream};
use http::Request;
use kube::{
    Api, Client, Error, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Debug,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

/// What can be watched and listed.
pub(crate) trait Watchable: Resource + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watchable for K {}

/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type Key = (String, String);

/// Objects that are held, with their versions.
pub(crate) type Held = BTreeMap<Key, String>;

/// Objects that are asked for at a time.
const AT_ONCE: usize = 16;
/// First and longest pause before an object is asked for again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

pub(crate) fn key_of<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether a resourceVersion is older than the one that is held. Versions of one kind are numbers that grow (Kubernetes
/// KEP-5504); where they are not, the later event counts.
pub(crate) fn older(held: &str, new: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    match (number(held), number(new)) {
        (Some(held), Some(new)) => new < held,
        _ => false,
    }
}

/// A list that is under way; pure.
#[derive(Debug, Default)]
struct Listing {
    /// What was held when it began, without what it has shown.
    missing: Held,
    /// What it has shown in an older version.
    doubtful: BTreeSet<Key>,
}

impl Listing {
    /// Whether an object that the list shows is to be taken as it is.
    fn shows(&mut self, key: &Key, version: &str) -> bool {
        let held = self.missing.remove(key);
        let is_older = held.is_some_and(|held| older(&held, version));
        if is_older {
            self.doubtful.insert(key.clone());
        }
        !is_older
    }

    /// What is to be asked for.
    fn asked(self) -> BTreeSet<Key> {
        self.missing.into_keys().chain(self.doubtful).collect()
    }
}

/// The events of a watch, with lists that do not go back. `held` says what is held when a list begins.
pub(crate) fn trusted<'a, K, S>(
    api: Api<K>,
    events: S,
    held: impl Fn() -> Held + Send + 'a,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'a
where
    K: Watchable,
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'a,
{
    let feed = Feed {
        collection: api.resource_url().to_owned(),
        client: api.into_client(),
        events: Box::pin(events),
        held,
        listing: Listing::default(),
        ready: VecDeque::new(),
    };
    stream::unfold(feed, |mut feed| async move {
        let next = feed.next().await?;
        Some((next, feed))
    })
}

/// The same for who holds what these events say and nothing else.
pub(crate) fn remembering<K>(
    api: Api<K>,
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static
where
    K: Watchable,
{
    let memory = Arc::new(Mutex::new(Memory::default()));
    let known = memory.clone();
    let events = trusted(api, events, move || known.lock().held.clone());
    events.inspect_ok(move |event| memory.lock().take(event))
}

/// What events have said.
#[derive(Debug, Default)]
struct Memory {
    held: Held,
    listed: Held,
}

impl Memory {
    fn take<K: ResourceExt>(&mut self, event: &Event<K>) {
        let version = |object: &K| object.resource_version().unwrap_or_default();
        match event {
            Event::Apply(object) => {
                self.held.insert(key_of(object), version(object));
            }
            Event::Delete(object) => {
                self.held.remove(&key_of(object));
            }
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.insert(key_of(object), version(object));
            }
            Event::InitDone => self.held = std::mem::take(&mut self.listed),
        }
    }
}

struct Feed<K, S, H> {
    client: Client,
    /// The path of all objects of the kind.
    collection: String,
    events: Pin<Box<S>>,
    held: H,
    listing: Listing,
    ready: VecDeque<Event<K>>,
}

impl<K, S, H> Feed<K, S, H>
where
    K: Watchable,
    S: Stream<Item = watcher::Result<Event<K>>>,
    H: Fn() -> Held,
{
    async fn next(&mut self) -> Option<watcher::Result<Event<K>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            match event {
                Event::Init => {
                    self.listing = Listing {
                        missing: (self.held)(),
                        ..Listing::default()
                    };
                    self.ready.push_back(Event::Init);
                }
                Event::InitApply(object) => {
                    let version = object.resource_version().unwrap_or_default();
                    if self.listing.shows(&key_of(&object), &version) {
                        self.ready.push_back(Event::InitApply(object));
                    }
                }
                Event::InitDone => {
                    let asked = std::mem::take(&mut self.listing).asked();
                    let found: Vec<Option<K>> = stream::iter(asked)
                        .map(|key| ask(&self.client, &self.collection, key))
                        .buffered(AT_ONCE)
                        .collect()
                        .await;
                    let found = found.into_iter().flatten();
                    self.ready.extend(found.map(Event::InitApply));
                    self.ready.push_back(Event::InitDone);
                }
                other => self.ready.push_back(other),
            }
        }
    }
}

/// An object as it is now; `None` if it is gone. There is no other end of it: what cannot be asked for is held.
async fn ask<K: DeserializeOwned>(client: &Client, collection: &str, (namespace, name): Key) -> Option<K> {
    let path = path_of(collection, &namespace, &name);
    let mut pause = PAUSE.0;
    loop {
        let error = match Request::get(&path).body(Vec::new()) {
            Ok(request) => match client.request::<K>(request).await {
                Ok(object) => return Some(object),
                Err(Error::Api(status)) if status.code == 404 => return None,
                Err(error) => error,
            },
            Err(error) => Error::HttpError(error),
        };
        tracing::warn!(path, %error, "what a list does not show any more is not known to be gone, and is held until it is");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// The path of an object, from that of all objects of its kind.
fn path_of(collection: &str, namespace: &str, name: &str) -> String {
    match (collection.rsplit_once('/'), namespace) {
        (Some((group, kind)), namespace) if !namespace.is_empty() => {
            format!("{group}/namespaces/{namespace}/{kind}/{name}")
        }
        _ => format!("{collection}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("ns".to_owned(), name.to_owned())
    }

    #[test]
    fn what_a_list_lacks_or_shows_in_an_older_version_is_asked_for() {
        let held = [("gone", "3"), ("newer", "9"), ("older", "5"), ("same", "4")];
        let mut listing = Listing {
            missing: held.map(|(name, version)| (key(name), version.to_owned())).into(),
            ..Listing::default()
        };
        assert!(listing.shows(&key("newer"), "10"));
        assert!(!listing.shows(&key("older"), "4"));
        assert!(listing.shows(&key("same"), "4"));
        assert!(listing.shows(&key("unknown"), "1"));
        assert_eq!(listing.asked(), BTreeSet::from([key("gone"), key("older")]));
    }

    #[test]
    fn versions_are_numbers_and_what_is_none_is_never_older() {
        assert!(older("10", "9") && !older("9", "10") && !older("9", "9"));
        assert!(!older("b", "a") && !older("", "1"));
    }

    #[test]
    fn an_object_has_its_path_below_that_of_its_kind() {
        let all = "/apis/roundhouse.dev/v1alpha1/bundles";
        assert_eq!(
            path_of(all, "cluster-c1", "default.web"),
            "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles/default.web"
        );
        assert_eq!(path_of("/api/v1/namespaces", "", "a"), "/api/v1/namespaces/a");
    }
}
