//! Unanswered: writes of Bundles that nobody has answered. Such a write may arrive minutes later, and is done then if nobody has
//! written the Bundle since: the removal from a cluster that has its place back, or new content for a cluster whose turn
//! another one has got. So before anything else is decided about the application, the Bundle is given another version than the
//! write names. One that is to be made has no version to be given: an application that is deleted, and a cluster that leaves, wait
//! for it instead.
//!
//! What a hub sent before it was killed is not known to the next one. Of two writes of one version the API server does one.

use super::{Key, bundles::Writer, error::PassError};
use crate::{dispatch::Observed, leader::NotLeading};
use futures::{StreamExt, stream};
use kube::{Api, Error};
use parking_lot::{Mutex, MutexGuard};
use roundhouse_api::{
    bundle::Bundle,
    late::{ARRIVES_WITHIN, is_decided},
    names::annotation,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How long the fence of one Bundle may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often the fence of a Bundle may fail before its application goes on without: an API server that refuses writes of one
/// object, by whatever defect, is not to stop those of others.
const TRIES: u32 = 3;
/// How soon what could not be fenced is tried again then.
const AGAIN: Duration = Duration::from_secs(30);

/// A write of a Bundle.
#[derive(Debug, Clone)]
struct Write {
    /// The version that it names.
    version: String,
    at: Instant,
    /// How often the Bundle could not be fenced.
    failed: u32,
}

/// What is open of some kind, by application and Bundle. Of an application of which nothing is, nothing is kept.
#[derive(Debug)]
struct Open<T>(Mutex<BTreeMap<Key, BTreeMap<Key, T>>>);

impl<T> Default for Open<T> {
    fn default() -> Self {
        Open(Mutex::default())
    }
}

impl<T> Open<T> {
    /// Something of a Bundle is open, or nothing any more; what was before.
    fn set(&self, application: &Key, bundle: &Key, what: Option<T>) -> Option<T> {
        let mut all = self.0.lock();
        let sent = all.entry(application.clone()).or_default();
        let before = match what {
            Some(what) => sent.insert(bundle.clone(), what),
            None => sent.remove(bundle),
        };
        if sent.is_empty() {
            all.remove(application);
        }
        before
    }

    /// What there is, without what can arrive no more.
    fn present(&self, at: impl Fn(&T) -> Instant) -> MutexGuard<'_, BTreeMap<Key, BTreeMap<Key, T>>> {
        let mut all = self.0.lock();
        all.retain(|_, sent| {
            sent.retain(|_, what| at(what).elapsed() < ARRIVES_WITHIN);
            !sent.is_empty()
        });
        all
    }
}

/// Bundles that were to be made, and when, shared with who removes the namespaces of clusters that leave: in one that goes nothing is
/// made that its agent could not be asked to let go any more.
#[derive(Debug, Clone, Default)]
pub struct Making(Arc<Made>);

#[derive(Debug, Default)]
struct Made {
    sent: Open<Instant>,
    /// Namespaces in which nothing is made any more.
    closed: Mutex<BTreeSet<String>>,
}

/// Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("the cluster of namespace {0} leaves: nothing is made in it any more")]
struct Closed(String);

impl Making {
    /// From now on nothing is made in this namespace; for how long something may yet be that was to be made before.
    pub(crate) fn close(&self, namespace: &str) -> Option<Duration> {
        self.0.closed.lock().insert(namespace.to_owned());
        let sent = self.0.sent.present(|at| *at);
        let all = sent.values().flatten();
        let last = all
            .filter(|((of, _), _)| of == namespace)
            .map(|(_, at)| *at)
            .max();
        last.map(remaining)
    }

    /// Bundles may be made in this namespace again.
    pub(crate) fn open(&self, namespace: &str) {
        self.0.closed.lock().remove(namespace);
    }
}

/// For how long what was sent then may arrive.
fn remaining(sent: Instant) -> Duration {
    ARRIVES_WITHIN.saturating_sub(sent.elapsed())
}

/// What has no answer, by the application that it is for.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// Writes that name a version.
    writes: Open<Write>,
    /// Bundles that were to be made.
    new: Making,
}

impl Unanswered {
    /// One that shares what is to be made.
    pub(super) fn sharing(new: Making) -> Unanswered {
        Unanswered {
            new,
            ..Unanswered::default()
        }
    }

    /// Sends a write of a Bundle that names its version. It counts as unanswered from its beginning, so also if nobody waits
    /// for it any more, until somebody who decides about it has answered. `is_another` says of an answer whether the Bundle has
    /// another version by it.
    pub(super) async fn watch<T>(
        &self,
        application: &Key,
        bundle: (&str, &str, &str),
        is_another: impl Fn(&T) -> bool,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (namespace, name, version) = bundle;
        let bundle = (namespace.to_owned(), name.to_owned());
        let earlier = self.begins(application, &bundle, version);
        let answer = request.await;
        // One that is refused, or changes nothing, says nothing of an earlier one.
        match &answer {
            Ok(answer) if is_another(answer) => self.settle(application, &bundle),
            Err(error) if is_undecided(error) => {}
            _ => drop(self.writes.set(application, &bundle, earlier)),
        }
        answer
    }

    /// Sends a Bundle that is to be made, unless its cluster leaves. Once it was not answered it may be made for ten minutes, as often
    /// as it is not there.
    pub(super) async fn watch_new<T, R: Future<Output = Result<T, Error>>>(
        &self,
        application: &Key,
        (namespace, name): (&str, &str),
        request: impl FnOnce() -> R,
    ) -> Result<T, Error> {
        let bundle = (namespace.to_owned(), name.to_owned());
        let Made { sent, closed } = &*self.new.0;
        // It is told before it is asked whether it may be sent, as who closes asks in the other order.
        let before = sent.set(application, &bundle, Some(Instant::now()));
        if closed.lock().contains(namespace) {
            sent.set(application, &bundle, before);
            return Err(Error::Service(Box::new(Closed(namespace.to_owned()))));
        }
        let answer = request().await;
        if !answer.as_ref().is_err_and(is_undecided) {
            sent.set(application, &bundle, before);
        }
        answer
    }

    /// For how long a Bundle of the application may yet be made.
    pub(super) fn may_be_made(&self, application: &Key) -> Option<Duration> {
        let sent = self.new.0.sent.present(|at| *at);
        sent.get(application)?.values().max().copied().map(remaining)
    }

    /// Notes a write; the earlier one of this version that is open.
    fn begins(&self, application: &Key, bundle: &Key, version: &str) -> Option<Write> {
        let write = Write {
            version: version.to_owned(),
            at: Instant::now(),
            failed: 0,
        };
        let earlier = self.writes.set(application, bundle, Some(write.clone()));
        let earlier = earlier.filter(|write| write.version == version);
        if let Some(Write { failed, .. }) = earlier {
            self.writes
                .set(application, bundle, Some(Write { failed, ..write }));
        }
        earlier
    }

    /// Those that may arrive.
    fn of(&self, application: &Key) -> BTreeMap<Key, Write> {
        let sent = self.writes.present(|write| write.at);
        sent.get(application).cloned().unwrap_or_default()
    }

    /// A Bundle could not be fenced; whether that has been tried often enough.
    fn fails(&self, application: &Key, bundle: &Key) -> bool {
        let mut all = self.writes.0.lock();
        let write = all.get_mut(application).and_then(|sent| sent.get_mut(bundle));
        write.is_none_or(|write| {
            write.failed = write.failed.saturating_add(1);
            write.failed >= TRIES
        })
    }

    fn settle(&self, application: &Key, bundle: &Key) {
        self.writes.set(application, bundle, None);
    }
}

/// Whether a write may have been done, or be done yet.
fn is_undecided(error: &Error) -> bool {
    match error {
        Error::Api(status) => !is_decided(status.code, &status.message),
        Error::Auth(_) | Error::BuildRequest(_) => false,
        // It was not sent.
        Error::Service(error) if error.is::<NotLeading>() => false,
        error => !is_unsent(error),
    }
}

/// Whether there was no connection to send anything on.
fn is_unsent(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        next = error.source();
    }
    false
}

impl Writer<'_> {
    /// Makes sure that no earlier write of this application's Bundles can be done any more. When it is to be tried again, if it
    /// could not be for some.
    ///
    /// # Errors
    /// The API server does not answer: it is not known, and nothing is decided before this was tried a few times.
    pub(super) async fn fence(self) -> Result<Option<Duration>, PassError> {
        let key = self.key;
        let unanswered = self.cache.unanswered();
        let open = stream::iter(unanswered.of(key)).map(|(bundle, write)| async move {
            let _place = self.places.acquire().await;
            let fenced = tokio::time::timeout(TIMEOUT, self.fence_one(&bundle, &write.version)).await;
            let fenced = fenced.unwrap_or_else(|_| {
                Err(PassError::Timeout {
                    application: format!("{}/{}", key.0, key.1),
                    seconds: TIMEOUT.as_secs(),
                })
            });
            (bundle, fenced)
        });
        let mut open = open.buffer_unordered(self.at_once);
        let (mut first, mut again) = (None, None);
        while let Some((bundle, fenced)) = open.next().await {
            match fenced {
                Ok(()) => unanswered.settle(key, &bundle),
                Err(error) if unanswered.fails(key, &bundle) => {
                    tracing::warn!(
                        %error,
                        "an earlier write of a bundle was not answered, and may be done yet"
                    );
                    again = Some(AGAIN);
                }
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        first.map_or(Ok(again), Err)
    }

    async fn fence_one(self, bundle: &Key, version: &str) -> Result<(), PassError> {
        let (namespace, name) = bundle;
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await;
        let found = found.map_err(|error| self.failed(error, "reading", namespace, name))?;
        let Some(found) = found else {
            self.cache.remove_bundle(bundle);
            return Ok(());
        };
        let Some(found) = Observed::of(found) else {
            return Ok(());
        };
        if found.resource_version != version {
            // It was done, or somebody else has written: what is decided now follows from that.
            self.cache.put_bundle(found);
            return Ok(());
        }
        let fence = json!({"annotations": {annotation::FENCED: version}});
        match self.patch(&found, "fencing", fence, Value::Null).await {
            // It is gone.
            Err(error) if error.is_gone() => Ok(()),
            // Also after a conflict: that somebody has written it is believed when it is seen. What is refused now may be
            // taken when the late one comes.
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::{
            cache::Cache,
            testing::{api_server, bundle, bundles_in, refusal, writer},
        },
        dispatch::removal,
    };
    use futures::FutureExt;
    use http::{Request, Response};
    use kube::{Client, ResourceExt, api::PostParams, client::Body};
    use roundhouse_api::bundle::Deletion;
    use std::sync::Arc;
    use tokio::sync::Semaphore;
    use tower::BoxError;

    /// What becomes of a write that is not answered.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fate {
        Arrives,
        IsLate,
    }

    type Held = Arc<Mutex<Option<Vec<Request<Vec<u8>>>>>>;

    /// A line on which writes are not answered as long as `held` keeps them.
    fn line(inner: Client, fate: Fate, held: Held) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, held) = (inner.clone(), held.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?.to_vec();
                let request = || Request::from_parts(head.clone(), Body::from(body.clone()));
                let is_lost = head.method != http::Method::GET
                    && match &mut *held.lock() {
                        Some(all) => {
                            all.push(Request::from_parts(head.clone(), body.clone()));
                            true
                        }
                        None => false,
                    };
                if !is_lost {
                    return inner.send(request()).await;
                }
                if fate == Fate::Arrives {
                    inner.send(request()).await?;
                }
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                Err(Error::Service(Box::new(reset)))
            }
            .boxed()
        });
        Client::new(service, "default")
    }

    /// How every write is answered.
    type Answer = fn() -> Result<Response<Body>, BoxError>;

    /// A line on which writes are answered like this, and nothing is done.
    fn refusing(inner: Client, answer: Answer) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let inner = inner.clone();
            async move {
                match *request.method() {
                    http::Method::GET => Ok(inner.send(request).await?),
                    _ => answer(),
                }
            }
            .boxed()
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_fence_that_is_refused_is_none() {
        let (_server, direct) = api_server().await;
        let key = ("default".to_owned(), "web".to_owned());
        let bundles = bundles_in(&direct, "cluster-c1").await;
        let made = bundles.create(&PostParams::default(), &bundle(&key)).await;
        let version = made.unwrap().resource_version().unwrap();
        let refused: [(Answer, bool); 5] = [
            (|| Ok(refusal(429, "later")), true),
            (|| Ok(refusal(403, "not now")), true),
            (|| Ok(refusal(500, "failed calling webhook \"w\": refused")), true),
            (|| Err(Box::new(NotLeading)), true),
            (|| Ok(refusal(404, "bundles \"default.web\" not found")), false),
        ];
        for (n, (answer, stays_open)) in refused.into_iter().enumerate() {
            let (cache, client) = (Cache::default(), refusing(direct.clone(), answer));
            let places = Semaphore::new(1);
            let writer = writer(&client, &cache, &key, &places);
            let lost = Error::Service("the connection was reset".into());
            let open = ("cluster-c1", "default.web", version.as_str());
            let sent = cache
                .unanswered()
                .watch(&key, open, |()| true, async { Err(lost) });
            sent.await.unwrap_err();
            assert_eq!(writer.fence().await.is_err(), stays_open, "{n}");
            assert_eq!(cache.unanswered().of(&key).len(), usize::from(stays_open), "{n}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_counts_from_when_it_was_sent_last() {
        let all = Unanswered::default();
        let web = ("default".to_owned(), "web".to_owned());
        let lost = || Error::Service("the connection was reset".into());
        let writes = |answer: Result<(), Error>| {
            all.watch(&web, ("cluster-c1", "web", "7"), |()| false, async { answer })
        };
        writes(Err(lost())).await.unwrap_err();
        tokio::time::advance(Duration::from_secs(500)).await;
        // One that is answered is over.
        writes(Ok(())).await.unwrap();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(all.of(&web).len(), 1);
        writes(Err(lost())).await.unwrap_err();
        tokio::time::advance(Duration::from_secs(590)).await;
        assert_eq!(all.of(&web).len(), 1);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(all.of(&web).is_empty());
        assert!(all.writes.0.lock().is_empty() && all.new.0.sent.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bundle_whose_making_nobody_answered_may_be_made_for_ten_minutes() {
        let all = Unanswered::default();
        let (web, shop) = (
            ("default".to_owned(), "web".to_owned()),
            ("default".to_owned(), "shop".to_owned()),
        );
        let sends =
            |answer: Result<(), Error>| all.watch_new(&web, ("cluster-c1", "web"), || async { answer });
        let lost = || Error::Service("the connection was reset".into());
        let refused = || Error::Service(Box::new(NotLeading));
        sends(Ok(())).await.unwrap();
        sends(Err(refused())).await.unwrap_err();
        let full = roundhouse_apiserver::WriteError::Refused("the disk is full".to_owned());
        let full = json!({"code": 503, "message": full.to_string()});
        let full = Error::Api(Box::new(serde_json::from_value(full).unwrap()));
        sends(Err(full)).await.unwrap_err();
        assert_eq!(all.may_be_made(&web), None, "who decides about it has answered");
        sends(Err(lost())).await.unwrap_err();
        assert_eq!(all.may_be_made(&web), Some(ARRIVES_WITHIN));
        tokio::time::advance(Duration::from_secs(60)).await;
        // What is answered now says nothing of what was sent a minute ago.
        sends(Ok(())).await.unwrap();
        sends(Err(refused())).await.unwrap_err();
        assert_eq!(all.may_be_made(&web), Some(Duration::from_secs(540)));
        assert_eq!(all.may_be_made(&shop), None);
        // It counts from its beginning, also if nobody waits for the answer any more.
        let given_up = all.watch_new(
            &shop,
            ("cluster-c1", "shop"),
            std::future::pending::<Result<(), Error>>,
        );
        assert!(given_up.now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(540)).await;
        assert_eq!(all.may_be_made(&web), None);
        assert_eq!(all.may_be_made(&shop), Some(Duration::from_secs(60)));
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_namespace_that_is_closed_nothing_is_made_and_what_may_yet_be_is_told() {
        let making = Making::default();
        let all = Unanswered::sharing(making.clone());
        let (web, shop) = (
            ("default".to_owned(), "web".to_owned()),
            ("default".to_owned(), "shop".to_owned()),
        );
        let lost = || async { Err::<(), _>(Error::Service("the connection was reset".into())) };
        all.watch_new(&web, ("cluster-c1", "web"), lost)
            .await
            .unwrap_err();
        tokio::time::advance(Duration::from_secs(60)).await;
        all.watch_new(&shop, ("cluster-c1", "shop"), lost)
            .await
            .unwrap_err();
        all.watch_new(&shop, ("cluster-c2", "shop"), lost)
            .await
            .unwrap_err();
        tokio::time::advance(Duration::from_secs(60)).await;
        for _ in 0..2 {
            assert_eq!(making.close("cluster-c1"), Some(Duration::from_secs(540)));
        }
        assert_eq!(making.close("cluster-c3"), None);
        // What is not sent counts for nothing.
        let unsent = || async { panic!("it was sent") };
        for namespace in ["cluster-c1", "cluster-c3"] {
            let sent = all.watch_new::<(), _>(&shop, (namespace, "shop"), unsent).await;
            assert!(sent.unwrap_err().to_string().contains("leaves"));
        }
        assert_eq!(making.close("cluster-c1"), Some(Duration::from_secs(540)));
        assert_eq!(making.close("cluster-c3"), None);
        all.watch_new(&web, ("cluster-c2", "web"), || async { Ok(()) })
            .await
            .unwrap();
        // Another cluster of its name.
        making.open("cluster-c3");
        all.watch_new(&web, ("cluster-c3", "web"), || async { Ok(()) })
            .await
            .unwrap();
        tokio::time::advance(Duration::from_secs(540)).await;
        assert_eq!(making.close("cluster-c1"), None);
    }

    #[tokio::test]
    async fn what_changes_nothing_says_nothing_of_an_earlier_write() {
        let all = Unanswered::default();
        let web = ("default".to_owned(), "web".to_owned());
        let bundle = ("cluster-c1", "web", "7");
        let writes = |answer: Result<bool, Error>| all.watch(&web, bundle, |moved| *moved, async { answer });
        writes(Ok(false)).await.unwrap();
        assert!(all.of(&web).is_empty(), "there was no earlier one");
        let lost = Error::Service("the connection was reset".into());
        writes(Err(lost)).await.unwrap_err();
        writes(Ok(false)).await.unwrap();
        assert_eq!(all.of(&web).len(), 1);
        writes(Ok(true)).await.unwrap();
        assert!(all.of(&web).is_empty());
    }

    #[tokio::test]
    async fn a_write_that_nobody_answered_is_not_done_any_more_when_the_next_pass_begins() {
        for fate in [Fate::IsLate, Fate::Arrives] {
            let (_server, direct) = api_server().await;
            let key = ("default".to_owned(), "web".to_owned());
            let bundles = bundles_in(&direct, "cluster-c1").await;
            let made = bundles.create(&PostParams::default(), &bundle(&key)).await;
            let made = made.unwrap();
            let observed = Arc::new(Observed::of(made).unwrap());
            let held: Held = Arc::new(Mutex::new(Some(Vec::new())));
            let (cache, client) = (Cache::default(), line(direct.clone(), fate, held.clone()));
            let places = Semaphore::new(1);
            let writer = writer(&client, &cache, &key, &places);
            // Its removal is not answered, and neither are the first tries to be sure of that, after which its application goes
            // on, also if the same is written once more.
            let evidence = removal::evidence("web-v1", Deletion::GARBAGE_COLLECTION);
            let remove = || writer.remove(vec![(observed.clone(), evidence.clone())]);
            let written = remove().await;
            assert!(
                written.error.is_some_and(|error| !error.is_conflict()),
                "{fate:?}"
            );
            for _ in 1..TRIES {
                assert_eq!(writer.fence().await.is_err(), fate == Fate::IsLate, "{fate:?}");
            }
            if fate == Fate::IsLate {
                for _ in 0..2 {
                    writer.fence().await.unwrap();
                    assert!(remove().await.error.is_some());
                }
            }
            let late = held.lock().take().unwrap();
            writer.fence().await.unwrap();
            let fenced = bundles.get("default.web").await.unwrap();
            let fence = fenced.annotations().get(annotation::FENCED);
            let expected = (fate == Fate::IsLate).then_some(&observed.resource_version);
            assert_eq!(fence, expected, "{fate:?}");
            for request in late {
                let answer = direct.send(request.map(Body::from)).await.unwrap();
                assert_eq!(answer.status(), http::StatusCode::CONFLICT, "{fate:?}");
            }
            writer.fence().await.unwrap();
            let after = bundles.get("default.web").await.unwrap();
            assert_eq!(after.resource_version(), fenced.resource_version(), "{fate:?}");
            assert_eq!(after.spec.deletion.is_some(), fate == Fate::Arrives, "{fate:?}");
        }
    }
}
