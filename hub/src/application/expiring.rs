//! Deletes hand-written Bundles whose time after completion is over. Agents may not delete Bundles; what becomes of the
//! objects is what becomes of them at any deletion of the Bundle.

use super::{
    Key,
    cache::Cache,
    tries::{Tried, Tries},
};
use crate::{
    dispatch::{Observed, expiry},
    writes,
};
use jiff::Timestamp;
use kube::{Api, Client};
use roundhouse_api::{bundle::Bundle, clock::SharedClock};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The longest sleep: the clock may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(600);

/// When a Bundle was first seen complete.
type Seen = BTreeMap<Key, (String, Timestamp, Timestamp)>;

/// Runs for ever; wakes when the cache says that such a Bundle changed, and when one is due.
pub(super) async fn expire(client: Client, cache: &Cache, clock: SharedClock) {
    let mut seen = Seen::new();
    let mut tries = Tries::default();
    loop {
        let bundles = cache.expiring();
        let now = clock.now();
        let mut pause = LONGEST;
        let mut over = Vec::new();
        for (bundle, when) in due(&bundles, &mut seen, now) {
            if when > now {
                let left = Duration::try_from(when.duration_since(now)).unwrap_or(LONGEST);
                pause = pause.min(left);
            } else {
                over.push(bundle.clone());
            }
        }
        tries.retain(&over);
        over.retain(|bundle| tries.is_due(bundle));
        let told = |bundle: &Observed, done: Tried<()>| {
            let (namespace, bundle) = (&bundle.namespace, &bundle.name);
            match done {
                Ok(()) => tracing::info!(
                    namespace,
                    bundle,
                    "deleted: it is complete, and its ttlSecondsAfterFinished is over"
                ),
                Err((error, again)) => {
                    tracing::warn!(namespace, bundle, %error, ?again, "not deleted yet");
                }
            }
        };
        tries
            .write(over, |bundle| delete(client.clone(), bundle), told)
            .await;
        tokio::select! {
            biased;
            () = cache.expiring_changed() => {}
            () = tries.next() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// When each is due, of those that are complete.
fn due<'a>(
    bundles: &'a [Arc<Observed>],
    seen: &mut Seen,
    now: Timestamp,
) -> Vec<(&'a Arc<Observed>, Timestamp)> {
    let mut kept = Seen::new();
    let mut due = Vec::new();
    for bundle in bundles {
        let Some(since) = expiry::complete_since(bundle) else {
            continue;
        };
        let key = bundle.key();
        let known = seen
            .remove(&key)
            .filter(|(uid, at, _)| *uid == bundle.uid && *at == since);
        let (.., first) = kept
            .entry(key)
            .or_insert(known.unwrap_or((bundle.uid.clone(), since, now)));
        due.extend(expiry::expires_at(bundle, *first).map(|when| (bundle, when)));
    }
    *seen = kept;
    due
}

/// Only this very Bundle, as it was judged: one that changed meanwhile is judged again.
async fn delete(client: Client, bundle: Arc<Observed>) -> Result<(), kube::Error> {
    let api: Api<Bundle> = Api::namespaced(client, &bundle.namespace);
    let params = writes::delete_version(Some(bundle.uid.clone()), Some(bundle.resource_version.clone()));
    match api.delete(&bundle.name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::testing::{bundle, refusal},
        simulate::TokioClock,
    };
    use kube::client::Body;
    use roundhouse_api::bundle::{BundleStatus, DeleteOption};
    use serde_json::json;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A Bundle with a time to live of none, complete or not.
    fn expiring(name: &str, version: u32, complete: bool) -> Observed {
        let mut expiring = bundle(&("default".to_owned(), name.to_owned()));
        expiring.metadata.namespace = Some("cluster-c1".to_owned());
        expiring.metadata.name = Some(name.to_owned());
        expiring.metadata.generation = Some(1);
        expiring.metadata.resource_version = Some(version.to_string());
        expiring.spec.application_ref = None;
        expiring.spec.delete_option = Some(DeleteOption {
            ttl_seconds_after_finished: Some(0),
            ..DeleteOption::default()
        });
        let word = if complete { "True" } else { "False" };
        let status = json!({"observedGeneration": 1, "conditions": [{"type": "Complete", "status": word, "reason": "R",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let status: BundleStatus = serde_json::from_value(status).unwrap();
        expiring.status = Some(status);
        Observed::of(expiring).unwrap()
    }

    /// It has failed, and is complete no more: nothing is waited for that is past, which would leave nobody else a turn.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_due_any_more_when_it_would_be_tried_again_is_no_work() {
        let asked: Arc<AtomicU32> = Arc::default();
        let counts = asked.clone();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            counts.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, kube::Error>(refusal(409, "no")) }
        });
        let cache = Cache::default();
        cache.put_bundle(expiring("again", 7, true));
        let clock: SharedClock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:01Z".parse().unwrap()));
        let other = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The next Job of that name.
            cache.put_bundle(expiring("again", 8, false));
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            cache.put_bundle(expiring("again", 9, true));
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let looks = AtomicU32::new(0);
        let expires = expire(Client::new(service, "default"), &cache, clock);
        tokio::pin!(expires);
        let counted = std::future::poll_fn(|cx| {
            looks.fetch_add(1, Ordering::Relaxed);
            assert!(looks.load(Ordering::Relaxed) < 1_000, "it never rests");
            expires.as_mut().poll(cx)
        });
        tokio::select! {
            biased;
            () = counted => {}
            () = other => {}
        }
        assert_eq!(
            asked.load(Ordering::Relaxed),
            2,
            "once for each that was complete"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_tried_again_ever_more_rarely_whatever_else_happens_and_holds_up_nothing() {
        let asked: Arc<[AtomicU32; 3]> = Arc::default();
        let counts = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            let (which, hangs) = match name {
                "refused" => (0, false),
                "hangs" => (1, true),
                _ => (2, false),
            };
            counts[which].fetch_add(1, Ordering::Relaxed);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                let code = if which == 0 { 403 } else { 404 };
                Ok::<_, kube::Error>(refusal(code, "no"))
            }
        });
        let cache = Cache::default();
        for name in ["hangs", "refused", "goes"] {
            cache.put_bundle(expiring(name, 7, true));
        }
        let clock: SharedClock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:01Z".parse().unwrap()));
        let other = async {
            for n in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                cache.put_bundle(expiring("other", n, false));
            }
            std::future::pending::<()>().await;
        };
        let client = Client::new(service, "default");
        let both = futures::future::join(expire(client, &cache, clock), other);
        let ended = tokio::time::timeout(Duration::from_secs(1_800), both).await;
        assert!(ended.is_err(), "it runs for ever");
        let asked: Vec<u32> = asked.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert!((8..=12).contains(&asked[0]), "refused {asked:?}");
        assert!((6..=12).contains(&asked[1]), "hangs {asked:?}");
        assert_eq!(asked[2], 1, "{asked:?}");
    }
}
